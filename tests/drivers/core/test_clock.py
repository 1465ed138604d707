"""Clocks never run backwards, and a shifted one moves every stamp alike."""

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typing_extensions import override

from hwd_drivers.core.clock import BOOT_ID, Clock, ShiftedClock, SystemClock

S, MS = 1_000_000_000, 1_000_000
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

    def kernel_bounds_ns(self, stamp_ns: int) -> tuple[int, int]:
        return stamp_ns - self.WALL_AHEAD_NS, stamp_ns - self.WALL_AHEAD_NS

    def from_kernel_ns(self, stamp_ns: int) -> int:
        return stamp_ns - self.WALL_AHEAD_NS


def shifted(at_ns: int, offset_s: float, drift_ppm: float) -> tuple[SetClock, ShiftedClock]:
    inner = SetClock(at_ns)
    return inner, ShiftedClock(inner, offset_s=offset_s, drift_ppm=drift_ppm)


def test_system_clock_reads_raw_and_realtime_and_a_kernel_stamp_lands_between_the_reads_around_it() -> None:
    read = time.clock_gettime_ns  # noqa: TID251 - the judge must not be the one on trial
    clock: Clock = SystemClock()
    assert read(time.CLOCK_MONOTONIC_RAW) <= clock.monotonic_ns() <= read(time.CLOCK_MONOTONIC_RAW)
    assert read(time.CLOCK_REALTIME) <= clock.wall_ns() <= read(time.CLOCK_REALTIME)
    before_ns = clock.monotonic_ns()
    stamp_ns = clock.wall_ns()
    after_ns = clock.monotonic_ns()
    slack_ns = 100_000  # half a pair of reads, with a loaded machine in mind
    assert before_ns - slack_ns <= clock.from_kernel_ns(stamp_ns) <= after_ns + slack_ns


class Machine(SystemClock):
    """A machine whose clocks are set by hand; each read of the monotonic one takes a while."""

    def __init__(self) -> None:
        self.raw_ns = 10 * S
        self.wall_ahead_ns = 1_700_000_000 * S
        self.reads_ns: Iterator[int] = itertools.repeat(20)
        super().__init__()

    @override
    def monotonic_ns(self) -> int:
        self.raw_ns += next(self.reads_ns)
        return self.raw_ns

    @override
    def wall_ns(self) -> int:
        return self.raw_ns + self.wall_ahead_ns

    def stamp(self) -> tuple[int, int]:
        """The true time, and what the kernel makes of it."""
        return self.raw_ns, self.wall_ns()


def test_tightest_pair_of_reads_is_taken() -> None:
    machine = Machine()
    machine.raw_ns += 50 * MS
    true_ns, stamp_ns = machine.stamp()
    machine.reads_ns = itertools.chain([900, 900, 20, 20, 500, 500], itertools.repeat(20))
    earliest_ns, latest_ns = machine.kernel_bounds_ns(stamp_ns)
    assert true_ns - 20 <= earliest_ns <= true_ns <= latest_ns <= true_ns + 20


@pytest.mark.parametrize("step_s", [3600.0, -3600.0, 0.0002, -0.0002])
@pytest.mark.parametrize("when", ["before the stamp", "after the stamp"])
@example(age_ms=0.0625, since_ms=0.5, slew_ppm=-55.0)
@given(age_ms=st.floats(0.001, 500), since_ms=st.floats(0, 5000), slew_ppm=st.floats(-500, 500))
def test_a_wall_clock_that_is_set_around_a_stamp_never_moves_it_out_of_its_bounds(
    step_s: float, when: str, age_ms: float, since_ms: float, slew_ppm: float
) -> None:
    machine = Machine()

    def pass_ms(ms: float) -> None:
        machine.raw_ns += round(ms * MS)
        machine.wall_ahead_ns += round(ms * MS * slew_ppm * 1e-6)

    pass_ms(since_ms)
    machine.kernel_bounds_ns(machine.stamp()[1])
    pass_ms(since_ms)
    if when == "before the stamp":
        machine.wall_ahead_ns += round(step_s * S)
    pass_ms(age_ms)
    true_ns, stamp_ns = machine.stamp()
    pass_ms(age_ms)
    if when == "after the stamp":
        machine.wall_ahead_ns += round(step_s * S)
    pass_ms(age_ms)
    earliest_ns, latest_ns = machine.kernel_bounds_ns(stamp_ns)
    apart_ms = (
        since_ms + min(since_ms, 1) + 3 * age_ms
    )  # of the stored reads around the stamp: not all within 1 ms are stored
    against_ns = round(apart_ms * MS * abs(slew_ppm) * 1e-6) if slew_ppm * step_s < 0 else 0
    against_ns += 4  # each of the times that pass is rounded to whole ns, and so is what is made of them
    assert earliest_ns - against_ns <= true_ns <= latest_ns + against_ns
    assert latest_ns <= machine.raw_ns
    if abs(step_s) > 1:
        assert true_ns <= machine.from_kernel_ns(stamp_ns) + against_ns + 2


