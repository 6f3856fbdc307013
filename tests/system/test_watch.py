"""Watching: what a client is told is what listings show; who does not read costs nothing and is told what it lost."""
import contextlib
import importlib
import json
import os
import signal
import subprocess
import threading
import time

import grpc
import pytest

from agent import binary, error_details, violated_fields
from bed import finish, result, wait_for
from frame import numbered

SWITCH, PORT, FDB = 1, 2, 3  # of ringswitch.v1.WatchKind
SYNCED, OVERFLOW, RESUME_REFUSED = 1, 2, 3  # of ringswitch.v1.WatchMark
UP, DOWN, MISSING = 1, 2, 3  # of ringswitch.v1.PortState


def entry_key(entry):
    return (entry.mac_address, entry.vid, entry.port_name)


class Mirror:
    """What a client knows by the messages of its stream alone."""

    def __init__(self):
        self.objects = {}  # by kind and key
        self.marks = []
        self.revision = 0
        self.changes = 0
        self.listed = set()

    def take(self, message):
        assert len(message.changes) <= 256
        if message.mark in (OVERFLOW, RESUME_REFUSED):
            self.listed = set()
        if message.revision:
            assert message.revision >= self.revision
            self.revision = message.revision
        for change in message.changes:
            self.changes += 1
            kind = change.WhichOneof("object")
            value = getattr(change, kind)
            key = (kind, value.switch_name, value.vid, value.mac_address) if kind == "fdb_entry" else (kind, value.name)
            if change.deleted:
                self.objects.pop(key, None)
            else:
                self.objects[key] = value
            if self.listed is not None:
                self.listed.add(key)
        if message.mark == SYNCED and self.listed is not None:
            self.objects = {key: value for key, value in self.objects.items() if key in self.listed}
            self.listed = None
        if message.mark:
            self.marks.append(message.mark)

    def entries(self):
        return {entry_key(value) for key, value in self.objects.copy().items() if key[0] == "fdb_entry"}

    def port(self, name):
        return self.objects.get(("port", name))


class Watch(Mirror):
    """A stream, read by a thread of its own."""

    def __init__(self, agent, *kinds, switch="", resume=0, objects=None, options=()):
        super().__init__()
        if objects is not None:
            self.objects, self.listed = dict(objects), None
        self._watch_pb2 = importlib.import_module("ringswitch.v1.watch_pb2")
        options = [("grpc.use_local_subchannel_pool", 1), *options]
        self._channel = grpc.insecure_channel(f"unix:{agent.socket}", options=options)
        method = self._channel.unary_stream(
            "/ringswitch.v1.WatchService/Watch",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=self._watch_pb2.WatchResponse.FromString,
        )
        request = self._watch_pb2.WatchRequest(switch_name=switch, kinds=kinds, resume_revision=resume)
        self._call = method(request, wait_for_ready=True)
        self.error = None
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        try:
            for message in self._call:
                self.take(message)
        except grpc.RpcError as error:
            self.error = error

    def wait(self, condition, seconds=3, message="told"):
        wait_for(lambda: self.error or condition(self), seconds, message)
        assert not self.error, self.error

    def wait_for_end(self, seconds=5):
        self._thread.join(seconds)
        assert not self._thread.is_alive()
        return self.error.code() if self.error else None

    def close(self):
        self._call.cancel()
        self._thread.join(5)
        self._channel.close()


@pytest.fixture
def watch():
    """watch(agent, kinds...): a stream that has been synced, unless it is to be refused."""
    opened = []

    def start(agent, *kinds, synced=True, **options):
        opened.append(Watch(agent, *kinds, **options))
        if synced:
            opened[-1].wait(lambda w: SYNCED in w.marks, message="synced")
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def assert_same(watching, agent, seconds=3):
    """All is quiet: what the client knows is what listings show."""
    wait_for(lambda: watching.entries() == {row[:3] for row in agent.fdb()}, seconds, "the FDB as listed")
    listed = {port.name: port for port in agent.client.ports.ListPorts().ports}
    known = {key[1]: value for key, value in watching.objects.copy().items() if key[0] == "port"}
    assert known.keys() == listed.keys()
    for name, port in listed.items():
        for told in (known[name], port):
            told.status.ClearField("counters")
            told.status.ClearField("fdb_dynamic_count")
        assert known[name] == port


