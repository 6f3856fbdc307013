"""The test bed: an agent with a switch `sw0`, and hosts (pods with one port each) on it."""
import json
import os
import select
import subprocess
import time

from agent import SLOW, binary
from frame import host_mac
from pod import Pod, run
from wire import QUIET_SECONDS, Wire


def wait_for(condition, seconds=2.0, message="condition", step=0.01):
    """Waits until `condition()` is true and returns its value; fails after `seconds`."""
    deadline = time.monotonic() + seconds * SLOW
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"{message}: not within {seconds} s"
        time.sleep(step)


def membership(access=None, trunk=None, native=None):
    """VlanMembership as a request has it. `trunk`: VIDs or (first, last) pairs."""
    if access is not None:
        return {"access_vid": access}
    if trunk is not None:
        pairs = [vids if isinstance(vids, tuple) else (vids, vids) for vids in trunk]
        ranges = [{"first": first, "last": last} for first, last in pairs]
        return {"trunk": {"tagged": ranges, "native_vid": native or 0}}
    return None


class Host:
    """A pod with a port named `p<number>` whose interface is eth0."""

    def __init__(self, bed, number, namespace, device=None, **fields):
        self.number = number
        self.pod = namespace
        self.port = f"p{number}"
        self.mac = host_mac(number)
        self.bed = bed
        self._wire = None
        self.is_closed = False
        request = {"name": self.port, "switch_name": "sw0", **self._device(device or bed.device, fields)}
        request.update({name: value for name, value in fields.items() if value is not None})
        self.created = bed.agent.client.ports.CreatePort(port=request).port

    def _device(self, kind, fields):
        """The part of the request that says what device the port has."""
        place = {"netns": self.pod.path, "ifname": "eth0"}
        if kind in ("tap", "veth"):
            return {kind: place, "mac_address": self.mac}
        self.host_ifname = f"rsw{os.getpid()}h{self.number}"
        self.make_pair(mtu=fields.pop("mtu", None) or 1500)
        return {"netdev": {"ifname": self.host_ifname}}

    def make_pair(self, mtu=1500):
        """A netdev port's device, made by somebody else, and so is its MTU. The host's own stack has nothing to say there."""
        unnamed = self.host_ifname + "new"
        peer = ("peer", "name", "eth0", "netns", self.pod.name, "address", self.mac, "mtu", str(mtu))
        run("ip", "link", "add", unnamed, "mtu", str(mtu), "type", "veth", *peer)
        with open(f"/proc/sys/net/ipv6/conf/{unnamed}/disable_ipv6", "w") as file:
            file.write("1")
        self.pod.run("ip", "link", "set", "eth0", "up")
        run("ip", "link", "set", unnamed, "name", self.host_ifname)

    @property
    def wire(self):
        """The first use opens the wires of all hosts, so that none of them misses what is sent by one."""
        for host in self.bed.hosts.values():
            if host._wire is None and not host.is_closed:
                host._wire = Wire(host.pod, "eth0")
        return self._wire

    def close_wire(self):
        """Closes it for good: the pod's interface goes away, or is to carry load undisturbed."""
        self.is_closed = True
        if self._wire:
            self._wire.close()
            self._wire = None

    def counters(self):
        return self.bed.agent.counters(self.port)

    def drops(self):
        return self.bed.agent.drops(self.port)

    def load(self, job, **options):
        """Starts a job of `traffic` in the pod; a receiver is ready when this returns."""
        command = [binary("traffic"), job]
        for name, value in options.items():
            command += ["--" + name.replace("_", "-"), str(value)]
        process = self.pod.start(*command)
        if job in ("receive", "echo", "sink"):
            assert select.select([process.stdout], [], [], 10)[0] and process.stdout.readline() == "ready\n"
        return process

    def send_load(self, **options):
        options.setdefault("source", self.mac)
        options.setdefault("stream", self.number)
        return self.load("send", **options)

    def receive_load(self, **options):
        options.setdefault("length", 0)
        return self.load("receive", **options)


def result(process, timeout=60):
    """What a `traffic` process printed at its end."""
    stdout, stderr = process.communicate(timeout=timeout)
    assert process.returncode == 0, stderr
    return json.loads(stdout.splitlines()[-1])


def finish(process, timeout=20):
    """Ends a `traffic` receiver and gives what it printed."""
    process.terminate()
    return result(process, timeout)


class Bed:
    """`device`: what the hosts' ports are: "tap", "veth" or "netdev"."""

    def __init__(self, agent, switch=None, device="tap"):
        self.agent = agent
        self.device = device
        self.hosts = {}
        self.pods = []
        if switch is not False:
            agent.client.switches.CreateSwitch(switch={"name": "sw0", **(switch or {})})

    def pod(self, ipv6=False):
        pod = Pod(ipv6)
        self.pods.append(pod)
        return pod

    def host(self, number, access=None, trunk=None, native=None, ipv6=False, **fields):
        fields.setdefault("vlans", membership(access, trunk, native))
        self.hosts[number] = Host(self, number, self.pod(ipv6), **fields)
        return self.hosts[number]

    def host_list(self, count, **fields):
        return [self.host(number, **fields) for number in range(1, count + 1)]

    def close_wires(self):
        for host in self.hosts.values():
            host.close_wire()
            host.is_closed = False

    def exchange(self, sender, *frames, expect):
        """Sends frames from a host; every other host must receive exactly what `expect` says ({} entry: nothing)."""
        others = [host for host in self.hosts.values() if host is not sender]
        for host in others:
            host.wire.drain()
        sender.wire.send(*frames)
        got = {host: host.wire.receive(len(expect.get(host.number, [])), quiet=0) for host in others}
        time.sleep(QUIET_SECONDS)  # one quiet moment for all of them
        for host in others:
            wanted, got[host] = expect.get(host.number, []), got[host] + host.wire.receive(0, quiet=0)
            assert got[host] == wanted, f"host {host.number}: got {[g.hex() for g in got[host]]}, not {[w.hex() for w in wanted]}"

    def totals(self):
        """Sums over all ports: the terms of the ledgers."""
        sums = {"receive": 0, "transmit": 0, "flooded": 0, "copies": 0, "drops": {}}
        for port in self.agent.client.ports.ListPorts().ports:
            counters = port.status.counters
            sums["receive"] += counters.receive_frames
            sums["transmit"] += counters.transmit_frames
            sums["flooded"] += counters.flooded_broadcast_frames + counters.flooded_multicast_frames
            sums["flooded"] += counters.flooded_unknown_unicast_frames
            sums["copies"] += counters.flood_copies
            for drop in counters.drops:
                sums["drops"][drop.reason] = sums["drops"].get(drop.reason, 0) + drop.frames
        return sums

    def cleanup(self):
        self.close_wires()
        for pod in self.pods:
            pod.delete()
        if self.agent.process and self.agent.process.poll() is None and self.agent.client:
            # The agent lets go of vanished namespaces by itself; a test's end does not wait for it.
            for name in [port.name for port in self.agent.client.ports.ListPorts().ports]:
                try:
                    self.agent.client.ports.DeletePort(name=name)
                except Exception:  # pylint: disable=broad-except
                    pass


def kernel_has_8021q():
    done = subprocess.run(["ip", "link", "add", "link", "lo", "name", "rsw-q", "type", "vlan", "id", "5"], capture_output=True)
    subprocess.run(["ip", "link", "del", "rsw-q"], capture_output=True)
    return done.returncode == 0
