"""SONiC's optical circuit switch command line without I/O: commands, lists of crossconnects, and output tables.

Commands, modes and tables as in the high-level design of OCS support in SONiC (section 9) and the public test programs
for such switches (README.md names them).
"""

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hwd_drivers.core.errors import ConfigError, ProtocolError
from hwd_drivers.core.values import Crossconnect, CrossconnectState, PortOverride, PortSide, Side

DEFAULT_PORT: Final = 22
TABLE_BYTES: Final = 4 << 20
"""Largest accepted answer; a status of 320 crossconnects is under 30 kB."""
LIST_LIMIT: Final = 4096
"""Most crossconnects in one list, and rows of one table; the largest switch has 320 crossconnects and 640 ports."""
SUCCEEDED: Final = "succeeded"
"""Text in the output of every successful change; programs look for it, as the exit status of a refusal is unknown."""
DOES_NOT_EXIST: Final = "does not exist"
"""Text in the output of `delete` for a crossconnect that is not configured."""

SHOW_CONFIG: Final = "show ocs cross-connect config"
SHOW_STATUS: Final = "show ocs cross-connect status"
SHOW_PORT_CONFIG: Final = "show ocs port config"
SHOW_VERSION: Final = "show version"

CONFIG_COLUMNS: Final = ("id", "a_side", "b_side")
STATUS_COLUMNS: Final = (*CONFIG_COLUMNS, "a_side_status", "b_side_status")
PORT_CONFIG_COLUMNS: Final = ("id", "label", "state")
PORT_STATUS_COLUMNS: Final = ("id", "connector_type", "connector_pin", "target_simplex_port_id", "status")
LOSS_COLUMNS: Final = ("id", "frequency_THz", "temperature_C", "loss_dB", "accuracy_dB")

STATES: Final[Mapping[str, CrossconnectState]] = {
    state.value: state
    for state in (
        CrossconnectState.BLOCKED,
        CrossconnectState.TUNING,
        CrossconnectState.TUNED,
        CrossconnectState.FAILED,
    )
}
"""The states of a side of a crossconnect."""
OVERRIDES: Final = {"normal": PortOverride.NORMAL, "force_blocked": PortOverride.FORCE_BLOCKED}
_PORT = re.compile(r"([1-9][0-9]{0,4})([AB])")
_UPTIME = re.compile(r"\bup +(?:([0-9]{1,5}) days?, +)?(?:([0-9]{1,2}):([0-9]{2})|([0-9]{1,2}) min)\b")
_PORT_NAME = re.compile(r"([1-9][0-9]{0,4})([ABab])")


