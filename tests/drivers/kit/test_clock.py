"""Clocks never run backwards, and a shifted one moves every stamp alike."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from hwd_drivers.kit.clock import Clock, ShiftedClock, SystemClock

DAY_NS = 86_400_000_000_000
offsets_s = st.floats(-1e6, 1e6)
drifts_ppm = st.floats(-200_000, 200_000)
moments_ns = st.integers(0, 365 * DAY_NS)


class SetClock:
    """A clock that is set by hand: monotonic time, and a wall that is always ahead by the same."""

    WALL_AHEAD_NS = 1_700_000_000_000_000_000

    def __init__(self, now_ns: int = 0) -> None:
        self.now_ns = now_ns

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wall_ns(self) -> int:
        return self.now_ns + self.WALL_AHEAD_NS

    def from_kernel_ns(self, stamp_ns: int) -> int:
        return stamp_ns - self.WALL_AHEAD_NS


def shifted(at_ns: int, offset_s: float, drift_ppm: float) -> tuple[SetClock, ShiftedClock]:
    inner = SetClock(at_ns)
    return inner, ShiftedClock(inner, offset_s=offset_s, drift_ppm=drift_ppm)


def test_system_clock_is_a_clock() -> None:
    clock: Clock = SystemClock()
    assert clock.monotonic_ns() <= clock.monotonic_ns()


def test_system_clock_reads_raw_and_realtime() -> None:
    read = time.clock_gettime_ns  # noqa: TID251 - the judge must not be the one on trial
    clock = SystemClock()
    assert read(time.CLOCK_MONOTONIC_RAW) <= clock.monotonic_ns() <= read(time.CLOCK_MONOTONIC_RAW)
    assert read(time.CLOCK_REALTIME) <= clock.wall_ns() <= read(time.CLOCK_REALTIME)


def test_kernel_stamp_lands_between_the_reads_around_it() -> None:
    clock = SystemClock()
    before_ns = clock.monotonic_ns()
    stamp_ns = clock.wall_ns()
    after_ns = clock.monotonic_ns()
    slack_ns = 100_000  # half a pair of reads, with a loaded machine in mind
    assert before_ns - slack_ns <= clock.from_kernel_ns(stamp_ns) <= after_ns + slack_ns


def test_tightest_pair_of_reads_is_taken() -> None:
    widths_ns = iter([900, 40, 500])

    class Stretched(SystemClock):
        def __init__(self) -> None:
            self.raw_ns = 0
            self.reads = 0

        @override
        def monotonic_ns(self) -> int:
            self.reads += 1
            if self.reads % 2 == 0:
                self.raw_ns += next(widths_ns)
            return self.raw_ns

        @override
        def wall_ns(self) -> int:
            return self.raw_ns + 1000

    # The pair of 40 ns starts at 900: wall 1900, monotonic 900..940.
    assert Stretched().from_kernel_ns(1900) == 920


@given(
    at_ns=moments_ns, offset_s=offsets_s, drift_ppm=drifts_ppm, steps_ns=st.lists(st.integers(0, DAY_NS), max_size=8)
)
def test_shifted_clock_never_runs_backwards(at_ns: int, offset_s: float, drift_ppm: float, steps_ns: list[int]) -> None:
    inner, clock = shifted(at_ns, offset_s, drift_ppm)
    seen = (clock.monotonic_ns(), clock.wall_ns())
    for step_ns in steps_ns:
        inner.now_ns += step_ns
        now = (clock.monotonic_ns(), clock.wall_ns())
        assert now >= seen
        seen = now


@given(at_ns=moments_ns, offset_s=offsets_s, drift_ppm=drifts_ppm, later_ns=st.integers(-DAY_NS, 30 * DAY_NS))
def test_kernel_stamps_agree_with_the_shifted_monotonic_clock(
    at_ns: int, offset_s: float, drift_ppm: float, later_ns: int
) -> None:
    inner, clock = shifted(at_ns, offset_s, drift_ppm)
    inner.now_ns += later_ns
    assert clock.from_kernel_ns(inner.wall_ns()) == clock.monotonic_ns()


@given(at_ns=moments_ns, offset_s=offsets_s, drift_ppm=drifts_ppm, later_ns=st.integers(0, 30 * DAY_NS))
def test_truth_is_recovered_within_the_rounding(at_ns: int, offset_s: float, drift_ppm: float, later_ns: int) -> None:
    inner, clock = shifted(at_ns, offset_s, drift_ppm)
    inner.now_ns += later_ns
    stamp_ns = clock.monotonic_ns()
    truth_ns = clock.to_inner_ns(stamp_ns)
    assert inner.now_ns - 2 <= truth_ns <= inner.now_ns
    inner.now_ns = truth_ns
    assert clock.monotonic_ns() == stamp_ns


def test_offset_and_drift_are_exact() -> None:
    inner, clock = shifted(1_000, 5.0, 50.0)
    assert clock.monotonic_ns() == 5_000_001_000
    inner.now_ns += 10 * DAY_NS
    assert clock.monotonic_ns() == 5_000_001_000 + 10 * DAY_NS + 10 * DAY_NS * 50 // 1_000_000
    assert clock.wall_ns() == inner.wall_ns() + 5_000_000_000 + 10 * DAY_NS * 50 // 1_000_000


def test_clock_that_would_stand_still_is_refused() -> None:
    with pytest.raises(ValueError, match=r"drift_ppm: -1000000\.0 would stop the clock"):
        shifted(0, 0.0, -1_000_000.0)


@given(st.integers(0, 10**18), st.floats(-1e5, 1e5), st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=4))
def test_step_moves_every_stamp_and_the_last_one_counts(at_ns: int, offset_s: float, steps_s: list[float]) -> None:
    inner, clock = shifted(at_ns, offset_s, 50)
    inner_ns = at_ns + 10**9
    inner.now_ns = inner_ns
    before = clock.monotonic_ns(), clock.wall_ns(), clock.from_kernel_ns(inner_ns)
    for step_s in steps_s:
        clock.step_to(step_s)
    moved_ns = round(steps_s[-1] * 1e9)
    after = clock.monotonic_ns(), clock.wall_ns(), clock.from_kernel_ns(inner_ns)
    assert [late - early for early, late in zip(before, after, strict=True)] == [moved_ns] * 3
    assert clock.to_inner_ns(clock.monotonic_ns()) == inner_ns
