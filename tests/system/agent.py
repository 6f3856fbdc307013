"""ringswitchd under test, and a gRPC client that is made from the .proto files alone."""
import importlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import google
import grpc
from google.protobuf import descriptor_pb2, json_format, symbol_database

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BINARIES = pathlib.Path(os.environ.get("RINGSWITCH_BIN", REPOSITORY / "build" / "bin"))
SERVICES = {
    "ports": "port.PortService",
    "switches": "switch.SwitchService",
    "vlans": "vlan.VlanService",
    "fdb": "fdb.FdbService",
    "attachments": "attachment.AttachmentService",
    "info": "agent.AgentService",
    "watches": "watch.WatchService",
    "captures": "capture.CaptureService",
}
SLOW = float(os.environ.get("RINGSWITCH_SLOW", "1"))  # how many times, where the processor is emulated: bounds on time grow
START_SECONDS = 5 * SLOW


def generate_protocol(directory):
    """Generates Python modules from the contract and makes them importable."""
    root = REPOSITORY / "proto"
    files = sorted(str(path.relative_to(root)) for path in root.rglob("*.proto"))
    subprocess.run(["protoc", f"-I{root}", f"--python_out={directory}", *files], check=True)
    sys.path.insert(0, str(directory))
    google.__path__.append(str(directory / "google"))


def binary(name):
    return str(BINARIES / name)


class Service:
    """One gRPC service; its methods take the request's fields as keywords and give the answer message."""

    def __init__(self, channel, place):
        module, name = place.split(".")
        self._descriptor = importlib.import_module(f"ringswitch.v1.{module}_pb2").DESCRIPTOR.services_by_name[name]
        self._channel = channel

    def request_type(self, method):
        return symbol_database.Default().GetPrototype(self._descriptor.methods_by_name[method].input_type)

    def __getattr__(self, method):
        """Unary: the answer. Answers that stream: the call, which iterates over them. Requests that stream: a list of dictionaries is given."""
        description = self._descriptor.methods_by_name[method]
        answer_type = symbol_database.Default().GetPrototype(description.output_type)
        request_type = self.request_type(method)
        streams = descriptor_pb2.MethodDescriptorProto()
        description.CopyToProto(streams)
        kind = "_".join("stream" if streaming else "unary" for streaming in (streams.client_streaming, streams.server_streaming))
        call = getattr(self._channel, kind)(
            f"/{self._descriptor.full_name}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer_type.FromString,
        )

        def invoke(requests=None, timeout=10, **fields):
            timeout *= SLOW
            if streams.client_streaming:
                return call((json_format.ParseDict(request, request_type()) for request in requests), timeout=timeout)
            return call(json_format.ParseDict(fields, request_type()), timeout=timeout)

        return invoke


class Client:
    def __init__(self, socket_path):
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        options.append(("grpc.use_local_subchannel_pool", 1))
        self.channel = grpc.insecure_channel(f"unix:{socket_path}", options=options)
        for attribute, place in SERVICES.items():
            setattr(self, attribute, Service(self.channel, place))

    def raw(self, method, request=b"", timeout=5):
        """Calls a method that this client has no types for."""
        return self.channel.unary_unary(method)(request, timeout=timeout * SLOW)

    def health(self, timeout=2):
        """True when grpc.health.v1 says SERVING (field 1 of the answer is 1)."""
        return self.raw("/grpc.health.v1.Health/Check", timeout=timeout) == b"\x08\x01"

    def close(self):
        self.channel.close()


def error_details(error):
    """The google.rpc details of a failed call, by message name."""
    status_pb2 = importlib.import_module("google.rpc.status_pb2")
    details_pb2 = importlib.import_module("google.rpc.error_details_pb2")
    found = {}
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for packed in status_pb2.Status.FromString(value).details:
                name = packed.type_url.rpartition(".")[2]
                message = getattr(details_pb2, name)()
                assert packed.Unpack(message), packed.type_url
                found[name] = message
    return found


def violated_fields(error):
    """Names of the request's fields that the error blames."""
    request = error_details(error).get("BadRequest")
    return [violation.field for violation in request.field_violations] if request else []


