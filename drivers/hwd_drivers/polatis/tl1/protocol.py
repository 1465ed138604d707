"""Polatis TL1 without I/O: frozen requests <-> TL1 commands, and what stands in the data lines of the answers.

Verbs and line formats as published programs for real units use them (README.md names each). Ports are the unit's own numbers here; `Numbering` turns
them into fibre ends.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from hwd_drivers.kit.errors import ProtocolError
from hwd_drivers.kit.tl1_messages import Answer, Command
from hwd_drivers.kit.tl1_words import format_group, parse_group, quote, unquote
from hwd_drivers.polatis.numbering import Numbering

DEFAULT_PORT: Final = 3082


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
    """RTRV-HDR"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MuteReports:
    """OPR-ARC-EQPT::REPMGR: no autonomous messages in this session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetIdleTimeout:
    """ED-EQPT::TIMEOUT"""

    timeout_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveType:
    """RTRV-NETYPE: vendor, model, type, version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveInventory:
    """RTRV-INV::OCS: the serial number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveSize:
    """RTRV-EQPT::SYSTEM, PARAMETER=SIZE"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrieveMonitors:
    """RTRV-EQPT::PMON, PARAMETER=CONFIG: which ports have a power monitor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnterPatch:
    """ENT-PATCH: connect the n-th of the left list with the n-th of the right one; ports in use are moved. `forced` overrides protection."""

    pairs: tuple[tuple[int, int], ...]
    forced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePatch:
    """DLT-PATCH: drop the connections of these ports, either end names one; None is ALL."""

    ports: tuple[int, ...] | None
    forced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievePatch:
    """RTRV-PATCH: connections of these ports; None is all."""

    ports: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievePower:
    """RTRV-PORT-POWER"""

    ports: tuple[int, ...]


Request = (
    Login
    | Logout
    | Ping
    | MuteReports
    | SetIdleTimeout
    | RetrieveType
    | RetrieveInventory
    | RetrieveSize
    | RetrieveMonitors
    | EnterPatch
    | DeletePatch
    | RetrievePatch
    | RetrievePower
)


class DenyError(ProtocolError):
    """A command that a unit answers with DENY: its code and the comment beside it."""

    def __init__(self, code: str, text: str = "") -> None:
        super().__init__(f"{code} {text}".rstrip())
        self.code = code
        self.text = text


class ListError(DenyError):
    """Lists that do not fit together; no source tells the code, so the unit's options do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitType:
    """The data line of RTRV-NETYPE."""

    vendor: str
    model: str
    type: str
    version: str


def to_command(request: Request, *, ctag: str = "", tid: str = "") -> Command:
    verb, aid, positional, named = _blocks(request)
    return Command(verb=verb, tid=tid, aid=aid, ctag=ctag, positional=positional, named=named)


def from_command(command: Command) -> Request:
    """Raises DenyError with the code that the command deserves."""
    parameters = {name.upper(): value for name, value in command.named}
    match command.verb, unquote(command.aid):
        case "RTRV-PATCH", aid:
            return RetrievePatch(ports=None if aid.upper() in ("", "ALL") else _ports(aid))
        case "ENT-PATCH", aid:
            return EnterPatch(pairs=_pairs(aid), forced=_forced(command))
        case "DLT-PATCH", aid:
            return DeletePatch(ports=None if aid.upper() == "ALL" else _ports(aid), forced=_forced(command))
        case "RTRV-PORT-POWER", aid:
            return RetrievePower(ports=_ports(aid))
        case "ACT-USER", user:
            return Login(user=user, password=command.positional[0] if command.positional else "")
        case "CANC-USER", user:
            return Logout(user=user)
        case "RTRV-HDR", _:
            return Ping()
        case "OPR-ARC-EQPT", "REPMGR":
            return MuteReports()
        case "ED-EQPT", "TIMEOUT" if _NUMBER.fullmatch(seconds := parameters.get("ADMIN", "")):
            return SetIdleTimeout(timeout_s=int(seconds))
        case "RTRV-NETYPE", _:
            return RetrieveType()
        case "RTRV-INV", "OCS":
            return RetrieveInventory()
        case "RTRV-EQPT", "SYSTEM" if parameters.get("PARAMETER", "").upper() == "SIZE":
            return RetrieveSize()
        case "RTRV-EQPT", "PMON" if parameters.get("PARAMETER", "").upper() == "CONFIG":
            return RetrieveMonitors()
        case "OPR-ARC-EQPT" | "RTRV-INV" | "RTRV-EQPT", _:
            raise DenyError("IIAC")
        case "ED-EQPT", _:
            raise DenyError("IPNV")
    raise DenyError("IICM")


def read_patches(answer: Answer) -> tuple[tuple[int, int], ...]:
    """Port numbers of `"1,49"` lines. All readers raise ProtocolError on a line that is not what it should be."""
    pairs = []
    for line in answer.lines:
        found = _PAIR.fullmatch(line)
        if found is None:
            raise ProtocolError(f"RTRV-PATCH: data line {line!r} is not in,out")
        pairs.append((int(found[1]), int(found[2])))
    return tuple(pairs)


def read_powers(answer: Answer) -> dict[int, float]:
    """dBm by port number from `"49:-3.21"` lines."""
    powers = {}
    for line in answer.lines:
        port, _, power = line.partition(":")
        if not _NUMBER.fullmatch(port) or not _DECIMAL.fullmatch(power):
            raise ProtocolError(f"RTRV-PORT-POWER: data line {line!r} is not port:dBm")
        powers[int(port)] = float(power)
    return powers


def read_type(answer: Answer) -> UnitType:
    fields = [part.strip() for part in answer.lines[0].split(",")] if answer.lines else []
    if len(fields) != 4:
        raise ProtocolError(f"RTRV-NETYPE: data lines {answer.lines!r} are not vendor,model,type,version")
    return UnitType(vendor=fields[0], model=fields[1], type=fields[2], version=fields[3])


