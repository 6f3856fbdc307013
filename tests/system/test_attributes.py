"""Port and switch attributes on live ports, changed under load, kept over a restart. What each does to a frame is in the unit tables."""
import concurrent.futures
import re
import time

import pytest

import frame as f
from agent import ringctl
from bed import finish, result, wait_for
from frame import BROADCAST, numbered
from test_devices import DOWN, UP, state_of
from test_traffic import settled_totals

BLOCKED = 4
BOTH = pytest.mark.parametrize("device", ["tap", "veth"], indirect=True)


def update(bed, name, **fields):
    mask = ",".join(re.sub("_(.)", lambda match: match[1].upper(), field) for field in fields)  # JSON form of a field mask
    return bed.agent.client.ports.UpdatePort(port={"name": name, **fields}, update_mask=mask).port


@BOTH
def test_each_attribute_takes_effect_at_once(bed):
    """Isolation, hairpin, flood flags, learning, lock: on, seen, off, seen."""
    one, two, three = bed.host_list(3)
    flood, unknown = numbered(1, one.mac), numbered(2, one.mac, "02:00:00:00:0f:0f")
    everybody = {2: [flood], 3: [flood]}
    bed.exchange(one, flood, expect=everybody)
    for name, off, sent in (
        ("flood_broadcast", False, flood),
        ("flood_unknown_unicast", False, unknown),
        ("flood_multicast", False, numbered(3, one.mac, "01:00:5e:01:02:03")),
    ):
        update(bed, "p2", **{name: off})
        bed.exchange(one, sent, expect={3: [sent]})
        update(bed, "p2", **{name: True})
        bed.exchange(one, sent, expect={2: [sent], 3: [sent]})
    update(bed, "p1", isolated=True)
    update(bed, "p2", isolated=True)
    bed.exchange(one, flood, expect={3: [flood]})
    bed.exchange(three, numbered(4, three.mac), expect={1: [numbered(4, three.mac)], 2: [numbered(4, three.mac)]})
    update(bed, "p2", isolated=False)
    bed.exchange(one, flood, expect=everybody)
    update(bed, "p1", isolated=False, locked=True)
    assert bed.agent.client.fdb.FlushFdb(switch_name="sw0").flushed_count > 0
    bed.exchange(one, flood, expect={})
    assert one.drops()["source_not_authorised"] == 1
    bed.agent.client.fdb.CreateFdbEntry(entry={"switch_name": "sw0", "mac_address": one.mac, "port_name": "p1"})
    bed.exchange(one, flood, expect=everybody)
    update(bed, "p1", locked=False, hairpin=True)
    one.wire.drain()
    bed.exchange(one, flood, expect=everybody)
    assert one.wire.receive(1) == [flood]
    update(bed, "p1", hairpin=False)
    update(bed, "p2", learning=False)
    bed.exchange(two, numbered(5, two.mac), expect={1: [numbered(5, two.mac)], 3: [numbered(5, two.mac)]})
    assert not [row for row in bed.agent.learned() if row[2] == "p2"]


@BOTH
def test_admin_down_is_silence_and_up_again_is_not(bed):
    one, two = bed.host_list(2)
    sent = numbered(1, one.mac)
    bed.exchange(one, sent, expect={2: [sent]})
    update(bed, "p1", admin_up=False)
    assert state_of(bed, "p1") == DOWN
    assert not [row for row in bed.agent.learned() if row[2] == "p1"]
    bed.exchange(one, sent, expect={})
    bed.exchange(two, numbered(2, two.mac), expect={})
    assert one.drops()["port_down"] == 1
    update(bed, "p1", admin_up=True)
    assert state_of(bed, "p1") == UP
    bed.exchange(one, sent, expect={2: [sent]})


@BOTH
def test_bpdu_guard_takes_the_port_down_and_gives_it_back(bed):
    one, _ = bed.host_list(2)
    update(bed, "p1", bpdu_guard={"enabled": True, "recovery_time": "2s"})
    sent = numbered(1, one.mac)
    bed.exchange(one, sent, expect={2: [sent]})
    one.wire.send(f.F10_STP)
    wait_for(lambda: state_of(bed, "p1") == BLOCKED, 1, "blocked")
    assert "BPDU" in bed.agent.port("p1").status.state_detail
    bed.exchange(one, sent, expect={})
    assert one.drops()["bpdu_guard"] == 1 and one.drops()["port_blocked"] >= 1
    wait_for(lambda: state_of(bed, "p1") == UP, 4, "recovered")
    bed.exchange(one, sent, expect={2: [sent]})


