"""The FDB through the API: listing while it changes, bulk, flushing, static entries (behaviours S, E11; BR-27)."""
import importlib
import itertools
import threading
import time

import grpc
import pytest

from agent import violated_fields
from bed import result, wait_for
from frame import frame, tag

CODE = grpc.StatusCode
KINDS = {"dynamic": "FDB_ENTRY_KIND_DYNAMIC", "static": "FDB_ENTRY_KIND_STATIC"}
METHOD = "/ringswitch.v1.FdbService/"


def refused(call, *arguments, **fields):
    with pytest.raises(grpc.RpcError) as caught:
        call(*arguments, **fields)
    return caught.value


def mac(number, block=0x0F):
    return "02:00:%02x:%02x:%02x:%02x" % (block, number >> 16 & 255, number >> 8 & 255, number & 255)


def entry(number, vid=10, port="p1", **fields):
    return {"switch_name": "sw0", "vid": vid, "mac_address": mac(number), "port_name": port, **fields}


def default_client(agent):
    """ListFdbEntries by a client that has set no limit of its own: 4 MiB is the longest answer it takes."""
    pb2 = importlib.import_module("ringswitch.v1.fdb_pb2")
    channel = grpc.insecure_channel(f"unix:{agent.socket}", options=[("grpc.use_local_subchannel_pool", 1)])
    call = channel.unary_unary(
        METHOD + "ListFdbEntries",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=pb2.ListFdbEntriesResponse.FromString,
    )
    return channel, lambda **fields: call(pb2.ListFdbEntriesRequest(**fields), timeout=10)


def list_all(call, page_size=0):
    rows, token = [], ""
    while True:
        page = call(switch_name="sw0", page_size=page_size, page_token=token)
        rows += [(row.mac_address, row.vid) for row in page.entries]
        token = page.next_page_token
        if not token:
            return rows


# --- Listing ---


def test_br27_65536_rows_with_default_limits_while_entries_come_and_go(beds):
    bed = beds(switch={"fdb_capacity": 131072})
    longest = "p" * 128
    one, two = bed.host(1, name=longest), bed.host(2)
    one.close_wire()
    two.close_wire()
    fdb = bed.agent.client.fdb

    def is_learned():
        """Frames may be lost on a busy machine, and with the table's lock taken an address is learned from its next frame."""
        result(one.send_load(source="02:00:10:00:00:00", source_count=65536, count=65536, rate=100000))
        return bed.agent.port(longest).status.fdb_dynamic_count >= 65536

    wait_for(is_learned, 30, "65536 learned addresses")

    channel, call = default_client(bed.agent)
    stop = threading.Event()

    def churn():
        for number in itertools.cycle(range(500)):
            if stop.is_set():
                return
            fdb.CreateFdbEntry(entry={**entry(number, vid=1, port="p2")})
            fdb.DeleteFdbEntry(switch_name="sw0", vid=1, mac_address=mac(number))

    coming = two.send_load(source="02:00:20:00:00:00", source_count=20000, count=20000, rate=20000)
    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for page_size in (0, 999):
            rows = list_all(call, page_size)
            wanted = [row for row in rows if row[0].startswith("02:00:10:")]
            assert len(wanted) == 65536 and len(set(wanted)) == 65536
            assert len(rows) == len(set(rows))
    finally:
        stop.set()
        thread.join()
        channel.close()
    result(coming)


def test_filters_and_tokens_of_other_listings(bed):
    bed.host(1, trunk=[10, 20])
    fdb = bed.agent.client.fdb
    fdb.CreateFdbEntries([{"entries": [entry(number, vid) for number in range(20) for vid in (10, 20)]}])
    page = fdb.ListFdbEntries(switch_name="sw0", vid=10, page_size=5)
    assert len(page.entries) <= 5 and page.next_page_token
    error = refused(fdb.ListFdbEntries, switch_name="sw0", vid=20, page_token=page.next_page_token)
    assert error.code() == CODE.INVALID_ARGUMENT and violated_fields(error) == ["page_token"]
    assert len(bed.agent.fdb(vid=10, page_size=3)) == 20


# --- Flushing ---

FILTERS = [(port, vid, kind) for port in (None, "p1") for vid in (None, 10) for kind in (None, "dynamic", "static")]


def fill(bed):
    """Of each port, VLAN and kind one entry."""
    number = 0
    for host, vid in itertools.product(bed.hosts.values(), (10, 20)):
        number += 1
        bed.agent.client.fdb.CreateFdbEntry(entry=entry(number, vid, host.port))
        host.wire.send(frame(mac(0xFFFF), mac(number, 0x1F), tags=tag(vid)))
    wait_for(lambda: len(bed.agent.fdb()) == 8, 2, "eight entries")


