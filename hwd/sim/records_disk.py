"""The disk under the records of a simulated world: it works, refuses, or does not answer."""

import asyncio
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from hwd_drivers.core.errors import FailedError
from hwd_drivers.core.offload import InlineOffload

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class RecordsDisk:
    """The `Offload` of the records: SQLite fails inside of what it runs, or that does not return.

    `delay_s`: called before the work and after it, for how long each takes.
    """

    def __init__(self) -> None:
        self.delay_s: Callable[[], float] = lambda: 0.0
        self._offload = InlineOffload()
        self._refusal: str | None = None
        self._answers = asyncio.Event()
        self._answers.set()

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        await self._answers.wait()
        await asyncio.sleep(self.delay_s())
        if self._refusal is not None:
            raise FailedError(f"records: {self._refusal}")
        result = await self._offload(fn, *args)
        await asyncio.sleep(self.delay_s())
        return result

    def refuse(self, text: str) -> None:
        """Refuse each call from here on, as with SQLite's words `disk I/O error`."""
        self._refusal = text

    def hang(self) -> None:
        """Hang each call from here on: nothing returns."""
        self._answers.clear()

    def mend(self) -> None:
        """Mend the disk: it works, and what hung goes on."""
        self._refusal = None
        self._answers.set()
