"""A pod: a network namespace of the test's own."""
import contextlib
import ctypes
import itertools
import json
import os
import subprocess

PREFIX = "rsw-"
CLONE_NEWNET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)
_serial = itertools.count(1)


@contextlib.contextmanager
def entered_namespace(path):
    """Puts the calling thread into the namespace. Sockets opened and processes started within belong to it."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        there = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if _libc.setns(there, CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns " + path)
        finally:
            os.close(there)
        try:
            yield
        finally:
            if _libc.setns(home, CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns back")
    finally:
        os.close(home)


def run(*command, **options):
    """Runs a command that must succeed; returns its output."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=options.pop("timeout", 60), **options)
    assert done.returncode == 0, f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


class Pod:
    def __init__(self, ipv6=False):
        self.name = f"{PREFIX}{os.getpid()}-{next(_serial)}"
        self.path = f"/run/netns/{self.name}"
        self.processes = []
        run("ip", "netns", "add", self.name)
        # Without it the namespace sends router solicitations and MLD reports of its own.
        self.sysctl("net/ipv6/conf/all/disable_ipv6", 0 if ipv6 else 1)
        self.sysctl("net/ipv6/conf/default/disable_ipv6", 0 if ipv6 else 1)
        self.run("ip", "link", "set", "lo", "up")

    def entered(self):
        return entered_namespace(self.path)

    def sysctl(self, name, value):
        with self.entered(), open("/proc/sys/" + name, "w") as file:
            file.write(str(value))

    def run(self, *command, **options):
        with self.entered():
            return run(*command, **options)

    def attempt(self, *command, timeout=60):
        """Runs a command that may fail; returns the finished process."""
        with self.entered():
            return subprocess.run(command, capture_output=True, text=True, timeout=timeout)

    def start(self, *command, **options):
        """Starts a process that ends with the pod at the latest."""
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        with self.entered():
            process = subprocess.Popen(command, text=True, **options)
        self.processes.append(process)
        return process

    def links(self):
        """Interfaces by name, with addresses, as iproute2 shows them; `lo` left out."""
        return {link["ifname"]: link for link in json.loads(self.run("ip", "-d", "-j", "addr")) if link["ifname"] != "lo"}

    def link(self, ifname="eth0"):
        return self.links().get(ifname)

    def addresses(self, ifname="eth0"):
        return {f"{a['local']}/{a['prefixlen']}" for a in self.link(ifname)["addr_info"] if a["scope"] == "global"}

    def counter(self, name, ifname="eth0"):
        """A counter of the interface, as the kernel keeps it: rx_packets, tx_packets, tx_dropped, rx_bytes..."""
        with self.entered():
            for line in open("/proc/net/dev"):
                label, _, rest = line.partition(":")
                if label.strip() == ifname:
                    values = [int(value) for value in rest.split()]
                    columns = ["rx_bytes", "rx_packets", "rx_errors", "rx_dropped"] + ["-"] * 4
                    columns += ["tx_bytes", "tx_packets", "tx_errors", "tx_dropped"]
                    return dict(zip(columns, values))[name]
        raise AssertionError(f"{self.name} has no {ifname}")

    def snmp(self, *names):
        """Counters of the namespace's IP stack by their nstat names; one that is not there counts 0."""
        values = json.loads(self.run("nstat", "-asz", "-j"))["kernel"]
        return {name: values.get(name, 0) for name in names}

    def ping(self, address, count=3, interval=0.05, wait=1):
        """True when every echo was answered."""
        family = "-6" if ":" in address else "-4"
        command = ("ping", family, "-q", "-c", str(count), "-i", str(interval), "-W", str(wait), address)
        return " 0% packet loss" in self.attempt(*command).stdout

    def stop_processes(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr, process.stdin):
                if pipe:
                    pipe.close()
        self.processes.clear()

    def delete_namespace(self):
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True)

    def delete(self):
        self.stop_processes()
        self.delete_namespace()
