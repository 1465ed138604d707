"""A Polatis switch that is not there: the same TL1 bytes on the shared mirror model.

What no source tells of real units is a choice in `TwinOptions`, with its default as the facts make it likely.
"""

import asyncio
import functools
import logging
from collections.abc import Mapping
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from typing_extensions import override

from hwd_drivers.kit.clock import Clock
from hwd_drivers.kit.dial import Dialer
from hwd_drivers.kit.documents import Json
from hwd_drivers.kit.errors import ConfigError, ProtocolError, RefusedError
from hwd_drivers.kit.ids import Draws
from hwd_drivers.kit.mirror import Mirror
from hwd_drivers.kit.server import Faults, TwinServer, TwinSession
from hwd_drivers.kit.timing import SwitchTiming
from hwd_drivers.kit.tl1 import (
    CommandDecoder,
    ctag_of,
    encode_acknowledgement,
    encode_answer,
    encode_autonomous,
    parse_command,
    stamp,
)
from hwd_drivers.kit.tl1_messages import AckCode, Acknowledgement, Alarm, Answer, Autonomous, Command, Completion
from hwd_drivers.kit.values import Capabilities, Crossconnect, CrossconnectState
from hwd_drivers.polatis import protocol

SID: Final = "PolatisOXC"
FIRMWARE: Final = "6.5.1.7"
"""A version that real units were seen with."""

log = logging.getLogger(__name__)


