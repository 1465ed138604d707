"""The cost of each sync mode of a spool: the time to write an event, in turns with a spool that is not synced."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from typing_extensions import override

from bench.measure import Bar, Summary
from bench.progress import Progress
from hwd_agents.spool.spool import Spool
from hwd_agents.spool.syncer import SpoolSync, Syncer
from hwd_agents.wire import Event
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.disk import FileDisk
from hwd_drivers.core.offload import ThreadOffload

EVENTS, SPACING_S = 50, 0.005


class TimedDisk(FileDisk):
    """Records the duration of its syncs, in s."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.syncs: list[float] = []

    @override
    def sync(self) -> None:
        start = time.perf_counter()
        super().sync()
        self.syncs.append(time.perf_counter() - start)


@dataclass(frozen=True, slots=True)
class Mode:
    """A spool in one sync mode, with its measured times: `flushes_us`, and `disk.syncs` in s."""

    spool: Spool
    disk: TimedDisk
    flushes_us: list[float] = field(default_factory=list)

    async def turn(self, *, count: bool) -> None:
        for _ in range(EVENTS):
            event = _event(self.spool.next_seq)
            start = time.perf_counter()
            self.spool.add(event)
            self.spool.flush()
            if count:
                self.flushes_us.append((time.perf_counter() - start) * 1e6)
            await asyncio.sleep(SPACING_S)


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    turns = 4 if quick else 40
    progress.say(f"sync: {turns} turns of {EVENTS} events, {SPACING_S * 1e3:g} ms apart, under each way of syncing")
    async with contextlib.AsyncExitStack() as stack:
        modes = {mode: await stack.enter_async_context(_open(mode, folder)) for mode in SpoolSync}
        for number in range(-1, turns):
            for mode in modes.values():
                await mode.turn(count=number >= 0)
        return [_bar(name, mode, modes[SpoolSync.NEVER]) for name, mode in modes.items() if name is not SpoolSync.NEVER]


@contextlib.asynccontextmanager
async def _open(mode: SpoolSync, folder: Path) -> AsyncIterator[Mode]:
    threads, disk = ThreadOffload(1), TimedDisk(folder / mode)
    spool = Spool(disk, boot="bench", clock=SystemClock(), limit_bytes=1 << 30)
    syncing = asyncio.create_task(Syncer(mode, spool, threads).run())
    try:
        yield Mode(spool, disk)
    finally:
        syncing.cancel()
        await asyncio.wait([syncing])
        threads.close()
        disk.close()


def _bar(name: SpoolSync, mode: Mode, never: Mode) -> Bar:
    ours, floor = Summary.of(mode.flushes_us), Summary.of(never.flushes_us)
    syncs = Summary.of([seconds * 1e3 for seconds in mode.disk.syncs])
    return Bar(
        name=f"event put down, sync: {name}",
        value=ours.median / floor.median,
        limit=None,
        unit="x",
        spread=(
            f"{ours.median:.0f} us (p99 {ours.p99:.0f}) over {floor.median:.0f} us (p99 {floor.p99:.0f}); "
            f"{syncs.n} syncs of {syncs.median:.2f} ms (p99 {syncs.p99:.2f}) beside it"
        ),
        n=ours.n,
        detail={"flush_us": ours.to_data(), "floor_us": floor.to_data(), "sync_ms": syncs.to_data()},
    )


def _event(seq: int) -> Event:
    return Event(
        seq=seq,
        at_ns=seq,
        earliest_ns=seq,
        kind="carrier",
        port="eth0",
        source="link",
        origin="measured",
        data={"carrier": True, "carrier_changes": seq, "unseen": 0},
    )
