"""Programs on hosts, by the allow-list of the testbed file: who may start what, what runs, and what became of it.

run = await programs.start("h0", ["ping", "10.5.0.2"], caller)
async for news in run.news(): ...
await run.close()
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

from hwd.config.yaml.file_problem import nearest
from hwd.fabric.in_use import InUse
from hwd.model.program import (
    HostProgramEnded,
    HostProgramStarted,
    Processes,
    ProgramEnd,
    ProgramNews,
    ProgramStarted,
    ProgramStatus,
    RunningProgram,
    Signal,
)
from hwd.model.request import Caller
from hwd.model.testbed import Program
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Sink
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import RefusedError, UnknownError
from hwd_drivers.core.ids import Ids

MOST: Final = 256
"""Programs at a time: each has a process, and over SSH a connection and two threads."""
MOST_ON_HOST: Final = 64
"""The most programs on one host, as many as ranks of one job."""
BEAT_S: Final = 10.0
"""So often a silent program says that it still runs, to whoever waits for its output."""
ID_LENGTH: Final = 8
OVER_REMEMBERED: Final = 1000
"""Ids of programs that have ended."""


class Programs:
    """All programs that the daemon has on hosts. Without `processes` there is no way to start one."""

    def __init__(self, in_use: InUse, processes: Processes | None, *, clock: Clock, ids: Ids, sink: Sink) -> None:
        self._in_use = in_use
        self._processes = processes
        self._clock = clock
        self._ids = ids
        self._emit = Emitter(clock, sink)
        self._runs: dict[str, ProgramRun] = {}
        self._over: dict[str, None] = {}
        self._starting: dict[asyncio.Task[RunningProgram], str] = {}
        """By the task that starts a program, its host."""
        self._is_closing = False

    def status(self) -> list[ProgramStatus]:
        """The programs that run now, oldest first."""
        return [run.status() for run in self._runs.values()]

    async def start(self, host: str, words: Sequence[str], caller: Caller | None) -> "ProgramRun":
        """Start a program of the allow-list: its name, and arguments where its entry takes some.

        Raises UnknownError for an unknown host, RefusedError for what is not allowed there, and as `Processes`.
        """
        testbed = self._in_use.testbed
        if host not in testbed.hosts:
            raise UnknownError(f"{host!r} is no host of testbed {testbed.name}; {nearest(host, testbed.hosts)}")
        program = self._allowed(host, words[0])
        if len(words) > 1 and not program.arguments:
            raise RefusedError(
                f"{host}: {program.name}: it takes no arguments: its entry in the testbed file has not arguments: true"
            )
        if self._processes is None:
            raise RefusedError(f"{host}: {program.name}: this daemon has no way to start programs on hosts")
        if self._is_closing:
            raise RefusedError(f"{host}: {program.name}: the daemon is ending")
        if len(self._runs) + len(self._starting) >= MOST:
            raise RefusedError(
                f"{host}: {program.name}: {MOST} programs run already, the most at a time. End one first"
            )
        there = sum(run.started.host == host for run in self._runs.values())
        if there + sum(one == host for one in self._starting.values()) >= MOST_ON_HOST:
            raise RefusedError(
                f"{host}: {program.name}: {MOST_ON_HOST} programs run on {host} already, the most on one host at a "
                "time. End one first"
            )
        id, command = self._ids.token(length=ID_LENGTH), (*program.command, *words[1:])
        starting = asyncio.ensure_future(
            self._processes.start(testbed.hosts[host], command, user=program.user, within_s=program.within_s)
        )
        self._starting[starting] = host
        try:
            await asyncio.wait((starting,))
        finally:
            del self._starting[starting]
            starting.cancel()  # does nothing but where whoever waits here was cancelled
        if starting.cancelled():
            raise RefusedError(f"{host}: {program.name}: the daemon is ending")
        running = starting.result()
        started = HostProgramStarted(
            program=id,
            host=host,
            name=program.name,
            command=[*command],
            user=program.user,
            by="a caller of the HTTP API" if caller is None else str(caller),
            pid=running.pid,
        )
        run = self._runs[started.program] = ProgramRun(started, running, self._clock, self._ended)
        self._emit(started)
        return run

    async def signal(self, id: str, name: Signal) -> ProgramStatus:
        """Send a signal to a program. Raises UnknownError where none of this id runs."""
        if (run := self._runs.get(id)) is None:
            what = "it has ended" if id in self._over else "none of this id is known"
            raise UnknownError(f"program {id}: {what}. `hwd status` lists those that run")
        await run.running.signal(name)
        return run.status()

    async def close(self) -> None:
        """End all, those that are starting too; from here on none starts."""
        self._is_closing = True
        for starting in [*self._starting]:
            starting.cancel()
        await asyncio.gather(*self._starting, return_exceptions=True)
        await asyncio.gather(*(run.close() for run in [*self._runs.values()]))

    def _allowed(self, host: str, name: str) -> Program:
        programs = self._in_use.testbed.programs
        allowed = [one.name for one in programs.values() if one.hosts is None or host in one.hosts]
        if name in allowed:
            return programs[name]
        there = f"programs of the testbed file for {host}: {', '.join(allowed) or 'none'}"
        raise RefusedError(
            f"{host}: {name}: not among the {there}. An operator adds it there: "
            f"programs: {{{name.rpartition('/')[2]}: {{command: [/usr/bin/...], user: nobody}}}}"
        )

    def _ended(self, run: "ProgramRun", end: ProgramEnd, seconds: float) -> None:
        started = run.started
        if self._runs.pop(started.program, None) is not None:
            self._over[started.program] = None
            if len(self._over) > OVER_REMEMBERED:
                del self._over[next(iter(self._over))]
            self._emit(
                HostProgramEnded(
                    program=started.program,
                    host=started.host,
                    name=started.name,
                    command=started.command,
                    user=started.user,
                    by=started.by,
                    status=end.status,
                    signal=end.signal,
                    why=end.why,
                    seconds=round(seconds, 3),
                )
            )


class ProgramRun:
    """One program that was started. Close it, whatever became of it: what has not ended then is ended."""

    def __init__(
        self,
        started: HostProgramStarted,
        running: RunningProgram,
        clock: Clock,
        ended: "Callable[[ProgramRun, ProgramEnd, float], None]",
    ) -> None:
        self.started = started
        self.running = running
        self._clock = clock
        self._began_ns = clock.monotonic_ns()
        self._ended = ended

    def status(self) -> ProgramStatus:
        started = self.started
        return ProgramStatus(
            id=started.program,
            host=started.host,
            name=started.name,
            command=started.command,
            user=started.user,
            pid=started.pid,
            since_s=self._seconds(),
            by=started.by,
        )

    async def news(self) -> AsyncGenerator[ProgramNews | None, None]:
        """Yield that the program has started, what it writes, and how it ended; None after each `BEAT_S` of silence."""
        yield ProgramStarted(id=self.started.program, host=self.started.host, pid=self.started.pid)
        pieces = aiter(self.running.output())
        piece = asyncio.ensure_future(anext(pieces, None))
        try:
            while True:
                done, _ = await asyncio.wait((piece,), timeout=BEAT_S)
                if not done:
                    yield None
                    continue
                if (output := piece.result()) is None:
                    break
                yield output
                piece = asyncio.ensure_future(anext(pieces, None))
        finally:
            piece.cancel()
        end = await self.running.wait()
        self._ended(self, end, self._seconds())
        yield end

    async def close(self) -> None:
        await self.running.close()
        self._ended(self, ProgramEnd(why="nobody waited for its end any more, so it was ended"), self._seconds())

    def _seconds(self) -> float:
        return (self._clock.monotonic_ns() - self._began_ns) / 1e9
