"""Calient TL1 without I/O: the commands that we send, and the data lines of their answers, as in captured answers.

Verbs as in published programs for real units (README.md names each). Ports have the unit's own names, such as `3.2.8`.
Readers raise ProtocolError on a line of another form.
"""

import re
from collections.abc import Mapping
from typing import Final

from hwd_drivers.codecs.tl1_messages import Answer, Command
from hwd_drivers.codecs.tl1_words import shorten
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.values import Identity
from hwd_drivers.families.calient.record import Record

DEFAULT_PORT: Final = 3083
PROMPT: Final = "agent>"
"""Printed when the unit is ready, and after every answer."""

PING: Final = Command(verb="RTRV-HDR")
"""Prevents the disconnect of an idle session."""
RETRIEVE_ELEMENT: Final = Command(verb="RTRV-NE")
RETRIEVE_PORTS: Final = Command(verb="RTRV-PORT", aid="0")
RETRIEVE_CONNECTIONS: Final = Command(verb="RTRV-CRS", aid=",")


# --- commands


def retrieve_summary(name: str | None) -> Command:
    """Power of one port, or of all (None)."""
    return Command(verb="RTRV-PORT-SUM", aid=name or "0")


def enter(source: str, destination: str, group: str) -> Command:
    return Command(verb="ENT-CRS", aid=f"{source},{destination}", positional=(group, "1WAY"))


def activate(source: str, destination: str, group: str) -> Command:
    """Activate the connection that `enter` has made."""
    return Command(verb="ACT-CRS", aid=f"{source},{destination}", positional=(f"{source}>{destination}", group))


def of_connection(verb: str, source: str, destination: str, *, group: str, name: str) -> Command:
    """CANC-CRS, which deactivates a connection (it keeps its ports), or DLT-CRS."""
    return Command(verb=verb, aid=f"{source},{destination}", positional=("", group, name))


# --- data lines


def read_element(answer: Answer) -> Identity:
    fields = _fields(answer.lines[0].partition(":")[2]) if answer.lines else {}
    try:
        serial, firmware, chassis = (fields[name] for name in ("SERIALNUMBER", "SWPACKAGE", "CHASSISTYPE"))
    except KeyError as error:
        raise ProtocolError(f"RTRV-NE: no {error.args[0]} in data lines {shorten(repr(answer.lines))}") from None
    return Identity(vendor="Calient", model=chassis, serial=serial, firmware=firmware)


def read_ports(answer: Answer) -> tuple[str, ...]:
    """Names of the ports of `"6.1.1:WX,TRANSIT,TRANSIT:INAS=IS,..."` lines."""
    for line in answer.lines:
        if line.count(":") < 2:
            raise ProtocolError(f"RTRV-PORT: data line {shorten(line)} is not port:owners:states")
    return tuple(line.partition(":")[0] for line in answer.lines)


def read_powers(answer: Answer) -> dict[str, tuple[float | None, float | None]]:
    """Power of the IN and the OUT fibre in dBm, None for no light, by port.

    `"1.1.1:ALIAS=NONE,INPWR=-3.4,OUTPWR=NONE,CONNNAME1=1.1.1>1.1.2,CONNSTATE1=ACT,..."`
    """
    found = {}
    for line in answer.lines:
        port, _, rest = line.partition(":")
        fields = _fields(rest)
        if not {"INPWR", "OUTPWR"} <= fields.keys():
            raise ProtocolError(f"RTRV-PORT-SUM: no INPWR or OUTPWR in data line {shorten(line)}")
        found[port] = _power(fields["INPWR"]), _power(fields["OUTPWR"])
    return found


def read_connections(answer: Answer, numbers: Mapping[str, int]) -> tuple[Record, ...]:
    """Read the lines of RTRV-CRS; `numbers`: our number of each port.

    "1.1.1>1.1.2:SRCPORT=1.1.1,DSTPORT=1.1.2,GRPNAME=SYSTEM,CONNNAME=1.1.1>1.1.2,CONNTYPE=1WAY,AS=IS,OS=IS,..."
    """
    lines = []
    for line in answer.lines:
        begin = line.find(":SRCPORT=")
        fields = _fields(line[begin + 1 :])
        try:
            two_way = {"1WAY": False, "2WAY": True}[fields["CONNTYPE"]]
            lines.append((two_way, {name: fields[name] for name in _CONNECTION}))
        except KeyError as error:
            raise ProtocolError(f"RTRV-CRS: data line {shorten(line)}: no {error.args[0]}") from None
    return tuple(_record(fields, numbers, two_way=two_way) for two_way, fields in lines)


_DECIMAL = re.compile(r"[+-]?[0-9]{1,4}(?:\.[0-9]{1,9})?")
_FIELD = re.compile(r"(?:^|,)\s*([A-Z][A-Z0-9]*)=")
_CONNECTION = ("CONNNAME", "GRPNAME", "SRCPORT", "DSTPORT", "AS", "OS", "OC")


def _fields(text: str) -> dict[str, str]:
    """`NAME=value,...`; a value, such as a port's alias, may hold commas."""
    begins = list(_FIELD.finditer(text))
    ends = [*(begin.start() for begin in begins[1:]), len(text)]
    return {begin[1]: text[begin.end() : end].strip() for begin, end in zip(begins, ends, strict=False)}


def _record(fields: Mapping[str, str], numbers: Mapping[str, int], *, two_way: bool) -> Record:
    name = fields["CONNNAME"]
    try:
        source, destination = numbers[fields["SRCPORT"]], numbers[fields["DSTPORT"]]
    except KeyError as error:
        raise ProtocolError(f"RTRV-CRS: {name} has port {error.args[0]}, which RTRV-PORT did not list") from None
    return Record(
        name=name,
        group=fields["GRPNAME"],
        source=source,
        destination=destination,
        two_way=two_way,
        admin=fields["AS"],
        operation=fields["OS"],
        capability=fields["OC"],
    )


def _power(text: str) -> float | None:
    if text.upper() in ("NONE", ""):
        return None
    if not _DECIMAL.fullmatch(text):
        raise ProtocolError(f"RTRV-PORT-SUM: {shorten(text)} is not a power in dBm")
    return float(text)
