"""Rows on the real agent: every drop reason that frames give cause for, and what takes an API call between two frames; on all kinds of ports.

What single frames do, row by row, is in tests/unit and, on devices, in tests/integration/dataplane_table_test.cc.
"""
import re
import socket
import struct
import time

import grpc
import pytest

import frame as f
from bed import finish, membership, result, wait_for
from frame import BROADCAST, numbered
from pod import run
from test_devices import DOWN, MISSING, UP, give_address, state_of
from test_traffic import EGRESS_REASONS, inet_socket, settled_totals

KINDS = pytest.mark.parametrize("device", ["tap", "veth", "netdev"], indirect=True)
A, B, ELSEWHERE = f.host_mac(1), f.host_mac(2), "02:00:00:00:0e:0e"
IPV4 = bytes.fromhex("4500001c000000004011" + "0000" + "0a000001" + "ffffffff")
IPV6 = bytes.fromhex("6000000000083aff" + "fe80000000000000000000fffe000a01" + "ff02" + "00" * 13 + "01")
ROUTER_ADVERTISEMENT = f.frame("33:33:00:00:00:01", A, IPV6 + bytes.fromhex("8600000000000000"), ethertype=0x86DD)
DHCP_OFFER = f.frame(BROADCAST, A, IPV4 + bytes.fromhex("0043004400080000"), ethertype=0x0800)
LIAR = f.frame(BROADCAST, A, IPV4, ethertype=0x0800)
TO_A, TO_B, TO_NOBODY = f.frame(A, ELSEWHERE), f.frame(B, A), f.frame("02:00:00:00:0f:0f", A)
GROUP = f.frame("01:00:5e:01:02:03", A)
# One frame of 1000 bytes, and then none for eight seconds.
FIRST_ONLY = {"bits_per_second": "1000", "burst_bytes": "1000"}
TWICE = {destination: [f.frame(destination, A, length=1000)] * 2 for destination in (BROADCAST, "01:00:5e:01:02:03", "02:00:00:00:0f:0f")}

# Name, how p1 is changed, how the other ports are, what host 1 sends, and the reason that its last frame is dropped for by p1.
ROWS = [
    ("P1/BR-28 group source", {}, {}, [f.F12_GROUP_SOURCE], "invalid_source"),
    ("P2/BR-28 zero source", {}, {}, [f.F13_ZERO_SOURCE], "invalid_source"),
    ("G4/BR-20 LLDP", {}, {}, [f.F9_LLDP], "reserved_group"),
    ("V8/BR-08 its own VID on an access port", {"vlans": membership(access=10)}, {}, [f.F3_VID_10_PCP_5], "tagged_on_access_port"),
    ("V7/BR-08 a VID that the trunk does not carry", {"vlans": membership(trunk=[10])}, {}, [f.F6_VID_20], "ingress_vlan_not_member"),
    ("BR-08 VID 4095", {"vlans": membership(trunk=[(1, 4094)])}, {}, [f.F5_VID_4095], "ingress_vlan_not_member"),
    ("V6 untagged, no native VLAN", {"vlans": membership(trunk=[10])}, {}, [f.F1_BROADCAST], "no_native_vlan"),
    ("V6 priority-tagged, no native VLAN", {"vlans": membership(trunk=[10])}, {}, [f.push(f.F1_BROADCAST, 0, 5)], "no_native_vlan"),
    ("S1 bound to another port", {}, {}, [f.frame(BROADCAST, "02:00:00:00:0b:0b")], "static_address_elsewhere"),
    ("S-06/I5 already on its side", {}, {}, [f.F1_BROADCAST, TO_A], "destination_on_ingress_port"),
    ("F2 broadcast that no port takes", {}, {"flood_broadcast": False}, [f.F1_BROADCAST], "no_egress_port"),
    ("F3 multicast that no port takes", {}, {"flood_multicast": False}, [GROUP], "no_egress_port"),
    ("F3 unknown unicast that no port takes", {}, {"flood_unknown_unicast": False}, [TO_NOBODY], "no_egress_port"),
    ("I2 isolated from a known address", {"isolated": True}, {"isolated": True}, [TO_B], "isolated"),
    ("I1 isolated from everybody", {"isolated": True}, {"isolated": True}, [f.F1_BROADCAST], "no_egress_port"),
    ("I7 locked", {"locked": True}, {}, [f.F1_BROADCAST], "source_not_authorised"),
    ("I15 another's MAC", {"source_guard": {"mac": True, "mac_addresses": [A]}}, {}, [f.frame(B, ELSEWHERE)], "source_mac_guard"),
    ("I15 another's address", {"source_guard": {"address": True, "ip_addresses": ["10.0.0.2"]}}, {}, [LIAR], "source_address_guard"),
    ("router advertisement", {"router_advertisement_guard": True}, {}, [ROUTER_ADVERTISEMENT], "router_advertisement_guard"),
    ("DHCP offer", {"dhcp_server_guard": True}, {}, [DHCP_OFFER], "dhcp_server_guard"),
    ("storm of broadcast", {"storm_control": {"broadcast": FIRST_ONLY}}, {}, TWICE[BROADCAST], "storm_broadcast"),
    ("storm of multicast", {"storm_control": {"multicast": FIRST_ONLY}}, {}, TWICE["01:00:5e:01:02:03"], "storm_multicast"),
    ("storm of unknown unicast", {"storm_control": {"unknown_unicast": FIRST_ONLY}}, {}, TWICE["02:00:00:00:0f:0f"], "storm_unknown_unicast"),
    ("receive rate", {"receive_rate": FIRST_ONLY}, {}, TWICE[BROADCAST], "receive_rate_exceeded"),
    ("set down", {"admin_up": False}, {}, [f.F1_BROADCAST], "port_down"),
    ("BPDU", {"bpdu_guard": {"enabled": True}}, {}, [f.F10_STP], "bpdu_guard"),
    ("after a BPDU", {"bpdu_guard": {"enabled": True}}, {}, [f.F10_STP, f.F1_BROADCAST], "port_blocked"),
]
# The same, for what is dropped at p2.
EGRESS_ROWS = [
    ("O1 longer than the egress MTU", {}, {}, [f.frame(BROADCAST, A, length=1519)], "egress_mtu_exceeded"),
    ("transmit rate", {}, {"transmit_rate": FIRST_ONLY}, TWICE[BROADCAST], "transmit_rate_exceeded"),
]


