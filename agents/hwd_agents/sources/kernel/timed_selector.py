"""TimedSelector: the selector of an event loop that knows how long what the loop handles now may have waited for it."""

import os
import selectors
from collections import deque
from typing import Final

from typing_extensions import override

from hwd_drivers.core.clock import Clock

SCHEDSTAT: Final = "/proc/thread-self/schedstat"
"""Its second number is how long this thread has waited for a processor so far, in ns
(Documentation/scheduler/sched-stats.rst in the kernel's tree).
"""
RECENT_LOOKS: Final = 8
"""Waits for a processor in so many looks tell how busy the host is now: 0.2 ms in all on a quiet one."""
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
    look since the previous one returned: the thread was at work, was blocked elsewhere (in a write to a slow disk, for
    instance), or waited for a processor. The wait for the interpreter's lock at the end of a look is not in it: other
    threads of an agent hold it for less than a millisecond.
    """

    def __init__(self, clock: Clock, *, path: str = SCHEDSTAT) -> None:
        super().__init__()
        self._clock = clock
        try:
            self._schedstat: int | None = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._schedstat = None
        self._before_ns = self._began_ns = self._returned_ns = self._clock.monotonic_ns()
        self._waited_ns = deque([self._read_waited()], maxlen=RECENT_LOOKS)

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self._waited_ns.append(self._read_waited())
        self._before_ns, self._began_ns = self._returned_ns, self._clock.monotonic_ns()
        found = super().select(timeout)
        self._returned_ns = self._clock.monotonic_ns()
        return found

    def delay_ns(self) -> int:
        """How long ago, at most, what the loop handles in this turn became ready."""
        waited_ns = self._read_waited() - self._waited_ns[-1] if self._schedstat is not None else UNKNOWN_WAIT_NS
        asleep_ns = max(0, self._returned_ns - self._began_ns - waited_ns)
        return self._clock.monotonic_ns() - self._before_ns - asleep_ns

    def recent_wait_ns(self) -> int:
        """How long this thread has waited for a processor in its recent looks and the turns after them."""
        return self._read_waited() - self._waited_ns[0] if self._schedstat is not None else UNKNOWN_WAIT_NS

    @override
    def close(self) -> None:
        super().close()
        if self._schedstat is not None:
            os.close(self._schedstat)
            self._schedstat = None

    def _read_waited(self) -> int:
        return 0 if self._schedstat is None else int(os.pread(self._schedstat, 64, 0).split()[1])
