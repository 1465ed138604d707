"""The driver of Calient switches over TL1: one session that reads and changes connections and reads power."""

import asyncio
import functools
from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field

from hwd_drivers.codecs.tl1_messages import Answer, Completion
from hwd_drivers.core.errors import BugError, ConfigError, LoginError, ProtocolError
from hwd_drivers.core.values import (
    Capabilities,
    Crossconnect,
    CrossconnectReading,
    Exchange,
    Identity,
    PortSide,
    PowerReading,
    Side,
)
from hwd_drivers.devices.connection import Answered
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.devices.tl1_client import Tl1Client, comment, words
from hwd_drivers.families.calient import records
from hwd_drivers.families.calient.ports import PortMap
from hwd_drivers.families.calient.records import Patience, Record
from hwd_drivers.families.calient.tl1 import lines, protocol
from hwd_drivers.families.calient.tl1.sender import Sender
from hwd_drivers.transports.keepalive import KeepAlive

T = TypeVar("T")


class CalientOptions(BaseModel):
    """Options of a Calient switch in a testbed that is driven over TL1."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    login_within_s: float = Field(
        default=5.0, gt=0, description="limit for connecting, logging in and listing the ports"
    )
    keep_alive_s: float = Field(default=20.0, gt=0, description="units end sessions that are idle for about a minute")
    group: str = Field(
        default="SYSTEM", pattern="^[A-Za-z0-9_.]{1,32}$", description="group of the connections that we make"
    )
    in_flight: int = Field(
        default=1,
        gt=0,
        description="most unanswered commands; all programs that we know send one at a time",
    )
    poll_s: float = Field(default=0.1, gt=0, description="time between readings until new connections are in service")
    fail_after_s: float = Field(default=1.0, ge=0, description="how long OC=FAIL must last to count as the answer")
    dark_dbm: float = Field(default=-60.0, description="readings up to this are no light; units report NONE")


class CalientSwitch:
    """One session with one switch; open it with `CalientSwitch.open`."""

    def __init__(self, context: OpenContext, options: CalientOptions, client: Tl1Client) -> None:
        self.name = context.name
        self._context = context
        self._options = options
        self._client = client
        self._ports = PortMap(names=())
        self._numbers: dict[str, int] = {}
        self._keep_alive: KeepAlive | None = None

    @classmethod
    async def open(cls, context: OpenContext) -> "CalientSwitch":
        """Connect, log in and list the ports. Raises LoginError where the switch refuses user or password."""
        options = context.options_as(CalientOptions)
        if context.user is None or context.password is None:
            raise ConfigError(f"{context.name}: a Calient switch needs a login. Give user and password in the testbed")
        deadline_s = asyncio.get_running_loop().time() + options.login_within_s
        client = await Tl1Client.open(
            context.dialer,
            context.address,
            name=context.name,
            clock=context.clock,
            deadline_s=deadline_s,
            prompt=protocol.PROMPT,
        )
        switch = cls(context, options, client)
        try:
            await switch._log_in(context.user, context.password, deadline_s)
            await switch._list_ports(deadline_s)
        except BaseException:
            await client.close()
            raise
        switch._keep_alive = KeepAlive(name=context.name, every_s=options.keep_alive_s, ping=switch._ping)
        return switch

    async def identify(self, *, deadline_s: float) -> Identity:
        element = await self._get(protocol.RetrieveElement(), "RTRV-NE", lines.read_element, deadline_s)
        return Identity(vendor="Calient", model=element.chassis, serial=element.serial, firmware=element.firmware)

    async def capabilities(self, *, deadline_s: float) -> Capabilities:
        """Capabilities of the configured model. Raises ConfigError where the switch has another number of ports."""
        await self._list_ports(deadline_s)
        stated = len(self._context.capabilities.ends) // 2
        if len(self._ports.names) != stated:
            raise ConfigError(
                f"{self.name}: the switch has {len(self._ports.names)} ports, the testbed says {stated}. "
                "Correct its size in the testbed file"
            )
        return self._context.capabilities

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        found, _ = await self._records(deadline_s)
        return records.readings(found)

    async def change_crossconnects(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None = None,
    ) -> Exchange:
        """CANC-CRS and DLT-CRS to remove, ENT-CRS and ACT-CRS to add, then RTRV-CRS until all are in service."""
        if not remove and not add:
            raise BugError(f"{self.name}: asked to change no crossconnect")
        for pair in (*remove, *add):
            for end in pair.ends:
                self._ports.name(end)
        found, read_ns = await self._records(deadline_s)
        steps = records.plan(found, remove=remove, add=add, name=self.name)
        sender = Sender(
            self._ask, self._client, in_flight=self._options.in_flight, deadline_s=deadline_s, on_commanded=on_commanded
        )
        gone = [(_named(record, self._ports), record.name) for record in steps.delete]
        active = [each for each, record in zip(gone, steps.delete, strict=True) if record.active]
        await sender.all([(protocol.CancelConnection(which=which), f"CANC-CRS {name}") for which, name in active])
        await sender.all([(protocol.DeleteConnection(which=which), f"DLT-CRS {name}") for which, name in gone])
        await sender.all([(self._enter(pair), f"ENT-CRS {pair}") for pair in steps.enter])
        denied = await sender.denials([(self._activate(pair), f"ACT-CRS {pair}") for pair in steps.enter])
        acknowledged_ns = sender.received_ns or read_ns
        if steps.enter:
            if denied:
                await self._check_denied(denied, steps.enter, deadline_s)
            acknowledged_ns = await records.in_service(
                functools.partial(self._records, deadline_s),
                add,
                name=self.name,
                command=f"ACT-CRS {', '.join(steps.enter)}",
                patience=Patience(poll_s=self._options.poll_s, fail_after_s=self._options.fail_after_s),
                deadline_s=deadline_s,
            )
        return Exchange(
            commanded_ns=sender.sent_ns or read_ns,
            acknowledged_ns=acknowledged_ns,
            commands=sender.commands,
            before=records.crossconnects(found),
        )

    async def read_power(self, ends: Sequence[PortSide], *, deadline_s: float) -> tuple[PowerReading, ...]:
        if not ends:
            return ()
        names = [self._ports.name(end) for end in ends]
        request = protocol.RetrieveSummary(name=names[0] if len(set(names)) == 1 else None)
        found = await self._get(
            request, "RTRV-PORT-SUM", lambda answer: _with_all(lines.read_summary(answer), names), deadline_s
        )
        powers = []
        for end, name in zip(ends, names, strict=True):
            power_dbm = found[name].in_dbm if end.side is Side.A else found[name].out_dbm
            lit = power_dbm is not None and power_dbm > self._options.dark_dbm
            powers.append(PowerReading(end=end, power_dbm=power_dbm if lit else None))
        return tuple(powers)

    async def lost(self) -> Exception:
        return await self._client.lost()

    async def close(self) -> None:
        """Log out, since a unit may allow few sessions, and close."""
        if self._keep_alive is not None:
            await self._keep_alive.stop()
        await self._client.close(protocol.to_command(protocol.Logout(user=self._context.user or "")))

    async def _log_in(self, user: str, password: str, deadline_s: float) -> None:
        (answer,) = (await self._ask(protocol.Login(user=user, password=password), deadline_s=deadline_s)).messages
        if answer.code is not Completion.COMPLD and "already logged in" not in comment(answer).lower():
            text = f"{self.name}: the switch refuses the login of {user}: {words(answer)}. Check user and password"
            raise LoginError(text, device=self.name, command="ACT-USER", code=answer.error, text=comment(answer))

    async def _list_ports(self, deadline_s: float) -> None:
        self._ports = await self._get(
            protocol.RetrievePorts(), "RTRV-PORT", lambda answer: PortMap.of(lines.read_ports(answer)), deadline_s
        )
        self._numbers = self._ports.numbers()

    async def _ping(self, deadline_s: float) -> None:
        await self._ask(protocol.Ping(), deadline_s=deadline_s)

    async def _records(self, deadline_s: float) -> tuple[tuple[Record, ...], int]:
        answered = await self._ask(protocol.RetrieveConnections(), deadline_s=deadline_s)
        found = self._client.read("RTRV-CRS", answered.messages[0], self._read_records)
        return found, answered.received_ns

    def _read_records(self, answer: Answer) -> tuple[Record, ...]:
        return tuple(map(self._record, lines.read_connections(answer)))

    def _record(self, line: lines.ConnectionLine) -> Record:
        try:
            source, destination = self._numbers[line.source], self._numbers[line.destination]
        except KeyError as error:
            raise ProtocolError(
                f"RTRV-CRS: {line.name} has port {error.args[0]}, which RTRV-PORT did not list"
            ) from None
        return Record(
            name=line.name,
            group=line.group,
            source=source,
            destination=destination,
            two_way=line.two_way,
            admin=line.admin,
            operation=line.operation,
            capability=line.capability,
        )

    async def _check_denied(
        self, denied: dict[int, tuple[str, Answer]], entered: Sequence[Crossconnect], deadline_s: float
    ) -> None:
        """A unit whose ENT-CRS activates denies the ACT-CRS after it: only a denial for a dark connection counts."""
        found, _ = await self._records(deadline_s)
        active = {pair for record in found if record.active for pair in record.crossconnects}
        for place, (what, answer) in denied.items():
            if entered[place] not in active:
                self._client.done(what, answer)

    def _enter(self, pair: Crossconnect) -> protocol.EnterConnection:
        source, destination = (self._ports.name(end) for end in pair.ends)
        return protocol.EnterConnection(
            source=source, destination=destination, two_way=False, group=self._options.group
        )

    def _activate(self, pair: Crossconnect) -> protocol.ActivateConnection:
        source, destination = (self._ports.name(end) for end in pair.ends)
        return protocol.ActivateConnection(
            which=protocol.NamedConnection(
                name=f"{source}>{destination}", group=self._options.group, source=source, destination=destination
            )
        )

    async def _get(self, request: protocol.Request, what: str, reader: Callable[[Answer], T], deadline_s: float) -> T:
        return self._client.read(what, (await self._ask(request, deadline_s=deadline_s)).messages[0], reader)

    async def _ask(
        self, *requests: protocol.Request, deadline_s: float, on_sent: Callable[[int], None] | None = None
    ) -> Answered[Answer]:
        return await self._client.ask(*map(protocol.to_command, requests), deadline_s=deadline_s, on_sent=on_sent)


def _named(record: Record, ports: PortMap) -> protocol.NamedConnection:
    source, destination = ports.names[record.source - 1], ports.names[record.destination - 1]
    return protocol.NamedConnection(name=record.name, group=record.group, source=source, destination=destination)


def _with_all(found: dict[str, lines.SummaryLine], names: Sequence[str]) -> dict[str, lines.SummaryLine]:
    if missing := [name for name in names if name not in found]:
        raise ProtocolError(f"RTRV-PORT-SUM: no reading of {', '.join(missing)} in the answer")
    return found
