"""AgentLoop: an event loop that calls before and after each look at its sockets, so that whoever wants to know how it fares needs no timer that would wake it, and
at once as it is woken by some of them.
"""

import asyncio
import select
import selectors
from collections.abc import Callable

from typing_extensions import override


class AgentLoop(asyncio.SelectorEventLoop):
    """`before_look`: called each time, before it sleeps too, and `after_look` as it wakes, behind those that read first; what they take is taken from everything else.

    with asyncio.Runner(loop_factory=AgentLoop) as runner:
        runner.run(main())
    """

    def __init__(self) -> None:
        self.before_look: list[Callable[[], None]] = []
        self.after_look: list[Callable[[], None]] = []
        self._first = _Selector(self.before_look, self.after_look)
        super().__init__(self._first)

    def read_first(self, fd: int, call: Callable[[], None]) -> None:
        """Have `call` called as soon as there is something to read from `fd`, in front of all that the loop does as it wakes; it must not raise.

        It is for a stamp: the rest is to be left to the turn that follows, by `call_soon`.
        """
        self._first.add(fd, call)

    def read_first_no_more(self, fd: int) -> None:
        """Take back `read_first`."""
        self._first.remove(fd)


class _Selector(selectors.EpollSelector):
    def __init__(self, before_look: list[Callable[[], None]], after_look: list[Callable[[], None]]) -> None:
        super().__init__()
        self._before_look, self._after_look = before_look, after_look
        self._calls: dict[int, Callable[[], None]] = {}
        self._outer = select.epoll()  # of those that are first, and of the epoll that has all
        self._outer.register(self.fileno(), select.EPOLLIN)

    def add(self, fd: int, call: Callable[[], None]) -> None:
        self._outer.register(fd, select.EPOLLIN)
        self._calls[fd] = call

    def remove(self, fd: int) -> None:
        self._outer.unregister(fd)
        del self._calls[fd]

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        for before in self._before_look:
            before()
        if not self._calls:
            found = super().select(timeout)
            self._awake()
            return found
        for fd, _ in self._outer.poll(timeout):
            if (call := self._calls.get(fd)) is not None:
                call()
        self._awake()
        return super().select(0)

    def _awake(self) -> None:
        for after in self._after_look:
            after()

    @override
    def close(self) -> None:
        self._outer.close()
        super().close()
