"""TimedSelector: the selector of an event loop that knows how long what the loop handles now may have waited for it."""

import os
import selectors
from typing import Final

from typing_extensions import override

from hwd_drivers.core.clock import Clock

SCHEDSTAT: Final = "/proc/thread-self/schedstat"
"""Its second number is how long this thread has waited for a processor so far, in ns
(Documentation/scheduler/sched-stats.rst in the kernel's tree).
"""
MARK_EVERY_NS: Final = 10_000_000
"""What the thread did since the mark before the last one counts. A shorter time would do for what waits in a socket;
but whatever kept this thread busy or waiting lately has kept the kernel's own workers waiting, too.
"""
UNKNOWN_WAIT_NS: Final = 10_000_000
"""How long a thread that is woken may wait for a processor, where the kernel does not count it: three time slices of
others.
"""


class TimedSelector(selectors.EpollSelector):
    """A selector of the standard library that also takes the time. Make it in the thread that runs the loop.

        selector = TimedSelector(SystemClock())
        with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
            runner.run(main())

    Whatever the loop finds ready became ready after the previous look had returned. If that was while the thread slept
    in the present look, it ended the sleep at once. So it has waited at most as long as the thread has not slept in a
    look since then: the thread was at work, was blocked elsewhere (in a write to a slow disk, for instance), or waited
    for a processor. The wait for the interpreter's lock at the end of a look is not in it: other threads of an agent
    hold it for less than a millisecond.
    """

    def __init__(self, clock: Clock, *, path: str = SCHEDSTAT) -> None:
        super().__init__()
        self._clock = clock
        try:
            self._schedstat: int | None = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._schedstat = None
        self._began_ns = self._returned_ns = clock.monotonic_ns()  # of the present look
        self._waited_ns = self._read_waited()  # as it began
        self._slept_ns = 0  # in all looks before it
        self._marks = ((self._began_ns, 0), (self._began_ns, 0))  # times, and what was slept until then

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._slept_ns = self._slept_so_far()
        self._began_ns, self._waited_ns = self._clock.monotonic_ns(), self._read_waited()
        if self._began_ns - self._marks[1][0] >= MARK_EVERY_NS:
            self._marks = (self._marks[1], (self._began_ns, self._slept_ns))
        found = super().select(timeout)
        self._returned_ns = self._clock.monotonic_ns()
        return found

    def delay_ns(self) -> int:
        """How long ago, at most, what the loop handles in this turn became ready."""
        since_ns, slept_ns = self._marks[0]
        return self._clock.monotonic_ns() - since_ns - (self._slept_so_far() - slept_ns)

    @override
    def close(self) -> None:
        super().close()
        if self._schedstat is not None:
            os.close(self._schedstat)
            self._schedstat = None

    def _read_waited(self) -> int:
        return 0 if self._schedstat is None else int(os.pread(self._schedstat, 64, 0).split()[1])

    def _slept_so_far(self) -> int:
        waited_ns = UNKNOWN_WAIT_NS if self._schedstat is None else self._read_waited() - self._waited_ns
        return self._slept_ns + max(0, self._returned_ns - self._began_ns - waited_ns)
