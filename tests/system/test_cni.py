"""The CNI plugin: its contract, what it makes in the pod, and what it leaves behind (nothing)."""
import json
import os
import signal
import subprocess
import time
import urllib.request

import pytest

from agent import binary
from bed import wait_for
from cni import IPAM_PLUGINS, Network
from frame import mac_bytes
from wire import Wire

VERSIONS = ["0.3.1", "0.4.0", "1.0.0", "1.1.0"]
pytestmark = pytest.mark.skipif(not os.path.exists(IPAM_PLUGINS + "/host-local"), reason="containernetworking-plugins is missing")


@pytest.fixture
def network(bed, tmp_path):
    return Network(bed.agent, tmp_path)


def address(result, version=4):
    for ip in result["ips"]:
        text = ip["address"].partition("/")[0]
        if (":" in text) == (version == 6):
            return text
    raise AssertionError(result)


def ports(bed):
    return {port.name for port in bed.agent.client.ports.ListPorts().ports}


def assert_nothing_left(bed, network, *pods):
    assert ports(bed) == set()
    assert network.leases() == set()
    assert not bed.agent.client.attachments.ListAttachments().attachments
    for pod in pods:
        assert not pod.links()


def test_the_plugin_is_static():
    done = subprocess.run(["ldd", binary("ringswitch")], capture_output=True, text=True)
    assert "not a dynamic executable" in done.stdout + done.stderr or "statically linked" in done.stdout


def test_two_pods_ping_each_other(bed, tmp_path):
    network = Network(bed.agent, tmp_path, ["10.99.1.0/24", "fd00:99:1::/64"])
    one, two = bed.pod(ipv6=True), bed.pod(ipv6=True)
    results = [network.add(pod, CNI_ARGS=f"IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=pod-{n}") for n, pod in enumerate((one, two))]
    for family in (4, 6):
        assert one.ping(address(results[1], family)) and two.ping(address(results[0], family))
    listed = bed.agent.client.ports.ListPorts(pod="shop/pod-1").ports
    assert [(port.name, port.pod.container_id) for port in listed] == [(f"{two.container}:eth0", two.container)]
    for pod in (one, two):
        network.call("CHECK", pod.container, pod.path, previous=results[0 if pod is one else 1]).assert_silent()
        network.delete(pod)
    assert_nothing_left(bed, network, one, two)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_and_verb(bed, tmp_path, version):
    """ADD, CHECK, DEL; results in the shape of their version."""
    network = Network(bed.agent, tmp_path, version=version)
    pod = bed.pod()
    result = network.add(pod)
    assert result["cniVersion"] == version
    link = pod.link()
    inside = [interface for interface in result["interfaces"] if interface.get("sandbox") == pod.path]
    assert [(i["name"], i["mac"]) for i in inside] == [("eth0", link["address"])]
    (ip,) = result["ips"]
    assert result["interfaces"][ip["interface"]]["name"] == "eth0"
    assert pod.addresses() == {ip["address"]}
    assert ip.get("version") == ("4" if version.startswith("0.") else None)
    if version == "0.3.1":
        network.call("CHECK", pod.container, pod.path, previous=result).assert_error(1)
    else:
        network.call("CHECK", pod.container, pod.path, previous=result).assert_silent()
        pod.run("ip", "addr", "flush", "dev", "eth0")
        network.call("CHECK", pod.container, pod.path, previous=result).assert_error(*range(100, 200))
    network.delete(pod, previous=result)
    assert_nothing_left(bed, network, pod)


def test_status_and_gc(bed, tmp_path):
    network = Network(bed.agent, tmp_path, version="1.1.0")
    network.call("STATUS").assert_silent()
    kept, stale = bed.pod(), bed.pod()
    for pod in (kept, stale):
        network.add(pod)
    valid = {"cni.dev/valid-attachments": [{"containerID": kept.container, "ifname": "eth0"}]}
    network.with_config(**valid).call("GC").assert_silent()
    assert ports(bed) == {f"{kept.container}:eth0"} and len(network.leases()) == 1
    bed.agent.end()
    network.call("STATUS").assert_error(50, 51)
    bed.agent.start()
    network.delete(kept)


def test_br19_version_verb(bed, network):
    call = network.call("VERSION", stdin='{"cniVersion":"1.1.0"}')
    assert call.status == 0 and call.json()["cniVersion"] == "1.1.0"
    assert call.json()["supportedVersions"] == VERSIONS
    call = network.call("VERSION", stdin='{"cniVersion":"9.9.9"}')
    assert call.status == 0 and call.json()["cniVersion"] == "9.9.9"


