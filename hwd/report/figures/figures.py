"""All figures of a report: for the page, the SVG files and the PDF."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from hwd.report.comparison import Comparison
from hwd.report.conditions import Conditions
from hwd.report.figures.cdf import cdf_figure
from hwd.report.figures.comparison import comparison_figure
from hwd.report.figures.control_by_pairs import by_pairs_figure, of_pairs
from hwd.report.figures.figure import Figure, named
from hwd.report.figures.heat import heat_figure, link_by_repeat, link_by_stage
from hwd.report.figures.waterfall import typical, waterfall_figure
from hwd.report.grouping import by_dwell_words, by_sweep, group_samples
from hwd.report.papers import PaperFigure, figures
from hwd.report.run_report import RunReport
from hwd.report.stages import pairs_rows
from hwd.timeline import samples


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of a page, in its order, each with a name of its own. `links` by the id of a run; `comparisons` by
    the runs compared, without those in which no stage was seen in both.
    """

    typical: Sequence[Figure]
    distributions: Figure | None
    pairs: Figure | None
    links: Mapping[str, Sequence[Figure]]
    comparisons: Mapping[tuple[str, str], Figure]

    @classmethod
    def of(
        cls,
        reports: Sequence[RunReport],
        *,
        by: Sequence[str],
        compare_with: str | None,
        comparisons: Sequence[Comparison],
    ) -> Self:
        many, several = len(reports) > 1, len(comparisons) > 1
        return cls(
            typical=[*typical_figures(reports)],
            distributions=distributions(reports, by, compare_with),
            pairs=pairs(reports, compare_with),
            links={one.run.id: [named(drawn, one.run.id if many else "") for drawn in links(one)] for one in reports},
            comparisons={
                one.runs: named(comparison_figure(one), one.runs[1] if several else "")
                for one in comparisons
                if one.rows
            },
        )

    @property
    def all(self) -> list[Figure]:
        of_links = [figure for figures in self.links.values() for figure in figures]
        of_all = [one for one in (self.distributions, self.pairs) if one is not None]
        return [*self.typical, *of_all, *of_links, *self.comparisons.values()]


def typical_figures(reports: Sequence[RunReport]) -> Iterator[Figure]:
    """A typical waterfall of each run and sweep value, on the same scales.

    All show the same topology, where there is one that all have moved: the one of most links.
    """
    many = len(reports) > 1
    parts = [(report, words, found) for report in reports for words, found in by_sweep(report.timelines)]
    moved = [{one.what: len(one.moved) for one in found if one.moved} for _, _, found in parts]
    shared = set[str]().union(*moved).intersection(*(found for found in moved if found))
    most = max(sorted(shared), key=lambda what: max(found.get(what, 0) for found in moved), default=None)
    middles = [
        (report, words, middle)
        for report, words, found in parts
        if (middle := typical([one for one in found if most is None or one.what == most])) is not None
    ]
    for report, words, middle in middles:
        beside = [other for _, _, other in middles]
        drawn = waterfall_figure(middle, virtual_time=report.run.virtual_time, beside=beside)
        yield named(named(drawn, words), report.run.id if many else "")


def distributions(reports: Sequence[RunReport], by: Sequence[str], compare_with: str | None) -> Figure | None:
    taken = group_samples(reports, by)
    papers = figures(taken.all_conditions, compare_with=compare_with)
    return cdf_figure(taken.samples, papers=papers)


def pairs(reports: Sequence[RunReport], compare_with: str | None) -> Figure | None:
    """mFabric's figure is added where the run is compared with it. None where there is nothing to compare: one number
    of pairs, and no figure.
    """
    rows = pairs_rows(reports)
    papers, fitted = pairs_papers(reports, compare_with)
    if not rows or (not papers and len({row.pairs for row in rows}) == 1):
        return None
    return by_pairs_figure(rows, papers=papers, fitted=fitted)


def pairs_papers(reports: Sequence[RunReport], compare_with: str | None) -> tuple[tuple[PaperFigure, ...], bool]:
    """The figures to compare with, and whether the switches of one of the runs draw from them."""
    timings = frozenset[str]().union(*(report.lab.named for report in reports))
    papers = of_pairs(figures(Conditions(timings=timings), compare_with=compare_with))
    return papers, any(not timings.isdisjoint(one.drawn_by) for one in papers)


def links(report: RunReport) -> Iterator[Figure]:
    """The figures of links of each sweep value and topology: by stage, for each range of dwells between which durations
    differ, and by repeat.
    """
    parts = [
        (words, what, [one for one in timelines if one.what == what])
        for words, timelines in by_sweep(report.timelines)
        for what in dict.fromkeys(one.what for one in timelines)
    ]
    several = len({what for _, what, _ in parts}) > 1
    for words, what, timelines in parts:
        taken = samples(timelines, virtual_time=report.run.virtual_time)
        heats = [
            (dwell, link_by_stage(timelines, {(one.reconfiguration, one.link) for one in of_dwell}))
            for dwell, of_dwell in by_dwell_words(taken).items()
        ]
        for dwell, heat in (*heats, ("", link_by_repeat(timelines))):
            if heat is not None:
                part = " · ".join(filter(None, (words, what if several else "", dwell)))
                yield named(heat_figure(replace(heat, title=f"{heat.title} · {part}" if part else heat.title)), part)