def read_serial(answer: Answer) -> str:
    found = _SERIAL.search("\n".join(answer.lines))
    if found is None:
        raise ProtocolError(f"RTRV-INV: no SN= in data lines {answer.lines!r}")
    return found[1]


def read_size(answer: Answer) -> Numbering:
    found = _SIZE.search("\n".join(answer.lines))
    if found is None:
        raise ProtocolError(f"RTRV-EQPT SIZE: no SIZE=INxOUT in data lines {answer.lines!r}")
    return Numbering(inputs=int(found[1]), outputs=int(found[2]))


def read_monitors(answer: Answer) -> tuple[int, ...]:
    """Port numbers of `"PMON::PORT=25,MODE=OUTPUT"` lines."""
    ports = []
    for line in answer.lines:
        found = _MONITOR.search(line)
        if found is None:
            raise ProtocolError(f"RTRV-EQPT PMON: data line {line!r} has no PORT=")
        ports.append(int(found[1]))
    return tuple(ports)


def write_patches(pairs: Iterable[tuple[int, int]]) -> tuple[str, ...]:
    return tuple(f"{one},{other}" for one, other in pairs)


def write_powers(powers_dbm: Iterable[tuple[int, float | None]], *, dark_dbm: float) -> tuple[str, ...]:
    return tuple(f"{port}:{dark_dbm if power is None else max(power, dark_dbm):.2f}" for port, power in powers_dbm)


def write_type(unit: UnitType) -> tuple[str, ...]:
    return (f"{unit.vendor},{unit.model},{unit.type},{unit.version}",)


def write_serial(serial: str) -> tuple[str, ...]:
    return (f"OCS:SN={serial}",)


def write_size(size: Numbering) -> tuple[str, ...]:
    return (f"SYSTEM:SIZE={size.inputs}x{size.outputs}",)


def write_monitors(ports: Iterable[int], size: Numbering) -> tuple[str, ...]:
    return tuple(f"PMON::PORT={port},MODE={'INPUT' if port <= size.inputs else 'OUTPUT'}" for port in ports)


_NUMBER = re.compile(r"[0-9]{1,9}")
_PAIR = re.compile(r"([0-9]{1,9}),([0-9]{1,9})")
_LIST = re.compile(r"[0-9]{1,9}(?:&[0-9]{1,9})*")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,4}(?:\.[0-9]{1,9})?")
_SERIAL = re.compile(r"\bSN=([^\s,;\"]+)")
_SIZE = re.compile(r"\bSIZE=([0-9]{1,5})x([0-9]{1,5})\b")
_MONITOR = re.compile(r"\bPORT=([0-9]{1,9})\b")

_Blocks = tuple[str, str, tuple[str, ...], tuple[tuple[str, str], ...]]


def _blocks(request: Request) -> _Blocks:
    """Verb, AID, positional and named parameters."""
    match request:
        case RetrievePatch(ports=ports):
            return "RTRV-PATCH", "" if ports is None else format_group(ports), (), ()
        case EnterPatch(pairs=pairs, forced=forced):
            aid = f"{_list(one for one, _ in pairs)},{_list(other for _, other in pairs)}"
            return "ENT-PATCH", aid, ("frcd",) if forced else (), ()
        case DeletePatch(ports=ports, forced=forced):
            return "DLT-PATCH", "ALL" if ports is None else _list(ports), ("frcd",) if forced else (), ()
        case RetrievePower(ports=ports):
            return "RTRV-PORT-POWER", format_group(ports), (), ()
        case Login(user=user, password=password):
            return "ACT-USER", quote(user), (password,), ()
        case Logout(user=user):
            return "CANC-USER", quote(user), (), ()
        case Ping():
            return "RTRV-HDR", "", (), ()
        case MuteReports():
            return "OPR-ARC-EQPT", "REPMGR", ("IND",), ()
        case SetIdleTimeout(timeout_s=timeout_s):
            return "ED-EQPT", "TIMEOUT", (), (("ADMIN", str(timeout_s)),)
        case RetrieveType():
            return "RTRV-NETYPE", "", (), ()
        case RetrieveInventory():
            return "RTRV-INV", "OCS", (), ()
        case RetrieveSize():
            return "RTRV-EQPT", "SYSTEM", (), (("PARAMETER", "SIZE"),)
        case RetrieveMonitors():
            return "RTRV-EQPT", "PMON", (), (("PARAMETER", "CONFIG"),)


def _list(ports: Iterable[int]) -> str:
    """Ports of a change one by one, not as ranges: a range of one list may not be one in the other, and this form was seen most."""
    return "&".join(map(str, ports))


def _ports(aid: str) -> tuple[int, ...]:
    if _LIST.fullmatch(aid):
        return tuple(map(int, aid.split("&")))
    try:
        members = parse_group(aid)
    except ProtocolError as error:
        raise DenyError("IIAC", str(error).replace(";", "")) from None
    for member in members:
        if not _NUMBER.fullmatch(member):
            raise DenyError("IIAC", f"Invalid OXC port: {member[:12]}")
    return tuple(map(int, members))


def _pairs(aid: str) -> tuple[tuple[int, int], ...]:
    left, comma, right = aid.partition(",")
    if not comma:
        raise DenyError("IIAC", "Two port lists are needed")
    ones, others = _ports(left), _ports(right)
    if len(ones) != len(others):
        raise ListError("IIAC", f"Port lists differ in length: {len(ones)} and {len(others)}")
    return tuple(zip(ones, others, strict=True))


def _forced(command: Command) -> bool:
    return "frcd" in map(str.lower, command.positional)
