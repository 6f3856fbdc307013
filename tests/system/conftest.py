"""Fixtures of the system tests, and the check that a session leaves nothing behind."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import agent as agent_module  # noqa: E402
from agent import Agent  # noqa: E402
from bed import Bed  # noqa: E402
from pod import PREFIX  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--long", action="store_true", help="also what needs minutes or millions")


def pytest_configure(config):
    config.addinivalue_line("markers", "long: needs minutes; runs with --long")
    if os.geteuid() != 0:
        pytest.exit("the system tests make network namespaces: run them as root", returncode=2)
    if not os.access(agent_module.binary("ringswitchd"), os.X_OK):
        pytest.exit(f"no ringswitchd in {agent_module.BINARIES}: build first, or set RINGSWITCH_BIN", returncode=2)


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--long"):
        for item in items:
            if "long" in item.keywords:
                item.add_marker(pytest.mark.skip(reason="needs minutes: --long"))


@pytest.hookimpl(tryfirst=True, hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Lets fixtures know whether the test failed, and shows the agents' logs if so."""
    report = (yield).get_result()
    if report.when == "call" and report.failed:
        for running in item.funcargs.get("agents", _NoAgents()).made:
            report.sections.append((f"log of {running.directory.name}", running.log()[-4000:]))


class _NoAgents:
    made = ()


def is_long(request):
    return request.config.getoption("--long")


@pytest.fixture(name="long_tier")
def fixture_long_tier(request):
    return is_long(request)


def machine_state(directory):
    """Everything that a test of this session could leave on the machine."""
    links = {link["ifname"] for link in json.loads(subprocess.check_output(["ip", "-j", "link"]))}
    namespaces = {name for name in os.listdir("/run/netns")} if os.path.isdir("/run/netns") else set()
    processes = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            parent = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if str(directory) in command or parent == os.getpid():
            processes.add(f"{pid} {command}")
    mine = {name for name in namespaces if name.startswith(f"{PREFIX}{os.getpid()}-")}
    files = {str(path) for place in ("/run/ringswitch", "/var/lib/ringswitch") for path in pathlib.Path(place).rglob("*")}
    return {"links": links, "namespaces": mine, "processes": processes, "files": files}


@pytest.fixture(scope="session", autouse=True)
def session_directory():
    """A directory of the session's own; at the end nothing must be left."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="rsw-test-"))
    agent_module.generate_protocol(directory)
    before = machine_state(directory)
    fds_before = len(os.listdir("/proc/self/fd"))
    yield directory
    shutil.rmtree(directory)
    deadline = time.monotonic() + 3
    while True:
        after = machine_state(directory)
        left = {kind: sorted(after[kind] - before[kind]) for kind in after if after[kind] - before[kind]}
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    assert not left, f"left behind: {left}"
    # gRPC's Python library keeps a few descriptors of its own.
    assert len(os.listdir("/proc/self/fd")) <= fds_before + 16


@pytest.fixture
def agents(session_directory, request):
    """Makes agents, each with its own directory, and ends them all."""

    class Agents:
        made = []

        def __call__(self, *flags, start=True, directory=None, **options):
            place = directory or tempfile.mkdtemp(prefix=f"{request.node.name[:24]}-".replace("/", "_"), dir=session_directory)
            made = Agent(place, *flags, **options)
            self.made.append(made)
            return made.start() if start else made

    Agents.made = []
    factory = Agents()
    yield factory
    for made in factory.made:
        made.cleanup()


@pytest.fixture
def device(request):
    """What ports are made of: a test or module says otherwise by an indirect parameter."""
    return getattr(request, "param", "tap")


@pytest.fixture
def beds(agents, device):
    """Makes test beds: beds("--workers", "2") is a bed on an agent with these flags."""
    made = []

    def make(*flags, switch=None, **options):
        bed = Bed(agents(*flags, **options), switch, device)
        made.append(bed)
        return bed

    yield make
    for bed in made:
        bed.cleanup()


@pytest.fixture
def bed(beds):
    return beds()