def change(bed, name, fields, undo=False):
    """Sets fields of a port, or gives them their defaults back."""
    mask = ",".join(re.sub("_(.)", lambda match: match[1].upper(), field) for field in fields)
    if fields:
        bed.agent.client.ports.UpdatePort(port={"name": name, **({} if undo else fields)}, update_mask=mask)


def play(bed, row, counted):
    """The last frame of the row is dropped for its reason by port `counted`, once; nothing of the others is."""
    name, first, others, frames, reason = row
    changes = {"p1": first, "p2": others, "p3": others}
    before = {port: bed.agent.drops(port) for port in changes}
    for port, fields in changes.items():
        change(bed, port, fields)
    bed.hosts[1].wire.send(*frames)
    wait_for(lambda: bed.agent.drops(counted).get(reason, 0) > before[counted].get(reason, 0), 5, name)
    new = {port: {why: count - before[port].get(why, 0) for why, count in bed.agent.drops(port).items()} for port in changes}
    new = {port: {why: count for why, count in counts.items() if count} for port, counts in new.items()}
    if reason == "port_blocked":
        assert new["p1"].pop("bpdu_guard") == 1
    assert new.pop(counted) == {reason: 1}, (name, new)
    if counted == "p1":
        assert not any(new.values()), (name, new)
    for port, fields in changes.items():
        change(bed, port, fields, undo=True)
    bed.agent.client.fdb.FlushFdb(switch_name="sw0")


