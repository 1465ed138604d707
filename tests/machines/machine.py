"""A virtual machine of the tests: started, talked to, and killed with them."""

import asyncio
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from .image import Image
from .monitor import Monitor

HERE: Final = Path(__file__).parent
UP_WITHIN_S: Final = 150.0
"""A bare machine takes 7 s, one with systemd 25; two at once on two busy processors take four times that."""
RUN_WITHIN_S: Final = 60.0
POLL_S: Final = 0.2
DOOR_PORT: Final = 7
SSH_PORT: Final = 22
MANAGEMENT_ADDRESS: Final = "52:54:00:00:00:01"
HOST_IP: Final = "10.0.2.2"
"""How a machine reaches what listens on 127.0.0.1 of the tests, whatever the port; there is no way to anywhere else."""
MEMORY_MB: Final = 512
CONSOLE_SHOWN_CHARS: Final = 6000
LUGGAGE_SPARE_MB: Final = 64
"""Beside a quarter more than its files, for what the file system itself takes."""


class Boot(StrEnum):
    """What is process 1."""

    BARE = "bare"
    """A script that opens the door: for tests of the kernel."""
    SYSTEMD = "systemd"
    """systemd, with an OpenSSH server: a fresh host."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a command in a machine ended with."""

    status: int
    out: str
    err: str


@dataclass(slots=True, kw_only=True)
class Machine:
    """A process of QEMU. Every call of the door has a connection of its own, so that any event loop may make it.

    machine = Machine.start("h0", image, folder, nics=[...], luggage={"hwd": site_packages})
    await machine.up()
    said = await machine.run("ip", "link")
    machine.kill()
    """

    name: str
    folder: Path
    process: "subprocess.Popen[bytes]"
    monitor: Monitor
    ports: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def start(
        cls,
        name: str,
        image: Image,
        folder: Path,
        *,
        boot: Boot = Boot.BARE,
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
        command = [*through, *_command(name, image, folder, boot, nics, memory_mb, named)]
        python = [sys.executable, "-E", "-S", "-P", str(HERE / "leash.py"), str(os.getpid())]
        with _listen(folder / "monitor") as monitor, (folder / "console.log").open("wb") as words:
            try:
                process = subprocess.Popen(
                    [*python, *command, "-chardev", f"socket,id=monitor,fd={monitor.fileno()},server=on,wait=off"],
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

    async def up(self, within_s: float = UP_WITHIN_S) -> None:
        """Wait until its door is open."""
        try:
            async with asyncio.timeout(within_s):
                self.ports = self.monitor.forwarded()
                while not await self._is_open():
                    assert self.process.poll() is None, (
                        f"{self.name}: ended with {self.process.returncode}\n{self.console}"
                    )
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise AssertionError(f"{self.name}: not up within {within_s:g} s\n{self.console}") from None

    async def run(
        self, *command: str, stdin: bytes = b"", within_s: float = RUN_WITHIN_S, status: int | None = 0
    ) -> Said:
        """Run a command; expect `status` (None: any). After `within_s` it is killed with its child processes."""
        said, out = await self._ask(command, stdin, within_s)
        said = Said(status=said.status, out=out.decode(errors="replace"), err=said.err)
        assert status is None or said.status == status, f"{self.name}: {' '.join(command)}: {said}\n{self.console}"
        return said

    async def read(self, path: str) -> bytes:
        """A file of it."""
        said, out = await self._ask(("cat", path), b"", RUN_WITHIN_S)
        assert said.status == 0, f"{self.name}: {said.err}"
        return out

    async def write(self, path: str, content: bytes) -> None:
        """A file for it; the folder is made."""
        await self.run("sh", "-c", 'mkdir -p "$(dirname "$0")" && cat >"$0"', path, stdin=content)

    async def copy(self, source: Path, path: str) -> None:
        """What is in a folder of ours, into one of it."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            tar.add(source, arcname=".")
        await self.run("sh", "-c", 'mkdir -p "$0" && tar -x -C "$0"', path, stdin=packed.getvalue())

    async def spawn(self, *command: str, log: str) -> int:
        """Start a program that stays, with its words in a file; its process id."""
        shell = 'setsid "$@" >>"$0" 2>&1 </dev/null & echo $!'
        return int((await self.run("sh", "-c", shell, log, *command)).out)

    @property
    def ssh(self) -> tuple[str, int]:
        """Where its OpenSSH server is reached."""
        return "127.0.0.1", self.ports[SSH_PORT]

    @property
    def console(self) -> str:
        """The end of what it printed, for a failed test."""
        text = (self.folder / "console.log").read_text(errors="replace")
        return f"--- console of {self.name}\n{text[-CONSOLE_SHOWN_CHARS:]}"

    def kill(self) -> None:
        """Pull its plug; its disk is as it was before. Safe to call any number of times."""
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    async def _is_open(self) -> bool:
        """QEMU takes every connection, and drops it where nobody answers in the machine."""
        try:
            async with asyncio.timeout(5.0):
                await self._ask(("true",), b"", 4.0)
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            return False
        return True

    async def _ask(self, command: Sequence[str], stdin: bytes, within_s: float) -> tuple[Said, bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.ports[DOOR_PORT])
        try:
            async with asyncio.timeout(within_s):
                writer.write(json.dumps({"command": command, "stdin_bytes": len(stdin)}).encode() + b"\n" + stdin)
                head = json.loads(await reader.readuntil(b"\n"))
                out = await reader.readexactly(head["out_bytes"])
                err = await reader.readexactly(head["err_bytes"])
        except TimeoutError:
            raise TimeoutError(f"{self.name}: {' '.join(command)}: not done within {within_s:g} s") from None
        finally:
            writer.transport.abort()
        return Said(status=head["status"], out="", err=err.decode(errors="replace")), out


def missing() -> str:
    """What this machine lacks to run others; empty where it lacks nothing."""
    if shutil.which("qemu-system-x86_64") is None:
        return "needs qemu-system-x86_64: apt-get install qemu-system-x86"
    return ""


def _command(
    name: str, image: Image, folder: Path, boot: Boot, nics: Sequence[Nic], memory_mb: int, names: Mapping[str, str]
) -> list[str]:
    """Emulated: the stock kernel does not start under every machine's KVM."""
    words = ["root=/dev/vda", "rw", "console=ttyS0", "quiet", "panic=-1", "mitigations=off", "net.ifnames=0"]
    words += ["init=/hwd-init"] if boot is Boot.BARE else ["systemd.show_status=no"]
    words += [f"hwd.host={name}", f"hwd.nic={MANAGEMENT_ADDRESS},mgmt"] if boot is Boot.BARE else []
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
