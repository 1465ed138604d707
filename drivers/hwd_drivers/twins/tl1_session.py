"""Tl1Session: one TL1 client of a twin, and Tl1Front, its server, which also sends autonomous messages.

Commands are executed as they come; each answer has its own delay.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, TypeVar

from typing_extensions import override

from hwd_drivers.codecs.tl1 import (
    CommandDecoder,
    CtagError,
    ctag_of,
    encode_answer,
    encode_autonomous,
    parse_command,
    stamp,
)
from hwd_drivers.codecs.tl1_messages import Alarm, Answer, Autonomous, Command, Completion
from hwd_drivers.codecs.tl1_words import unquote
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.unit_error import UnitError
from hwd_drivers.twins.server import TwinServer, TwinSession
from hwd_drivers.twins.unit_twin import Front, SimulatedUnit

UnitT = TypeVar("UnitT", bound=SimulatedUnit)

log = logging.getLogger(__name__)


class DenyError(ProtocolError):
    """A command that a unit answers with DENY: its code and comment."""

    def __init__(self, code: str, text: str = "") -> None:
        super().__init__(f"{code} {text}".rstrip())
        self.code = code
        self.text = text


Action = Callable[[], tuple[str, ...] | float | None]
"""Executes a command that was understood: returns data lines, or the seconds until the answer.

Raises DenyError or UnitError where the unit refuses.
"""


class Tl1Session(TwinSession, ABC):
    """One client. Subclasses know the commands of a unit, and log in.

    `sid`: name of the unit in each answer. `prompt`: printed after each answer. `wrong_ctag`, `wrong_command`,
    `wrong_target`: comments to a command whose CTAG, form or TID is wrong; None is the finding. `no_login`: comment to
    a command before a login; `notice`: comments to a login.
    """

    sid: ClassVar[str]
    prompt: ClassVar[str] = ""
    wrong_ctag: ClassVar[str | None] = None
    wrong_command: ClassVar[str] = ""
    wrong_target: ClassVar[str] = ""
    no_login: ClassVar[str] = ""
    notice: ClassVar[tuple[str, ...]] = ()

    def __init__(self, server: TwinServer, *, login_needed: bool, lines_per_block: int | None) -> None:
        super().__init__(server)
        self.logged_in = not login_needed
        self._decoder = CommandDecoder()
        self._lines_per_block = lines_per_block

    @abstractmethod
    def action(self, command: Command) -> Action:
        """What a command does. Raises DenyError, or UnitError, for a wrong one."""

    @abstractmethod
    def log_in(self, user: str, password: str) -> tuple[str, ...]:
        """Check a login; returns the data lines. Raises DenyError."""

    @abstractmethod
    def denial(self, error: UnitError) -> DenyError:
        """The unit's refusal in the words of TL1."""

    @property
    def hears(self) -> bool:
        """Whether the session gets autonomous messages."""
        return self.logged_in

    @override
    def data_received(self, data: bytes) -> None:
        try:
            texts = self._decoder.feed(data)
        except ProtocolError as error:
            log.warning("twin %s: %s; ending the session", self.server.mirror.name, error)
            self.abort()
            return
        for text in filter(None, texts):
            self.note_input()
            self._take(text)

    def answer(self, answer: Answer, delay_s: float) -> None:
        """Send an answer, with the unit's name and the time when it is sent."""
        answered_ns = self.server.clock.wall_ns() + round(delay_s * 1e9)
        whole = replace(answer, sid=self.sid, stamp=stamp(answered_ns))
        data = encode_answer(whole, lines_per_block=self._lines_per_block)
        self.reply(data + self.prompt.encode(), delay_s=delay_s)

    def _take(self, text: str) -> None:
        try:
            command = parse_command(text)
        except CtagError as error:
            self._deny("0", DenyError("IICT", str(error) if self.wrong_ctag is None else self.wrong_ctag))
            return
        except ProtocolError:
            self._deny(ctag_of(text), DenyError("IICM", self.wrong_command))
            return
        ctag = command.ctag or "0"
        try:
            lines, delay_s = self.execute(command)
        except DenyError as denial:
            self._deny(ctag, denial)
        except UnitError as error:
            self._deny(ctag, self.denial(error))
        else:
            comments = self.notice if command.verb == "ACT-USER" else ()
            self.answer(Answer(ctag=ctag, code=Completion.COMPLD, lines=lines, comments=comments), delay_s)

    def execute(self, command: Command) -> tuple[tuple[str, ...], float]:
        """Data lines, and the seconds until they are sent. A wrong command is denied before a missing login is."""
        if command.tid and command.tid != self.sid:
            raise DenyError("IITA", self.wrong_target)
        aid = unquote(command.aid)
        match command.verb:
            case "ACT-USER":
                lines = self.log_in(aid, command.positional[0] if command.positional else "")
                self.logged_in = True
                return lines, 0.0
            case "CANC-USER":
                action: Action = self._log_out
            case "RTRV-HDR":
                action = tuple
            case _:
                action = self.action(command)
        if not self.logged_in:
            raise DenyError("PLNA", self.no_login)
        result = action()
        return (result, 0.0) if isinstance(result, tuple) else ((), result or 0.0)

    def _log_out(self) -> None:
        self.logged_in = False

    def _deny(self, ctag: str, denial: DenyError) -> None:
        comments = (denial.text.replace("*/", "").replace(";", ","),) if denial.text else ()
        self.answer(Answer(ctag=ctag, code=Completion.DENY, error=denial.code, comments=comments), 0.0)


class Tl1Front(Front[UnitT]):
    """The TL1 server of a unit."""

    _reports = 0

    def report(self, verb: str, *lines: str, alarm: Alarm = Alarm.NONE) -> None:
        """Send an autonomous message to every session that gets them."""
        self._reports += 1
        for session in self.sessions:
            if isinstance(session, Tl1Session) and session.hears:
                session.send(
                    encode_autonomous(
                        Autonomous(
                            alarm=alarm,
                            atag=str(self._reports),
                            verb=verb,
                            lines=lines,
                            sid=session.sid,
                            stamp=stamp(self.clock.wall_ns()),
                        )
                    )
                )
