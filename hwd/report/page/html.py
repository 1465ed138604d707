"""The report as one HTML file: no network; light and dark; legible on a telephone, on paper and to a screen reader."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from hwd.config.playbook.playbook_schema import Cut
from hwd.report.comparison import Comparison, compare, delta, shift, verdict
from hwd.report.figures.comparison import comparison_figure
from hwd.report.figures.figure import SCREEN_WIDTHS, Figure, config
from hwd.report.figures.figures import distributions, links, pairs, pairs_papers, typical_figures
from hwd.report.figures.render import script, specifications, svg
from hwd.report.figures.waterfall import waterfall_figure
from hwd.report.grouping import group_samples, split_by, two_dwells
from hwd.report.page.markup import escape
from hwd.report.quantity import bound, duration, interval, resolved, stated
from hwd.report.rc_recovery import RECOVERY_HEADINGS, recovery_cells, recovery_rows
from hwd.report.run_report import RunReport
from hwd.report.stages import FITTED, ORIGIN_WORDS, SEED, StageRow, pairs_rows, stage_table
from hwd.timeline import StageName, summarise

WATERFALLS_MAX = 12
"""Reconfigurations drawn one by one; the tables and distributions have all."""
FACTS_MAX = 6
"""Treatments with a fact of their own at the top; more are in the table of stages only."""
TEXT_MAX = 20_000
"""Characters shown of a file."""
_NS_IN_S = 1e9
_RECOVERY = (
    "From the carrier of an end until the first send that was posted in the dark on a reliable connection succeeded, "
    "or until a new queue pair was made. It is no part of ready, and is to be read together with the ACK timeout."
)
_PAIRS = (
    "Commands that made so many crossconnects at once. The interval is that of the mean, over whole reconfigurations, "
    "and needs 20 of them; p99 needs 100 commands."
)
_PAIRS_HEADINGS = ("pairs", "n", "mean", "95 % interval", "p99", "max", "bound", "origin")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chart:
    """A figure on the page. `words`: its figures, for those who cannot see it."""

    id: str
    title: str
    words: str
    caption: str
    specifications: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """`papers`: figures to compare with, which the origin of `fitted` was made from."""

    cells: Sequence[str]
    origin: str
    papers: Sequence[str] = ()
    fitted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """The last heading is that of the origin."""

    caption: str
    headings: Sequence[str]
    rows: Sequence[_Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """A row of the table of stages; `missing`: values that are not among the `n`."""

    group: str
    stage: str
    n: int
    missing: str
    cells: Sequence[str]
    origin: str
    papers: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Difference:
    """`sides`: number, median and origin of each run."""

    topology: str
    stage: str
    sides: Sequence[tuple[int, str, str]]
    shift: str
    delta: str
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    first: str
    second: str
    note: str
    remarks: Sequence[str]
    rows: Sequence[_Difference]
    chart: _Chart | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    id: str
    facts: Mapping[str, object]
    inventory: Mapping[str, object]
    texts: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """All that the template has; nothing of it is HTML."""

    title: str
    origin: str
    facts: Sequence[tuple[str, str]]
    remarks: Sequence[str]
    typical: Sequence[_Chart]
    others: Sequence[tuple[str, Sequence[_Chart]]]
    stages: Sequence[_Stage]
    origins: Mapping[str, str]
    distributions: _Chart | None
    recovery: _Table | None
    pairs: tuple[_Chart, _Table] | None
    links: Sequence[tuple[str, Sequence[_Chart]]]
    comparisons: Sequence[_Compared]
    wrong: Sequence[str]
    explained: Sequence[str]
    unknown: Mapping[str, int]
    runs: Sequence[_Run]


class _Charts:
    """Numbers the figures of a page."""

    def __init__(self) -> None:
        self._number = 0

    def __call__(self, figure: Figure, caption: str = "") -> _Chart:
        self._number += 1
        return _Chart(
            id=f"chart-{self._number}",
            title=figure.title,
            words=figure.description,
            caption=caption,
            specifications=specifications(figure),
        )


def html(
    reports: Sequence[RunReport],
    *,
    by: Sequence[str] | None = None,
    compare_with: str | None = None,
    comparisons: Sequence[Comparison] | None = None,
) -> str:
    """One page for one run or several. `by`: the groups of tables, as for `split_by`. `comparisons` None: each further
    run with the first.
    """
    comparisons = all_compared(reports) if comparisons is None else comparisons
    look = {"widths": SCREEN_WIDTHS, "light": config(dark=False), "dark": config(dark=True)}
    return _templates().get_template("report.html.jinja").render(
        page=_page(reports, split_by(reports, by), compare_with, comparisons),
        style=_text("page.css"),
        script=_text("report.js"),
        vega=script(),
        looks=look,
        fitted=FITTED,
    )  # fmt: skip


def comparison_html(comparison: Comparison) -> str:
    """The comparison alone, with a picture in place of a chart: for a notebook."""
    drawn = Markup(svg(comparison_figure(comparison), SCREEN_WIDTHS[1])) if comparison.rows else ""
    parts: Any = _templates().get_template("parts.html.jinja").module
    text: str = str(parts.comparison(_compared(comparison, None), drawn))
    return text


def all_compared(reports: Sequence[RunReport]) -> tuple[Comparison, ...]:
    return tuple(compare(reports[0], other) for other in reports[1:])


@cache
def _templates() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("hwd.report.page", "."),
        autoescape=True,
        finalize=_finalize,
        undefined=jinja2.StrictUndefined,
    )


def _finalize(value: object) -> object:
    """Cleans the texts of strangers, beside what autoescape does."""
    return Markup(escape(value)) if isinstance(value, str) and not isinstance(value, Markup) else value


def _text(name: str) -> str:
    return resources.files("hwd.report.page").joinpath(name).read_text()


def _page(
    reports: Sequence[RunReport], split: Sequence[Cut], compare_with: str | None, comparisons: Sequence[Comparison]
) -> _Page:
    chart = _Charts()
    first = reports[0].run
    stages = stage_table(reports, by=split, compare_with=compare_with)
    by_stage = distributions(reports, split, compare_with)
    recoveries = recovery_rows([timeline for report in reports for timeline in report.timelines])
    present = {row.origin for row in stages}
    of_links = [(report.run.id, [chart(one) for one in links(report)]) for report in reports]
    return _Page(
        title=f"{first.playbook} {first.id}" if len(reports) == 1 else f"{len(reports)} runs compared",
        origin=_origin(reports),
        facts=[*_facts(reports)],
        remarks=[*_remarks(reports)],
        typical=[chart(figure, caption) for figure, caption in typical_figures(reports)],
        others=[*_others(reports, chart)],
        stages=[*map(_stage, stages)],
        origins={str(origin): words for origin, words in ORIGIN_WORDS.items() if origin in present},
        distributions=None if by_stage is None else chart(by_stage),
        recovery=_Table(
            caption=_RECOVERY,
            headings=RECOVERY_HEADINGS,
            rows=[_Row(cells=cells, origin=origin) for *cells, origin in map(recovery_cells, recoveries)],
        )
        if recoveries
        else None,
        pairs=_pairs(reports, compare_with, chart),
        links=[(run, charts) for run, charts in of_links if charts],
        comparisons=[
            _compared(one, chart(comparison_figure(one)) if one.rows else None) for one in comparisons
        ],
        wrong=[*_wrong(reports)],
        explained=[
            f"{one.reconfiguration}: {text}" for report in reports for one in report.timelines for text in one.explained
        ],
        unknown=_unknown(reports),
        runs=[*map(_run, reports)],
    )  # fmt: skip


def _origin(reports: Sequence[RunReport]) -> str:
    testbeds = ", ".join(dict.fromkeys(report.run.testbed for report in reports))
    times = " and ".join(dict.fromkeys(_time(report) for report in reports))
    first = min(reports, key=lambda report: report.run.started_wall_ns)
    return f"Testbed {testbeds}, {times}, {_date(first.run.started_wall_ns, first)}."


def _facts(reports: Sequence[RunReport]) -> Iterator[tuple[str, str]]:
    """No fact has the values of two treatments: each sweep value and each run has its own."""
    if len(reports) == 1:
        yield str(reports[0].run.outcome or "under way"), reports[0].run.why or "outcome of the run"
    cuts = (Cut.RUN, Cut.SWEEP) if len(reports) > 1 else (Cut.SWEEP,)
    taken = group_samples(reports, cuts).samples
    rows = summarise([one for one in taken if one.stage.name is StageName.TURNAROUND], seed=SEED)
    for row in rows[:FACTS_MAX]:
        words = ["from command to first transfer", f"median of {row.n} links", *row.group]
        yield resolved(row.median_s, row.error_s) if row.n else "unknown", ", ".join(words)
    if len(rows) > FACTS_MAX:
        yield f"{len(rows) - FACTS_MAX} more", "treatments: the table of stages has each"
    endings = [ending for report in reports for ending in report.endings]
    confirmed = sum(ending.outcome == "confirmed" for ending in endings)
    breaches = sum(len(timeline.breaches) for report in reports for timeline in report.timelines)
    yield f"{confirmed} of {len(endings)}", "reconfigurations confirmed"
    yield str(breaches), "breaches of the order of instants"
    yield str(sum(report.events_lost for report in reports)), "events of agents lost"


def _remarks(reports: Sequence[RunReport]) -> Iterator[str]:
    """Of runs and topologies without a waterfall."""
    for report in reports:
        if not any(not link.kept for timeline in report.timelines for link in timeline.links):
            yield f"Run {report.run.id} moved no link."
            continue
        moved = {one.what for one in report.timelines if any(not link.kept for link in one.links)}
        stayed = dict.fromkeys(one.what for one in report.timelines if one.links and one.what not in moved)
        if stayed:
            yield f"Run {report.run.id}: stayed, as it was there before: {', '.join(stayed)}."
        if (between_s := two_dwells(report.timelines)) is not None:
            low, high = map(duration, between_s)
            yield f"Run {report.run.id}: short dwells (up to {low}) and long ones (from {high}) have rows of their own."


def _others(reports: Sequence[RunReport], chart: _Charts) -> Iterator[tuple[str, Sequence[_Chart]]]:
    drawn = 0
    for report in reports:
        others = [timeline for timeline in report.timelines if timeline.links]
        some = others[: max(0, WATERFALLS_MAX - drawn)]
        drawn += len(some)
        if some:
            rest = f", {len(others) - len(some)} more not drawn" if len(some) < len(others) else ""
            virtual = report.run.virtual_time
            figures = [waterfall_figure(timeline, virtual_time=virtual) for timeline in some]
            yield (
                f"{len(some)} reconfigurations of run {report.run.id}, one by one{rest}",
                [chart(figure, timeline.reconfiguration) for figure, timeline in zip(figures, some, strict=True)],
            )


def _stage(row: StageRow) -> _Stage:
    counts = [
        (row.measured if row.measured < row.n else 0, "measured apart"),
        (row.unknown, "unknown"),
        (row.never_left, "never left"),
    ]
    return _Stage(
        group=f"{' · '.join(row.group) or 'all'} · {row.time}",
        stage=row.stage,
        n=row.n,
        missing=", ".join(f"{count} {word}" for count, word in counts if count),
        cells=(
            resolved(row.median_s, row.error_s),
            interval(row.median_low_s, row.median_high_s),
            resolved(row.mean_s, row.error_s),
            duration(row.p95_s),
            duration(row.p99_s),
            duration(row.max_s),
            bound(row.error_s),
        ),
        origin=str(row.origin or ""),
        papers=row.papers,
    )


def _pairs(reports: Sequence[RunReport], compare_with: str | None, chart: _Charts) -> tuple[_Chart, _Table] | None:
    figure = pairs(reports, compare_with)
    if figure is None:
        return None
    papers, fitted = pairs_papers(reports, compare_with)
    rows = [
        _Row(
            cells=(
                f"{row.pairs}, {'virtual' if row.virtual_time else 'real'} time",
                str(row.n),
                resolved(row.mean_s, row.error_s),
                interval(*(row.mean_within_s or (None, None))),
                duration(row.p99_s),
                duration(row.max_s),
                bound(row.error_s),
            ),
            origin=row.origin,
            papers=[
                f"{one.paper} {one.where}: {one.statistic} {stated(one.low_s, one.high_s)}"
                for one in papers
                if one.pairs == row.pairs
            ],
            fitted=fitted,
        )
        for row in pairs_rows(reports)
    ]
    return chart(figure), _Table(caption=_PAIRS, headings=_PAIRS_HEADINGS, rows=rows)


def _compared(comparison: Comparison, chart: _Chart | None) -> _Compared:
    first, second = comparison.runs
    rows = [
        _Difference(
            topology=row.topology or "all links",
            stage=row.stage,
            sides=[
                (n, duration(median_s), str(origin or ""))
                for n, median_s, origin in zip(row.n, row.median_s, row.origins, strict=True)
            ],
            shift=shift(row),
            delta=delta(row),
            verdict=verdict(row),
        )
        for row in comparison.rows
    ]
    return _Compared(
        first=first, second=second, note=comparison.note, remarks=comparison.remarks, rows=rows, chart=chart
    )


def _wrong(reports: Sequence[RunReport]) -> Iterator[str]:
    """Failures and losses; nothing where there are none."""
    for report in reports:
        yield from report.steps_failed
        yield from report.remarks
        for ending in report.endings:
            if ending.outcome != "confirmed":
                yield f"{ending.reconfiguration} {ending.outcome}: {ending.why}"
            yield from (f"{ending.reconfiguration}: {hang}" for hang in ending.more_hangs)
        for one in report.timelines:
            yield from (f"{one.reconfiguration}: {text}" for text in one.breaches)


def _unknown(reports: Sequence[RunReport]) -> Mapping[str, int]:
    """How often each instant is unknown, and why."""
    found: dict[str, int] = {}
    for report in reports:
        for timeline in report.timelines:
            for link in timeline.links:
                for instant in link.instants:
                    if instant.knowledge == "unknown":
                        words = f"{link.link}: {instant.name} unknown, {instant.why}"
                        found[words] = found.get(words, 0) + 1
    return found


def _run(report: RunReport) -> _Run:
    run = report.run
    ended = "under way" if run.ended_wall_ns is None else _date(run.ended_wall_ns, report)
    lasted = None if run.ended_wall_ns is None else (run.ended_wall_ns - run.started_wall_ns) / _NS_IN_S
    facts: dict[str, object] = {
        "playbook": run.playbook,
        "outcome": f"{run.outcome or 'under way'}" + (f": {run.why}" if run.why else ""),
        "began": _date(run.started_wall_ns, report),
        "ended": ended + ("" if lasted is None else f", after {duration(lasted)}"),
        "time": _time(report),
        "testbed": run.testbed,
        "hwd": run.version + (f", commit {run.commit}" if run.commit else ""),
        "between read and write": str(report.guard),
        "twins' timings": ", ".join(sorted(report.lab.named)) or "none: hardware",
        "parameters": dict(run.parameters) or "none",
    }
    files = (("Playbook", run.playbook_text), ("Testbed", run.testbed_text))
    return _Run(
        id=run.id,
        facts=facts,
        inventory=run.inventory,
        texts=[(name, _cut(text)) for name, text in files if text],
    )


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}\n... {len(text) - TEXT_MAX} more characters"


def _time(report: RunReport) -> str:
    return "virtual time" if report.run.virtual_time else "real time"


def _date(wall_ns: int, report: RunReport) -> str:
    """The date of a run; one in virtual time says so."""
    text = datetime.datetime.fromtimestamp(wall_ns / _NS_IN_S, tz=datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{text} (virtual)" if report.run.virtual_time else text
