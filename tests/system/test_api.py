"""The gRPC contract: what is refused and how it is said, limits, reflection, health, a foreign client, speed."""
import json
import os
import shutil
import statistics
import subprocess
import time

import grpc
import pytest

from agent import REPOSITORY, error_details, violated_fields
from bed import wait_for
from frame import host_mac

NODE_MODULES = REPOSITORY / "tests" / "npm" / "node_modules"
INVALID, NOT_FOUND, EXISTS = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.ALREADY_EXISTS
PRECONDITION, UNIMPLEMENTED = grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.UNIMPLEMENTED


def refused(call, **fields):
    try:
        call(**fields)
    except grpc.RpcError as error:
        return error
    pytest.fail(f"not refused: {str(fields)[:200]}")


BAD_PORTS = [
    ("name", {"name": ""}),
    ("name", {"name": "a b"}),
    ("name", {"name": "-a"}),
    ("name", {"name": "x" * 129}),
    ("name", {"name": "x" * 1_000_000}),
    ("switch_name", {"switch_name": ""}),
    ("tap", {"tap": None}),
    ("tap.ifname", {"tap": {"ifname": ""}}),
    ("tap.ifname", {"tap": {"ifname": "a/b"}}),
    ("tap.ifname", {"tap": {"ifname": ".."}}),
    ("tap.ifname", {"tap": {"ifname": "sixteen-bytes-16"}}),
    ("tap.netns", {"tap": {"netns": "/nowhere", "ifname": "eth0"}}),
    ("tap.netns", {"tap": {"netns": "/etc/hostname", "ifname": "eth0"}}),
    ("mac_address", {"mac_address": "02:00"}),
    ("mac_address", {"mac_address": "01:00:5e:00:00:01"}),
    ("mac_address", {"mac_address": "00:00:00:00:00:00"}),
    ("mtu", {"mtu": 67}),
    ("mtu", {"mtu": 65522}),
    ("vlans.access_vid", {"vlans": {"access_vid": 4095}}),
    ("vlans.trunk", {"vlans": {"trunk": {"tagged": [{"first": 20, "last": 10}]}}}),
    ("vlans.trunk", {"vlans": {"trunk": {"tagged": [{"first": 0}]}}}),
    ("vlans.trunk.native_vid", {"vlans": {"trunk": {"native_vid": 5000}}}),
    ("mac_limit", {"mac_limit": 1_048_577}),
    ("pod.name", {"pod": {"name": "x" * 254}}),
]


@pytest.mark.parametrize("validate_only", [False, True])
def test_bad_ports_name_their_field(bed, validate_only):
    pod = bed.pod()
    agent = bed.agent
    for field, change in BAD_PORTS:
        port = {"name": "p", "switch_name": "sw0", "tap": {"netns": pod.path, "ifname": "eth0"}, **change}
        if "tap" in change and change["tap"] is not None:
            port["tap"] = {"netns": pod.path, **change["tap"]}
        port = {name: value for name, value in port.items() if value is not None}
        error = refused(agent.client.ports.CreatePort, port=port, validate_only=validate_only)
        assert error.code() == INVALID, (change, error)
        fields = violated_fields(error)
        assert fields and all(name.startswith("port." + field) for name in fields), (str(change)[:100], fields)
        assert len(error.details()) < 1000 and field.split(".")[-1] in error.details(), error.details()
    assert not agent.client.ports.ListPorts().ports and not pod.links()


BAD_SWITCHES = [
    ("name", {"name": ""}),
    ("name", {"name": "sixteen-chars-16"}),
    ("name", {"name": ".."}),
    ("default_vid", {"default_vid": 4095}),
    ("ageing_time", {"ageing_time": "0s"}),
    ("ageing_time", {"ageing_time": "1000001s"}),
    ("ageing_time", {"ageing_time": "1.5s"}),
    ("ageing_time", {"ageing_time": "-1s"}),
    ("fdb_capacity", {"fdb_capacity": 15}),
    ("fdb_capacity", {"fdb_capacity": 1_048_577}),
    ("group_forward_mask", {"group_forward_mask": 2}),
    ("group_forward_mask", {"group_forward_mask": 0x10000}),
]


def test_bad_switches_name_their_field(bed):
    for field, change in BAD_SWITCHES:
        error = refused(bed.agent.client.switches.CreateSwitch, switch={"name": "sw1", **change})
        assert error.code() == INVALID and violated_fields(error) == ["switch." + field], (change, error)
    error = refused(bed.agent.client.switches.CreateSwitch, switch={"name": "sw1", "ageing_time": "0s"})
    assert "ageing_disabled" in error.details() and "learning" in error.details()
    assert [switch.name for switch in bed.agent.client.switches.ListSwitches().switches] == ["sw0"]


