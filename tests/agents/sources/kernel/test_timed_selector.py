"""What a loop handles has waited at most as long as its thread was not asleep in a look since the look before."""

import asyncio
import os
import select
import selectors
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TypeVar

import pytest
from typing_extensions import override

from hwd_agents.sources.kernel.processor_pressure import SLICE_NS, ProcessorPressure
from hwd_agents.sources.kernel.timed_selector import (
    MARK_EVERY_NS,
    PRESSED_EVERY_NS,
    PRESSED_MOST_NS,
    PRESSED_ROUNDS,
    SCHEDSTAT,
    UNKNOWN_WAIT_NS,
    TimedSelector,
)
from hwd_drivers.core.clock import SystemClock

T = TypeVar("T")
MS = 1_000_000
BUSY_NS = 50 * MS
PROCESSORS = os.cpu_count() or 1
ROUNDS = 5
"""On a machine that others use too, the shortest of some is what the code does."""


def run(main: Callable[[TimedSelector], Coroutine[None, None, T]], *, path: str = SCHEDSTAT) -> T:
    selector = TimedSelector(SystemClock(), path=path)
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        return runner.run(main(selector))


def work(work_ns: int = BUSY_NS) -> None:
    clock = SystemClock()
    until_ns = clock.monotonic_ns() + work_ns
    while clock.monotonic_ns() < until_ns:
        pass


def sleep_elsewhere() -> None:
    """As in a write to a disk that takes nothing for a while."""
    select.poll().poll(BUSY_NS / MS)


def delays_ns(before: Callable[[], None], *, sleep_s: float, path: str = SCHEDSTAT) -> list[int]:
    """The delay that a timer's callback finds, where `before` was called in the turn before and the loop slept so long
    in between.
    """

    async def main(selector: TimedSelector) -> list[int]:
        loop, found = asyncio.get_running_loop(), list[int]()
        for _ in range(ROUNDS):
            done = loop.create_future()
            before()
            loop.call_later(sleep_s, lambda done=done: done.set_result(selector.delay_ns()))  # type: ignore[misc]
            found.append(await done)
        return found

    return run(main, path=path)


@pytest.mark.parametrize("before", [work, sleep_elsewhere])
@pytest.mark.parametrize("sleep_s", [0.0, 0.03])
def test_all_that_the_thread_did_since_the_look_before_counts(before: Callable[[], None], sleep_s: float) -> None:
    assert min(delays_ns(before, sleep_s=sleep_s)) >= BUSY_NS * 0.99


def test_work_counts_until_the_mark_after_the_next_and_no_longer() -> None:
    async def main(selector: TimedSelector) -> tuple[int, int]:
        await asyncio.sleep(MARK_EVERY_NS / 1e9)
        work()
        await asyncio.sleep(0)
        at_once_ns = selector.delay_ns()
        for _ in range(3):
            await asyncio.sleep(MARK_EVERY_NS / 1e9)
        return at_once_ns, selector.delay_ns()

    at_once_ns, later_ns = zip(*(run(main) for _ in range(ROUNDS)), strict=True)
    assert min(at_once_ns) >= BUSY_NS
    assert min(later_ns) < BUSY_NS / 2


def test_a_wait_for_a_processor_is_no_sleep(tmp_path: Path) -> None:
    path = tmp_path / "schedstat"
    path.write_text("1 1000 1")

    async def main(selector: TimedSelector) -> int:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[int] = loop.create_future()

        def take() -> None:
            path.write_text(f"1 {1000 + BUSY_NS} 1")
            done.set_result(selector.delay_ns())

        loop.call_later(BUSY_NS / 1e9, take)
        return await done

    assert run(main, path=str(path)) >= BUSY_NS * 0.9


def test_sleep_in_a_look_does_not_count_and_a_long_wait_is_assumed_where_the_kernel_counts_none(tmp_path: Path) -> None:
    assert min(delays_ns(lambda: None, sleep_s=BUSY_NS / 1e9)) < BUSY_NS / 2
    found = delays_ns(lambda: None, sleep_s=BUSY_NS / 1e9, path=str(tmp_path / "none"))
    assert UNKNOWN_WAIT_NS <= min(found) < BUSY_NS


def test_an_idle_loop_is_not_woken_for_it() -> None:
    class Counting(TimedSelector):
        looks = 0

        @override
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            self.looks += 1
            return super().select(timeout)

    selector = Counting(SystemClock())
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(asyncio.sleep(0.1))
    assert 0 < selector.looks < 10


# --- waits of the kernel's own threads


def pressed_ns(folder: Path, *, waited_us: int | None, ready: int | None, quiet_s: float = 0.1) -> int:
    """What a selector says after a time in which tasks of the machine waited so long, where so many are ready."""
    pressure, load = folder / "pressure", folder / "load"

    def some(total_us: int) -> str:
        return f"some avg10=1.00 avg60=0.50 avg300=0.10 total={total_us}\nfull avg10=0.00 total=7\n"

    if waited_us is not None:
        pressure.write_text(some(5))
    if ready is not None:
        load.write_text(f"1.00 2.00 3.00 {ready}/400 4711\n")
    selector = TimedSelector(SystemClock(), pressure=ProcessorPressure(path=str(pressure), load=str(load)))

    async def main() -> int:
        for _ in range(3):
            await asyncio.sleep(PRESSED_EVERY_NS / 1e9)
        await asyncio.sleep(quiet_s)
        if waited_us is not None:
            pressure.write_text(some(5 + waited_us))
        return selector.pressed_ns()

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        return runner.run(main())


@pytest.mark.parametrize(
    ("waited_us", "ready", "expected_ns"),
    [
        (0, 40, 0),
        (120, 40, 120_000 * PROCESSORS),
        (10_000_000, 3 * PROCESSORS, PRESSED_ROUNDS * 3 * SLICE_NS),
        (None, 3 * PROCESSORS, PRESSED_ROUNDS * 3 * SLICE_NS),
        (10_000_000, None, PRESSED_MOST_NS),
        (None, None, PRESSED_MOST_NS),
        (300, None, 300_000 * PROCESSORS),
    ],
    ids=["nobody-waited", "some-did", "all-the-time", "no-pressure", "no-load", "neither", "no-load-and-some-did"],
)
def test_thread_of_the_kernel_waited_as_long_as_tasks_did_and_some_rounds_of_them_at_most(
    tmp_path: Path, waited_us: int | None, ready: int | None, expected_ns: int
) -> None:
    assert pressed_ns(tmp_path, waited_us=waited_us, ready=ready) == expected_ns


def test_tasks_cannot_have_waited_longer_than_since_the_mark(tmp_path: Path) -> None:
    found = min(pressed_ns(tmp_path, waited_us=10_000_000, ready=4000 * PROCESSORS, quiet_s=0) for _ in range(ROUNDS))
    assert PRESSED_EVERY_NS <= found < 20 * PRESSED_EVERY_NS


def test_files_of_this_kernel_are_read_where_it_has_them() -> None:
    pressure = ProcessorPressure()
    if not Path("/proc/pressure/cpu").exists():
        assert pressure.waited_ns() is None
    round_ns = pressure.round_ns()
    assert round_ns is not None
    assert round_ns >= SLICE_NS // PROCESSORS, "this test is ready at least"
    pressure.close()
    assert (pressure.waited_ns(), pressure.round_ns()) == (None, None)
