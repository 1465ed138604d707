"""How late this thread may be with what its event loop reads: how long it was at work, or kept from a processor, instead of asleep."""

import asyncio
import os
from typing import Final

from hwd_agents.process.agent_loop import AgentLoop
from hwd_drivers.core.clock import Clock, thread_ns

SCHEDSTAT: Final = "/proc/thread-self/schedstat"
"""On a processor and waiting for one, in ns (Documentation/scheduler/sched-stats.rst in the kernel's tree).

The second is true to the moment. The first is as of the last tick of the kernel: 3 ms of work were not in it yet. `thread_ns` has them.
"""
MARK_EVERY_NS: Final = 5_000_000
"""Not oftener: a mark takes 0.15 ms on a machine whose caches others use, and the bound is at most what the thread worked between three of them."""


class Lateness:
    """Marks the time in the event loop that it was started in: an `AgentLoop` before it looks at its sockets, so that an idle one is not woken; another by a timer, and
    any where the kernel does not tell, since then time asleep counts too.

    What a loop reads came after it had last looked, or while the thread slept, which it would have ended. So a thing that is read now, and was not there
    to be read at the mark before the last, came at most as long ago as the thread has worked or waited since that mark. Where the kernel does not tell
    how long that was, all of the time counts. An `AgentLoop` tells when it looks: what its thread slept elsewhere, such as in a write to a disk that
    takes none, counts too. What other threads of this process keep it from, by the lock of the interpreter, is in it but for the moment in which it wakes, and not in
    another loop: they may work in Python for a fraction of a millisecond at a time only, as those that read modules do.
    """

    def __init__(self, clock: Clock, *, path: str = SCHEDSTAT) -> None:
        self._clock = clock
        self._path = path
        self._fd = -1
        self._timer: asyncio.TimerHandle | None = None
        self._loop: AgentLoop | None = None
        self.behind = False
        """More was there than has been read: no mark is set before that is read."""
        self._woken_ns = self._worked_ns = 0  # when it woke, and what the thread had worked as it had looked
        self._awake = True
        self._kept_ns = 0  # of the time between waking and looking, what the thread did not work
        now_ns = clock.monotonic_ns()
        self._marks = ((now_ns, 0), (now_ns, 0))

    def start(self) -> None:
        """Set marks from now on; `stop` ends it."""
        try:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            self._fd = -1
        self.behind = False
        loop = asyncio.get_running_loop()
        if isinstance(loop, AgentLoop) and self._fd >= 0:
            self._woken_ns, self._worked_ns = self._clock.monotonic_ns(), thread_ns()
            loop.before_look.append(self._look)
            loop.after_look.append(self._wake)
            self._loop = loop
        first = self._mark()
        self._marks = (first, first)
        if self._loop is None:
            self._tick()

    def stop(self) -> None:
        """Set no more marks. Safe to call any number of times."""
        if self._loop is not None:
            self._loop.before_look.remove(self._look)
            self._loop.after_look.remove(self._wake)
            self._loop = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def most_ns(self) -> int:
        """What is read now came at most so long ago."""
        if self._fd < 0:
            return self._clock.monotonic_ns() - self._marks[0][1]
        return self._busy_ns() - self._marks[0][1]

    def _mark(self) -> tuple[int, int]:
        """The time, and what the thread has worked and waited so far."""
        now_ns = self._clock.monotonic_ns()
        if self._fd < 0:
            return now_ns, now_ns
        return now_ns, self._busy_ns()

    def _busy_ns(self) -> int:
        _, waited, _ = os.pread(self._fd, 64, 0).split()
        if self._loop is None:
            return thread_ns() + int(waited)
        self._keep()
        return self._worked_ns + int(waited) + self._kept_ns

    def _keep(self) -> None:
        """Count what the thread did not work since it woke, or since this was called. Some of it may count as waiting for a processor as well."""
        now_ns, worked_ns = self._clock.monotonic_ns(), thread_ns()
        self._kept_ns += max(0, now_ns - self._woken_ns - (worked_ns - self._worked_ns))
        self._woken_ns, self._worked_ns = now_ns, worked_ns

    def woke(self, at_ns: int) -> None:
        """An `AgentLoop` is awake since `at_ns`: for who reads first, and has a stamp of it."""
        if not self._awake:
            self._woken_ns, self._awake = at_ns, True

    def _wake(self) -> None:
        self.woke(self._clock.monotonic_ns())

    def _look(self) -> None:
        self._keep()
        self._awake = False
        if self._woken_ns - self._marks[1][0] >= MARK_EVERY_NS:
            self._set()

    def _tick(self) -> None:
        self._set()
        self._timer = asyncio.get_running_loop().call_later(MARK_EVERY_NS / 1e9, self._tick)

    def _set(self) -> None:
        if not self.behind:
            self._marks = (self._marks[1], self._mark())
