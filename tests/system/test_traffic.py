"""Traffic in bulk: TCP and UDP with offloads, frame order, fairness, bursts, a full pool, and the two ledgers."""
import hashlib
import os
import random
import signal
import socket
import threading
import time

import pytest

from bed import finish, result, wait_for
from frame import BROADCAST, numbered

CHUNK = 1 << 20
PREFIXES = {4: "10.99.1.", 6: "fd00:99::"}


def ip_pair(bed, mtu, family):
    """Two hosts with addresses of the family."""
    pair = [bed.host(number, ipv6=True, mtu=mtu) for number in (1, 2)]
    for host in pair:
        length, extra = (24, ()) if family == 4 else (64, ("nodad",))
        host.address = PREFIXES[family] + str(host.number)
        host.pod.run("ip", "addr", "add", f"{host.address}/{length}", "dev", "eth0", *extra)
    return pair


def inet_socket(host, family, kind):
    with host.pod.entered():
        made = socket.socket(socket.AF_INET if family == 4 else socket.AF_INET6, kind)
    made.settimeout(30)
    return made


def tcp_digests(sender, receiver, family, size):
    """SHA-256 of what was sent and of what came over one TCP connection."""
    digests = {}
    listener = inet_socket(receiver, family, socket.SOCK_STREAM)
    listener.bind((receiver.address, 9000))
    listener.listen(1)

    def receive():
        connection, _ = listener.accept()
        connection.settimeout(30)
        digest, buffer = hashlib.sha256(), bytearray(CHUNK)
        with connection:
            while length := connection.recv_into(buffer):
                digest.update(memoryview(buffer)[:length])
        digests["received"] = digest.hexdigest()

    thread = threading.Thread(target=receive)
    thread.start()
    digest, block = hashlib.sha256(), os.urandom(CHUNK)
    with listener, inet_socket(sender, family, socket.SOCK_STREAM) as connection:
        connection.connect((receiver.address, 9000))
        for number in range(size // CHUNK):
            piece = block[number % 4096 :] + block[: number % 4096]  # no two pieces alike
            digest.update(piece)
            connection.sendall(piece)
        connection.shutdown(socket.SHUT_WR)
        thread.join(60)
    digests["sent"] = digest.hexdigest()
    return digests


CHECKSUM_ERRORS = ("TcpInCsumErrors", "UdpInCsumErrors", "Udp6InCsumErrors", "IcmpInCsumErrors", "IpExtInCsumErrors")


@pytest.mark.parametrize("mtu", [1500, 9000])
@pytest.mark.parametrize("family", [4, 6])
def test_br03_tcp_256_mib_each_way(bed, family, mtu):
    """BR-03: super-frames cross whole; hardly anything is sent again; no checksum error."""
    one, two = ip_pair(bed, mtu, family)
    before = {host: host.pod.snmp("TcpRetransSegs", "TcpOutSegs", *CHECKSUM_ERRORS) for host in (one, two)}
    for sender, receiver in ((one, two), (two, one)):
        digests = tcp_digests(sender, receiver, family, 256 << 20)
        assert digests["received"] == digests["sent"]
    for host, earlier in before.items():
        now = host.pod.snmp(*earlier)
        segments, again = (now[name] - earlier[name] for name in ("TcpOutSegs", "TcpRetransSegs"))
        assert again < segments / 1000, f"{again} of {segments} segments sent again"
        assert all(now[name] == earlier[name] for name in CHECKSUM_ERRORS), now
    # Alone on the switch, a pod's first multicasts have nowhere to go.
    assert set(one.drops()) | set(two.drops()) <= {"no_egress_port"}
    # TSO is on in the pods and was used: far fewer frames than segments of one MTU.
    assert one.counters().receive_frames < 2 * (256 << 20) / mtu / 2


@pytest.mark.parametrize("mtu", [1500, 9000])
@pytest.mark.parametrize("family", [4, 6])
def test_udp_datagrams_of_every_size(bed, family, mtu, long_tier):
    """1 to 9000 bytes: fragments with MTU 1500, single frames with MTU 9000; contents equal, no checksum error."""
    one, two = ip_pair(bed, mtu, family)
    before = two.pod.snmp(*CHECKSUM_ERRORS)
    picked = set(range(1, 130)) | set(range(1440, 1520)) | set(range(8940, 9001))
    picked |= set(random.Random(1).sample(range(1, 9001), 600))
    sizes = range(1, 9001) if long_tier else sorted(picked)
    pattern = os.urandom(9000)
    with inet_socket(one, family, socket.SOCK_DGRAM) as sender, inet_socket(two, family, socket.SOCK_DGRAM) as receiver:
        receiver.bind((two.address, 9001))
        receiver.settimeout(1)
        for size in sizes:
            sender.sendto(pattern[:size], (two.address, 9001))
            assert receiver.recv(65535) == pattern[:size], size
    assert two.pod.snmp(*CHECKSUM_ERRORS) == before


def test_udp_segmentation_offload_crosses(bed):
    """A UDP_SEGMENT send of one pod arrives as the datagrams it stands for."""
    one, two = ip_pair(bed, 1500, 4)
    with inet_socket(one, 4, socket.SOCK_DGRAM) as sender, inet_socket(two, 4, socket.SOCK_DGRAM) as receiver:
        receiver.bind((two.address, 9001))
        sender.setsockopt(socket.SOL_UDP if hasattr(socket, "SOL_UDP") else 17, 103, 1000)  # UDP_SEGMENT
        payload = os.urandom(20_000)
        sender.sendto(payload, (two.address, 9001))
        assert b"".join(receiver.recv(65535) for _ in range(20)) == payload


def settled_totals(bed):
    """The ledgers' terms once nothing moves any more."""

    def unchanged():
        first = bed.totals()
        time.sleep(0.1)
        return first if bed.totals() == first else None

    return wait_for(unchanged, 10, "counters settle")


EGRESS_REASONS = ("egress_", "transmit_rate_exceeded")


def assert_ledgers(bed, flooded_only=True):
    """Design: received = forwarded + ingress drops; copies queued = transmitted + egress drops; buffers all accounted for."""
    totals = settled_totals(bed)
    egress = sum(frames for reason, frames in totals["drops"].items() if reason.startswith(EGRESS_REASONS))
    ingress = sum(totals["drops"].values()) - egress
    if flooded_only:
        assert totals["receive"] == totals["flooded"] + ingress, totals
        assert totals["copies"] == totals["transmit"] + egress, totals
    # What the pods' kernels count is what the switch counts.
    for host in bed.hosts.values():
        counters = host.counters()
        assert host.pod.counter("tx_packets") == counters.receive_frames + counters.device_lost_frames, host.port
        assert host.pod.counter("rx_packets") + host.pod.counter("rx_dropped") >= counters.transmit_frames, host.port
    for worker in bed.agent.client.info.GetAgentInfo().info.workers:
        assert worker.buffers_held == 0
    return totals


def assert_all_answer(bed, probes=20):
    """Each port's numbered broadcasts reach all others, in order."""
    for host in bed.hosts.values():
        host.wire.drain()
    for host in bed.hosts.values():
        host.wire.send(*(numbered(number, host.mac) for number in range(probes)))
        expected = [numbered(number, host.mac) for number in range(probes)]
        for other in bed.hosts.values():
            if other is not host:
                assert other.wire.receive(probes, quiet=0) == expected, f"{host.port} to {other.port}"


@pytest.mark.parametrize("workers", [1, 2])
def test_64_ports_broadcast_with_the_smallest_pool(beds, long_tier, workers):
    """200 000 broadcasts/s into 64 ports and 16 buffers: overload costs frames, never the agent, a port or the books.

    S-12: nor does the kernel start threads of its own for the ring.
    """
    bed = beds("--buffers-per-worker", "16", "--workers", str(workers))
    bed.host_list(64)
    seconds = 20 if long_tier else 5
    started = time.monotonic()
    load = bed.hosts[1].send_load(rate=200_000, seconds=seconds)
    slowest = 0
    while load.poll() is None:
        before = time.monotonic()
        bed.agent.client.ports.ListPorts()
        bed.agent.client.ports.GetPort(name="p7")
        bed.agent.client.info.GetAgentInfo()
        slowest = max(slowest, time.monotonic() - before)
        time.sleep(0.05)
        assert time.monotonic() - started < seconds + 20
    assert bed.agent.kernel_thread_count() <= 2
    sent = result(load)
    assert slowest < 1.0, f"three API calls took {slowest:.2f} s"
    totals = assert_ledgers(bed)
    assert totals["receive"] > 0.01 * sent["sent"]
    assert totals["copies"] == 63 * totals["flooded"]
    dropped = bed.hosts[1].pod.counter("tx_dropped")
    assert totals["receive"] + dropped == sent["sent"], (totals, sent, dropped)
    assert_all_answer(bed, probes=3)
    assert_ledgers(bed)
    print(f"sent {sent['sent']}, received {totals['receive']}, copies {totals['copies']}, slowest calls {slowest * 1e3:.0f} ms")


def pin(process, cpu):
    """Keeps a process, all its threads, on one processor."""
    for thread in os.listdir(f"/proc/{process.pid}/task"):
        os.sched_setaffinity(int(thread), {cpu})


def assert_equal_shares(bed, senders, destination):
    """All at full rate, by one process in turn, which offers the same to each: each within 20 % of its share of what is received."""
    load = senders[0].send_load(destination=destination, seconds=5, namespaces=",".join(host.pod.path for host in senders))
    pin(bed.agent.process, 0)
    pin(load, 1)
    time.sleep(1)
    before = [host.counters().receive_frames for host in senders]
    time.sleep(3)
    shares = [host.counters().receive_frames - earlier for host, earlier in zip(senders, before)]
    sent = result(load)["sent"]
    print(f"frames in 3 s: {shares}; sent in 5 s: {sent}")
    fair = sum(shares) / len(shares)
    assert all(abs(share - fair) <= 0.2 * fair for share in shares), shares


@pytest.mark.parametrize("workers, count", [(1, 3), (2, 4)])
@pytest.mark.parametrize("receivers", [1, 16])
def test_senders_share_the_switch_fairly(beds, workers, count, receivers):
    """Ports at full rate into one more, or flooding to 16, which keeps their queues full: each within 20 % of its share.

    The sender has one processor and the agent the other: workers get equal time, hence equal numbers of ports.
    """
    bed = beds("--workers", str(workers))
    sinks = bed.host_list(receivers)
    senders = [bed.host(receivers + number) for number in range(1, count + 1)]
    sinks[0].wire.send(numbered(0, sinks[0].mac))  # so that it is known
    wait_for(lambda: bed.agent.learned(), message="learned")
    bed.close_wires()
    assert_equal_shares(bed, senders, sinks[0].mac if receivers == 1 else BROADCAST)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("kind", ["unicast", "broadcast"])
def test_br34_frames_never_swap_places(beds, long_tier, kind, workers):
    """BR-34: numbers of each source strictly increase at the receiver, at full rate, with a second source beside."""
    bed = beds("--workers", str(workers))
    sink, senders = bed.host(4), bed.host_list(3)
    sink.wire.send(numbered(0, sink.mac))
    wait_for(lambda: bed.agent.learned(), message="learned")
    bed.close_wires()
    receiver = sink.receive_load(seconds=120, length=100)
    destination = sink.mac if kind == "unicast" else BROADCAST
    count = 2_000_000 if long_tier else 300_000
    loads = [host.send_load(destination=destination, length=100, count=count, seconds=60) for host in senders]
    for load in loads:
        result(load, 90)
    settled_totals(bed)
    seen = finish(receiver)
    assert set(seen["streams"]) == {"1", "2", "3"}
    for stream in seen["streams"].values():
        assert stream["swaps"] == stream["duplicates"] == stream["wrong_length"] == 0, seen
    assert_ledgers(bed, flooded_only=False)


@pytest.mark.parametrize("device", ["tap", "veth"], indirect=True)
def test_br34_order_survives_a_flapping_link(bed):
    """BR-34: p2 goes down and up while frames come."""
    one, two = bed.host(1), bed.host(2)
    receiver = two.receive_load(seconds=60, length=100)
    load = one.send_load(rate=50_000, length=100, seconds=4)
    while load.poll() is None:
        time.sleep(0.3)
        two.pod.run("ip", "link", "set", "eth0", "down")
        time.sleep(0.1)
        two.pod.run("ip", "link", "set", "eth0", "up")
    result(load)
    seen = finish(receiver)
    stream = seen["streams"]["1"]
    assert stream["frames"] > 0 and stream["swaps"] == stream["duplicates"] == 0, seen
    assert bed.totals()["drops"].get("egress_port_down", 0) > 0


def test_br34_tcp_sees_no_disorder(bed):
    one, two = ip_pair(bed, 1500, 4)
    tcp_digests(one, two, 4, 64 << 20)
    assert two.pod.snmp("TcpExtTCPOFOQueue") == {"TcpExtTCPOFOQueue": 0}


@pytest.mark.parametrize(
    "device, flags",
    [("tap", ()), ("tap", ("--buffers-per-worker", "16")), ("tap", ("--rx-mode", "oneshot")), ("veth", ()), ("veth", ("--buffers-per-worker", "16"))],
    ids=["tap", "tap-16", "tap-oneshot", "veth", "veth-16"],
    indirect=["device"],
)
def test_br04_no_port_goes_deaf_after_a_burst(beds, long_tier, flags):
    """BR-04: a stopped agent, a burst that overruns every queue, and then all ports must hear and be heard."""
    bed = beds(*flags)
    hosts = bed.host_list(4)
    resident = {}
    rounds = 20 if long_tier else 4
    for round_number in range(rounds):
        bed.agent.process.send_signal(signal.SIGSTOP)
        try:
            sent = result(hosts[0].send_load(count=300_000 if long_tier else 50_000, seconds=10))
        finally:
            bed.agent.process.send_signal(signal.SIGCONT)
        assert sent["sent"] > 0
        settled_totals(bed)
        assert_all_answer(bed, probes=100)
        resident[round_number] = bed.agent.resident_bytes()
    early = resident[1]
    assert abs(resident[rounds - 1] - early) < 0.1 * early, resident
    # Every frame that the pod's kernel queued was received; what it could not queue it counted itself (TAP), or the socket did (veth).
    counters = hosts[0].counters()
    assert hosts[0].pod.counter("tx_packets") == counters.receive_frames + counters.device_lost_frames
    assert hosts[0].pod.counter("tx_dropped") + counters.device_lost_frames > 0
    before = bed.agent.cpu_seconds()
    time.sleep(1)
    assert bed.agent.cpu_seconds() - before < 0.05


def test_ports_come_and_go_under_load(bed):
    """Adding, changing and removing ports never stops the others and never mixes up frames."""
    one, two = bed.host(1), bed.host(2)
    client = bed.agent.client
    receiver = two.receive_load(seconds=60, length=100)
    load = one.send_load(rate=20_000, length=100, seconds=6)
    pod = bed.pod()
    fds = None
    turns = 0
    while load.poll() is None:
        name = f"t{turns % 7}"
        tap = {"netns": pod.path, "ifname": f"e{turns % 5}"}
        client.ports.CreatePort(port={"name": name, "switch_name": "sw0", "tap": tap})
        client.ports.UpdatePort(port={"name": name, "vlans": {"access_vid": 2 + turns % 100}}, update_mask="vlans")
        client.ports.DeletePort(name=name)
        turns += 1
        if turns == 5:
            fds = bed.agent.fd_count()
    result(load)
    seen = finish(receiver)["streams"]["1"]
    assert turns > 20
    assert seen["swaps"] == seen["duplicates"] == 0 and seen["missing"] <= 0.001 * seen["frames"], seen
    assert bed.agent.fd_count() <= fds + 3
    assert not pod.links()
    for worker in client.info.GetAgentInfo().info.workers:
        assert worker.buffers_held == 0
