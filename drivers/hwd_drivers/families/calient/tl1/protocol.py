"""Calient TL1 without I/O: frozen requests from and to TL1 commands. `lines` has the data lines of answers.

Verbs as in published programs for real units (README.md names each). Ports have the unit's own names, such as `3.2.8`.
"""

from dataclasses import dataclass, field
from typing import Final

from hwd_drivers.codecs.tl1_messages import Command
from hwd_drivers.codecs.tl1_words import quote, unquote
from hwd_drivers.core.errors import ProtocolError

DEFAULT_PORT: Final = 3083
PROMPT: Final = "agent>"
"""Printed when the unit is ready, and after every answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """ACT-USER"""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Logout:
    """CANC-USER"""

    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """RTRV-HDR: prevents the disconnect of an idle session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveElement:
    """RTRV-NE: identity of the unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievePorts:
    """RTRV-PORT of one port, of all whose names begin so (`1.1`), or of all (None)."""

    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveSummary:
    """RTRV-PORT-SUM of one port, or of all (None): power and connections."""

    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnterConnection:
    """ENT-CRS; the unit chooses an empty group or name."""

    source: str
    destination: str
    two_way: bool
    group: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedConnection:
    """One connection: by its name, by its ports, or by both."""

    name: str = ""
    group: str = ""
    source: str = ""
    destination: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveConnections:
    """RTRV-CRS of one connection, or of all (None)."""

    which: NamedConnection | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivateConnection:
    """ACT-CRS"""

    which: NamedConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelConnection:
    """CANC-CRS: deactivate; the connection keeps its ports."""

    which: NamedConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteConnection:
    """DLT-CRS"""

    which: NamedConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAll:
    """DLT-CRS-ALL"""


Request = (
    Login
    | Logout
    | Ping
    | RetrieveElement
    | RetrievePorts
    | RetrieveSummary
    | RetrieveConnections
    | EnterConnection
    | ActivateConnection
    | CancelConnection
    | DeleteConnection
    | DeleteAll
)


class DenyError(ProtocolError):
    """A command that a unit answers with DENY: its code and comment."""

    def __init__(self, code: str, text: str = "") -> None:
        super().__init__(f"{code} {text}".rstrip())
        self.code = code
        self.text = text


def to_command(request: Request) -> Command:
    match request:
        case Login(user=user, password=password):
            return Command(verb="ACT-USER", aid=quote(user), positional=(password,))
        case Logout(user=user):
            return Command(verb="CANC-USER", aid=quote(user))
        case Ping():
            return Command(verb="RTRV-HDR")
        case RetrieveElement():
            return Command(verb="RTRV-NE")
        case RetrievePorts(name=name):
            return Command(verb="RTRV-PORT", aid=name or "0")
        case RetrieveSummary(name=name):
            return Command(verb="RTRV-PORT-SUM", aid=name or "0")
        case RetrieveConnections(which=which):
            if which is None:
                return Command(verb="RTRV-CRS", aid=",")
            return Command(verb="RTRV-CRS", aid=_ends(which), positional=_words(which.name))
        case EnterConnection(source=source, destination=destination, two_way=two_way, group=group, name=name):
            how = (group, "2WAY" if two_way else "1WAY")
            return Command(
                verb="ENT-CRS", aid=f"{source},{destination}", positional=(*how, name, "", "") if name else how
            )
        case ActivateConnection(which=which):
            return Command(verb="ACT-CRS", aid=_ends(which), positional=_words(which.name, which.group))
        case CancelConnection(which=which):
            return Command(verb="CANC-CRS", aid=_ends(which), positional=_words("", which.group, which.name))
        case DeleteConnection(which=which):
            return Command(verb="DLT-CRS", aid=_ends(which), positional=_words("", which.group, which.name))
        case DeleteAll():
            return Command(verb="DLT-CRS-ALL")


def from_command(command: Command) -> Request:
    """Raises DenyError with the code for a wrong command."""
    aid = unquote(command.aid)
    match command.verb:
        case "ACT-USER":
            return Login(user=aid, password=command.positional[0] if command.positional else "")
        case "CANC-USER":
            return Logout(user=aid)
        case "RTRV-HDR":
            return Ping()
        case "RTRV-NE":
            return RetrieveElement()
        case "RTRV-PORT":
            return RetrievePorts(name=None if aid in ("", "0") else aid)
        case "RTRV-PORT-SUM":
            return RetrieveSummary(name=None if aid in ("", "0") else aid)
        case "RTRV-CRS":
            return RetrieveConnections(which=_wanted(command))
        case "ENT-CRS":
            return _enter(command)
        case "ACT-CRS":
            return ActivateConnection(which=_which(command))
        case "CANC-CRS":
            return CancelConnection(which=_which(command))
        case "DLT-CRS":
            return DeleteConnection(which=_which(command))
        case "DLT-CRS-ALL":
            return DeleteAll()
    raise DenyError("IICM")


def _ends(which: NamedConnection) -> str:
    return f"{which.source},{which.destination}" if which.source else ""


def _words(*words: str) -> tuple[str, ...]:
    return words if any(words) else ()


def _ports(command: Command) -> tuple[str, str]:
    source, _, destination = unquote(command.aid).partition(",")
    return source.strip(), destination.strip()


def _enter(command: Command) -> EnterConnection:
    source, destination = _ports(command)
    if not source or not destination:
        raise DenyError("IIAC", "Invalid AID - source and destination port are needed")
    group, kind, name = (*command.positional, "", "", "")[:3]
    if kind.upper() not in ("1WAY", "2WAY"):
        raise DenyError("IPNV", "Invalid Parameter - 1WAY or 2WAY is needed")
    return EnterConnection(
        source=source, destination=destination, two_way=kind.upper() == "2WAY", group=group, name=name
    )


def _wanted(command: Command) -> NamedConnection | None:
    """RTRV-CRS has the name alone or after an empty word. `ALL`, a comma alone and an empty block: all connections."""
    source, destination = _ports(command)
    name = next((word for word in reversed(command.positional) if word), unquote(command.general))
    if name.upper() == "ALL" or not (name or source or destination):
        return None
    return NamedConnection(name=name, source=source, destination=destination)


def _which(command: Command) -> NamedConnection:
    """ACT-CRS has `name,group`, the others `,group,name` or the name; all accept the name alone in the block before."""
    source, destination = _ports(command)
    words = command.positional
    if len(words) >= 3 and not words[0]:
        group, name = words[1:3]
    else:
        name, group = (*words, "", "")[:2]
    name = name or unquote(command.general)
    if not name and not (source and destination):
        raise DenyError("IIAC", "Invalid AID - a connection is needed")
    return NamedConnection(name=name, group=group, source=source, destination=destination)
