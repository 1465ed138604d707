"""TL1 without I/O: commands, answers and autonomous messages, from bytes and to bytes.

Grammar as the manuals of Symmetricom SSU-2000, Adtran MX2800 and Cisco ONS 15454 agree on it (Telcordia GR-831). The
meaning of a vendor's verbs is in that vendor's `protocol.py`.

    decoder = AnswerDecoder()
    for message in decoder.feed(data):
        match message:
            case Answer(ctag=ctag, code=Completion.COMPLD): ...
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from hwd_drivers.codecs.tl1_messages import (
    AckCode,
    Acknowledgement,
    Alarm,
    Answer,
    Autonomous,
    Command,
    Completion,
    Message,
)
from hwd_drivers.codecs.tl1_words import quote, quote_always, shorten, unquote
from hwd_drivers.core.errors import ProtocolError

ANSWER_LIMIT_BYTES: Final = 1 << 20
"""Largest answer, all its blocks together: the power list of a 640-port switch is 12 kB."""
COMMAND_LIMIT_BYTES: Final = 1 << 16
"""Largest command: 640 port numbers make 3 kB."""
CTAG_MAX: Final = 999_999
"""A CTAG has one to six characters."""


_VERB = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:-[A-Za-z0-9]+)*")
_CTAG = re.compile(r"[A-Za-z0-9]{1,6}")
_NAME = re.compile(r"[A-Za-z0-9_-]+")
_STAMP = re.compile(r"\d{2,4}-\d\d-\d\d \d\d:\d\d:\d\d$")
_STAMP_CHARACTERS: Final = len("2026-01-31 23:59:59")
_REPLY = re.compile(r"M  (\S{1,6}) ([A-Z]+)\s*")
_REPORT = re.compile(r"(\*C|\*\*|\* |A ) ?(\S+) (\S.*)")
"""Without the blanks at its end: a pattern that searches for those from each place takes quadratic time."""
_DONE = re.compile(r"\s*\n {0,9}(\S+) (\d\d-\d\d-\d\d \d\d:\d\d:\d\d)\nM  (\S{1,6}) COMPLD\n?")
"""The form of a common answer, without its plain data lines."""
_ACK = re.compile(r"([A-Z]{2}) (\S{1,6})\s*")
_ERROR_CODE = re.compile(r"[A-Z]{4}")
_BETWEEN: Final = " \t\r\n\0"
"""Characters allowed between commands: some terminals send CR as CR NUL."""
_END = re.compile(rb"\n[;<>]")
"""A terminator is the first character of its line; data lines begin with three blanks."""


class CtagError(ProtocolError):
    """A command whose CTAG cannot be sent back: it is denied under CTAG 0 with IICT, and not done."""


class AnswerDecoder:
    """Turns the bytes of a network element into messages; used by clients.

    Blocks of one answer that end in `>` are joined; other messages may come between them. `prompt` is a text that some
    elements print when they are ready, before any message, such as `agent>`. Raises ProtocolError on anything else,
    after which the decoder must not be used again.
    """

    def __init__(self, *, limit_bytes: int = ANSWER_LIMIT_BYTES, prompt: str = "") -> None:
        self._limit_bytes = limit_bytes
        self._prompt = prompt
        self._buffer = bytearray()
        self._scanned = 0
        self._blank = True  # the buffer holds only white space
        self._begun: dict[tuple[type[Message], str], list[Answer | Autonomous]] = {}
        self._begun_bytes = 0

    def feed(self, data: bytes) -> list[Message]:
        """The messages that `data` completes, in order."""
        buffer = self._buffer
        buffer += data
        messages: list[Message] = []
        start = 0
        while end := _END.search(buffer, max(self._scanned, start)):
            message = self._take(
                _text(bytes(buffer[start : end.start()])), chr(buffer[end.end() - 1]), end.end() - start
            )
            if message is not None:
                messages.append(message)
            start = end.end()
        del buffer[:start]
        if start or self._blank:  # checked once, however the bytes come
            self._blank = not buffer or buffer.isspace()
        if self._blank:  # space after a terminator, keepalive line feeds; the last line may begin a prompt
            del buffer[:-1]
        self._scanned = max(0, len(buffer) - 1)
        if len(buffer) + self._begun_bytes > self._limit_bytes:
            raise ProtocolError(
                f"TL1 answer: {len(buffer) + self._begun_bytes} bytes without an end, limit {self._limit_bytes} bytes"
            )
        return messages

    def _take(self, text: str, end: str, size_bytes: int) -> Message | None:
        if end == "<":
            return _parse_acknowledgement(self._after_prompts(text))
        message = _parse_block(self._after_prompts(text) if self._prompt else text)
        if end == ";" and not self._begun:
            return message
        key = (type(message), message.ctag if isinstance(message, Answer) else message.atag)
        if end == ">":
            self._begun.setdefault(key, []).append(message)
            self._begun_bytes += size_bytes
            return None
        if (begun := self._begun.pop(key, None)) is not None:
            self._begun_bytes = self._begun_bytes if self._begun else 0
            blocks = (*begun, message)
            message = replace(
                message,
                lines=tuple(line for block in blocks for line in block.lines),
                comments=tuple(comment for block in blocks for comment in block.comments),
            )
        return message

    def _after_prompts(self, text: str) -> str:
        at = 0
        while self._prompt and text.startswith(self._prompt, start := at + _spaces(text, at)):
            at = start + len(self._prompt)
        return text[at:]


class CommandDecoder:
    """Cuts a client's bytes into the texts of commands; used by network elements. Parse each with `parse_command`."""

    def __init__(self, *, limit_bytes: int = COMMAND_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._begun = bytearray()
        self._quoted = False
        self._escaped = False

    def feed(self, data: bytes) -> list[str]:
        """The commands that `data` completes, without `;`.

        Raises ProtocolError over the limit and on bytes that are not text.
        """
        whole: list[bytes] = []
        if self._quoted or b'"' in data:
            self._cut_quoted(data, whole)
        else:
            *ended, rest = data.split(b";")
            for part in ended:
                whole.append(bytes(self._begun) + part)
                self._begun.clear()
            self._begun += rest
        if len(self._begun) > self._limit_bytes:
            raise ProtocolError(f"TL1 command: {len(self._begun)} bytes without ';', limit {self._limit_bytes} bytes")
        return [_text(part).strip(_BETWEEN) for part in whole]

    def _cut_quoted(self, data: bytes, whole: list[bytes]) -> None:
        for byte in data:
            if byte == 0x3B and not self._quoted:
                whole.append(bytes(self._begun))
                self._begun.clear()
                continue
            self._begun.append(byte)
            if self._escaped:
                self._escaped = False
            elif byte == 0x22:
                self._quoted = not self._quoted
            elif byte == 0x5C and self._quoted:
                self._escaped = True


def encode_command(command: Command, *, ctag: str | None = None) -> bytes:
    """The bytes of a command, with `ctag` in place of its own. Empty last blocks are left out, as known clients do."""
    if ctag is not None and not (command.tid or command.positional or command.named):
        return f"{command.verb}::{command.aid}:{ctag}:{command.general};\n".encode()  # the common form
    blocks = [
        command.verb,
        quote(command.tid),
        command.aid,
        command.ctag if ctag is None else ctag,
        command.general,
        ",".join(quote(value) for value in command.positional),
        ",".join(f"{name}={quote(value)}" for name, value in command.named),
    ]
    while len(blocks) > 5 and not blocks[-1]:
        blocks.pop()
    return f"{':'.join(blocks)};\n".encode()


def parse_command(text: str) -> Command:
    """Read a command without its `;`. Raises ProtocolError with the mistake in it."""
    blocks = _split(text, ":")
    verb = blocks[0].strip()
    if not _VERB.fullmatch(verb):
        raise ProtocolError(f"TL1 command {shorten(verb)}: not a verb")
    if any(blocks[7:]):
        raise ProtocolError(f"TL1 command {verb}: {len(blocks)} blocks, at most 7 are known")
    _, tid, aid, ctag, general, positional, named = (blocks + [""] * 6)[:7]
    if ctag and not _CTAG.fullmatch(ctag):
        raise CtagError(f"TL1 command {verb}: CTAG {shorten(ctag)} is not 1 to 6 letters and digits")
    return Command(
        verb=verb.upper(),
        tid=unquote(tid),
        aid=aid,
        ctag=ctag,
        general=general,
        positional=tuple(unquote(value) for value in _split(positional, ",")) if positional else (),
        named=tuple(_parse_named(verb, part) for part in _split(named, ",")) if named else (),
    )


def ctag_of(text: str) -> str:
    """The CTAG of a command that cannot be parsed; `0`, as in the manuals, where there is none."""
    blocks = text.split(":")
    return blocks[3] if len(blocks) > 3 and _CTAG.fullmatch(blocks[3]) else "0"


def encode_answer(answer: Answer, *, lines_per_block: int | None = None) -> bytes:
    """The bytes of an answer, in blocks of `lines_per_block` data lines if that is set."""
    head = f"\r\n\n   {answer.sid} {answer.stamp}\r\nM  {answer.ctag} {answer.code}\r\n"
    if answer.error:
        head += f"   {answer.error}\r\n"
    return _encode_blocks(head, answer.lines, answer.comments, lines_per_block)


def encode_autonomous(message: Autonomous) -> bytes:
    head = f"\r\n\n   {message.sid} {message.stamp}\r\n{message.alarm:<2} {message.atag} {message.verb}\r\n"
    return _encode_blocks(head, message.lines, message.comments, None)


def encode_acknowledgement(message: Acknowledgement) -> bytes:
    return f"\r\n{message.code} {message.ctag}\r\n<".encode()


def stamp(wall_ns: int) -> str:
    """Date and time of an answer's header, UTC."""
    return datetime.fromtimestamp(wall_ns // 1_000_000_000, UTC).strftime("%y-%m-%d %H:%M:%S")


def _parse_block(text: str) -> Answer | Autonomous:
    head, opened, data = text.replace("\r", "").partition('\n   "')
    plain = _plain_lines(data) if opened else ()
    if plain is None:
        head, plain = f"{head}{opened}{data}", ()
    if done := _DONE.fullmatch(head):
        return Answer(ctag=done[3], code=Completion.COMPLD, lines=plain, sid=done[1], stamp=done[2])
    lines = [line for line in head.split("\n") if line.strip()]
    if len(lines) < 2:
        raise ProtocolError(f"TL1 answer {shorten(text)}: no header and no completion line")
    header = lines[0].strip()
    stamped = _STAMP.search(header[-_STAMP_CHARACTERS:])
    if stamped is None:
        raise ProtocolError(f"TL1 answer: header {shorten(lines[0])} is not 'SID date time'")
    sid = header[: -len(stamped[0])].rstrip()
    if reply := _REPLY.fullmatch(lines[1]):
        try:
            code = Completion(reply[2])
        except ValueError:
            raise ProtocolError(f"TL1 answer {reply[1]}: unknown completion code {reply[2]}") from None
        error, rest = "", lines[2:]
        if code is not Completion.COMPLD and rest and _ERROR_CODE.fullmatch(rest[0].strip()):
            error, rest = rest[0].strip(), rest[1:]
        others, comments = _parse_lines(rest)
        return Answer(
            ctag=reply[1],
            code=code,
            error=error,
            lines=others + plain,
            comments=comments,
            sid=sid,
            stamp=stamped[0],
        )
    if report := _REPORT.fullmatch(lines[1].rstrip()):
        others, comments = _parse_lines(lines[2:])
        return Autonomous(
            alarm=Alarm(report[1].strip()),
            atag=report[2],
            verb=report[3],
            lines=others + plain,
            comments=comments,
            sid=sid,
            stamp=stamped[0],
        )
    raise ProtocolError(
        f"TL1 answer: {shorten(lines[1])} is neither 'M  ctag code' nor the head of an autonomous message"
    )


def _plain_lines(data: str) -> tuple[str, ...] | None:
    """The data lines after the first quote, if all have both quotes and no escapes, as nearly always; else None."""
    data = data.rstrip("\n")
    if not data.endswith('"') or "\\" in data:
        return None
    lines = data[:-1].split('"\n   "')
    if data.count('"') != 2 * len(lines) - 1 or data.count("\n") != len(lines) - 1:
        return None
    return tuple(lines)


def _parse_lines(lines: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    data: list[str] = []
    comments: list[str] = []
    comment: list[str] = []
    for line in lines:
        line = line.strip()
        if comment or line.startswith("/*"):
            comment.append(line)
        else:
            if _REPLY.fullmatch(line) or (line.startswith('"') and (len(line) < 2 or not line.endswith('"'))):
                raise ProtocolError(f"TL1 answer: {shorten(line)} is not a data line; the answer before it has no end")
            data.append(unquote(line))
            continue
        if line.endswith("*/") and (len(comment) > 1 or len(line) >= 4):
            comments.append(" ".join(comment)[2:-2].strip())
            comment = []
    if comment:
        raise ProtocolError(f"TL1 answer: comment {shorten(' '.join(comment))} has no end")
    return tuple(data), tuple(comments)


def _parse_acknowledgement(text: str) -> Acknowledgement | None:
    line = text.strip()
    if not line:  # the prompt of a Glimmerglass unit
        return None
    found = _ACK.fullmatch(line)
    if found is None or found[1] not in AckCode.__members__:
        raise ProtocolError(f"TL1 acknowledgement: {shorten(line)} is not a code such as IP and a CTAG")
    return Acknowledgement(code=AckCode(found[1]), ctag=found[2])


def _parse_named(verb: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not _NAME.fullmatch(name.strip()):
        raise ProtocolError(f"TL1 command {verb}: parameter {shorten(text)} is not name=value")
    return name.strip(), unquote(value.strip())


def _encode_blocks(head: str, lines: Sequence[str], comments: Sequence[str], lines_per_block: int | None) -> bytes:
    size = lines_per_block or max(1, len(lines))
    data = [f"   {quote_always(line)}\r\n" for line in lines]
    blocks = ["".join(data[start : start + size]) for start in range(0, len(data), size)] or [""]
    blocks[-1] += "".join(f"   /* {comment} */\r\n" for comment in comments)
    return (head + f">\r\n{head}".join(blocks) + ";\r\n").encode()


def _split(text: str, separator: str) -> list[str]:
    """Split outside quotes; raises ProtocolError where a quote is not closed."""
    if '"' not in text:
        return text.split(separator)
    parts: list[str] = []
    start = 0
    quoted = escaped = False
    for place, character in enumerate(text):
        if character == separator and not quoted:
            parts.append(text[start:place])
            start = place + 1
        elif escaped:
            escaped = False
        elif character == '"':
            quoted = not quoted
        elif character == "\\" and quoted:
            escaped = True
    if quoted:
        raise ProtocolError(f"TL1 command {shorten(text)}: a quote is not closed")
    return [*parts, text[start:]]


def _spaces(text: str, at: int) -> int:
    """The number of space characters from `at` on."""
    end = at
    while end < len(text) and text[end].isspace():
        end += 1
    return end - at


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"TL1: {data[error.start : error.start + 8].hex(' ')} is not text") from None
