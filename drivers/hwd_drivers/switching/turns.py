"""SwitchTurns: the order at each switch: one change at a time, the others wait."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager

from hwd_drivers.core.errors import RefusedError


class SwitchTurns:
    """One lock for each switch.

        async with turns.take(["ocs1", "ocs2"]):
            ...  # no other holder of a turn drives one of them

    `what`: what has the turn of a switch, for the refusal: `selection`.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._locks: dict[str, asyncio.Lock] = {}

    @asynccontextmanager
    async def take(self, switches: Iterable[str], *, until_s: float | None = None) -> AsyncGenerator[None]:
        """Hold the turns of these switches; they come in the order of the requests.

        Raises RefusedError where they have not come at `until_s` of the loop's clock.
        """
        async with AsyncExitStack() as stack:
            for name in sorted(switches):  # in one order, so that no two wait for each other
                try:
                    async with asyncio.timeout_at(until_s):
                        await stack.enter_async_context(self._locks.setdefault(name, asyncio.Lock()))
                except TimeoutError:
                    raise RefusedError(
                        f"{name}: its turn did not come in time: another {self._what} has it. Nothing was set"
                    ) from None
            if until_s is not None and asyncio.get_running_loop().time() >= until_s:
                raise RefusedError("its turn came too late. Nothing was set")
            yield
