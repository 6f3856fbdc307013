"""ringctl: the examples that must work as written, tables, JSON, exit codes, completion."""
import json
import subprocess

import pytest

from agent import REPOSITORY, binary, ringctl, ringctl_json

MAC = "02:00:00:00:0a:01"


@pytest.fixture
def empty(beds):
    """An agent with nothing on it yet."""
    return beds(switch=False)


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


def test_exit_codes_and_where_the_words_go(empty):
    agent = empty.agent
    refused = ringctl(agent, "port", "show", "none")
    assert refused.returncode == 1 and "none" in refused.stderr and not refused.stdout
    named = ringctl(agent, "switch", "create", "a/b")
    assert named.returncode == 1 and "name" in named.stderr.lower()
    for arguments in ((), ("nonsense",), ("port",), ("port", "list", "--nonsense"), ("port", "create"), ("fdb", "list", "--output", "xml")):
        usage = ringctl(agent, *arguments)
        assert usage.returncode == 2 and usage.stderr and not usage.stdout, arguments
    nobody = subprocess.run([binary("ringctl"), "--address", "unix:/nowhere.sock", "status"], capture_output=True, text=True, timeout=15)
    assert nobody.returncode == 3 and "/nowhere.sock" in nobody.stderr
    for arguments in (("--help",), ("port", "--help"), ("port", "create", "--help"), ("--version",)):
        assert done(agent, *arguments)


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
