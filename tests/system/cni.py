"""The CNI plugin, called as a runtime calls it: one process per call, the call in its environment, the configuration on stdin."""
import copy
import itertools
import json
import os
import subprocess
import time

from agent import BINARIES, binary

IPAM_PLUGINS = "/usr/lib/cni"
_serial = itertools.count(1)


class Call:
    """A finished call."""

    def __init__(self, status, stdout, stderr, seconds):
        self.status, self.stdout, self.stderr, self.seconds = status, stdout, stderr, seconds

    def json(self):
        """The one document on stdout; fails where there is more or less."""
        return json.loads(self.stdout)

    def assert_silent(self):
        assert (self.status, self.stdout) == (0, ""), (self.status, self.stdout, self.stderr)

    def assert_error(self, *codes):
        assert self.status != 0
        error = self.json()
        assert error["code"] in codes and error["msg"] and error["cniVersion"], error
        return error


class Network:
    """A CNI network whose leases and spooled DELs are kept in a directory of the test's own."""

    def __init__(self, agent, directory, subnet="10.99.1.0/29", version="1.0.0", **config):
        self.agent = agent
        self.data_dir = directory / "ipam"
        self.spool = directory / "spool"
        self.config = {"cniVersion": version, "name": "n1", "type": "ringswitch", "bridge": "sw0"}
        self.config.update(agentAddress=agent.socket, spoolDirectory=str(self.spool))
        ranges = [[{"subnet": net}] for net in (subnet if isinstance(subnet, list) else [subnet])]
        self.config["ipam"] = {"type": "host-local", "dataDir": str(self.data_dir), "ranges": ranges}
        self.config.update(config)

    def with_config(self, **changes):
        other = copy.copy(self)
        other.config = {**self.config, **changes}
        return other

    def environment(self, command, container=None, netns=None, ifname=None, **extra):
        values = {"CNI_COMMAND": command, "CNI_CONTAINERID": container, "CNI_NETNS": netns, "CNI_IFNAME": ifname}
        values.update({"CNI_PATH": f"{BINARIES}:{IPAM_PLUGINS}", "PATH": os.environ["PATH"], **extra})
        return {name: value for name, value in values.items() if value is not None}

    def start(self, command, container=None, netns=None, ifname="eth0", **extra):
        environment = self.environment(command, container, netns, ifname, **extra)
        pipe = subprocess.PIPE
        return subprocess.Popen([binary("ringswitch")], env=environment, cwd="/", stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def call(self, command, container=None, netns=None, ifname="eth0", stdin=None, previous=None, timeout=20, **extra):
        started = time.monotonic()
        process = self.start(command, container, netns, ifname, **extra)
        document = {**self.config, "prevResult": previous} if previous else self.config
        try:
            stdout, stderr = process.communicate(json.dumps(document) if stdin is None else stdin, timeout=timeout)
        finally:
            process.kill()
            process.wait()
        return Call(process.returncode, stdout, stderr, time.monotonic() - started)

    def add(self, pod, container=None, ifname="eth0", **options):
        """ADD that must succeed; its result. The pod remembers its container id."""
        pod.container = container or getattr(pod, "container", None) or f"c{os.getpid()}-{next(_serial)}"
        call = self.call("ADD", pod.container, pod.path, ifname, **options)
        assert call.status == 0, (call.stdout, call.stderr)
        return call.json()

    def delete(self, pod, ifname="eth0", **options):
        self.call("DEL", pod.container, pod.path, ifname, **options).assert_silent()

    def leases(self):
        """Addresses in use."""
        place = self.data_dir / self.config["name"]
        return {path.name for path in place.iterdir() if path.name[0].isdigit() or ":" in path.name} if place.exists() else set()