def test_s6_flush_by_any_combination_of_port_vlan_and_kind(bed):
    bed.host(1, trunk=[10, 20])
    bed.host(2, trunk=[10, 20])
    for port, vid, kind in FILTERS:
        fill(bed)
        before = bed.agent.fdb()
        given = {"port_name": port, "vid": vid, "kind": KINDS.get(kind)}
        fields = {name: value for name, value in given.items() if value is not None}
        flushed = bed.agent.client.fdb.FlushFdb(switch_name="sw0", **fields).flushed_count
        # Static ones only when asked for.
        gone = {row for row in before if row[1] == (vid or row[1]) and row[2] == (port or row[2]) and row[3] == (kind or "dynamic")}
        assert before - bed.agent.fdb() == gone and flushed == len(gone), fields
        for every in KINDS.values():
            bed.agent.client.fdb.FlushFdb(switch_name="sw0", kind=every)
        assert not bed.agent.fdb()


def test_a_flush_of_static_entries_outlives_the_agent(bed):
    bed.host(1, trunk=[10, 20])
    fdb = bed.agent.client.fdb
    fdb.CreateFdbEntries([{"entries": [entry(1, 10), entry(2, 20)]}])
    fdb.FlushFdb(switch_name="sw0", vid=20, kind=KINDS["static"])
    bed.close_wires()
    bed.agent.restart()
    assert {row[0] for row in bed.agent.fdb()} == {mac(1)}


# --- Static entries ---


def test_s5_a_static_entry_takes_the_place_of_a_dynamic_one_and_can_be_moved(bed):
    one, two = bed.host(1, access=10), bed.host(2, access=10)
    three = bed.host(3, access=10)
    fdb = bed.agent.client.fdb
    one.wire.send(frame(three.mac, mac(1)))
    wait_for(lambda: (mac(1), 10, "p1", "dynamic") in bed.agent.fdb(), 2, "learned")
    assert fdb.CreateFdbEntry(entry=entry(1)).entry.kind == 2
    assert {row for row in bed.agent.fdb() if row[0] == mac(1)} == {(mac(1), 10, "p1", "static")}
    assert refused(fdb.CreateFdbEntry, entry=entry(1, port="p2")).code() == CODE.ALREADY_EXISTS
    fdb.UpdateFdbEntry(entry=entry(1, port="p2"))
    two.wire.drain()
    bed.exchange(three, frame(mac(1), three.mac), expect={2: [frame(mac(1), three.mac)]})


def test_s7_s8_e11_refusals(bed):
    bed.host(1, access=10)
    bed.host(2, access=20)
    client = bed.agent.client
    client.switches.CreateSwitch(switch={"name": "sw1"})
    fdb = client.fdb
    for bad in ("00:00:00:00:00:00", "01:00:5e:00:00:01", "ff:ff:ff:ff:ff:ff", "02:00", ""):
        error = refused(fdb.CreateFdbEntry, entry=entry(1, mac_address=bad))
        assert error.code() == CODE.INVALID_ARGUMENT and violated_fields(error) == ["entry.mac_address"], bad
    assert refused(fdb.CreateFdbEntry, entry=entry(1, vid=20)).code() == CODE.FAILED_PRECONDITION
    assert refused(fdb.GetFdbEntry, switch_name="sw0", vid=10, mac_address=mac(1)).code() == CODE.NOT_FOUND
    assert refused(fdb.UpdateFdbEntry, entry=entry(1)).code() == CODE.NOT_FOUND
    assert refused(fdb.FlushFdb, switch_name="none").code() == CODE.NOT_FOUND
    elsewhere = refused(fdb.FlushFdb, switch_name="sw1", port_name="p1")
    assert elsewhere.code() == CODE.NOT_FOUND and "sw0" in elsewhere.details()
    assert not bed.agent.fdb()


def test_s11_static_entries_on_ports_that_do_not_learn_or_forward(bed):
    bed.host(1, access=10, learning=False)
    bed.host(2, access=10, admin_up=False)
    fdb = bed.agent.client.fdb
    fdb.CreateFdbEntry(entry=entry(1, port="p1"))
    fdb.CreateFdbEntry(entry=entry(2, port="p2"))
    assert {row[3] for row in bed.agent.fdb()} == {"static"} and len(bed.agent.fdb()) == 2


# --- Bulk ---


def messages(rows, size=4096, **first):
    parts = [{"entries": rows[at : at + size]} for at in range(0, len(rows), size)]
    parts[0].update(first)
    return parts


def packed(rows, **first):
    pb2 = importlib.import_module("ringswitch.v1.fdb_pb2")
    made = []
    for at in range(0, len(rows), 4096):
        message = pb2.CreateFdbEntriesRequest(**(first if at == 0 else {}))
        for row in rows[at : at + 4096]:
            message.entries.add(**row)
        made.append(message.SerializeToString())
    return made


