"""The driver of Polatis switches over RESTCONF: crossconnects, power, port states and attenuators over HTTP."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, TypeVar

from pydantic import Field

from hwd_drivers.codecs.http import phrase
from hwd_drivers.codecs.tl1_words import shorten
from hwd_drivers.core.errors import BugError, ConfigError, DeviceError, LoginError
from hwd_drivers.core.values import (
    Attenuation,
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
from hwd_drivers.families.polatis.restconf import protocol
from hwd_drivers.families.polatis.settings import VoaSetting
from hwd_drivers.families.polatis.switch import NumberedSwitch
from hwd_drivers.transports.http_client import HttpAnswer, HttpClient
from hwd_drivers.transports.keepalive import KeepAlive
from hwd_drivers.transports.tls import TlsOptions

T = TypeVar("T")

DONE: Final = frozenset({200, 201, 204})
NOT_THERE: Final = 404
NOT_KNOWN: Final = frozenset({405, 415, 501})
"""Answers of a unit that has no PATCH for a container."""


class RestconfOptions(TlsOptions):
    """Options of a Polatis switch in a testbed that is driven over RESTCONF."""

    login_within_s: float = Field(default=5.0, gt=0, description="limit for connecting and logging in")
    keep_alive_s: float = Field(
        default=4.0, gt=0, description="web servers end connections that are idle, some after 5 s"
    )
    dark_dbm: float = Field(
        default=-50.0, description="readings up to this are no light; units report -50.00 or -60.00"
    )
    read_before: bool = Field(
        default=True, description="read the crossconnects just before each change, to know what it moved away"
    )
    lists: Literal["patch", "each"] = Field(
        default="patch", description="each: one PUT for each crossconnect, also for several"
    )


class PolatisRestconfSwitch(NumberedSwitch):
    """One connection to one switch; open it with `PolatisRestconfSwitch.open`."""

    missing_command = "GET {}"

    def __init__(self, context: OpenContext, options: RestconfOptions, client: HttpClient) -> None:
        super().__init__(context, client, dark_dbm=options.dark_dbm)
        self._options = options
        self._client = client
        self._patches = options.lists == "patch"
        self._keep_alive: KeepAlive | None = None

    @classmethod
    async def open(cls, context: OpenContext) -> "PolatisRestconfSwitch":
        """Connect and read the identity. Raises LoginError where the switch refuses user or password."""
        options = context.options_as(RestconfOptions)
        if context.user is None or context.password is None:
            raise ConfigError(f"{context.name}: a Polatis switch needs a login. Give user and password in the testbed")
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
            await switch.identify(deadline_s=deadline_s)
        except BaseException:
            await client.close()
            raise
        switch._keep_alive = KeepAlive(name=context.name, every_s=options.keep_alive_s, ping=switch._ping)
        return switch

    async def identify(self, *, deadline_s: float) -> Identity:
        return await self._get(protocol.PRODUCT, protocol.read_product, deadline_s)

    async def capabilities(self, *, deadline_s: float) -> Capabilities:
        """Capabilities of the configured model, with the existing monitors, attenuators and states of ports.

        Raises ConfigError where the switch has another number of ports.
        """
        statuses = await self._get(protocol.PORT_CONFIG, protocol.read_statuses, deadline_s)
        if statuses and len(statuses) != self._numbering.total:
            raise ConfigError(
                f"{self.name}: the switch has {len(statuses)} ports, the testbed says {self._numbering}. "
                "Correct its size in the testbed file"
            )
        powers = await self._get(protocol.OPM_POWER, protocol.read_powers, deadline_s, absent=dict[int, float]())
        voa = await self._get(protocol.VOA, protocol.read_voa, deadline_s, absent=dict[int, VoaSetting]())
        return replace(
            self._context.capabilities,
            monitored=tuple(self._end(port) for port in sorted(powers)),
            attenuated=tuple(self._end(port) for port in sorted(voa)),
            blockable=tuple(self._end(port) for port in sorted(statuses) if statuses[port]),
            reports_before=self._options.read_before,
        )

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        return tuple(CrossconnectReading(crossconnect=pair) for pair in await self._pairs(deadline_s))

    async def change_crossconnects(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None = None,
    ) -> Exchange:
        """DELETE for each existing pair of `remove` that is in the way; PUT for one pair of `add`, PATCH for several.

        Where the unit does not move ports in use after all, the rest of `remove` is deleted too, and `add` is tried
        once more.
        """
        made = self._numbers(add)
        reused = {port for pair in made for port in pair} if self._context.capabilities.moves_in_use else set()
        removed = zip(remove, self._numbers(remove), strict=True)
        gone = [pair for pair, ports in removed if reused.isdisjoint(ports)]
        if not add and not remove:
            raise BugError(f"{self.name}: asked to change no crossconnect")
        before = await self._pairs(deadline_s) if self._options.read_before else None
        read_ns = self._context.clock.monotonic_ns()
        sender = _Sender(self, deadline_s, on_commanded)
        await self._delete(sender, gone, before)
        try:
            await self._make(sender, made)
        except DeviceError as refusal:
            left = [pair for pair in remove if pair not in gone]
            if refusal.code not in ("data-exists", "in-use", "409") or not left:
                raise
            await self._delete(sender, left, before)
            await self._make(sender, made)
        return Exchange(
            commanded_ns=sender.answers[0].sent_ns if sender.answers else read_ns,
            acknowledged_ns=sender.answers[-1].received_ns if sender.answers else read_ns,
            commands=len(sender.answers),
            before=None if before is None else tuple(before),
        )

    async def read_power(self, ends: Sequence[PortSide], *, deadline_s: float) -> tuple[PowerReading, ...]:
        return self._powers(ends, await self._read_ports("opm-power", ends, protocol.read_powers, deadline_s))

    async def read_overrides(self, ends: Sequence[PortSide], *, deadline_s: float) -> Mapping[PortSide, PortOverride]:
        def stated(body: bytes) -> dict[int, str]:
            return {port: status for port, status in protocol.read_statuses(body).items() if status}

        statuses = await self._read_ports("port-config", ends, stated, deadline_s)
        return {
            end: PortOverride.FORCE_BLOCKED if statuses[self._number(end)] == "DISABLED" else PortOverride.NORMAL
            for end in ends
        }

    async def override(self, ends: Sequence[PortSide], to: PortOverride, *, deadline_s: float) -> None:
        """Set by port-set-state: a disabled port is dark."""
        if not ends:
            return
        word = "port-disab" if to is PortOverride.FORCE_BLOCKED else "port-enab"
        body = protocol.write_states(word, [self._number(end) for end in ends])
        await self._done("POST", protocol.SET_STATE, deadline_s, body=body)

    async def read_attenuation(self, ends: Sequence[PortSide], *, deadline_s: float) -> tuple[Attenuation, ...]:
        return self._attenuations(ends, await self._read_ports("voa", ends, protocol.read_voa, deadline_s))

    async def attenuate(self, wanted: Sequence[Attenuation], *, deadline_s: float) -> None:
        if wanted:
            await self._done("PATCH", protocol.VOA, deadline_s, body=protocol.write_voa(self._settings(wanted)))

    async def close(self) -> None:
        if self._keep_alive is not None:
            await self._keep_alive.stop()
        await self._client.close()

    async def _read_ports(
        self, name: str, ends: Sequence[PortSide], reader: Callable[[bytes], dict[int, T]], deadline_s: float
    ) -> dict[int, T]:
        """What `reader` finds for each port of these ends in a container."""
        if not ends:
            return {}
        found = await self._get(f"{protocol.DATA}{protocol.MODULE}:{name}", reader, deadline_s)
        self._expect_all(name, ends, found)
        return found

    async def _ping(self, deadline_s: float) -> None:
        await self._client.request("GET", protocol.PRODUCT, deadline_s=deadline_s)

    async def _pairs(self, deadline_s: float) -> dict[Crossconnect, int]:
        """All crossconnects in the order of their ports, with their ingress.

        A missing container counts as an empty one.
        """
        return await self._get(protocol.CROSS_CONNECTS, self._read_pairs, deadline_s, absent=dict[Crossconnect, int]())

    def _read_pairs(self, body: bytes) -> dict[Crossconnect, int]:
        pairs = {self._crossconnect(*pair): pair[0] for pair in protocol.read_pairs(body)}
        return {pair: pairs[pair] for pair in sorted(pairs, key=Crossconnect.sort_key)}

    async def _delete(
        self, sender: "_Sender", pairs: Iterable[Crossconnect], before: Mapping[Crossconnect, int] | None
    ) -> None:
        """Delete a pair. A missing one is no error; another pair that has replaced it stays."""
        for pair in pairs:
            ingress = self._number(pair.a) if before is None else before.get(pair)
            if ingress is None:
                continue
            answer = await sender.send("DELETE", protocol.pair_path(ingress))
            if answer.status != NOT_THERE:
                self._check("DELETE", protocol.pair_path(ingress), answer)

    async def _make(self, sender: "_Sender", pairs: Sequence[tuple[int, int]]) -> None:
        if len(pairs) > 1 and self._patches:
            answer = await sender.send("PATCH", protocol.CROSS_CONNECTS, protocol.write_pairs(pairs))
            if answer.status not in NOT_KNOWN:
                self._check("PATCH", protocol.CROSS_CONNECTS, answer)
                return
            self._patches = False
        for ingress, egress in pairs:
            answer = await sender.send("PUT", protocol.pair_path(ingress), protocol.write_pair(ingress, egress))
            self._check("PUT", protocol.pair_path(ingress), answer)

    async def _get(self, path: str, reader: Callable[[bytes], T], deadline_s: float, *, absent: T | None = None) -> T:
        """The result of `reader`; `absent`, if given, where the unit has no such resource."""
        answer = await self.ask("GET", path, deadline_s)
        if absent is not None and answer.status in (NOT_THERE, 204):
            return absent
        self._check("GET", path, answer)
        return self._client.read(answer, reader)

    async def _done(self, method: str, path: str, deadline_s: float, *, body: bytes) -> None:
        self._check(method, path, await self.ask(method, path, deadline_s, body=body))

    async def ask(
        self,
        method: str,
        path: str,
        deadline_s: float,
        *,
        body: bytes = b"",
        on_sent: Callable[[int], None] | None = None,
    ) -> HttpAnswer:
        headers = {"accept": protocol.JSON_TYPE} | ({"content-type": protocol.JSON_TYPE} if body else {})
        return await self._client.request(
            method, path, body=body, headers=headers, deadline_s=deadline_s, on_sent=on_sent
        )

    def _check(self, method: str, path: str, answer: HttpAnswer) -> None:
        """Raises LoginError on 401, DeviceError with the unit's own words on any other failure."""
        if answer.status in DONE:
            return
        failures = protocol.read_failures(answer.body)
        text = "; ".join(failure.words for failure in failures) or shorten(answer.body.decode(errors="replace"))
        code = (failures[0].tag if failures else "") or str(answer.status)
        command = f"{method} {path}"
        finding = f"{self.name}: {command}: the device answered {phrase(answer.status)}: {text}"
        if answer.status == 401:
            raise LoginError(
                f"{finding}. Check user and password", device=self.name, command=command, code=code, text=text
            )
        raise DeviceError(
            f"{finding}. Read its state to see what was done", device=self.name, command=command, code=code, text=text
        )


class _Sender:
    """The requests of one change, and their answers."""

    def __init__(
        self, switch: PolatisRestconfSwitch, deadline_s: float, on_commanded: Callable[[int], None] | None
    ) -> None:
        self.answers: list[HttpAnswer] = []
        self._switch = switch
        self._deadline_s = deadline_s
        self._on_commanded = on_commanded

    async def send(self, method: str, path: str, body: bytes = b"") -> HttpAnswer:
        tell = None if self.answers else self._on_commanded
        answer = await self._switch.ask(method, path, self._deadline_s, body=body, on_sent=tell)
        self.answers.append(answer)
        return answer
