"""The contents of a bundle: all that a report says, as values: its tables, its figures with their data, its page.

Tables and figures are made by the functions that the page is made by: what is new there is in the next bundle.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from hwd.report.bundle.manifest import FIGURES, PAGE, TABLES, Choices
from hwd.report.figures.figure import SCREEN_WIDTHS, Figure, config
from hwd.report.figures.figures import Figures
from hwd.report.figures.render import specification
from hwd.report.grouping import compared_with, split_by
from hwd.report.page.html import html
from hwd.report.rc_recovery import recovery_rows
from hwd.report.run_report import RunReport
from hwd.report.stages import pairs_rows, stage_table, turnaround_rows
from hwd_drivers.core.structs import to_plain

NAME_LENGTH_MAX = 120
"""Characters of a figure's name: sweep values may be long."""


class Kind(StrEnum):
    """The kind of a part of a report."""

    TABLE = "table"
    """Rows of named values."""
    FIGURE = "figure"
    """A Vega-Lite specification with its data."""
    PAGE = "page"
    """HTML."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A report's part; `name`: of its member. `value`: a JSON object of a table or a figure; the text of the page."""

    kind: Kind
    name: str
    holds: str
    value: Any


def choices_of(report: RunReport, *, by: Sequence[str] | None, compare_with: str | None) -> Choices:
    """What was asked for, else what its playbook has. Raises ConfigError for unknown groups."""
    return Choices(
        by=[str(cut) for cut in split_by([report], by)], compare_with=compare_with or compared_with([report])
    )


def contents(report: RunReport, choices: Choices) -> Iterator[Part]:
    """One after the other: no more than one is in memory."""
    reports, by = [report], split_by([report], choices.by)
    yield from _tables(report, choices)
    names: set[str] = set()
    for figure in Figures.of(reports, by=by, compare_with=choices.compare_with, comparisons=()).all:
        yield _figure(figure, names)
    yield Part(
        kind=Kind.PAGE,
        name=PAGE,
        holds="the report as a page, for any browser, without a network",
        value=html(reports, by=by, compare_with=choices.compare_with, comparisons=()),
    )


def _tables(report: RunReport, choices: Choices) -> Iterator[Part]:
    reports = [report]
    yield _table("run", "the run as a whole: the facts at the top of the page", ("run",), [_run(report)])
    yield _table(
        "turnarounds",
        "from command to first transfer, of each treatment, in seconds: the times at the top of the page",
        ("virtual_time", "group"),
        turnaround_rows(reports),
    )
    yield _table(
        "stages",
        "the durations of each stage of links that moved, in seconds, with the papers' figures",
        ("time", "group", "stage"),
        stage_table(reports, by=choices.by, compare_with=choices.compare_with),
    )
    yield _table(
        "pairs",
        "control times of switch commands by the number of crossconnects that a command made, in seconds",
        ("virtual_time", "pairs"),
        pairs_rows(reports),
    )
    yield _table(
        "recoveries",
        "recovery of reliable connections after the dark, in seconds",
        ("ack_timeout_s", "retries", "origin"),
        recovery_rows(report.timelines),
    )
    yield _table("endings", "how each reconfiguration ended", ("reconfiguration",), report.endings)


def _run(report: RunReport) -> dict[str, object]:
    run = report.run
    return {
        "run": run.id,
        "playbook": run.playbook,
        "testbed": run.testbed,
        "virtual_time": run.virtual_time,
        "outcome": run.outcome,
        "why": run.why,
        "seconds": run.seconds,
        "reconfigurations": len(report.endings),
        "confirmed": sum(ending.outcome == "confirmed" for ending in report.endings),
        "breaches": [f"{one.reconfiguration}: {text}" for one in report.timelines for text in one.breaches],
        "events_lost": report.events_lost,
        "steps_failed": report.steps_failed,
        "remarks": report.remarks,
    }


def _table(name: str, holds: str, key: tuple[str, ...], rows: Sequence[object]) -> Part:
    """`key`: the columns by which a row is named."""
    value = {"table": name, "holds": holds, "key": key, "rows": to_plain(rows)}
    return Part(kind=Kind.TABLE, name=f"{TABLES}{name}.json", holds=holds, value=value)


def _figure(figure: Figure, names: set[str]) -> Part:
    name = base = figure.name[:NAME_LENGTH_MAX]
    number = 1
    while name in names:
        number += 1
        name = f"{base}-{number}"
    names.add(name)
    value = {
        "figure": name,
        "title": figure.title,
        "description": figure.description,
        "specification": {**specification(figure, SCREEN_WIDTHS[0]), "config": config(dark=False)},
    }
    return Part(kind=Kind.FIGURE, name=f"{FIGURES}{name}.json", holds=f"figure: {figure.title}", value=value)
