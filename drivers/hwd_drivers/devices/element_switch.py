"""ElementDevice: base of the drivers of low-radix switches; ElementSwitch has one connection without tags."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, Self

from pydantic import Field
from typing_extensions import override

from hwd_drivers.core.errors import BugError, DeadlineError, DeviceError
from hwd_drivers.core.values import Capabilities, Crossconnect, CrossconnectReading, Exchange, Identity
from hwd_drivers.devices.elements import Elements, channels_of
from hwd_drivers.devices.ordered import OrderedConnection, Request
from hwd_drivers.devices.registry import OpenContext, Options
from hwd_drivers.devices.serial_part import SerialPart
from hwd_drivers.transports.link import MessageT


class PartOptions(Options):
    """Options of a part in a testbed."""

    open_within_s: float = Field(default=5.0, gt=0, description="limit for connecting and the first answer")


class RereadOptions(PartOptions):
    """Options of a part in a testbed that does not acknowledge a selection."""

    reread_after_s: float = Field(default=0.005, gt=0, description="time between readings after a change")


class ElementDevice(ABC):
    """One session with a device that is made of elements. A subclass reads its elements and moves them."""

    def __init__(self, context: OpenContext) -> None:
        self.name = context.name
        self._context = context
        self._elements = Elements(context.capabilities)
        self._channels = channels_of(context.capabilities)

    async def capabilities(self, *, deadline_s: float) -> Capabilities:
        return self._context.capabilities

    async def change_crossconnects(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None = None,
    ) -> Exchange:
        """Errors as of the device. Raises RefusedError where `add` leaves an element in none of its states, and nothing
        moves then.
        """
        targets = self._elements.targets(self.name, remove=remove, add=add)
        if not targets:
            raise BugError(f"{self.name}: asked to change no crossconnect")
        return await self._move(targets, deadline_s, on_commanded)

    @abstractmethod
    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]: ...

    @abstractmethod
    async def _move(
        self, targets: Mapping[int, int], deadline_s: float, on_commanded: Callable[[int], None] | None
    ) -> Exchange:
        """Bring elements, by index, to these states; returns when the device confirms it, if it can."""


class ElementSwitch(ElementDevice, Generic[MessageT]):
    """One session over a serial line; open it with `open`.

    A subclass names its table and its options in a testbed, and identifies the device.
    """

    part: ClassVar[SerialPart[Any, Any]]
    options: ClassVar[type[PartOptions]] = PartOptions

    def __init__(self, context: OpenContext, connection: OrderedConnection[MessageT]) -> None:
        super().__init__(context)
        self._connection = connection

    @classmethod
    async def open(cls, context: OpenContext) -> Self:
        """Connect, and ask something whose answer looks like no late answer to an earlier session."""
        deadline_s = asyncio.get_running_loop().time() + context.options_as(cls.options).open_within_s
        connection: OrderedConnection[MessageT] = await OrderedConnection.open(
            context.dialer,
            context.address,
            name=context.name,
            decode=cls.part.answers(),
            clock=context.clock,
            deadline_s=deadline_s,
            serial=cls.part.line,
            refuses=None if cls.part.denial is None else cls.part.refuses,
        )
        try:
            switch = cls(context, connection)
            await switch._begin(deadline_s)
        except BaseException:
            await connection.close()
            raise
        return switch

    async def _begin(self, deadline_s: float) -> None:
        await self.identify(deadline_s=deadline_s)

    @abstractmethod
    async def identify(self, *, deadline_s: float) -> Identity: ...

    async def lost(self) -> Exception:
        return await self._connection.lost()

    async def close(self) -> None:
        await self._connection.close()

    async def _ask(self, *requests: Request[MessageT], deadline_s: float) -> tuple[MessageT, ...]:
        """The answers to requests that go out in one write. Raises DeviceError for a refusal."""
        messages = (await self._connection.request(*requests, deadline_s=deadline_s)).messages
        for request, message in zip(requests, messages, strict=True):
            self._check(request, message)
        return messages

    def _check(self, request: Request[MessageT], message: MessageT) -> None:
        """Raises DeviceError where a message is a refusal."""
        if self.part.refuses(message):
            raise self._refusal(request.what, *self.part.refusal(message))

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


class OneElementSwitch(ElementSwitch[MessageT]):
    """One session with a device of one element. A subclass has its requests: a query, and one for each state."""

    def __init__(self, context: OpenContext, connection: OrderedConnection[MessageT]) -> None:
        super().__init__(context, connection)
        self._query = self._where()
        self._selections = [*map(self._select, range(len(context.capabilities.elements[0].states)))]

    @abstractmethod
    def _where(self) -> Request[MessageT]:
        """The query of the present state, which an answer fits that has one."""

    @abstractmethod
    def _state(self, answer: MessageT) -> int:
        """The number of the state in an answer that fits."""

    @abstractmethod
    def _select(self, state: int) -> Request[MessageT]:
        """The request for a state; it has no answer where the device does not acknowledge it."""

    @override
    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        (answer,) = await self._ask(self._query, deadline_s=deadline_s)
        return self._elements.readings((self._state(answer),))

    @override
    async def _move(
        self, targets: Mapping[int, int], deadline_s: float, on_commanded: Callable[[int], None] | None
    ) -> Exchange:
        """Select a state; returns when the device confirms it.

        A query in the same write shows the state before, and so what another client did. Where nothing acknowledges
        the selection, a second one follows, and the state is polled until the device is in the wanted one. Raises
        DeadlineError where it is not in time, DeviceError for a refusal.
        """
        where, select, loop = self._query, self._selections[targets[0]], asyncio.get_running_loop()
        rereads = (where,) if select.answers == 0 else ()
        started_s = loop.time()
        answered = await self._connection.request(where, select, *rereads, deadline_s=deadline_s, on_sent=on_commanded)
        sent_ns, before = answered.sent_ns, answered.messages[0]
        for message in answered.messages[1:]:
            self._check(select, message)
        self._check(where, before)
        while rereads and self._state(answered.messages[-1]) != targets[0]:
            every_s = self._context.options_as(RereadOptions).reread_after_s
            if loop.time() + every_s >= deadline_s:
                raise DeadlineError(
                    f"{self.name}: {select.what}: after {loop.time() - started_s:.3g} s the device reports another"
                    " state. Does it move?"
                )
            await asyncio.sleep(every_s)
            answered = await self._connection.request(where, deadline_s=deadline_s)
            self._check(where, answered.messages[-1])
        return Exchange(
            commanded_ns=sent_ns,
            acknowledged_ns=answered.received_ns,
            commands=1,
            before=self._elements.crossconnects((self._state(before),)),
        )
