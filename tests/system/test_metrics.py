"""/metrics: format, life of series, addresses that cannot be had."""
import concurrent.futures
import http.client
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

import pytest

from bed import wait_for
from frame import F1_BROADCAST, numbered

LINE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
MAC = re.compile(r"([0-9a-f]{2}[:-]){5}[0-9a-f]{2}", re.IGNORECASE)


def scrape_text(agent):
    with urllib.request.urlopen(f"http://{agent.metrics_address()}/metrics", timeout=2) as answer:
        return answer.read().decode()


def scrape(agent):
    """[(name, labels, value)] of one scrape."""
    samples = []
    for line in scrape_text(agent).splitlines():
        if line and not line.startswith("#"):
            name, labels, value = LINE.match(line).groups()
            samples.append((name, dict(LABEL.findall(labels or "")), float(value)))
    return samples


def total(samples, name, **labels):
    found = [value for n, has, value in samples if n == name and labels.items() <= has.items()]
    assert found, f"no {name} {labels}"
    return sum(found)


def test_promtool_has_nothing_to_say(bed):
    one = bed.host(1, access=10)
    bed.host(2, access=10, pod={"namespace": "shop", "name": 'a"b\\c', "container_id": "c1"})
    one.wire.send(F1_BROADCAST, numbered(1, one.mac, tags=b"\x81\x00\x00\x14"))
    wait_for(lambda: one.counters().receive_frames == 2, message="received")
    assert shutil.which("promtool"), "package prometheus is missing"
    done = subprocess.run(["promtool", "check", "metrics"], input=scrape_text(bed.agent), capture_output=True, text=True, timeout=10)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_metrics_say_what_the_api_says(bed):
    one, _ = bed.host(1, access=10), bed.host(2, access=10, pod={"namespace": "shop", "name": "cart", "container_id": "c1"})
    bed.host(3, access=10)
    one.wire.send(F1_BROADCAST, numbered(1, one.mac, tags=b"\x81\x00\x00\x14"))
    wait_for(lambda: one.counters().receive_frames == 2, message="received")
    samples = scrape(bed.agent)
    names = {name for name, _, _ in samples}
    assert all(name.startswith("ringswitch_") for name in names), names
    assert total(samples, "ringswitch_dropped_frames_total", port="p1", reason="tagged_on_access_port") == 1
    counters = one.counters()
    values = sorted(value for name, labels, value in samples if labels.get("port") == "p1" and "receive" in name and name.endswith("_total"))
    assert counters.receive_frames in values and counters.receive_bytes in values, values
    flooded = [value for name, labels, value in samples if "flood" in name and labels.get("port") == "p1" and "broadcast" in labels.values()]
    assert flooded == [1.0]
    info = [labels for name, labels, _ in samples if name == "ringswitch_port_info" and labels["port"] == "p2"]
    assert len(info) == 1 and {"shop", "cart"} <= set(info[0].values())
    assert "ringswitch_fdb_entries" in names


def test_br07_series_of_deleted_ports_go(bed, long_tier):
    """BR-07: many short-lived ports and many MACs leave no series; totals do not fall."""
    one = bed.host(1)
    bed.host(2)
    pod, client = bed.pod(), bed.agent.client
    one.wire.send(F1_BROADCAST)
    wait_for(lambda: one.counters().receive_frames == 1, message="received")

    def shape(samples):
        return sorted((name, tuple(sorted(labels.items()))) for name, labels, _ in samples)

    start = shape(scrape(bed.agent))
    for number in range(1, (2000 if long_tier else 200) + 1):
        name = f"t{number:04}"
        client.ports.CreatePort(port={"name": name, "switch_name": "sw0", "tap": {"netns": pod.path, "ifname": "eth0"}})
        if number % 50 == 0:
            one.wire.send(*(numbered(n, one.mac) for n in range(10)))
            scrape(bed.agent)
        client.ports.DeletePort(name=name)
    status = client.switches.GetSwitch(name="sw0").switch.status
    assert status.transmit_frames == status.flood_copies  # copies to ports that are gone are still counted
    load = one.send_load(source="02:00:00:00:00:00", source_count=10_000, count=40_000, rate=20_000, seconds=20)
    load.communicate()
    wait_for(lambda: client.switches.GetSwitch(name="sw0").switch.status.fdb_dynamic_count >= 10_000, 5, "learned")
    started = time.monotonic()
    samples = scrape(bed.agent)
    assert time.monotonic() - started < 0.1
    assert shape(samples) == start
    for _, labels, _ in samples:
        for value in labels.values():
            assert not MAC.search(value) and not re.fullmatch(r"t\d{4}", value)
    after = client.switches.GetSwitch(name="sw0").switch.status
    assert after.transmit_frames >= status.transmit_frames and after.flooded_frames >= status.flooded_frames


def occupied(host="127.0.0.1"):
    holder = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    holder.bind((host, 0))
    holder.listen()
    return holder, f"{f'[{host}]' if ':' in host else host}:{holder.getsockname()[1]}"


def assert_ended_with_one_line(agent, word):
    assert agent.wait_for_exit(2) == 2
    lines = agent.log().strip().splitlines()
    assert len(lines) == 1 and word in lines[0], lines


