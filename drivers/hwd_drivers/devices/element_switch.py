"""ElementSwitch: base of the drivers of low-radix switches: one connection without tags, elements, read-back."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic

from hwd_drivers.core.errors import BugError, DeadlineError, DeviceError
from hwd_drivers.core.values import Capabilities, Crossconnect, CrossconnectReading, Exchange
from hwd_drivers.devices.elements import Elements
from hwd_drivers.devices.ordered import OrderedConnection, Request
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.transports.link import MessageT

NOT_REPORTED: Final = "not reported"
"""Identity fields that the device does not report."""


class ElementSwitch(ABC, Generic[MessageT]):
    """One session with one device.

    A subclass reads the states of its elements, moves them and knows the capabilities.
    """

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
        """Bring elements, by index, to these states; returns when the device confirms it, if it can."""

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
        """Raises RefusedError where `add` leaves an element in none of its states; nothing is sent then."""
        targets = self._elements.targets(self.name, remove=remove, add=add)
        if not targets:
            raise BugError(f"{self.name}: asked to change no crossconnect")
        return await self._move(targets, deadline_s, on_commanded)

    async def lost(self) -> Exception:
        return await self._connection.lost()

    async def close(self) -> None:
        await self._connection.close()

    async def _set_and_read_back(
        self,
        move: Request[MessageT],
        query: Request[MessageT],
        state: Callable[[MessageT], int],
        wanted: int,
        *,
        every_s: float,
        deadline_s: float,
        on_commanded: Callable[[int], None] | None,
    ) -> Exchange:
        """Set one element with a command that has no answer, between two queries in the same write.

        The queries show the state before and any refusal. Then the state is polled until the device is in the wanted
        one. Raises DeadlineError where it is not in time, DeviceError for a refusal.
        """
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        answered = await self._connection.request(query, move, query, deadline_s=deadline_s, on_sent=on_commanded)
        sent_ns, before = answered.sent_ns, answered.messages[0]
        self._check(query.what, before)
        for message in answered.messages[1:]:
            self._check(move.what, message)
        while state(answered.messages[-1]) != wanted:
            if loop.time() + every_s >= deadline_s:
                raise DeadlineError(
                    f"{self.name}: {move.what}: after {loop.time() - started_s:.3g} s the device reports another state."
                    " Does it move?"
                )
            await asyncio.sleep(every_s)
            answered = await self._connection.request(query, deadline_s=deadline_s)
            self._check(query.what, answered.messages[-1])
        return Exchange(
            commanded_ns=sent_ns,
            acknowledged_ns=answered.received_ns,
            commands=1,
            before=self._elements.crossconnects((state(before),)),
        )

    def _check(self, what: str, message: MessageT) -> None:
        """Raise DeviceError where a message is a refusal, in protocols that have one."""

    def _refusal(self, what: str, code: str, text: str) -> DeviceError:
        """The device's refusal in its own words."""
        said = f"{code} ({text})" if text else code
        return DeviceError(
            f"{self.name}: {what}: the device answered {said}. Read its state to see what was done",
            device=self.name,
            command=what,
            code=code,
            text=text,
        )
