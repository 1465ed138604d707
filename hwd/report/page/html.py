"""The report as one HTML file: no network, no script; light and dark; legible to a screen reader and on paper."""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources

from hwd.config.playbook.playbook_schema import Cut
from hwd.report.comparison import Comparison, compare
from hwd.report.figures.drawing import Drawing
from hwd.report.figures.drawings import distributions, links, pairs, pairs_papers, pairs_rows
from hwd.report.figures.svg import svg
from hwd.report.figures.waterfall import typical, waterfall
from hwd.report.grouping import by_sweep, split_by
from hwd.report.page.comparison_html import comparison_html
from hwd.report.page.markup import escape
from hwd.report.page.pairs_html import pairs_html
from hwd.report.quantity import bound, duration, interval
from hwd.report.rc_recovery import recovery_html, recovery_rows
from hwd.report.run_report import RunReport
from hwd.report.stages import FITTED, ORIGIN_WORDS, StageRow, stage_table
from hwd.timeline import StageName

WATERFALLS_MAX = 12
"""Reconfigurations drawn one by one; the tables and distributions have all."""
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
    split = split_by(reports, by)
    comparisons = all_compared(reports) if comparisons is None else comparisons
    title = f"{reports[0].run.playbook} {reports[0].run.id}" if len(reports) == 1 else f"{len(reports)} runs compared"
    rows = stage_table(reports, by=split, compare_with=compare_with)
    body = [
        *_head(title, reports),
        *_facts(reports),
        *_waterfalls(reports),
        *_stages(rows),
        *_figure("Distributions", distributions(reports, split, compare_with)),
        *recovery_html(recovery_rows([timeline for report in reports for timeline in report.timelines])),
        *_pairs(reports, compare_with),
        *_links(reports),
        *(part for number, one in enumerate(comparisons) for part in comparison_html(one, key=f"c{number}")),
        *_trouble(reports),
        *(part for report in reports for part in _run(report)),
    ]
    style = resources.files("hwd.report.page").joinpath("page.css").read_text()
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>\n{style}</style></head>\n<body><main>\n"
        + "\n".join(body)
        + "\n</main></body></html>\n"
    )


def all_compared(reports: Sequence[RunReport]) -> tuple[Comparison, ...]:
    return tuple(compare(reports[0], other) for other in reports[1:])


def _head(title: str, reports: Sequence[RunReport]) -> Iterator[str]:
    yield f"<h1>{escape(title)}</h1>"
    testbeds = ", ".join(dict.fromkeys(report.run.testbed for report in reports))
    times = " and ".join(dict.fromkeys(_time(report) for report in reports))
    first = min(reports, key=lambda report: report.run.started_wall_ns)
    began = _date(first.run.started_wall_ns, first)
    yield f'<p class="soft">Testbed {escape(testbeds)}, {times}, {began}. '
    yield "Every figure comes from the recorded documents.</p>"


def _facts(reports: Sequence[RunReport]) -> Iterator[str]:
    timelines = [timeline for report in reports for timeline in report.timelines]
    total, n = _totals(reports)
    endings = [ending for report in reports for ending in report.endings]
    confirmed = sum(ending.outcome == "confirmed" for ending in endings)
    breaches = sum(len(timeline.breaches) for timeline in timelines)
    facts = [
        (total, f"from command to first transfer, median of {n} links"),
        (f"{confirmed} of {len(endings)}", "reconfigurations confirmed"),
        (str(breaches), "breaches of the order of instants"),
        (str(sum(report.events_lost for report in reports)), "events of agents lost"),
    ]
    if len(reports) == 1:
        outcome = reports[0].run.outcome
        facts.insert(0, (str(outcome or "under way"), reports[0].run.why or "outcome of the run"))
    yield '<div class="facts">'
    for value, words in facts:
        yield f'<div class="fact"><b>{escape(value)}</b><span>{escape(words)}</span></div>'
    yield "</div>"