@BOTH
def test_storm_control_bounds_what_a_port_floods(bed):
    one, two = bed.host_list(2)
    update(bed, "p1", storm_control={"broadcast": {"frames_per_second": "1000", "burst_frames": "100"}})
    bed.close_wires()
    sent = result(one.send_load(rate=20_000, seconds=2, destination=BROADCAST))["sent"]
    settled_totals(bed)
    counters = one.counters()
    assert 1900 <= counters.flooded_broadcast_frames <= 2300
    assert one.drops() == {"storm_broadcast": sent - counters.flooded_broadcast_frames}
    assert two.counters().transmit_frames == counters.flooded_broadcast_frames


@BOTH
@pytest.mark.parametrize("direction", ["receive_rate", "transmit_rate"])
def test_rates_hold_in_both_directions(bed, direction):
    """8 Mbit/s of 1000-byte frames is 1000 frames/s, whatever is offered."""
    one, two = bed.host_list(2)
    port, counted = (("p1", one), ("p2", two))[direction == "transmit_rate"]
    update(bed, port, **{direction: {"bits_per_second": "8000000", "burst_bytes": "100000"}})
    bed.close_wires()
    result(one.send_load(rate=10_000, seconds=2, length=1000, destination=BROADCAST))
    settled_totals(bed)
    assert 1900 <= two.counters().transmit_frames <= 2300
    assert set(counted.drops()) == {direction + "_exceeded"}


@BOTH
def test_guards_drop_what_the_port_may_not_say(bed):
    one, _ = bed.host_list(2)
    update(bed, "p1", source_guard={"mac": True, "address": True, "ip_addresses": ["10.0.0.1"]},
           router_advertisement_guard=True, dhcp_server_guard=True)
    honest = f.frame(BROADCAST, one.mac, ethertype=0x0806, payload=bytes.fromhex(
        "0001080006040001" + one.mac.replace(":", "") + "0a000001" + "000000000000" + "0a000009"))
    liar = honest[:28] + bytes.fromhex("0a000002") + honest[32:]
    ipv4 = bytes.fromhex("4500001c000000004011" + "0000" + "0a000001" + "ffffffff")
    dhcp_offer = f.frame(BROADCAST, one.mac, ethertype=0x0800, payload=ipv4 + bytes.fromhex("0043004400080000"))
    bed.exchange(one, honest, expect={2: [honest]})
    bed.exchange(one, liar, numbered(1, "02:00:00:00:0e:0e"), dhcp_offer, expect={})
    assert one.drops() == {"source_address_guard": 1, "source_mac_guard": 1, "dhcp_server_guard": 1}


@BOTH
def test_attributes_change_under_load_and_nothing_else_is_lost(bed):
    one, two, _ = bed.host_list(3)
    one.wire.send(numbered(0, one.mac))
    two.wire.send(numbered(0, two.mac))
    wait_for(lambda: len(bed.agent.learned()) == 2, message="learned")
    bed.close_wires()
    receiver = two.receive_load(seconds=60, length=100)
    load = one.send_load(destination=two.mac, rate=10_000, length=100, seconds=4)
    turns = 0
    while load.poll() is None:
        on = turns % 2 == 0
        update(bed, "p3", isolated=on, locked=on, hairpin=on, learning=not on, flood_multicast=not on, mac_limit=turns % 5,
               storm_control={"broadcast": {"frames_per_second": str(1000 + turns)}}, admin_up=not on)
        turns += 1
    sent = result(load)["sent"]
    settled_totals(bed)
    seen = finish(receiver)
    assert turns > 100
    assert seen["streams"]["1"]["frames"] == sent and seen["streams"]["1"]["swaps"] == 0