def test_other_refusals(bed):
    one, two = bed.host(1, access=10), bed.host(2, trunk=[10])
    client = bed.agent.client
    entry = {"switch_name": "sw0", "vid": 10, "mac_address": "02:00:00:00:0f:01", "port_name": "p1"}
    client.fdb.CreateFdbEntry(entry=entry)
    tap = {"netns": one.pod.path, "ifname": "eth9"}
    table = [
        (client.ports.CreatePort, {"port": {"name": "p1", "switch_name": "sw0", "tap": tap}}, EXISTS),
        (client.ports.CreatePort, {"port": {"name": "p9", "switch_name": "sw0", "tap": {**tap, "ifname": "eth0"}}}, EXISTS),
        (client.ports.CreatePort, {"port": {"name": "p9", "switch_name": "none", "tap": tap}}, NOT_FOUND),
        (client.ports.GetPort, {"name": "none"}, NOT_FOUND),
        (client.ports.DeletePort, {"name": "none"}, NOT_FOUND),
        (client.ports.ListPorts, {"page_token": "made-up"}, INVALID),
        (client.ports.UpdatePort, {"port": {"name": "p1"}, "update_mask": "macAddress"}, INVALID),
        (client.ports.UpdatePort, {"port": {"name": "p1"}, "update_mask": "nonsense"}, INVALID),
        (client.ports.UpdatePort, {"port": {"name": "p1", "mtu": 1}, "update_mask": "mtu"}, INVALID),
        (client.switches.CreateSwitch, {"switch": {"name": "sw0"}}, EXISTS),
        (client.switches.DeleteSwitch, {"name": "sw0"}, PRECONDITION),
        (client.switches.GetSwitch, {"name": "none"}, NOT_FOUND),
        (client.switches.CreateSwitch, {"switch": {"name": "mv0", "mode": "SWITCH_MODE_MACVLAN"}}, UNIMPLEMENTED),
        (client.switches.UpdateSwitch, {"switch": {"name": "sw0", "vlan_aware": False}, "update_mask": "vlanAware"}, PRECONDITION),
        (client.vlans.ListVlans, {"switch_name": "none"}, NOT_FOUND),
        (client.vlans.AddVlans, {"port_name": "p1", "ranges": [{"first": 5}]}, PRECONDITION),
        (client.vlans.AddVlans, {"port_name": "p2", "ranges": [{"first": 5}, {"first": 4095}]}, INVALID),
        (client.vlans.AddVlans, {"port_name": "p2"}, INVALID),
        (client.fdb.CreateFdbEntry, {"entry": entry}, EXISTS),
        (client.fdb.CreateFdbEntry, {"entry": {**entry, "mac_address": "02:00:00:00:0f:02", "vid": 11}}, PRECONDITION),
        (client.fdb.CreateFdbEntry, {"entry": {**entry, "mac_address": "01:00:5e:00:00:01"}}, INVALID),
        (client.fdb.CreateFdbEntry, {"entry": {**entry, "mac_address": "02:00:00:00:0f:02", "port_name": "none"}}, NOT_FOUND),
        (client.fdb.ListFdbEntries, {"switch_name": "none"}, NOT_FOUND),
        (client.fdb.ListFdbEntries, {"switch_name": "sw0", "page_token": "made-up"}, INVALID),
        (client.fdb.FlushFdb, {"switch_name": "sw0", "port_name": "none"}, NOT_FOUND),
        (client.fdb.DeleteFdbEntry, {"switch_name": "sw0", "vid": 10, "mac_address": "02:00:00:00:0f:0f"}, NOT_FOUND),
    ]
    for call, fields, code in table:
        error = refused(call, **fields)
        assert error.code() == code, (fields, error)
        assert error_details(error), (fields, "no details")
        if code == INVALID:
            assert violated_fields(error), fields
    # All or nothing: the good range of the refused call is not there.
    assert [vlan.vid for vlan in client.vlans.ListVlans(switch_name="sw0").vlans] == [10]
    assert two.port == "p2"


def test_update_changes_what_the_mask_names(bed):
    one, client = bed.host(1), bed.agent.client
    port = client.ports.UpdatePort(port={"name": "p1", "mtu": 4000, "mac_limit": 9}, update_mask="mtu").port
    assert (port.mtu, port.mac_limit) == (4000, 0) and one.pod.link()["mtu"] == 4000
    port = client.ports.UpdatePort(port={"name": "p1", "mac_limit": 9}).port
    assert (port.mtu, port.mac_limit) == (4000, 9)
    port = client.ports.UpdatePort(port={"name": "p1", "mtu": 3000}, update_mask="mtu", validate_only=True).port
    assert bed.agent.port("p1").mtu == 4000 and one.pod.link()["mtu"] == 4000


