"""Control time against the number of pairs of a command: our means and p99, compared with mFabric's figure 10."""

from collections.abc import Iterator, Sequence
from functools import partial

import altair as alt

from hwd.model.plural import plural
from hwd.report.figures.figure import MARGIN, Chart, Datasets, Figure, Row, along, coloured, heading, unit_of
from hwd.report.papers import PaperFigure, Statistic
from hwd.report.quantity import duration, interval, stated
from hwd.report.switch_commands import PairsRow
from hwd.timeline import StageName

_WIDTH = 660.0
"""A wider plot would only be emptier."""
_LEFT, _HEIGHT = 56, 220
_TITLE = "Control time by pairs of a command"


def of_pairs(papers: Sequence[PaperFigure]) -> tuple[PaperFigure, ...]:
    """The figures that are for a number of pairs."""
    return tuple(one for one in papers if one.pairs is not None and one.stage is StageName.CONTROL)


def by_pairs_figure(rows: Sequence[PairsRow], *, papers: Sequence[PaperFigure], fitted: bool) -> Figure:
    """`rows`: at least one. `fitted`: the switches' twins draw from `papers`, so that they confirm nothing."""
    return Figure(
        name="by-pairs",
        title=_TITLE,
        description="; ".join(_describe(row) for row in rows),
        chart=partial(_chart, rows, of_pairs(papers), fitted),
    )


def _chart(
    found: Sequence[PairsRow], papers: Sequence[PaperFigure], fitted: bool, width: float, data: Datasets
) -> Chart:
    width = min(width, _WIDTH)
    reached_s = [row.mean_within_s[1] for row in found if row.mean_within_s] + [row.p99_s for row in found if row.p99_s]
    high_s = max([*reached_s, *(row.mean_s for row in found), *(one.high_s for one in papers)]) * 1.08 or 1e-6
    factor, unit = unit_of(high_s)
    counts = sorted({row.pairs for row in found} | {one.pairs for one in papers if one.pairs})
    x = alt.X(
        "pairs:Q",
        title="pairs made in one command",
        scale=alt.Scale(type="log", base=2, domain=[counts[0] / 1.25, counts[-1] * 1.25], nice=False),
        axis=alt.Axis(values=counts, grid=False, labelOverlap=True),
    )
    y = along(alt.Y, "seconds", (0, high_s * factor), f"control, {unit}", minExtent=_LEFT, tickCount=5, domain=False)
    colour = coloured("group", [*dict.fromkeys(row.group for row in found)], symbolType="circle")
    tip = alt.Tooltip("words:N", title="control")
    means: list[Row] = [_point(row, row.mean_s * factor) for row in found]
    p99s: list[Row] = [_point(row, row.p99_s * factor) for row in found if row.p99_s is not None]
    whiskers: list[Row] = [
        {**_point(row, row.mean_within_s[0] * factor), "most": row.mean_within_s[1] * factor}
        for row in found
        if row.mean_within_s is not None
    ]
    on = (x, y, colour, tip)
    dot = alt.MarkDef("point", filled=True, size=60, opacity=1, clip=True)
    layers = [
        *_papers(data, papers, factor, x, y),
        data.marks(whiskers, alt.MarkDef("rule", strokeWidth=1.8, clip=True), x, y, alt.Y2("most:Q"), colour),
        data.marks(means, dot, *on, zoomed="by_pairs", zooms="xy"),
        data.marks(p99s, alt.MarkDef("point", size=60, clip=True), *on),
    ]
    notes = [_note(found, bool(papers), fitted), "dot: mean with its 95 % interval" + (" · ring: p99" if p99s else "")]
    if papers:
        notes.append(f"dashed: {papers[0].paper} {papers[0].where}, mean and p99")
    plot = width - 2 * MARGIN - _LEFT - 20
    return {"layer": layers, "width": plot, "height": _HEIGHT, "title": heading(_TITLE, notes, width)}


def _point(row: PairsRow, seconds: float) -> dict[str, object]:
    return {"pairs": row.pairs, "seconds": seconds, "group": row.group, "words": _describe(row)}


def _papers(data: Datasets, figures: Sequence[PaperFigure], factor: float, x: alt.X, y: alt.Y) -> Iterator[Chart]:
    found: list[Row] = [
        {
            "pairs": one.pairs,
            "seconds": one.high_s * factor,
            "statistic": str(one.statistic),
            "words": f"{one.paper} {one.where}, {one.condition}: {one.statistic} {stated(one.low_s, one.high_s)}",
        }
        for one in figures
        if one.pairs and one.statistic in (Statistic.MEAN, Statistic.P99)
    ]
    if found:
        on = (x, y, alt.Detail("statistic:N"), alt.Tooltip("words:N", title="paper"))
        yield data.marks(found, alt.MarkDef("line", style="paper", clip=True), *on)
        yield data.marks(found, alt.MarkDef("point", style="paper-dot", size=30, clip=True), *on)


def _note(rows: Sequence[PairsRow], beside: bool, fitted: bool) -> str:
    origins = "/".join(dict.fromkeys(str(row.origin) for row in rows))
    words = f"A pair is a crossconnect made. Origin: {origins}."
    if not beside:
        return words
    if fitted:
        return f"{words} Our switch draws from the paper's figure: fitted to it, never called reproduced."
    return f"{words} Not made from the paper's figure."


def _describe(row: PairsRow) -> str:
    words = f"{plural(row.pairs, 'pair')}, {row.group}: mean {duration(row.mean_s)}"
    if row.mean_within_s is not None:
        words += f" ({interval(*row.mean_within_s)})"
    return f"{words}, p99 {duration(row.p99_s)}, n = {row.n} ({row.origin})"
