"""The report as one HTML file: no network; light and dark; legible on a telephone, on paper and to a screen reader."""

import datetime
import html as html_text
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

import jinja2
from markupsafe import Markup

from hwd.model.plural import plural
from hwd.report import comparison as compared
from hwd.report import jobs, predictions, quantity, rc_recovery, stages
from hwd.report.comparison import Comparison
from hwd.report.figures.comparison import comparison_figure
from hwd.report.figures.figure import SCREEN_WIDTHS, Figure, config, named
from hwd.report.figures.figures import Figures, pairs_papers
from hwd.report.figures.render import script, specifications, svg
from hwd.report.figures.waterfall import waterfall_figure
from hwd.report.grouping import notes, split_by
from hwd.report.run_report import RunReport
from hwd_drivers.core.printable import printable

WATERFALLS_MAX = 12
"""Reconfigurations drawn one by one; the tables and distributions have all."""
FACTS_MAX = 8
"""Treatments that have a fact each at the top. Of more, some would be as good as none."""
LINES_MAX = 200
"""Lines in a list of what went wrong, or is not known: the rest is counted."""
TEXT_MAX = 20_000
"""Characters shown of a file."""
_NS_IN_S = 1e9


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
    split = split_by(reports, by)
    rows = stages.stage_table(reports, by=split, compare_with=compare_with)
    drawn = Figures.of(reports, by=split, compare_with=compare_with, comparisons=comparisons)
    pairs = stages.pairs_rows(reports)
    papers, fitted = pairs_papers(reports, compare_with)
    return _templates().get_template("report.html.jinja").render(
        reports=reports,
        facts=_facts(reports),
        notes=[note for report in reports for note in notes(report)],
        drawn=drawn,
        others=[*_others(reports)],
        stage_rows=rows,
        origins={row.origin for row in rows},
        recoveries=[(report.run.id, rc_recovery.recovery_rows(report.timelines)) for report in reports],
        scored=[(report.run.id, predictions.prediction_rows(report.predictions)) for report in reports],
        job_rows=[(report.run.id, jobs.job_rows(report.jobs)) for report in reports],
        pairs=pairs,
        papers={
            row.pairs: [stages.paper_words(one, fitted) for one in papers if one.pairs == row.pairs] for row in pairs
        },
        comparisons=comparisons,
        wrong=_some(_wrong(reports)),
        explained=_some(
            f"{one.reconfiguration}: {text}" for report in reports for one in report.timelines for text in one.explained
        ),
        unknown=_some(f"{words} ({plural(count, 'time')})" for words, count in _unknown(reports).items()),
        style=_text("page.css"),
        script=_text("report.js"),
        vega=script(),
        looks={"widths": SCREEN_WIDTHS, "light": config(dark=False), "dark": config(dark=True)},
    )  # fmt: skip


def comparison_html(comparison: Comparison) -> str:
    """The comparison alone, with a picture in place of a chart: for a notebook."""
    drawn = Markup(svg(comparison_figure(comparison), SCREEN_WIDTHS[1])) if comparison.rows else ""
    parts: Any = _templates().get_template("parts.html.jinja").module
    text: str = str(parts.comparison(comparison, drawn))
    return text


def all_compared(reports: Sequence[RunReport]) -> tuple[Comparison, ...]:
    return tuple(compared.compare(reports[0], other) for other in reports[1:])


@cache
def _templates() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("hwd.report.page", "."),
        autoescape=True,
        finalize=_finalize,
        undefined=jinja2.StrictUndefined,
    )
    made.filters |= {"cut": cut, "date": date, "specifications": specifications}
    made.globals |= {
        "compared": compared, "jobs": jobs, "predictions": predictions, "quantity": quantity,
        "rc_recovery": rc_recovery, "stages": stages,
    }  # fmt: skip
    return made


def _finalize(value: object) -> object:
    """Cleans the texts of strangers, beside what autoescape does."""
    return Markup(escape(value)) if isinstance(value, str) and not isinstance(value, Markup) else value


def escape(text: str) -> str:
    """Escape a text: it can neither end its element nor change the direction of its neighbours. Lines and tabs stay, as
    in files; other invisible characters become escapes.
    """
    return html_text.escape("\n".join("\t".join(map(_shown, line.split("\t"))) for line in text.split("\n")))


def _shown(text: str) -> str:
    return printable(text.replace("\u00a0", " "), most=len(text) * 10 + 1)


def _text(name: str) -> str:
    return resources.files("hwd.report.page").joinpath(name).read_text()


def _facts(reports: Sequence[RunReport]) -> Iterator[tuple[str, str]]:
    """The outcome, the turnaround of each treatment, and what makes a reader careful."""
    if len(reports) == 1:
        yield str(reports[0].run.outcome or "under way"), reports[0].run.why or "outcome of the run"
    timed = stages.turnaround_rows(reports)
    if len(timed) > FACTS_MAX:
        yield str(len(timed)), "treatments: the table of stages has the times of each"
    for row in timed if len(timed) <= FACTS_MAX else ():
        words = (
            f"from command to first transfer, median of {row.n} in {plural(row.reconfigurations, 'reconfiguration')}"
        )
        yield quantity.resolved(row.median_s, row.error_s), ", ".join([words, *row.group])
    endings = [ending for report in reports for ending in report.endings]
    confirmed = sum(ending.outcome == "confirmed" for ending in endings)
    breaches = sum(len(timeline.breaches) for report in reports for timeline in report.timelines)
    yield f"{confirmed} of {len(endings)}", "reconfigurations confirmed"
    yield str(breaches), "breaches of the order of instants"
    yield str(sum(report.events_lost for report in reports)), "events of agents lost"


def _others(reports: Sequence[RunReport]) -> Iterator[tuple[str, Sequence[Figure]]]:
    drawn = 0
    for report in reports:
        others = [timeline for timeline in report.timelines if timeline.links]
        some = others[: max(0, WATERFALLS_MAX - drawn)]
        drawn += len(some)
        if some:
            rest = f", {len(others) - len(some)} more not drawn" if len(some) < len(others) else ""
            waterfalls = [waterfall_figure(one, virtual_time=report.run.virtual_time) for one in some]
            yield (
                f"{plural(len(some), 'reconfiguration')} of run {report.run.id}, one by one{rest}",
                [
                    named(figure, f"{report.run.id} {one.reconfiguration}")
                    for figure, one in zip(waterfalls, some, strict=True)
                ],
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
    return Counter(
        f"{link.link}: {instant.name} unknown, {instant.why}"
        for report in reports
        for timeline in report.timelines
        for link in timeline.links
        for instant in link.instants
        if instant.knowledge == "unknown"
    )


def _some(lines: Iterable[str]) -> tuple[int, Sequence[str]]:
    """How many there are, and the first of them."""
    found = [*lines]
    rest = [f"{len(found) - LINES_MAX} more; `hwd export --as jsonl` has all"] if len(found) > LINES_MAX else []
    return len(found), [*found[:LINES_MAX], *rest]


def cut(text: str) -> str:
    """Cut a file to what a page shows."""
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}\n... {len(text) - TEXT_MAX} more characters"


def date(wall_ns: int, report: RunReport) -> str:
    """The date of a run; one in virtual time says so."""
    text = datetime.datetime.fromtimestamp(wall_ns / _NS_IN_S, tz=datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{text} (virtual)" if report.run.virtual_time else text
