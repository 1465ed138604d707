"""LinePart: the table of a part that speaks lines of text, for its driver and its twin."""

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Literal

from pydantic import BaseModel
from typing_extensions import override

from hwd_drivers.codecs.lines import LineDecoder
from hwd_drivers.core.errors import ConfigError, ProtocolError
from hwd_drivers.core.values import Capabilities, Identity
from hwd_drivers.devices.element_switch import OneElementSwitch
from hwd_drivers.devices.ordered import Request
from hwd_drivers.devices.serial_part import Deed, SerialPart, Unit
from hwd_drivers.transports.serial_line import SerialLine

LIMIT_BYTES: Final = 256
"""Longest line; the longest known one is the name of a board with its firmware."""
LIMIT_LINES: Final = 32
"""Most data lines of one answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An answer; of several data lines the text has LF between them."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A refusal: the command was not done."""

    code: str
    text: str


Answer = Line | Failure


def channel_of(unit: Unit) -> str:
    """The channel of a unit, from 1; 0 is the dark state."""
    return str((unit.states[0] + 1) % (unit.channels + 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A row of the table: a query, a regular expression of a whole answer, and the answer of a twin.

    The first group of the expression is a number: the channel, or how many there are.
    """

    line: str
    answer: str
    twin: Callable[[Unit], str] = channel_of

    def number(self, text: str) -> int | None:
        """The number in an answer; None where it is no answer to this query."""
        match = re.fullmatch(self.answer, text)
        return int(match[1]) if match else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinePart(SerialPart[str, Answer]):
    """The table of a part that speaks lines.

    `name`: of the protocol, in errors. `where`: the query of the channel, from 1. `select`: the command for channel
    `{}`, which `number` is a regular expression of. `park`: the command for the dark state, which is channel 0 too.
    `identity`: queries, and `identify`: what their answers say. `size`: the query of the number of channels, and
    `says`: what it found, for the error where the testbed has another. `opening`: queries at opening, in place of those
    of the identity.

    `end`: what ends a command, `before`: what comes before an answer. `ok`: the line that ends each answer, also that
    to a selection, whose time the options of the twin have (`AnswerTime`); without it an answer is one line, and a
    selection has none. `refusal_line`: a regular expression of a line that refuses, with groups `code` and `text`, and
    `refuse`: such a line. `echo`: the commands that end and begin the echo of commands, which a twin with the option
    `echo` does from the start.

    `unknown`, `no_channel`: code and text, with a comma between them, of the twin's refusal of an unknown command, and
    of a channel that there is not. `old`: as `SerialPart.reports_old`.
    """

    name: str
    line: SerialLine
    options: type[BaseModel]
    where: Query
    select: str
    identity: Sequence[Query]
    identify: Callable[..., Identity]
    number: str = "[0-9]{1,4}"
    park: str | None = None
    size: Query | None = None
    says: str = ""
    opening: Sequence[Query] = ()
    end: str = "\r\n"
    before: str = ""
    ok: str | None = None
    refusal_line: str | None = None
    refuse: str | None = None
    echo: tuple[str, str] | None = None
    unknown: Callable[[Any], str] = lambda options: ""
    no_channel: Callable[[Any], str] = lambda options: ""
    old: Callable[[Any], Literal["first", "moving", "never"]] = lambda options: "never"
    denial: tuple[str, str] | None = None

    @override
    def answers(self) -> Callable[[bytes], Sequence[Answer]]:
        return _Answers(self).feed

    @override
    def commands(self) -> Callable[[bytes], Sequence[str]]:
        return LineDecoder(self.name, limit_bytes=LIMIT_BYTES).feed

    @override
    def refuses(self, answer: Answer) -> bool:
        return isinstance(answer, Failure)

    @override
    def refusal(self, answer: Answer) -> tuple[str, str]:
        return (answer.code, answer.text) if isinstance(answer, Failure) else ("", answer.text)

    def state(self, text: str, channels: int) -> int | None:
        """The number of the state in an answer to `where`; None where it is none."""
        match = self._channel.fullmatch(text)
        return self._state_of(int(match[1]), channels) if match else None

    @functools.cached_property
    def _channel(self) -> re.Pattern[str]:
        return re.compile(self.where.answer)

    def parse(self, line: str) -> Query | int | Literal["park", "echo"] | None:
        """A command: its query, the channel that it selects, or None for an unknown one."""
        if line in self._plain:
            return self._plain[line]
        match = self._selection.fullmatch(line)
        return int(match[1]) if match else None

    @functools.cached_property
    def _plain(self) -> dict[str, Query | Literal["park", "echo"]]:
        """The commands without a number."""
        plain: dict[str, Query | Literal["park", "echo"]] = dict.fromkeys(self.echo or (), "echo")
        if self.park is not None:
            plain[self.park] = "park"
        queries = (self.where, *self.identity, *self.opening, *([] if self.size is None else [self.size]))
        return plain | {query.line: query for query in queries}

    @functools.cached_property
    def _selection(self) -> re.Pattern[str]:
        head, _, tail = self.select.partition("{}")
        return re.compile(f"{re.escape(head)}({self.number}){re.escape(tail)}")

    @override
    def serve(self, command: str, unit: Unit) -> Deed:
        deed = self._deed(command, unit)
        if unit.echoes:
            return replace(deed, answer=command.encode() + (deed.answer or b"\n"))
        return deed

    @override
    def other(self, command: str) -> str:
        return self.identity[0].line if command == self.where.line else self.where.line

    @override
    def denied(self, command: str, unit: Unit, code: str, text: str) -> bytes:
        return b"" if self.refuse is None else f"{self.refuse.format(code=code, text=text)}\r\n".encode()

    @override
    def reports_old(self, options: Any) -> Literal["first", "moving", "never"]:
        return self.old(options)

    def _deed(self, command: str, unit: Unit) -> Deed:
        match self.parse(command):
            case Query() as query:
                return Deed(answer=self._encode(query.twin(unit)), reports=query is self.where)
            case "echo":
                return Deed(echoes=self.echo is not None and command == self.echo[1])
            case "park":
                return self._move_to(unit.channels, unit)
            case int() as channel if (state := self._state_of(channel, unit.channels)) is not None:
                return self._move_to(state, unit)
            case found:
                wrong = (self.unknown if found is None else self.no_channel)(unit.options)
        code, _, text = wrong.partition(",")
        return Deed(answer=self.denied(command, unit, code, text))

    def _move_to(self, state: int, unit: Unit) -> Deed:
        if self.ok is None:
            return Deed(targets={0: state})
        return Deed(answer=self._encode(""), targets={0: state}, when_moved=unit.options.answer == "timing")

    def _state_of(self, channel: int, channels: int) -> int | None:
        if channel == 0 and self.park is not None:
            return channels
        return channel - 1 if 1 <= channel <= channels else None

    def _encode(self, text: str) -> bytes:
        lines = [text] if self.ok is None else [*filter(None, text.split("\n")), self.ok]
        return (self.before + "".join(f"{line}\r\n" for line in lines)).encode()


class LineElement(OneElementSwitch[Answer]):
    """One session with a part that speaks lines. A subclass names its table."""

    part: ClassVar[LinePart]

    @override
    async def _begin(self, deadline_s: float) -> None:
        await self._ask(*map(self._request, self.part.opening or self.part.identity), deadline_s=deadline_s)

    async def identify(self, *, deadline_s: float) -> Identity:
        answers = await self._ask(*map(self._request, self.part.identity), deadline_s=deadline_s)
        return self.part.identify(*(answer.text for answer in answers))

    @override
    async def capabilities(self, *, deadline_s: float) -> Capabilities:
        """Capabilities of the configured size. Raises ConfigError where the device reports another."""
        if self.part.size is not None:
            (answer,) = await self._ask(self._request(self.part.size), deadline_s=deadline_s)
            found = self.part.size.number(answer.text)
            if found != self._channels:
                says = self.part.says.format(text=answer.text, channels=found)
                raise ConfigError(
                    f"{self.name}: {says}, the testbed says 1x{self._channels}. Correct its size in the testbed file"
                )
        return self._context.capabilities

    @override
    def _where(self) -> Request[Answer]:
        return self._request(self.part.where)

    @override
    def _state(self, answer: Answer) -> int:
        state = self.part.state(answer.text, self._channels)
        assert state is not None  # refusals were raised, and `fits` excludes others
        return state

    @override
    def _select(self, state: int) -> Request[Answer]:
        part = self.part
        dark = part.park is not None and state == self._channels
        what = str(part.park) if dark else part.select.format(state + 1)
        return Request(
            data=f"{what}{part.end}".encode(),
            what=what,
            answers=0 if part.ok is None else 1,
            fits=lambda answer: not answer.text,
        )

    def _request(self, query: Query) -> Request[Answer]:
        part, channels, matches = self.part, self._channels, re.compile(query.answer).fullmatch

        def fits(answer: Answer) -> bool:
            return matches(answer.text) is not None

        def is_state(answer: Answer) -> bool:
            return part.state(answer.text, channels) is not None

        data = f"{query.line}{part.end}".encode()
        return Request(data=data, what=query.line, fits=is_state if query is part.where else fits)


class _Answers:
    """Turns the bytes of a part into answers, without echoed commands."""

    def __init__(self, part: LinePart) -> None:
        self._part = part
        self._lines = LineDecoder(part.name, limit_bytes=LIMIT_BYTES)
        self._refusal = None if part.refusal_line is None else re.compile(part.refusal_line)
        self._data: list[str] = []

    def feed(self, data: bytes) -> Sequence[Answer]:
        answers: list[Answer] = []
        part = self._part
        for line in self._lines.feed(data):
            if not line.isprintable():
                raise ProtocolError(f"{line!r} has characters that are not allowed in an answer")
            if part.echo is not None and part.parse(line) is not None:
                continue
            if self._refusal is not None and (match := self._refusal.fullmatch(line)):
                answers.append(Failure(code=match["code"], text=match["text"] or "; ".join(self._data)))
                self._data.clear()
            elif part.ok is None:
                answers.append(Line(text=line))
            elif line == part.ok:
                answers.append(Line(text="\n".join(self._data)))
                self._data.clear()
            else:
                self._data.append(line)
                if len(self._data) > LIMIT_LINES:
                    word, limit = str(part.refuse).partition(" ")[0], f"limit {LIMIT_LINES}"
                    raise ProtocolError(f"{len(self._data)} lines without {part.ok} or {word}, {limit}")
        return answers
