"""A fresh host in a container: systemd is its process 1, and it has an OpenSSH server; the kernel is that of the tests.

It starts in two seconds and works at the full speed of the processor. What needs a kernel of its own, or RDMA, is a
machine.
"""

import asyncio
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .door import DOOR_PORT, POLL_S, SSH_PORT, Guest
from .image import Image
from .leash import leashed
from .machine import HERE

PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
ADDRESS: Final = "10.0.2.15"
"""As the image has it for eth0, and as machines have it."""
CGROUPS: Final = "/sys/fs/cgroup"

NAMESPACES: Final = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
"""Of mounts, so that nothing of them is seen outside, and of processes, so that the kernel ends all of them with it."""
CHANGES_MB: Final = 1000
"""Of the disk that has what a container changed. Sparse."""
START: Final = f"""
mount -t tmpfs tmp "$FOLDER"
cd "$FOLDER"
mkdir below changes root
mount -o loop,ro "$DISK" below
while [ -n "$(losetup -j "$CHANGES")" ]; do sleep 0.05; done
mount -o loop "$CHANGES" changes
mkdir -p changes/upper changes/work
mount -t overlay -o "lowerdir=below,upperdir=changes/upper,workdir=changes/work" overlay root
mount -t cgroup2 cgroup2 {CGROUPS}
mkdir -p "{CGROUPS}/$GROUP"
echo $$ >"{CGROUPS}/$GROUP/cgroup.procs"
set -- --register=no --keep-unit --quiet --console=read-only --resolv-conf=off --timezone=off "$@"
set -- --directory="$FOLDER/root" --boot --capability=CAP_NET_ADMIN "$@"
exec unshare --net systemd-nspawn --network-namespace-path=/proc/self/ns/net "$@"
"""
CUT: Final = """
import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, struct.pack("I", 2))
"""
"""EXT4_IOC_SHUTDOWN without a flush of the log (linux/fs/ext4/ext4.h): from then on nothing reaches the disk."""
END: Final = f"""
mount -t cgroup2 cgroup2 {CGROUPS}
cd "{CGROUPS}/$GROUP" || exit 0
echo 1 >cgroup.kill
while grep -q "populated 1" cgroup.events; do sleep 0.05; done
find "{CGROUPS}/$GROUP" -depth -type d -exec rmdir {{}} +
"""


@dataclass(slots=True, kw_only=True)
class Container(Guest):
    """The process of systemd-nspawn, and of its way to the network: the one of QEMU, for itself.

    container = Container.start("fresh", image, folder, luggage={"etc/ssh": keys})
    await container.up()
    """

    disk: Path
    network: "subprocess.Popen[bytes] | None" = None

    @classmethod
    def start(cls, name: str, image: Image, folder: Path, *, luggage: Mapping[str, Path] | None = None) -> "Container":
        """Returns at once. `luggage` is what it finds under /mnt, read-only: {path: file or folder of ours}."""
        for part in ("container", "luggage"):
            (folder / part).mkdir(parents=True)
        for path, source in {"guest": HERE / "guest", **(luggage or {})}.items():
            target = folder / "luggage" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
        made = ["mke2fs", "-q", "-t", "ext4", str(folder / "changes"), f"{CHANGES_MB}M"]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, env={"PATH": PATH})
        return cls(name=name, folder=folder, process=_begin(name, image.disk, folder), disk=image.disk)

    def cut_power(self) -> None:
        """What it had not synced is lost, as far as the kernel had not written it. It starts again, with its ports."""
        inside = ("nsenter", "--mount", f"--target={self.process.pid}", sys.executable, "-c", CUT)
        subprocess.run([*inside, str(self.folder / "container/changes")], check=True)
        self._end()
        self.process = _begin(self.name, self.disk, self.folder)

    async def _forward(self) -> None:
        while (inside := self._inside()) is None:  # noqa: ASYNC110 - a namespace sets no event
            await asyncio.sleep(POLL_S)
        api = self.folder / "network"
        api.unlink(missing_ok=True)
        self.network = self._connect(inside, api)
        while not api.exists():
            assert self.network.poll() is None, (self.folder / "network.log").read_text()
            await asyncio.sleep(POLL_S)
        self.ports = {port: _forwarded(api, port, self.ports.get(port)) for port in (DOOR_PORT, SSH_PORT)}

    def _connect(self, inside: str, api: Path) -> "subprocess.Popen[bytes]":
        """The network of QEMU's machines, for the namespace that this process is in; `api`: its socket for calls."""
        with (self.folder / "network.log").open("wb") as words:
            return subprocess.Popen(
                [*leashed(), "slirp4netns", f"--api-socket={api}", inside, "eth0"],
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
            )

    def kill(self) -> None:
        """End it and all in it; nothing of it is left."""
        self._end()
        Guest.kill(self)

    def _end(self) -> None:
        for process in (self.network, self.process):
            if process is not None:
                process.kill()
                process.wait()
        group = {**os.environ, "GROUP": _group(self.folder)}
        subprocess.run(["unshare", "--mount", "sh", "-euc", END], env=group, check=True)

    def _inside(self) -> str | None:
        """The process that is in the namespace of its network; None while there is none yet."""
        assert self.process.poll() is None, f"{self.name}: ended with {self.process.returncode}\n{self.console}"
        with contextlib.suppress(FileNotFoundError):
            for child in Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split():
                if Path(f"/proc/{child}/ns/net").readlink() != Path("/proc/self/ns/net").readlink():
                    return child
        return None


def _begin(name: str, disk: Path, folder: Path) -> "subprocess.Popen[bytes]":
    places = {"FOLDER": folder / "container", "DISK": disk, "CHANGES": folder / "changes", "GROUP": _group(folder)}
    options = [f"--bind-ro={folder / 'luggage'}:/mnt", f"--hostname={name}"]
    with (folder / "console.log").open("ab") as words:
        return subprocess.Popen(
            [*leashed(), *NAMESPACES, "sh", "-euc", START, "sh", *options],
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=words,
            start_new_session=True,
            env={**os.environ, "PATH": PATH, **{key: str(place) for key, place in places.items()}},
        )


def _group(folder: Path) -> str:
    return f"hwd-{folder.parent.name}-{folder.name}"


def missing() -> str:
    """What this machine lacks to run containers; empty where it lacks nothing."""
    wanted = {"systemd-nspawn": "systemd-container", "slirp4netns": "slirp4netns"}
    for program, package in wanted.items():
        if shutil.which(program) is None:
            return f"needs {program}: apt-get install {package}"
    return ""


def _forwarded(api: Path, port: int, before: int | None) -> int:
    """A port on 127.0.0.1 that leads to one of the container: as before; another process may take a free one first."""
    while True:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            here: int = before or free.getsockname()[1]
        wanted = {
            "proto": "tcp",
            "host_addr": "127.0.0.1",
            "host_port": here,
            "guest_addr": ADDRESS,
            "guest_port": port,
        }
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(api))
            connection.sendall(json.dumps({"execute": "add_hostfwd", "arguments": wanted}).encode())
            connection.shutdown(socket.SHUT_WR)
            said = json.loads(connection.makefile("rb").read())
        if "return" in said:
            return here
