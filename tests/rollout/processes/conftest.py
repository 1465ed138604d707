"""Programs on a twin host and on a real SSH server, whoever starts them; they end with the test."""

import asyncio
import getpass
import json
import os
import shutil
import signal
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from hwd.config.run_files.places import RackPlace
from hwd.model.program import ProgramOutput, RunningProgram
from hwd.model.testbed import Host, HostTwin
from hwd.rollout.processes.host_processes import HostProcesses
from hwd.rollout.processes.supervised_program import SUPERVISOR, attach_request, boot
from hwd.twin.kernel import Keeper
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.ids import RandomIds
from hwd_drivers.core.offload import InlineOffload, Offload

DEBIAN_PYTHON = "/usr/bin/python3"
"""That of root's virtual environment is not to be read by others."""
WITHIN_S = 30.0
FOLDER = Path("/tmp/hwd-programs-" + str(os.geteuid()) if os.geteuid() else "/run/hwd-programs")


async def said_without_root(program: str, *arguments: str) -> tuple[str, list[str], str]:
    """Run a Python program as an ordinary user, with a folder of its own as the first argument: who that is, the words
    that it wrote, and its errors. Skips the test where no such user can make namespaces.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"  # our packages are for no other
    if os.geteuid() == 0 and not Path(f"/usr/bin/python{version}").exists():
        pytest.skip(f"needs /usr/bin/python{version}")
    who = getpass.getuser() if os.geteuid() else "nobody"
    python = sys.executable if os.geteuid() else f"/usr/bin/python{version}"
    with tempfile.TemporaryDirectory(prefix="hwd-") as folder:
        shutil.chown(folder, who)
        process = await asyncio.create_subprocess_exec(
            *(python, "-B", "-c", program, f"{folder}/run", *arguments),
            env={"HOME": folder, "PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)},
            user=None if os.geteuid() else who,
            group=None if os.geteuid() else "nogroup",
            extra_groups=None if os.geteuid() else [],
            stdout=PIPE,
            stderr=PIPE,
        )
        async with asyncio.timeout(WITHIN_S):
            out, err = await process.communicate()
    if b"NamespacesUnavailableError" in err or b"Permission denied" in err:
        pytest.skip(f"{who} cannot make namespaces here, or read this checkout")
    return who, out.decode().split(), err.decode()


class Relay:
    """The program that a daemon runs on a host, by itself."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.input = process.stdin
        self.output = process.stdout
        self._process = process

    @classmethod
    async def start(cls, asked: str, *, user: int | None = None) -> "Relay":
        python = sys.executable if user is None else DEBIAN_PYTHON
        more: dict[str, Any] = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        relay = cls(
            await asyncio.create_subprocess_exec(python, "-I", "-B", "-c", boot(asked), stdin=PIPE, stdout=PIPE, **more)
        )
        relay.input.write(SUPERVISOR + asked.encode())
        return relay

    @classmethod
    async def attach(cls, keep: str, *, user: int | None = None) -> "Relay":
        return await cls.start(attach_request(keep, "h0", taken=None), user=user)

    def say(self, **line: object) -> None:
        self.input.write(json.dumps(line).encode() + b"\n")

    async def line(self) -> dict[str, Any]:
        """The next one that is no sign of life."""
        async with asyncio.timeout(WITHIN_S):
            while not (line := (await self.output.readline()).strip()):
                assert not self.output.at_eof()
        found: dict[str, Any] = json.loads(line)
        return found

    async def keep(self) -> None:
        """Let the program outlive it."""
        self.say(taken=0)
        assert await self.line() == {"known": True}

    async def end(self) -> bytes:
        """Wait until it has ended by itself. What else it said."""
        async with asyncio.timeout(WITHIN_S):
            rest = await self.output.read()
            await self._process.wait()
        return rest.strip()

    async def close(self) -> dict[str, Any]:
        """Close the program. Its end."""
        self.say(close=True)
        line = await self.line()
        await self.end()
        end: dict[str, Any] = line["end"]
        return end


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def keeper(tmp_path: Path) -> AsyncIterator[Keeper]:
    async with Keeper() as keeper:
        await keeper.start(["h0"], tmp_path / "run")
        yield keeper


