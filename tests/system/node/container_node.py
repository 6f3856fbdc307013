"""A node as Kubernetes has it, but private: containerd in network, mount, pid and ipc namespaces of its own.

Process 1 of the node is a shell that waits for its standard input to end, so the node and everything in it dies with the test,
however the test dies. The node has its own /run and /var/lib, so an agent in it uses the default paths. Pods are driven through
the Container Runtime Interface, as the kubelet does it.
"""
import importlib
import os
import pathlib
import shutil
import subprocess
import sys
import time

import grpc

from node.image import write_images

HERE = pathlib.Path(__file__).parent
CNI_PLUGINS = pathlib.Path("/usr/lib/cni")

# Its number as the machine sees it is read before the node's own /proc hides the machine's.
PROCESS_ONE = """
set -e
read -r pid _ </proc/self/stat
mount -t proc none /proc
mount --rbind /sys/fs/cgroup "$1/cgroup"
mount -t sysfs none /sys
mount --move "$1/cgroup" /sys/fs/cgroup
mount -t tmpfs -o mode=755 none /run
mount -t tmpfs -o mode=755 none /var/lib
ip link set lo up
echo "$pid"
read -r _ || true
"""

CONFIGURATION = """version = 2
root = "{dir}/root"
state = "{dir}/state"
disabled_plugins = ["io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.snapshotter.v1.devmapper"]
[grpc]
  address = "{dir}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{dir}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  netns_mounts_under_state_dir = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{dir}/bin"
    conf_dir = "{dir}/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        Root = "{dir}/runc"
"""


