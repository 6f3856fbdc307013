"""Frames across the switch, byte for byte: VLANs, learning, reserved and broken frames, on TAP and on veth ports."""
import threading
import time

import pytest

import frame as f
from bed import membership, wait_for
from frame import host_mac, numbered, number_of

pytestmark = pytest.mark.parametrize("device", ["tap", "veth"], indirect=True)


def test_broadcast_reaches_exactly_the_members(bed):
    """VLAN 10, VLAN 20 and a trunk with native VLAN 30: who sees what, tagged or not."""
    a10, b10 = bed.host(1, access=10), bed.host(2, access=10)
    a20, b20 = bed.host(3, access=20), bed.host(4, access=20)
    trunk, native = bed.host(5, trunk=[10, (20, 22)], native=30), bed.host(6, access=30)
    for sender, vid, peer in ((a10, 10, b10), (b20, 20, a20), (a20, 20, b20)):
        sent = numbered(vid, sender.mac)
        bed.exchange(sender, sent, expect={peer.number: [sent], 5: [f.push(sent, vid)]})
    in_10, in_20 = numbered(1, trunk.mac, tags=f.tag(10, pcp=3), length=64), numbered(2, trunk.mac, tags=f.tag(20), length=64)
    untagged = numbered(3, trunk.mac)
    priority = numbered(4, trunk.mac, tags=f.tag(0, pcp=6), length=64)
    bed.exchange(
        trunk,
        in_10,
        in_20,
        untagged,
        priority,
        expect={1: [f.pop(in_10)], 2: [f.pop(in_10)], 3: [f.pop(in_20)], 4: [f.pop(in_20)], 6: [untagged, f.pop(priority)]},
    )
    assert bed.agent.learned() >= {(trunk.mac, vid, "p5") for vid in (10, 20, 30)}
    sent = numbered(5, native.mac)
    bed.exchange(native, sent, expect={5: [sent]})


def test_br01_tagged_frame_keeps_its_tag(bed):
    """BR-01 (a): tag, PCP and length survive; learned in the tag's VLAN only."""
    one = bed.host(1, trunk=[10], native=1)
    bed.host(2, trunk=[10], native=1)
    bed.exchange(one, f.F3_VID_10_PCP_5, expect={2: [f.F3_VID_10_PCP_5]})
    assert bed.agent.learned() == {(one.mac, 10, "p1")}


def test_br01_twenty_tagged_round_trips(bed):
    """BR-01 (b): no 8021q devices here, so the requests and replies are tagged by hand."""
    one, two = bed.host(1, trunk=[10]), bed.host(2, trunk=[10])
    for number in range(20):
        request = numbered(number, one.mac, two.mac, tags=f.tag(10, pcp=5), length=102)
        one.wire.send(request)
        assert two.wire.receive(1, quiet=0) == [request]
        reply = numbered(number, two.mac, one.mac, tags=f.tag(10), length=102)
        two.wire.send(reply)
        assert one.wire.receive(1, quiet=0) == [reply]


def test_br08_access_port_refuses_other_vlans(bed):
    """BR-08: foreign, own and reserved VIDs on an access port are dropped, counted, and teach nothing."""
    one = bed.host(1, access=10)
    bed.host(2, access=10)
    bed.host(3, trunk=[10, 20])
    bed.host(4, access=20)
    for count, refused in enumerate((f.F6_VID_20, f.F5_VID_4095, f.F3_VID_10_PCP_5), start=1):
        bed.exchange(one, refused, expect={})
        assert one.drops() == {"tagged_on_access_port": count}
    assert bed.agent.learned() == set()
    bed.exchange(one, f.F1_BROADCAST, expect={2: [f.F1_BROADCAST], 3: [f.push(f.F1_BROADCAST, 10)]})


def test_br08_trunk_refuses_vids_it_does_not_carry(bed):
    one = bed.host(1, trunk=[10])
    bed.host(2, trunk=[10, 20], native=1)
    for refused, reason in (
        (f.F6_VID_20, "ingress_vlan_not_member"),
        (f.F5_VID_4095, "ingress_vlan_not_member"),
        (f.F1_BROADCAST, "no_native_vlan"),
    ):
        before = one.drops().get(reason, 0)
        bed.exchange(one, refused, expect={})
        assert one.drops()[reason] == before + 1
    assert bed.agent.learned() == set()


