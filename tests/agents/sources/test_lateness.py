"""How late a loop may be: all that its thread has worked, little while it sleeps, and everything where nobody can tell."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hwd_agents.sources.lateness import OWN_NS, SCHEDSTAT, TICK_BUSY_S, TICK_IDLE_S, Lateness
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


def work(clock: SystemClock, work_ns: int = WORK_NS) -> None:
    until_ns = clock.monotonic_ns() + work_ns
    while clock.monotonic_ns() < until_ns:
        pass


@pytest.mark.skipif(not Path(SCHEDSTAT).exists(), reason="this kernel has no schedstat")
async def test_what_the_thread_works_counts_until_the_mark_after_next(lateness: Lateness, clock: SystemClock) -> None:
    work(clock)
    assert lateness.most_ns() >= WORK_NS * 0.95
    async with asyncio.timeout(20):
        while lateness.most_ns() >= WORK_NS / 2:  # noqa: ASYNC110 - nothing tells of a mark
            await asyncio.sleep(TICK_IDLE_S / 4)


@pytest.mark.skipif(not Path(SCHEDSTAT).exists(), reason="this kernel has no schedstat")
async def test_work_between_two_ticks_of_the_kernel_counts_too(lateness: Lateness, clock: SystemClock) -> None:
    counted_ns: list[int] = []
    for _ in range(100):
        await asyncio.sleep(0.003)
        before_ns = lateness.most_ns()
        work(clock, 2 * MS)
        after_ns = lateness.most_ns()
        if after_ns >= before_ns:  # else a mark was set meanwhile
            counted_ns.append(after_ns - before_ns)
    short = [each for each in counted_ns if each < 2 * MS * 0.95]
    assert len(short) <= 2, "a machine below this one may take some"
    assert len(counted_ns) > 50


async def test_all_of_the_time_counts_where_the_kernel_does_not_tell(clock: SystemClock, tmp_path: Path) -> None:
    lateness = Lateness(clock, path=str(tmp_path / "schedstat"))
    lateness.start()
    work(clock)
    assert lateness.most_ns() >= WORK_NS
    lateness.stop()
    lateness.stop()


@pytest.mark.parametrize(("worked_ns", "next_s"), [(OWN_NS // 10, TICK_IDLE_S), (1000 * OWN_NS, TICK_BUSY_S)])
async def test_marks_are_not_kept_coming_by_what_they_take_themselves(
    clock: SystemClock, tmp_path: Path, worked_ns: int, next_s: float
) -> None:
    told = tmp_path / "schedstat"
    told.write_text("0 0 0\n")
    lateness = Lateness(clock, path=str(told))
    lateness.start()
    told.write_text(f"0 {worked_ns} 0\n")
    before_s = asyncio.get_running_loop().time()
    lateness._tick()
    assert lateness._timer is not None
    assert lateness._timer.when() - before_s == pytest.approx(next_s, abs=TICK_BUSY_S)
    lateness.stop()