class Node:
    """`directory` is short (its path is part of socket paths) and the caller's to remove."""

    def __init__(self, directory, plugin):
        self.directory = pathlib.Path(directory)
        self.cgroup = "/" + self.directory.name
        for name in ("root", "state", "opt", "bin", "net.d", "cgroup", "generated"):
            (self.directory / name).mkdir(parents=True)
        for source in (pathlib.Path(plugin), CNI_PLUGINS / "loopback", CNI_PLUGINS / "host-local"):
            (self.directory / "bin" / source.name).symlink_to(source.resolve())
        (self.directory / "config.toml").write_text(CONFIGURATION.format(dir=self.directory))
        write_images(self.directory / "images.tar")
        self._load_messages()
        self._children = []
        self._channel = None
        unshare = ["unshare", "--net", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "--propagation", "private"]
        self._process_one = subprocess.Popen([*unshare, "bash", "-c", PROCESS_ONE, "node", str(self.directory)],
                                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self._process_one.stdout.readline()
        assert line, "the node's namespaces could not be made"
        self.pid = int(line)
        try:
            self._start_containerd()
        except BaseException:
            self.cleanup()
            raise

    def _load_messages(self):
        generated = self.directory / "generated"
        subprocess.run(["protoc", f"-I{HERE}", f"--python_out={generated}", "cri.proto"], check=True)
        sys.path.insert(0, str(generated))
        self.messages = importlib.import_module("cri_pb2")
        sys.path.remove(str(generated))

    def enter(self, *command):
        return ["nsenter", f"--target={self.pid}", "--mount", "--net", "--pid", "--ipc", *map(str, command)]

    def run(self, *command, check=True):
        """Runs a command in the node and returns its output."""
        return subprocess.run(self.enter(*command), check=check, capture_output=True, text=True, timeout=60).stdout

    def spawn(self, *command, log):
        with open(self.directory / log, "ab") as file:
            child = subprocess.Popen(self.enter(*command), stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                                     env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
        self._children.append(child)
        return child

    def path(self, path):
        """The node's file as this process sees it."""
        return pathlib.Path(f"/proc/{self.pid}/root{path}")

    def _start_containerd(self):
        self.spawn("containerd", "--config", self.directory / "config.toml", log="containerd.log")
        options = [("grpc.default_authority", "localhost"), ("grpc.enable_http_proxy", 0),
                   ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200)]
        self._channel = grpc.insecure_channel(f"unix:{self.directory}/containerd.sock", options=options)
        self._wait_for(lambda: any(condition.type == "RuntimeReady" and condition.status
                                   for condition in self._call("Status", "Nothing", "StatusResponse", 2).status.conditions),
                       "containerd is not ready")
        self.run("ctr", "-a", self.directory / "containerd.sock", "-n", "k8s.io", "images", "import", "--snapshotter", "native",
                 self.directory / "images.tar")
        for image in ("localhost/pause:1", "localhost/busybox:1"):
            self._wait_for(lambda name=image: self._call("ImageStatus", "ImageStatusRequest", "ImageStatusResponse", 2,
                                                         service="Image", image={"image": name}).image.id, f"{image} is not there")

    def wait_for_network(self):
        """Waits until containerd has taken the configuration in net.d."""
        self._wait_for(lambda: all(condition.status for condition in
                                   self._call("Status", "Nothing", "StatusResponse", 2).status.conditions), "no network")

    def _wait_for(self, condition, message):
        deadline = time.monotonic() + 30
        while True:
            try:
                if condition():
                    return
            except grpc.RpcError:
                pass
            if time.monotonic() > deadline:
                raise AssertionError(f"{message}:\n{(self.directory / 'containerd.log').read_text()[-3000:]}")
            time.sleep(0.05)

    def _call(self, method, request, answer, timeout=60, service="Runtime", **fields):
        call = self._channel.unary_unary(f"/runtime.v1.{service}Service/{method}",
                                         request_serializer=getattr(self.messages, request).SerializeToString,
                                         response_deserializer=getattr(self.messages, answer).FromString)
        return call(getattr(self.messages, request)(**fields), timeout=timeout)

    def _sandbox(self, name):
        return {"metadata": {"name": name, "uid": f"uid-of-{name}", "namespace": "default"}, "hostname": name,
                "linux": {"cgroup_parent": self.cgroup}}

    def run_pod(self, name):
        """Runs a pod with one busybox container. Returns its sandbox id, container id and addresses."""
        sandbox = self._call("RunPodSandbox", "RunPodSandboxRequest", "PodSandboxId", config=self._sandbox(name)).pod_sandbox_id
        container = self._call("CreateContainer", "CreateContainerRequest", "ContainerId", pod_sandbox_id=sandbox,
                               sandbox_config=self._sandbox(name),
                               config={"metadata": {"name": "main"}, "image": {"image": "localhost/busybox:1"},
                                       "command": ["/bin/sleep", "1000000"]}).container_id
        self._call("StartContainer", "ContainerId", "Nothing", container_id=container)
        network = self._call("PodSandboxStatus", "PodSandboxId", "PodSandboxStatusResponse", pod_sandbox_id=sandbox).status.network
        return sandbox, container, [network.ip] + [address.ip for address in network.additional_ips]

    def execute(self, container, *command):
        """Runs a command in a container. Returns its exit code and output."""
        answer = self._call("ExecSync", "ExecSyncRequest", "ExecSyncResponse", container_id=container, cmd=command, timeout=30)
        return answer.exit_code, (answer.stdout + answer.stderr).decode()

    def stop_pod(self, sandbox):
        self._call("StopPodSandbox", "PodSandboxId", "Nothing", pod_sandbox_id=sandbox)

    def remove_pod(self, sandbox):
        self._call("RemovePodSandbox", "PodSandboxId", "Nothing", pod_sandbox_id=sandbox)

    def pods(self):
        return [pod.id for pod in self._call("ListPodSandbox", "Nothing", "ListPodSandboxResponse").items]

    def processes(self):
        """Names of the processes in the node, the dead left out."""
        rows = (line.split() for line in self.run("ps", "-e", "-o", "stat=,comm=").splitlines())
        return sorted(row[1] for row in rows if not row[0].startswith("Z") and row[1] != "ps")

    def cleanup(self):
        """Ends process 1 of the node, which takes every process, namespace, mount and device of the node with it."""
        if self._channel:
            self._channel.close()
        self._process_one.stdin.close()
        self._process_one.wait(timeout=20)
        self._process_one.stdout.close()
        for child in self._children:
            child.wait(timeout=20)
        # Version 1 of control groups has one tree per controller.
        for tree in [pathlib.Path("/sys/fs/cgroup"), *pathlib.Path("/sys/fs/cgroup").iterdir()]:
            for folder, _, _ in os.walk(str(tree) + self.cgroup, topdown=False):
                os.rmdir(folder)
        shutil.rmtree(self.directory)