def test_br10_a_port_in_another_vlan_is_out_of_the_default_one(bed):
    x, y, z = bed.host(1, access=100), bed.host(2, access=100), bed.host(3)
    from_z = [numbered(n, z.mac) for n in range(100)]
    bed.exchange(z, *from_z, expect={})
    from_x = [numbered(n, x.mac) for n in range(100)]
    bed.exchange(x, *from_x, expect={2: from_x})
    ports = bed.agent.client.ports
    ports.UpdatePort(port={"name": "p2", "vlans": membership(access=1)}, update_mask="vlans")
    bed.exchange(z, *from_z, expect={2: from_z})
    bed.exchange(x, *from_x, expect={})
    ports.UpdatePort(port={"name": "p2", "vlans": membership(access=100)}, update_mask="vlans")
    bed.exchange(z, *from_z, expect={})
    assert y.port == "p2"


def test_br10_changing_a_vlan_is_one_clean_step(bed):
    """BR-10: while p3 moves 200 times between VLANs 1 and 100, it never hears both at once."""
    one, two, moving = bed.host(1), bed.host(2, access=100), bed.host(3)
    stop = threading.Event()

    def stream(host):
        number = 0
        while not stop.is_set():
            host.wire.send(numbered(number, host.mac))
            number += 1
            time.sleep(0.0003)

    senders = [threading.Thread(target=stream, args=(host,)) for host in (one, two)]
    for sender in senders:
        sender.start()
    try:
        for turn in range(200):
            vid, heard, silent = (100, two.mac, one.mac) if turn % 2 == 0 else (1, one.mac, two.mac)
            bed.agent.client.ports.UpdatePort(port={"name": "p3", "vlans": membership(access=vid)}, update_mask="vlans")
            # Every worker has the new VLAN when the call returns: what is in the socket now may be older, what comes
            # later may not.
            moving.wire.drain()
            sources = [received[6:12] for received in moving.wire.receive(3, quiet=0)]
            assert sources == [f.mac_bytes(heard)] * len(sources) and sources, f"turn {turn}: {silent} heard"
    finally:
        stop.set()
        for sender in senders:
            sender.join()


def learn(bed, host, *vids):
    for vid in vids:
        host.wire.send(numbered(0, host_mac(1), tags=f.tag(vid), length=64))
    wait_for(lambda: bed.agent.learned() >= {(host_mac(1), vid, host.port) for vid in vids}, message="learned")


def expect_flood(bed, sender):
    """The address of host 1 is unknown now: a unicast frame to it is flooded to host 3 and counted as such."""
    before = sender.counters().flooded_unknown_unicast_frames
    sent = f.push(f.F2_UNICAST_TO_1, 10)
    bed.hosts[3].wire.drain()
    sender.wire.send(sent)
    assert bed.hosts[3].wire.receive(1) == [sent]
    assert wait_for(lambda: sender.counters().flooded_unknown_unicast_frames - before, message="flooded") == 1


@pytest.mark.parametrize("event", ["link_down", "port_removed", "vlan_removed", "vlan_left", "namespace_gone"])
def test_br12_entries_do_not_outlive_their_cause(bed, event):
    """BR-12 (a) to (c): within 1 s the entry is gone, and frames to the address are flooded again."""
    one, two, _ = (bed.host(number, trunk=[10, 30]) for number in (1, 2, 3))
    learn(bed, one, 10, 30)
    ports = bed.agent.client.ports
    bed.agent.client.fdb.CreateFdbEntry(entry=dict(switch_name="sw0", vid=30, mac_address="02:00:00:00:0f:01", port_name="p1"))
    static = ("02:00:00:00:0f:01", 30, "p1", "static")
    kept = {(one.mac, 30, "p1")} if event.startswith("vlan") else set()
    if event == "link_down":
        one.pod.run("ip", "link", "set", "eth0", "down")
    elif event == "port_removed":
        ports.DeletePort(name="p1")
    elif event == "vlan_removed":
        bed.agent.client.vlans.RemoveVlans(port_name="p1", ranges=[{"first": 10}])
    elif event == "vlan_left":
        ports.UpdatePort(port={"name": "p1", "vlans": membership(trunk=[20, 30])}, update_mask="vlans")
    else:
        one.close_wire()
        one.pod.delete_namespace()
    is_kept = event not in ("port_removed", "namespace_gone")
    wait_for(lambda: bed.agent.learned() == kept and (static in bed.agent.fdb()) == is_kept, 1.0, f"flush after {event}")
    expect_flood(bed, two)


