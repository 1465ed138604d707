"""What a power cut loses of a spool, by sync mode: all that was not synced, one second, or the time of two syncs."""

import asyncio
import errno
import os
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

import pytest

from hwd_agents.spool.spool import Spool
from hwd_agents.spool.syncer import SpoolSync, Syncer
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.disk import MemoryDisk
from hwd_drivers.core.offload import InlineOffload

from ..conftest import stop
from ..wire.golden import event

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

SYNC_S = 0.05


class SlowDisk(MemoryDisk):
    """Its sync takes 50 ms in another thread, and what is put down meanwhile is not part of it."""

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        """As an Offload, for its own sync alone."""
        upto = self.size()
        await asyncio.sleep(SYNC_S)
        rest = self.read()[upto:]
        self.truncate(upto)
        found = fn(*args)
        self.append(rest)
        return found


def left(disk: MemoryDisk) -> list[int]:
    """The numbers of the events that are there after a power cut."""
    disk.crash()
    spool = Spool(disk, boot="b2", clock=SystemClock(), limit_bytes=1 << 20)
    assert spool.trouble == ""
    found = [each.seq for each in spool.batch("b1", after=0)]
    marks = dict(spool.marks)
    assert marks == ({"last": {"seq": found[-1]}} if found else {})
    return found


@pytest.mark.parametrize(
    ("mode", "at_s", "kept"),
    [
        (SpoolSync.NEVER, 60.0, 0),
        (SpoolSync.SECOND, 0.9, 0),
        (SpoolSync.SECOND, 1.1, 100),
        (SpoolSync.SECOND, 60.0, 100),
        (SpoolSync.BATCH, 0.0, 0),
        (SpoolSync.BATCH, 0.045, 1),
        (SpoolSync.BATCH, 0.1, 100),
        (SpoolSync.BATCH, 60.0, 100),
    ],
)
async def test_a_power_cut_takes_no_more_than_the_mode_says(
    virtual_time: None, mode: SpoolSync, at_s: float, kept: int
) -> None:
    disk = SlowDisk()
    spool = Spool(disk, boot="b1", clock=SystemClock(), limit_bytes=1 << 20)
    syncing = asyncio.create_task(Syncer(mode, spool, disk).run())
    await asyncio.sleep(0.1)
    for number in range(1, 101):
        spool.add(event(number, number), marks={"last": {"seq": number}})
        spool.flush()
        if number == 1:
            await asyncio.sleep(0.01)
    if at_s:
        await asyncio.sleep(at_s)
    await stop(syncing)
    disk.crash(keep_unsynced=9)  # of half a frame
    assert left(disk) == list(range(1, kept + 1))


async def test_a_sync_that_fails_is_told_and_all_is_put_down_anew(virtual_time: None) -> None:
    class Failing(MemoryDisk):
        """As a real one: after a failed sync nothing is believed until it is replaced."""

        failed = False
        fails = 0

        def sync(self) -> None:
            if self.fails:
                self.fails -= 1
                self.failed = True
                raise OSError(errno.EIO, os.strerror(errno.EIO), "events")
            super().sync()

        def append(self, data: bytes) -> None:
            if self.failed:
                raise OSError(errno.EIO, os.strerror(errno.EIO), "events")
            super().append(data)

        def replace(self, data: bytes, *, reserve: int = 0) -> None:
            self.failed = False
            super().replace(data, reserve=reserve)

    disk, told = Failing(), list[str]()

    spool = Spool(
        disk, boot="b1", clock=SystemClock(), limit_bytes=1 << 20, on_trouble=lambda: told.append(spool.trouble)
    )
    syncing = asyncio.create_task(Syncer(SpoolSync.BATCH, spool, InlineOffload()).run())
    await asyncio.sleep(0.1)
    disk.fails = 1
    spool.add(event(1, 1), marks={"last": {"seq": 1}})
    spool.flush()
    await asyncio.sleep(1.0)
    await stop(syncing)
    assert len(told) == 2
    assert "Look at its disk" in told[0]
    assert told[1] == ""
    assert left(disk) == [1]