@KINDS
def test_every_drop_reason_has_its_row(beds, device):
    """On one bed, one row after the other; each frame dropped reaches nobody, which the ledgers say at the end."""
    bed = beds(switch={"flap_guard": {"moves": 2, "hold_time": "60s"}})
    hosts = [bed.host(number, mtu=mtu) for number, mtu in ((1, 2000), (2, 1500), (3, 2000))]
    bed.agent.client.fdb.CreateFdbEntry(entry={"switch_name": "sw0", "mac_address": "02:00:00:00:0b:0b", "port_name": "p3"})
    bed.agent.client.fdb.CreateFdbEntry(entry={"switch_name": "sw0", "mac_address": B, "port_name": "p2"})
    for row in ROWS:
        play(bed, row, "p1")
    for row in EGRESS_ROWS:
        play(bed, row, "p2")
    if device == "tap":  # the kernel drops it before a packet socket sees it
        play(bed, ("P5/BR-28 cut off after the tag", {"vlans": membership(trunk=[10])}, {}, [f.F14_CUT_TAG], "truncated_tag"), "p1")
    for turn in range(4):  # the fourth is a move too many
        hosts[turn % 2].wire.send(numbered(turn, "02:00:00:00:0d:01"))
        wait_for(lambda: bed.agent.client.switches.GetSwitch(name="sw0").switch.status.held_addresses or turn < 3, 5, "held")
        time.sleep(0.02)
    assert hosts[1].drops()["address_flapping"] == 1
    hosts[2].pod.run("ip", "link", "set", "eth0", "down")
    wait_for(lambda: state_of(bed, "p3") == DOWN, 5, "down")
    hosts[0].wire.send(f.F1_BROADCAST)
    wait_for(lambda: hosts[2].drops().get("egress_port_down"), 5, "egress_port_down")
    totals = settled_totals(bed)
    egress = sum(count for reason, count in totals["drops"].items() if reason.startswith(EGRESS_REASONS))
    # All that was forwarded was flooded.
    assert totals["receive"] == totals["flooded"] + sum(totals["drops"].values()) - egress
    assert totals["copies"] == totals["transmit"] + egress


@KINDS
def test_v14_nothing_crosses_between_two_pvids(bed):
    """Seven kinds of frames, untagged and with 14 VIDs, between ports of PVID 1 and 2; access ports and trunks."""
    one = bed.host(1, access=1)
    bed.host(2, access=2)
    bed.host(3, trunk=[(5, 99)], native=3)
    trunk = bed.host(4, trunk=[(100, 999)], native=4)
    kinds = [(destination, ethertype) for destination in ("02:00:00:00:0b:01", "01:00:5e:00:00:01", "33:33:ff:00:00:b1")
             for ethertype in (f.EXPERIMENTAL, 0x0800, 0x86DD)] + [(BROADCAST, f.EXPERIMENTAL)]
    vids = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 4000, 4094)
    for host in (one, trunk):
        frames = [f.frame(destination, host.mac, tags=tags, ethertype=ethertype, length=64) for destination, ethertype in kinds
                  for tags in (b"", *(f.tag(vid) for vid in vids))]
        bed.exchange(host, *frames, expect={})
        assert host.counters().receive_frames == len(frames) == sum(host.drops().values())


@KINDS
def test_v15_to_v17_vlans_come_and_go_beside_the_pvid(bed):
    one, two = bed.host(1, trunk=[10], native=1), bed.host(2, trunk=[10, 20], native=1)
    client = bed.agent.client
    untagged = numbered(1, one.mac)
    assert (one.mac, 1, "p1") not in bed.agent.learned()
    client.vlans.AddVlans(port_name="p1", ranges=[{"first": 20}])
    client.vlans.AddVlans(port_name="p1", ranges=[{"first": 20}])  # E5: what is there may be added
    bed.exchange(one, f.F6_VID_20, f.F3_VID_10_PCP_5, expect={2: [f.F6_VID_20, f.F3_VID_10_PCP_5]})
    client.vlans.RemoveVlans(port_name="p1", ranges=[{"first": 20}])
    bed.exchange(one, f.F6_VID_20, untagged, expect={2: [untagged]})  # V15: the PVID's traffic passes on
    # V18: entries of the VLAN that was left are gone, those of the others are not.
    assert {row for row in bed.agent.learned() if row[2] == "p1"} == {(one.mac, 1, "p1"), (one.mac, 10, "p1")}
    change(bed, "p1", {"vlans": membership(trunk=[1, 10], native=10)})
    bed.exchange(one, untagged, expect={2: [f.push(untagged, 10)]})  # V16: 10 is the only PVID now
    # T1, T2: what is counted is the frame, with its tag and without the virtio-net header.
    before = one.counters().receive_bytes, two.counters().transmit_bytes
    bed.exchange(one, untagged, expect={2: [f.push(untagged, 10)]})
    assert (one.counters().receive_bytes - before[0], two.counters().transmit_bytes - before[1]) == (60, 64)
    client.vlans.RemoveVlans(port_name="p1", ranges=[{"first": 10}])
    bed.exchange(one, untagged, expect={})  # V17: none is left
    assert one.drops()["no_native_vlan"] == 1
    with pytest.raises(grpc.RpcError) as refusal:
        client.vlans.AddVlans(port_name="p1", ranges=[{"first": 4095}])  # E1
    assert refusal.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_l19_the_same_addresses_on_two_switches(bed):
    """L16, L19: switches know nothing of each other, also when a port of one goes; of all kinds, on one bed."""
    kinds = ("tap", "veth", "netdev")
    bed.agent.client.switches.CreateSwitch(switch={"name": "sw1"})
    here = [bed.host(number, device=kind) for number, kind in enumerate(kinds, start=1)]
    for number, kind in enumerate(kinds, start=4):
        bed.host(number, device=kind, switch_name="sw1")
    mac = "02:00:00:00:0d:01"
    sent, answer = numbered(1, mac), numbered(2, here[1].mac, mac)
    bed.exchange(here[0], sent, expect={2: [sent], 3: [sent]})
    bed.exchange(bed.hosts[6], sent, expect={4: [sent], 5: [sent]})
    bed.exchange(here[1], answer, expect={1: [answer]})
    bed.exchange(bed.hosts[4], answer, expect={6: [answer]})
    here[0].close_wire()
    bed.agent.client.ports.DeletePort(name="p1")
    assert (mac, 1, "p6") in bed.agent.learned("sw1") and not [row for row in bed.agent.learned() if row[0] == mac]


