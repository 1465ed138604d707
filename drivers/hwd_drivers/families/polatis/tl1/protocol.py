"""Polatis TL1 without I/O: frozen requests from and to TL1 commands.

Verbs as published programs for real units use them (README.md names each). `lines` has the data lines of the answers.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeVar

from hwd_drivers.codecs.tl1_messages import Command
from hwd_drivers.codecs.tl1_words import format_group, parse_group, quote, unquote
from hwd_drivers.core.errors import BugError, ProtocolError
from hwd_drivers.families.polatis.settings import AlarmMode, AlarmType, Edge
from hwd_drivers.families.polatis.tl1 import requests as ask
from hwd_drivers.families.polatis.tl1.lines import MODE_WORDS, MODES
from hwd_drivers.families.polatis.tl1.requests import Request

DEFAULT_PORT: Final = 3082


class DenyError(ProtocolError):
    """A command that a unit answers with DENY: its code and comment."""

    def __init__(self, code: str, text: str = "") -> None:
        super().__init__(f"{code} {text}".rstrip())
        self.code = code
        self.text = text


class ListError(DenyError):
    """Lists that do not match; no source documents the code, so that it is an option of the twin."""


def to_command(request: Request, *, ctag: str = "", tid: str = "") -> Command:
    verb, aid, positional, named = _blocks(request)
    return Command(verb=verb, tid=tid, aid=aid, ctag=ctag, positional=positional, named=named)


def from_command(command: Command) -> Request:
    """Raises DenyError with the code for a wrong command."""
    parameters = {name.upper(): value for name, value in command.named}
    aid = unquote(command.aid)
    match command.verb:
        case "RTRV-PATCH":
            return ask.RetrievePatch(ports=None if aid.upper() in ("", "ALL") else _ports(aid))
        case "ENT-PATCH":
            return ask.EnterPatch(pairs=_pairs(aid), forced=_forced(command))
        case "DLT-PATCH":
            return ask.DeletePatch(ports=None if aid.upper() == "ALL" else _ports(aid), forced=_forced(command))
        case "RTRV-PORT-POWER" | "RTRV-PORT-REVPOWER":
            return ask.RetrievePower(ports=_ports(aid), reverse=command.verb == "RTRV-PORT-REVPOWER")
        case "ACT-USER":
            return ask.Login(user=aid, password=command.positional[0] if command.positional else "")
        case "CANC-USER":
            return ask.Logout(user=aid)
        case "RTRV-HDR":
            return ask.Ping()
        case "RTRV-NETYPE":
            return ask.RetrieveType()
        case "RTRV-INV" if aid.upper() == "OCS":
            return ask.RetrieveInventory()
        case "OPR-ARC-EQPT" if aid.upper() == "REPMGR":
            return ask.MuteReports()
        case "ED-EQPT":
            return _edited(aid.upper(), parameters)
        case "RTRV-EQPT":
            return _equipment(aid.upper(), parameters.get("PARAMETER", "").upper())
        case "OPR-PORT-SHUTTER":
            return ask.CloseShutter(ports=_ports(aid))
        case "RLS-PORT-SHUTTER":
            return ask.OpenShutter(ports=_ports(aid))
        case "RTRV-PORT-SHUTTER":
            return ask.RetrieveShutter(ports=_ports(aid))
        case "RTRV-PORT-LABEL":
            return ask.RetrieveLabel(ports=_ports(aid))
        case "ED-PORT-LABEL":
            if "LABEL" not in parameters:
                raise DenyError("IPNV", "LABEL is missing")
            return ask.EditLabel(ports=_ports(aid), label=parameters["LABEL"])
        case "RTRV-INV" | "OPR-ARC-EQPT":
            raise DenyError("IIAC")
        case "ENT-PORT-FLAP" | "OPR-PORT-FLAP" | "RLS-PORT-FLAP" | "RTRV-PORT-FLAP":
            return _flap(command, aid)
        case "RTRV-PORT-ATTEN":
            return ask.RetrieveAttenuation(ports=_ports(aid))
        case "SET-PORT-ATTEN":
            return _attenuation(aid, parameters)
        case _ if command.verb.endswith("-PMON"):
            return _monitor(command.verb, aid, parameters)
    raise DenyError("IICM")


_NUMBER = re.compile(r"[0-9]{1,9}")
_LIST = re.compile(r"[0-9]{1,9}(?:&[0-9]{1,9})*")
_DECIMAL = re.compile(r"\(?([+-]?[0-9]{1,6}(?:\.[0-9]{1,9})?)\)?")
_Blocks = tuple[str, str, tuple[str, ...], tuple[tuple[str, str], ...]]
_WordT = TypeVar("_WordT", bound=StrEnum)


def _edited(aid: str, parameters: Mapping[str, str]) -> Request:
    if aid != "TIMEOUT" or not _NUMBER.fullmatch(seconds := parameters.get("ADMIN", "")):
        raise DenyError("IPNV")
    return ask.SetIdleTimeout(timeout_s=int(seconds))


def _equipment(aid: str, parameter: str) -> Request:
    match aid, parameter:
        case "SYSTEM", "SIZE":
            return ask.RetrieveSize()
        case "PMON" | "REVPMON", "CONFIG":
            return ask.RetrieveMonitors(reverse=aid == "REVPMON")
        case "ATTEN", "CONFIG":
            return ask.RetrieveAttenuators()
    raise DenyError("IIAC")


def _monitor(verb: str, aid: str, parameters: Mapping[str, str]) -> Request:
    match verb:
        case "RTRV-PORT-PMON":
            return ask.RetrieveMonitorConfig(ports=_ports(aid))
        case "SET-PORT-PMON":
            code = parameters.get("ATIME")
            if code is not None and not _NUMBER.fullmatch(code):
                raise DenyError("IPNV", "ATIME is not a number")
            return ask.SetMonitorConfig(
                ports=_ports(aid),
                wavelength_nm=_number(parameters, "WAVE"),
                offset_db=_number(parameters, "OFFSET"),
                averaging_code=None if code is None else int(code),
            )
        case "RTRV-TH-PMON":
            return ask.RetrieveThreshold(ports=_ports(aid), type=_type(parameters))
        case "SET-TH-PMON":
            return ask.SetThreshold(
                ports=_ports(aid),
                type=_type(parameters),
                mode=_word(parameters, "MODE", AlarmMode),
                edge=_word(parameters, "EDGE", Edge),
                high_dbm=_number(parameters, "HIGH"),
                low_dbm=_number(parameters, "LOW"),
            )
        case "RTRV-STATE-PMON":
            return ask.RetrieveAlarm(ports=_ports(aid), type=_type(parameters))
        case "SET-STATE-PMON":
            return ask.ClearAlarm(ports=_ports(aid), type=_type(parameters))
    raise DenyError("IICM")


def _flap(command: Command, aid: str) -> Request:
    match command.verb:
        case "OPR-PORT-FLAP":
            return ask.StartFlap(ports=_ports(aid))
        case "RLS-PORT-FLAP":
            return ask.StopFlap(ports=_ports(aid))
        case "RTRV-PORT-FLAP":
            return ask.RetrieveFlap(ports=_ports(aid) if aid else None)
    values = command.positional if len(command.positional) != 1 else tuple(command.positional[0].split("&"))
    if len(values) != 3 or not all(map(_NUMBER.fullmatch, values)):
        raise DenyError("IPNV", "Three numbers are needed: block ms, restore ms, cycles")
    off_ms, on_ms, cycles = map(int, values)
    return ask.EnterFlap(ports=_ports(aid), off_ms=off_ms, on_ms=on_ms, cycles=cycles)


def _attenuation(aid: str, parameters: Mapping[str, str]) -> Request:
    word = parameters.get("MODE", "").upper()
    if word not in MODES:
        raise DenyError("IPNV", "MODE is not one of " + " ".join(MODES))
    ports = _ports(aid)
    references = _ports(parameters["REFS"]) if parameters.get("REFS") else ()
    if len(references) not in (0, len(ports)):
        raise ListError("IIAC", f"Port lists differ in length: {len(ports)} and {len(references)}")
    return ask.SetAttenuation(ports=ports, mode=MODES[word], level=_number(parameters, "LEVEL"), references=references)


def _type(parameters: Mapping[str, str]) -> AlarmType:
    """The alarm type of a command; loss of signal by default."""
    return _word(parameters, "TYPE", AlarmType) or AlarmType.LOS


def _word(parameters: Mapping[str, str], name: str, words: type[_WordT]) -> _WordT | None:
    if name not in parameters:
        return None
    try:
        return words(parameters[name].upper())
    except ValueError:
        raise DenyError("IPNV", f"{name} is not one of {' '.join(words)}") from None


def _number(parameters: Mapping[str, str], name: str) -> float | None:
    """A number; negative ones are in parentheses, others may be."""
    if name not in parameters:
        return None
    found = _DECIMAL.fullmatch(parameters[name].strip())
    if found is None:
        raise DenyError("IPNV", f"{name} is not a number")
    return float(found[1])


def _format(value: float) -> str:
    return f"({value:g})" if value < 0 else f"{value:g}"


def _named(**values: str | None) -> tuple[tuple[str, str], ...]:
    """Parameters that are not None."""
    return tuple((name, value) for name, value in values.items() if value is not None)


def _blocks(request: Request) -> _Blocks:
    """Verb, AID, positional and named parameters."""
    match request:
        case ask.RetrievePatch(ports=ports):
            return "RTRV-PATCH", "" if ports is None else format_group(ports), (), ()
        case ask.EnterPatch(pairs=pairs, forced=forced):
            aid = f"{_list(one for one, _ in pairs)},{_list(other for _, other in pairs)}"
            return "ENT-PATCH", aid, ("frcd",) if forced else (), ()
        case ask.DeletePatch(ports=ports, forced=forced):
            return "DLT-PATCH", "ALL" if ports is None else _list(ports), ("frcd",) if forced else (), ()
        case ask.RetrievePower(ports=ports, reverse=reverse):
            return "RTRV-PORT-REVPOWER" if reverse else "RTRV-PORT-POWER", format_group(ports), (), ()
        case ask.Login(user=user, password=password):
            return "ACT-USER", quote(user), (password,), ()
        case ask.Logout(user=user):
            return "CANC-USER", quote(user), (), ()
        case ask.Ping():
            return "RTRV-HDR", "", (), ()
        case ask.MuteReports():
            return "OPR-ARC-EQPT", "REPMGR", ("IND",), ()
        case ask.SetIdleTimeout(timeout_s=timeout_s):
            return "ED-EQPT", "TIMEOUT", (), (("ADMIN", str(timeout_s)),)
        case ask.RetrieveType():
            return "RTRV-NETYPE", "", (), ()
        case ask.RetrieveInventory():
            return "RTRV-INV", "OCS", (), ()
        case ask.RetrieveSize():
            return "RTRV-EQPT", "SYSTEM", (), (("PARAMETER", "SIZE"),)
        case ask.RetrieveMonitors(reverse=reverse):
            return "RTRV-EQPT", "REVPMON" if reverse else "PMON", (), (("PARAMETER", "CONFIG"),)
        case ask.RetrieveAttenuators():
            return "RTRV-EQPT", "ATTEN", (), (("PARAMETER", "CONFIG"),)
        case _:
            return _port_blocks(request)


def _port_blocks(request: Request) -> _Blocks:
    """Blocks of commands that set and read port settings."""
    match request:
        case ask.RetrieveMonitorConfig(ports=ports):
            return "RTRV-PORT-PMON", format_group(ports), (), ()
        case ask.SetMonitorConfig(ports=ports):
            named = _named(
                WAVE=_maybe(request.wavelength_nm),
                OFFSET=_maybe(request.offset_db),
                ATIME=None if request.averaging_code is None else str(request.averaging_code),
            )
            return "SET-PORT-PMON", format_group(ports), (), named
        case ask.RetrieveThreshold(ports=ports, type=kind):
            return "RTRV-TH-PMON", format_group(ports), (), (("TYPE", kind),)
        case ask.SetThreshold(ports=ports, type=kind):
            named = _named(
                TYPE=kind,
                MODE=request.mode,
                EDGE=request.edge,
                LOW=_maybe(request.low_dbm),
                HIGH=_maybe(request.high_dbm),
            )
            return "SET-TH-PMON", format_group(ports), (), named
        case ask.RetrieveAlarm(ports=ports, type=kind):
            return "RTRV-STATE-PMON", format_group(ports), (), (("TYPE", kind),)
        case ask.ClearAlarm(ports=ports, type=kind):
            return "SET-STATE-PMON", format_group(ports), (), (("TYPE", kind),)
        case ask.CloseShutter(ports=ports):
            return "OPR-PORT-SHUTTER", format_group(ports), (), ()
        case ask.OpenShutter(ports=ports):
            return "RLS-PORT-SHUTTER", format_group(ports), (), ()
        case ask.RetrieveShutter(ports=ports):
            return "RTRV-PORT-SHUTTER", format_group(ports), (), ()
        case ask.RetrieveLabel(ports=ports):
            return "RTRV-PORT-LABEL", format_group(ports), (), ()
        case ask.EditLabel(ports=ports, label=label):
            return "ED-PORT-LABEL", format_group(ports), (), (("LABEL", label),)
        case ask.EnterFlap(ports=ports):
            times = (str(request.off_ms), str(request.on_ms), str(request.cycles))
            return "ENT-PORT-FLAP", format_group(ports), times, ()
        case ask.StartFlap(ports=ports):
            return "OPR-PORT-FLAP", format_group(ports), (), ()
        case ask.StopFlap(ports=ports):
            return "RLS-PORT-FLAP", format_group(ports), (), ()
        case ask.RetrieveFlap(ports=ports):
            return "RTRV-PORT-FLAP", "" if ports is None else format_group(ports), (), ()
        case ask.RetrieveAttenuation(ports=ports):
            return "RTRV-PORT-ATTEN", format_group(ports), (), ()
        case ask.SetAttenuation(ports=ports, references=references):
            named = _named(
                MODE=MODE_WORDS[request.mode],
                LEVEL=None if request.level is None else f"({request.level:g})",
                REFS="&".join(map(str, references)) or None,
            )
            return "SET-PORT-ATTEN", _list(ports) if references else format_group(ports), (), named
        case _:
            raise BugError(f"{type(request).__name__}: no TL1 command is made of it")


def _maybe(value: float | None) -> str | None:
    return None if value is None else _format(value)


def _list(ports: Iterable[int]) -> str:
    """Ports of a change one by one: a range of one list may not be one in the other, and this form was seen most."""
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
