"""SimProcesses: programs on the hosts of a simulated world. Each is a coroutine on a node of its own, so that it
outlives the daemon that started it, and dies as a process does.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from hwd.model.program import ProgramEnd, ProgramOutput, Signal
from hwd.model.testbed import Host
from hwd_drivers.core.errors import FailedError, RefusedError, UnknownError
from hwd_drivers.twins.nodes import Nodes

log = logging.getLogger(__name__)

Program = Callable[[str, Sequence[str], Mapping[str, str]], Coroutine[Any, Any, int]]
"""What a command does on a host, with its environment; returns its exit status. The second is the command itself."""


class SimProcesses:
    """Implements the seam `Processes`. `programs`: by the first word of a command. They write nothing."""

    def __init__(self, nodes: Nodes, programs: Mapping[str, Program]) -> None:
        self._nodes = nodes
        self._programs = programs
        self._running: dict[str, _SimulatedProgram] = {}
        self._started = 0

    async def start(
        self,
        host: Host,
        command: Sequence[str],
        *,
        user: str,
        within_s: float,
        environment: Mapping[str, str] = MappingProxyType({}),
        keep: str | None = None,
    ) -> "_SimulatedProgram":
        if (program := self._programs.get(command[0])) is None:
            raise FailedError(f"{host.name}: {command[0]}: there is no such program")
        self._started += 1
        id = keep or f"program-{self._started}"
        if id in self._running:
            raise RefusedError(f"{host.name}: there is a program {id} already")
        running = self._running[id] = _SimulatedProgram(
            self._nodes, id, self._started, closed=lambda: self._running.pop(id, None)
        )
        running.begin(program(host.name, command, environment), within_s=within_s)
        return running

    async def attach(self, host: Host, keep: str, *, user: str, taken: int | None = None) -> "_SimulatedProgram":
        if (running := self._running.get(keep)) is None:
            raise UnknownError(f"{host.name}: there is no program {keep}")
        return running

    @property
    def running(self) -> list[str]:
        """The programs that have not ended."""
        return [id for id, one in self._running.items() if not one.has_ended]

    def kill(self, id: str) -> None:
        """Kill a program as SIGKILL does, from anywhere."""
        self._running[id].end_by("SIGKILL")


class _SimulatedProgram:
    """Implements `RunningProgram`."""

    def __init__(self, nodes: Nodes, id: str, pid: int, *, closed: Callable[[], object]) -> None:
        self._nodes = nodes
        self._node = f"program {id}"
        self._closed = closed
        self._end: ProgramEnd | None = None
        self._has_ended = asyncio.Event()
        self.pid = pid
        self.taken = 0

    def begin(self, main: Coroutine[Any, Any, int], *, within_s: float) -> None:
        with self._nodes.node(self._node):
            asyncio.get_running_loop().create_task(self._run(main, within_s), name=self._node)

    async def _run(self, main: Coroutine[Any, Any, int], within_s: float) -> None:
        longest = asyncio.timeout(within_s)
        try:
            async with longest:
                self._ended(ProgramEnd(status=await main))
        except Exception as error:
            if longest.expired():
                self._ended(ProgramEnd(signal="SIGKILL", why=f"its longest time of {within_s:g} s was over"))
                return
            log.exception("%s: it ended with an exception", self._node)
            self._ended(ProgramEnd(status=1, why=repr(error)))

    @property
    def has_ended(self) -> bool:
        return self._end is not None

    async def output(self) -> AsyncIterator[ProgramOutput]:
        await self._has_ended.wait()
        nothing: tuple[ProgramOutput, ...] = ()
        for piece in nothing:
            yield piece

    async def signal(self, name: Signal) -> None:
        """All but CONT ends it: nobody of them listens."""
        if name != "CONT":
            self.end_by(f"SIG{name}")

    async def wait(self) -> ProgramEnd:
        await self._has_ended.wait()
        assert self._end is not None
        return self._end

    async def close(self) -> None:
        self.end_by("SIGKILL")
        self._closed()

    async def leave(self) -> None:
        pass

    def end_by(self, signal: str) -> None:
        if self._end is None:
            self._nodes.kill(self._node)
            self._ended(ProgramEnd(signal=signal))

    def _ended(self, end: ProgramEnd) -> None:
        self._end = end
        self._has_ended.set()