class Mode(StrEnum):
    """The treatment of crossconnects that conflict with new ones."""

    UPDATE = "update"
    """The old crossconnects are replaced."""
    SAFE = "safe"
    """The new ones are refused."""
    OVERWRITE = "overwrite"
    """All others are removed, conflicting or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """show version"""

    software: str
    hardware: str
    serial: str
    uptime_s: float | None = None
    """In whole minutes; None where it is not reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A crossconnect in the table of states. `unknown`: a word for one of them that is not known here: that side is
    taken to be tuning, so that its light is never relied on.
    """

    pair: Crossconnect
    a_state: CrossconnectState
    b_state: CrossconnectState
    unknown: str = ""

    @property
    def state(self) -> CrossconnectState:
        """State of the whole: tuned where both sides are, else the worse of the two."""
        both = (self.a_state, self.b_state)
        for state in (CrossconnectState.FAILED, CrossconnectState.TUNING, CrossconnectState.BLOCKED):
            if state in both:
                return state
        return CrossconnectState.TUNED


# --- commands


def add(pairs: Iterable[Crossconnect], mode: Mode) -> str:
    return f"config ocs cross-connect add {format_list(pairs)} {mode}"


def delete(pairs: Iterable[Crossconnect]) -> str:
    return f"config ocs cross-connect delete {format_list(pairs)}"


def set_port(end: PortSide, to: PortOverride) -> str:
    word = next(word for word, override in OVERRIDES.items() if override is to)
    return f"config ocs port state {end} {word}"


# --- lists of crossconnects


def format_list(pairs: Iterable[Crossconnect]) -> str:
    """The list in the syntax of the command line: `1A-2B,3A-4B`."""
    return ",".join(pairs)


def parse_port(text: str) -> PortSide:
    """Read `1A`, also in lower case. Raises ConfigError for any other text."""
    found = _PORT_NAME.fullmatch(text)
    if found is None:
        raise ConfigError(f"Invalid port {text[:80]!r}, one such as 1A is needed")
    return PortSide(port=found[1], side=Side(found[2].upper()))


def parse_list(text: str) -> list[Crossconnect]:
    """Read `1A-2B`, `1A-1B,2A-5B` and `1A..10A-11B..20B`, mixed, also in lower case.

    Raises ConfigError with the mistake.
    """
    pairs: list[Crossconnect] = []
    for item in text.split(","):
        left, dash, right = item.partition("-")
        if not dash:
            raise ConfigError(f"Invalid cross-connect {item[:80]!r}")
        ones, others = _parse_range(left, Side.A), _parse_range(right, Side.B)
        if len(ones) != len(others):
            raise ConfigError(f"Ranges of {item[:80]!r} differ in length")
        pairs.extend(Crossconnect.of(one, other) for one, other in zip(ones, others, strict=True))
        if len(pairs) > LIST_LIMIT:
            raise ConfigError(f"Over {LIST_LIMIT} cross-connects in one list")
    return pairs


def _parse_range(text: str, side: Side) -> list[PortSide]:
    begin, dots, end = text.partition("..")
    ends = [parse_port(begin), parse_port(end if dots else begin)]
    for found in ends:
        if found.side is not side:
            place = "first" if side is Side.A else "second"
            raise ConfigError(f"Invalid port {found!r}: it is on side {found.side}, the {place} one is on side {side}")
    first, last = (int(found.port) for found in ends)
    if not first <= last < first + LIST_LIMIT:
        raise ConfigError(f"Invalid range {text[:80]!r}")
    return [PortSide(port=str(number), side=side) for number in range(first, last + 1)]


# --- tables


def write_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with dashes under the headings and two blanks between columns, in the format of tabulate."""
    widths = [max([len(head) + 2, *(len(row[place]) for row in rows)]) for place, head in enumerate(columns)]
    lines = [columns, ["-" * width for width in widths], *rows]
    return "".join(
        "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() + "\n" for line in lines
    )


def write_port_mapping(ports: int) -> str:
    """show ocs port-mapping of a switch with `ports` ports a side on faceplate and engine: two halves side by side."""
    head = [("Faceplate Port #", "Engine Port #"), (f"{ports}x{ports} Port #",) * 2, ("-" * 17, "-" * 14)]
    half = (ports + 1) // 2
    columns = [
        head + [(f"{number}{side}", f"{side}-{number}") for number in range(begin, min(begin + half, ports + 1))]
        for side in "AB"
        for begin in (1, half + 1)
    ]
    rows = itertools.zip_longest(*columns, fillvalue=("", ""))
    return "".join("  ".join(f"{face:17}  {engine:14}" for face, engine in row).rstrip() + "\n" for row in rows)


def read_table(lines: Sequence[str], columns: Sequence[str]) -> tuple[list[list[str]], Sequence[str]]:
    """Cells of the table that begins here, and the lines after it; columns begin where their headings do.

    Raises ProtocolError where there is no table.
    """
    if len(lines) < 2 or tuple(lines[0].split()) != tuple(columns):
        found = lines[0][:80] if lines else ""
        raise ProtocolError(f"a table of {', '.join(columns)} is expected, not {found!r}")
    dashes = [(each.start(), each.end()) for each in re.finditer("-+", lines[1])]
    if len(dashes) != len(columns) or lines[1].strip("- "):
        raise ProtocolError(f"the line under the heads of a table is {lines[1][:80]!r}")
    starts = [start for start, _ in dashes]
    ends = [*starts[1:], None]
    rows: list[list[str]] = []
    for place, line in enumerate(lines[2:], start=2):
        if not _PORT.match(line):
            return rows, lines[place:]
        if len(rows) >= LIST_LIMIT:
            raise ProtocolError(f"a table of over {LIST_LIMIT} rows")
        rows.append([line[start:end].strip() for start, end in zip(starts, ends, strict=True)])
    return rows, ()


