"""ringctl: the examples that must work as written, tables, JSON, exit codes, completion."""
import json
import os
import subprocess

import pytest

from agent import REPOSITORY, binary, ringctl_json
from bed import wait_for
from frame import frame

MAC = "02:00:00:00:0a:01"


@pytest.fixture
def empty(beds):
    """An agent with nothing on it yet."""
    return beds(switch=False)


def ringctl(agent, *arguments, text_in=None):
    command = [binary("ringctl"), "--address", f"unix:{agent.socket}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=10, input=text_in)


def done(agent, *arguments):
    run = ringctl(agent, *arguments)
    assert run.returncode == 0, (arguments, run.stderr)
    assert not run.stderr
    return run.stdout


def make_things(empty):
    agent, pod = empty.agent, empty.pod()
    done(agent, "switch", "create", "sw0", "--mode", "bridge")
    where = ("--tap", "--netns", pod.path)
    done(agent, "port", "create", "p1", "--switch", "sw0", *where, "--ifname", "eth0", "--mac", MAC, "--access", "10")
    done(agent, "port", "create", "p2", "--switch", "sw0", *where, "--ifname", "lan0", "--trunk", "10,20,100-199", "--native", "1")
    done(agent, "fdb", "add", "--switch", "sw0", "--vlan", "10", "--mac", MAC, "--port", "p1")
    return agent, pod


def test_the_examples_work_as_written(empty):
    agent, pod = make_things(empty)
    assert pod.link("eth0")["address"] == MAC and pod.link("lan0")
    entries = ringctl_json(agent, "fdb", "list", "--switch", "sw0")
    text = json.dumps(entries)
    assert MAC in text and "p1" in text and "STATIC" in text.upper()
    assert agent.port("p2").vlans.trunk.native_vid == 1


def test_tables_are_for_people(empty):
    agent, _ = make_things(empty)
    for arguments, words in (
        (("switch", "list"), ("sw0", "bridge")),
        (("switch", "show", "sw0"), ("sw0", "300")),
        (("port", "list"), ("p1", "p2", MAC, "up")),
        (("port", "list", "--switch", "sw0"), ("p1",)),
        (("port", "show", "p1"), (MAC, "10")),
        (("vlan", "list", "--switch", "sw0"), ("10", "p1", "p2")),
        (("fdb", "list", "--switch", "sw0"), (MAC, "static", "p1")),
        (("status",), ("NetworkPolicy",)),
        (("floods",), ("p1",)),
    ):
        table = done(agent, *arguments)
        assert table.endswith("\n") and all(word.lower() in table.lower() for word in words), (arguments, table)
        assert json.loads(done(agent, *arguments, "--output", "json")) is not None


def test_changes_and_deletion(empty):
    agent, pod = make_things(empty)
    done(agent, "port", "update", "p1", "--mtu", "9000")
    assert pod.link("eth0")["mtu"] == 9000 and agent.port("p1").vlans.access_vid == 10
    done(agent, "switch", "update", "sw0", "--ageing-time", "60s")
    assert agent.client.switches.GetSwitch(name="sw0").switch.ageing_time.seconds == 60
    done(agent, "fdb", "flush", "--switch", "sw0", "--kind", "static")
    assert agent.fdb() == set()
    for name in ("p1", "p2"):
        done(agent, "port", "delete", name)
    done(agent, "switch", "delete", "sw0")
    assert not pod.links()


def test_a_port_is_found_by_its_pod(empty):
    agent, pod = make_things(empty)
    done(agent, "port", "create", "p3", "--switch", "sw0", "--tap", "--netns", pod.path, "--ifname", "x", "--pod", "shop/cart")
    assert ringctl_json(agent, "port", "show", "--pod", "shop/cart")["name"] == "p3"
    done(agent, "port", "delete", "--pod", "shop/cart")
    assert ringctl(agent, "port", "show", "--pod", "shop/cart").returncode == 1


def refused(agent, *arguments, code=1, text=None):
    """The one line that says why."""
    run = ringctl(agent, *arguments, text_in=text)
    assert run.returncode == code and not run.stdout, (arguments, run)
    lines = run.stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("ringctl: "), run.stderr
    return lines[0]


def test_exit_codes_and_where_the_words_go(empty):
    agent = empty.agent
    assert "none" in refused(agent, "port", "show", "none")
    assert "name" in refused(agent, "switch", "create", "a/b").lower()
    for arguments in ((), ("port",), ("port", "list", "--nonsense"), ("port", "create"), ("fdb", "list", "--output", "xml")):
        assert "--help" in refused(agent, *arguments, code=2)
    nobody = subprocess.run([binary("ringctl"), "--address", "unix:/nowhere.sock", "status"], capture_output=True, text=True, timeout=15)
    assert nobody.returncode == 3 and "/nowhere.sock" in nobody.stderr
    for arguments in (("--help",), ("port", "--help"), ("port", "create", "--help"), ("--version",)):
        assert done(agent, *arguments)


def test_what_is_no_command_is_named_with_and_without_help(empty):
    for arguments in (("nonsense",), ("port", "nonsense"), ("fdb", "nonsense", "--help"), ("nonsense", "--help")):
        line = refused(empty.agent, *arguments, code=2)
        assert '"nonsense" is no command of ringctl' in line, line


def test_the_help_of_a_noun_shows_its_own_examples(empty):
    for noun in ("switch", "port", "vlan", "fdb"):
        text = done(empty.agent, noun, "--help")
        examples = [line for line in text[text.index("Examples:") :].splitlines()[1:] if line.strip()]
        assert examples and all(line.startswith(f"  ringctl {noun} ") or f"| ringctl {noun} " in line for line in examples), text


ATTRIBUTES = [
    # arguments, what `port show` prints of them, how they are switched off
    (("--learning", "off"), "learning: off", ("--learning", "on")),
    (("--flood-unknown-unicast", "off"), "flood-unknown-unicast: off", ("--flood-unknown-unicast", "on")),
    (("--flood-multicast", "off"), "flood-multicast: off", ("--flood-multicast", "on")),
    (("--flood-broadcast", "off"), "flood-broadcast: off", ("--flood-broadcast", "on")),
    (("--isolated", "on"), "isolated: on", ("--isolated", "off")),
    (("--hairpin", "on"), "hairpin: on", ("--hairpin", "off")),
    (("--locked", "on"), "locked: on", ("--locked", "off")),
    (("--mac-limit", "7"), "mac-limit: 7", ("--mac-limit", "0")),
    (("--bpdu-guard", "on"), "bpdu-guard: on", ("--bpdu-guard", "off")),
    (("--bpdu-guard", "5m"), "bpdu-guard: 300s", ("--bpdu-guard", "off")),
    (("--storm-broadcast", "1000fps:200"), "storm-broadcast: 1000fps:200", ("--storm-broadcast", "off")),
    (("--storm-multicast", "10Mbit:128KiB"), "storm-multicast: 10Mbit:128KiB", ("--storm-multicast", "off")),
    (("--storm-unknown-unicast", "500fps:50,1Mbit:65536"), "storm-unknown-unicast: 500fps:50,1Mbit:64KiB", ("--storm-unknown-unicast", "off")),
    (("--receive-rate", "100Mbit:1MiB"), "receive-rate: 100Mbit:1MiB", ("--receive-rate", "off")),
    (("--transmit-rate", "1.5Gbit:1MiB"), "transmit-rate: 1500Mbit:1MiB", ("--transmit-rate", "off")),
    (("--source-guard", "mac,address"), "source-guard: mac,address", ("--source-guard", "off")),
    (("--ra-guard", "on"), "ra-guard: on", ("--ra-guard", "off")),
    (("--dhcp-guard", "on"), "dhcp-guard: on", ("--dhcp-guard", "off")),
]


def shown(agent, name):
    """Lines of `port show`, with one blank between title and value."""
    return {" ".join(line.split()) for line in done(agent, "port", "show", name).splitlines()}


def test_every_attribute_is_set_shown_and_switched_off(empty):
    agent, _ = make_things(empty)
    usual = shown(agent, "p1")
    for arguments, line, off in ATTRIBUTES:
        assert line not in usual
        done(agent, "port", "update", "p1", *arguments)
        assert shown(agent, "p1") - usual == {line}, (arguments, shown(agent, "p1") - usual)
        done(agent, "port", "update", "p1", *off)
        assert shown(agent, "p1") == usual, off
    done(agent, "port", "update", "p1", *[word for arguments, _, _ in ATTRIBUTES for word in arguments if arguments != ("--bpdu-guard", "on")])
    assert len(shown(agent, "p1") - usual) == len(ATTRIBUTES) - 1


def test_attributes_are_taken_at_creation_too(empty):
    agent, pod = make_things(empty)
    words = [word for arguments, _, _ in ATTRIBUTES for word in arguments if arguments != ("--bpdu-guard", "on")]
    done(agent, "port", "create", "p3", "--switch", "sw0", "--tap", "--netns", pod.path, "--ifname", "x", "--down", *words)
    lines = shown(agent, "p3")
    assert {line for arguments, line, _ in ATTRIBUTES if arguments != ("--bpdu-guard", "on")} <= lines
    assert any(line.startswith("state: down") for line in lines)
    done(agent, "port", "update", "p3", "--up")
    assert agent.port("p3").admin_up


def test_a_part_of_storm_control_and_source_guard_leaves_the_rest(empty):
    agent, _ = make_things(empty)
    done(agent, "port", "update", "p1", "--storm-broadcast", "100fps:16", "--source-guard", "mac,address", "--allow-mac", "02:00:00:00:0b:01,02:00:00:00:0b:02")
    done(agent, "port", "update", "p1", "--storm-multicast", "200fps:20", "--allow-ip", "10.0.0.2")
    lines = shown(agent, "p1")
    assert {"storm-broadcast: 100fps:16", "storm-multicast: 200fps:20", "source-guard: mac,address"} <= lines
    assert {"allow-mac: 02:00:00:00:0b:01,02:00:00:00:0b:02", "allow-ip: 10.0.0.2"} <= lines
    done(agent, "port", "update", "p1", "--allow-mac", "none", "--storm-broadcast", "off")
    lines = shown(agent, "p1")
    assert not any(line.startswith(("allow-mac", "storm-broadcast")) for line in lines) and "allow-ip: 10.0.0.2" in lines
    done(agent, "port", "update", "p1", "--source-guard", "mac")
    assert "source-guard: mac" in shown(agent, "p1") and not agent.port("p1").source_guard.ip_addresses


def test_what_the_agent_refuses_names_the_flag(empty):
    agent, pod = make_things(empty)
    for arguments, flag in (
        (("--mac-limit", "2000000"), "--mac-limit"),
        (("--receive-rate", "999bit"), "--receive-rate"),
        (("--storm-broadcast", "2000000000fps"), "--storm-broadcast"),
        (("--bpdu-guard", "100000"), "--bpdu-guard"),
        (("--source-guard", "mac", "--allow-mac", "nonsense"), "--allow-mac"),
        (("--source-guard", "address", "--allow-ip", "10.0.0.0/8"), "--allow-ip"),
        (("--access", "4095"), "--access"),
        (("--trunk", "4095"), "--trunk"),
        (("--mtu", "1"), "--mtu"),
    ):
        assert refused(agent, "port", "update", "p1", *arguments).startswith(f"ringctl: {flag}: "), arguments
    where = ("--switch", "sw0", "--tap", "--netns", pod.path)
    line = refused(agent, "port", "create", "p1", *where, "--ifname", "x")
    assert line.startswith("ringctl: NAME: ") and "ringctl port update p1" in line
    line = refused(agent, "port", "create", "p9", *where, "--ifname", "eth0")
    assert line.startswith("ringctl: --ifname: ") and "take another" in line
    assert "ringctl switch update sw0" in refused(agent, "switch", "create", "sw0")
    assert refused(agent, "port", "create", "p9", "--switch", "sw0", "--netdev", "none0").startswith("ringctl: --netdev: ")
    assert refused(agent, "switch", "update", "sw0", "--flap-guard", "256").startswith("ringctl: --flap-guard: ")


def test_netdev_and_veth_ports(empty):
    agent, pod = make_things(empty)
    host = f"rsw{os.getpid()}c"
    subprocess.run(["ip", "link", "add", host, "type", "veth", "peer", "name", "eth9", "netns", pod.name], check=True)
    try:
        done(agent, "port", "create", "p3", "--switch", "sw0", "--netdev", host, "--trunk", "10,20,100-199", "--native", "1", "--host-stack", "keep")
        assert {f"device: netdev {host}", "host-stack: keep", "lost by the device: 0"} <= shown(agent, "p3")
        done(agent, "port", "create", "p4", "--switch", "sw0", "--veth", "--netns", pod.path, "--ifname", "eth8", "--host-ifname", host + "v")
        assert {"device: veth eth8", f"host interface: {host}v"} <= shown(agent, "p4") and pod.link("eth8")
        line = refused(agent, "port", "create", "p5", "--switch", "sw0", "--netdev", host)
        assert line.startswith("ringctl: --netdev or --host-ifname: ") and "p3" in line
        table = done(agent, "port", "list")
        for cell in (f"netdev:{host}", f"veth:{pod.name}:eth8", f"tap:{pod.name}:eth0"):
            assert cell in table
    finally:
        done(agent, "port", "delete", "p3")
        done(agent, "port", "delete", "p4")
        subprocess.run(["ip", "link", "del", host], check=True)


def test_port_list_says_why_a_port_is_down(empty):
    agent, _ = make_things(empty)
    done(agent, "port", "update", "p1", "--down")
    row = [line for line in done(agent, "port", "list").splitlines() if line.startswith("p1 ")][0]
    assert " down " in row and agent.port("p1").status.state_detail and row.endswith(agent.port("p1").status.state_detail)


def test_switch_settings_and_vlan_counters(empty):
    agent, _ = make_things(empty)
    assert "RX" not in done(agent, "vlan", "list", "--switch", "sw0")
    done(agent, "switch", "update", "sw0", "--vlan-counters", "on", "--flap-guard", "5:30s")
    text = done(agent, "switch", "show", "sw0")
    assert "flap-guard:" in text and "5:30s" in text and "vlan-counters:" in text and "moved addresses:" in text
    assert "RX-BYTES" in done(agent, "vlan", "list", "--switch", "sw0")
    assert "received frames:" in done(agent, "vlan", "show", "10", "--switch", "sw0")
    done(agent, "switch", "update", "sw0", "--vlan-counters", "off", "--flap-guard", "off")
    assert "flap-guard:" not in done(agent, "switch", "show", "sw0")
    done(agent, "switch", "create", "sw1", "--vlan-counters", "on", "--flap-guard", "9")
    assert agent.client.switches.GetSwitch(name="sw1").switch.flap_guard.moves == 9


def test_moves_are_shown_by_pair(beds):
    bed = beds()
    one, two = bed.host(1), bed.host(2)
    for host in (one, two, one):
        host.wire.send(frame("ff:ff:ff:ff:ff:ff", "02:00:00:00:0f:01"))
        wait_for(lambda: ("02:00:00:00:0f:01", 1, host.port, "dynamic") in bed.agent.fdb(), 2, "learned")  # pylint: disable=cell-var-from-loop
    lines = [" ".join(line.split()) for line in done(bed.agent, "switch", "show", "sw0").splitlines()]
    assert {"moved addresses: 2", "p1 to p2: 1", "p2 to p1: 1"} <= set(lines), lines


def test_fdb_add_in_many_vlans_and_from_a_file(empty, tmp_path):
    agent, _ = make_things(empty)
    other = "02:00:00:00:0a:02"
    assert done(agent, "fdb", "add", "--vlan", "10,20,100-109", "--mac", other, "--port", "p2") == "FDB entries created: 12\n"
    assert len(agent.fdb()) == 13
    assert "exists" in refused(agent, "fdb", "add", "--vlan", "10,20", "--mac", other, "--port", "p2")
    assert "--vlan" in refused(agent, "fdb", "add", "--vlan", "10-4095", "--mac", other, "--port", "p2")
    # From a file, with comments; and from standard input.
    entries = tmp_path / "entries"
    entries.write_text("# of the printers\n10 02:00:00:00:0a:03 p1\n\n20 02:00:00:00:0a:04 p2  # the second\n")
    assert done(agent, "fdb", "add", "--switch", "sw0", "--from", str(entries)) == "FDB entries created: 2\n"
    run = ringctl(agent, "fdb", "add", "--from", "-", "--output", "json", text_in="10 02:00:00:00:0a:05 p1\n")
    assert json.loads(run.stdout) == {"createdCount": 1}, run
    assert len(agent.fdb()) == 16
    # What is wrong is told by its line, and none is made.
    entries.write_text("10 02:00:00:00:0a:06 p1\n\n10 02:00:00:00:0a:07 none\n")
    line = refused(agent, "fdb", "add", "--switch", "sw0", "--from", str(entries))
    assert line.startswith(f"ringctl: {entries}:3: ") and "none" in line
    line = refused(agent, "fdb", "add", "--from", "-", code=2, text="ten 02:00:00:00:0a:06 p1\n")
    assert "standard input:1: a line is VID MAC PORT" in line
    line = refused(agent, "fdb", "add", "--from", "-", text="10 02:00 p1\n")
    assert line.startswith("ringctl: standard input:1: ")
    assert len(agent.fdb()) == 16
    # Moved only when asked for.
    entries.write_text("10 02:00:00:00:0a:03 p2\n")
    refused(agent, "fdb", "add", "--from", str(entries))
    assert "would be" in done(agent, "fdb", "add", "--from", str(entries), "--replace", "--validate-only")
    done(agent, "fdb", "add", "--from", str(entries), "--replace")
    assert ("02:00:00:00:0a:03", 10, "p2", "static") in agent.fdb()


def test_fdb_flush_combines_what_is_given(empty):
    agent, _ = make_things(empty)
    done(agent, "fdb", "add", "--vlan", "10,20", "--mac", "02:00:00:00:0a:02", "--port", "p2")
    assert done(agent, "fdb", "flush", "--switch", "sw0") == "FDB entries flushed: 0\n"
    assert done(agent, "fdb", "flush", "--port", "p2", "--vlan", "10", "--kind", "static") == "FDB entries flushed: 1\n"
    assert {row[:2] for row in agent.fdb()} == {(MAC, 10), ("02:00:00:00:0a:02", 20)}


def complete(line, agent=None):
    """What the completion offers behind `line`."""
    script = REPOSITORY / "server/ringctl/ringctl.bash"
    line = f"ringctl --address {agent.socket}{line[7:]}" if agent else line
    program = f"""
        set -u
        PATH={binary('')}:$PATH
        source {script}
        COMP_LINE='{line}'
        COMP_POINT=${{#COMP_LINE}}
        COMP_WORDS=($COMP_LINE)
        COMP_CWORD=1
        _ringctl ringctl
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    run = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=10)
    assert (run.returncode, run.stderr) == (0, ""), run
    return set(run.stdout.split())


def test_completion_knows_commands_flags_values_and_names(empty):
    agent, pod = make_things(empty)
    done(agent, "port", "create", "p3", "--switch", "sw0", "--tap", "--netns", pod.path, "--ifname", "x", "--pod", "shop/cart")
    done(agent, "port", "update", "p3", "--down")
    assert {"create", "update"} <= complete("ringctl port ")
    assert {"--netdev", "--veth", "--storm-broadcast", "--allow-ip"} <= complete("ringctl port create --")
    assert {"--from", "--replace"} <= complete("ringctl fdb add --")
    for flag in ("--learning", "--flood-multicast", "--isolated", "--locked", "--ra-guard"):
        assert complete(f"ringctl port update p1 {flag} ") == {"on", "off"}, flag
    assert "mac,address" in complete("ringctl port update p1 --source-guard m")
    assert complete("ringctl port create p1 --host-stack ") == {"drop", "keep"}
    assert "lo" in complete("ringctl port create p1 --netdev l")
    assert complete("ringctl port show ", agent) == {"p1", "p2", "p3"}
    assert complete("ringctl port update --down p", agent) == {"p1", "p2", "p3"}
    assert complete("ringctl port show --pod ", agent) == {"shop/cart"}
    assert complete("ringctl switch show ", agent) == {"sw0"}


def test_completion_sources_cleanly_and_completes():
    script = REPOSITORY / "server/ringctl/ringctl.bash"
    program = f"""
        set -eu
        PATH={binary('')}:$PATH
        source {script}
        complete -p ringctl >/dev/null
        COMP_WORDS=(ringctl por) COMP_CWORD=1 COMP_LINE='ringctl por' COMP_POINT=11
        function=$(complete -p ringctl | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        $function ringctl por ringctl
        echo "${{COMPREPLY[@]}}"
    """
    run = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=10)
    assert (run.returncode, run.stderr) == (0, "") and "port" in run.stdout.split(), run