def test_s08_only_its_own_frames_keep_an_address(beds):
    """S-08, A1: who speaks each half second stays, who only hears is forgotten after the ageing time, and then flooded to. T12: all of it is shown."""
    bed = beds(switch={"ageing_time": "2s"})
    speakers = [bed.host(number, device=kind) for number, kind in enumerate(("tap", "veth", "netdev"), start=1)]
    silent, asker = bed.host(4), bed.host(5)
    for host in (*speakers, silent):
        host.wire.send(numbered(0, host.mac, asker.mac))
    wait_for(lambda: len(bed.agent.learned()) == 4, 1, "learned")
    heard, end = time.monotonic(), time.monotonic() + 4.5
    question = numbered(7, asker.mac, silent.mac)
    forgotten = None
    while time.monotonic() < end:
        for host in speakers:
            host.wire.send(numbered(0, host.mac, asker.mac))
        asker.wire.send(question)
        time.sleep(0.25)
        learned = {row[0] for row in bed.agent.learned()}
        assert {host.mac for host in speakers} <= learned
        if silent.mac not in learned and forgotten is None:
            forgotten = time.monotonic() - heard
    assert forgotten is not None and 1.5 < forgotten < 4, forgotten
    assert asker.counters().flooded_unknown_unicast_frames > 0
    status = bed.agent.client.switches.GetSwitch(name="sw0").switch
    assert status.status.fdb_dynamic_count == len(bed.agent.learned()) and status.fdb_capacity == 16384


@pytest.mark.parametrize("device", ["tap", "veth"], indirect=True)
def test_br15_a_device_that_goes_down_and_away_costs_nobody_else(bed):
    """BR-15, BR-16, D3: under load set down, up, deleted: p3 loses nothing, a few log lines, no more reads; a new port at the first try."""
    one, two, three = bed.host_list(3)
    bed.close_wires()
    receiver = three.receive_load(seconds=30, length=100)
    load = two.send_load(rate=10_000, seconds=3, length=100)
    one.pod.run("ip", "link", "set", "eth0", "down")
    wait_for(lambda: one.drops().get("egress_port_down", 0) > 100, 2, "counted as down")
    one.pod.run("ip", "link", "set", "eth0", "up")
    wait_for(lambda: state_of(bed, "p1") == UP, 1, "up")
    before = one.counters().transmit_frames
    wait_for(lambda: one.counters().transmit_frames > before + 100, 2, "frames pass without a call")
    one.pod.run("ip", "link", "del", "eth0")
    wait_for(lambda: state_of(bed, "p1") == MISSING, 2, "missing")
    sent = result(load)["sent"]
    settled_totals(bed)
    stream = finish(receiver)["streams"]["2"]
    assert stream["frames"] == sent and stream["swaps"] == stream["duplicates"] == 0, stream
    assert bed.agent.log().count("\n") < 30, bed.agent.log()
    cpu = bed.agent.cpu_seconds()
    time.sleep(0.5)
    assert bed.agent.cpu_seconds() - cpu < 0.05
    bed.agent.client.ports.DeletePort(name="p1")
    place = {bed.device: {"netns": one.pod.path, "ifname": "eth0"}, "mac_address": one.mac}
    bed.agent.client.ports.CreatePort(port={"name": "p1", "switch_name": "sw0", **place})
    wait_for(lambda: state_of(bed, "p1") == UP, 1, "up")
    for host in (one, two, three):
        host.is_closed = False
    sent = numbered(1, two.mac)
    bed.exchange(two, sent, expect={1: [sent], 3: [sent]})


