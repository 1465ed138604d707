"""ElementSwitch: what the drivers of low-radix switches share: one connection without tags, elements in states, reading back."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Generic

from hwd_drivers.kit.elements import Elements
from hwd_drivers.kit.errors import BugError, DeadlineError, DeviceError
from hwd_drivers.kit.link import MessageT
from hwd_drivers.kit.ordered import OrderedConnection
from hwd_drivers.kit.registry import OpenContext
from hwd_drivers.kit.values import Capabilities, Crossconnect, CrossconnectReading, Exchange

NOT_TOLD: Final = "not told"
"""For what an identity has and a device does not say."""


class ElementSwitch(ABC, Generic[MessageT]):
    """One session with one device. A subclass reads the states of its elements, moves them and says what the device is."""

    def __init__(self, context: OpenContext, connection: OrderedConnection[MessageT]) -> None:
        self.name = context.name
        self._context = context
        self._connection = connection
        self._elements = Elements(context.capabilities)

    @abstractmethod
    async def _read_states(self, deadline_s: float) -> Sequence[int]:
        """The number of the state that each element is in."""

    @abstractmethod
    async def _move(
        self, targets: Mapping[int, int], deadline_s: float, on_commanded: Callable[[int], None] | None
    ) -> Exchange:
        """Bring elements, by place, to these states; done when the device says that they are there, if it can."""

    async def capabilities(self, *, deadline_s: float) -> Capabilities:
        return self._context.capabilities

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        return self._elements.readings(await self._read_states(deadline_s))

    async def change_crossconnects(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None = None,
    ) -> Exchange:
        """Raises RefusedError where `add` leaves an element in none of its states; then nothing was sent."""
        targets = self._elements.targets(self.name, remove=remove, add=add)
        if not targets:
            raise BugError(f"{self.name}: asked to change no crossconnect")
        return await self._move(targets, deadline_s, on_commanded)

    async def lost(self) -> Exception:
        return await self._connection.lost()

    async def close(self) -> None:
        await self._connection.close()

    async def _until(
        self, what: str, there: Callable[[], Awaitable[int | None]], *, every_s: float, deadline_s: float
    ) -> int:
        """Ask again and again until `there` says when the device was there; raises DeadlineError when it is not in time."""
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        while (at_ns := await there()) is None:
            if loop.time() + every_s >= deadline_s:
                raise DeadlineError(
                    f"{self.name}: {what}: the device still says that it is elsewhere after {loop.time() - started_s:.3g} s. "
                    "Does it move? Read its state"
                )
            await asyncio.sleep(every_s)
        return at_ns

    def _no(self, what: str, code: str, text: str) -> DeviceError:
        """The device's no in its own words."""
        said = f"{code} ({text})" if text else code
        return DeviceError(
            f"{self.name}: {what}: the device answered {said}. Read its state to see what was done",
            device=self.name,
            command=what,
            code=code,
            text=text,
        )
