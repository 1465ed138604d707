"""The driver of Polatis switches over SCPI, by TCP or a serial line: crossconnects, power, and disabled ports."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field

from hwd_drivers.codecs.scpi import NO_ERROR, format_channels
from hwd_drivers.core.errors import BugError, DeviceError, FailedError, ProtocolError
from hwd_drivers.core.unit_error import UnitError
from hwd_drivers.core.values import (
    Capabilities,
    Crossconnect,
    CrossconnectReading,
    Exchange,
    Identity,
    PortOverride,
    PortSide,
    PowerReading,
)
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.devices.scpi_client import ScpiClient
from hwd_drivers.families.polatis.scpi import protocol
from hwd_drivers.families.polatis.switch import NumberedSwitch

ReadT = TypeVar("ReadT")


class PolatisScpiOptions(BaseModel):
    """Options of a Polatis switch in a testbed that is driven over SCPI."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    open_within_s: float = Field(default=5.0, gt=0, description="limit for connecting and for its first answer")
    dark_dbm: float = Field(
        default=-50.0, description="readings up to this are no light; units report -50.00 or -60.00"
    )
    pause_s: float = Field(
        default=0.05,
        ge=0,
        description="pause between an answer and the next line; real firmware needs it",
    )
    read_before: bool = Field(
        default=True,
        description="read the crossconnects in the same line as each change, to know what it moved away",
    )