def test_ports_are_told_as_they_are_made_changed_moved_down_and_deleted(bed, watch):
    bed.host(1, access=10)
    w = watch(bed.agent, SWITCH, PORT)
    assert ("switch", "sw0") in w.objects and w.port("p1").vlans.access_vid == 10
    two = bed.host(2, trunk=[10, 20])
    w.wait(lambda w: w.port("p2"), message="made")
    client = bed.agent.client
    client.ports.UpdatePort(port={"name": "p1", "mtu": 4000}, update_mask="mtu")
    w.wait(lambda w: w.port("p1").mtu == 4000, message="changed")
    client.vlans.AddVlans(port_name="p2", ranges=[{"first": 30}])
    w.wait(lambda w: len(w.port("p2").vlans.trunk.tagged) == 3, message="VLAN added")
    two.pod.run("ip", "link", "set", "eth0", "down")
    w.wait(lambda w: w.port("p2").status.state == DOWN, message="down")
    two.pod.run("ip", "link", "set", "eth0", "up")
    w.wait(lambda w: w.port("p2").status.state == UP, message="up")
    two.pod.run("ip", "link", "del", "eth0")
    w.wait(lambda w: w.port("p2").status.state == MISSING, message="missing")
    client.switches.UpdateSwitch(switch={"name": "sw0", "ageing_time": "60s"}, update_mask="ageingTime")
    w.wait(lambda w: w.objects[("switch", "sw0")].ageing_time.seconds == 60, message="switch changed")
    client.ports.DeletePort(name="p2")
    w.wait(lambda w: not w.port("p2"), message="deleted")
    client.switches.CreateSwitch(switch={"name": "sw1"})
    w.wait(lambda w: ("switch", "sw1") in w.objects, message="switch made")
    client.switches.DeleteSwitch(name="sw1")
    w.wait(lambda w: ("switch", "sw1") not in w.objects, message="switch deleted")
    assert w.marks == [SYNCED]


def test_fdb_entries_are_told_as_they_are_learned_moved_aged_flushed_and_made(beds, watch):
    bed = beds(switch={"ageing_time": "2s"})
    one, two = bed.host_list(2)
    one.wire.send(numbered(1, one.mac))
    w = watch(bed.agent, FDB, switch="sw0")
    w.wait(lambda w: w.entries() == {(one.mac, 1, "p1")}, message="snapshot")
    two.wire.send(numbered(1, two.mac))
    w.wait(lambda w: (two.mac, 1, "p2") in w.entries(), message="learned")
    two.wire.send(numbered(2, one.mac))
    w.wait(lambda w: w.entries() == {(one.mac, 1, "p2"), (two.mac, 1, "p2")}, message="moved")
    assert all(not entry.HasField("age") for entry in w.objects.values())
    w.wait(lambda w: not w.entries(), 6, "aged")
    one.wire.send(numbered(3, one.mac))
    w.wait(lambda w: w.entries(), message="learned again")
    bed.agent.client.fdb.FlushFdb(switch_name="sw0")
    w.wait(lambda w: not w.entries(), message="flushed")
    entry = {"switch_name": "sw0", "mac_address": "02:00:00:00:0f:01", "port_name": "p1"}
    bed.agent.client.fdb.CreateFdbEntry(entry=entry)
    w.wait(lambda w: w.entries() == {("02:00:00:00:0f:01", 1, "p1")}, message="static")
    one.wire.send(numbered(4, one.mac))
    w.wait(lambda w: len(w.entries()) == 2, message="learned beside it")
    one.close_wire()
    bed.agent.client.ports.DeletePort(name="p1")
    w.wait(lambda w: not w.entries(), message="gone with the port")
    assert w.marks == [SYNCED]


def test_l20_no_learned_address_is_missing(beds, watch):
    """L20: 20 000 addresses at once; the union of what is told is the table."""
    bed = beds(switch={"fdb_capacity": 65536, "ageing_disabled": True})
    one = bed.host(1)
    w = watch(bed.agent, PORT, FDB)
    result(one.send_load(source="02:00:02:00:00:00", source_count=20_000, count=60_000, rate=40_000, seconds=20))
    assert len(bed.agent.fdb()) >= 19_990  # a learner that finds the table locked leaves it to the next frame
    assert_same(w, bed.agent, 10)


def test_what_is_refused_and_how(bed, watch):
    for fields, code in (({}, "INVALID_ARGUMENT"), ({"kinds": [9]}, "INVALID_ARGUMENT"), ({"kinds": [2], "switch": "none"}, "NOT_FOUND")):
        w = watch(bed.agent, *fields.get("kinds", ()), switch=fields.get("switch", ""), synced=False)
        assert w.wait_for_end() == grpc.StatusCode[code]
        assert error_details(w.error)
        if code == "INVALID_ARGUMENT":
            assert violated_fields(w.error) == ["kinds"]
    watches = [watch(bed.agent, PORT) for _ in range(64)]
    too_many = watch(bed.agent, PORT, synced=False)
    assert too_many.wait_for_end() == grpc.StatusCode.RESOURCE_EXHAUSTED
    watches[0].close()
    wait_for(lambda: watch_or_none(bed.agent), 3, "room for another one")


