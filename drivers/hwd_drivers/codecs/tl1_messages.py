"""TL1 messages: a command, its answer and acknowledgement, and what nobody asked for. `tl1` turns them into bytes and back."""

from dataclasses import dataclass, field
from enum import StrEnum


class Completion(StrEnum):
    """How a command ended."""

    COMPLD = "COMPLD"
    """Done."""
    DENY = "DENY"
    """Not done; an error code follows."""
    PRTL = "PRTL"
    """Partly done."""
    DELAY = "DELAY"
    """Queued."""
    RTRV = "RTRV"
    """Partly retrieved."""


class AckCode(StrEnum):
    """What a slow command is told before its answer."""

    IP = "IP"
    """In progress."""
    PF = "PF"
    """A printout follows."""
    OK = "OK"
    """Taken."""
    NA = "NA"
    """No acknowledgement."""
    NG = "NG"
    """No good."""
    RL = "RL"
    """Repeat later."""


class Alarm(StrEnum):
    """Weight of an autonomous message."""

    CRITICAL = "*C"
    """Service is gone."""
    MAJOR = "**"
    """Service suffers."""
    MINOR = "*"
    """Service is at risk."""
    NONE = "A"
    """An event, or an alarm that is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """`VERB:TID:AID:CTAG:GENERAL:positional,...:name=value,...;`

    `aid` is the block as it stands, since commas and `&` mean something in it: read it with `parse_group` and `unquote` of `tl1_words`. Parameters are unquoted
    and do not show in `str` and `repr`: a password is one. An empty `ctag` is one that was missing or unusable.
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
    """The whole answer to one command, its blocks joined; `error` is the code of a DENY, `lines` are unquoted data."""

    ctag: str
    code: Completion
    error: str = ""
    lines: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    sid: str = ""
    stamp: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledgement:
    """`IP 123`: the answer takes more than about two seconds."""

    ctag: str
    code: AckCode


@dataclass(frozen=True, slots=True, kw_only=True)
class Autonomous:
    """A message that nobody asked for: `A  17 REPT EVT PATCH`."""

    alarm: Alarm
    atag: str
    verb: str
    lines: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    sid: str = ""
    stamp: str = ""


Message = Answer | Acknowledgement | Autonomous
