"""All drawings of a report, in the requested width: for the page, the SVG files and the PDF."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hwd.report.comparison import Comparison, comparison_drawing
from hwd.report.conditions import Conditions
from hwd.report.figures.cdf import cdf_drawing
from hwd.report.figures.control_by_pairs import WIDTH as BY_PAIRS_WIDTH
from hwd.report.figures.control_by_pairs import by_pairs_drawing, of_pairs
from hwd.report.figures.drawing import SCREEN_WIDTH, Drawing
from hwd.report.figures.heat import heat_drawing, link_by_repeat, link_by_stage
from hwd.report.figures.waterfall import typical, waterfall_drawing
from hwd.report.grouping import by_sweep, group_samples
from hwd.report.papers import PaperFigure, figures
from hwd.report.run_report import RunReport
from hwd.report.stages import SEED
from hwd.report.switch_commands import PairsRow, pairs_table


def drawings(
    reports: Sequence[RunReport],
    *,
    by: Sequence[str],
    compare_with: str | None,
    comparisons: Sequence[Comparison],
    width: float,
) -> Iterator[Drawing]:
    """For paper: one waterfall for each run and sweep value, the distributions, pairs, links, comparisons. Names are
    unique over several runs.
    """
    many = len(reports) > 1
    for report in reports:
        for words, timelines in by_sweep(report.timelines):
            if (middle := typical(timelines)) is not None:
                drawn = waterfall_drawing(middle, virtual_time=report.run.virtual_time, width=width)
                yield named(named(drawn, words), report.run.id if many else "")
    for one in (distributions(reports, by, compare_with, width), pairs(reports, compare_with, width)):
        if one is not None:
            yield one
    for report in reports:
        for drawn in links(report, width):
            yield named(drawn, report.run.id if many else "")
    for comparison in comparisons:
        if comparison.rows:
            several = len(comparisons) > 1
            yield named(comparison_drawing(comparison, width=width), comparison.runs[1] if several else "")


def named(drawing: Drawing, more: str) -> Drawing:
    """The drawing with another file name: letters, digits, dots and dashes only."""
    return replace(drawing, name=f"{drawing.name}-{re.sub('[^A-Za-z0-9.-]', '_', more)}") if more else drawing


def distributions(
    reports: Sequence[RunReport], by: Sequence[str], compare_with: str | None, width: float = SCREEN_WIDTH
) -> Drawing | None:
    taken = group_samples(reports, by)
    if all(sample.stage.seconds is None for sample in taken.samples):
        return None
    papers = figures(taken.all_conditions, compare_with=compare_with)
    return cdf_drawing(taken.samples, papers=papers, width=width)


def pairs_rows(reports: Sequence[RunReport]) -> tuple[PairsRow, ...]:
    return pairs_table(
        ((command, report.run.virtual_time) for report in reports for command in report.commands), seed=SEED
    )


def pairs(reports: Sequence[RunReport], compare_with: str | None, width: float = BY_PAIRS_WIDTH) -> Drawing | None:
    """mFabric's figure is added where the run is compared with it. None where there is nothing to compare: one number
    of pairs, and no figure.
    """
    rows = pairs_rows(reports)
    papers, fitted = pairs_papers(reports, compare_with)
    if not rows or (not papers and len({row.pairs for row in rows}) == 1):
        return None
    return by_pairs_drawing(rows, papers=papers, fitted=fitted, width=width)


def pairs_papers(reports: Sequence[RunReport], compare_with: str | None) -> tuple[tuple[PaperFigure, ...], bool]:
    """The figures to compare with, and whether the switches of one of the runs draw from them."""
    timings = frozenset[str]().union(*(report.lab.named for report in reports))
    papers = of_pairs(figures(Conditions(timings=timings), compare_with=compare_with))
    return papers, any(not timings.isdisjoint(one.drawn_by) for one in papers)


def links(report: RunReport, width: float = SCREEN_WIDTH) -> Iterator[Drawing]:
    """One drawing for each sweep value."""
    for words, timelines in by_sweep(report.timelines):
        for heat in (link_by_stage(timelines), link_by_repeat(timelines)):
            if heat is not None:
                titled = replace(heat, title=f"{heat.title} · {words}") if words else heat
                yield named(heat_drawing(titled, width=width), words)
