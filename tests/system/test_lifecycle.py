"""Life and death of agents, ports and namespaces."""
import os
import pathlib
import signal
import subprocess
import sys
import time

import grpc
import pytest

from agent import BINARIES, Client
from bed import wait_for
from frame import host_mac, numbered
from pod import Pod
from wire import Wire

# Runs its command with one thing forbidden, so that the agent meets a machine where io_uring cannot be had.
DENY_IO_URING = pathlib.Path(__file__).parent / "deny_io_uring.py"


def addressed_pair(bed):
    one, two = bed.host(1, ipv6=True, access=10), bed.host(2, ipv6=True, access=10)
    for host in (one, two):
        host.pod.run("ip", "addr", "add", f"10.99.1.{host.number}/24", "dev", "eth0")
        host.pod.run("ip", "addr", "add", f"fd00:99::{host.number}/64", "dev", "eth0", "nodad")
    return one, two


def device_facts(host):
    link = host.pod.link()
    return link["ifindex"], link["address"], link["mtu"], host.pod.addresses()


@pytest.mark.parametrize("rx_mode", ["auto", "oneshot"])
def test_restart_under_traffic_keeps_every_port(beds, rx_mode):
    """SIGTERM, then SIGKILL: devices, MACs, addresses, ids and static entries stay; pods reach each other within 2 s."""
    bed = beds("--rx-mode", rx_mode)
    one, two = addressed_pair(bed)
    trunk = bed.host(3, trunk=[10, (20, 30)], native=40, mac_limit=7)
    agent = bed.agent
    agent.client.fdb.CreateFdbEntry(entry=dict(switch_name="sw0", vid=10, mac_address=two.mac, port_name="p2"))
    assert one.pod.ping("10.99.1.2") and one.pod.ping("fd00:99::2")
    facts = [device_facts(host) for host in (one, two, trunk)]

    def configured():
        ports = {port.name: port for port in agent.client.ports.ListPorts().ports}
        for port in ports.values():
            port.ClearField("status")
        return ports, [entry for entry in agent.fdb() if entry[3] == "static"], agent.client.switches.ListSwitches().switches[0].id

    before = configured()
    for number in (signal.SIGTERM, signal.SIGKILL):
        load = one.send_load(destination=two.mac, rate=20_000, seconds=30)
        time.sleep(0.3)
        status, _ = agent.end(number)
        assert status == (0 if number == signal.SIGTERM else -number)
        assert [device_facts(host) for host in (one, two, trunk)] == facts
        time.sleep(0.2)
        started = time.monotonic()
        agent.start()
        wait_for(lambda: one.pod.ping("10.99.1.2", count=1, wait=0.2), 2.0, "IPv4 after restart")
        wait_for(lambda: two.pod.ping("fd00:99::1", count=1, wait=0.2), 2.0, "IPv6 after restart")
        assert time.monotonic() - started < 2.0
        load.terminate()
        load.communicate()
        assert configured() == before
        assert [device_facts(host) for host in (one, two, trunk)] == facts
    # Ids are never given twice.
    assert bed.host(4).created.id > max(port.id for port in before[0].values())


def test_restart_drops_ports_of_namespaces_that_went_meanwhile(bed):
    one, two, three = bed.host_list(3)
    for number in (signal.SIGTERM, signal.SIGKILL):
        victim = two if number == signal.SIGTERM else three
        bed.agent.end(number)
        victim.pod.delete()
        bed.agent.start()
        names = {port.name for port in bed.agent.client.ports.ListPorts().ports}
        assert victim.port not in names and one.port in names
    remade = Pod()
    bed.pods.append(remade)
    tap = {"netns": remade.path, "ifname": "eth0"}
    assert bed.agent.client.ports.CreatePort(port={"name": "p2", "switch_name": "sw0", "tap": tap}).port.id > 3


