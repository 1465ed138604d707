"""The driver of Calient switches over TL1: one session that reads and changes connections and reads power."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import override

from hwd_drivers.codecs.tl1_messages import Answer, Command
from hwd_drivers.core.errors import ConfigError, ProtocolError
from hwd_drivers.core.values import Crossconnect, Exchange, Identity, PortSide, PowerReading
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.devices.tl1_client import Tl1Client
from hwd_drivers.families.calient.ports import PortMap
from hwd_drivers.families.calient.record import Record
from hwd_drivers.families.calient.records import Patience
from hwd_drivers.families.calient.switch import ListedSwitch
from hwd_drivers.families.calient.tl1 import protocol
from hwd_drivers.families.calient.tl1.sender import Sender

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


class CalientSwitch(ListedSwitch):
    """One session with one switch; open it with `CalientSwitch.open`."""

    def __init__(self, context: OpenContext, options: CalientOptions, client: Tl1Client) -> None:
        super().__init__(
            context,
            client,
            patience=Patience(poll_s=options.poll_s, fail_after_s=options.fail_after_s),
            dark_dbm=options.dark_dbm,
            keep_alive_s=options.keep_alive_s,
        )
        self._options = options
        self._client = client

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
            await client.log_in(context.user, context.password, deadline_s=deadline_s, accepted="already logged in")
            await switch.begin(deadline_s)
        except BaseException:
            await client.close()
            raise
        return switch

    async def identify(self, *, deadline_s: float) -> Identity:
        return await self._get(protocol.RETRIEVE_ELEMENT, protocol.read_element, deadline_s)

    async def change_crossconnects(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None = None,
    ) -> Exchange:
        """CANC-CRS and DLT-CRS to remove, ENT-CRS and ACT-CRS to add, then RTRV-CRS until all are in service."""
        steps, before, read_ns = await self._plan(remove, add, deadline_s)
        sender = Sender(
            self._client, in_flight=self._options.in_flight, deadline_s=deadline_s, on_commanded=on_commanded
        )
        group = self._options.group
        made = [(pair, *self._port_names(pair)) for pair in steps.enter]
        await sender.all([self._named("CANC-CRS", record) for record in steps.delete if record.active])
        await sender.all([self._named("DLT-CRS", record) for record in steps.delete])
        await sender.all([(protocol.enter(one, other, group), f"ENT-CRS {pair}") for pair, one, other in made])
        denied = await sender.denials(
            [(protocol.activate(one, other, group), f"ACT-CRS {pair}") for pair, one, other in made]
        )
        acknowledged_ns = sender.received_ns or read_ns
        if steps.enter:
            if denied:
                await self._check_denied(denied, steps.enter, deadline_s)
            acknowledged_ns = await self._in_service(add, f"ACT-CRS {', '.join(steps.enter)}", deadline_s)
        return Exchange(
            commanded_ns=sender.sent_ns or read_ns,
            acknowledged_ns=acknowledged_ns,
            commands=sender.commands,
            before=before,
        )

    async def read_power(self, ends: Sequence[PortSide], *, deadline_s: float) -> tuple[PowerReading, ...]:
        if not ends:
            return ()
        names = dict.fromkeys(self._ports.name(end) for end in ends)

        def read(answer: Answer) -> dict[str, tuple[float | None, float | None]]:
            found = protocol.read_powers(answer)
            if missing := [self._ports.name(end) for end in ends if self._ports.name(end) not in found]:
                raise ProtocolError(f"RTRV-PORT-SUM: no reading of {', '.join(missing)} in the answer")
            return found

        command = protocol.retrieve_summary(*names) if len(names) == 1 else protocol.retrieve_summary(None)
        return self._powers(ends, await self._get(command, read, deadline_s))

    @override
    async def close(self) -> None:
        """Log out, since a unit may allow few sessions, and close."""
        if self._keep_alive is not None:
            await self._keep_alive.stop()
        await self._client.close(self._context.user)

    @override
    async def _read_port_names(self, deadline_s: float) -> PortMap:
        return await self._get(
            protocol.RETRIEVE_PORTS, lambda answer: PortMap.of(protocol.read_ports(answer)), deadline_s
        )

    @override
    async def _ping(self, deadline_s: float) -> None:
        await self._client.ask(protocol.PING, deadline_s=deadline_s)

    @override
    async def _records(self, deadline_s: float) -> tuple[tuple[Record, ...], int]:
        answered = await self._client.ask(protocol.RETRIEVE_CONNECTIONS, deadline_s=deadline_s)
        found = self._client.read(
            "RTRV-CRS", answered.messages[0], lambda answer: protocol.read_connections(answer, self._numbers)
        )
        return found, answered.received_ns

    async def _check_denied(
        self, denied: dict[int, tuple[str, Answer]], entered: Sequence[Crossconnect], deadline_s: float
    ) -> None:
        """A unit whose ENT-CRS activates denies the ACT-CRS after it: only a denial for a dark connection counts."""
        found, _ = await self._records(deadline_s)
        active = {pair for record in found if record.active for pair in record.crossconnects}
        for place, (what, answer) in denied.items():
            if entered[place] not in active:
                self._client.done(what, answer)

    def _named(self, verb: str, record: Record) -> tuple[Command, str]:
        """A command for an existing connection, and its text for errors."""
        source, destination = self._ports.names[record.source - 1], self._ports.names[record.destination - 1]
        command = protocol.of_connection(verb, source, destination, group=record.group, name=record.name)
        return command, f"{verb} {record.name}"

    async def _get(self, command: Command, reader: Callable[[Answer], T], deadline_s: float) -> T:
        answered = await self._client.ask(command, deadline_s=deadline_s)
        return self._client.read(command.verb, answered.messages[0], reader)