def _totals(reports: Sequence[RunReport]) -> tuple[str, int]:
    """The median of each sweep value; the shortest and the longest where there are more than two."""
    rows = [row for row in stage_table(reports, by=(Cut.SWEEP,)) if row.stage is StageName.TURNAROUND and row.n]
    told = [(row.median_s or 0.0, [*row.group, *([row.time] if _times_differ(reports) else [])]) for row in rows]
    if len(told) > 2:
        told = [(min(told)[0], []), (max(told)[0], [])]
        words = " to ".join(duration(median_s) for median_s, _ in told)
    else:
        words = " / ".join(duration(median_s) + (f" ({', '.join(which)})" if which else "") for median_s, which in told)
    return words or "unknown", sum(row.n for row in rows)


def _times_differ(reports: Sequence[RunReport]) -> bool:
    return len({report.run.virtual_time for report in reports}) > 1


def _waterfalls(reports: Sequence[RunReport]) -> Iterator[str]:
    yield "<h2>A typical reconfiguration</h2>"
    drawn = 0
    for number, report in enumerate(reports):
        middles = {
            words: middle
            for words, timelines in by_sweep(report.timelines)
            if (middle := typical(timelines)) is not None
        }
        if not middles:
            yield f"<p>Run {escape(report.run.id)} moved no link.</p>"
            continue
        key = f"w{number}"
        virtual = report.run.virtual_time
        for index, (words, middle) in enumerate([*middles.items()][:WATERFALLS_MAX]):
            told = f"<figcaption>{escape(words)}</figcaption>" if words else ""
            yield f"<figure>{waterfall(middle, virtual_time=virtual, key=f'{key}m{index}')}{told}</figure>"
        shown_ids = {id(middle) for middle in middles.values()}
        others = [timeline for timeline in report.timelines if id(timeline) not in shown_ids and timeline.links]
        shown = others[: max(0, WATERFALLS_MAX - drawn)]
        drawn += len(shown)
        if shown:
            rest = f", {len(others) - len(shown)} more not drawn" if len(shown) < len(others) else ""
            run = escape(report.run.id)
            yield f"<details><summary>{len(shown)} other reconfigurations of run {run}{rest}</summary>"
            for index, timeline in enumerate(shown):
                yield f"<figure>{waterfall(timeline, virtual_time=virtual, key=f'{key}-{index}')}</figure>"
            yield "</details>"


def _stages(rows: Sequence[StageRow]) -> Iterator[str]:
    if not rows:
        return
    yield "<h2>Stages</h2>"
    headings = ("median", "95 % interval", "mean", "p95", "p99", "max", "bound")
    yield '<div class="scroll"><table><caption>'
    present = {row.origin for row in rows}
    words = [f"<b>{origin}</b>: {escape(told)}" for origin, told in ORIGIN_WORDS.items() if origin in present]
    yield (
        "; ".join(words) + ". The interval is that of the median, over whole reconfigurations, and needs six of them; "
        "p95 needs 20 values that were measured separately, p99 needs 100; a dash: unknown.</caption>"
    )
    yield '<thead><tr><th scope="col">stage</th><th scope="col" class="num">n</th>'
    yield "".join(f'<th scope="col" class="num">{heading}</th>' for heading in headings)
    yield '<th scope="col">origin</th><th scope="col">the papers</th></tr></thead><tbody>'
    group = ""
    for row in rows:
        if group != (group := f"{' · '.join(row.group) or 'all'} · {row.time}"):
            yield f'<tr class="group"><th scope="rowgroup" colspan="11">{escape(group)}</th></tr>'
        yield _stage(row)
    yield "</tbody></table></div>"


def _stage(row: StageRow) -> str:
    counts = [
        (row.measured if row.measured < row.n else 0, "measured apart"),
        (row.unknown, "unknown"),
        (row.never_left, "never left"),
    ]
    missing = [f"{count} {word}" for count, word in counts if count]
    more = f'<br><span class="soft">{", ".join(missing)}</span>' if missing else ""
    mark = f'<span class="mark {row.origin}">{row.origin}</span>' if row.origin else ""
    figures_s = (
        duration(row.median_s),
        interval(row.median_low_s, row.median_high_s),
        duration(row.mean_s),
        duration(row.p95_s),
        duration(row.p99_s),
        duration(row.max_s),
        bound(row.error_s),
    )
    cells = "".join(f'<td class="num">{figure}</td>' for figure in figures_s)
    mark_fitted = f'<span class="fitted">{FITTED.strip("[]")}</span>'
    papers = "<br>".join(map(escape, row.papers)).replace(escape(FITTED), mark_fitted)
    first = f'<th scope="row">{row.stage}</th><td class="num">{row.n}{more}</td>'
    return f"<tr>{first}{cells}<td>{mark}</td><td>{papers}</td></tr>"