def test_br12_link_up_again_forwards_again(bed):
    one, two = bed.host(1), bed.host(2)
    one.pod.run("ip", "link", "set", "eth0", "down")
    wait_for(lambda: bed.agent.port("p1").status.state == 2, 1.0, "state down")
    two.wire.send(numbered(1, two.mac))
    wait_for(lambda: one.drops().get("egress_port_down") == 1, 1.0, "counted as down")
    one.pod.run("ip", "link", "set", "eth0", "up")
    wait_for(lambda: bed.agent.port("p1").status.state == 1, 1.0, "state up")
    sent = numbered(2, two.mac)
    bed.exchange(two, sent, expect={1: [sent]})
    back = numbered(3, one.mac, two.mac)
    bed.exchange(one, back, expect={2: [back]})


def test_br20_reserved_groups_are_not_forwarded(bed):
    one = bed.host(1, trunk=[10], native=1)
    bed.host(2, trunk=[10], native=1)
    reserved = [f.F9_LLDP, f.F10_STP]
    reserved += [f.frame("01:80:c2:00:00:%02x" % last, one.mac, b"reserved") for last in range(16)]
    reserved.append(f.push(f.F9_LLDP, 10))
    bed.exchange(one, *reserved, expect={})
    assert one.drops() == {"reserved_group": len(reserved)}
    bed.exchange(one, f.F11_OUTSIDE_RESERVED, expect={2: [f.F11_OUTSIDE_RESERVED]})


def test_br20_group_forward_mask(beds):
    bed = beds(switch={"group_forward_mask": 0xFFFD})
    one = bed.host(1)
    bed.host(2)
    frames = [f.frame("01:80:c2:00:00:%02x" % last, one.mac, b"reserved") for last in range(16)]
    bed.exchange(one, *frames, expect={2: [frame for last, frame in enumerate(frames) if last != 1]})
    assert one.drops() == {"reserved_group": 1}


def test_br28_impossible_sources_are_dropped(bed):
    one, two = bed.host(1), bed.host(2)
    bed.host(3)
    own_broadcast = f.frame(f.BROADCAST, f.BROADCAST)
    bed.exchange(one, f.F12_GROUP_SOURCE, f.F13_ZERO_SOURCE, own_broadcast, expect={})
    assert one.drops() == {"invalid_source": 3}
    assert bed.agent.learned() == set()
    group = f.frame("01:00:5e:01:02:03", two.mac)
    bed.exchange(two, group, expect={1: [group], 3: [group]})


def test_br28_cut_frames_are_dropped(bed, device):
    one = bed.host(1, trunk=[10], native=1)
    bed.host(2, trunk=[10], native=1)
    one.wire.send(f.F14_CUT_TAG)
    if device == "tap":  # the kernel drops it before a packet socket sees it
        wait_for(lambda: one.drops() == {"truncated_tag": 1}, 1.0, "counted")
    try:
        one.wire.send(f.F15_RUNT)  # the kernel refuses it, or pads it to 14 bytes for root
    except OSError:
        pass
    bed.exchange(one, f.F1_BROADCAST, expect={2: [f.F1_BROADCAST]})


def test_br30_only_the_outer_tag_is_read(bed):
    one = bed.host(1, trunk=[10])
    bed.host(2, access=10)
    bed.host(3, trunk=[10, 20])
    bed.host(4, access=20)
    bed.exchange(one, f.F8_TWO_TAGS, expect={2: [f.pop(f.F8_TWO_TAGS)], 3: [f.F8_TWO_TAGS]})
    assert bed.agent.learned() == {(one.mac, 10, "p1")}


def test_br30_service_tag_is_payload(bed):
    one = bed.host(1, access=10)
    bed.host(2, access=10)
    bed.host(3, trunk=[10, 20])
    bed.host(4, access=20)
    bed.exchange(one, f.F7_STAG_CTAG, expect={2: [f.F7_STAG_CTAG], 3: [f.push(f.F7_STAG_CTAG, 10)]})


