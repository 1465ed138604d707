"""How late a loop may be: all that its thread has worked, little while it sleeps, and everything where nobody can tell."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hwd_agents.sources.lateness import SCHEDSTAT, TICK_IDLE_S, Lateness
from hwd_drivers.kit.clock import SystemClock

MS = 1_000_000
WORK_NS = 50 * MS


@pytest.fixture
def clock() -> SystemClock:
    return SystemClock()


@pytest.fixture
async def lateness(clock: SystemClock) -> AsyncIterator[Lateness]:
    made = Lateness(clock)
    made.start()
    yield made
    made.stop()


def work(clock: SystemClock) -> None:
    until_ns = clock.monotonic_ns() + WORK_NS
    while clock.monotonic_ns() < until_ns:
        pass


@pytest.mark.skipif(not Path(SCHEDSTAT).exists(), reason="this kernel has no schedstat")
async def test_what_the_thread_works_counts_until_the_mark_after_next(lateness: Lateness, clock: SystemClock) -> None:
    work(clock)
    assert lateness.most_ns() >= WORK_NS * 0.95
    async with asyncio.timeout(20):
        while lateness.most_ns() >= WORK_NS / 2:  # noqa: ASYNC110 - nothing tells of a mark
            await asyncio.sleep(TICK_IDLE_S / 4)


async def test_all_of_the_time_counts_where_the_kernel_does_not_tell(clock: SystemClock, tmp_path: Path) -> None:
    lateness = Lateness(clock, path=str(tmp_path / "schedstat"))
    lateness.start()
    work(clock)
    assert lateness.most_ns() >= WORK_NS
    lateness.stop()
    lateness.stop()
