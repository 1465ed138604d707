"""A virtual machine of the tests: started, talked to, and killed with them."""

import os
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .door import DOOR_PORT, SSH_PORT, Guest
from .image import Image
from .leash import leashed
from .monitor import Monitor

HERE: Final = Path(__file__).parent
MANAGEMENT_ADDRESS: Final = "52:54:00:00:00:01"
MEMORY_MB: Final = 512
LUGGAGE_SPARE_MB: Final = 64
"""Beside a quarter more than its files, for what the file system itself takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nic:
    """A network card, besides the one for management.

    `netdev` is QEMU's option for its backend. `fd` is passed to QEMU; the machine owns and closes it.
    """

    name: str
    address: str
    netdev: str
    fd: int

    @classmethod
    def tap(cls, name: str, address: str, fd: int) -> "Nic":
        """The descriptor of a tap device."""
        return cls(name=name, address=address, netdev=f"tap,fd={fd}", fd=fd)


def cable(name: str, *addresses: str) -> tuple[Nic, Nic]:
    """Two cards called `name` for two machines, joined by a wire."""
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    first, second = (
        Nic(name=name, address=address, netdev=f"dgram,local.type=fd,local.str={fd}", fd=fd)
        for address, fd in zip(addresses, (here.detach(), there.detach()), strict=True)
    )
    return first, second


@dataclass(slots=True, kw_only=True)
class Machine(Guest):
    """A process of QEMU.

    machine = Machine.start("h0", image, folder, nics=[...], luggage={"hwd": site_packages})
    await machine.up()
    said = await machine.run("ip", "link")
    machine.kill()
    """

    monitor: Monitor

    @classmethod
    def start(
        cls,
        name: str,
        image: Image,
        folder: Path,
        *,
        nics: Sequence[Nic] = (),
        luggage: Mapping[str, Path] | None = None,
        memory_mb: int = MEMORY_MB,
        names: Mapping[str, str] | None = None,
        through: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> "Machine":
        """Returns at once. `luggage` is what it finds under /mnt, read-only: {path: file or folder of ours}.

        `through`: the program that executes QEMU with more NICs, in `environment`; `names` has the names of these NICs
        by hardware address. `folder` has the console and the monitor; its path must be short enough for Unix sockets.
        """
        folder.mkdir(parents=True, exist_ok=True)
        _pack(folder / "luggage", {"guest": HERE / "guest", **(luggage or {})})
        named = {**{nic.address: nic.name for nic in nics}, **(names or {})}
        command = [*through, *_command(name, image, folder, nics, memory_mb, named)]
        with _listen(folder / "monitor") as monitor, (folder / "console.log").open("wb") as words:
            try:
                process = subprocess.Popen(
                    [*leashed(), *command, "-chardev", f"socket,id=monitor,fd={monitor.fileno()},server=on,wait=off"],
                    stdin=subprocess.DEVNULL,
                    stdout=words,
                    stderr=words,
                    pass_fds=[monitor.fileno(), *(nic.fd for nic in nics)],
                    start_new_session=True,
                    env=environment,
                )
            finally:
                for nic in nics:
                    os.close(nic.fd)
        return cls(name=name, folder=folder, process=process, monitor=Monitor(folder / "monitor"))

    async def _forward(self) -> None:
        self.ports = self.monitor.forwarded()


def missing() -> str:
    """What this machine lacks to run others; empty where it lacks nothing."""
    if shutil.which("qemu-system-x86_64") is None:
        return "needs qemu-system-x86_64: apt-get install qemu-system-x86"
    return ""


def _command(
    name: str, image: Image, folder: Path, nics: Sequence[Nic], memory_mb: int, names: Mapping[str, str]
) -> list[str]:
    """Emulated: the stock kernel does not start under every machine's KVM."""
    words = ["root=/dev/vda", "rw", "console=ttyS0", "quiet", "panic=-1", "mitigations=off", "net.ifnames=0"]
    words += ["init=/hwd-init", f"hwd.host={name}", f"hwd.nic={MANAGEMENT_ADDRESS},mgmt"]
    words += [f"hwd.nic={address},{nic}" for address, nic in names.items()]
    forwards = "".join(f",hostfwd=tcp:127.0.0.1:0-:{port}" for port in (DOOR_PORT, SSH_PORT))
    command = ["qemu-system-x86_64", "-name", name, "-accel", "tcg,thread=multi", "-cpu", "max", "-m", str(memory_mb)]
    command += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio"]
    command += ["-kernel", str(image.kernel), "-initrd", str(image.initrd), "-append", " ".join(words)]
    command += ["-drive", f"file={image.disk},if=virtio,format=raw,snapshot=on"]
    command += ["-drive", f"file={folder / 'luggage'},if=virtio,format=raw,readonly=on"]
    command += ["-device", "virtio-rng-pci", "-mon", "chardev=monitor,mode=control"]
    command += ["-netdev", f"user,id=mgmt,ipv6=off{forwards}"]
    command += ["-device", f"virtio-net-pci,netdev=mgmt,mac={MANAGEMENT_ADDRESS},romfile="]
    for nic in nics:
        command += ["-netdev", f"{nic.netdev},id={nic.name}-wire"]
        command += ["-device", f"virtio-net-pci,id={nic.name},netdev={nic.name}-wire,mac={nic.address},romfile="]
    return command


def _pack(disk: Path, content: Mapping[str, Path]) -> None:
    """A disk with these files and folders."""
    staged = disk.with_suffix(".staged")
    for path, source in content.items():
        target = staged / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, dirs_exist_ok=True)
        else:
            shutil.copy(source, target)
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    size_mb = sum(file.lstat().st_size for file in staged.rglob("*")) * 5 // 4 // 2**20 + LUGGAGE_SPARE_MB
    made = ["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", str(staged), str(disk), f"{size_mb}M"]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PATH": path})
    shutil.rmtree(staged)


def _listen(path: Path) -> socket.socket:
    """Made here, so that it answers from the start."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen(8)
    return listener
