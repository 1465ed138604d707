"""Tl1Front: a Polatis unit that answers TL1.

What no source tells of real units is a choice in `TwinOptions`, with its default as the facts make it likely.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from typing_extensions import override

from hwd_drivers.kit.clock import Clock
from hwd_drivers.kit.dial import Dialer
from hwd_drivers.kit.errors import ProtocolError
from hwd_drivers.kit.server import TwinServer, TwinSession
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
from hwd_drivers.kit.values import Crossconnect, CrossconnectState
from hwd_drivers.polatis.numbering import UnitError, Wrong
from hwd_drivers.polatis.tl1 import protocol
from hwd_drivers.polatis.unit import Unit

SID: Final = "PolatisOXC"

CODES: Final[Mapping[Wrong, str]] = {
    Wrong.PORT: "IIAC",
    Wrong.SIDE: "IIAC",
    Wrong.LIST: "IIAC",
    Wrong.IN_USE: "SROF",
    Wrong.HARDWARE: "IICM",
    Wrong.VALUE: "IDRG",
    Wrong.STATE: "SNVS",
    Wrong.TOLD: "SROF",
}
"""IIAC for a wrong port and IICM for hardware that is not there are as seen; the others are of TL1 in general."""

log = logging.getLogger(__name__)


class Tl1Front:
    """Answers TL1 for a unit."""

    def __init__(self, unit: Unit, *, dialer: Dialer, clock: Clock, address: str) -> None:
        self.unit = unit
        self._clock = clock
        self._server = TwinServer(
            mirror=unit.mirror,
            clock=clock,
            dialer=dialer,
            address=address,
            make_session=lambda server: _Session(self, server),
            faults=unit.faults,
        )
        self._reported: frozenset[Crossconnect] = frozenset()
        self._reports = 0
        if unit.options.reports:
            unit.mirror.on_change.append(self._report_changes)

    @property
    def sessions(self) -> int:
        """How many there are now."""
        return len(self._server.sessions)

    @property
    def unit_type(self) -> protocol.UnitType:
        product = self.unit.product
        return protocol.UnitType(vendor=product.vendor, model=product.code, type="OXC", version=product.firmware)

    async def start(self) -> str:
        return await self._server.start()

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
        readings = self.unit.mirror.readings(now_ns)
        tuned = frozenset(each.crossconnect for each in readings if each.state is CrossconnectState.TUNED)
        changes = [(pair, "TUNED") for pair in tuned - self._reported] + [(p, "GONE") for p in self._reported - tuned]
        self._reported = tuned
        numbers = self.unit.numbers
        for pair, word in sorted(changes, key=lambda change: numbers[change[0].a]):
            one, other = numbers[pair.a], numbers[pair.b]
            self.report("REPT EVT PATCH", f'{one}:NA,{word},NSA,,,,,:"{one},{other}"')


class _Session(TwinSession):
    """One TL1 session. Commands are taken when they come; each is answered in its own time."""

    def __init__(self, front: Tl1Front, server: TwinServer) -> None:
        super().__init__(server)
        self.muted = False
        self._front = front
        self._unit = front.unit
        self._options = front.unit.options
        self._decoder = CommandDecoder()
        self._logged_in = not front.unit.options.login_needed
        self._idle_s = 0
        self._idle_timer: asyncio.TimerHandle | None = None

    @override
    def data_received(self, data: bytes) -> None:
        try:
            texts = self._decoder.feed(data)
        except ProtocolError as error:
            log.warning("twin %s: %s; ending the session", self._unit.name, error)
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
        except protocol.ListError as denial:
            self._deny(ctag, protocol.DenyError(self._options.list_code, denial.text))
        except protocol.DenyError as denial:
            self._deny(ctag, denial)
        except UnitError as error:
            code = self._options.list_code if error.wrong is Wrong.LIST else error.code or CODES[error.wrong]
            self._deny(ctag, protocol.DenyError(code, error.text))
        else:
            self._answer(Answer(ctag=ctag, code=Completion.COMPLD, lines=lines), delay_s)

    def _do(self, command: Command) -> tuple[tuple[str, ...], float]:
        """Data lines and the time until they are sent."""
        if command.tid and command.tid != SID:
            raise protocol.DenyError("IITA")
        request = protocol.from_command(command)
        if not self._logged_in and not isinstance(request, protocol.Login):
            raise protocol.DenyError("PLNA")
        unit = self._unit
        match request:
            case protocol.RetrievePatch(ports=ports):
                return protocol.write_patches(unit.pairs(ports)), 0.0
            case protocol.EnterPatch(pairs=pairs):
                return (), unit.connect(pairs)
            case protocol.DeletePatch(ports=ports):
                return (), unit.disconnect(ports)
            case protocol.RetrievePower(ports=ports):
                return protocol.write_powers(unit.powers(ports), dark_dbm=self._options.dark_dbm), 0.0
            case protocol.Login(user=user, password=password):
                self._log_in(user, password)
            case protocol.Logout():
                self._logged_in = False
            case protocol.MuteReports():
                self.muted = True
            case protocol.SetIdleTimeout(timeout_s=timeout_s):
                self._idle_s = timeout_s
            case protocol.RetrieveType():
                return protocol.write_type(self._front.unit_type), 0.0
            case protocol.RetrieveInventory():
                return protocol.write_serial(unit.product.serial), 0.0
            case protocol.RetrieveSize():
                return protocol.write_size(unit.numbering), 0.0
            case protocol.RetrieveMonitors():
                if not unit.monitored:
                    raise UnitError(Wrong.HARDWARE)
                return protocol.write_monitors(sorted(unit.monitored), unit.numbering), 0.0
            case protocol.Ping():
                pass
        return (), 0.0

    def _log_in(self, user: str, password: str) -> None:
        if not self._unit.takes(user, password):
            raise protocol.DenyError("PICC")
        self._logged_in = True

    def _deny(self, ctag: str, denial: protocol.DenyError) -> None:
        comments = (denial.text.replace("*/", "").replace(";", ","),) if denial.text else ()
        self._answer(Answer(ctag=ctag, code=Completion.DENY, error=denial.code, comments=comments), 0.0)

    def _answer(self, answer: Answer, delay_s: float) -> None:
        options = self._options
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
