"""All drawings of a report, in the width that is asked for: what the page, the SVG files and the PDF have in common."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hwd.report.bypairs import WIDTH as BY_PAIRS_WIDTH
from hwd.report.bypairs import by_pairs_drawing, of_pairs
from hwd.report.cdf import cdf_drawing
from hwd.report.commands import PairsRow, pairs_table
from hwd.report.comparison import Comparison, comparison_drawing
from hwd.report.drawing import SCREEN_WIDTH, Drawing
from hwd.report.heat import heat_drawing, link_by_repeat, link_by_stage
from hwd.report.load import RunReport
from hwd.report.papers import PaperFigure, figures
from hwd.report.stages import SEED
from hwd.report.waterfall import typical, waterfall_drawing
from hwd.timeline import Sample, samples


def drawings(
    reports: Sequence[RunReport],
    *,
    by: Sequence[str],
    compare_with: str | None,
    comparisons: Sequence[Comparison],
    width: float,
) -> Iterator[Drawing]:
    """For paper: one waterfall for each run, the distributions, pairs, links, comparisons. Names tell apart what there is for several runs."""
    many = len(reports) > 1
    for report in reports:
        if (middle := typical(report.timelines)) is not None:
            drawn = waterfall_drawing(middle, virtual_time=report.run.virtual_time, width=width)
            yield named(drawn, report.run.id if many else "")
    for one in (distributions(reports, by, compare_with, width), pairs(reports, compare_with, width)):
        if one is not None:
            yield one
    for report in reports:
        for drawn in links(report, width):
            yield named(drawn, report.run.id if many else "")
    for comparison in comparisons:
        if comparison.rows:
            several = len(comparisons) > 1
            yield named(comparison_drawing(comparison, width=width), comparison.second.run.id if several else "")


def named(drawing: Drawing, more: str) -> Drawing:
    """With another name for its file: letters, digits, dots and dashes only."""
    return replace(drawing, name=f"{drawing.name}-{re.sub('[^A-Za-z0-9.-]', '_', more)}") if more else drawing


def distributions(
    reports: Sequence[RunReport], by: Sequence[str], compare_with: str | None, width: float = SCREEN_WIDTH
) -> Drawing | None:
    taken: list[Sample] = []
    for report in reports:
        for timeline in report.timelines:
            words = {"topology": timeline.what, "run": report.run.id, "testbed": report.run.testbed}
            group = [words[part] for part in by if part in words]
            taken += samples([timeline], virtual_time=report.run.virtual_time, group=group)
    if all(sample.stage.seconds is None for sample in taken):
        return None
    papers = figures(timings=_timings(reports), compare_with=compare_with)
    return cdf_drawing(taken, papers=papers, width=width)


def pairs_rows(reports: Sequence[RunReport]) -> tuple[PairsRow, ...]:
    return pairs_table(
        ((command, report.run.virtual_time) for report in reports for command in report.commands), seed=SEED
    )


def pairs(reports: Sequence[RunReport], compare_with: str | None, width: float = BY_PAIRS_WIDTH) -> Drawing | None:
    """mFabric's figure stands beside where the run is compared with it. None where there is nothing to compare: one number of pairs, and no figure."""
    rows = pairs_rows(reports)
    papers, fitted = pairs_papers(reports, compare_with)
    if not rows or (not papers and len({row.pairs for row in rows}) == 1):
        return None
    return by_pairs_drawing(rows, papers=papers, fitted=fitted, width=width)


def pairs_papers(reports: Sequence[RunReport], compare_with: str | None) -> tuple[tuple[PaperFigure, ...], bool]:
    """The figures to stand beside, and whether the switches of one of the runs draw from them."""
    timings = _timings(reports)
    papers = of_pairs(figures(timings=timings, compare_with=compare_with))
    return papers, any(not timings.isdisjoint(one.drawn_by) for one in papers)


def links(report: RunReport, width: float = SCREEN_WIDTH) -> Iterator[Drawing]:
    for heat in (link_by_stage(report.timelines), link_by_repeat(report.timelines)):
        if heat is not None:
            yield heat_drawing(heat, width=width)


def _timings(reports: Sequence[RunReport]) -> frozenset[str]:
    return frozenset[str]().union(*(report.timings for report in reports))
