"""JobRanks: the processes of the ranks of one job, on their hosts: started, attached to again, followed, ended."""

import asyncio
import logging
import os
import zlib
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from hwd.model.job import JobRecord
from hwd.model.program import Processes, ProgramEnd, RunningProgram
from hwd.model.testbed import Host
from hwd_drivers.core.errors import HwdError, RefusedError, UnknownError
from hwd_drivers.core.offload import Offload
from hwd_drivers.core.reason import reason_of

LOG_MOST_BYTES: Final = 64 * 1024 * 1024
"""Output of one rank that is kept; at its end it is said that there was more."""
LAST_BYTES: Final = 2000
LAST_CHARS: Final = 300
"""The most characters of the last line of a rank that failed, in the reason of its job."""
GRACE_S: Final = 2.0
"""For ranks to end by themselves once they are asked to."""
AGAIN_S: Final = 1.0
"""Between two attempts to reach a rank on a host that is away."""
AWAY_S: Final = 300.0
"""So long a host may be away before its rank counts as lost."""
MASTER_PORT: Final = 20_000
MASTER_PORTS: Final = 9_000
"""Where rank 0 of a job listens: one of so many, by the id of the job, so that two jobs on one host differ."""

log = logging.getLogger(__name__)


class JobRanks:
    """The processes of a job's ranks. `folder` gets the output of each rank, `rank0.log`: each byte once, also where
    the daemon is killed. Where output was dropped, `rank0.ahead` has by how many bytes a place in the output is more
    than the size of its log.

    `on_end` is awaited with each rank that has ended, before its end is taken from its host: a daemon that is killed in
    between hears of it again.
    """

    def __init__(
        self,
        record: JobRecord,
        hosts: Mapping[str, Host],
        processes: Processes,
        *,
        folder: Path,
        offload: Offload,
        on_end: Callable[[int, ProgramEnd], Awaitable[None]],
    ) -> None:
        self._record = record
        self._hosts = hosts
        self._processes = processes
        self._folder = folder
        self._offload = offload
        self._on_end = on_end
        self._started: set[int] = set()
        """The ranks that may run."""
        self._running: dict[int, RunningProgram] = {}
        self._gone: dict[int, str] = {}
        """Why ranks cannot be attached to."""
        self._last: dict[int, bytes] = {}
        """The end of the output of each rank."""
        self._ahead: dict[int, int] = {}
        """What `rank0.ahead` says; 0 where there is none."""
        self._follow: dict[int, asyncio.Task[None]] = {}

    async def start(self, *, address: str | None = None) -> None:
        """Start all; `address` is where the others reach rank 0. Raises what the first one raises that cannot be
        started; the others are for `stop`.
        """
        await self._offload(lambda: self._folder.mkdir(parents=True, exist_ok=True))
        work = (self._start(number, address) for number in range(len(self._record.ranks)))
        for done in await asyncio.gather(*work, return_exceptions=True):
            if isinstance(done, BaseException):
                raise done

    def take_over(self) -> None:
        """An earlier process of the daemon may have started all."""
        self._started = {number for number in range(len(self._record.ranks)) if number not in self._record.ends}

    async def attach(self) -> None:
        """Go on with those that have not ended. One that is gone has ended, nobody knows how."""
        for number in sorted(self._started):
            self._go_on(number)

    async def stop(self, *, within_s: float) -> str:
        """End all that still run, and all that they started; returns which may still run, and why.

        They are asked to first, so that what they write at last is kept. One on a host that the testbed file does not
        have any more is not waited for.
        """
        follow = [task for task in self._follow.values() if not task.done()]
        for number, running in [*self._running.items()]:
            try:
                await running.signal("TERM")
            except HwdError as error:
                log.info("%s: rank %d: %s", self._record, number, reason_of(error))
        if follow:
            await asyncio.wait(follow, timeout=GRACE_S)
        for task in follow:
            task.cancel()
        await asyncio.gather(*follow, return_exceptions=True)
        by_s = asyncio.get_running_loop().time() + within_s
        while True:
            numbers = sorted(self._started)
            closed = await asyncio.gather(*map(self._close, numbers))
            left = {number: why for number, why in zip(numbers, closed, strict=True) if why}
            may_end = any(self._record.ranks[number].host in self._hosts for number in left)
            if not may_end or asyncio.get_running_loop().time() >= by_s:
                return "; ".join(left.values())
            await asyncio.sleep(AGAIN_S)

    def last_words(self, number: int) -> str:
        """The last line that a rank has written, as far as this daemon has seen it; empty where there is none."""
        written = self._last.get(number, b"").decode(errors="replace").strip().splitlines()
        return written[-1].strip()[-LAST_CHARS:] if written else ""

    async def leave(self) -> None:
        """Let them go on without the daemon."""
        for task in self._follow.values():
            task.cancel()
        await asyncio.gather(*self._follow.values(), return_exceptions=True)
        left = await asyncio.gather(*(running.leave() for running in self._running.values()), return_exceptions=True)
        for error in left:
            if isinstance(error, BaseException):
                log.warning("%s: a rank was not left in order: %s", self._record, reason_of(error))

    # --- one rank

    async def _start(self, number: int, address: str | None) -> None:
        record = self._record
        self._started.add(number)
        environment = {
            "HWD_JOB": record.id,
            "HWD_RANK": str(number),
            "HWD_JOB_KEY": record.key,
            "HWD_SHIM": record.shim,
            **_launch(record, number, address),
        }
        running = await self._processes.start(
            self._host(number),
            record.command,
            user=record.user,
            within_s=record.within_s,
            environment=environment,
            keep=self._keep(number),
        )
        self._go_on(number, running)

    async def _attached(self, number: int) -> RunningProgram | None:
        """Attached to it, as soon as its host can be reached; None where it is gone, or stays away."""
        by_s = asyncio.get_running_loop().time() + AWAY_S
        while True:
            try:
                taken = await self._logged(number)
                return await self._processes.attach(
                    self._host(number), self._keep(number), user=self._record.user, taken=taken
                )
            except (UnknownError, RefusedError) as error:
                self._gone[number] = f"it is gone, and nobody knows how it ended: {reason_of(error)}"
                return None
            except HwdError as error:
                log.info("%s: rank %d: %s", self._record, number, reason_of(error))
                if asyncio.get_running_loop().time() >= by_s:
                    self._gone[number] = f"it could not be reached for {AWAY_S:g} s, the last time: {reason_of(error)}"
                    return None
            await asyncio.sleep(AGAIN_S)

    def _go_on(self, number: int, running: RunningProgram | None = None) -> None:
        self._follow[number] = asyncio.create_task(
            self._followed(number, running), name=f"hwd:jobs/{self._record.id}/rank{number}"
        )

    async def _followed(self, number: int, running: RunningProgram | None) -> None:
        """Take its output and its end. Whatever goes wrong with that is its end for the job."""
        try:
            await self._follow_to_end(number, running)
        except HwdError as error:
            await self._on_end(number, ProgramEnd(why=reason_of(error)))
        except Exception as error:
            log.exception("%s: rank %d: a defect of hwd", self._record, number)
            await self._on_end(number, ProgramEnd(why=f"a defect of hwd: {error!r}"))

    async def _follow_to_end(self, number: int, running: RunningProgram | None) -> None:
        """Follow a rank to its end, over as many connections as that takes. `running` None: it is to be attached to."""
        while True:
            if running is None and (running := await self._attached(number)) is None:
                await self._on_end(number, ProgramEnd(why=self._gone[number]))
                return
            self._running[number] = running
            async for piece in running.output():
                self._last[number] = (self._last.get(number, b"") + piece.data)[-LAST_BYTES:]
                await self._write(number, piece.data, running.taken)
            end = await running.wait()
            if running.has_ended:
                break
            log.info("%s: rank %d: %s", self._record, number, end)
            del self._running[number]
            await running.leave()
            await asyncio.sleep(AGAIN_S)
            running = None
        await self._on_end(number, end)
        self._started.discard(number)
        del self._running[number]
        await running.close()

    async def _close(self, number: int) -> str:
        """End one; returns why it may still run, empty where it does not."""
        running = self._running.pop(number, None)
        try:
            if running is None:
                running = await self._processes.attach(self._host(number), self._keep(number), user=self._record.user)
            await running.close()
        except UnknownError:
            pass  # there is none
        except HwdError as error:
            return f"rank {number}: {reason_of(error)}"
        self._started.discard(number)
        return ""

    async def _logged(self, number: int) -> int | None:
        """The place in the output of a rank up to which its log has it, as `RunningProgram.taken`; None where the log
        takes no more. A supervisor may have heard of less, where the daemon was killed right after it wrote.
        """

        def read() -> tuple[int, bytes, int]:
            size, last = 0, b""
            try:
                with self._log(number).open("rb") as file:
                    size = file.seek(0, os.SEEK_END)
                    file.seek(max(0, size - LAST_BYTES))
                    last = file.read()
                return size, last, int(self._ahead_file(number).read_text())
            except FileNotFoundError:
                return size, last, 0

        try:
            size, last, ahead = await self._offload(read)
        except OSError as error:
            log.warning("%s: rank %d: its log may repeat some output: %s", self._record, number, reason_of(error))
            return None
        if size >= LOG_MOST_BYTES:
            return None
        self._last[number], self._ahead[number] = last, ahead
        return size + ahead

    async def _write(self, number: int, data: bytes, taken: int) -> None:
        """`taken`: the place after `data`."""

        def write() -> None:
            with self._log(number).open("ab") as file:
                if (before := file.tell()) >= LOG_MOST_BYTES:
                    return
                # First how far ahead it is: who is killed in between then attaches before what it has not, never after.
                self._note_ahead(number, taken - before - len(data))
                more = b"\n[hwd: what comes after this is not kept]\n" if before + len(data) >= LOG_MOST_BYTES else b""
                file.write(data + more)

        try:
            await self._offload(write)
        except OSError as error:
            log.warning("%s: rank %d: its output is lost: %s", self._record, number, reason_of(error))

    def _note_ahead(self, number: int, ahead: int) -> None:
        if ahead != self._ahead.get(number, 0):
            file = self._ahead_file(number)
            new = file.with_suffix(".new")
            new.write_text(str(ahead))
            new.replace(file)
            self._ahead[number] = ahead

    def _log(self, number: int) -> Path:
        return self._folder / f"rank{number}.log"

    def _ahead_file(self, number: int) -> Path:
        return self._folder / f"rank{number}.ahead"

    def _host(self, number: int) -> Host:
        """Raises RefusedError where the testbed file does not have it any more."""
        name = self._record.ranks[number].host
        if (host := self._hosts.get(name)) is None:
            raise RefusedError(f"{name}: is no host of the testbed file any more")
        return host

    def _keep(self, number: int) -> str:
        return f"{self._record.id}-{number}"


def _launch(record: JobRecord, number: int, address: str | None) -> dict[str, str]:
    """The variables that torchrun gives to each process (PyTorch documentation, torchrun, Environment Variables), for
    programs that meet by them at rank 0.
    """
    places = [one.host for one in record.ranks]
    found = {
        "RANK": str(number),
        "WORLD_SIZE": str(len(places)),
        "LOCAL_RANK": str(places[:number].count(places[number])),
        "LOCAL_WORLD_SIZE": str(places.count(places[number])),
        "MASTER_PORT": str(MASTER_PORT + zlib.crc32(record.id.encode()) % MASTER_PORTS),
    }
    return found if address is None else found | {"MASTER_ADDR": address}