def test_attributes_survive_a_restart(bed):
    bed.host(1, isolated=True, learning=False, bpdu_guard={"enabled": True, "recovery_time": "30s"},
             storm_control={"multicast": {"bits_per_second": "1000000"}}, transmit_rate={"bits_per_second": "5000000"},
             source_guard={"mac": True, "mac_addresses": ["02:00:00:00:0b:01"]}, dhcp_server_guard=True, admin_up=False)
    before = bed.agent.port("p1")
    bed.agent.restart()
    after = bed.agent.port("p1")
    for message in (before, after):
        message.ClearField("status")
    assert after == before
    assert after.storm_control.multicast.burst_bytes == 65536


@BOTH
def test_flap_guard_holds_an_address_that_moves_too_often(beds):
    bed = beds(switch={"flap_guard": {"moves": 5, "hold_time": "2s"}})
    one, two, three = bed.host_list(3)
    roaming = "02:00:00:00:0d:01"
    for turn in range(10):
        (one, two)[turn % 2].wire.send(numbered(turn, roaming))
        time.sleep(0.02)
    status = bed.agent.client.switches.GetSwitch(name="sw0").switch.status
    assert status.held_addresses == 1
    assert {(row.from_port, row.to_port) for row in status.moves} == {("p1", "p2"), ("p2", "p1")}
    assert sum(row.moves for row in status.moves) in (5, 6)
    dropped = one.drops().get("address_flapping", 0) + two.drops().get("address_flapping", 0)
    assert dropped >= 2
    # After its time the address may move again.
    holder = next(port for mac, _, port in bed.agent.learned() if mac == roaming)
    other = two if holder == "p1" else one
    three.wire.drain()

    def moved():
        other.wire.send(numbered(99, roaming))
        return (roaming, 1, other.port) in bed.agent.learned()

    wait_for(moved, 5, "released", step=0.2)


def test_vlan_counters_count_when_asked_to(beds):
    bed = beds(switch={"vlan_counters": True})
    one, two = bed.host(1, access=10), bed.host(2, trunk=[10, 20])
    sent = numbered(1, one.mac)
    bed.exchange(one, sent, sent, expect={2: [f.push(sent, 10)] * 2})
    two.wire.send(numbered(2, two.mac, tags=f.tag(20), length=64))
    wait_for(lambda: two.counters().receive_frames == 1, message="received")
    rows = {vlan.vid: vlan.counters for vlan in bed.agent.client.vlans.ListVlans(switch_name="sw0").vlans}
    assert (rows[10].receive_frames, rows[10].receive_bytes) == (2, 120)
    assert (rows[10].transmit_frames, rows[10].transmit_bytes) == (2, 128)
    assert (rows[20].receive_frames, rows[20].transmit_frames) == (1, 0)
    bed.agent.client.switches.UpdateSwitch(switch={"name": "sw0", "vlan_counters": False}, update_mask="vlanCounters")
    assert not bed.agent.client.vlans.ListVlans(switch_name="sw0").vlans[0].HasField("counters")


def test_a_blocked_port_comes_up_by_hand(bed):
    """Without a recovery time BPDU guard keeps the port down until admin_up or the guard is changed."""
    one = bed.host(1)
    update(bed, "p1", bpdu_guard={"enabled": True})
    one.wire.send(f.F10_STP)
    wait_for(lambda: state_of(bed, "p1") == BLOCKED, 1, "blocked")
    update(bed, "p1", admin_up=False)
    update(bed, "p1", admin_up=True)
    assert state_of(bed, "p1") == UP


def test_who_changes_one_class_of_storm_control_leaves_what_others_change(bed):
    """Three that change a class each, at once, again and again: the last word of each stands."""
    bed.host(1)
    limits = ("broadcast", "multicast", "unknown-unicast")
    rounds = 10

    def change(limit):
        for number in range(1, rounds + 1):
            done = ringctl(bed.agent, "port", "update", "p1", f"--storm-{limit}", f"{number}00fps:{number}0")
            assert done.returncode == 0, done.stderr

    with concurrent.futures.ThreadPoolExecutor(len(limits)) as pool:
        list(pool.map(change, limits))
    storm = bed.agent.port("p1").storm_control
    assert [getattr(storm, limit.replace("-", "_")).frames_per_second for limit in limits] == [rounds * 100] * 3
    assert ringctl(bed.agent, "port", "update", "p1", "--storm-multicast", "off").returncode == 0
    storm = bed.agent.port("p1").storm_control
    assert storm.HasField("broadcast") and storm.HasField("unknown_unicast") and not storm.HasField("multicast")
