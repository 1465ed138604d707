"""The tables of stages and of switch commands: our figures, their origins, and the papers' figures."""

from collections.abc import Sequence

from msgspec.structs import asdict

from hwd.config.playbook.playbook_schema import Cut
from hwd.model.instant import Origin
from hwd.report.conditions import Conditions
from hwd.report.grouping import USUAL, group_samples, swept
from hwd.report.papers import PaperFigure, figures, of_stage
from hwd.report.quantity import MISSING, bound, interval, is_resolved, only_resolved, resolved, stated
from hwd.report.run_report import RunReport
from hwd.report.switch_commands import PairsRow, SwitchCommands, pairs_table
from hwd.timeline import StageName, StageStatistics, summarise

FITTED = "[fitted to it]"
"""Behind a figure of a paper to which the timing of the twin was fitted."""

ORIGIN_WORDS = {
    Origin.MEASURED: "measured on hardware",
    Origin.KERNEL: "a real kernel event on a twin",
    Origin.TWIN: "drawn from a model of the twin",
    Origin.FITTED: "drawn from a model that was made from a paper's own figure: never called reproduced",
}


class StageRow(StageStatistics, frozen=True, kw_only=True):
    """One stage of one group, with the papers' figures for it.

    `origin` is fitted where the twin's timing was fitted to one of those figures, so that agreement shows nothing about
    the rack; the figure says so. `time`: `virtual time` or `real time`.
    """

    time: str
    papers: tuple[str, ...]


def stage_table(
    reports: Sequence[RunReport],
    *,
    by: Sequence[str] = USUAL,
    compare_with: str | None = None,
) -> tuple[StageRow, ...]:
    """`by`: parts of `Cut`; stages are always separate, and so are virtual and real time. Empty `by`: all together.
    Raises ConfigError for other parts.
    """
    taken = group_samples(reports, by)
    return tuple(_row(row, taken.conditions[row.group], compare_with) for row in summarise(taken.samples))


def turnaround_rows(reports: Sequence[RunReport]) -> tuple[StageStatistics, ...]:
    """The rows of times from command to first transfer: what is said first of runs, so that no row has the values of
    two treatments. Each run, where there are several, each sweep value, topology and range of dwells has its own.
    """
    cuts = (Cut.RUN, Cut.SWEEP, Cut.TOPOLOGY) if len(reports) > 1 else (Cut.SWEEP, Cut.TOPOLOGY)
    taken = group_samples(reports, cuts).samples
    rows = summarise([one for one in taken if one.stage.name is StageName.TURNAROUND])
    return tuple(row for row in rows if row.n)


def pairs_rows(reports: Sequence[RunReport]) -> tuple[PairsRow, ...]:
    """Control times of the commands of each run, and of each sweep value where a number of pairs was made under
    several, by how many pairs a command made.
    """
    rows: list[PairsRow] = []
    for report in reports:
        sweeps = {one.reconfiguration: swept(one.sweep) for one in report.timelines}
        parts: dict[str, list[SwitchCommands]] = {}
        for command in report.commands:
            parts.setdefault(sweeps.get(command.reconfiguration, ""), []).append(command)
        counts = [one for commands in parts.values() for one in {command.pairs for command in commands} if one]
        if len(set(counts)) == len(counts):  # what was swept is the number of pairs
            parts = {"": [*report.commands]}
        for words, commands in parts.items():
            of = ", ".join(filter(None, (report.run.id if len(reports) > 1 else "", words)))
            rows += pairs_table(((command, report.run.virtual_time) for command in commands), of=of)
    return tuple(rows)


def stage_figures(row: StageRow) -> dict[str, str]:
    """The figures of a row for people, by their headings. Where the median is not resolved, there is no interval."""
    known = row.median_s is not None and is_resolved(row.median_s, row.error_s)
    return {
        "median": resolved(row.median_s, row.error_s),
        "95 % interval": interval(row.median_low_s, row.median_high_s) if known else MISSING,
        "mean": only_resolved(row.mean_s, row.error_s),
        "p95": only_resolved(row.p95_s, row.error_s),
        "p99": only_resolved(row.p99_s, row.error_s),
        "max": only_resolved(row.max_s, row.error_s),
        "bound": bound(row.error_s),
    }


def pairs_figures(row: PairsRow) -> dict[str, str]:
    """Likewise, of a row of control times by pairs."""
    known = is_resolved(row.mean_s, row.error_s)
    return {
        "mean": resolved(row.mean_s, row.error_s),
        "95 % interval": interval(*row.mean_within_s) if known and row.mean_within_s is not None else MISSING,
        "p99": only_resolved(row.p99_s, row.error_s),
        "max": only_resolved(row.max_s, row.error_s),
        "bound": bound(row.error_s),
    }


def _row(statistics: StageStatistics, under: Conditions, compare_with: str | None) -> StageRow:
    chosen = of_stage(figures(under, compare_with=compare_with), statistics.stage)
    drawn = statistics.origin not in (None, Origin.MEASURED)
    fitted = [drawn and not under.timings.isdisjoint(one.drawn_by) for one in chosen]
    return StageRow(
        **asdict(statistics) | {"origin": Origin.FITTED if any(fitted) else statistics.origin},
        time="virtual time" if statistics.virtual_time else "real time",
        papers=tuple(paper_words(figure, made) for figure, made in zip(chosen, fitted, strict=True)),
    )


def paper_words(figure: PaperFigure, fitted: bool) -> str:
    """`fitted`: a twin's timing was fitted to it."""
    words = [f"{figure.paper} {figure.where}: {figure.statistic} {stated(figure.low_s, figure.high_s)}"]
    words += [f"({text})" for text in (figure.condition, figure.remark) if text]
    return " ".join(words) + (f" {FITTED}" if fitted else "")