def read_config(lines: Sequence[str]) -> tuple[list[Crossconnect], Sequence[str]]:
    """show ocs cross-connect config: configured crossconnects, and the lines after the table."""
    rows, rest = read_table(lines, CONFIG_COLUMNS)
    return [_read_pair(row) for row in rows], rest


def read_status(lines: Sequence[str]) -> tuple[list[Row], Sequence[str]]:
    """show ocs cross-connect status: crossconnects in the optics, configured or not, and the lines after the table."""
    rows, rest = read_table(lines, STATUS_COLUMNS)
    return [_read_row(row) for row in rows], rest


def read_overrides(lines: Sequence[str]) -> dict[PortSide, PortOverride | str]:
    """show ocs port config. A text: a state that is not known here."""
    rows, _ = read_table(lines, PORT_CONFIG_COLUMNS)
    return {_read_port(port): OVERRIDES.get(state, state[:80]) for port, _, state in rows}


def read_version(text: str) -> Version:
    """show version: lines of `name: value`."""
    values = {
        name.strip(): value.strip()
        for name, colon, value in (line.partition(":") for line in text.splitlines())
        if colon
    }
    try:
        return Version(
            software=values["SONiC Software Version"],
            hardware=values["HwSKU"],
            serial=values["Serial Number"],
            uptime_s=read_uptime(values.get("Uptime", "")),
        )
    except KeyError as error:
        raise ProtocolError(f"show version has no {error.args[0]}") from error


def write_uptime(seconds: float) -> str:
    """The output of Linux' `uptime` without the time of day: `up 3 days,  5:12,  1 user`."""
    days, rest = divmod(int(seconds) // 60, 24 * 60)
    hours, minutes = divmod(rest, 60)
    length = f"{hours:2}:{minutes:02}" if hours else f"{minutes} min"
    since = f"{days} day{'s' if days > 1 else ''}, {length}" if days else length
    return f"up {since},  1 user"


def read_uptime(text: str) -> float | None:
    """Seconds, to the minute, in the output of Linux' `uptime`; None for any other text."""
    if (found := _UPTIME.search(text)) is None:
        return None
    days, hours, minutes, only_minutes = (int(each or 0) for each in found.groups())
    return 60.0 * (days * 24 * 60 + hours * 60 + minutes + only_minutes)


def lines_of(output: bytes) -> list[str]:
    """Lines of an answer. Raises ProtocolError for bytes that are not text, and for too many."""
    if len(output) > TABLE_BYTES:
        raise ProtocolError(f"an answer of over {TABLE_BYTES} bytes")
    try:
        return output.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"not UTF-8: {error}") from error


def _read_pair(row: Sequence[str]) -> Crossconnect:
    identity, a_side, b_side = row[:3]
    if identity != f"{a_side}-{b_side}":
        raise ProtocolError(f"cross-connect {identity[:80]!r} is listed with {a_side[:80]!r} and {b_side[:80]!r}")
    one, other = _read_port(a_side), _read_port(b_side)
    if one.side is not Side.A or other.side is not Side.B:
        raise ProtocolError(f"cross-connect {identity[:80]!r} is not from side A to side B")
    return Crossconnect.of(one, other)


def _read_port(text: str) -> PortSide:
    if (found := _PORT.fullmatch(text)) is None:
        raise ProtocolError(f"{text[:80]!r} is not a port")
    return PortSide(port=found[1], side=Side(found[2]))


def _read_row(row: Sequence[str]) -> Row:
    one, other = row[3], row[4]
    for word in (one, other):
        if word not in STATES and any(state.startswith(word) for state in STATES):  # an answer that was cut off
            raise ProtocolError(f"state {word[:80]!r} is none of {', '.join(STATES)}")
    unknown = next((word for word in (one, other) if word not in STATES), None)
    return Row(
        pair=_read_pair(row),
        a_state=STATES.get(one, CrossconnectState.TUNING),
        b_state=STATES.get(other, CrossconnectState.TUNING),
        unknown="" if unknown is None else repr(unknown[:80]),
    )
