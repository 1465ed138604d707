"""The table of stages, and its text; and the papers' figures beside it."""

import dataclasses
import json
from pathlib import Path

from msgspec.structs import replace

from hwd.model.instant import Origin
from hwd.report import RunReport, StageRow, stage_table, stage_text
from hwd.report.conditions import Conditions, RunTimings
from hwd.report.papers import FIGURES, figures
from hwd.report.stages import turnaround_rows
from hwd.timeline import StageName, Timeline
from hwd.twin.nic_timing import NIC_TIMINGS
from hwd_drivers.core.structs import from_json
from hwd_drivers.twins.timing import SWITCH_TIMINGS

from .stage import make_run, make_timeline

GOLDEN = Path(__file__).with_name("stage_table.txt")


def row(rows: tuple[StageRow, ...], stage: StageName) -> StageRow:
    (found,) = [one for one in rows if one.stage is stage]
    return found


def as_measured(timeline: Timeline) -> Timeline:
    """The same as if it had been hardware."""
    text = json.dumps(timeline.to_data())
    for origin in ("fitted", "twin", "kernel"):
        text = text.replace(f'"origin": "{origin}"', '"origin": "measured"')
    return from_json(text, Timeline)


def test_text_for_the_terminal() -> None:
    rows = stage_table([make_run(repeats=4), make_run("b7", repeats=60, virtual_time=True)])
    assert stage_text(rows) == GOLDEN.read_text()


def test_row_beside_the_figure_that_its_timing_was_made_from_is_fitted() -> None:
    rows = stage_table([make_run()], by=())
    carrier = row(rows, StageName.CARRIER)
    assert carrier.origin is Origin.FITTED
    assert carrier.papers
    assert all(figure.endswith("[fitted to it]") for figure in carrier.papers)


def test_nothing_measured_on_hardware_is_called_fitted() -> None:
    report = make_run(timelines=(as_measured(make_timeline()),))
    rows = stage_table([report, dataclasses.replace(report, lab=RunTimings())], by=())
    assert {one.origin for one in rows} == {Origin.MEASURED}
    assert not any("fitted to it" in figure for one in rows for figure in one.papers)


def test_table_is_split_by_what_is_asked_for() -> None:
    runs = [make_run("a", repeats=2), make_run("b", repeats=2)]
    assert {one.group for one in stage_table(runs, by=("run", "topology", "stage"))} == {
        ("a", "ring"), ("a", "pairs"), ("b", "ring"), ("b", "pairs"),
    }  # fmt: skip


def test_run_has_the_same_figures_alone_and_beside_others_in_whatever_order() -> None:
    a, b = make_run("a7", repeats=24), make_run("b7", repeats=14)

    def figures(reports: list[RunReport]) -> list[StageRow]:
        rows = stage_table(reports, by=("run", "topology"))
        return [replace(row, group=row.group[1:]) for row in rows if row.group[0] == "a7"]

    alone = [*stage_table([a], by=("topology",))]
    assert all(row.median_low_s is not None for row in alone if row.n)
    assert figures([a, b]) == figures([b, a]) == figures([a]) == alone
    turnarounds = [replace(row, group=row.group[1:]) for row in turnaround_rows([b, a]) if row.group[0] == "a7"]
    assert turnarounds == [*turnaround_rows([a])]


def test_stage_that_nobody_saw_has_a_row_without_figures() -> None:
    blind = make_timeline(hide=frozenset((f"h{host}.eth{port}", "firmware") for host in range(4) for port in range(4)))
    rows = stage_table([make_run(timelines=(blind,))])
    firmware = row(rows, StageName.FIRMWARE)
    assert (firmware.n, firmware.unknown) == (0, 4)
    assert firmware.origin is None
    assert not any("fitted to it" in figure for figure in firmware.papers)
    assert "0 (+ 4 unknown)" in stage_text(rows)


# --- the papers' figures that stand beside


OF_DATA_TABLES = {"polatis-50ms", "calient-200ms"}
"""Timings that were made from what a maker states of a unit, which is no paper's figure."""


def test_every_timing_that_a_figure_names_exists_and_says_that_it_is_fitted() -> None:
    for name in {name for figure in FIGURES for name in figure.drawn_by}:
        timing = NIC_TIMINGS.get(name) or SWITCH_TIMINGS[name]
        assert timing.fitted_to, name


def test_every_timing_that_is_fitted_to_a_paper_stands_beside_its_figure() -> None:
    drawn = {name for figure in FIGURES for name in figure.drawn_by}
    fitted = {name for timings in (NIC_TIMINGS, SWITCH_TIMINGS) for name, timing in timings.items() if timing.fitted_to}
    assert drawn == fitted - OF_DATA_TABLES
    assert fitted >= OF_DATA_TABLES


def test_figures_are_those_of_the_paper_whose_timings_play() -> None:
    chosen = figures(Conditions(timings=frozenset({"polatis-opus", "opus-cx6dx"})))
    assert {figure.paper for figure in chosen} == {"opus"}
    firmware = [figure.condition for figure in chosen if figure.stage is StageName.FIRMWARE]
    assert firmware == ["no auto-negotiation", "rapid repeats"], "the other condition is not played"


def test_hardware_stands_beside_all_figures() -> None:
    assert figures(Conditions(timings=frozenset())) == FIGURES


def test_playbook_may_choose_the_paper() -> None:
    chosen = figures(Conditions(timings=frozenset({"polatis-opus"})), compare_with="mfabric-prototype")
    assert {figure.paper for figure in chosen} == {"mfabric"}
    assert figures(Conditions(timings=frozenset()), compare_with="nobody") == ()