def watch_or_none(agent):
    one = Watch(agent, PORT)
    wait_for(lambda: one.error or one.marks, 3, "an answer")
    one.close()
    return one.marks


def test_resuming_tells_what_was_missed_and_only_that(bed, watch):
    one, two = bed.host_list(2)
    one.wire.send(numbered(1, one.mac))
    first = watch(bed.agent, PORT, FDB)
    first.wait(lambda w: w.entries() == {(one.mac, 1, "p1")})
    first.close()
    two.wire.send(numbered(1, two.mac))
    bed.agent.client.ports.UpdatePort(port={"name": "p2", "mtu": 4000}, update_mask="mtu")
    bed.agent.client.fdb.DeleteFdbEntry(switch_name="sw0", vid=1, mac_address=one.mac)
    second = watch(bed.agent, PORT, FDB, resume=first.revision, objects=first.objects)
    assert_same(second, bed.agent)
    assert second.marks == [SYNCED] and second.changes < 8
    future = watch(bed.agent, PORT, resume=second.revision + 10**9)
    assert future.marks == [RESUME_REFUSED, SYNCED]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_restarted_agent_refuses_to_resume(bed, watch, number):
    bed.host_list(2)
    before = watch(bed.agent, SWITCH, PORT, FDB)
    bed.agent.restart(number)
    assert before.wait_for_end() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
    after = watch(bed.agent, SWITCH, PORT, FDB, resume=before.revision, objects=before.objects)
    assert after.marks == [RESUME_REFUSED, SYNCED]
    assert_same(after, bed.agent)


def test_a_watched_port_that_speaks_while_it_is_made_is_not_forgotten(bed, watch):
    """A pod with IPv6 sends frames as soon as its interface is up, before the call that makes the port has answered."""
    w = watch(bed.agent, PORT, FDB)
    for number in range(1, 9):
        bed.host(number, ipv6=True)
    time.sleep(1.5)  # router solicitations
    assert_same(w, bed.agent)
    for number in range(1, 9):
        bed.agent.client.ports.DeletePort(name=f"p{number}")
    assert_same(w, bed.agent)
    assert w.marks == [SYNCED]


@contextlib.contextmanager
def ringctl_watch(agent, *arguments, directory):
    """`ringctl watch` with its output in a file, killed at the end."""
    path = os.path.join(directory, f"watch-{time.monotonic_ns()}")
    with open(path, "w") as output, open(path + ".err", "w") as errors:
        command = [binary("ringctl"), "--address", f"unix:{agent.socket}", "watch", *arguments]
        process = subprocess.Popen(command, stdout=output, stderr=errors, stdin=subprocess.DEVNULL)
    process.output = lambda: open(path).read()
    process.errors = lambda: open(path + ".err").read()
    lines = JsonLines(path)
    process.known = lines.known
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        lines.close()


class JsonLines:
    """What a reader of a file of JSON lines knows by now."""

    def __init__(self, path):
        self._file = open(path)
        self._part = ""
        self._mirror = Mirror()

    def known(self):
        from google.protobuf import json_format

        watch_pb2 = importlib.import_module("ringswitch.v1.watch_pb2")
        *lines, self._part = (self._part + self._file.read()).split("\n")
        for line in lines:
            self._mirror.take(json_format.Parse(line, watch_pb2.WatchResponse()))
        return self._mirror

    def close(self):
        self._file.close()


