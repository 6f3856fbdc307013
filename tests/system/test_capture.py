"""Captures: what a port receives, transmits or drops, byte by byte, and what that costs the others: nothing."""
import os
import pty
import re
import signal
import struct
import subprocess
import time

import grpc
import pytest

from agent import binary, error_details, ringctl, violated_fields
from bed import finish, result, wait_for
from frame import BROADCAST, F1_BROADCAST, F3_VID_10_PCP_5, F15_RUNT, frame, numbered, pop, push
from wire import Wire

IN, OUT = "in", "out"


class Pcapng:
    """Reads a capture file by the format's specification; nothing of it comes from ringctl's code."""

    def __init__(self, data):
        self.interfaces, self.frames, self.statistics = [], [], []
        at, kinds = 0, []
        while at < len(data):
            kind, length = struct.unpack_from("<II", data, at)
            assert length % 4 == 0 and struct.unpack_from("<I", data, at + length - 4)[0] == length
            self._block(kind, data[at + 8 : at + length - 4])
            kinds.append(kind)
            at += length
        assert at == len(data) and kinds[0] == 0x0A0D0D0A

    def _block(self, kind, body):
        if kind == 0x0A0D0D0A:
            assert struct.unpack_from("<IHHq", body) == (0x1A2B3C4D, 1, 0, -1)
        elif kind == 1:
            link_type, _, self.snap_length = struct.unpack_from("<HHI", body)
            options = self._options(body[8:])
            assert link_type == 1 and options[9] == b"\x09"
            self.interfaces.append(options[2].decode())
        elif kind == 5:
            self.statistics.append((struct.unpack_from("<I", body)[0], self._options(body[12:])))
        else:
            assert kind == 6
            interface, high, low, captured, length = struct.unpack_from("<IIIII", body)
            options = self._options(body[20 + (captured + 3) // 4 * 4 :])
            direction = {1: IN, 2: OUT}[struct.unpack("<I", options[2])[0] & 3]
            comment = options.get(1, b"").decode()
            time_ns = high << 32 | low
            self.frames.append((self.interfaces[interface], direction, body[20 : 20 + captured], comment, length, time_ns))

    @staticmethod
    def _options(data):
        found, at = {}, 0
        while True:
            code, length = struct.unpack_from("<HH", data, at)
            if code == 0:
                assert at + 4 == len(data)
                return found
            found[code] = data[at + 4 : at + 4 + length]
            at += 4 + (length + 3) // 4 * 4

    def seen(self):
        """(port, direction, bytes, comment) of each frame."""
        return [entry[:4] for entry in self.frames]

    def lost(self):
        return sum(struct.unpack("<Q", options[5])[0] for _, options in self.statistics if 5 in options)


class Running:
    """ringctl capture, begun."""

    def __init__(self, agent, *arguments, stdout=subprocess.PIPE):
        command = [binary("ringctl"), "--address", f"unix:{agent.socket}", "capture", *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, bufsize=0)
        self.first_line = self.process.stderr.readline().decode()
        assert self.first_line.startswith("capturing at "), self.first_line + self.process.stderr.read().decode()

    def end(self, number=None, seconds=5):
        """Exit status, standard output, and what was said after the first line."""
        if number is not None:
            self.process.send_signal(number)
        try:
            output, errors = self.process.communicate(timeout=seconds)
        finally:
            self.kill()
        return self.process.returncode, output, errors.decode()

    def file(self, settle=0.2):
        """What it has written, once it was asked to end."""
        time.sleep(settle)
        status, output, errors = self.end(signal.SIGINT)
        assert status == 0, errors
        return Pcapng(output)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()


@pytest.fixture
def capture():
    """Starts captures, and ends what a failed test left."""
    made = []

    def start(*arguments, **options):
        made.append(Running(*arguments, **options))
        return made[-1]

    yield start
    for running in made:
        running.kill()


def tcpdump(path, *arguments):
    done = subprocess.run(["tcpdump", "-n", "-r", path, *arguments], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    return done.stdout


def bytes_by_tcpdump(path):
    """Every frame's bytes, as tcpdump prints them in hexadecimal."""
    frames = []
    for line in tcpdump(path, "-t", "-xx").splitlines():
        dump = re.match(r"\t0x[0-9a-f]{4}:  ([0-9a-f ]+)$", line)
        if dump:
            frames[-1] += bytes.fromhex(dump.group(1))
        else:
            frames.append(b"")
    return frames


def test_every_byte_both_ways_with_tags(bed, capture, tmp_path):
    """What comes in is shown as it came, what goes out as it goes: with its tag where it has one."""
    access, trunk, other = bed.host(1, access=10), bed.host(2, trunk=[10, 20]), bed.host(3, access=10)
    path = str(tmp_path / "frames.pcapng")
    begun = time.time_ns()
    running = capture(bed.agent, "--port", "p1", "--port", "p2", "--write", path, stdout=None)
    assert running.first_line == "capturing at p1, p2\n"
    plain = numbered(1, access.mac, trunk.mac, length=67)
    answer = numbered(2, trunk.mac, access.mac, tags=struct.pack("!HH", 0x8100, 0xA00A), length=1514)
    access.wire.send(plain)
    assert trunk.wire.receive(1) == [push(plain, 10)]
    trunk.wire.send(answer)
    assert access.wire.receive(1) == [pop(answer)]
    other.wire.send(numbered(3, other.mac))
    time.sleep(0.2)
    status, _, errors = running.end(signal.SIGINT)
    assert (status, errors) == (0, "6 frames captured, 0 lost\n")
    read = Pcapng(open(path, "rb").read())
    flood = numbered(3, other.mac)
    assert read.interfaces == ["p1", "p2"] and read.snap_length == 262144 and read.lost() == 0
    expected = [
        ("p1", IN, plain, ""),
        ("p2", OUT, push(plain, 10), ""),
        ("p2", IN, answer, ""),
        ("p1", OUT, pop(answer), ""),
        ("p1", OUT, flood, ""),
        ("p2", OUT, push(flood, 10), ""),
    ]
    assert read.seen() == expected
    times = [entry[5] for entry in read.frames]
    assert times == sorted(times) and begun < times[0] and times[-1] < time.time_ns()
    assert bytes_by_tcpdump(path) == [entry[2] for entry in expected]


def test_drops_come_with_their_reason(bed, capture):
    one, two = bed.host(1, access=10), bed.host(2, access=10, mtu=1000)
    both = capture(bed.agent, "--switch", "sw0")
    drops = capture(bed.agent, "--switch", "sw0", "--drops")
    tagged, good, long = F3_VID_10_PCP_5, numbered(1, one.mac), frame(BROADCAST, one.mac, length=1300)
    one.wire.send(tagged, good, long)
    assert two.wire.receive(1) == [good]
    two.pod.run("ip", "link", "set", "eth0", "down")
    one.wire.send(good)
    wait_for(lambda: two.drops().get("egress_port_down"), message="drop")
    dropped = [
        ("p1", IN, tagged, "dropped: tagged_on_access_port"),
        ("p2", OUT, long, "dropped: egress_mtu_exceeded"),
        ("p2", OUT, good, "dropped: egress_port_down"),
    ]
    assert drops.file().seen() == dropped
    seen = both.file().seen()
    passed = [("p1", IN, good, ""), ("p2", OUT, good, ""), ("p1", IN, long, ""), ("p1", IN, good, "")]
    assert sorted(seen) == sorted(dropped + passed)


def test_direction_count_snap_length_and_duration(bed, capture):
    one, two = bed.host_list(2)
    received = capture(bed.agent, "--port", "p1", "--direction", "receive", "--count", "3")
    transmitted = capture(bed.agent, "--port", "p1", "--direction", "transmit", "--snap-length", "14")
    timed = capture(bed.agent, "--port", "p2", "--duration", "1", "--write", "-")
    frames = [numbered(number, one.mac, length=200) for number in range(5)]
    one.wire.send(*frames)
    two.wire.send(numbered(9, two.mac, length=300))
    status, output, errors = received.end()
    assert (status, errors) == (0, "3 frames captured, 0 lost\n")
    assert Pcapng(output).seen() == [("p1", IN, sent, "") for sent in frames[:3]]
    read = transmitted.file()
    assert [entry[:5] for entry in read.frames] == [("p1", OUT, numbered(9, two.mac)[:14], "", 300)] and read.snap_length == 14
    begun = time.monotonic()
    status, output, _ = timed.end()
    assert status == 0 and time.monotonic() - begun < 1.5 and len(Pcapng(output).frames) == 6


def test_a_file_without_frames_is_a_file(bed, capture, tmp_path):
    bed.host(1)
    path = str(tmp_path / "none.pcapng")
    running = capture(bed.agent, "--port", "p1", "--write", path)
    assert running.end(signal.SIGTERM)[0] == 0
    assert Pcapng(open(path, "rb").read()).interfaces == ["p1"] and tcpdump(path) == ""


def test_live_into_tcpdump(bed, capture):
    one = bed.host(1)
    bed.host(2)
    reader = subprocess.Popen(["tcpdump", "-n", "-e", "-l", "-r", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    running = capture(bed.agent, "--port", "p1", "--write", "-", stdout=reader.stdin)
    reader.stdin.close()
    try:
        for number in range(3):
            one.wire.send(numbered(number, one.mac, tags=struct.pack("!HH", 0x8100, 0)))
            begun = time.monotonic()
            line = "\t"
            while line.startswith("\t"):  # the bytes of the frame before
                line = reader.stdout.readline().decode()
            assert one.mac in line and "vlan 0" in line and time.monotonic() - begun < 1
        assert running.end(signal.SIGINT)[0] == 0
        assert reader.wait(timeout=5) == 0
    finally:
        reader.kill()
        reader.wait()
        reader.stdout.close()


def test_lines_for_people(bed, capture):
    """On a terminal, or where asked for; JSON has the contract's names."""
    one = bed.host(1, access=10)
    bed.host(2, access=10)
    main, terminal = pty.openpty()
    try:
        shown = capture(bed.agent, "--port", "p1", stdout=terminal)
        text = capture(bed.agent, "--port", "p1", "--text")
        json_lines = capture(bed.agent, "--port", "p1", "--output", "json", "--drops")
        one.wire.send(F1_BROADCAST, F3_VID_10_PCP_5)
        time.sleep(0.2)
        assert shown.end(signal.SIGINT)[0] == 0
        on_terminal = os.read(main, 65536).decode().replace("\r\n", "\n")
    finally:
        os.close(main)
        os.close(terminal)
    lines = text.end(signal.SIGINT)[1].decode()
    assert re.sub(r"(?m)^\S+ ", "", lines) == re.sub(r"(?m)^\S+ ", "", on_terminal)
    head = rf"\d\d:\d\d:\d\d\.\d{{6}} p1 receive 6[04] {one.mac} > {BROADCAST} "
    assert re.fullmatch(head + r"0x88b5\n" + head + r"vlan 10 pcp 5 0x88b5 dropped: tagged_on_access_port\n", lines), lines
    shown = json_lines.end(signal.SIGINT)[1].decode()
    assert '"dropReason":"tagged_on_access_port"' in shown and shown.count("\n") == 1


def test_by_pod_and_by_switch(bed, capture):
    one = bed.host(1, pod={"namespace": "shop", "name": "cart"})
    bed.host(2)
    assert capture(bed.agent, "--pod", "shop/cart").first_line == "capturing at p1\n"
    running = capture(bed.agent, "--switch", "sw0")
    assert running.first_line in ("capturing at p1, p2\n", "capturing at p2, p1\n")
    one.wire.send(F1_BROADCAST)
    assert sorted(running.file().seen()) == [("p1", IN, F1_BROADCAST, ""), ("p2", OUT, F1_BROADCAST, "")]


def test_what_is_refused(bed):
    bed.host(1)
    captures = bed.agent.client.captures

    def refusal(**fields):
        with pytest.raises(grpc.RpcError) as caught:
            list(captures.Capture(timeout=3, **fields))
        return caught.value

    error = refusal(port_names=["p1", "nobody"])
    assert error.code() == grpc.StatusCode.NOT_FOUND and "nobody" in error.details()
    assert dict(error_details(error)["ErrorInfo"].metadata) == {"port": "nobody", "field": "port_names[1]"}
    assert refusal(switch_name="nothing").code() == grpc.StatusCode.NOT_FOUND
    for fields, field in (
        ({}, "port_names"),
        ({"port_names": ["p1"], "switch_name": "sw0"}, "port_names"),
        ({"port_names": ["p1"], "snap_length": 13}, "snap_length"),
        ({"port_names": ["p1"], "snap_length": 262145}, "snap_length"),
        ({"port_names": ["p1"], "direction": 9}, "direction"),
    ):
        error = refusal(**fields)
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT and violated_fields(error) == [field], fields
    bed.agent.client.switches.CreateSwitch(switch={"name": "sw1"})
    assert refusal(switch_name="sw1").code() == grpc.StatusCode.FAILED_PRECONDITION
    for arguments in ((), ("--port", "p1", "--switch", "sw0"), ("--port", "p1", "--snap-length", "13"), ("--port", "p1", "--count", "0")):
        assert ringctl(bed.agent, "capture", *arguments).returncode == 2, arguments
    done = ringctl(bed.agent, "capture", "--port", "nobody", "--write", "/nowhere/file")
    assert (done.returncode, done.stderr) == (1, 'ringctl: --port: no port "nobody"; see: ringctl port list\n')


def test_four_at_a_time(bed, capture):
    bed.host(1)
    running = [capture(bed.agent, "--port", "p1") for _ in range(4)]
    refused = ringctl(bed.agent, "capture", "--port", "p1")
    assert refused.returncode == 1 and "4" in refused.stderr, refused.stderr
    running[0].end(signal.SIGINT)
    again = ("capture", "--port", "p1", "--duration", "1", "--text")
    wait_for(lambda: ringctl(bed.agent, *again).returncode == 0, 5, message="a free place")


def test_what_cannot_be_written_is_named(bed, capture, tmp_path):
    one = bed.host(1)
    bed.host(2)
    for path, why in (("/dev/full", "No space left on device"), (str(tmp_path), "Is a directory"), ("/nowhere/file", "No such file")):
        done = ringctl(bed.agent, "capture", "--port", "p1", "--write", path)
        assert done.returncode == 1 and f"{path}: {why}" in done.stderr and "captur" not in done.stderr
    reading, writing = os.pipe()
    closed = capture(bed.agent, "--port", "p1", stdout=writing)
    os.close(reading)
    os.close(writing)
    one.wire.send(F1_BROADCAST)
    status, _, errors = closed.end()
    assert status == 1 and "standard output: Broken pipe" in errors


def test_a_removed_port_leaves_the_capture_and_its_successor_stays_out(bed, capture):
    """A port that is made later gets the index of the one that went: nobody asked to see its frames."""
    one, two = bed.host_list(2)
    only, both = capture(bed.agent, "--port", "p1"), capture(bed.agent, "--port", "p1", "--port", "p2", "--direction", "receive")
    one.wire.send(F1_BROADCAST)
    two.wire.receive(1)
    one.close_wire()
    bed.agent.client.ports.DeletePort(name="p1")
    status, output, errors = only.end()
    assert (status, errors) == (0, "1 frame captured, 0 lost\nthe capture has ended: its ports are gone\n")
    assert Pcapng(output).seen() == [("p1", IN, F1_BROADCAST, "")]
    again = bed.pod()
    for port, pod in (("p1", one.pod), ("p3", again)):
        bed.agent.client.ports.CreatePort(port={"name": port, "switch_name": "sw0", "tap": {"netns": pod.path, "ifname": "eth0"}})
    four = bed.host(4)
    four.wire.send(numbered(1, four.mac))
    for pod in (one.pod, again):
        wire = Wire(pod, "eth0")
        wire.send(frame(BROADCAST, "02:00:00:00:0b:01"))
        wire.close()
    last = numbered(2, two.mac)
    two.wire.send(last)
    assert both.file().seen() == [("p1", IN, F1_BROADCAST, ""), ("p2", IN, last, "")]


def test_runts_and_super_frames(bed, capture):
    """A frame too short to be one is shown; a segmentation super-frame is one frame of its full length."""
    one, two = bed.host_list(2)
    for host in (one, two):
        host.pod.run("ip", "addr", "add", f"10.99.9.{host.number}/24", "dev", "eth0")
    drops = capture(bed.agent, "--port", "p1", "--drops")
    every = capture(bed.agent, "--port", "p1", "--direction", "receive")
    try:
        one.wire.send(F15_RUNT)
        has_runt = True
    except OSError:  # this kernel sends none
        has_runt = False
    for host in (one, two):
        host.close_wire()
    sink = two.load("sink", host="10.99.9.2", seconds=1)
    result(one.load("source", host="10.99.9.2", seconds=1))
    finish(sink)
    read = every.file()
    longest = max(read.frames, key=lambda entry: entry[4])
    assert longest[4] > 3000 and len(longest[2]) == longest[4]
    if has_runt:
        assert drops.file().seen() == [("p1", IN, F15_RUNT, "dropped: frame_too_short")]


@pytest.mark.parametrize("workers", [1, 2])
def test_load_passes_as_without_it(beds, workers):
    """One client that never reads and one that does: every frame is forwarded, in order; what the first one loses is counted."""
    bed = beds("--workers", str(workers))
    one, two = bed.host_list(2)
    one.close_wire()
    two.close_wire()
    captures = bed.agent.client.captures
    stuck = captures.Capture(switch_name="sw0", timeout=60)
    reading = captures.Capture(switch_name="sw0", snap_length=64, timeout=60)
    assert list(next(stuck).port_names) == list(next(reading).port_names)
    receiver = two.receive_load(seconds=60, length=400)
    result(one.send_load(destination=two.mac, length=400, count=150_000, rate=40_000, seconds=30))
    time.sleep(0.5)
    # What the sender's own queue had no room for never reached the switch.
    count = one.pod.counter("tx_packets")
    assert count > 50_000
    wait_for(lambda: two.counters().transmit_frames >= count, 5, "all frames")
    stream = finish(receiver)["streams"]["1"]
    assert stream["frames"] == count and stream["swaps"] == stream["duplicates"] == stream["wrong_length"] == 0, stream
    assert one.counters().receive_frames == two.counters().transmit_frames == count and not bed.totals()["drops"]
    received = lost = 0
    while received + lost < count * 2:
        response = next(reading)
        received, lost = received + len(response.frames), response.lost_frames
        assert response.ByteSize() <= 1 << 20 and not response.port_names
    assert received + lost == count * 2
    reading.cancel()
    # Now it reads: what the connection and the rings held comes, and each frame that it does not get is counted.
    received = lost = 0
    while received + lost < count * 2:
        response = next(stuck)
        received, lost = received + len(response.frames), response.lost_frames
    assert received + lost == count * 2 and lost > count
    stuck.cancel()


def test_no_capture_holds_no_memory(bed):
    """The rings are there while a capture runs, and go with it."""
    one, two = bed.host_list(2)
    one.close_wire()
    two.close_wire()

    def flood():
        result(one.send_load(length=1000, count=30_000, rate=30_000, seconds=5))

    def capture_once():
        stuck = bed.agent.client.captures.Capture(port_names=["p1"], timeout=30)
        next(stuck)
        flood()
        during = bed.agent.resident_bytes()
        stuck.cancel()
        return during

    flood()
    capture_once()
    time.sleep(0.3)
    before = bed.agent.resident_bytes()
    during = [capture_once() for _ in range(4)]
    time.sleep(0.3)
    after = bed.agent.resident_bytes()
    assert during[0] - before > 3 << 20, (before, during, after)
    # One ring that stayed would be 4 MiB for each capture; what gRPC and malloc keep is less than one.
    assert after - before < 4 << 20, (before, during, after)


def test_the_agents_end_is_told_and_the_file_is_whole(bed, capture, tmp_path):
    one = bed.host(1)
    bed.host(2)
    path = str(tmp_path / "until.pcapng")
    running = capture(bed.agent, "--port", "p1", "--write", path)
    stuck = bed.agent.client.captures.Capture(switch_name="sw0", timeout=30)
    next(stuck)
    one.wire.send(F1_BROADCAST)
    time.sleep(0.2)
    status, seconds = bed.agent.end()
    assert status == 0 and seconds < 2
    status, _, errors = running.end()
    assert status == 3 and "the agent has gone" in errors
    assert Pcapng(open(path, "rb").read()).seen() == [("p1", IN, F1_BROADCAST, "")]
    assert len(bytes_by_tcpdump(path)) == 1
    bed.agent.start()
    assert ringctl(bed.agent, "capture", "--port", "p1", "--duration", "1", "--write", path).returncode == 0


def test_help_and_completion_know_it(bed):
    shown = ringctl(bed.agent, "capture", "--help").stdout
    for word in ("--port", "--pod", "--switch", "--direction", "--drops", "--snap-length", "--count", "--duration", "--write", "tcpdump"):
        assert word in shown