def test_vlan_unaware_switch_passes_every_tag(beds):
    bed = beds(switch={"vlan_aware": False})
    one, two = bed.host(1), bed.host(2)
    frames = [f.F1_BROADCAST, f.F3_VID_10_PCP_5, f.F6_VID_20, f.F7_STAG_CTAG, f.F8_TWO_TAGS]
    bed.exchange(one, *frames, expect={2: frames})
    assert bed.agent.learned() == {(one.mac, 0, "p1")}
    answer = f.F2_UNICAST_TO_1
    bed.host(3)
    bed.exchange(two, answer, expect={1: [answer]})


def test_unknown_unicast_is_flooded_until_learned(bed):
    one, two, three = bed.host_list(3)
    bed.exchange(two, f.F2_UNICAST_TO_1, expect={1: [f.F2_UNICAST_TO_1], 3: [f.F2_UNICAST_TO_1]})
    assert two.counters().flooded_unknown_unicast_frames == 1
    assert two.counters().flood_copies == 2
    bed.exchange(one, f.F1_BROADCAST, expect={2: [f.F1_BROADCAST], 3: [f.F1_BROADCAST]})
    bed.exchange(two, f.F2_UNICAST_TO_1, expect={1: [f.F2_UNICAST_TO_1]})
    # The address moves with its owner, at its first frame.
    moved = f.frame(f.BROADCAST, one.mac)
    bed.exchange(three, moved, expect={1: [moved], 2: [moved]})
    bed.exchange(two, f.F2_UNICAST_TO_1, expect={3: [f.F2_UNICAST_TO_1]})


def test_static_entry_is_a_binding(bed):
    one, two, three = bed.host_list(3)
    bed.agent.client.fdb.CreateFdbEntry(entry=dict(switch_name="sw0", mac_address=one.mac, port_name="p1"))
    bed.exchange(two, f.F2_UNICAST_TO_1, expect={1: [f.F2_UNICAST_TO_1]})
    forged = f.frame(f.BROADCAST, one.mac)
    bed.exchange(three, forged, expect={})
    assert three.drops() == {"static_address_elsewhere": 1}
    assert (one.mac, 1, "p1", "static") in bed.agent.fdb()


def test_dynamic_entry_ages(beds):
    bed = beds(switch={"ageing_time": "1s"})
    one, two = bed.host(1), bed.host(2)
    bed.exchange(one, f.F1_BROADCAST, expect={2: [f.F1_BROADCAST]})
    assert bed.agent.learned() == {(one.mac, 1, "p1")}
    wait_for(lambda: not bed.agent.learned(), 4.0, "aged")
    assert two.port == "p2"


def test_mac_limit_forwards_without_learning(bed):
    one = bed.host(1, mac_limit=2)
    bed.host(2)
    frames = [f.frame(f.BROADCAST, "02:00:00:00:bb:%02x" % number) for number in range(5)]
    bed.exchange(one, *frames, expect={2: frames})
    assert len(bed.agent.learned()) == 2
    assert one.counters().not_learned_frames == 3


@pytest.mark.parametrize("size", [14, 15, 59, 60, 61, 1514])
def test_any_length_arrives_unchanged(bed, size):
    one = bed.host(1)
    bed.host(2)
    sent = (f.frame(f.BROADCAST, one.mac, length=14) + bytes(n & 0xFF for n in range(1500)))[:size]
    bed.exchange(one, sent, expect={2: [sent]})


def test_frame_longer_than_the_egress_mtu_is_dropped_and_counted(bed, device):
    one = bed.host(1, mtu=9000)
    two = bed.host(2, mtu=1500)
    # A packet socket takes no untagged frame of MTU + 15 to 18 bytes.
    fits = f.frame(f.BROADCAST, one.mac, length=1518 if device == "tap" else 1514)
    too_long = f.frame(f.BROADCAST, one.mac, length=1519)
    bed.exchange(one, fits, too_long, expect={2: [fits]})
    assert two.drops() == {"egress_mtu_exceeded": 1}


def test_a_mixed_flood_leaves_every_copy_intact(bed):
    """Tagged and untagged egress of one flood: the shared buffer and its one copy."""
    sender = bed.host(1, access=10)
    for number in range(2, 6):
        bed.host(number, access=10)
    for number in range(6, 10):
        bed.host(number, trunk=[10])
    frames = [numbered(number, sender.mac, length=60 + number * 20) for number in range(60)]
    expected = {number: frames for number in range(2, 6)}
    expected.update({number: [f.push(sent, 10) for sent in frames] for number in range(6, 10)})
    bed.exchange(sender, *frames, expect=expected)
    assert number_of(frames[7]) == 7
