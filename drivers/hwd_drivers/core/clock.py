"""Clock: the only access to a host's time; kernel stamps are converted to the same base."""

import time
from collections import deque
from pathlib import Path
from typing import Final, Protocol

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
"""A value that changes at each boot of the machine."""
_NS_IN_S = 1_000_000_000
_PPB_IN_PPM = 1_000
_PAIRS_READ = 3
"""Reads of both clocks for one conversion. The tightest is used: a preempted read would be off by a time slice."""
_PAIRS_KEPT: Final = 64
_PAIR_EVERY_NS: Final = 1_000_000
"""Least distance between older pairs: the stored pairs reach back at least 64 ms, and only the first is much older."""


class Clock(Protocol):
    """Time stamps of one host, for what is recorded or sent. Durations inside the code use `loop.time()`."""

    def monotonic_ns(self) -> int:
        """Nanoseconds of CLOCK_MONOTONIC_RAW: never stepped, never slewed, its zero is the boot of the host."""

    def wall_ns(self) -> int:
        """Nanoseconds since 1970 of CLOCK_REALTIME: for people; it can be stepped."""

    def kernel_bounds_ns(self, stamp_ns: int) -> tuple[int, int]:
        """The earliest and latest `monotonic_ns` that a kernel stamp (CLOCK_REALTIME) of a past event can mean.

        The bounds include the error of the conversion. Where the wall clock was set around the stamp they are far
        apart: at most from 0 to now.
        """

    def from_kernel_ns(self, stamp_ns: int) -> int:
        """The latest of `kernel_bounds_ns`: for the stamp of a receipt, which may be late but never early."""


class SystemClock:
    """The clocks of this machine."""

    def __init__(self) -> None:
        self._pairs = deque([self._tightest()], maxlen=_PAIRS_KEPT)

    @property
    def name(self) -> str:
        """Identity of the time base of `monotonic_ns`: only stamps with the same name can be compared.

        It changes at each boot of the machine, and after each suspend, during which that clock stops.
        """
        monotonic_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        suspended_s = round((time.clock_gettime_ns(time.CLOCK_BOOTTIME) - monotonic_ns) / _NS_IN_S)
        boot = BOOT_ID.read_text().strip()
        return f"{boot} suspended {suspended_s} s" if suspended_s else boot

    def monotonic_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)

    def wall_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_REALTIME)

    def kernel_bounds_ns(self, stamp_ns: int) -> tuple[int, int]:
        """Find the stamp between two reads of the wall clock; the two reads give the offset between the clocks there.

        Where the wall clock was set back, the stamp may lie between several pairs of reads. A clock that was slewed one
        way and set the other way in between can be off by the amount of the slew.
        """
        newest = later = self._tightest()
        earliest_ns, latest_ns = newest.after_ns, 0
        for older in reversed(self._pairs):
            from_ns = max(older.before_ns, stamp_ns + min(older.least_ns, later.least_ns))
            upto_ns = min(later.after_ns, stamp_ns + max(older.most_ns, later.most_ns))
            if from_ns <= upto_ns:
                earliest_ns, latest_ns = min(earliest_ns, from_ns), max(latest_ns, upto_ns)
            if stamp_ns > older.shown_ns:
                break
            later = older
        else:
            if stamp_ns + later.least_ns < later.before_ns:  # it may be older than all stored reads
                earliest_ns = 0
        if latest_ns == 0:  # not between two reads: all that is known is that it is past
            earliest_ns, latest_ns = 0, newest.after_ns
        if newest.after_ns - self._pairs[-1].after_ns >= _PAIR_EVERY_NS:
            newest.follow(self._pairs[-1])
            self._pairs.append(newest)
        return earliest_ns, latest_ns

    def from_kernel_ns(self, stamp_ns: int) -> int:
        return self.kernel_bounds_ns(stamp_ns)[1]

    def _tightest(self) -> "_Pair":
        return min((self._read_pair() for _ in range(_PAIRS_READ)), key=lambda pair: pair.after_ns - pair.before_ns)

    def _read_pair(self) -> "_Pair":
        before_ns = self.monotonic_ns()
        wall_ns = self.wall_ns()
        return _Pair(before_ns, wall_ns, self.monotonic_ns())


class _Pair:
    """One read of the wall clock between two reads of the monotonic clock.

    `shown_ns`: the highest value that the wall clock can have shown so far, as far as it was followed.
    """

    __slots__ = ("after_ns", "before_ns", "least_ns", "most_ns", "shown_ns")

    def __init__(self, before_ns: int, wall_ns: int, after_ns: int) -> None:
        self.before_ns = before_ns
        self.after_ns = after_ns
        self.least_ns = before_ns - wall_ns
        self.most_ns = after_ns - wall_ns
        self.shown_ns = after_ns - self.least_ns

    def follow(self, before: "_Pair") -> None:
        """Continue from the pair that was read just before this one."""
        self.shown_ns = max(before.shown_ns, self.after_ns - min(before.least_ns, self.least_ns))


class ShiftedClock:
    """The clock of a twin host: it has another zero and another rate than the clock of the machine.

    All stamps are converted alike, kernel stamps too. The rate of `monotonic_ns` counts from the inner `start_ns`, by
    default from the construction of this object. All arithmetic uses integers: drift is exact to a part in 10^9, and no
    rounding error builds up over days.
    """

    def __init__(self, inner: Clock, *, offset_s: float, drift_ppm: float, start_ns: int | None = None) -> None:
        drift_ppb = round(drift_ppm * _PPB_IN_PPM)
        if drift_ppb <= -_NS_IN_S:
            raise ValueError(
                f"drift_ppm: {drift_ppm} would stop the clock or run it backwards. Use more than -1000000."
            )
        self._inner = inner
        self._offset_ns = round(offset_s * _NS_IN_S)
        self._step_ns = 0
        self._rate_ppb = _NS_IN_S + drift_ppb
        self._monotonic_start_ns = inner.monotonic_ns() if start_ns is None else start_ns
        self._wall_start_ns = inner.wall_ns()

    def monotonic_ns(self) -> int:
        return self._shift(self._inner.monotonic_ns(), self._monotonic_start_ns)

    def wall_ns(self) -> int:
        return self._shift(self._inner.wall_ns(), self._wall_start_ns)

    def kernel_bounds_ns(self, stamp_ns: int) -> tuple[int, int]:
        """`stamp_ns` is a stamp of the machine's kernel, which does not know of the twin."""
        earliest_ns, latest_ns = self._inner.kernel_bounds_ns(stamp_ns)
        return (
            self._shift(earliest_ns, self._monotonic_start_ns),
            self._shift(latest_ns, self._monotonic_start_ns),
        )

    def from_kernel_ns(self, stamp_ns: int) -> int:
        return self.kernel_bounds_ns(stamp_ns)[1]

    def step_to(self, step_s: float) -> None:
        """Set the step: from now on the wall clock is off by `step_s`.

        A second call replaces the first; old stamps stay.
        """
        self._step_ns = round(step_s * _NS_IN_S)

    def to_inner_ns(self, monotonic_ns: int) -> int:
        """Return the first inner `monotonic_ns` at which this clock reads at least `monotonic_ns`; for benchmarks."""
        elapsed_ns = monotonic_ns - self._step_ns - self._offset_ns - self._monotonic_start_ns
        return self._monotonic_start_ns - (-elapsed_ns * _NS_IN_S // self._rate_ppb)

    def _shift(self, inner_ns: int, start_ns: int) -> int:
        return self._step_ns + self._offset_ns + start_ns + (inner_ns - start_ns) * self._rate_ppb // _NS_IN_S
