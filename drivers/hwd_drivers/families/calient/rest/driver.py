"""The driver of Calient switches over REST: bulk changes with a result for each connection, readings, power."""

import asyncio
import functools
from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import Field
from typing_extensions import override

from hwd_drivers.codecs.http import phrase, shorten_body
from hwd_drivers.codecs.tl1_words import shorten
from hwd_drivers.core.errors import ConfigError, DeviceError, LoginError, ProtocolError
from hwd_drivers.core.values import Crossconnect, Exchange, Identity, PortSide, PowerReading
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.families.calient.ports import PortMap
from hwd_drivers.families.calient.record import Record
from hwd_drivers.families.calient.records import Patience
from hwd_drivers.families.calient.rest import protocol
from hwd_drivers.families.calient.switch import ListedSwitch
from hwd_drivers.transports.http_client import HttpAnswer, HttpClient
from hwd_drivers.transports.tls import TlsOptions

T = TypeVar("T")

DEFAULT_GROUP = "SYSTEM"


class CalientRestOptions(TlsOptions):
    """Options of a Calient switch in a testbed that is driven over REST."""

    login_within_s: float = Field(default=5.0, gt=0, description="limit for connecting and listing the ports")
    keep_alive_s: float = Field(
        default=4.0, gt=0, description="web servers end connections that are idle, some after 5 s"
    )
    group: str = Field(
        default=DEFAULT_GROUP, pattern="^[A-Za-z0-9_.]{1,32}$", description="group of the connections that we make"
    )
    poll_s: float = Field(default=0.1, gt=0, description="time between readings until new connections are in service")
    fail_after_s: float = Field(default=1.0, ge=0, description="how long OC=FAIL must last to count as the answer")
    dark_dbm: float = Field(default=-60.0, description="readings up to this are no light")