class Place:
    """A host, and the id of a program of this test there."""

    def __init__(self, host: Host, processes: HostProcesses, stack: AsyncExitStack, where: Mapping[str, Any]) -> None:
        self.host = host
        self.keep = f"test-{RandomIds().token(length=12)}"
        self.where = where
        self._processes = processes
        self._stack = stack
        stack.push_async_callback(self._end)

    async def start(self, *script: str, user: str = "", within_s: float = WITHIN_S, **more: Any) -> RunningProgram:
        """A shell with this script, or a program with arguments; `keep=None`: without an id."""
        command = ["/bin/sh", "-c", *script] if len(script) == 1 else list(script)
        user, more = user or getpass.getuser(), {"keep": self.keep, **more}
        program = await self._processes.start(self.host, command, user=user, within_s=within_s, **more)
        self._stack.push_async_callback(program.leave)
        return program

    async def attach(self, taken: int | None = None) -> RunningProgram:
        program = await self._processes.attach(self.host, self.keep, user=getpass.getuser(), taken=taken)
        self._stack.push_async_callback(program.leave)
        return program

    async def _end(self) -> None:
        """Whatever became of it in the test, it does not wait for an hour."""
        if self.sockets:
            await (await self.attach()).close()

    def hang_up(self) -> None:
        """Break the connection to the host, or kill what is between us and the supervisor there."""
        if hang_up := self.where.get("hang_up"):
            hang_up()
            return
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        [relay] = [pid for pid in children if b"did not arrive" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        os.kill(int(relay), signal.SIGKILL)

    @property
    def sockets(self) -> list[Path]:
        return [*FOLDER.glob(f"{self.keep}.*")]


def on_twin(keeper: Path, stack: AsyncExitStack, offload: Offload | None = None) -> Place:
    """On the host h0 of the rack with this keeper."""
    rack = RackPlace(testbed="two", pid=os.getpid(), hosts={"h0": {"kernel": True, "keeper": str(keeper)}})
    host = Host(name="h0", ports=(), twin=HostTwin(seed=1, kernel=True, timing="ideal"))
    processes = HostProcesses(lambda: rack, SystemClock(), offload or InlineOffload())
    return Place(host, processes, stack, {"keeper": str(keeper)})


@pytest.fixture(params=["twin", "ssh"])
def place(request: pytest.FixtureRequest, make_sshd: Any, stack: AsyncExitStack, keeper: Keeper) -> Place:
    if request.param == "twin":
        return on_twin(keeper.path, stack)
    sshd = make_sshd()
    host = Host(name="h0", ports=(), ssh=sshd.place)
    processes = HostProcesses(lambda: None, SystemClock(), InlineOffload(), home=sshd.home)
    return Place(host, processes, stack, {"port": sshd.port, "home": str(sshd.home), "hang_up": sshd.hang_up})


@pytest.fixture
def twin(keeper: Keeper, stack: AsyncExitStack) -> Place:
    return on_twin(keeper.path, stack)


async def pieces(program: RunningProgram) -> AsyncIterator[ProgramOutput]:
    """What it writes, with a limit on the time of all."""
    async with asyncio.timeout(WITHIN_S):
        async for piece in program.output():
            yield piece


async def said(program: RunningProgram) -> dict[str, bytes]:
    """All that it writes, by stream."""
    found = {"out": b"", "err": b""}
    async for piece in pieces(program):
        found[piece.stream] += piece.data
    return found


async def gone(*pids: int) -> None:
    """Wait until there is none of these processes."""
    for pid in pids:
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_reader(pidfd, ended.set)
        try:
            async with asyncio.timeout(WITHIN_S):
                await ended.wait()
        finally:
            loop.remove_reader(pidfd)
            os.close(pidfd)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