class PolatisScpiSwitch(NumberedSwitch):
    """One session with one switch; open it with `PolatisScpiSwitch.open`. There is no login.

    Set commands have no answer, so a query on the same line shows that they are done, and their result.
    """

    def __init__(self, context: OpenContext, options: PolatisScpiOptions, client: ScpiClient) -> None:
        super().__init__(context, client, dark_dbm=options.dark_dbm)
        self._options = options
        self._client = client

    @classmethod
    async def open(cls, context: OpenContext) -> "PolatisScpiSwitch":
        """Connect, and clear old errors. Raises LinkError where the device does not accept."""
        options = context.options_as(PolatisScpiOptions)
        deadline_s = asyncio.get_running_loop().time() + options.open_within_s
        client = await ScpiClient.open(
            context.dialer,
            context.address,
            name=context.name,
            clock=context.clock,
            deadline_s=deadline_s,
            end="\r\n",
            pause_s=options.pause_s,
            serial=protocol.LINE,
        )
        try:
            await client.ask(f"*CLS;{protocol.IDENTITY}", answers=1, deadline_s=deadline_s)
        except BaseException:
            await client.close()
            raise
        return cls(context, options, client)

    async def identify(self, *, deadline_s: float) -> Identity:
        return await self._read(protocol.IDENTITY, protocol.read_identity, deadline_s)

    async def capabilities(self, *, deadline_s: float) -> Capabilities:
        """Capabilities of the configured model, without monitors if the unit refuses to read one.

        Raises ConfigError where the switch has another size.
        """
        stated = self._context.capabilities
        self._check_size(await self._read(protocol.SIZE, protocol.read_size, deadline_s))
        monitored = stated.monitored
        if monitored:
            try:
                await self.read_power(monitored[:1], deadline_s=deadline_s)
            except DeviceError:
                monitored = ()
        return replace(stated, monitored=monitored, reports_before=self._options.read_before)

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        pairs = await self._read(protocol.CONNECTIONS, self._read_pairs, deadline_s)
        return tuple(CrossconnectReading(crossconnect=pair) for pair in pairs)

    async def change_crossconnects(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None = None,
    ) -> Exchange:
        """One line: query the pairs, `sub` with all of `remove`, `add` with all of `add`, query the pairs.

        Ports in use are freed first, so that it does not matter whether the unit would move them. Raises DeviceError
        with the text of the error queue, where something was not done and the queue has a reason.
        """
        gone, made = self._numbers(remove), self._numbers(add)
        if not gone and not made:
            raise BugError(f"{self.name}: asked to change no crossconnect")
        line = [protocol.CONNECTIONS] if self._options.read_before else []
        line += [f"{protocol.SUBTRACT} {protocol.format_pairs(gone)}"] if gone else []
        line += [f"{protocol.ADD} {protocol.format_pairs(made)}"] if made else []
        what = " ".join(
            [
                *(f"sub {','.join(remove)}" for _ in gone[:1]),
                *(f"add {','.join(add)}" for _ in made[:1]),
            ]
        )
        answered = await self._client.ask(
            ";".join([*line, protocol.CONNECTIONS]),
            answers=1 + self._options.read_before,
            deadline_s=deadline_s,
            what=what,
            on_sent=on_commanded,
        )
        *before, after = (self._understood(answer, self._read_pairs) for answer in answered.messages)
        if not set(add) <= set(after) or not set(after).isdisjoint(set(remove) - set(add)):
            error = await self._client.error(deadline_s=deadline_s)
            if error.code != NO_ERROR:
                raise self._client.refused(what, error)
        return Exchange(
            commanded_ns=answered.sent_ns,
            acknowledged_ns=answered.received_ns,
            commands=bool(gone) + bool(made),
            before=before[0] if before else None,
        )

    async def read_power(self, ends: Sequence[PortSide], *, deadline_s: float) -> tuple[PowerReading, ...]:
        ports = [self._number(end) for end in ends]
        powers: dict[int, float] = {}
        for start in range(0, len(ports), protocol.POWERS_LIMIT):
            some = ports[start : start + protocol.POWERS_LIMIT]
            line = f"{protocol.POWER} {format_channels(some)}"
            powers |= await self._read(line, partial(protocol.read_powers, ports=some), deadline_s)
        return self._powers(ends, powers)

    async def read_overrides(self, ends: Sequence[PortSide], *, deadline_s: float) -> Mapping[PortSide, PortOverride]:
        """A disabled port is blocked; a failed one is not. Raises FailedError for a state that is not known here."""
        if not ends:
            return {}
        states = await self._states("", ends, deadline_s)
        return {
            end: PortOverride.FORCE_BLOCKED if states[self._number(end)] == "D" else PortOverride.NORMAL for end in ends
        }

    async def override(self, ends: Sequence[PortSide], to: PortOverride, *, deadline_s: float) -> None:
        if not ends:
            return
        blocks = to is PortOverride.FORCE_BLOCKED
        header = protocol.DISABLE if blocks else protocol.ENABLE
        ports = format_channels(map(self._number, ends))
        states = await self._states(f"{header} {ports};", ends, deadline_s)
        if any((state == "D") != blocks for state in states.values()):
            error = await self._client.error(deadline_s=deadline_s)
            if error.code != NO_ERROR:
                raise self._client.refused(f"{header} {', '.join(ends)}", error)

    async def _states(self, command: str, ends: Sequence[PortSide], deadline_s: float) -> dict[int, str]:
        ports = [self._number(end) for end in ends]
        line = f"{command}{protocol.PORT_STATES} {format_channels(ports)}"
        states = await self._read(line, partial(protocol.read_states, ports=ports), deadline_s)
        for port, state in states.items():
            if state not in protocol.KNOWN_STATES:
                raise FailedError(
                    f"{self.name}: port {port} is in the state {state!r}, which is not known here: "
                    f"{', '.join(protocol.KNOWN_STATES)} are. Look it up in the manual of its firmware"
                )
        return states

    async def _read(self, line: str, reader: Callable[[str], ReadT], deadline_s: float) -> ReadT:
        answered = await self._client.ask(line, answers=1, deadline_s=deadline_s)
        return self._understood(answered.messages[0], reader)

    def _understood(self, answer: str, reader: Callable[[str], ReadT]) -> ReadT:
        try:
            return reader(answer)
        except ProtocolError as error:
            raise self._client.distrust(answer, error) from error

    def _read_pairs(self, answer: str) -> tuple[Crossconnect, ...]:
        """Pairs in the order of their ports."""
        pairs = []
        for one, other in sorted(protocol.read_pairs(answer)):
            try:
                pairs.append(self._numbering.crossconnect(one, other))
            except UnitError as error:
                raise ProtocolError(
                    f"{protocol.CONNECTIONS}: the switch reports {one} with {other}: {error}"
                ) from error
        return tuple(pairs)