def test_br19_every_failure_is_one_json_document(bed, network):
    """BR-19: codes of the specification, the variable or key named, nothing left."""
    pod = bed.pod()
    cases = [
        (dict(command="ADD", stdin="{broken"), (6,), ""),
        (dict(command="ADD", stdin=""), (6,), ""),
        (dict(command="ADD", stdin="[]"), (6, 7), ""),
        (dict(command="FOO"), (4,), "CNI_COMMAND"),
        (dict(command=None), (4,), "CNI_COMMAND"),
        (dict(command="ADD", container=""), (4,), "CNI_CONTAINERID"),
        (dict(command="ADD", netns=""), (4,), "CNI_NETNS"),
        (dict(command="ADD", ifname=""), (4,), "CNI_IFNAME"),
        (dict(command="ADD", container="-bad"), (4,), "CNI_CONTAINERID"),
        (dict(command="ADD", ifname="sixteen-bytes-16"), (4,), "CNI_IFNAME"),
        (dict(command="ADD", netns="/run/netns/none"), (3, 4, 7, 8), "/run/netns/none"),
        (dict(command="DEL", container=""), (4,), "CNI_CONTAINERID"),
    ]
    for fields, codes, word in cases:
        given = {"container": "c1", "netns": pod.path, "ifname": "eth0", **fields}
        error = network.call(**given).assert_error(*codes)
        assert word in error["msg"] + error.get("details", ""), error
    for change, codes in (
        ({"cniVersion": "9.9.9"}, (1,)),
        ({"name": ""}, (7,)),
        ({"vlan": 4095}, (7,)),
        ({"vlan": -1}, (7,)),
        ({"vlan": "100"}, (2, 6, 7)),
        ({"mtu": 60}, (7,)),
        ({"mtu": 70000}, (7,)),
        ({"bridge": "a/b"}, (7,)),
        ({"vlanTrunk": [{"id": 5000}]}, (7,)),
        ({"ipam": {"type": "no-such-plugin"}}, tuple(range(1, 1000))),
        ({"runtimeConfig": {"mac": "01:00:5e:00:00:01"}}, (2, 4, 7)),
    ):
        network.with_config(**change).call("ADD", "c1", pod.path).assert_error(*codes)
        assert_nothing_left(bed, network, pod)


def test_br19_agent_down(bed, network):
    """ADD: code 11 within 10 s and nothing left. DEL: the address freed, spooled, exit 0."""
    attached, other = bed.pod(), bed.pod()
    network.add(attached)
    bed.agent.end()
    call = network.call("ADD", "c9", other.path)
    call.assert_error(11)
    assert call.seconds < 10 and not other.links()
    network.delete(attached)
    assert network.leases() == set()
    assert len(list(network.spool.iterdir())) == 1
    bed.agent.start()
    network.delete(attached)  # the agent replays only the spool of its own place: test_containerd.py
    assert_nothing_left(bed, network, attached, other)


def test_br19_sigterm_half_way_leaves_nothing(bed, network):
    pod = bed.pod()
    for _ in range(3):
        process = network.start("ADD", "c1", pod.path)
        process.send_signal(signal.SIGTERM)
        stdout, _ = process.communicate(json.dumps(network.config), timeout=10)
        if stdout:
            json.loads(stdout)
        network.call("DEL", "c1", pod.path).assert_silent()
        assert_nothing_left(bed, network, pod)


def test_br05_del_whatever_is_missing(bed, network):
    """BR-05: (a) namespace gone, (b) CNI_NETNS empty, (c) unset and no prevResult, (d) twice, (e) never added."""
    for case in "abcd":
        pod = bed.pod()
        network.add(pod)
        netns = {"b": "", "c": None}.get(case, pod.path)
        if case == "a":
            pod.delete_namespace()
        for _ in range(2 if case == "d" else 1):
            call = network.call("DEL", pod.container, netns)
            call.assert_silent()
            assert call.seconds < 2
        assert_nothing_left(bed, network, *([] if case == "a" else [pod]))
        with urllib.request.urlopen(f"http://{bed.agent.metrics_address()}/metrics") as answer:
            assert pod.container not in answer.read().decode()
    network.call("DEL", "never", "/run/netns/never").assert_silent()
    # A configuration that ADD would refuse does not keep DEL from cleaning up.
    network.with_config(vlan=9999).call("DEL", "never", None).assert_silent()