class TwinOptions(BaseModel):
    """How this unit behaves where no source tells how real ones do."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    user: str | None = Field(default=None, description="the only user; left out, anybody may log in")
    password: str | None = Field(default=None, description="that user's password; left out, any")
    login_needed: bool = Field(default=True, description="commands before a login are denied with PLNA")
    in_use: Literal["move", "deny"] = Field(default="move", description="what ENT-PATCH does with ports in use")
    answer: Literal["timing", "at-once"] = Field(
        default="timing", description="at once: COMPLD does not wait for anything"
    )
    acknowledge_after_s: float | None = Field(
        default=2.0, gt=0, description="'IP ctag' before answers that take longer"
    )
    lines_per_block: int | None = Field(default=None, gt=0, description="longer answers are cut by '>'")
    reports: bool = Field(
        default=False, description="an autonomous message for each crossconnect that is tuned or gone"
    )
    dark_dbm: float = Field(default=protocol.DARK_DBM, description="what a monitor reports without light")


class PolatisTwin:
    """A twin of one unit; `mirror` is its optics, `faults` what goes wrong with it."""

    def __init__(
        self,
        *,
        name: str,
        capabilities: Capabilities,
        timing: SwitchTiming,
        draws: Draws,
        clock: Clock,
        dialer: Dialer,
        address: str,
        options: Mapping[str, Json],
    ) -> None:
        try:
            self.options = TwinOptions.model_validate(dict(options))
        except ValidationError as error:
            faults = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
            raise ConfigError(f"twin {name}: {faults}") from error
        self.name = name
        self.capabilities = capabilities
        self.numbering = protocol.Numbering.of(capabilities.ends)
        self.numbers = {end: self.numbering.number(end) for end in capabilities.ends}
        self.crossconnect = functools.lru_cache(maxsize=4096)(self.numbering.crossconnect)
        self.monitored = frozenset(self.numbers[end] for end in capabilities.monitored)
        self.serial = f"T{draws.stream(f'twin/{name}/serial').randrange(10**6):06d}"
        self.mirror = Mirror(name=name, capabilities=capabilities, timing=timing, draws=draws)
        self._clock = clock
        self._server = TwinServer(
            mirror=self.mirror,
            clock=clock,
            dialer=dialer,
            address=address,
            make_session=lambda server: _Session(self, server),
        )
        self.faults: Faults = self._server.faults
        self._reported: frozenset[Crossconnect] = frozenset()
        self._reports = 0
        self._addresses: Mapping[str, str] = {}
        if self.options.reports:
            self.mirror.on_change.append(self._report_changes)

    @property
    def sessions(self) -> int:
        """How many there are now."""
        return len(self._server.sessions)

    @property
    def addresses(self) -> Mapping[str, str]:
        return self._addresses

    @property
    def unit_type(self) -> protocol.UnitType:
        size = f"{self.numbering.inputs}x{self.numbering.outputs}" if self.numbering.outputs else self.numbering.inputs
        return protocol.UnitType(vendor="Polatis", model=f"N-OST-{size}-TWIN", type="OXC", version=FIRMWARE)

    async def start(self) -> str:
        listening = await self._server.start()
        self._addresses = {"tl1": listening}
        return listening

    async def close(self) -> None:
        await self._server.close()

    def report(self, verb: str, *lines: str, alarm: Alarm = Alarm.NONE) -> None:
        """Send an autonomous message to every session that has not muted them."""
        self._reports += 1
        at = stamp(self._clock.wall_ns())
        data = encode_autonomous(
            Autonomous(alarm=alarm, atag=str(self._reports), verb=verb, lines=lines, sid=SID, stamp=at)
        )
        for session in self._server.sessions:
            if isinstance(session, _Session) and not session.muted:
                session.send(data)

    def _report_changes(self, now_ns: int) -> None:
        readings = self.mirror.readings(now_ns)
        tuned = frozenset(each.crossconnect for each in readings if each.state is CrossconnectState.TUNED)
        changes = [(pair, "TUNED") for pair in tuned - self._reported] + [(p, "GONE") for p in self._reported - tuned]
        self._reported = tuned
        for pair, word in sorted(changes, key=lambda change: self.numbers[change[0].a]):
            one, other = self.numbers[pair.a], self.numbers[pair.b]
            self.report("REPT EVT PATCH", f'{one}:NA,{word},NSA,,,,,:"{one},{other}"')


class _Session(TwinSession):
    """One TL1 session. Commands are taken when they come; each is answered in its own time."""

    def __init__(self, twin: PolatisTwin, server: TwinServer) -> None:
        super().__init__(server)
        self.muted = False
        self._twin = twin
        self._decoder = CommandDecoder()
        self._logged_in = not twin.options.login_needed
        self._idle_s = 0
        self._idle_timer: asyncio.TimerHandle | None = None

    @override
    def data_received(self, data: bytes) -> None:
        try:
            texts = self._decoder.feed(data)
        except ProtocolError as error:
            log.warning("twin %s: %s; ending the session", self._twin.name, error)
            self.abort()
            return
        for text in filter(None, texts):
            self._take(text)
        self._watch_idleness()

    def _take(self, text: str) -> None:
        try:
            command = parse_command(text)
        except ProtocolError:
            self._deny(ctag_of(text), protocol.DenyError("IICM"))
            return
        ctag = command.ctag or "0"
        try:
            lines, delay_s = self._do(command)
        except protocol.DenyError as denial:
            self._deny(ctag, denial)
        else:
            self._answer(Answer(ctag=ctag, code=Completion.COMPLD, lines=lines), delay_s)

    def _do(self, command: Command) -> tuple[tuple[str, ...], float]:
        """Data lines and the time until they are sent."""
        if command.tid and command.tid != SID:
            raise protocol.DenyError("IITA")
        request = protocol.from_command(command)
        if not self._logged_in and not isinstance(request, protocol.Login):
            raise protocol.DenyError("PLNA")
        twin = self._twin
        match request:
            case protocol.RetrievePatch(ports=ports):
                return protocol.write_patches(self._patches(ports)), 0.0
            case protocol.EnterPatch(pairs=pairs):
                return (), self._connect(pairs)
            case protocol.DeletePatch(ports=ports):
                return (), self._disconnect(ports)
            case protocol.RetrievePower(ports=ports):
                return protocol.write_powers(self._powers(ports), dark_dbm=twin.options.dark_dbm), 0.0
            case protocol.Login(user=user, password=password):
                self._log_in(user, password)
            case protocol.Logout():
                self._logged_in = False
            case protocol.MuteReports():
                self.muted = True
            case protocol.SetIdleTimeout(timeout_s=timeout_s):
                self._idle_s = timeout_s
            case protocol.RetrieveType():
                return protocol.write_type(twin.unit_type), 0.0
            case protocol.RetrieveInventory():
                return protocol.write_serial(twin.serial), 0.0
            case protocol.RetrieveSize():
                return protocol.write_size(twin.numbering), 0.0
            case protocol.RetrieveMonitors():
                if not twin.monitored:
                    raise protocol.DenyError("IICM")
                return protocol.write_monitors(sorted(twin.monitored), twin.numbering), 0.0
            case protocol.Ping():
                pass
        return (), 0.0

    def _log_in(self, user: str, password: str) -> None:
        options = self._twin.options
        if options.user not in (None, user) or options.password not in (None, password):
            raise protocol.DenyError("PICC")
        self._logged_in = True

    def _connect(self, pairs: tuple[tuple[int, int], ...]) -> float:
        self._deny_if_told()
        twin = self._twin
        wanted = [twin.crossconnect(one, other) for one, other in pairs]
        try:
            settling = twin.mirror.connect(wanted, self.server.clock.monotonic_ns(), move=twin.options.in_use == "move")
        except RefusedError as error:
            raise protocol.DenyError("SROF", str(error)) from error
        return settling.answer_s if twin.options.answer == "timing" else 0.0

    def _disconnect(self, ports: tuple[int, ...] | None) -> float:
        self._deny_if_told()
        twin = self._twin
        ends = twin.capabilities.ends if ports is None else [twin.numbering.end(port) for port in ports]
        going = dict.fromkeys(pair for end in ends if (pair := twin.mirror.crossconnect_at(end)) is not None)
        settling = twin.mirror.disconnect(going, self.server.clock.monotonic_ns())
        return settling.answer_s if twin.options.answer == "timing" else 0.0

    def _deny_if_told(self) -> None:
        if (denial := self.server.faults.take_denial()) is not None:
            raise protocol.DenyError(denial.code, denial.text)

    def _patches(self, ports: tuple[int, ...] | None) -> list[tuple[int, int]]:
        twin = self._twin
        if ports is not None:
            for port in ports:
                twin.numbering.end(port)
        asked = None if ports is None else frozenset(ports)
        pairs = [(twin.numbers[each.a], twin.numbers[each.b]) for each in twin.mirror.crossconnects()]
        return [pair for pair in pairs if asked is None or not asked.isdisjoint(pair)]

    def _powers(self, ports: tuple[int, ...]) -> list[tuple[int, float | None]]:
        twin = self._twin
        if not twin.monitored:
            raise protocol.DenyError("IICM")
        ends = [twin.numbering.end(port) for port in ports]
        for port in ports:
            if port not in twin.monitored:
                raise protocol.DenyError("IIAC", f"No power monitor at port: {port}")
        now_ns = self.server.clock.monotonic_ns()
        return [(port, twin.mirror.power(end, now_ns)) for port, end in zip(ports, ends, strict=True)]

    def _deny(self, ctag: str, denial: protocol.DenyError) -> None:
        comments = (denial.text.replace("*/", "").replace(";", ","),) if denial.text else ()
        self._answer(Answer(ctag=ctag, code=Completion.DENY, error=denial.code, comments=comments), 0.0)

    def _answer(self, answer: Answer, delay_s: float) -> None:
        options = self._twin.options
        answered_ns = self.server.clock.wall_ns() + round(delay_s * 1e9)
        whole = Answer(
            ctag=answer.ctag,
            code=answer.code,
            error=answer.error,
            lines=answer.lines,
            comments=answer.comments,
            sid=SID,
            stamp=stamp(answered_ns),
        )
        after_s = options.acknowledge_after_s
        if after_s is not None and delay_s + self.server.faults.slow_s > after_s and not self.server.faults.silent:
            self.send(encode_acknowledgement(Acknowledgement(ctag=answer.ctag, code=AckCode.IP)), delay_s=after_s)
        self.reply(encode_answer(whole, lines_per_block=options.lines_per_block), delay_s=delay_s)

    def _watch_idleness(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        if self._idle_s:
            self._idle_timer = self.later(self._idle_s, lambda _: self.abort(), b"")
