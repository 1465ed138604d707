"""The driver of Sercalo USB units."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from typing_extensions import override

from hwd_drivers.core.values import Exchange, Identity
from hwd_drivers.devices.element_switch import NOT_REPORTED, ElementSwitch
from hwd_drivers.devices.ordered import OrderedConnection, Request
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.families.sercalo.ascii import protocol
from hwd_drivers.families.sercalo.ascii.protocol import NACK, Answer, Query, Select
from hwd_drivers.families.sercalo.options import SercaloOptions


class SercaloAsciiSwitch(ElementSwitch[Answer]):
    """One session with one unit; open it with `SercaloAsciiSwitch.open`."""

    def __init__(self, context: OpenContext, connection: OrderedConnection[Answer]) -> None:
        super().__init__(context, connection)
        self._channels = len(context.capabilities.elements[0].states)
        self._where: Request[Answer] = Request(
            data=protocol.encode_command(Query.CHANNEL),
            what=Query.CHANNEL,
            fits=lambda answer: not answer.done or answer.channel in range(1, self._channels + 1),
        )
        self._identity: Request[Answer] = Request(
            data=protocol.encode_command(Query.IDENTITY),
            what=Query.IDENTITY,
            fits=lambda answer: not answer.done or bool(answer.lines),
        )

    @classmethod
    async def open(cls, context: OpenContext) -> "SercaloAsciiSwitch":
        """Connect and read what the unit is."""
        options = context.options_as(SercaloOptions)
        deadline_s = asyncio.get_running_loop().time() + options.open_within_s
        connection: OrderedConnection[Answer] = await OrderedConnection.open(
            context.dialer,
            context.address,
            name=context.name,
            decode=protocol.AnswerDecoder().feed,
            clock=context.clock,
            deadline_s=deadline_s,
            serial=protocol.LINE,
        )
        try:
            switch = cls(context, connection)
            await switch.identify(deadline_s=deadline_s)
        except BaseException:
            await connection.close()
            raise
        return switch

    async def identify(self, *, deadline_s: float) -> Identity:
        """All lines of `:iden?` are in the model: the meaning of each is not known."""
        answered = await self._connection.request(self._identity, deadline_s=deadline_s)
        self._check(Query.IDENTITY, answered.messages[0])
        model = "; ".join(answered.messages[0].lines)
        return Identity(vendor="Sercalo", model=model, serial=NOT_REPORTED, firmware=NOT_REPORTED)

    @override
    async def _read_states(self, deadline_s: float) -> Sequence[int]:
        answered = await self._connection.request(self._where, deadline_s=deadline_s)
        return (self._state(answered.messages[0]),)

    @override
    async def _move(
        self, targets: Mapping[int, int], deadline_s: float, on_commanded: Callable[[int], None] | None
    ) -> Exchange:
        """Move, with a query in the same write, whose answer shows what another client did."""
        select = Select(channel=targets[0] + 1)
        what = f":set-chan-{select.channel}"
        move: Request[Answer] = Request(
            data=protocol.encode_command(select), what=what, fits=lambda answer: not (answer.done and answer.lines)
        )
        answered = await self._connection.request(self._where, move, deadline_s=deadline_s, on_sent=on_commanded)
        where, done = answered.messages
        self._check(what, done)
        return Exchange(
            commanded_ns=answered.sent_ns,
            acknowledged_ns=answered.received_ns,
            commands=1,
            before=self._elements.crossconnects((self._state(where),)),
        )

    def _state(self, where: Answer) -> int:
        self._check(Query.CHANNEL, where)
        assert where.channel is not None  # `fits` ensures it
        return where.channel - 1

    @override
    def _check(self, what: str, message: Answer) -> None:
        if not message.done:
            raise self._refusal(what, NACK, "; ".join(message.lines))
