"""Clock: the one door to the time of a host, with stamps of its kernel on the same base, wherever the wall clock was set meanwhile."""

import time
from collections import deque
from pathlib import Path
from typing import Final, Protocol

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
"""Another one at each start of the machine."""
_NS_IN_S = 1_000_000_000
_PPB_IN_PPM = 1_000
_PAIRS_READ = 3
"""Reads of both clocks for one conversion; the tightest is taken, since a preempted one would be off by a time slice."""
_PAIRS_KEPT: Final = 64
_PAIR_EVERY_NS: Final = 1_000_000
"""Older pairs are kept this far apart: what is kept reaches back 64 ms at least, and no pair but the first is much older than needed."""


class Clock(Protocol):
    """Stamps of one host. Durations of code are `loop.time()`; this is for what is recorded or sent."""

    def monotonic_ns(self) -> int:
        """Nanoseconds of CLOCK_MONOTONIC_RAW: never stepped, never slewed, its zero is the boot of the host."""

    def wall_ns(self) -> int:
        """Nanoseconds since 1970 of CLOCK_REALTIME: for people, can be stepped."""

    def kernel_bounds_ns(self, stamp_ns: int) -> tuple[int, int]:
        """The earliest and the latest time by `monotonic_ns` that a kernel stamp (CLOCK_REALTIME) of something past can mean.

        The error of the conversion is in them. Where the wall clock was set around the stamp they are far apart, 0 and now at most.
        """

    def from_kernel_ns(self, stamp_ns: int) -> int:
        """The latest of `kernel_bounds_ns`: for the stamp of a receipt, which may be said to be late and never early."""


def thread_ns() -> int:
    """How long the calling thread was on a processor, to now: CLOCK_THREAD_CPUTIME_ID."""
    return time.thread_time_ns()


class SystemClock:
    """The clocks of this machine."""

    def __init__(self) -> None:
        self._pairs = deque([self._tightest()], maxlen=_PAIRS_KEPT)

    @property
    def name(self) -> str:
        """What `monotonic_ns` counts: stamps of one name are apart as the time was between them.

        Another one after each start of the machine, and after it was suspended, when that clock stands still.
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
        """Both clocks are read now, and were before: the stamp lies between two such reads, and how far the clocks are apart at it between what they say.

        Where the wall clock was set back it may lie between several. A clock that was slewed one way and set the other way in between can be off by what
        it was slewed.
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
            if stamp_ns + later.least_ns < later.before_ns:  # it may be older than all that was read
                earliest_ns = 0
        if latest_ns == 0:  # between no two reads: nothing is known but that it is past
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
    """The wall clock, read between two reads of the monotonic one. `shown_ns`: the most that it can have shown up to then, as far as it was followed."""

    __slots__ = ("after_ns", "before_ns", "least_ns", "most_ns", "shown_ns")

    def __init__(self, before_ns: int, wall_ns: int, after_ns: int) -> None:
        self.before_ns = before_ns
        self.after_ns = after_ns
        self.least_ns = before_ns - wall_ns
        self.most_ns = after_ns - wall_ns
        self.shown_ns = after_ns - self.least_ns

    def follow(self, before: "_Pair") -> None:
        """It was read next after that one."""
        self.shown_ns = max(before.shown_ns, self.after_ns - min(before.least_ns, self.least_ns))


class ShiftedClock:
    """The clock of a twin host: another zero and another rate than the machine that it runs on.

    All stamps are moved alike, kernel stamps too. The rate of `monotonic_ns` counts from the inner `start_ns`, by default from the making of this
    object, and all arithmetic is in integers: drift is exact to a part in 10^9, and nothing is rounded away after days.
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
        """`stamp_ns` is the machine's own: its kernel knows nothing of the twin."""
        earliest_ns, latest_ns = self._inner.kernel_bounds_ns(stamp_ns)
        return (
            self._shift(earliest_ns, self._monotonic_start_ns),
            self._shift(latest_ns, self._monotonic_start_ns),
        )

    def from_kernel_ns(self, stamp_ns: int) -> int:
        return self.kernel_bounds_ns(stamp_ns)[1]

    def step_to(self, step_s: float) -> None:
        """From now on it is off by so much more than without any step: a second call takes the place of the first. Stamps taken before stay as they were."""
        self._step_ns = round(step_s * _NS_IN_S)

    def to_inner_ns(self, monotonic_ns: int) -> int:
        """Return the first inner `monotonic_ns` at which this clock shows at least `monotonic_ns`: the truth, for benches."""
        elapsed_ns = monotonic_ns - self._step_ns - self._offset_ns - self._monotonic_start_ns
        return self._monotonic_start_ns - (-elapsed_ns * _NS_IN_S // self._rate_ppb)

    def _shift(self, inner_ns: int, start_ns: int) -> int:
        return self._step_ns + self._offset_ns + start_ns + (inner_ns - start_ns) * self._rate_ppb // _NS_IN_S
