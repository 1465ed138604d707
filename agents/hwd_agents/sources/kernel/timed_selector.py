"""TimedSelector: an event loop's selector that measures how long the current events may have waited for the loop."""

import os
import selectors
from typing import Final

from typing_extensions import override

from hwd_drivers.core.clock import Clock

from .processor_pressure import ProcessorPressure

SCHEDSTAT: Final = "/proc/thread-self/schedstat"
"""The second number in it is how long this thread has waited for a processor so far, in ns
(Documentation/scheduler/sched-stats.rst in the kernel's tree).
"""
MARK_EVERY_NS: Final = 10_000_000
"""Only the time since the mark before the last one counts. A shorter time would be enough for events that wait in a
socket; but a load that kept this thread busy or waiting has also kept the kernel's own workers waiting.
"""
UNKNOWN_WAIT_NS: Final = 10_000_000
"""How long a woken thread may wait for a processor, if the kernel does not count it: three time slices of others."""
PRESSED_EVERY_NS: Final = 15_000_000
"""Between two marks of the processors' pressure; the one before the last one counts."""
PRESSED_ROUNDS: Final = 1
"""A worker of the kernel waits so many rounds of the tasks that are ready, but in rare cases: for its own turn, or for
that of who holds the lock that it needs. With some ten tasks on two processors 2 of 6,500 changes were later.
"""
PRESSED_MOST_NS: Final = 60_000_000
"""What is allowed for where nothing counts these."""


class TimedSelector(selectors.EpollSelector):
    """A selector of the standard library that also measures time. Make it in the thread that runs the loop.

        selector = TimedSelector(SystemClock())
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
            runner.run(main())

    An event that the loop handles now became ready after the previous `select` returned. If that was while the thread
    slept in the present `select`, it ended the sleep at once. So the event has waited at most as long as the thread has
    not slept in a `select` since then: the thread was working, was blocked elsewhere (such as in a write to a slow
    disk), or waited for a processor. The wait for the interpreter's lock at the end of a `select` is not counted: other
    threads of an agent hold it for less than a millisecond.

    What made it ready may be the work of a thread of the kernel, which has waited for a processor before: `pressed_ns`.
    """

    def __init__(self, clock: Clock, *, path: str = SCHEDSTAT, pressure: ProcessorPressure | None = None) -> None:
        super().__init__()
        self._clock = clock
        self._pressure = ProcessorPressure() if pressure is None else pressure
        try:
            self._schedstat: int | None = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._schedstat = None
        self._began_ns = self._returned_ns = clock.monotonic_ns()  # start of the present select
        self._waited_ns = self._read_waited()  # at that start
        self._slept_ns = 0  # in all earlier selects
        self._marks = ((self._began_ns, 0), (self._began_ns, 0))  # times, and the sum of sleep until then
        pressed = self._began_ns, self._pressure.waited_ns()
        self._pressed = (pressed, pressed)  # times, and the sum of waits for a processor until then

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        waited_ns = self._read_waited()  # once for both: each loop of the agent pays for it
        self._slept_ns = self._slept_until(waited_ns)
        self._began_ns, self._waited_ns = self._clock.monotonic_ns(), waited_ns
        if self._began_ns - self._marks[1][0] >= MARK_EVERY_NS:
            self._marks = (self._marks[1], (self._began_ns, self._slept_ns))
            if self._began_ns - self._pressed[1][0] >= PRESSED_EVERY_NS:
                self._pressed = (self._pressed[1], (self._began_ns, self._pressure.waited_ns()))
        found = super().select(timeout)
        self._returned_ns = self._clock.monotonic_ns()
        return found

    def delay_ns(self) -> int:
        """How long ago, at most, the events of this turn of the loop became ready."""
        since_ns, slept_ns = self._marks[0]
        return self._clock.monotonic_ns() - since_ns - (self._slept_until(self._read_waited()) - slept_ns)

    def pressed_ns(self) -> int:
        """How long, at most, a thread of the kernel that made an event of this turn ready has waited for a processor:
        as long as some task did since the mark before the last one, and some rounds of those that are ready now.
        """
        since_ns, before_ns = self._pressed[0]
        now_ns, round_ns = self._pressure.waited_ns(), self._pressure.round_ns()
        most_ns = PRESSED_MOST_NS if round_ns is None else PRESSED_ROUNDS * round_ns
        if before_ns is None or now_ns is None:
            return most_ns
        return min(now_ns - before_ns, self._clock.monotonic_ns() - since_ns, most_ns)

    @override
    def close(self) -> None:
        super().close()
        self._pressure.close()
        if self._schedstat is not None:
            os.close(self._schedstat)
            self._schedstat = None

    def _read_waited(self) -> int:
        return 0 if self._schedstat is None else int(os.pread(self._schedstat, 64, 0).split()[1])

    def _slept_until(self, waited_ns: int) -> int:
        """The sleep so far. `waited_ns`: for a processor, until now."""
        since_ns = UNKNOWN_WAIT_NS if self._schedstat is None else waited_ns - self._waited_ns
        return self._slept_ns + max(0, self._returned_ns - self._began_ns - since_ns)
