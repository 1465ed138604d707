"""drive: sends switches their moves, all at once, after the intent is on the disk. The answers are no proof: see
`read_back`.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar

from hwd_drivers.core.errors import HwdError
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, Exchange
from hwd_drivers.switching.moves import SwitchMoves

COMMAND_WITHIN_S: Final = 10.0
"""For a switch to answer a command: the slowest known matrix needs 0.5 s for a bulk set; its client allows 10 s."""

ChangeT = TypeVar("ChangeT")


class SwitchDriver(Protocol):
    """A supervised switch; every call raises LinkError while it cannot be reached."""

    async def read(self) -> tuple[CrossconnectReading, ...]: ...

    async def change(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None,
    ) -> Exchange: ...


async def drive(
    changes: Sequence[ChangeT], command: Callable[[ChangeT], Awaitable[None]], *, begin: Callable[[], None]
) -> list[HwdError]:
    """Command all switches at once; returns the errors when all have ended.

    `begin` puts the intent on the disk. It is called first, and where it raises, nothing is sent.
    """
    begin()
    return await at_once(changes, command)


async def at_once(changes: Sequence[ChangeT], work: Callable[[ChangeT], Awaitable[None]]) -> list[HwdError]:
    """Do `work` for all switches at once; returns the errors when all have ended. Bugs are raised then."""
    if len(changes) == 1:  # most racks have one switch, and it needs no task of its own
        try:
            await work(changes[0])
        except HwdError as only:
            return [only]
        return []
    results = await asyncio.gather(*map(work, changes), return_exceptions=True)
    errors = []
    for result in results:
        if isinstance(result, HwdError):
            errors.append(result)
        elif isinstance(result, BaseException):
            raise result
    return errors


async def change(
    driver: SwitchDriver,
    moves: SwitchMoves,
    on_commanded: Callable[[int], None] | None = None,
    *,
    until_s: float = math.inf,
) -> Exchange:
    """Send one switch its moves, with `COMMAND_WITHIN_S` for its answer, and none after `until_s` of the loop's clock.

    `on_commanded` gets the time just before the first byte.
    """
    deadline_s = min(until_s, asyncio.get_running_loop().time() + COMMAND_WITHIN_S)
    return await driver.change(remove=moves.remove, add=moves.add, deadline_s=deadline_s, on_commanded=on_commanded)
