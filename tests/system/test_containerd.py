"""A container runtime calls the plugin: pods of a private containerd, driven as the kubelet drives it."""
import ipaddress
import json
import shutil
import tempfile
import time

import grpc
import pytest
from agent import Client, binary
from bed import wait_for
from node.container_node import Node

NETWORK = {
    "cniVersion": "1.0.0",
    "name": "ringswitch-test",
    "plugins": [{"type": "ringswitch", "bridge": "sw0", "ipam": {
        "type": "host-local", "ranges": [[{"subnet": "10.88.0.0/24"}], [{"subnet": "fd00:88::/64"}]]}}],
}


class NodeWithAgent:
    """A node whose agent runs in it with the default paths."""

    def __init__(self, directory):
        self.node = Node(directory, binary("ringswitch"))
        self.leases = self.node.directory / "leases"
        network = json.loads(json.dumps(NETWORK))
        network["plugins"][0]["ipam"]["dataDir"] = str(self.leases)
        (self.node.directory / "net.d" / "10-ringswitch.conflist").write_text(json.dumps(network))
        self.start_agent()
        self.node.wait_for_network()

    def start_agent(self):
        self.agent = self.node.spawn(binary("ringswitchd"), log="ringswitchd.log")
        socket = self.node.path("/run/ringswitch/ringswitchd.sock")
        wait_for(lambda: socket.is_socket() or self.agent.poll() is not None, 5, "the agent's socket")
        assert self.agent.poll() is None, self.log()
        self.client = Client(str(socket))

    def stop_agent(self):
        self.client.channel.close()
        self.node.run("pkill", "-x", "ringswitchd")
        self.agent.wait(timeout=5)

    def log(self):
        return (self.node.directory / "ringswitchd.log").read_text()

    def ports(self):
        return self.client.ports.ListPorts().ports

    def mounted_namespaces(self):
        """Network namespaces that containerd holds for pods; mounts of the machine itself are seen in the node, too."""
        lines = self.node.path("/proc/1/mountinfo").read_text().splitlines()
        return [line for line in lines if " nsfs " in line and str(self.node.directory) in line]

    def held_leases(self):
        """Addresses that host-local has given away."""
        names = [file.name for file in self.leases.rglob("*") if file.is_file()]
        return sorted(name for name in names if not name.startswith(("lock", "last_reserved_ip")))


@pytest.fixture(scope="module")
def machine():
    directory = tempfile.mkdtemp(prefix="rsw-test-node-")
    shutil.rmtree(directory)
    made = NodeWithAgent(directory)
    yield made
    made.client.channel.close()
    made.node.cleanup()


def ping(node, container, address):
    family = "-6" if ipaddress.ip_address(address).version == 6 else "-4"
    code, output = node.execute(container, "/bin/ping", family, "-c", "3", "-W", "2", address)
    assert code == 0 and " 0% packet loss" in output, output


def assert_nothing_left(machine, processes):
    node = machine.node
    assert node.pods() == []
    assert [link["ifname"] for link in json.loads(node.run("ip", "-j", "link"))] == ["lo"]
    assert machine.held_leases() == []
    spool = machine.node.path("/var/lib/ringswitch")
    assert [file for file in spool.rglob("*") if file.is_file() and "lock" not in file.name] == []
    assert machine.mounted_namespaces() == []
    wait_for(lambda: node.processes() == processes, 5, f"{node.processes()} instead of {processes}")


def test_pods_reach_each_other_and_leave_nothing(machine):
    node = machine.node
    processes = node.processes()
    first, second = node.run_pod("a"), node.run_pod("b")
    assert {ipaddress.ip_address(address).version for address in first[2]} == {4, 6}
    for source, target in ((first, second), (second, first)):
        for address in target[2]:
            ping(node, source[1], address)
    ports = machine.ports()
    assert sorted((port.name, port.pod.namespace, port.pod.name) for port in ports) == sorted(
        [(f"{first[0]}:eth0", "default", "a"), (f"{second[0]}:eth0", "default", "b")])
    assert len(machine.held_leases()) == 4
    assert len(machine.mounted_namespaces()) == 2
    for pod in (first, second):
        node.stop_pod(pod[0])
        node.remove_pod(pod[0])  # sends DEL again, without a namespace
    assert list(machine.ports()) == []
    assert_nothing_left(machine, processes)


def test_without_agent_a_pod_is_refused_soon_and_leaves_nothing(machine):
    processes = machine.node.processes()
    machine.stop_agent()
    started = time.monotonic()
    with pytest.raises(grpc.RpcError) as refusal:
        machine.node.run_pod("c")
    assert "ringswitch" in refusal.value.details()
    assert time.monotonic() - started < 12
    assert machine.held_leases() == []
    machine.start_agent()
    for sandbox in machine.node.pods():
        machine.node.stop_pod(sandbox)
        machine.node.remove_pod(sandbox)
    assert_nothing_left(machine, processes)


def test_a_pod_stopped_without_agent_is_forgotten_by_the_next(machine):
    node = machine.node
    processes = node.processes()
    pod = node.run_pod("d")
    machine.stop_agent()
    node.stop_pod(pod[0])
    node.remove_pod(pod[0])
    assert machine.held_leases() == []
    machine.start_agent()
    wait_for(lambda: list(machine.ports()) == [], 5, "the port of a pod that is gone")
    assert_nothing_left(machine, processes)