class Agent:
    def __init__(self, directory, *flags, environment=None, wrapper=()):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.socket = str(self.directory / "ringswitchd.sock")
        self.state_dir = self.directory / "state"
        self.log_path = self.directory / "ringswitchd.log"
        self.flags = list(flags)
        self.environment = environment
        self.wrapper = list(wrapper)
        self.process = None
        self.client = None

    def command(self):
        flags = list(self.flags)
        for name, value in (("--socket", self.socket), ("--state-dir", self.state_dir), ("--metrics-address", "127.0.0.1:0")):
            if name not in flags:
                flags += [name, str(value)]
        return [*self.wrapper, binary("ringswitchd"), *flags]

    def spawn(self):
        with open(self.log_path, "a") as log:
            environment = {**os.environ, **(self.environment or {})}
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)

    def start(self):
        self.spawn()
        self.wait_until_serving()
        return self

    def wait_until_serving(self, seconds=START_SECONDS):
        deadline = time.monotonic() + seconds
        while True:
            if self.process.poll() is not None:
                raise AssertionError(f"ringswitchd ended with {self.process.returncode}:\n{self.log()}")
            if self.is_listening():
                client = Client(self.socket)
                try:
                    if client.health():
                        self.client = client
                        return
                except grpc.RpcError:
                    pass
                client.close()
            if time.monotonic() > deadline:
                raise AssertionError(f"ringswitchd does not serve after {seconds} s:\n{self.log()}")
            time.sleep(0.01)

    def is_listening(self):
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(self.socket) == 0

    def log(self):
        return self.log_path.read_text() if self.log_path.exists() else ""

    def close_client(self):
        if self.client:
            self.client.close()
            self.client = None

    def end(self, number=signal.SIGTERM, seconds=5 * SLOW):
        """Ends the agent by a signal; gives its exit status (negative: signal) and how long that took."""
        self.close_client()
        started = time.monotonic()
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(timeout=seconds)
        return status, time.monotonic() - started

    def wait_for_exit(self, seconds):
        """Waits for the agent to end by itself; its exit status."""
        return self.process.wait(timeout=seconds)

    def restart(self, number=signal.SIGTERM):
        self.end(number)
        return self.start()

    def cleanup(self):
        """Takes everything down, ports included, whatever state a failed test left the agent in."""
        try:
            if self.process and self.process.poll() is None:
                self.process.send_signal(signal.SIGCONT)
        except ProcessLookupError:
            pass
        self.close_client()
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    # What the machine says of the process.

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def fd_count(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def kernel_thread_count(self):
        """Threads that the kernel has started for the ring's work."""
        names = [path.read_text() for path in pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/comm")]
        return sum(name.startswith("iou-wrk") for name in names)

    def resident_bytes(self):
        return int(pathlib.Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    # What the agent says of itself.

    def metrics_address(self):
        return self.client.info.GetAgentInfo().info.metrics_address

    def port(self, name):
        return self.client.ports.GetPort(name=name).port

    def counters(self, name):
        return self.port(name).status.counters

    def drops(self, name):
        return {drop.reason: drop.frames for drop in self.counters(name).drops}

    def fdb(self, switch="sw0", **filters):
        """Entries as a set of (MAC, VID, port, kind)."""
        entries, token = set(), ""
        while True:
            page = self.client.fdb.ListFdbEntries(switch_name=switch, page_token=token, **filters)
            for entry in page.entries:
                kind = {1: "dynamic", 2: "static"}[entry.kind]
                entries.add((entry.mac_address, entry.vid, entry.port_name, kind))
            token = page.next_page_token
            if not token:
                return entries

    def learned(self, switch="sw0"):
        return {(mac, vid, port) for mac, vid, port, kind in self.fdb(switch) if kind == "dynamic"}


def ringctl(agent, *arguments, timeout=10):
    command = [binary("ringctl"), "--address", f"unix:{agent.socket}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


def ringctl_json(agent, *arguments):
    done = ringctl(agent, *arguments, "--output", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
