"""The driver of Thorlabs OSW12 and OSW22 switches, on a serial port or behind a TCP serial server."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import override

from hwd_drivers.core.values import Exchange, Identity
from hwd_drivers.devices.element_switch import NOT_REPORTED, ElementSwitch
from hwd_drivers.devices.ordered import OrderedConnection, Request
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.families.thorlabs import protocol
from hwd_drivers.families.thorlabs.protocol import Answer, Failure, Line, Move, Query


class ThorlabsOptions(BaseModel):
    """Options of an OSW12 or OSW22 in a testbed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    open_within_s: float = Field(default=5.0, gt=0, description="limit for connecting and the first answer")
    reread_after_s: float = Field(
        default=0.1,
        gt=0,
        description="time between readings after a change; the first may be the old state; 0.1 to 0.3 s suffice",
    )


class ThorlabsSwitch(ElementSwitch[Answer]):
    """One session with one switch; open it with `ThorlabsSwitch.open`."""

    def __init__(self, context: OpenContext, options: ThorlabsOptions, connection: OrderedConnection[Answer]) -> None:
        super().__init__(context, connection)
        self._options = options

    @classmethod
    async def open(cls, context: OpenContext) -> "ThorlabsSwitch":
        """Connect and check that the answer to `I?` is not a single digit, as a late answer would be."""
        options = context.options_as(ThorlabsOptions)
        deadline_s = asyncio.get_running_loop().time() + options.open_within_s
        connection: OrderedConnection[Answer] = await OrderedConnection.open(
            context.dialer,
            context.address,
            name=context.name,
            decode=protocol.AnswerDecoder().feed,
            clock=context.clock,
            deadline_s=deadline_s,
            serial=protocol.LINE,
            refuses=lambda answer: isinstance(answer, Failure),
        )
        try:
            switch = cls(context, options, connection)
            await switch.identify(deadline_s=deadline_s)
        except BaseException:
            await connection.close()
            raise
        return switch

    async def identify(self, *, deadline_s: float) -> Identity:
        """The switch reports no serial number, and its firmware together with the name of its board."""
        board, kind = await self._ask(Query.BOARD, Query.TYPE, deadline_s=deadline_s)
        return Identity(vendor="Thorlabs", model=kind.text, serial=NOT_REPORTED, firmware=board.text)

    @override
    async def _read_states(self, deadline_s: float) -> Sequence[int]:
        (line,) = await self._ask(Query.POSITION, deadline_s=deadline_s)
        return (_state(line),)

    @override
    async def _move(
        self, targets: Mapping[int, int], deadline_s: float, on_commanded: Callable[[int], None] | None
    ) -> Exchange:
        """Move the light. The first reading after a set may be the old position; polling continues as for any other."""
        wanted = targets[0] + 1
        move: Request[Answer] = Request(
            data=protocol.encode_command(Move(position=wanted)), what=f"S {wanted}", answers=0
        )
        return await self._set_and_read_back(
            move,
            _query(Query.POSITION),
            _state,
            targets[0],
            every_s=self._options.reread_after_s,
            deadline_s=deadline_s,
            on_commanded=on_commanded,
        )

    @override
    def _check(self, what: str, message: Answer) -> None:
        if isinstance(message, Failure):
            raise self._refusal(what, message.code, message.text)

    async def _ask(self, *queries: Query, deadline_s: float) -> list[Line]:
        answered = await self._connection.request(*map(_query, queries), deadline_s=deadline_s)
        lines: list[Line] = []
        for query, message in zip(queries, answered.messages, strict=True):
            if isinstance(message, Failure):
                raise self._refusal(query, message.code, message.text)
            lines.append(message)
        return lines


def _state(answer: Answer) -> int:
    assert isinstance(answer, Line)  # refusals were raised, and `fits` excludes others
    assert answer.position is not None
    return answer.position - 1


def _query(query: Query) -> Request[Answer]:
    return Request(data=protocol.encode_command(query), what=query, fits=_FITS[query])


def _is_position(answer: Answer) -> bool:
    return isinstance(answer, Line) and answer.position is not None


def _is_name(answer: Answer) -> bool:
    return isinstance(answer, Line) and answer.position is None


_FITS: Mapping[Query, Callable[[Answer], bool] | None] = {
    Query.POSITION: _is_position,
    Query.TYPE: None,  # a code that may be a digit, for all that is known
    Query.BOARD: _is_name,
}
