"""Control time against the number of pairs of a command: our means and p99, compared with mFabric's figure 10."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hwd.report.figures.drawing import (
    GROUP_COLOURS,
    Dot,
    Drawing,
    Mark,
    line,
    polyline,
    text,
    tick_labels,
    ticks,
    wrapped,
)
from hwd.report.papers import PaperFigure, Statistic
from hwd.report.quantity import duration, interval, stated
from hwd.report.switch_commands import PairsRow
from hwd.timeline import StageName

WIDTH = 660.0
"""On a screen; a wider plot would only be emptier."""
_MARGIN, _LEFT, _HEIGHT = 16.0, 50.0, 220.0
_TITLE = "Control time by pairs of a command"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plot:
    """Pairs on a scale of doublings across, seconds from 0 upwards."""

    left: float
    right: float
    floor: float
    fewest: int
    most: int
    high_s: float

    def x(self, pairs: int) -> float:
        low, high = math.log2(self.fewest) - 0.3, math.log2(self.most) + 0.3
        return self.left + (self.right - self.left) * (math.log2(pairs) - low) / (high - low)

    def y(self, seconds: float) -> float:
        return self.floor - _HEIGHT * seconds / self.high_s


def of_pairs(papers: Sequence[PaperFigure]) -> tuple[PaperFigure, ...]:
    """The figures that are for a number of pairs."""
    return tuple(one for one in papers if one.pairs is not None and one.stage is StageName.CONTROL)


def by_pairs_drawing(
    rows: Sequence[PairsRow], *, papers: Sequence[PaperFigure], fitted: bool, width: float = WIDTH
) -> Drawing:
    """`rows`: at least one. `fitted`: the switches' twins draw from `papers`, so that they confirm nothing."""
    beside = of_pairs(papers)
    marks: list[Mark] = [text(_MARGIN, 26, _TITLE, kind="title")]
    y = 26.0
    for part in wrapped(_note(rows, bool(beside), fitted), width - 2 * _MARGIN):
        y += 16
        marks.append(text(_MARGIN, y, part, kind="soft"))
    legend, y = _legend(rows, beside, y + 24, width)
    reached_s = [row.mean_within_s[1] for row in rows if row.mean_within_s] + [row.p99_s for row in rows if row.p99_s]
    counts = sorted({row.pairs for row in rows} | {one.pairs for one in beside if one.pairs})
    plot = _Plot(
        left=_MARGIN + _LEFT,
        right=width - _MARGIN,
        floor=y + 14 + _HEIGHT,
        fewest=counts[0],
        most=counts[-1],
        high_s=max([*reached_s, *(row.mean_s for row in rows), *(one.high_s for one in beside)]) * 1.08 or 1e-6,
    )
    marks += [*legend, *_axes(plot, counts), *_beside(plot, beside)]
    for row in rows:
        marks += _row(row, plot)
    return Drawing(
        name="by-pairs",
        width=width,
        height=plot.floor + 46,
        title=_TITLE,
        description="; ".join(_describe(row) for row in rows),
        marks=tuple(marks),
    )


def _note(rows: Sequence[PairsRow], beside: bool, fitted: bool) -> str:
    origins = "/".join(dict.fromkeys(str(row.origin) for row in rows))
    words = f"A pair is a crossconnect made. Origin: {origins}."
    if not beside:
        return words
    if fitted:
        return f"{words} Our switch draws from the paper's figure: fitted to it, never called reproduced."
    return f"{words} Not made from the paper's figure."


def _colour(virtual_time: bool) -> str:
    return GROUP_COLOURS[1 if virtual_time else 0]


def _legend(
    rows: Sequence[PairsRow], beside: Sequence[PaperFigure], y: float, width: float
) -> tuple[list[Mark], float]:
    """The legend, and the y at which the plot begins."""
    entries: list[tuple[str, str, str]] = []
    for virtual in dict.fromkeys(row.virtual_time for row in rows):
        p99 = any(row.p99_s is not None for row in rows if row.virtual_time is virtual)
        time = "virtual time" if virtual else "real time"
        entries.append((_colour(virtual), "", f"{time}: mean, 95 % interval" + (", ring: p99" if p99 else "")))
    if beside:
        entries.append(("", "whisker", f"{beside[0].paper} {beside[0].where}: mean, ring: p99"))
    columns = 2 if width > 600 else 1
    marks: list[Mark] = []
    for index, (colour, kind, words) in enumerate(entries):
        x, below = _MARGIN + (index % columns) * (width - 2 * _MARGIN) / columns, y + 18 * (index // columns)
        marks.append(Dot(x=x + 5, y=below - 4, radius=4, colour=colour, kind=kind))
        marks.append(text(x + 16, below, words))
    return marks, y + 18 * (-(-len(entries) // columns) - 1)


def _axes(plot: _Plot, counts: Sequence[int]) -> Iterator[Mark]:
    heights = ticks(0, plot.high_s, 6)
    labels, unit = tick_labels(heights)
    for value, label in zip(heights, labels, strict=True):
        yield line(plot.left, plot.y(value), plot.right, plot.y(value), kind="axis" if value == 0 else "grid")
        told = f"{label} {unit}" if value == heights[-1] else label
        yield text(plot.left - 7, plot.y(value) + 4, told, kind="soft num", anchor="end")
    written_to = -math.inf
    for pairs in counts:
        x = plot.x(pairs)
        yield line(x, plot.floor, x, plot.floor + 4, kind="axis")
        if x - written_to >= 18:
            written_to = x
            yield text(x, plot.floor + 18, str(pairs), kind="soft num", anchor="middle")
    yield text((plot.left + plot.right) / 2, plot.floor + 36, "pairs made in one command", kind="soft", anchor="middle")


def _beside(plot: _Plot, figures: Sequence[PaperFigure]) -> Iterator[Mark]:
    for statistic in (Statistic.MEAN, Statistic.P99):
        found = [
            (one, plot.x(one.pairs), plot.y(one.high_s)) for one in figures if one.pairs and one.statistic is statistic
        ]
        found.sort(key=lambda one: one[1])
        if len(found) > 1:
            yield polyline([(x, y) for _, x, y in found], kind="paper")
        for one, x, y in found:
            told = f"{one.paper} {one.where}, {one.condition}: {statistic} {stated(one.low_s, one.high_s)}"
            yield Dot(x=x, y=y, radius=3, kind="whisker", hollow=statistic is Statistic.P99, title=told)


def _row(row: PairsRow, plot: _Plot) -> Iterator[Mark]:
    x, colour, told = plot.x(row.pairs), _colour(row.virtual_time), _describe(row)
    if row.mean_within_s is not None:
        low, high = (plot.y(seconds) for seconds in row.mean_within_s)
        yield polyline([(x, low), (x, high)], colour=colour)
        for y in (low, high):
            yield polyline([(x - 4, y), (x + 4, y)], colour=colour)
    yield Dot(x=x, y=plot.y(row.mean_s), radius=4, colour=colour, title=told)
    if row.p99_s is not None:
        yield Dot(x=x, y=plot.y(row.p99_s), radius=4, colour=colour, hollow=True, title=told)


def _describe(row: PairsRow) -> str:
    time = "virtual" if row.virtual_time else "real"
    words = f"{row.pairs} pairs, {time} time: mean {duration(row.mean_s)}"
    if row.mean_within_s is not None:
        words += f" ({interval(*row.mean_within_s)})"
    return f"{words}, p99 {duration(row.p99_s)}, n = {row.n} ({row.origin})"