def test_br05_twenty_lives_of_a_29(bed, network):
    for _ in range(20):
        pod = bed.pod()
        network.add(pod)
        pod.delete_namespace()
        network.call("DEL", pod.container, pod.path).assert_silent()
    assert_nothing_left(bed, network)


def test_addresses_run_out(bed, network):
    """A /29 has five pod addresses: the sixth ADD fails and leaves nothing; a DEL makes room."""
    pods = [bed.pod() for _ in range(6)]
    for pod in pods[:5]:
        network.add(pod)
    network.call("ADD", "c6", pods[5].path).assert_error(*range(1, 1000))
    assert not pods[5].links() and len(ports(bed)) == 5 and len(network.leases()) == 5
    network.delete(pods[0])
    network.add(pods[5])
    for pod in pods[1:]:
        network.delete(pod)
    assert_nothing_left(bed, network, *pods)


def test_add_twice_is_refused_and_harms_nothing(bed, network):
    one, two = bed.pod(), bed.pod()
    network.add(one)
    result = network.add(two)
    network.call("ADD", one.container, one.path).assert_error(*range(1, 1000))
    assert one.ping(address(result))
    assert len(network.leases()) == 2
    network.delete(one)
    network.delete(two)
    assert_nothing_left(bed, network, one, two)


def test_a_foreign_interface_is_not_touched(bed, network):
    pod = bed.pod()
    pod.run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "other")
    network.call("ADD", "c1", pod.path).assert_error(*range(1, 1000))
    assert set(pod.links()) == {"eth0", "other"}
    network.call("DEL", "c1", pod.path).assert_silent()
    assert set(pod.links()) == {"eth0", "other"} and network.leases() == set()


def test_mtu_mac_and_vlan_are_honoured(bed, network):
    pod = bed.pod()
    configured = network.with_config(mtu=9000, vlan=100, runtimeConfig={"mac": "02:00:00:00:0d:01"})
    result = configured.add(pod)
    link = pod.link()
    assert (link["mtu"], link["address"], link["operstate"] in ("UP", "UNKNOWN")) == (9000, "02:00:00:00:0d:01", True)
    assert result["interfaces"][0]["mac"] == "02:00:00:00:0d:01"
    port = bed.agent.port(f"{pod.container}:eth0")
    assert (port.mtu, port.vlans.access_vid, port.mac_limit) == (9000, 100, 64)
    configured.delete(pod)
    from_args = network.add(pod, CNI_ARGS="IgnoreUnknown=1;MAC=02:00:00:00:0d:02")
    assert from_args["interfaces"][0]["mac"] == pod.link()["address"] == "02:00:00:00:0d:02"
    network.delete(pod)


def test_trunk_pod(bed, network):
    pod = bed.pod()
    configured = network.with_config(vlanTrunk=[{"id": 10}, {"minID": 20, "maxID": 22}], vlan=7)
    configured.add(pod)
    vlans = {vlan.vid: bool(vlan.tagged_ports) for vlan in bed.agent.client.vlans.ListVlans(switch_name="sw0").vlans}
    assert vlans == {7: False, 10: True, 20: True, 21: True, 22: True}
    configured.delete(pod)


def test_br10_pod_in_a_vlan_does_not_hear_the_default_one(bed, network):
    tagged = network.with_config(vlan=100)
    x, y, z = (bed.pod() for _ in range(3))
    results = [chosen.add(pod) for chosen, pod in ((tagged, x), (tagged, y), (network, z))]
    wires = {pod: Wire(pod, "eth0") for pod in (x, y, z)}
    try:
        for sender, hears in ((z, ()), (x, (y,))):
            source = mac_bytes(sender.link()["address"])
            frames = [b"\xff" * 6 + source + b"\x08\x06" + bytes([number]) * 46 for number in range(100)]
            for wire in wires.values():
                wire.drain()
            wires[sender].send(*frames)
            for other in (x, y, z):
                if other is not sender:
                    got = [frame for frame in wires[other].receive(100 if other in hears else 0) if frame[6:12] == source]
                    assert got == (frames if other in hears else [])
    finally:
        for wire in wires.values():
            wire.close()
    assert x.ping(address(results[1])) and not x.ping(address(results[2]), count=1)
    for chosen, pod in ((tagged, x), (tagged, y), (network, z)):
        chosen.delete(pod)