@pytest.mark.parametrize("address", ["localhost:99999", "localhost", "127.0.0.1:", "::1:9464", "[::1:9464", "127.0.0.1:port", ":0", ":-1", "none:0"])
def test_br32_an_address_that_cannot_be_parsed_ends_the_start(agents, address):
    agent = agents("--metrics-address", address, start=False)
    agent.spawn()
    assert_ended_with_one_line(agent, address)
    import os

    assert not os.path.exists(agent.socket)


@pytest.mark.parametrize("kind", ["busy", "busy_v6", "not_local"])
def test_br32_an_address_that_cannot_be_had_does_not_stop_forwarding(beds, kind):
    """Decision: forwarding goes on; the health of the agent says so; when the address is free it is taken."""
    holder, address = (None, "192.0.2.1:9464") if kind == "not_local" else occupied("::1" if kind == "busy_v6" else "127.0.0.1")
    reason = "in use" if holder else "not an address of this machine"
    try:
        bed = beds("--metrics-address", address)
        one, two = bed.host(1), bed.host(2)
        bed.exchange(one, F1_BROADCAST, expect={2: [F1_BROADCAST]})
        info = bed.agent.client.info.GetAgentInfo().info
        assert not info.metrics_address and any(address in problem and reason in problem for problem in info.problems), info
        assert bed.agent.log().count(address) <= 2  # once per change of state, not per attempt
        assert two.port == "p2"
    finally:
        if holder:
            holder.close()
    if holder:
        wait_for(bed.agent.metrics_address, 15, "address taken once free", step=0.2)
        assert scrape(bed.agent)
        assert not bed.agent.client.info.GetAgentInfo().info.problems


@pytest.mark.parametrize("address", ["[::1]:0", "127.0.0.1:0", "localhost:0"])
def test_br32_addresses_that_work(agents, address):
    agent = agents("--metrics-address", address)
    told = wait_for(agent.metrics_address, 2, "metrics address")
    assert not told.endswith(":0")
    port = int(told.rpartition(":")[2])
    host = "[::1]" if address.startswith("[") else "127.0.0.1"
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=2) as answer:
        assert answer.status == 200


def test_br32_the_same_port_again_right_after_a_kill(agents):
    holder, address = occupied()
    holder.close()
    agent = agents("--metrics-address", address)
    assert scrape(agent)
    agent.end(signal.SIGKILL)
    agent.start()
    assert wait_for(agent.metrics_address, 2) == address
    assert scrape(agent)


def request(agent, method, path):
    connection = http.client.HTTPConnection(agent.metrics_address(), timeout=2)
    connection.request(method, path, body=b"x" * 100_000 if method == "POST" else None)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer, text


def test_what_is_asked_for_and_how(agents):
    agent = agents()
    answer, text = request(agent, "GET", "/metrics")
    assert answer.status == 200 and answer.getheader("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
    assert "ringswitch_build_info" in text
    head, nothing = request(agent, "HEAD", "/metrics")
    assert head.status == 200 and not nothing and int(head.getheader("Content-Length")) > 0
    answer, text = request(agent, "GET", "/")
    assert answer.status == 200 and "/metrics" in text
    assert [request(agent, "GET", path)[0].status for path in ("/metric", "/metrics/", "/favicon.ico")] == [404] * 3
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        answer, _ = request(agent, method, "/metrics")
        assert (answer.status, answer.getheader("Allow")) == (405, "GET, HEAD")


def test_clients_that_say_or_read_nothing_keep_nobody_from_scraping(agents):
    """Nor from ending: SIGTERM does not wait for them."""
    agent = agents()
    host, _, port = agent.metrics_address().rpartition(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(14)]
    for client in silent[:7]:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 50)
    started = time.monotonic()
    assert scrape(agent)
    assert time.monotonic() - started < 0.5
    more = [socket.create_connection((host, int(port))) for _ in range(40)]  # beyond the limit; dropped after 5 s
    wait_for(lambda: can_scrape(agent), 20, "scraped beside 54 silent clients", step=0.2)
    status, seconds = agent.end(signal.SIGTERM)
    assert status == 0 and seconds < 0.5
    for client in silent + more:
        client.close()


def can_scrape(agent):
    try:
        return bool(scrape(agent))
    except OSError:
        return False


def test_scrapes_in_parallel_and_of_many_ports_are_quick(bed):
    pod = bed.pod()
    bed.host(1)
    for number in range(63):
        bed.agent.client.ports.CreatePort(port={"name": f"q{number}", "switch_name": "sw0", "tap": {"netns": pod.path, "ifname": f"q{number}"}})
    scrape_text(bed.agent)

    def timed():
        address = bed.agent.metrics_address()
        started = time.monotonic()
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=2) as answer:
            text = answer.read()
        return time.monotonic() - started, text.count(b"ringswitch_port_info{")

    seconds, ports = min(timed() for _ in range(5))
    assert ports == 64 and seconds < 0.1
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert [ports for _, ports in pool.map(lambda _: timed(), range(40))] == [64] * 40


def test_an_idle_agent_ends_at_once(bed):
    bed.host(1)
    scrape_text(bed.agent)
    status, seconds = bed.agent.end(signal.SIGTERM)
    assert status == 0 and seconds < 0.5


def test_metrics_can_be_off(agents):
    agent = agents("--metrics-address", "none")
    info = agent.client.info.GetAgentInfo().info
    assert not info.metrics_address and not info.problems