def test_restart_does_not_take_a_namespace_of_the_same_path_for_the_old_one(bed):
    one = bed.host(1)
    bed.agent.end()
    one.pod.delete_namespace()
    subprocess.run(["ip", "netns", "add", one.pod.name], check=True)
    bed.agent.start()
    assert not bed.agent.client.ports.ListPorts().ports
    assert one.pod.link() is None


@pytest.mark.parametrize("kind", ["netns_path", "proc_path"])
def test_a_vanished_namespace_takes_its_port_along(bed, kind):
    """Within about a second the port is gone and, since nothing pins it, the namespace and its devices are freed."""
    bed.host(1)
    pod = bed.pod()
    holder = pod.start("sleep", "60") if kind == "proc_path" else None
    path = f"/proc/{holder.pid}/ns/net" if holder else pod.path
    # A veth half in the pod shows from outside whether the namespace was really freed.
    probe = f"rswp{os.getpid() % 100000}"
    subprocess.run(["ip", "link", "add", probe, "type", "veth", "peer", "name", "probe", "netns", pod.name], check=True)
    try:
        bed.agent.client.ports.CreatePort(port={"name": "gone", "switch_name": "sw0", "tap": {"netns": path, "ifname": "eth0"}})
        fds = bed.agent.fd_count()
        pod.delete_namespace()
        if holder:
            time.sleep(0.3)
            assert "gone" in {port.name for port in bed.agent.client.ports.ListPorts().ports}
            holder.kill()
            holder.wait()
        wait_for(lambda: "gone" not in {p.name for p in bed.agent.client.ports.ListPorts().ports}, 1.2, "port gone")
        wait_for(lambda: not os.path.exists(f"/sys/class/net/{probe}"), 1.5, "namespace freed")
        wait_for(lambda: bed.agent.fd_count() < fds, 1.0, "files closed")
    finally:
        subprocess.run(["ip", "link", "del", probe], capture_output=True)


def test_deleted_device_is_missing_and_the_rest_forwards(bed):
    one, two, three = bed.host_list(3)
    one.close_wire()
    one.pod.run("ip", "link", "del", "eth0")
    wait_for(lambda: bed.agent.port("p1").status.state == 3, 1.5, "state missing")
    assert bed.agent.port("p1").status.state_detail
    sent = numbered(1, two.mac)
    two.wire.send(sent)
    assert three.wire.receive(1) == [sent]
    before = bed.agent.cpu_seconds()
    time.sleep(0.5)
    assert bed.agent.cpu_seconds() - before < 0.05
    bed.agent.client.ports.DeletePort(name="p1")


def test_a_tap_that_is_moved_away_carries_nothing_there_and_comes_back(bed):
    one, two = bed.host_list(2)
    one.close_wire()
    elsewhere = bed.pod()
    one.pod.run("ip", "link", "set", "eth0", "netns", elsewhere.name)
    elsewhere.run("ip", "link", "set", "eth0", "up")
    wait_for(lambda: bed.agent.port("p1").status.state == 3, 1.5, "state missing")
    wire = Wire(elsewhere, "eth0")
    try:
        two.wire.send(numbered(1, two.mac))
        wire.send(numbered(2, one.mac))
        assert wire.receive(0) == two.wire.receive(0) == []
    finally:
        wire.close()
    elsewhere.run("ip", "link", "set", "eth0", "netns", one.pod.name)
    one.pod.run("ip", "link", "set", "eth0", "up")
    wait_for(lambda: bed.agent.port("p1").status.state == 1, 3, "state up")
    wire = Wire(one.pod, "eth0")
    try:
        sent = numbered(3, two.mac)
        two.wire.send(sent)
        assert wire.receive(1) == [sent]
    finally:
        wire.close()
    one.pod.run("ip", "link", "set", "eth0", "down")  # it is watched again
    wait_for(lambda: bed.agent.port("p1").status.state == 2, 1.5, "state down")