def bulk(agent, requests, timeout=60):
    """The call with requests that are packed already: what is timed is the agent."""
    pb2 = importlib.import_module("ringswitch.v1.fdb_pb2")
    call = agent.client.channel.stream_unary(METHOD + "CreateFdbEntries", response_deserializer=pb2.CreateFdbEntriesResponse.FromString)
    return call(iter(requests), timeout=timeout)


def test_100000_entries_in_one_call(beds):
    """Below 2 s with the state file, of which the agent works less than one; a single one costs no more for it; all is there after a kill."""
    bed = beds(switch={"fdb_capacity": 131072})
    bed.host(1, access=10)
    requests, fdb = packed([entry(number) for number in range(100000)]), bed.agent.client.fdb
    quickest = 1e9
    for _ in range(3):  # the quickest counts, whatever else runs beside
        fdb.FlushFdb(switch_name="sw0", kind=KINDS["static"])
        started, cpu_started = time.perf_counter(), bed.agent.cpu_seconds()
        assert bulk(bed.agent, requests).created_count == 100000
        took, cpu = time.perf_counter() - started, bed.agent.cpu_seconds() - cpu_started
        print(f"{took:.2f} s, {cpu:.2f} s of processor time")
        quickest = min(quickest, took)
        assert cpu < 1
        if quickest < 2:
            break
    assert quickest < 2
    for life in range(2):  # a change after a restart is of a file that another process wrote
        cpu_started = bed.agent.cpu_seconds()
        for number in range(200):
            fdb.CreateFdbEntry(entry=entry(200000 + 200 * life + number))
        for number in range(100):
            fdb.DeleteFdbEntry(switch_name="sw0", vid=10, mac_address=mac(100 * life + number))
        cpu = (bed.agent.cpu_seconds() - cpu_started) / 300
        print(f"{cpu * 1e3:.2f} ms of processor time to add or delete one")
        assert cpu < 0.003
        before = bed.agent.fdb()
        assert len(before) == 100000 + 100 * (life + 1)
        bed.agent.restart(9)
        fdb = bed.agent.client.fdb
        assert bed.agent.fdb() == before


def test_other_calls_and_frames_do_not_wait_for_a_bulk(beds):
    bed = beds(switch={"fdb_capacity": 262144})
    one, two = bed.host(1, access=10), bed.host(2, access=10)
    one.wire.send(frame(two.mac, one.mac))
    two.wire.send(frame(one.mac, two.mac))
    bed.close_wires()
    requests = packed([entry(number) for number in range(200000)])
    waits, stop = [], threading.Event()

    def look():
        while not stop.is_set():
            started = time.perf_counter()
            bed.agent.client.ports.GetPort(name="p2")
            bed.agent.client.fdb.ListFdbEntries(switch_name="sw0", page_size=10)
            waits.append(time.perf_counter() - started)
            time.sleep(0.005)

    thread = threading.Thread(target=look)
    load = one.send_load(destination=two.mac, count=2000, rate=1000)  # half a second of them waits in the TAP's queue
    thread.start()
    try:
        bulk(bed.agent, requests)
    finally:
        stop.set()
        thread.join()
    result(load)
    print(f"longest wait of another call {max(waits) * 1e3:.1f} ms of {len(waits)}")
    assert len(waits) > 10 and max(waits) < 0.5
    assert wait_for(lambda: one.counters().receive_frames >= 2001, 2, "all frames")
    assert not bed.agent.drops("p1") and not bed.agent.drops("p2")


def test_ranges_are_all_or_nothing(bed):
    bed.host(1, trunk=[(10, 29)])
    fdb = bed.agent.client.fdb
    rows = [entry(number, vid=0) for number in range(3)]
    error = refused(fdb.CreateFdbEntries, [{"entries": rows, "ranges": [{"first": 10, "last": 30}]}])
    assert error.code() == CODE.FAILED_PRECONDITION and "entries[0].port_name" in error.details() and "30" in error.details()
    assert not bed.agent.fdb()
    ranges = [{"first": 10, "last": 19}, {"first": 15, "last": 29}]
    assert fdb.CreateFdbEntries([{"entries": rows, "ranges": ranges}]).created_count == 60
    assert {row[1] for row in bed.agent.fdb()} == set(range(10, 30))


BAD_LAST = [
    ({"mac_address": "01:00:5e:00:00:01"}, CODE.INVALID_ARGUMENT, "mac_address"),
    ({"mac_address": "nonsense"}, CODE.INVALID_ARGUMENT, "mac_address"),
    ({"vid": 4095}, CODE.INVALID_ARGUMENT, "vid"),
    ({"switch_name": "sw1"}, CODE.INVALID_ARGUMENT, "switch_name"),
    ({"port_name": "none"}, CODE.NOT_FOUND, "port_name"),
    ({"vid": 11}, CODE.FAILED_PRECONDITION, "port_name"),
    ({"mac_address": mac(7)}, CODE.ALREADY_EXISTS, "mac_address"),
    ({"mac_address": mac(9999)}, CODE.ALREADY_EXISTS, "mac_address"),
]


