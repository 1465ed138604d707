"""Captures of a SONiC optical switch's command line: its twin prints the same, and the driver's side can read it."""

from pathlib import Path

import pytest

from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.families.sonic import protocol
from hwd_drivers.families.sonic.cli import CommandLine
from hwd_drivers.families.sonic.models import sonic_ocs
from hwd_drivers.families.sonic.options import TwinOptions
from hwd_drivers.families.sonic.protocol import Row
from hwd_drivers.families.sonic.unit import Unit
from hwd_drivers.twins.timing import find_timing


def captures() -> list[tuple[str, int, str]]:
    found: list[tuple[str, int, str]] = []
    for line in Path(__file__).with_name("captures.txt").read_text(encoding="utf-8").splitlines():
        mark, text = line[0], line[2:]
        if mark == "$":
            found.append((text, 0, ""))
        elif mark == "=":
            found[-1] = (found[-1][0], int(text), "")
        elif mark == "<":
            found[-1] = (*found[-1][:2], found[-1][2] + text + "\n")
    return found


TABLES = [text for line, _, text in captures() if line.startswith("show ocs cross-connect")]


def read(text: str) -> list[Row] | list[Crossconnect]:
    lines = protocol.lines_of(text.encode())
    status = "a_side_status" in text
    found, rest = protocol.read_status(lines) if status else protocol.read_config(lines)
    if rest:
        raise ProtocolError(f"{rest}")
    return found


def test_the_twin_prints_the_same_as_a_unit() -> None:
    unit = Unit(
        name="ocs1",
        capabilities=sonic_ocs("64x64"),
        timing=find_timing("ideal"),
        draws=Draws(1),
        clock=SystemClock(),
        options=TwinOptions(),
    )
    command_line = CommandLine(unit)
    for line, status, out in captures():
        printed = command_line.run(line)
        assert (line, printed.status, printed.out) == (line, status, out)
        assert printed.err == ""


def test_the_tables_are_read() -> None:
    assert [len(read(text)) for text in TABLES] == [3, 3, 4, 3, 0]
    rows, _ = protocol.read_status(protocol.lines_of(TABLES[3].encode()))
    assert [(str(row.pair), row.state) for row in rows] == [
        ("5A-6B", "tuned"),
        ("34A-34B", "blocked"),
        ("35A-35B", "tuned"),
    ]


@pytest.mark.parametrize("text", TABLES)
def test_a_table_cut_anywhere_is_an_error_or_has_fewer_rows_never_another_one(text: str) -> None:
    whole = read(text)
    for end in range(len(text)):
        try:
            cut = read(text[:end])
        except ProtocolError:
            continue
        assert all(row in whole for row in cut), text[:end]