@given(
    step_ms=st.floats(-20, 20),
    ages_ms=st.lists(st.floats(0.001, 10), min_size=3, max_size=3),
    seen=st.lists(st.floats(0.001, 10), max_size=4),
)
def test_other_stamps_that_were_asked_about_after_the_wall_clock_was_set_do_not_move_an_older_one(
    step_ms: float, ages_ms: list[float], seen: list[float]
) -> None:
    machine = Machine()
    before_ms, until_set_ms, since_ms = ages_ms
    machine.raw_ns += round(before_ms * MS)
    true_ns, stamp_ns = machine.stamp()
    machine.raw_ns += round(until_set_ms * MS)
    machine.wall_ahead_ns += round(step_ms * MS)
    for ms in seen:
        machine.raw_ns += round(ms * MS)
        machine.kernel_bounds_ns(machine.stamp()[1])
    machine.raw_ns += round(since_ms * MS)
    earliest_ns, latest_ns = machine.kernel_bounds_ns(stamp_ns)
    assert earliest_ns <= true_ns <= latest_ns


def test_a_stamp_of_a_quiet_wall_clock_is_known_to_the_width_of_a_read_and_what_it_slewed() -> None:
    machine = Machine()
    for _ in range(100):
        machine.raw_ns += 7 * MS
        machine.wall_ahead_ns += 350  # 50 ppm
        true_ns, stamp_ns = machine.stamp()
        machine.raw_ns += MS // 10
        earliest_ns, latest_ns = machine.kernel_bounds_ns(stamp_ns)
        assert earliest_ns <= true_ns <= latest_ns
        assert latest_ns - earliest_ns <= 500


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
def test_kernel_stamps_agree_and_truth_is_recovered(
    at_ns: int, offset_s: float, drift_ppm: float, later_ns: int
) -> None:
    inner, clock = shifted(at_ns, offset_s, drift_ppm)
    inner.now_ns += later_ns
    stamp_ns = clock.monotonic_ns()
    assert clock.from_kernel_ns(inner.wall_ns()) == stamp_ns
    truth_ns = clock.to_inner_ns(stamp_ns)
    assert inner.now_ns - 2 <= truth_ns <= inner.now_ns
    inner.now_ns = truth_ns
    assert clock.monotonic_ns() == stamp_ns


def test_offset_and_drift_are_exact_and_a_clock_that_would_stand_still_is_refused() -> None:
    inner, clock = shifted(1_000, 5.0, 50.0)
    assert clock.monotonic_ns() == 5_000_001_000
    inner.now_ns += 10 * DAY_NS
    assert clock.monotonic_ns() == 5_000_001_000 + 10 * DAY_NS + 10 * DAY_NS * 50 // 1_000_000
    assert clock.wall_ns() == inner.wall_ns() + 5_000_000_000 + 10 * DAY_NS * 50 // 1_000_000
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


@pytest.mark.root
@pytest.mark.skipif(not os.path.exists("/proc/self/ns/time"), reason="needs time namespaces of the kernel")
def test_a_clock_that_stood_while_its_machine_was_suspended_has_another_name() -> None:
    """Suspended for 100 s, by a time namespace (time_namespaces(7)): its CLOCK_BOOTTIME is 100 s ahead."""
    say = "from hwd_drivers.core.clock import SystemClock; print(SystemClock().name)"
    command = ["unshare", "--time", "--boottime", "100", "--fork", sys.executable, "-c", say]
    name = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    own = SystemClock().name
    assert name.split()[0] == own.split()[0] == BOOT_ID.read_text().strip()
    assert _suspended_s(name) == _suspended_s(own) + 100


def _suspended_s(name: str) -> int:
    return int(name.split()[2]) if " suspended " in name else 0