def _figure(heading: str, drawing: Drawing | None) -> Iterator[str]:
    if drawing is not None:
        yield f"<h2>{heading}</h2><figure>{svg(drawing)}</figure>"


def _pairs(reports: Sequence[RunReport], compare_with: str | None) -> Iterator[str]:
    if (drawing := pairs(reports, compare_with)) is not None:
        papers, fitted = pairs_papers(reports, compare_with)
        yield from pairs_html(drawing, pairs_rows(reports), papers, fitted=fitted)


def _links(reports: Sequence[RunReport]) -> Iterator[str]:
    drawn = [(report, number, one) for number, report in enumerate(reports) for one in links(report)]
    if drawn:
        yield "<h2>Links</h2>"
    headed = -1
    for report, number, one in drawn:
        if len(reports) > 1 and headed != (headed := number):
            yield f"<h3>Run {escape(report.run.id)}</h3>"
        yield f"<figure>{svg(one, key=f'{one.name}-{number}')}</figure>"


def _trouble(reports: Sequence[RunReport]) -> Iterator[str]:
    """Failures and losses; nothing where there are none."""
    found: list[str] = []
    for report in reports:
        found += report.steps_failed
        found += report.remarks
        found += [
            f"{ending.reconfiguration} {ending.outcome}: {ending.why}"
            for ending in report.endings
            if ending.outcome != "confirmed"
        ]
        found += [f"{one.reconfiguration}: {text}" for one in report.timelines for text in one.breaches]
    unknown: dict[str, int] = {}
    for report in reports:
        for timeline in report.timelines:
            for link in timeline.links:
                for instant in link.instants:
                    if instant.knowledge == "unknown":
                        words = f"{link.link}: {instant.name} unknown, {instant.why}"
                        unknown[words] = unknown.get(words, 0) + 1
    if found:
        items = "".join(f"<li>{escape(text)}</li>" for text in found)
        yield f'<h2>What went wrong</h2><ul class="breaches">{items}</ul>'
    explained = [
        f"{one.reconfiguration}: {text}" for report in reports for one in report.timelines for text in one.explained
    ]
    if explained:
        items = "".join(f"<li>{escape(text)}</li>" for text in explained)
        yield f"<details><summary>What runs took down themselves ({len(explained)})</summary><ul>{items}</ul></details>"
    if unknown:
        items = "".join(f"<li>{escape(text)} ({count} times)</li>" for text, count in unknown.items())
        yield f"<details><summary>What is not known ({len(unknown)})</summary>"
        yield f'<ul class="breaches">{items}</ul></details>'


def _run(report: RunReport) -> Iterator[str]:
    run = report.run
    yield f"<h2>Run {escape(run.id)}</h2>"
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
    yield _nested(facts)
    if run.inventory:
        yield f"<details><summary>Inventory</summary>{_nested(run.inventory)}</details>"
    for name, text in (("Playbook", run.playbook_text), ("Testbed", run.testbed_text)):
        if text:
            cut = "" if len(text) <= TEXT_MAX else f"\n... {len(text) - TEXT_MAX} more characters"
            yield f"<details><summary>{name}, as it was</summary><pre>{escape(text[:TEXT_MAX])}{cut}</pre></details>"


def _nested(value: object) -> str:
    match value:
        case Mapping():
            items = "".join(f"<dt>{escape(str(key))}</dt><dd>{_nested(part)}</dd>" for key, part in value.items())
            return f"<dl>{items}</dl>"
        case list() | tuple():
            return ", ".join(map(_nested, value)) if value else "none"
        case None:
            return '<span class="soft">unknown</span>'
        case bool():
            return "yes" if value else "no"
    return escape(str(value))


def _time(report: RunReport) -> str:
    return "virtual time" if report.run.virtual_time else "real time"


def _date(wall_ns: int, report: RunReport) -> str:
    """The date of a run; one in virtual time says so."""
    text = datetime.datetime.fromtimestamp(wall_ns / _NS_IN_S, tz=datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{text} (virtual)" if report.run.virtual_time else text
