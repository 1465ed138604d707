"""AgentLoop: an event loop that calls before each look at its sockets, so that whoever wants to know how it fares needs no timer that would wake it."""

import asyncio
import selectors
from collections.abc import Callable

from typing_extensions import override


class AgentLoop(asyncio.SelectorEventLoop):
    """`before_look`: called each time, before it sleeps too; what they take is taken from everything else.

    with asyncio.Runner(loop_factory=AgentLoop) as runner:
        runner.run(main())
    """

    def __init__(self) -> None:
        self.before_look: list[Callable[[], None]] = []
        super().__init__(_Selector(self.before_look))


class _Selector(selectors.EpollSelector):
    def __init__(self, before_look: list[Callable[[], None]]) -> None:
        super().__init__()
        self._before_look = before_look

    @override
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        for call in self._before_look:
            call()
        return super().select(timeout)
