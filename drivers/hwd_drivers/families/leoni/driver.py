"""The driver of Leoni 1xN switches."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import override

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Capabilities, Exchange, Identity
from hwd_drivers.devices.element_switch import NOT_REPORTED, ElementSwitch
from hwd_drivers.devices.ordered import OrderedConnection, Request
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.families.leoni import protocol
from hwd_drivers.families.leoni.protocol import Line, Query, Select


class LeoniOptions(BaseModel):
    """Options of a Leoni switch in a testbed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    open_within_s: float = Field(default=5.0, gt=0, description="limit for connecting and the first answer")
    reread_after_s: float = Field(
        default=0.002, gt=0, description="time between readings after a change; a published program waits 2 ms"
    )


class LeoniSwitch(ElementSwitch[Line]):
    """One session with one switch; open it with `LeoniSwitch.open`."""

    def __init__(self, context: OpenContext, options: LeoniOptions, connection: OrderedConnection[Line]) -> None:
        super().__init__(context, connection)
        self._options = options
        self._channels = len(context.capabilities.elements[0].states)

    @classmethod
    async def open(cls, context: OpenContext) -> "LeoniSwitch":
        """Connect and check the answer to `type?`: a type looks like no late answer of an earlier session."""
        options = context.options_as(LeoniOptions)
        deadline_s = asyncio.get_running_loop().time() + options.open_within_s
        connection: OrderedConnection[Line] = await OrderedConnection.open(
            context.dialer,
            context.address,
            name=context.name,
            decode=protocol.AnswerDecoder().feed,
            clock=context.clock,
            deadline_s=deadline_s,
            serial=protocol.LINE,
        )
        try:
            switch = cls(context, options, connection)
            await switch.identify(deadline_s=deadline_s)
        except BaseException:
            await connection.close()
            raise
        return switch

    async def identify(self, *, deadline_s: float) -> Identity:
        """The switch reports no serial number."""
        requests = (self._query(Query.TYPE), self._query(Query.FIRMWARE))
        kind, firmware = (await self._connection.request(*requests, deadline_s=deadline_s)).messages
        return Identity(vendor="Leoni", model=kind.text, serial=NOT_REPORTED, firmware=firmware.text)

    @override
    async def capabilities(self, *, deadline_s: float) -> Capabilities:
        """Capabilities of the configured size. Raises ConfigError where the switch has another."""
        answered = await self._connection.request(self._query(Query.TYPE), deadline_s=deadline_s)
        found = answered.messages[0].channels
        if found != self._channels:
            raise ConfigError(
                f"{self.name}: the switch is an {answered.messages[0].text}, the testbed says 1x{self._channels}. "
                "Correct its size in the testbed file"
            )
        return self._context.capabilities

    @override
    async def _read_states(self, deadline_s: float) -> Sequence[int]:
        answered = await self._connection.request(self._query(Query.CHANNEL), deadline_s=deadline_s)
        return (_state(answered.messages[0]),)

    @override
    async def _move(
        self, targets: Mapping[int, int], deadline_s: float, on_commanded: Callable[[int], None] | None
    ) -> Exchange:
        wanted = targets[0] + 1
        return await self._set_and_read_back(
            Request(data=protocol.encode_command(Select(channel=wanted)), what=f"ch{wanted}", answers=0),
            self._query(Query.CHANNEL),
            _state,
            targets[0],
            every_s=self._options.reread_after_s,
            deadline_s=deadline_s,
            on_commanded=on_commanded,
        )

    def _query(self, query: Query) -> Request[Line]:
        fits: Mapping[Query, Callable[[Line], bool]] = {
            Query.TYPE: lambda line: line.channels is not None,
            Query.CHANNEL: lambda line: line.channel in range(1, self._channels + 1),
            Query.FIRMWARE: lambda line: line.channels is None,
        }
        return Request(data=protocol.encode_command(query), what=query, fits=fits[query])


def _state(line: Line) -> int:
    assert line.channel is not None  # `fits` excludes others
    return line.channel - 1