def test_br37_who_does_not_read_costs_nothing_and_is_told(beds, watch, long_tier, tmp_path):
    """BR-37: W1 reads, W2 is stopped; addresses move between p1 and p2 all the time."""
    bed = beds(switch={"fdb_capacity": 65536, "ageing_disabled": True})
    one, two, three, four = bed.host_list(4)
    agent = bed.agent
    w1 = watch(agent, FDB)
    with ringctl_watch(agent, "fdb", "--output", "json", directory=tmp_path) as w2:
        wait_for(lambda: SYNCED in w2.known().marks, 5, "W2 synced")
        w2.send_signal(signal.SIGSTOP)
        # More addresses than are remembered, so that W2 loses some.
        result(one.send_load(source="02:00:01:00:00:00", source_count=30_000, count=60_000, rate=30_000, seconds=20))
        before = agent.resident_bytes()
        receiver = four.receive_load(seconds=200, length=100)
        count = 5_000_000 if long_tier else 150_000
        flow = three.send_load(rate=10_000 if long_tier else 1_000, count=0, length=100, destination=four.mac, seconds=count / 50_000)
        for host, peer in ((four, three), (one, two), (two, one)):  # nothing is flooded
            host.send_load(count=1, length=100, destination=peer.mac).communicate()
        addresses = {"source": "02:00:01:00:00:00", "source_count": 1000}
        movers = [
            host.send_load(**addresses, destination=peer.mac, count=count // 2, rate=50_000, length=60, seconds=200)
            for host, peer in ((one, two), (two, one))
        ]
        for mover in movers:
            result(mover, 200)
        sent = result(flow)["sent"]
        time.sleep(0.5)  # the last ones are on their way
        streams = finish(receiver)["streams"]
        moved = agent.client.switches.GetSwitch(name="sw0").switch.status.moves
        assert sum(pair.moves for pair in moved) > count / 20
        assert agent.resident_bytes() - before < 64 << 20
        # What found the pod's own queue full never came to the switch, which has a share of the processor alone.
        missed = three.pod.counter("tx_dropped")
        lost = sent - missed - streams["3"]["frames"]
        print(f"{sum(pair.moves for pair in moved)} moves, {agent.resident_bytes() - before} bytes, {lost} of {sent} lost, {missed} missed")
        assert lost == 0 and missed <= (0.02 if long_tier else 0.2) * sent
        assert_entries_same(w1, agent)
        w2.send_signal(signal.SIGCONT)
        listed = {row[:3] for row in agent.fdb()}
        wait_for(lambda: w2.known().entries() == listed, 20, "W2 knows the FDB", step=0.5)
        assert w2.known().marks[:3] == [SYNCED, OVERFLOW, SYNCED]


def assert_entries_same(watching, agent):
    wait_for(lambda: watching.entries() == {row[:3] for row in agent.fdb()}, 10, "the FDB as listed", step=0.2)


def test_br13_sigterm_with_open_watches(bed, watch, tmp_path):
    """BR-13: 20 watches, 10 of whose clients are stopped, five in the middle of much; exit 0 within 2 s; the others are told."""
    one = bed.host(1)
    result(one.send_load(source="02:00:02:00:00:00", source_count=10_000, count=20_000, rate=40_000, seconds=20))
    with contextlib.ExitStack() as stack:
        stopped = [stack.enter_context(ringctl_watch(bed.agent, "--output", "json", directory=tmp_path)) for _ in range(10)]
        for process in stopped:
            wait_for(lambda: "WATCH_MARK_SYNCED" in process.output(), 15, "synced", step=0.1)
            process.send_signal(signal.SIGSTOP)
        watches = [watch(bed.agent, SWITCH, PORT, FDB) for _ in range(10)]
        load = one.send_load(source="02:00:01:00:00:00", source_count=5_000, count=400_000, rate=40_000, seconds=30)
        time.sleep(0.5)
        status, seconds = bed.agent.end(signal.SIGTERM)
        assert (status, os.path.exists(bed.agent.socket)) == (0, False)
        assert seconds < 2.0
        for w in watches:
            assert w.wait_for_end() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
        load.terminate()


def test_s14_a_client_that_pings_is_not_cut_off(bed, watch, long_tier):
    """S-14: keepalive pings on an idle stream, more often than gRPC's own limit of one in 5 minutes."""
    period = 10_000 if long_tier else 1_500
    options = [
        ("grpc.keepalive_time_ms", period),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.http2.min_time_between_pings_ms", 1000),
    ]
    w = watch(bed.agent, PORT, options=options)
    time.sleep(300 if long_tier else 8)
    bed.host(1)
    w.wait(lambda w: w.port("p1"), message="an event at last")


def test_watching_nothing_is_idle_and_looking_at_a_log_is_nearly_so(bed, watch):
    bed.host_list(2)
    watch(bed.agent, SWITCH, PORT)
    time.sleep(0.3)
    before = bed.agent.cpu_seconds()
    time.sleep(2)
    assert bed.agent.cpu_seconds() - before < 0.03
    watch(bed.agent, FDB)
    before = bed.agent.cpu_seconds()
    time.sleep(2)
    assert bed.agent.cpu_seconds() - before < 0.1


def test_watches_leave_nothing_behind(bed, watch):
    bed.host_list(2)
    for _ in range(3):
        watch(bed.agent, SWITCH, PORT, FDB).close()
    wait_for(lambda: True)
    fds = bed.agent.fd_count()
    for _ in range(50):
        watch(bed.agent, SWITCH, PORT, FDB).close()
    wait_for(lambda: bed.agent.fd_count() <= fds + 2, 3, "descriptors given back")


def test_ringctl_watch_for_people(bed, tmp_path):
    one = bed.host(1, access=10)
    with ringctl_watch(bed.agent, directory=tmp_path) as watching:
        wait_for(lambda: "= synced" in watching.output(), 5, "synced")
        assert "+ switch sw0" in watching.output() and "+ port p1 on sw0: up" in watching.output()
        one.wire.send(numbered(1, one.mac))
        wait_for(lambda: f"+ fdb {one.mac} vlan 10 on sw0: dynamic at p1" in watching.output(), 3, "learned")
        bed.agent.client.ports.UpdatePort(port={"name": "p1", "mtu": 4000}, update_mask="mtu")
        wait_for(lambda: "~ port p1 on sw0" in watching.output(), 3, "changed")
        one.close_wire()
        bed.agent.restart()  # the address is forgotten
        wait_for(lambda: "= resume refused" in watching.output() and watching.output().count("= synced") == 2, 5, "synced again")
        assert f"- fdb {one.mac} vlan 10 on sw0" in watching.output()
        assert watching.output().count("+ port p1") == 1  # it was known
        assert watching.errors().count("waiting for it") == 1
        bed.agent.client.ports.DeletePort(name="p1")
        wait_for(lambda: "- port p1 on sw0" in watching.output(), 3, "deleted")
        assert all(line[0].isdigit() and line[13] in "+~-=" for line in watching.output().splitlines())
        watching.send_signal(signal.SIGINT)
        assert watching.wait(3) in (0, -signal.SIGINT)


def test_ringctl_watch_resumes_over_a_connection_that_is_lost(bed, tmp_path):
    """A relay between the two stands for the connection; when it ends, nothing is sent twice."""
    bed.host(1)
    relay = str(tmp_path / "relay.sock")
    script = f"import socket,sys,threading,os\n{RELAY}"
    process = None
    try:
        process = start_relay(script, relay, bed.agent.socket)
        proxied = type("Proxied", (), {"socket": relay})
        with ringctl_watch(proxied, "ports", "--output", "json", directory=tmp_path) as watching:
            wait_for(lambda: SYNCED in watching.known().marks, 5, "synced")
            process.kill()
            process.wait()
            wait_for(lambda: "waiting for it" in watching.errors(), 3, "the loss")
            bed.host(2)
            process = start_relay(script, relay, bed.agent.socket)
            wait_for(lambda: watching.known().port("p2"), 5, "what was missed")
            wait_for(lambda: watching.known().marks == [SYNCED, SYNCED], 3, "synced again")
            told = [change for line in watching.output().splitlines() for change in json.loads(line)["changes"]]
            assert [change["port"]["name"] for change in told].count("p1") == 1
    finally:
        if process:
            process.kill()
            process.wait()


RELAY = """
path, target = sys.argv[1:]
if os.path.exists(path): os.unlink(path)
server = socket.socket(socket.AF_UNIX)
server.bind(path)
server.listen()
print("ready", flush=True)
def copy(source, sink):
    try:
        while data := source.recv(65536): sink.sendall(data)
    except OSError: pass
    for end in (source, sink):
        try: end.shutdown(socket.SHUT_RDWR)
        except OSError: pass
while True:
    near, _ = server.accept()
    far = socket.socket(socket.AF_UNIX)
    far.connect(target)
    for pair in ((near, far), (far, near)): threading.Thread(target=copy, args=pair, daemon=True).start()
"""


def start_relay(script, path, target):
    import sys

    process = subprocess.Popen([sys.executable, "-c", script, path, target], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.stdout.close()
    return process


def test_ringctl_watch_says_at_once_what_is_wrong(bed):
    for arguments, code, word in (
        (("--address", "unix:/nowhere.sock", "watch"), 3, "/nowhere.sock"),
        (("--address", f"unix:{bed.agent.socket}", "watch", "--switch", "none"), 1, "none"),
        (("--address", f"unix:{bed.agent.socket}", "watch", "nonsense"), 2, "nonsense"),
    ):
        run = subprocess.run([binary("ringctl"), *arguments], capture_output=True, text=True, timeout=15)
        assert run.returncode == code and word in run.stderr and not run.stdout, run