def test_addresses_are_announced(bed, tmp_path):
    """The other pod sees a gratuitous ARP and an unsolicited neighbour advertisement of the new one."""
    network = Network(bed.agent, tmp_path, ["10.99.1.0/24", "fd00:99:1::/64"])
    one, two = bed.pod(), bed.pod(ipv6=True)
    network.with_config(ipam={**network.config["ipam"], "ranges": [[{"subnet": "10.99.1.0/24"}]]}).add(one)
    wire = Wire(one, "eth0")
    try:
        result = network.add(two)
        mac = mac_bytes(two.link()["address"])
        frames = [frame for frame in wire.receive(quiet=1.0) if frame[6:12] == mac]
    finally:
        wire.close()
    import ipaddress

    v4, v6 = (ipaddress.ip_address(address(result, family)).packed for family in (4, 6))
    arps = [frame for frame in frames if frame[12:14] == b"\x08\x06"]
    assert any(frame[:6] == b"\xff" * 6 and frame[22:28] == mac and frame[28:32] == frame[38:42] == v4 for frame in arps), frames
    advertisements = [frame for frame in frames if frame[12:14] == b"\x86\xdd" and frame[20] == 58 and frame[54] == 136]
    assert any(frame[62:78] == v6 and frame[58] & 0x20 and mac in frame[78:] for frame in advertisements), frames
    network.delete(one)
    network.delete(two)


def test_routes_of_ipam_are_set(bed, network):
    ipam = {**network.config["ipam"], "routes": [{"dst": "0.0.0.0/0"}, {"dst": "10.50.0.0/16", "gw": "10.99.1.2"}]}
    chosen = network.with_config(ipam=ipam)
    pod = bed.pod()
    result = chosen.add(pod)
    routes = {route["dst"]: route.get("gateway") for route in json.loads(pod.run("ip", "-j", "route"))}
    assert routes["default"] == "10.99.1.1" and routes["10.50.0.0/16"] == "10.99.1.2", routes
    assert {route["dst"] for route in result["routes"]} == {"0.0.0.0/0", "10.50.0.0/16"}
    chosen.delete(pod)


def test_without_ipam_there_is_a_device_and_no_address(bed, network):
    pod = bed.pod()
    for ipam in ({}, None):
        chosen = network.with_config(ipam=ipam)
        if ipam is None:
            chosen.config.pop("ipam")
        result = chosen.add(pod)
        assert not result.get("ips") and not pod.addresses() and pod.link()["flags"].count("UP")
        chosen.delete(pod)
        assert not pod.links()


def test_two_interfaces_of_one_pod(bed, network):
    pod = bed.pod()
    network.add(pod)
    network.add(pod, ifname="net1")
    assert set(pod.links()) == {"eth0", "net1"}
    network.delete(pod, ifname="net1")
    assert set(pod.links()) == {"eth0"} and len(network.leases()) == 1
    network.delete(pod)
    assert_nothing_left(bed, network, pod)


def test_twenty_adds_and_dels_at_once(bed, tmp_path):
    network = Network(bed.agent, tmp_path, "10.99.2.0/24")
    pods = [bed.pod() for _ in range(20)]
    started = time.monotonic()
    for verb in ("ADD", "DEL"):
        running = [network.start(verb, f"c{n}", pod.path) for n, pod in enumerate(pods)]
        for process in running:
            stdout, stderr = process.communicate(json.dumps(network.config), timeout=20)
            assert process.returncode == 0, stdout + stderr
        if verb == "ADD":
            assert len(ports(bed)) == len(network.leases()) == 20
            assert pods[0].ping(next(iter(pods[19].addresses())).partition("/")[0])
    assert_nothing_left(bed, network, *pods)
    print(f"20 ADDs and 20 DELs at once: {time.monotonic() - started:.2f} s")


def test_the_namespace_dies_between_add_and_del(bed, network):
    """The agent lets go by itself; the DEL that comes later frees the address."""
    pod = bed.pod()
    network.add(pod)
    pod.delete_namespace()
    wait_for(lambda: not ports(bed), 1.2, "port gone")
    assert len(network.leases()) == 1
    network.call("DEL", pod.container, pod.path).assert_silent()
    assert_nothing_left(bed, network)


def test_attachments_survive_a_restart(bed, network):
    one, two = bed.pod(), bed.pod()
    network.add(one)
    result = network.add(two)
    for number in (signal.SIGTERM, signal.SIGKILL):
        bed.agent.restart(number)
        wait_for(lambda: one.ping(address(result), count=1, wait=0.2), 2.0, "ping after restart")
        network.call("CHECK", two.container, two.path, previous=result).assert_silent()
    network.delete(one)
    network.delete(two)
    assert_nothing_left(bed, network, one, two)
