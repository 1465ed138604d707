"""A guest of the tests with a door into it: what a test asks of virtual machines and of containers alike."""

import asyncio
import io
import json
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

UP_WITHIN_S: Final = 150.0
"""A bare machine takes 7 s, one with systemd 25; two at once on two busy processors take four times that."""
RUN_WITHIN_S: Final = 60.0
POLL_S: Final = 0.2
DOOR_PORT: Final = 7
SSH_PORT: Final = 22
HOST_IP: Final = "10.0.2.2"
"""How a guest reaches what listens on 127.0.0.1 of the tests, whatever the port; there is no way to anywhere else."""
CONSOLE_SHOWN_CHARS: Final = 6000


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a command in a guest ended with."""

    status: int
    out: str
    err: str


@dataclass(slots=True, kw_only=True)
class Guest:
    """Its process here. Every call of the door has a connection of its own, so that any event loop may make it.

    `ports`: where its own ports are reached on 127.0.0.1, once it is up.
    """

    name: str
    folder: Path
    process: "subprocess.Popen[bytes]"
    ports: Mapping[int, int] = field(default_factory=dict)

    async def up(self, within_s: float = UP_WITHIN_S) -> None:
        """Wait until its door is open."""
        try:
            async with asyncio.timeout(within_s):
                await self._forward()
                while not await self._is_open():
                    assert self.process.poll() is None, (
                        f"{self.name}: ended with {self.process.returncode}\n{self.console}"
                    )
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise AssertionError(f"{self.name}: not up within {within_s:g} s\n{self.console}") from None

    async def _forward(self) -> None:
        """Fill `ports`."""
        raise NotImplementedError

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
