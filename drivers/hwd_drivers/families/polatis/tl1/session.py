"""Tl1Session: one TL1 client of a Polatis unit. Commands are executed as they come; each answer has its own delay."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from typing_extensions import override

from hwd_drivers.codecs.tl1 import (
    CommandDecoder,
    CtagError,
    ctag_of,
    encode_acknowledgement,
    encode_answer,
    parse_command,
    stamp,
)
from hwd_drivers.codecs.tl1_messages import AckCode, Acknowledgement, Answer, Command, Completion
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.families.polatis.numbering import UnitError, Wrong
from hwd_drivers.families.polatis.tl1 import protocol
from hwd_drivers.families.polatis.tl1 import requests as ask
from hwd_drivers.families.polatis.tl1.execution import answer_lines, change, is_change
from hwd_drivers.families.polatis.unit import Unit
from hwd_drivers.twins.server import TwinServer, TwinSession

SID: Final = "PolatisOXC"

CODES: Final[Mapping[Wrong, str]] = {
    Wrong.PORT: "IIAC",
    Wrong.SIDE: "IIAC",
    Wrong.LIST: "IIAC",
    Wrong.IN_USE: "SROF",
    Wrong.HARDWARE: "IICM",
    Wrong.VALUE: "IDRG",
    Wrong.NAME: "IIAC",
    Wrong.STATE: "SNVS",
    Wrong.FAULT: "SROF",
}
"""IIAC for a wrong port and IICM for missing hardware were seen; the others are general TL1 codes."""

log = logging.getLogger(__name__)


class Tl1Session(TwinSession):
    """One TL1 session. Commands are executed as they come; each answer has its own delay."""

    def __init__(self, unit: Unit, server: TwinServer) -> None:
        super().__init__(server)
        self._unit = unit
        self._options = unit.options
        self._decoder = CommandDecoder()
        self._muted = False
        self._logged_in = not unit.options.login_needed

    @property
    def hears(self) -> bool:
        """Whether the session gets autonomous messages: it has logged in, and has not muted them."""
        return self._logged_in and not self._muted

    @override
    def data_received(self, data: bytes) -> None:
        try:
            texts = self._decoder.feed(data)
        except ProtocolError as error:
            log.warning("twin %s: %s; ending the session", self._unit.name, error)
            self.abort()
            return
        for text in filter(None, texts):
            self.note_input()
            self._take(text)

    def _take(self, text: str) -> None:
        try:
            command = parse_command(text)
        except CtagError as error:
            self._deny("0", protocol.DenyError("IICT", str(error)))
            return
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
            # As seen: requests for missing hardware are denied with the code alone.
            self._deny(ctag, protocol.DenyError(code, "" if error.wrong is Wrong.HARDWARE else error.text))
        else:
            if self.server.faults.take_wrong():
                lines = answer_lines(self._unit, ask.RetrieveType())
            self._answer(Answer(ctag=ctag, code=Completion.COMPLD, lines=lines), delay_s)

    def _do(self, command: Command) -> tuple[tuple[str, ...], float]:
        """Data lines and the time until they are sent."""
        if command.tid and command.tid != SID:
            raise protocol.DenyError("IITA")
        request = protocol.from_command(self._with_all(command))
        if not self._logged_in and not isinstance(request, ask.Login):
            raise protocol.DenyError("PLNA")
        match request:
            case ask.EnterPatch(pairs=pairs):
                return (), self._unit.connect(pairs)
            case ask.DeletePatch(ports=ports):
                return (), self._unit.disconnect(ports)
            case ask.Login(user=user, password=password):
                self._log_in(user, password)
            case ask.Logout():
                self._logged_in = False
            case ask.MuteReports():
                self._muted = True
            case ask.SetIdleTimeout(timeout_s=timeout_s):
                self.end_after_idle(timeout_s)
            case ask.Ping():
                pass
            case _:
                if is_change(request):
                    change(self._unit, request)
                else:
                    return answer_lines(self._unit, request), 0.0
        return (), 0.0

    def _with_all(self, command: Command) -> Command:
        """Replace ALL by port numbers, which published programs use for ALL; a reading may leave the ports out too."""
        verb, aid = command.verb, command.aid.upper()
        if "-PORT-" not in verb and not verb.endswith("-PMON"):
            return command
        if aid == "ALL" or (aid == "" and verb.startswith("RTRV-") and verb != "RTRV-PORT-FLAP"):
            return replace(command, aid=f"1&&{self._unit.numbering.total}")
        return command

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