@pytest.mark.parametrize("kind", ["tap", "veth"])
def test_the_agents_own_namespace_has_no_path(bed, kind):
    """By another name of it a device could become two ports, or both ends of a veth one each: a loop."""
    place = {"netns": "/proc/self/ns/net", "ifname": f"rsw{os.getpid()}own"}
    with pytest.raises(grpc.RpcError) as refusal:
        bed.agent.client.ports.CreatePort(port={"name": "loop", "switch_name": "sw0", kind: place})
    assert refusal.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert f"port.{kind}.netns" in refusal.value.details() and "leave the path out" in refusal.value.details()


def assert_refused(agent, *words, seconds=2):
    status = agent.wait_for_exit(seconds)
    assert status not in (0, 134, 139) and status > 0, (status, agent.log())
    lines = [line for line in agent.log().splitlines() if line.strip()]
    assert len(lines) == 1, agent.log()
    for word in words:
        assert word in lines[0], lines[0]
    return status


def test_a_second_agent_refuses_the_same_socket_and_the_same_state(bed, agents):
    first = bed.agent
    one, two = bed.host(1), bed.host(2)
    for flags in (["--socket", first.socket], ["--state-dir", str(first.state_dir)]):
        second = agents(*flags, start=False)
        second.spawn()
        assert_refused(second, flags[1])
    assert first.client.health() and first.is_listening()
    sent = numbered(1, one.mac)
    one.wire.send(sent)
    assert two.wire.receive(1) == [sent]


def test_a_stale_socket_does_not_stop_a_start(agents):
    agent = agents()
    agent.end(signal.SIGKILL)
    assert os.path.exists(agent.socket)
    agent.start()
    assert agent.client.health()
    agent.end()
    assert not os.path.exists(agent.socket)


def test_socket_is_not_for_everybody(agents):
    agent = agents()
    assert os.stat(agent.socket).st_mode & 0o777 == 0o660


STREAM_CLIENT = """
import sys, time, grpc
channel = grpc.insecure_channel("unix:" + sys.argv[1], options=[("grpc.use_local_subchannel_pool", 1)])
watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"")
print(next(watch).hex(), flush=True)
if sys.argv[2] == "reflection":
    call = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
    def requests():
        yield b"\\x3a\\x01*"
        time.sleep(60)
    answers = call(requests())
    print(len(next(answers)), flush=True)
try:
    for _ in watch: pass
    print("END", flush=True)
except grpc.RpcError as error:
    print(error.code().name, flush=True)
"""


def open_streams(agent, count):
    environment = {**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "0"}
    clients = []
    for number in range(count):
        kind = "reflection" if number % 2 else "watch"
        command = [sys.executable, "-c", STREAM_CLIENT, agent.socket, kind]
        clients.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment))
    for client in clients:
        assert client.stdout.readline().strip() == "0801"
    return clients


def test_br13_sigterm_ends_the_agent_in_spite_of_open_streams(agents):
    """BR-13: 20 streams, 10 of their clients stopped; exit 0 within 2 s; the running ones are told."""
    agent = agents()
    clients = open_streams(agent, 20)
    try:
        for client in clients[:10]:
            client.send_signal(signal.SIGSTOP)
        status, seconds = agent.end(signal.SIGTERM)
        assert (status, os.path.exists(agent.socket)) == (0, False)
        assert seconds < 2.0
        for client in clients[10:]:
            client.wait(timeout=5)
            assert client.stdout.read().splitlines()[-1] in ("UNAVAILABLE", "CANCELLED", "END")
    finally:
        for client in clients:
            client.send_signal(signal.SIGCONT)
            client.kill()
            client.wait()
            client.stdout.close()


def test_br13_sigterm_twice(bed):
    one = bed.host(1)
    process = bed.agent.process
    bed.agent.close_client()
    process.send_signal(signal.SIGTERM)
    time.sleep(0.05)
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=2) == 0
    assert one.pod.link()["address"] == one.mac  # persistent: the pod keeps its device