def test_validate_only_makes_nothing(bed):
    pod, client = bed.pod(), bed.agent.client
    tap = {"netns": pod.path, "ifname": "eth0"}
    client.ports.CreatePort(port={"name": "p1", "switch_name": "sw0", "tap": tap}, validate_only=True)
    client.switches.CreateSwitch(switch={"name": "sw1"}, validate_only=True)
    client.switches.DeleteSwitch(name="sw0", validate_only=True)
    assert not client.ports.ListPorts().ports and not pod.links()
    assert [switch.name for switch in client.switches.ListSwitches().switches] == ["sw0"]


def test_pages_cover_everything_once(bed):
    bed.host_list(7)
    client, seen, token = bed.agent.client, [], ""
    while True:
        page = client.ports.ListPorts(page_size=2, page_token=token)
        assert len(page.ports) <= 2
        seen += [port.name for port in page.ports]
        token = page.next_page_token
        if not token:
            break
    assert seen == [f"p{number}" for number in range(1, 8)]


def test_trunk_vlans_add_and_remove(bed):
    bed.host(1, trunk=[10], native=7)
    client = bed.agent.client
    client.vlans.AddVlans(port_name="p1", ranges=[{"first": 20, "last": 22}, {"first": 10}])
    vlans = {vlan.vid: (list(vlan.tagged_ports), list(vlan.untagged_ports)) for vlan in client.vlans.ListVlans(switch_name="sw0").vlans}
    assert vlans == {7: ([], ["p1"]), **{vid: (["p1"], []) for vid in (10, 20, 21, 22)}}
    client.vlans.RemoveVlans(port_name="p1", ranges=[{"first": 1, "last": 20}])
    assert [vlan.vid for vlan in client.vlans.ListVlans(switch_name="sw0").vlans] == [21, 22]


def test_fdb_flush_filters(bed):
    bed.host(1, trunk=[10, 20])
    bed.host(2, trunk=[10, 20])
    fdb = bed.agent.client.fdb
    for number in (1, 2):
        for vid in (10, 20):
            mac = "02:00:00:00:0f:%02x" % number
            fdb.CreateFdbEntry(entry={"switch_name": "sw0", "vid": vid, "mac_address": mac, "port_name": f"p{number}"})
    assert fdb.FlushFdb(switch_name="sw0").flushed_count == 0  # dynamic entries only, unless asked
    assert fdb.FlushFdb(switch_name="sw0", kind="FDB_ENTRY_KIND_STATIC", port_name="p1", vid=10).flushed_count == 1
    assert len(bed.agent.fdb()) == 3 and len(bed.agent.fdb(vid=20)) == 2 and len(bed.agent.fdb(port_name="p1")) == 1
    moved = fdb.UpdateFdbEntry(entry={"switch_name": "sw0", "vid": 20, "mac_address": "02:00:00:00:0f:01", "port_name": "p2"})
    assert moved.entry.port_name == "p2"


def test_a_request_of_ten_mebibytes_is_refused_and_harms_nothing(bed):
    error = refused(bed.agent.client.ports.CreatePort, port={"name": "x" * (10 << 20), "switch_name": "sw0"})
    assert error.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED, INVALID)
    assert bed.agent.client.health()


def test_garbage_requests_harm_nothing(bed):
    for payload in (b"\xff" * 100, b"\x0a\xff\xff\xff\xff\x0f", os.urandom(4096)):
        with pytest.raises(grpc.RpcError):
            bed.agent.client.raw("/ringswitch.v1.PortService/CreatePort", payload)
    with pytest.raises(grpc.RpcError) as caught:
        bed.agent.client.raw("/ringswitch.v1.PortService/NoSuchMethod")
    assert caught.value.code() == UNIMPLEMENTED
    assert bed.agent.client.health()


def test_reflection_names_every_service(bed):
    call = bed.agent.client.channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
    answer = next(iter(call(iter([b"\x3a\x01*"]), timeout=5)))  # list_services
    for service in ("PortService", "SwitchService", "VlanService", "FdbService", "AttachmentService", "AgentService",
                    "WatchService", "CaptureService"):
        assert f"ringswitch.v1.{service}".encode() in answer
    assert b"grpc.health.v1.Health" in answer


