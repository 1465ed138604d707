"""Clock: the one door to the time of a host, with kernel receive stamps on the same base."""

import time
from typing import Protocol

_NS_IN_S = 1_000_000_000
_PPB_IN_PPM = 1_000
_PAIRS_READ = 3
"""Reads of both clocks for one conversion; the tightest is taken, since a preempted one would be off by a time slice."""


class Clock(Protocol):
    """Stamps of one host. Durations of code are `loop.time()`; this is for what is recorded or sent."""

    def monotonic_ns(self) -> int:
        """Nanoseconds of CLOCK_MONOTONIC_RAW: never stepped, never slewed, its zero is the boot of the host."""

    def wall_ns(self) -> int:
        """Nanoseconds since 1970 of CLOCK_REALTIME: for people, can be stepped."""

    def from_kernel_ns(self, stamp_ns: int) -> int:
        """Turn a kernel receive stamp (SO_TIMESTAMPNS, CLOCK_REALTIME) into the base of `monotonic_ns`."""


class SystemClock:
    """The clocks of this machine."""

    def monotonic_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)

    def wall_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_REALTIME)

    def from_kernel_ns(self, stamp_ns: int) -> int:
        """Exact to half the width of one pair of reads, if the wall clock was not stepped since the stamp."""
        _, monotonic_minus_wall_ns = min(self._read_pair() for _ in range(_PAIRS_READ))
        return stamp_ns + monotonic_minus_wall_ns

    def _read_pair(self) -> tuple[int, int]:
        before_ns = self.monotonic_ns()
        wall_ns = self.wall_ns()
        after_ns = self.monotonic_ns()
        return after_ns - before_ns, (before_ns + after_ns) // 2 - wall_ns


class ShiftedClock:
    """The clock of a twin host: another zero and another rate than the machine that it runs on.

    All stamps are moved alike, kernel stamps too. The rate counts from the making of this object, and all arithmetic
    is in integers: drift is exact to a part in 10^9, and nothing is rounded away after days.
    """

    def __init__(self, inner: Clock, *, offset_s: float, drift_ppm: float) -> None:
        drift_ppb = round(drift_ppm * _PPB_IN_PPM)
        if drift_ppb <= -_NS_IN_S:
            raise ValueError(
                f"drift_ppm: {drift_ppm} would stop the clock or run it backwards. Use more than -1000000."
            )
        self._inner = inner
        self._offset_ns = round(offset_s * _NS_IN_S)
        self._step_ns = 0
        self._rate_ppb = _NS_IN_S + drift_ppb
        self._monotonic_start_ns = inner.monotonic_ns()
        self._wall_start_ns = inner.wall_ns()

    def monotonic_ns(self) -> int:
        return self._shift(self._inner.monotonic_ns(), self._monotonic_start_ns)

    def wall_ns(self) -> int:
        return self._shift(self._inner.wall_ns(), self._wall_start_ns)

    def from_kernel_ns(self, stamp_ns: int) -> int:
        """`stamp_ns` is the machine's own: its kernel knows nothing of the twin."""
        return self._shift(self._inner.from_kernel_ns(stamp_ns), self._monotonic_start_ns)

    def step_to(self, step_s: float) -> None:
        """From now on it is off by so much more than without any step: a second call takes the place of the first. Stamps taken before stay as they were."""
        self._step_ns = round(step_s * _NS_IN_S)

    def to_inner_ns(self, monotonic_ns: int) -> int:
        """Return the first inner `monotonic_ns` at which this clock shows at least `monotonic_ns`: the truth, for benches."""
        elapsed_ns = monotonic_ns - self._step_ns - self._offset_ns - self._monotonic_start_ns
        return self._monotonic_start_ns - (-elapsed_ns * _NS_IN_S // self._rate_ppb)

    def _shift(self, inner_ns: int, start_ns: int) -> int:
        return self._step_ns + self._offset_ns + start_ns + (inner_ns - start_ns) * self._rate_ppb // _NS_IN_S