def test_br13_sigterm_during_a_paged_list_of_60000_entries(beds):
    bed = beds(switch={"fdb_capacity": 131072, "ageing_disabled": True})
    one = bed.host(1)
    bed.host(2)
    load = one.send_load(source="02:00:00:00:00:00", source_count=60_000, count=240_000, rate=60_000, seconds=20)
    load.communicate()
    wait_for(lambda: bed.agent.client.switches.GetSwitch(name="sw0").switch.status.fdb_dynamic_count >= 60_000, 10, "learned")
    assert len(bed.agent.learned()) == 60_000
    client = Client(bed.agent.socket)
    outcome = []

    def page_through():
        token = ""
        while True:
            page = client.fdb.ListFdbEntries(switch_name="sw0", page_size=100, page_token=token)
            token = page.next_page_token
            if not token:
                token = ""

    def watched():
        try:
            page_through()
        except (grpc.RpcError, ValueError) as error:
            outcome.append(error)

    import threading

    pager = threading.Thread(target=watched, daemon=True)
    pager.start()
    time.sleep(0.3)
    status, seconds = bed.agent.end(signal.SIGTERM)
    assert status == 0 and seconds < 2.0
    pager.join(5)
    assert not pager.is_alive() and outcome[0].code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    client.close()


@pytest.mark.parametrize("damage", ["garbage", "empty", "cut"])
def test_a_damaged_state_file_gives_an_error_and_keeps_the_ports(bed, damage):
    one, two = addressed_pair(bed)
    agent = bed.agent
    facts = device_facts(one)
    agent.end(signal.SIGKILL)
    files = [path for path in agent.state_dir.rglob("*") if path.is_file() and path.stat().st_size > 0]
    assert files, "no state was written"
    saved = {path: path.read_bytes() for path in files}
    for path, content in saved.items():
        path.write_bytes({"garbage": b"\x00not state\xff" * 7, "empty": b"", "cut": content[: len(content) // 2]}[damage])
    agent.log_path.unlink()
    agent.spawn()
    try:
        status = agent.process.wait(timeout=2)
    except subprocess.TimeoutExpired:
        status = None
    # Either it refuses to start, saying which file, or it starts and says what is ill.
    assert str(agent.state_dir) in agent.log(), agent.log()
    assert status is None or status > 0
    assert device_facts(one) == facts and device_facts(two)
    if status is None:
        agent.end(signal.SIGKILL)
    for path in agent.state_dir.rglob("*"):
        if path.is_file() and path not in saved:
            path.unlink()
    for path, content in saved.items():
        path.write_bytes(content)
    agent.start()
    wait_for(lambda: one.pod.ping("10.99.1.2", count=1, wait=0.2), 2.0, "forwarding with the state put right")


@pytest.mark.parametrize("errno_name", ["EPERM", "ENOSYS"])
def test_without_io_uring_one_line_says_why(agents, errno_name):
    agent = agents(start=False, wrapper=[sys.executable, str(DENY_IO_URING), errno_name])
    agent.spawn()
    assert_refused(agent, "io_uring", "seccomp")
    assert not os.path.exists(agent.socket)


def test_a_small_memlock_limit_is_enough_or_named(agents):
    """ulimit -l 64: the agent either works (root's rings are not charged) or says RLIMIT_MEMLOCK in one line."""
    agent = agents(start=False, wrapper=["prlimit", "--memlock=65536:65536"])
    agent.spawn()
    time.sleep(0.5)
    if agent.process.poll() is None:
        agent.wait_until_serving()
    else:
        assert_refused(agent, "MEMLOCK")


def test_idle_agent_with_64_ports_uses_no_cpu(bed):
    bed.host_list(64)
    time.sleep(0.5)
    before = bed.agent.cpu_seconds()
    time.sleep(3)
    used = bed.agent.cpu_seconds() - before
    assert used < 0.03, f"{used:.2f} s of CPU in 3 s"


def test_ports_of_many_lives_leave_no_descriptor(bed, long_tier):
    pod = bed.pod()
    client = bed.agent.client
    counts = []
    for turn in range(300 if long_tier else 60):
        client.ports.CreatePort(port={"name": "p", "switch_name": "sw0", "tap": {"netns": pod.path, "ifname": "eth0"}})
        client.ports.DeletePort(name="p")
        assert not pod.links()
        if turn % 10 == 9:
            counts.append(bed.agent.fd_count())
    assert counts[-1] <= counts[0] + 2, counts


def test_configuration_file_makes_switches_and_ports(agents, tmp_path):
    pod = Pod()
    try:
        config = tmp_path / "ringswitchd.json"
        config.write_text(
            """{"switches": [{"name": "sw7", "ageing_time": "60s"}],
                "ports": [{"name": "c1", "switch_name": "sw7", "tap": {"netns": "%s", "ifname": "eth0"},
                           "mac_address": "%s"}]}"""
            % (pod.path, host_mac(1))
        )
        agent = agents("--config", str(config))
        assert agent.port("c1").switch_name == "sw7"
        assert pod.link()["address"] == host_mac(1)
        agent.restart()
        assert [port.name for port in agent.client.ports.ListPorts().ports] == ["c1"]
    finally:
        pod.delete()


CONFIG_PORT = '{"name": "%s", "switch_name": "sw0", "tap": {"netns": "/run/netns/n", "ifname": "%s"}}'


@pytest.mark.parametrize(
    "content, word",
    [
        ("{", "ringswitchd.json"),
        ('{"nonsense": 1}', "nonsense"),
        ('{"workers": 99}', "workers"),
        ('{"rx_mode": 7}', "rx_mode"),
        ('{"socket": "/%s"}' % ("s" * 96), "socket"),
        ('{"switches": [{"name": "a/b"}]}', "name"),
        ('{"switches": [{"name": "a"}, {"name": "a"}]}', "switches[1].name"),
        ('{"switches": [%s]}' % ", ".join('{"name": "s%d"}' % number for number in range(65)), "switches: 65"),
        ('{"ports": [%s, %s]}' % (CONFIG_PORT % ("a", "e0"), CONFIG_PORT % ("a", "e1")), "ports[1].name"),
        ('{"ports": [%s, %s]}' % (CONFIG_PORT % ("a", "e0"), CONFIG_PORT % ("b", "e0")), "ports[1].tap.ifname"),
    ],
)
def test_check_config_names_what_is_wrong(tmp_path, content, word):
    config = tmp_path / "ringswitchd.json"
    config.write_text(content)
    command = [str(BINARIES / "ringswitchd"), "--config", str(config), "--check-config"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=5)
    assert done.returncode == 2 and word in done.stderr and done.stderr.count("\n") == 1
    config.write_text('{"switches": [{"name": "sw1"}]}')
    assert subprocess.run(command, capture_output=True, timeout=5).returncode == 0


def test_configuration_must_be_a_regular_file(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (fifo, tmp_path, pathlib.Path("/dev/zero"), tmp_path / "none"):
        command = [str(BINARIES / "ringswitchd"), "--config", str(path), "--check-config"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=5)
        assert done.returncode == 2 and str(path) in done.stderr and done.stderr.count("\n") == 1


def test_fresh_namespace_with_an_old_path_is_attached_afresh(bed):
    """A pod that is deleted and made again under its name within one agent's life."""
    one = bed.host(1)
    one.close_wire()
    one.pod.delete_namespace()
    subprocess.run(["ip", "netns", "add", one.pod.name], check=True)
    wait_for(lambda: not bed.agent.client.ports.ListPorts().ports, 1.2, "old port gone")
    tap = {"netns": one.pod.path, "ifname": "eth0"}
    bed.agent.client.ports.CreatePort(port={"name": "p1", "switch_name": "sw0", "tap": tap, "mac_address": one.mac})
    assert one.pod.link()["address"] == one.mac
