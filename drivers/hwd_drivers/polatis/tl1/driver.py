"""The driver of Polatis switches: one TL1 session that reads and changes crossconnects and reads power."""

import asyncio
import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from hwd_drivers.kit.connection import Answered
from hwd_drivers.kit.errors import BugError, ConfigError, LoginError, ProtocolError
from hwd_drivers.kit.registry import OpenContext
from hwd_drivers.kit.tl1_client import Tl1Client, comment, words
from hwd_drivers.kit.tl1_messages import Answer, Completion
from hwd_drivers.kit.values import (
    Capabilities,
    Crossconnect,
    CrossconnectReading,
    Exchange,
    Identity,
    PortSide,
    PowerReading,
    Side,
)
from hwd_drivers.polatis.numbering import Numbering
from hwd_drivers.polatis.tl1 import lines, protocol
from hwd_drivers.polatis.tl1 import requests as ask

UNSUPPORTED: Final = "IICM"
"""The code of units for hardware that they do not have, such as power monitors."""

KEPT_READINGS: Final = 4096
"""Readings are values that come again and again: made once, they are not the time of a read-back."""


class PolatisOptions(BaseModel):
    """What a testbed may say of a Polatis switch."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    login_within_s: float = Field(default=5.0, gt=0, description="limit for connecting and logging in")
    dark_dbm: float = Field(
        default=-50.0, description="readings of this and less are no light; units report -50.00 or -60.00"
    )


class PolatisSwitch:
    """One session with one switch; open it with `PolatisSwitch.open`."""

    def __init__(self, context: OpenContext, options: PolatisOptions, client: Tl1Client) -> None:
        self.name = context.name
        self._context = context
        self._options = options
        self._client = client
        self._numbering = Numbering.of(context.capabilities.ends)
        self._ends = {self._numbering.number(end): end for end in context.capabilities.ends}
        self._near = {end.port: number for number, end in self._ends.items() if end.side is not Side.B}
        self._far = {end.port: number for number, end in self._ends.items() if end.side is Side.B}
        self._reading = functools.lru_cache(maxsize=KEPT_READINGS)(self._make_reading)

    @classmethod
    async def open(cls, context: OpenContext) -> "PolatisSwitch":
        """Connect and log in. Raises LoginError where the switch does not take user or password."""
        options = context.options
        if not isinstance(options, PolatisOptions):
            raise BugError(f"{context.name}: options are {type(options).__name__}, not PolatisOptions")
        if context.user is None or context.password is None:
            raise ConfigError(f"{context.name}: a Polatis switch needs a login. Give user and password in the testbed")
        deadline_s = asyncio.get_running_loop().time() + options.login_within_s
        client = await Tl1Client.open(
            context.dialer, context.address, name=context.name, clock=context.clock, deadline_s=deadline_s
        )
        try:
            switch = cls(context, options, client)
            await switch._log_in(context.user, context.password, deadline_s)
        except BaseException:
            await client.close()
            raise
        return switch

    async def identify(self, *, deadline_s: float) -> Identity:
        requests = (ask.RetrieveType(), ask.RetrieveInventory())
        kind, inventory = (await self._ask(*requests, deadline_s=deadline_s)).messages
        unit = lines.read_type(self._client.done("RTRV-NETYPE", kind))
        serial = lines.read_serial(self._client.done("RTRV-INV", inventory))
        return Identity(vendor=unit.vendor, model=unit.model, serial=serial, firmware=unit.version)

    async def capabilities(self, *, deadline_s: float) -> Capabilities:
        """Those of the stated model, with the monitors that are there. Raises ConfigError where the switch has another size."""
        requests = (ask.RetrieveSize(), ask.RetrieveMonitors())
        size, monitors = (await self._ask(*requests, deadline_s=deadline_s)).messages
        found = lines.read_size(self._client.done("RTRV-EQPT SIZE", size))
        if found != self._numbering:
            raise ConfigError(
                f"{self.name}: the switch has {found.inputs}x{found.outputs} ports, the testbed says "
                f"{self._numbering.inputs}x{self._numbering.outputs}. Correct its size in the testbed file"
            )
        if monitors.error == UNSUPPORTED:
            return replace(self._context.capabilities, monitored=())
        ports = lines.read_monitors(self._client.done("RTRV-EQPT PMON", monitors))
        return replace(self._context.capabilities, monitored=tuple(self._end(port) for port in ports))

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        answered = await self._ask(ask.RetrievePatch(), deadline_s=deadline_s)
        pairs = lines.read_patches(self._client.done("RTRV-PATCH", answered.messages[0]))
        return tuple(self._reading(*pair) for pair in sorted(pairs))

    async def change_crossconnects(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None = None,
    ) -> Exchange:
        """One ENT-PATCH with all of `add`, which moves ports in use; before it one DLT-PATCH with those of `remove` that nothing moves."""
        made = tuple((self._number(pair.a), self._number(pair.b)) for pair in add)
        reused = set(itertools.chain.from_iterable(made)) if self._context.capabilities.moves_in_use else set()
        gone = [pair for pair in remove if self._number(pair.a) not in reused and self._number(pair.b) not in reused]
        requests: list[ask.Request] = []
        if gone:
            requests.append(ask.DeletePatch(ports=tuple(self._number(pair.a) for pair in gone)))
        if made:
            requests.append(ask.EnterPatch(pairs=made))
        if not requests:
            raise BugError(f"{self.name}: asked to change no crossconnect")
        answered = await self._ask(*requests, deadline_s=deadline_s, on_sent=on_commanded)
        for request, answer in zip(requests, answered.messages, strict=True):
            if answer.code is not Completion.COMPLD:
                deletes = isinstance(request, ask.DeletePatch)
                self._client.done(
                    f"{'DLT' if deletes else 'ENT'}-PATCH {', '.join(map(str, gone if deletes else add))}", answer
                )
        return Exchange(commanded_ns=answered.sent_ns, acknowledged_ns=answered.received_ns, commands=len(requests))

    async def read_power(self, ends: Sequence[PortSide], *, deadline_s: float) -> tuple[PowerReading, ...]:
        if not ends:
            return ()
        ports = [self._number(end) for end in ends]
        answered = await self._ask(ask.RetrievePower(ports=tuple(ports)), deadline_s=deadline_s)
        powers = lines.read_powers(self._client.done("RTRV-PORT-POWER", answered.messages[0]))
        if missing := [str(end) for port, end in zip(ports, ends, strict=True) if port not in powers]:
            raise ProtocolError(f"{self.name}: RTRV-PORT-POWER: no reading of {', '.join(missing)} in the answer")
        return tuple(
            PowerReading(end=end, power_dbm=powers[port] if powers[port] > self._options.dark_dbm else None)
            for port, end in zip(ports, ends, strict=True)
        )

    async def lost(self) -> Exception:
        return await self._client.lost()

    async def close(self) -> None:
        """Log out, since a unit may allow few sessions, and close."""
        await self._client.close(protocol.to_command(ask.Logout(user=self._context.user or "")))

    async def _log_in(self, user: str, password: str, deadline_s: float) -> None:
        answered = await self._ask(ask.Login(user=user, password=password), deadline_s=deadline_s)
        answer = answered.messages[0]
        if answer.code is not Completion.COMPLD:
            text = (
                f"{self.name}: the switch does not take the login of {user}: {words(answer)}. Check user and password"
            )
            raise LoginError(text, device=self.name, command="ACT-USER", code=answer.error, text=comment(answer))

    async def _ask(
        self, *requests: ask.Request, deadline_s: float, on_sent: Callable[[int], None] | None = None
    ) -> Answered[Answer]:
        return await self._client.ask(*map(protocol.to_command, requests), deadline_s=deadline_s, on_sent=on_sent)

    def _number(self, end: PortSide) -> int:
        number = (self._far if end.side is Side.B else self._near).get(end.port)
        return number if number is not None and end.side is self._ends[number].side else self._numbering.number(end)

    def _end(self, number: int) -> PortSide:
        if number not in self._ends:
            raise ProtocolError(f"{self.name}: the switch names port {number}, it has 1 to {self._numbering.total}")
        return self._ends[number]

    def _make_reading(self, one: int, other: int) -> CrossconnectReading:
        try:
            return CrossconnectReading(crossconnect=Crossconnect.of(self._end(one), self._end(other)))
        except ConfigError as error:
            raise ProtocolError(f"{self.name}: the switch reports {one},{other}: {error}") from error