class CalientRestSwitch(ListedSwitch):
    """One connection to one switch; open it with `CalientRestSwitch.open`."""

    def __init__(self, context: OpenContext, options: CalientRestOptions, client: HttpClient) -> None:
        super().__init__(
            context,
            client,
            patience=Patience(poll_s=options.poll_s, fail_after_s=options.fail_after_s),
            dark_dbm=options.dark_dbm,
            keep_alive_s=options.keep_alive_s,
        )
        self._client = client
        self._group = "" if options.group == DEFAULT_GROUP else options.group

    @classmethod
    async def open(cls, context: OpenContext) -> "CalientRestSwitch":
        """Connect and list the ports. Raises LoginError where the switch refuses user or password."""
        options = context.options_as(CalientRestOptions)
        if context.user is None or context.password is None:
            raise ConfigError(f"{context.name}: a Calient switch needs a login. Give user and password in the testbed")
        deadline_s = asyncio.get_running_loop().time() + options.login_within_s
        client = await HttpClient.open(
            options.around(context.dialer, context.address),
            context.address,
            name=context.name,
            clock=context.clock,
            deadline_s=deadline_s,
            user=context.user,
            password=context.password,
        )
        switch = cls(context, options, client)
        try:
            await switch.begin(deadline_s)
        except BaseException:
            await client.close()
            raise
        return switch

    async def identify(self, *, deadline_s: float) -> Identity:
        version = await self._get("info", protocol.read_version, deadline_s, id="softwareversion")
        serial, part = await self._get("node", protocol.read_serial, deadline_s, id="summary", detail="SYSCFG")
        return Identity(vendor="Calient", model=part, serial=serial, firmware=version)

    async def change_crossconnects(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None = None,
    ) -> Exchange:
        """One `bdel` to remove, one `badd` to add, then the list until all new connections are in service.

        The unit answers for each connection: where some fail, the DeviceError has the unit's words for each, and the
        others are done.
        """
        steps, before, read_ns = await self._plan(remove, add, deadline_s)
        answers: list[HttpAnswer] = []
        if steps.delete:
            names = [(record.name, "" if record.group == DEFAULT_GROUP else record.group) for record in steps.delete]
            texts = [f"DEL {record.name}" for record in steps.delete]
            answers.append(await self._bulk("bdel", protocol.write_names(names), texts, deadline_s, on_commanded))
        if steps.enter:
            body = protocol.write_wanted(map(self._port_names, steps.enter), group=self._group)
            texts = [f"ADD {pair}" for pair in steps.enter]
            tell = None if answers else on_commanded
            answers.append(await self._bulk("badd", body, texts, deadline_s, tell))
        acknowledged_ns = answers[-1].received_ns if answers else read_ns
        if add:
            activate = functools.partial(self._activate, answers, deadline_s)
            acknowledged_ns = await self._in_service(add, f"badd {', '.join(add)}", deadline_s, activate)
        return Exchange(
            commanded_ns=answers[0].sent_ns if answers else read_ns,
            acknowledged_ns=acknowledged_ns,
            commands=len(answers),
            before=before,
        )

    async def read_power(self, ends: Sequence[PortSide], *, deadline_s: float) -> tuple[PowerReading, ...]:
        """One request for each port."""
        powers: dict[str, tuple[float | None, float | None]] = {}
        for name in dict.fromkeys(self._ports.name(end) for end in ends):
            powers[name] = await self._get("ports", protocol.read_powers, deadline_s, id="detail", port=name)
        return self._powers(ends, powers)

    @override
    async def _read_port_names(self, deadline_s: float) -> PortMap:
        return await self._get("ports", lambda body: PortMap.of(protocol.read_ports(body)), deadline_s, id="summary")

    @override
    async def _ping(self, deadline_s: float) -> None:
        await self._client.request("GET", protocol.path("info", id="restversion"), deadline_s=deadline_s)

    @override
    async def _records(self, deadline_s: float) -> tuple[tuple[Record, ...], int]:
        """All connections; where the unit's list has no states, the details of each are read."""
        answer = await self._ask("GET", protocol.path("crossconnects", id="list"), deadline_s)
        rows = self._client.read(answer, protocol.read_rows)
        whole = []
        for row in rows:
            if row.states is None:
                answer = await self._ask("GET", protocol.path("crossconnects", id="detail", conn=row.name), deadline_s)
                row = self._client.read(answer, functools.partial(_same, row))
            whole.append(self._client.read(answer, functools.partial(self._record, row)))
        return tuple(whole), answer.received_ns

    def _record(self, row: protocol.Row, _: bytes) -> Record:
        try:
            source, destination = (self._numbers[port] for port in row.ports)
        except KeyError as error:
            raise ProtocolError(f"{row.name} has port {error.args[0]}, which the unit did not list") from None
        admin, operation, capability = row.states or ("", "", "")
        return Record(
            name=row.name,
            group=row.group or DEFAULT_GROUP,
            source=source,
            destination=destination,
            two_way=row.two_way,
            admin=admin,
            operation=operation,
            capability=capability,
        )

    async def _activate(self, answers: list[HttpAnswer], deadline_s: float, entered: Sequence[Record]) -> None:
        """Activate each new connection where the unit's `badd` only enters them."""
        for record in entered:
            target = protocol.path(
                "crossconnects", id="activate", conn=record.name, group=record.group, name=record.name
            )
            answers.append(await self._ask("POST", target, deadline_s))
            self._check("activate", answers[-1], [f"ACT {record.name}"])

    async def _bulk(
        self,
        what: str,
        body: bytes,
        texts: Sequence[str],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None,
    ) -> HttpAnswer:
        target = protocol.path("crossconnects", id=what)
        answer = await self._ask("POST", target, deadline_s, body=body, on_sent=on_commanded)
        self._check(what, answer, texts)
        return answer

    def _check(self, what: str, answer: HttpAnswer, texts: Sequence[str]) -> None:
        """Raises DeviceError with the unit's own words for each failed item."""
        results = self._client.read(answer, functools.partial(protocol.read_results, count=len(texts)))
        failed = [(text, result) for text, result in zip(texts, results, strict=True) if not result.done]
        if failed:
            words = "; ".join(f"{text}: {result.words}" for text, result in failed)
            raise DeviceError(
                f"{self.name}: {what}: the device failed {len(failed)} of {len(texts)}: {words}. "
                "Read its state to see what was done",
                device=self.name,
                command=f"{what} {', '.join(texts)}",
                code=failed[0][1].message or protocol.RESULT_FAILED,
                text=words,
            )

    async def _get(self, what: str, reader: Callable[[bytes], T], deadline_s: float, **parameters: str) -> T:
        answer = await self._ask("GET", protocol.path(what, **parameters), deadline_s)
        return self._client.read(answer, reader)

    async def _ask(
        self,
        method: str,
        target: str,
        deadline_s: float,
        *,
        body: bytes = b"",
        on_sent: Callable[[int], None] | None = None,
    ) -> HttpAnswer:
        """Raises LoginError on 401, DeviceError on any status but 200."""
        headers = {"accept": protocol.JSON_TYPE} | ({"content-type": protocol.JSON_TYPE} if body else {})
        answer = await self._client.request(
            method, target, body=body, headers=headers, deadline_s=deadline_s, on_sent=on_sent
        )
        if answer.status == 200:
            return answer
        text = shorten(answer.body.decode(errors="replace"))
        finding = f"{self.name}: {method} {target}: the device answered {phrase(answer.status)}: {text}"
        command, code = f"{method} {target}", str(answer.status)
        if answer.status == 401:
            text = f"{finding}. Check user and password"
            raise LoginError(text, device=self.name, command=command, code=code, text=text)
        raise DeviceError(f"{finding}. Read its state", device=self.name, command=command, code=code, text=text)


def _same(row: protocol.Row, body: bytes) -> protocol.Row:
    found = protocol.read_rows(body)
    if len(found) != 1 or found[0].ports != row.ports or found[0].states is None:
        raise ProtocolError(f"details of {row.name}: {shorten_body(body)}")
    return found[0]
