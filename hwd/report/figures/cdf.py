"""Cumulative distributions of the stages: a panel for each stage, a curve with its band for each group, the papers'
figures as dashed lines. More than three groups have a panel each.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import altair as alt

from hwd.report.figures.figure import (
    MARGIN,
    Chart,
    Datasets,
    Figure,
    Row,
    along,
    coloured,
    cut,
    fixed_place,
    heading,
    in_lines,
    in_rows,
    moved,
    panel_heading,
    unit_of,
)
from hwd.report.papers import PaperFigure, Statistic, of_stage
from hwd.report.quantity import duration, stated
from hwd.timeline import Distribution, Sample, StageName, distribution

STEPS_MAX = 500
"""Steps drawn of a curve; each stands where it is, and those between them are left out."""
TOGETHER_MAX = 3
"""Bands in one panel; more hide each other."""
_TITLE = "Share of links within a time"
_NOTE = (
    "shade: 95 % band (DKW over reconfigurations, from six on) around the bounds of all values · "
    "in brackets: reconfigurations · dashed: a paper's figure"
)
_PANEL, _NARROWEST = 276.0, 190.0
"""About the width of a panel with its axis; of the narrowest where groups have a panel each."""
_LEFT, _HEIGHT, _GAP = 44, 118, 18

Group = tuple[tuple[str, ...], bool]
"""The group of a curve: its words, and whether its time was virtual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plot:
    """One panel: a stage with the distributions of some groups, on a scale that all panels of the stage share.

    `alone`: it shows one group, which its title names by number. `domain`: of the times, in `unit`, as those
    of all rows are.
    """

    name: str
    title: str
    alone: bool
    unit: str
    domain: tuple[float, float]
    curves: Sequence[Row]
    bands: Sequence[Row]
    counts: Sequence[Row]
    papers: Sequence[Row]


def cdf_figure(taken: Sequence[Sample], *, papers: Sequence[PaperFigure] = ()) -> Figure | None:
    """Curves of the most likely values; the true distribution lies in the band. A stage without a value is not drawn,
    but named. None where no stage has one.
    """
    groups = [*dict.fromkeys((sample.group, sample.virtual_time) for sample in taken)]
    rows: list[Sequence[_Plot]] = []
    words: list[str] = []
    empty: list[str] = []
    for name in StageName:
        curves: dict[Group, Distribution] = {}
        for group in groups:
            of_group = [one for one in taken if one.stage.name is name and (one.group, one.virtual_time) == group]
            if (curve := distribution(of_group)) is not None:
                curves[group] = curve
                range_of = f"{_time(curve.best_s[0])} to {_time(curve.best_s[-1])}"
                words.append(f"{name}, {_words(group)}: {_count(curve)}, {range_of}")
        if curves:
            rows.append([*_plots(name, curves, groups, of_stage(papers, name))])
        else:
            empty.append(name)
    if not rows:
        return None
    time = "" if _is_mixed(groups) else f"{_time_of(groups[0])} · "
    notes = [time + _NOTE] + ([f"never seen: {', '.join(empty)}"] if empty else [])
    return Figure(
        name="distributions",
        title="Cumulative distribution of each stage",
        description="; ".join(words),
        chart=partial(_chart, rows, groups, notes),
    )


def _plots(
    stage: StageName, curves: Mapping[Group, Distribution], groups: Sequence[Group], papers: Sequence[PaperFigure]
) -> Iterator[_Plot]:
    """The plots of a stage: a single one of all groups, or one of each where there are many."""
    drawn = [figure for figure in papers if figure.statistic is not Statistic.UP_TO]
    low_s, high_s = _range([*curves.values()], drawn)
    factor, unit = unit_of(high_s)
    domain = (low_s * factor, high_s * factor)
    names = dict(zip(groups, _names(groups), strict=True))
    named = [(names[group], curve) for group, curve in curves.items()]
    alone = len(groups) > TOGETHER_MAX
    numbers = [groups.index(group) + 1 for group in curves]
    for number, part in zip(numbers, [[one] for one in named], strict=True) if alone else [(0, named)]:
        yield _Plot(
            name=f"{stage}_{number}" if alone else stage,
            title=f"{stage} · {number}" if alone else stage,
            alone=alone,
            unit=unit,
            domain=domain,
            curves=[row for name, curve in part for row in _curve(name, curve, domain, factor)],
            bands=[row for name, curve in part for row in _band(name, curve, domain, factor)],
            counts=[{"group": name, "words": _count(curve)} for name, curve in part],
            papers=[
                {
                    "at": at_s * factor,
                    "words": f"{one.paper} {one.where}: {one.statistic} {stated(one.low_s, one.high_s)}",
                }
                for one in drawn
                for at_s in dict.fromkeys((one.low_s, one.high_s))
            ],
        )


def _chart(
    plots: Sequence[Sequence[_Plot]], groups: Sequence[Group], notes: Sequence[str], width: float, data: Datasets
) -> Chart:
    """All stages in rows; where each group has a panel of its own, each stage has rows of its own."""
    across = width - 2 * MARGIN
    columns = max(1, round(across / _PANEL))
    alone = len(groups) > TOGETHER_MAX
    if alone:
        columns = min(max(1, int(across / _NARROWEST)), len(groups))
        columns = math.ceil(len(groups) / math.ceil(len(groups) / columns))
    panel = (across - (columns - 1) * _GAP) / columns - _LEFT - 8
    rows = [[_panel(data, plot, groups, panel, width) for plot in of_stage] for of_stage in plots]
    if not alone:
        rows = [[one for row in rows for one in row]]
    lines = [line for row in rows for line in in_lines(row, columns)]
    return in_rows(lines, _GAP, heading(_TITLE, notes, width))


