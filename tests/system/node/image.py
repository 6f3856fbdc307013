"""A container image without a registry: Debian's static busybox in a docker-archive, under two names.

localhost/busybox:1 for containers, localhost/pause:1 as what a pod's sandbox runs.
"""
import hashlib
import io
import json
import platform
import subprocess
import tarfile

BUSYBOX = "/bin/busybox"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def add(archive, name, data=b"", kind=tarfile.REGTYPE, mode=0o644, link=""):
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.linkname, entry.size = kind, mode, link, len(data)
    archive.addfile(entry, io.BytesIO(data))


def layer():
    applets = subprocess.check_output([BUSYBOX, "--list"], text=True).split()
    with open(BUSYBOX, "rb") as file:
        program = file.read()
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for directory in ("bin", "dev", "etc", "proc", "sys", "tmp"):
            add(archive, directory, kind=tarfile.DIRTYPE, mode=0o755)
        add(archive, "bin/busybox", program, mode=0o755)
        add(archive, "etc/passwd", b"root:x:0:0:root:/:/bin/sh\n")
        for applet in applets:
            if applet != "busybox":
                add(archive, f"bin/{applet}", kind=tarfile.SYMTYPE, link="busybox")
    return stream.getvalue()


def write_images(path):
    content = layer()
    manifest = []
    with tarfile.open(path, "w") as archive:
        add(archive, "layer.tar", content)
        for name, entrypoint in (("busybox", None), ("pause", ["/bin/sleep", "1000000"])):
            description = {
                "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
                "os": "linux",
                "config": {"Env": ["PATH=/bin"], "Entrypoint": entrypoint},
                "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(content).hexdigest()]},
            }
            add(archive, f"{name}.json", json.dumps(description).encode())
            manifest.append({"Config": f"{name}.json", "RepoTags": [f"localhost/{name}:1"], "Layers": ["layer.tar"]})
        add(archive, "manifest.json", json.dumps(manifest).encode())