@pytest.mark.parametrize("change,code,field", BAD_LAST)
def test_one_bad_entry_and_none_is_made(bed, change, code, field):
    bed.host(1, access=10)
    fdb = bed.agent.client.fdb
    fdb.CreateFdbEntry(entry=entry(9999))
    rows = [entry(number) for number in range(300)] + [entry(300, **change)]
    for validate_only in (True, False):
        error = refused(fdb.CreateFdbEntries, messages(rows, 100, validate_only=validate_only))
        assert error.code() == code and f"entries[300].{field}" in error.details(), error
        assert len(bed.agent.fdb()) == 1
    assert fdb.CreateFdbEntries(messages(rows[:300], 100, validate_only=True)).created_count == 300
    assert len(bed.agent.fdb()) == 1


def test_replace_moves_static_entries(bed):
    bed.host(1, access=10)
    bed.host(2, access=10)
    fdb = bed.agent.client.fdb
    assert fdb.CreateFdbEntries(messages([entry(number) for number in range(10)])).created_count == 10
    moved = [entry(number, port="p2") for number in range(5, 15)]
    assert refused(fdb.CreateFdbEntries, messages(moved)).code() == CODE.ALREADY_EXISTS
    assert fdb.CreateFdbEntries(messages(moved, 3, replace=True)).created_count == 10
    assert {row[2] for row in bed.agent.fdb() if row[0] >= mac(5)} == {"p2"} and len(bed.agent.fdb()) == 15


def test_what_does_not_fit_is_refused_before_anything_is_made(beds):
    bed = beds(switch={"fdb_capacity": 16})
    bed.host(1, access=10)
    fdb = bed.agent.client.fdb
    error = refused(fdb.CreateFdbEntries, messages([entry(number) for number in range(17)]))
    assert error.code() == CODE.RESOURCE_EXHAUSTED and "16" in error.details() and not bed.agent.fdb()
    assert fdb.CreateFdbEntries(messages([entry(number) for number in range(16)])).created_count == 16


def test_more_than_1048576_entries_are_refused(bed):
    bed.host(1, trunk=[(2, 4000)])
    row = packed([entry(0, vid=0)] * 4096)[0]
    with pytest.raises(grpc.RpcError) as caught:
        bulk(bed.agent, [row] * 257)
    assert caught.value.code() == CODE.RESOURCE_EXHAUSTED
    rows = [entry(number, vid=0) for number in range(300)]
    error = refused(bed.agent.client.fdb.CreateFdbEntries, [{"entries": rows, "ranges": [{"first": 2, "last": 4000}]}])
    assert error.code() == CODE.RESOURCE_EXHAUSTED and not bed.agent.fdb() and bed.agent.client.health()


def test_a_client_that_leaves_in_the_middle_has_made_nothing(bed):
    bed.host(1, access=10)
    first = packed([entry(number) for number in range(200)])
    call = bed.agent.client.channel.stream_unary(METHOD + "CreateFdbEntries")
    for _ in range(30):
        sent, leave = threading.Event(), threading.Event()

        def requests():
            yield from first
            sent.set()
            leave.wait(5)

        pending = call.future(requests(), timeout=10)
        assert sent.wait(5)
        pending.cancel()
        leave.set()
    time.sleep(0.2)
    assert not bed.agent.fdb()


def test_a_stalled_client_holds_up_nobody_and_streams_are_limited(bed):
    bed.host(1, access=10)
    first = packed([entry(number) for number in range(200)])
    call = bed.agent.client.channel.stream_unary(METHOD + "CreateFdbEntries")
    leave = threading.Event()

    def requests():
        yield from first
        leave.wait(10)

    pending = [call.future(requests(), timeout=10) for _ in range(8)]
    fdb = bed.agent.client.fdb

    def is_limited():
        try:
            fdb.CreateFdbEntries(messages([entry(5000)], validate_only=True))
        except grpc.RpcError as error:
            return error.code() == CODE.RESOURCE_EXHAUSTED
        return False

    wait_for(is_limited, 2, "eight streams")
    fdb.CreateFdbEntry(entry=entry(6000))
    assert bed.agent.port("p1").name == "p1"
    for one in pending:
        one.cancel()
    leave.set()
    wait_for(lambda: not is_limited(), 2, "the streams' end")
    assert bed.agent.fdb() == {(mac(6000), 10, "p1", "static")}


def test_no_entries_is_an_error(bed):
    error = refused(bed.agent.client.fdb.CreateFdbEntries, [{"replace": True}])
    assert error.code() == CODE.INVALID_ARGUMENT and violated_fields(error) == ["entries"]