def _panel(data: Datasets, plot: _Plot, groups: Sequence[Group], width: float, across: float) -> Chart:
    x = along(alt.X, "at", plot.domain, plot.unit, tickCount=4, titleAnchor="end", titlePadding=2)
    y = along(
        alt.Y, "share", (0, 1), values=[0, 0.5, 1], format="%", minExtent=_LEFT, maxExtent=_LEFT, domain=False,
        ticks=False,
    )  # fmt: skip
    names = _names(groups)
    legends = max(1, int(across / (max(map(len, names)) * 6.5 + 60)))
    colour = coloured("group", names, columns=legends, labelLimit=int(across - 80), symbolOpacity=1)
    tip = [alt.Tooltip("group:N"), alt.Tooltip("words:N", title="time"), alt.Tooltip("share:Q", format=".1%")]
    below = 0 if plot.alone else _HEIGHT  # alone in the line of the title, else where curves are seldom
    band = alt.MarkDef("area", opacity=0.16, interpolate="step-after", clip=True)
    line = alt.MarkDef("line", interpolate="step-after", strokeWidth=1.8, clip=True)
    paper = alt.Tooltip("words:N", title="paper")
    layers = [
        data.marks(plot.bands, band, x, moved(y, "low:Q"), alt.Y2("high:Q"), colour),
        data.marks(plot.curves, line, x, y, colour, tip, zoomed=plot.name),
        data.marks(plot.papers, alt.MarkDef("rule", style="paper", clip=True), x, paper),
    ]
    for index, count in enumerate(reversed(plot.counts)):
        words = alt.MarkDef("text", align="right", baseline="bottom", dx=-2, dy=-3 - 14 * index, clip=False)
        place = (fixed_place(alt.XValue, width), fixed_place(alt.YValue, below))
        layers.append(data.marks([count], words, alt.Text("words:N"), colour, *place))
    title = panel_heading(cut(plot.title, width + _LEFT), frame="group")
    return {"layer": layers, "width": width, "height": _HEIGHT, "title": title}


def _range(curves: Sequence[Distribution], papers: Sequence[PaperFigure]) -> tuple[float, float]:
    """The range of all values and figures, and of their bounds as far as these do not compress them. It never begins
    below zero: a value there is not resolved, and no duration is negative.
    """
    low_s = min([max(0.0, curve.best_s[0]) for curve in curves] + [figure.low_s for figure in papers])
    high_s = max([max(0.0, curve.best_s[-1]) for curve in curves] + [figure.high_s for figure in papers])
    span_s = (high_s - low_s) or abs(high_s) * 0.05 or 1e-6
    least_s, most_s = min(curve.least_s[0] for curve in curves), max(curve.most_s[-1] for curve in curves)
    return (
        max(0.0, low_s - max(0.05 * span_s, min(0.5 * span_s, low_s - least_s))),
        high_s + max(0.05 * span_s, min(0.5 * span_s, most_s - high_s)),
    )


def _curve(group: str, curve: Distribution, domain: Sequence[float], factor: float) -> Iterator[Row]:
    n = len(curve.best_s)
    yield {"group": group, "at": domain[0], "share": 0, "words": _time(curve.best_s[0])}
    for index in _drawn(n):
        seconds = curve.best_s[index]
        yield {"group": group, "at": seconds * factor, "share": (index + 1) / n, "words": _time(seconds)}
    yield {"group": group, "at": domain[1], "share": 1, "words": _time(curve.best_s[-1])}


def _band(group: str, curve: Distribution, domain: Sequence[float], factor: float) -> Iterator[Row]:
    """The band extends to both edges of the panel: beyond all values it is no narrower."""
    if curve.half_width is None:
        return
    low, high = 0.0, min(1.0, curve.half_width)
    yield {"group": group, "at": domain[0], "low": low, "high": high}
    steps = sorted([(at_s, 0, share) for at_s, share in curve.low] + [(at_s, 1, share) for at_s, share in curve.high])
    drawn = _drawn(len(steps))
    for index, (at_s, is_high, share) in enumerate(steps):
        low, high = (low, share) if is_high else (share, high)
        if index not in drawn:
            continue
        yield {"group": group, "at": at_s * factor, "low": low, "high": high}
    yield {"group": group, "at": domain[1], "low": low, "high": high}


def _drawn(count: int) -> range:
    """The steps of a curve that are drawn: all, or every so many, the last among them."""
    every = -(-count // STEPS_MAX)
    return range((count - 1) % every, count, every)


def _time(seconds: float) -> str:
    return duration(seconds) if seconds > 0 else "not resolved"


def _count(curve: Distribution) -> str:
    n = len(curve.best_s)
    words = f"n = {n}" + (f" ({curve.reconfigurations})" if curve.reconfigurations < n else "")
    return words if curve.least_s[n // 2] >= 0 else f"{words}, not resolved"


def _names(groups: Sequence[Group]) -> list[str]:
    """Name the groups, with a number where each has panels of its own, so that colour is not the only sign. Time is
    named where it is not the same for all.
    """
    words = [_words(one) if _is_mixed(groups) else " · ".join(one[0]) or "all" for one in groups]
    return [f"{number}: {one}" for number, one in enumerate(words, start=1)] if len(groups) > TOGETHER_MAX else [*words]


def _words(group: Group) -> str:
    return f"{' · '.join(group[0]) or 'all'}, {_time_of(group)}"


def _is_mixed(groups: Sequence[Group]) -> bool:
    return len({virtual for _, virtual in groups}) > 1


def _time_of(group: Group) -> str:
    return "virtual time" if group[1] else "real time"