def test_agent_info_tells_what_runs(beds):
    bed = beds("--workers", "2", "--buffers-per-worker", "64", "--rx-mode", "oneshot")
    bed.host(1)
    info = bed.agent.client.info.GetAgentInfo().info
    assert [worker.buffers for worker in info.workers] == [64, 64]
    assert info.rx_mode == 2 and info.port_count == 1 and info.switch_count == 1
    assert info.kernel_release == os.uname().release and info.version
    assert not info.problems
    assert any("NetworkPolicy" in text for text in info.not_enforced)


def test_a_foreign_client_in_node(bed):
    """Node's @grpc/grpc-js with the .proto files creates a port, lists the FDB and reads an error's details."""
    if not shutil.which("node") or not (NODE_MODULES / "@grpc" / "grpc-js").is_dir():
        pytest.fail("node or its packages are missing: npm ci in tests/npm")
    pod = bed.pod()
    done = subprocess.run(
        ["node", str(REPOSITORY / "tests/system/node-client/client.js"), bed.agent.socket, str(REPOSITORY / "proto"), "sw0", pod.path],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "NODE_PATH": str(NODE_MODULES)},
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["created"]["mac_address"] == pod.link()["address"] == "02:00:00:00:0c:01"
    assert {entry["mac_address"] for entry in told["entries"]} == {"02:00:00:00:0c:02"}
    assert told["failure"]["code"] == INVALID.value[0]
    violations = told["failure"]["details"]["google.rpc.BadRequest"]
    violations = violations.get("fieldViolations") or violations["field_violations"]
    assert violations[0]["field"] == "port.mtu"


def test_create_and_delete_are_quick(bed):
    """Create: at most 5 ms. The bench asserts the median; here, beside whatever else runs, the quickest quarter counts."""
    pod, client = bed.pod(), bed.agent.client
    times = {"create": [], "delete": []}
    for _ in range(30):
        started = time.perf_counter()
        client.ports.CreatePort(port={"name": "p", "switch_name": "sw0", "tap": {"netns": pod.path, "ifname": "eth0"}})
        times["create"].append(time.perf_counter() - started)
        started = time.perf_counter()
        client.ports.DeletePort(name="p")
        times["delete"].append(time.perf_counter() - started)
    medians = {name: statistics.median(values) * 1e3 for name, values in times.items()}
    print({name: f"{value:.2f} ms" for name, value in medians.items()})
    assert statistics.quantiles(times["create"], n=4)[0] * 1e3 <= 5.0


def test_parallel_creates_and_deletes(bed):
    """20 clients at once on one namespace each: all succeed, none gets in another's way."""
    from concurrent.futures import ThreadPoolExecutor

    pods = [bed.pod() for _ in range(20)]
    client = bed.agent.client

    def life(number):
        tap = {"netns": pods[number].path, "ifname": "eth0"}
        port = {"name": f"p{number}", "switch_name": "sw0", "tap": tap, "mac_address": host_mac(number + 1)}
        for _ in range(3):
            client.ports.CreatePort(port=port)
            client.ports.DeletePort(name=port["name"])
        return client.ports.CreatePort(port=port).port.id

    with ThreadPoolExecutor(20) as pool:
        ids = list(pool.map(life, range(20)))
    assert len(set(ids)) == 20
    assert len(client.ports.ListPorts().ports) == 20
    for number, pod in enumerate(pods):
        assert pod.link()["address"] == host_mac(number + 1)


def test_one_name_created_twice_at_once(bed):
    """Of many identical creates exactly one wins, and nothing is left of the others."""
    from concurrent.futures import ThreadPoolExecutor

    pod, client = bed.pod(), bed.agent.client

    def create(number):
        try:
            tap = {"netns": pod.path, "ifname": f"e{number}"}
            client.ports.CreatePort(port={"name": "p", "switch_name": "sw0", "tap": tap})
            return None
        except grpc.RpcError as error:
            return error.code()

    with ThreadPoolExecutor(10) as pool:
        outcomes = list(pool.map(create, range(10)))
    assert sorted(map(str, outcomes)) == sorted(["None"] + [str(EXISTS)] * 9)
    wait_for(lambda: len(pod.links()) == 1, 1.0, "one device")


def test_64_switches_at_most(agents):
    agent = agents()
    for number in range(64):
        agent.client.switches.CreateSwitch(switch={"name": f"s{number}", "fdb_capacity": 16})
    error = refused(agent.client.switches.CreateSwitch, switch={"name": "s64"})
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    for number in range(64):
        agent.client.switches.DeleteSwitch(name=f"s{number}")
    assert not agent.client.switches.ListSwitches().switches
