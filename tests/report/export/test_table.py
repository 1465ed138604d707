"""The table as CSV and Parquet."""

import csv as csv_format
import dataclasses
import io
import re
from collections.abc import Callable, Iterable

import msgspec
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hwd.model.instant import Instant, InstantName
from hwd.model.reconfiguration import ReconfigurationStarted
from hwd.model.timeline import Timeline
from hwd.report.export import COLUMNS, csv, parquet, rows
from hwd.timeline import StageName
from hwd_drivers.core.documents import Document, Fact

from ..conftest import HERE, Recorded

NAMES = [column.name for column in COLUMNS]
COUNTS = ("pairs", "removed", "commands")
OF_ONE = 1 + 2 * len(StageName)
"""Rows of one reconfiguration of the recorded run: its switch, and each stage of two links."""


def written(recorded: Recorded) -> str:
    to = io.BytesIO()
    csv(*recorded, to)
    return to.getvalue().decode()


def read(text: str) -> list[dict[str, str]]:
    return list(csv_format.DictReader(io.StringIO(text, newline="")))


def changed_facts(documents: Iterable[Document], change: Callable[[Fact], Fact]) -> tuple[Document, ...]:
    return tuple(dataclasses.replace(one, fact=change(one.fact)) for one in documents)


def test_csv_is_as_it_was_agreed(recorded: Recorded) -> None:
    assert written(recorded) == (HERE / "run.csv").read_bytes().decode()


def test_units_stand_in_the_names_of_columns() -> None:
    assert len(set(NAMES)) == len(NAMES)
    for column in COLUMNS:
        if column.type is float:
            assert re.search("(^seconds$|_s$)", column.name), column.name
        if column.type is int and column.name not in COUNTS:
            assert column.name.endswith("_ns"), column.name


def test_parquet_holds_the_same(recorded: Recorded) -> None:
    to = io.BytesIO()
    parquet(*recorded, to)
    table = pq.read_table(io.BytesIO(to.getvalue()))
    assert table.column_names == NAMES
    assert [tuple(row.values()) for row in table.to_pylist()] == list(rows(*recorded))
    assert table.schema.field("error_s").metadata[b"means"] == b"sum of the bounds of its two instants"
    assert not table.schema.field("run").nullable


def test_switch_has_a_row_whether_its_command_made_links_or_not(recorded: Recorded) -> None:
    run, documents = recorded

    def dark(fact: Fact) -> Fact:
        match fact:
            case Timeline():
                return msgspec.structs.replace(fact, links=[], ends=[])
            case ReconfigurationStarted():
                return msgspec.structs.replace(fact, links=[])
        return fact

    found = read(written((run, changed_facts(documents, dark))))
    lit = read(written(recorded))
    assert len(found) == 2
    assert found == [row for row in lit if row["subject"] == "switch"]
    for row in found:
        assert (row["link"], row["switches"], row["stage"], row["kept"]) == ("", "ocs1", "control", "false")
        assert (row["pairs"], row["removed"], row["commands"]) == ("4", row["removed"], "1")
        of_link = next(
            one
            for one in lit
            if (one["reconfiguration"], one["subject"], one["stage"]) == (row["reconfiguration"], "link", "control")
        )
        assert of_link["pairs"] == of_link["commands"] == ""
        for name in ("commanded_wall_ns", "seconds", "error_s", "least_s", "most_s", "origin", "end_best_ns"):
            assert row[name] == of_link[name], name


def test_switch_that_did_not_answer_has_a_row_that_says_why(recorded: Recorded) -> None:
    run, documents = recorded

    def silent(fact: Fact) -> Fact:
        if not isinstance(fact, Timeline):
            return fact
        sent, _ = fact.commands[0].instants
        unknown = Instant.unknown(InstantName.ACKNOWLEDGED, "ocs1: no answer")
        lost = msgspec.structs.replace(fact.commands[0], instants=(sent, unknown))
        return msgspec.structs.replace(fact, commands=[lost])

    found = read(written((run, changed_facts(documents, silent))))
    switch = found[0]
    assert (switch["subject"], switch["knowledge"], switch["seconds"]) == ("switch", "unknown", "")
    assert switch["why"] == switch["end_why"] == "ocs1: no answer"
    assert switch["commanded_wall_ns"]
    assert not switch["end_best_ns"]


def test_what_was_swept_and_set_stands_beside_what_it_moved(recorded: Recorded) -> None:
    run, documents = recorded
    settings = {"h0.eth0": {"autoneg": False}, "h9.eth0": {"mtu": 4200}}

    def swept(fact: Fact) -> Fact:
        made = isinstance(fact, Timeline)
        return msgspec.structs.replace(fact, sweep={"n": 4}, settings=settings) if made else fact

    found = read(written((run, changed_facts(documents, swept))))
    assert {row["sweep"] for row in found} == {'{"n": 4}'}
    for row in found:
        at_h0 = "h0.eth0" in (row["end_a"], row["end_b"])
        assert row["settings"] == ('{"h0.eth0": {"autoneg": false}}' if at_h0 else "")
    assert {row["sweep"] or row["settings"] for row in read(written(recorded))} == {""}


def test_run_that_broke_off_is_exported_as_far_as_it_came(broken_off: Recorded) -> None:
    found = read(written(broken_off))
    first, second = found[:OF_ONE], found[OF_ONE:]
    assert {(row["whole"], row["outcome"]) for row in first} == {("true", "confirmed")}
    assert {(row["whole"], row["outcome"]) for row in second} == {("false", "")}
    for subject in ("switch", "link"):
        control = next(row for row in second if row["subject"] == subject and row["stage"] == "control")
        assert (control["knowledge"], control["origin"]) == ("seen", "fitted")
    ready = next(row for row in second if row["stage"] == "turnaround")
    assert (ready["knowledge"], ready["seconds"]) == ("unknown", "")
    assert "did not say what it watched" in ready["end_why"]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(min_size=1, max_size=30))
def test_no_text_breaks_a_row(changed: Callable[[str, str], Recorded], text: str) -> None:
    """Texts of devices and topologies come from outside."""
    again = written(changed("ocs1:1A-3B,3A-1B,2A-4B,4A-2B", text))
    lines = again.splitlines()
    assert len(lines) == 1 + 2 * OF_ONE
    for row in csv_format.reader(lines):
        assert len(row) == len(NAMES)
        assert not any(cell.startswith(("=", "+", "@")) for cell in row)


def test_what_a_spreadsheet_would_run_is_a_text(changed: Callable[[str, str], Recorded]) -> None:
    evil = changed("ocs1:1A-3B,3A-1B,2A-4B,4A-2B", '=HYPERLINK("http://x","y")\r\n')
    assert read(written(evil))[0]["topology"] == '\'=HYPERLINK("http://x","y")  '
    to = io.BytesIO()
    parquet(*evil, to)
    assert pq.read_table(io.BytesIO(to.getvalue()))["topology"][0].as_py() == '=HYPERLINK("http://x","y")\r\n'
