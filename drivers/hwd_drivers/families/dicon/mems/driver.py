"""The driver of DiCon MEMS 1xN modules."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import override

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Capabilities, Exchange, Identity
from hwd_drivers.devices.element_switch import NOT_REPORTED, ElementSwitch
from hwd_drivers.devices.ordered import OrderedConnection, Request
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.families.dicon.mems import protocol
from hwd_drivers.families.dicon.mems.protocol import PARKED, Line, Plain, Select


class MemsOptions(BaseModel):
    """Options of a MEMS module in a testbed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    open_within_s: float = Field(default=5.0, gt=0, description="limit for connecting and the first answer")
    reread_after_s: float = Field(default=0.005, gt=0, description="time between readings after a change")


class MemsSwitch(ElementSwitch[Line]):
    """One session with one module; open it with `MemsSwitch.open`. It works with and without the echo of commands."""

    def __init__(self, context: OpenContext, options: MemsOptions, connection: OrderedConnection[Line]) -> None:
        super().__init__(context, connection)
        self._options = options
        self._channels = len(context.capabilities.elements[0].states) - 1

    @classmethod
    async def open(cls, context: OpenContext) -> "MemsSwitch":
        """Connect and check the answer to `CF?`: a configuration looks like no late answer of an earlier session."""
        options = context.options_as(MemsOptions)
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
            await connection.request(switch._query(Plain.CONFIGURATION), deadline_s=deadline_s)
        except BaseException:
            await connection.close()
            raise
        return switch

    async def identify(self, *, deadline_s: float) -> Identity:
        """The whole answer to `ID?` is in the model: its format is not known."""
        answered = await self._connection.request(self._query(Plain.IDENTITY), deadline_s=deadline_s)
        return Identity(vendor="DiCon", model=answered.messages[0].text, serial=NOT_REPORTED, firmware=NOT_REPORTED)

    @override
    async def capabilities(self, *, deadline_s: float) -> Capabilities:
        """Capabilities of the configured size. Raises ConfigError where the module has another."""
        answered = await self._connection.request(self._query(Plain.CONFIGURATION), deadline_s=deadline_s)
        found = answered.messages[0].channels
        if found != self._channels:
            raise ConfigError(
                f"{self.name}: the module has {found} channels, the testbed says 1x{self._channels}. "
                "Correct its size in the testbed file"
            )
        return self._context.capabilities

    @override
    async def _read_states(self, deadline_s: float) -> Sequence[int]:
        answered = await self._connection.request(self._query(Plain.CHANNEL), deadline_s=deadline_s)
        return (self._state(answered.messages[0]),)

    @override
    async def _move(
        self, targets: Mapping[int, int], deadline_s: float, on_commanded: Callable[[int], None] | None
    ) -> Exchange:
        """The dark state is the last one: `PK`."""
        wanted = PARKED if targets[0] == self._channels else targets[0] + 1
        command = Plain.PARK if wanted == PARKED else Select(channel=wanted)
        return await self._set_and_read_back(
            Request(data=protocol.encode_command(command), what=protocol.text_of(command), answers=0),
            self._query(Plain.CHANNEL),
            self._state,
            targets[0],
            every_s=self._options.reread_after_s,
            deadline_s=deadline_s,
            on_commanded=on_commanded,
        )

    def _state(self, line: Line) -> int:
        assert line.channel is not None  # `fits` excludes others
        return self._channels if line.channel == PARKED else line.channel - 1

    def _query(self, query: Plain) -> Request[Line]:
        fits: Mapping[Plain, Callable[[Line], bool]] = {
            Plain.CHANNEL: lambda line: line.channel in range(self._channels + 1),
            Plain.CONFIGURATION: lambda line: line.channels is not None,
            Plain.IDENTITY: lambda line: line.channel is None and line.channels is None,
        }
        return Request(data=protocol.encode_command(query), what=query, fits=fits[query])
