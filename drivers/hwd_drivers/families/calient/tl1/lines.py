"""Data lines of Calient TL1 answers: frozen values from and to lines, as in captured answers of a real unit."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from hwd_drivers.codecs.tl1_messages import Answer
from hwd_drivers.codecs.tl1_words import shorten
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.families.calient.ports import identifier


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """The data line of RTRV-NE."""

    serial: str
    firmware: str
    chassis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLine:
    """A data line of RTRV-CRS. States: AS (IS in service, UMA not activated), OS (IS, RDY, ...), OC (OK, FAIL, ...)."""

    name: str
    group: str
    source: str
    destination: str
    two_way: bool
    admin: str
    operation: str
    capability: str

    @property
    def aid(self) -> str:
        """The ports of a connection, by which it is listed whatever its name."""
        return identifier(self.source, self.destination, two_way=self.two_way)


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryLine:
    """A data line of RTRV-PORT-SUM; None is no light. Connections of the IN and the OUT fibre, with their activity."""

    port: str
    alias: str | None = None
    in_dbm: float | None = None
    out_dbm: float | None = None
    connections: tuple[tuple[str, bool] | None, tuple[str, bool] | None] = (None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortLine:
    """A data line of RTRV-PORT: which of its fibres are in an active connection."""

    port: str
    in_used: bool
    out_used: bool


def read_element(answer: Answer) -> Element:
    """Read the element. All readers raise ProtocolError on a line of another form."""
    fields = _fields(answer.lines[0].partition(":")[2]) if answer.lines else {}
    try:
        return Element(serial=fields["SERIALNUMBER"], firmware=fields["SWPACKAGE"], chassis=fields["CHASSISTYPE"])
    except KeyError as error:
        raise ProtocolError(f"RTRV-NE: no {error.args[0]} in data lines {shorten(repr(answer.lines))}") from None


def read_ports(answer: Answer) -> tuple[str, ...]:
    """Names of the ports of `"6.1.1:WX,TRANSIT,TRANSIT:INAS=IS,..."` lines."""
    for line in answer.lines:
        if line.count(":") < 2:
            raise ProtocolError(f"RTRV-PORT: data line {shorten(line)} is not port:owners:states")
    return tuple(line.partition(":")[0] for line in answer.lines)


def read_summary(answer: Answer) -> dict[str, SummaryLine]:
    """Read the lines of the ports,
    `"1.1.1:ALIAS=NONE,INPWR=-3.4,OUTPWR=NONE,CONNNAME1=1.1.1>1.1.2,CONNSTATE1=ACT,..."`, by port.
    """
    found = {}
    for line in answer.lines:
        port, _, rest = line.partition(":")
        fields = _fields(rest)
        if not {"INPWR", "OUTPWR"} <= fields.keys():
            raise ProtocolError(f"RTRV-PORT-SUM: no INPWR or OUTPWR in data line {shorten(line)}")
        alias = fields.get("ALIAS", "NONE")
        found[port] = SummaryLine(
            port=port,
            alias=None if alias == "NONE" else alias,
            in_dbm=_power(fields["INPWR"]),
            out_dbm=_power(fields["OUTPWR"]),
            connections=(_held(fields, "1"), _held(fields, "2")),
        )
    return found


def read_connections(answer: Answer) -> tuple[ConnectionLine, ...]:
    """Read the lines of RTRV-CRS:

    "1.1.1>1.1.2:SRCPORT=1.1.1,DSTPORT=1.1.2,GRPNAME=SYSTEM,CONNNAME=1.1.1>1.1.2,CONNTYPE=1WAY,AS=IS,OS=IS,..."
    """
    found = []
    for line in answer.lines:
        begin = line.find(":SRCPORT=")
        fields = _fields(line[begin + 1 :])
        try:
            found.append(
                ConnectionLine(
                    name=fields["CONNNAME"],
                    group=fields["GRPNAME"],
                    source=fields["SRCPORT"],
                    destination=fields["DSTPORT"],
                    two_way={"1WAY": False, "2WAY": True}[fields["CONNTYPE"]],
                    admin=fields["AS"],
                    operation=fields["OS"],
                    capability=fields["OC"],
                )
            )
        except KeyError as error:
            raise ProtocolError(f"RTRV-CRS: data line {shorten(line)}: no {error.args[0]}") from None
    return tuple(found)


def write_element(element: Element, sid: str) -> tuple[str, ...]:
    return (
        f"{sid}:SERIALNUMBER={element.serial},SWPACKAGE={element.firmware},STATUS=OK,"
        f"CHASSISTYPE={element.chassis},PLATFORM=VERSION2",
    )


def write_ports(ports: Iterable[PortLine]) -> tuple[str, ...]:
    return tuple(
        f"{port.port}:WX,{_OWNER[port.in_used]},{_OWNER[port.out_used]}"
        f":{_states('IN', port.in_used)},{_states('OUT', port.out_used)}"
        for port in ports
    )


def write_summary(lines: Iterable[SummaryLine]) -> tuple[str, ...]:
    return tuple(
        f"{line.port}:ALIAS={line.alias or 'NONE'},"
        f"INPWR={_write_power(line.in_dbm)},OUTPWR={_write_power(line.out_dbm)},"
        + ",".join(
            f"CONNNAME{n}={held[0] if held else 'NONE'},CONNSTATE{n}={'ACT' if held and held[1] else 'NONE'}"
            for n, held in enumerate(line.connections, start=1)
        )
        for line in lines
    )


def write_connections(connections: Iterable[ConnectionLine]) -> tuple[str, ...]:
    return tuple(
        f"{one.aid}:SRCPORT={one.source},DSTPORT={one.destination},GRPNAME={one.group},CONNNAME={one.name},"
        f"CONNTYPE={'2WAY' if one.two_way else '1WAY'},AS={one.admin},OS={one.operation},OC={one.capability},"
        f"PS=UPR,AL={'MN' if one.capability == 'FAIL' and one.admin == 'IS' else 'CL'}"
        for one in connections
    )


_DECIMAL = re.compile(r"[+-]?[0-9]{1,4}(?:\.[0-9]{1,9})?")
_FIELD = re.compile(r"(?:^|,)\s*([A-Z][A-Z0-9]*)=")
_OWNER: Final = {True: "TRANSIT", False: "NONE"}


def _fields(text: str) -> dict[str, str]:
    """`NAME=value,...`; a value, such as a port's alias, may hold commas."""
    begins = list(_FIELD.finditer(text))
    ends = [*(begin.start() for begin in begins[1:]), len(text)]
    return {begin[1]: text[begin.end() : end].strip() for begin, end in zip(begins, ends, strict=False)}


def _power(text: str) -> float | None:
    if text.upper() in ("NONE", ""):
        return None
    if not _DECIMAL.fullmatch(text):
        raise ProtocolError(f"RTRV-PORT-SUM: {shorten(text)} is not a power in dBm")
    return float(text)


def _write_power(power_dbm: float | None) -> str:
    return "NONE" if power_dbm is None else f"{power_dbm:.1f}"


def _held(fields: dict[str, str], which: str) -> tuple[str, bool] | None:
    name = fields.get(f"CONNNAME{which}", "NONE")
    return None if name == "NONE" else (name, fields.get(f"CONNSTATE{which}") == "ACT")


def _states(side: str, used: bool) -> str:
    return f"{side}AS={'IS' if used else 'OOS-NP'},{side}OS={'IS' if used else 'OOS'},{side}OC=OK,{side}RS=NPR"
