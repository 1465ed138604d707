"""The driver of Sercalo RSC modules."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from typing_extensions import override

from hwd_drivers.core.values import Crossconnect, Exchange, Identity
from hwd_drivers.devices.element_switch import NOT_REPORTED, ElementSwitch
from hwd_drivers.devices.ordered import OrderedConnection, Request
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.families.sercalo import protocol
from hwd_drivers.families.sercalo.options import SercaloOptions
from hwd_drivers.families.sercalo.protocol import Answer, Code, Command


class SercaloSwitch(ElementSwitch[Answer]):
    """One session with one module; open it with `SercaloSwitch.open`."""

    def __init__(self, context: OpenContext, connection: OrderedConnection[Answer]) -> None:
        super().__init__(context, connection)
        self._channels = len(context.capabilities.elements[0].states)

    @classmethod
    async def open(cls, context: OpenContext) -> "SercaloSwitch":
        """Connect and read the module's information."""
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
        answered = await self._connection.request(self._request(Code.INFO), deadline_s=deadline_s)
        self._check("information", answered.messages[0])
        info = protocol.read_info(answered.messages[0].data)
        return Identity(
            vendor=info.vendor or "Sercalo",
            model=info.type or NOT_REPORTED,
            serial=info.serial or NOT_REPORTED,
            firmware=info.firmware,
        )

    @override
    async def _read_states(self, deadline_s: float) -> Sequence[int]:
        answered = await self._connection.request(self._request(Code.WHERE), deadline_s=deadline_s)
        return (self._state(answered.messages[0]),)

    @override
    async def _move(
        self, targets: Mapping[int, int], deadline_s: float, on_commanded: Callable[[int], None] | None
    ) -> Exchange:
        """Move, with a query in the same write, whose answer shows what another client did."""
        channel = targets[0] + 1
        requests = (self._request(Code.WHERE), self._request(Code.SELECT, bytes([channel])))
        answered = await self._connection.request(*requests, deadline_s=deadline_s, on_sent=on_commanded)
        where, done = answered.messages
        self._check(f"select channel {channel}", done)
        return Exchange(
            commanded_ns=answered.sent_ns, acknowledged_ns=answered.received_ns, commands=1, before=self._before(where)
        )

    def _before(self, where: Answer) -> tuple[Crossconnect, ...]:
        return self._elements.crossconnects((self._state(where),))

    def _state(self, where: Answer) -> int:
        self._check("where", where)
        return where.data[0] - 1

    @override
    def _check(self, what: str, message: Answer) -> None:
        if message.error:
            raise self._refusal(what, str(message.error), protocol.ERRORS.get(message.error, ""))

    def _request(self, code: Code, data: bytes = b"") -> Request[Answer]:
        return Request(
            data=protocol.encode_command(Command(code=code, data=data)),
            what=code.name.lower(),
            fits=lambda answer: self._fits(code, answer),
        )

    def _fits(self, code: Code, answer: Answer) -> bool:
        """An answer names its command; one to bytes that were garbled may name another, with its error."""
        if answer.error:
            return True
        match code:
            case Code.INFO:
                return answer.code == code and protocol.is_info(answer.data)
            case Code.WHERE:
                return answer.code == code and len(answer.data) == 1 and 1 <= answer.data[0] <= self._channels
            case _:
                return answer.code == code