@pytest.mark.parametrize("device", ["netdev"], indirect=True)
def test_d6_deleted_made_again_and_its_port_deleted(bed):
    """Whatever the agent has noticed by then: no port, no descriptor and no rule is left, and the name can be a port again."""
    one, two = bed.host(1), bed.host(2)
    fds = None
    for turn in range(6):
        one.close_wire()
        one.is_closed = False
        run("ip", "link", "del", one.host_ifname)
        if turn % 2:
            time.sleep(0.05)
        one.make_pair()
        bed.agent.client.ports.DeletePort(name="p1")
        assert [port.name for port in bed.agent.client.ports.ListPorts().ports] == ["p2"]
        assert " promiscuity 0 " in run("ip", "-d", "link", "show", one.host_ifname)
        bed.agent.client.ports.CreatePort(port={"name": "p1", "switch_name": "sw0", "netdev": {"ifname": one.host_ifname}})
        now = bed.agent.fd_count()
        fds = fds or now
        assert now <= fds + 1
    wait_for(lambda: state_of(bed, "p1") == UP, 2, "up")
    sent = numbered(1, two.mac)
    bed.exchange(two, sent, expect={1: [sent]})


@pytest.mark.parametrize("device", ["netdev"], indirect=True)
def test_frames_of_a_tunnel_that_no_header_describes_are_counted(bed):
    """Decision 15: a pair made by somebody else keeps its tunnel offloads; such super-frames are dropped for a reason of their own."""
    one, two = (give_address(host, 4) for host in bed.host_list(2))
    for host, peer in ((one, two), (two, one)):
        host.pod.run("ip", "link", "add", "vx0", "type", "vxlan", "id", "5", "dstport", "4789", "remote", peer.address, "dev", "eth0")
        host.pod.run("ip", "addr", "add", f"10.99.5.{host.number}/24", "dev", "vx0")
        host.pod.run("ip", "link", "set", "vx0", "up")
    with inet_socket(two, 4, socket.SOCK_STREAM) as listener, inet_socket(one, 4, socket.SOCK_STREAM) as connection:
        listener.bind(("10.99.5.2", 9000))
        listener.listen(1)
        connection.connect(("10.99.5.2", 9000))
        connection.setblocking(False)
        connection.send(bytes(100_000))
        wait_for(lambda: one.drops().get("invalid_offload_header"), 2, "counted")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset: nothing is sent again
    assert set(one.drops()) <= {"invalid_offload_header", "no_egress_port"}
    assert one.pod.ping("10.99.5.2")


def test_s10_a_device_that_is_there_is_refused_by_its_name(bed):
    """S-10: a TAP or TUN of somebody else's in the pod is no port and is left alone; gone, its name is free at once."""
    pod, client = bed.pod(), bed.agent.client
    for kind in ("tap", "tun"):
        pod.run("ip", "tuntap", "add", "eth0", "mode", kind)
        for made in ("tap", "veth"):
            with pytest.raises(grpc.RpcError) as refusal:
                client.ports.CreatePort(port={"name": "p1", "switch_name": "sw0", made: {"netns": pod.path, "ifname": "eth0"}})
            assert refusal.value.code() == grpc.StatusCode.ALREADY_EXISTS and "eth0" in refusal.value.details()
        assert set(pod.links()) == {"eth0"} and not client.ports.ListPorts().ports
        pod.run("ip", "tuntap", "del", "eth0", "mode", kind)
        client.ports.CreatePort(port={"name": "p1", "switch_name": "sw0", "tap": {"netns": pod.path, "ifname": "eth0"}})
        client.ports.DeletePort(name="p1")
