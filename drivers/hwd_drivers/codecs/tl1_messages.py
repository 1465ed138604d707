"""TL1 messages: commands, answers, acknowledgements and autonomous messages. `tl1` converts them from and to bytes."""

from dataclasses import dataclass, field
from enum import StrEnum


class Completion(StrEnum):
    """Result of a command."""

    COMPLD = "COMPLD"
    """The command is done."""
    DENY = "DENY"
    """Not done; an error code follows."""
    PRTL = "PRTL"
    """Partly done."""
    DELAY = "DELAY"
    """The command is queued."""
    RTRV = "RTRV"
    """Partly retrieved."""


class AckCode(StrEnum):
    """Acknowledgement of a slow command, before its answer."""

    IP = "IP"
    """In progress."""
    PF = "PF"
    """A printout follows."""
    OK = "OK"
    """The command is accepted."""
    NA = "NA"
    """No acknowledgement."""
    NG = "NG"
    """No good."""
    RL = "RL"
    """Repeat later."""


class Alarm(StrEnum):
    """Severity of an autonomous message."""

    CRITICAL = "*C"
    """Critical: service is lost."""
    MAJOR = "**"
    """Major: service is impaired."""
    MINOR = "*"
    """Minor: service is at risk."""
    NONE = "A"
    """An event, or the end of an alarm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command of TL1: `VERB:TID:AID:CTAG:GENERAL:positional,...:name=value,...;`

    `aid` is the unparsed block, since commas and `&` have a meaning in it: read it with `parse_group` and `unquote` of
    `tl1_words`. Parameters are unquoted, and hidden in `str` and `repr`: a password is one. An empty `ctag` was missing
    or unusable.
    """

    verb: str
    tid: str = ""
    aid: str = ""
    ctag: str = ""
    general: str = ""
    positional: tuple[str, ...] = field(default=(), repr=False)
    named: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def __str__(self) -> str:
        return f"{self.verb} {self.aid}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The complete answer to one command, its blocks joined. `error`: code of a DENY; `lines`: unquoted data."""

    ctag: str
    code: Completion
    error: str = ""
    lines: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    sid: str = ""
    stamp: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """An acknowledgement, `IP 123`: the answer takes more than about two seconds."""

    ctag: str
    code: AckCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Autonomous:
    """An unsolicited message: `A  17 REPT EVT PATCH`."""

    alarm: Alarm
    atag: str
    verb: str
    lines: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    sid: str = ""
    stamp: str = ""


Message = Answer | Acknowledgement | Autonomous
