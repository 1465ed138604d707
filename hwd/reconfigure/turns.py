"""Turns: the order in which switches are read, planned and driven."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager


class Turns:
    """A lock for each switch. Reconfigurations on different ports run at once; each switch is driven by one after
    the other.
    """

    def __init__(self) -> None:
        self._driving: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def drive(self, switches: Iterable[str]) -> AsyncGenerator[None]:
        """Hold these switches: no other plan or drive begins meanwhile. Ways back do not wait for it."""
        async with AsyncExitStack() as stack:
            for switch in sorted(switches):  # in one order, so that no two wait for each other
                await stack.enter_async_context(self._driving.setdefault(switch, asyncio.Lock()))
            yield
