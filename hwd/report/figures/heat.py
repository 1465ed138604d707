"""Heat maps of links: the duration of each stage on each link, and of the longest stage over the repeats."""

import math
import statistics
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import altair as alt

from hwd.report.figures.figure import (
    CHARACTER,
    MARGIN,
    Chart,
    Datasets,
    Figure,
    Row,
    a_row_each,
    arrow,
    heading,
    not_drawn,
)
from hwd.report.quantity import bound, duration, is_resolved, resolved
from hwd.timeline import LinkTimeline, Stage, StageName, Timeline
from hwd.timeline.dwell import Moved

ROWS_MAX = 64
"""Links drawn; more would not be read."""
REPEATS_MAX = 60
_ROW = 22
_SIGNS = "dashed: unknown · without colour: not resolved, its bound is larger than itself"
_BLUE, _WHITE, _ORANGE = "#2f6db5", "#f3f4f6", "#d97a00"
_DARK_FROM = -0.55
"""The place on the scale up to which blue is so dark that white is legible on it."""
_FULL = 1.1
"""The least ratio to the median that gets full colour: smaller differences stay pale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A cell of a heat map; `seconds`: None where it is unknown. `resolved`: whether it is larger than its bound."""

    seconds: float | None
    resolved: bool
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """A heat map of `cells` by row and column; None where there is nothing, such as a kept link. `by_column`: each
    column has a scale of its own.
    """

    name: str
    title: str
    notes: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[Cell | None, ...], ...]
    by_column: bool


def link_by_stage(timelines: Sequence[Timeline], only: Container[Moved] | None = None) -> HeatMap | None:
    """The median over all repeats, for each link and stage. `only`: these reconfigurations of links, since a median of
    short and of long dwells may be that of neither. None where no link moved.
    """
    links = _moved(timelines, only)
    if not links:
        return None
    cells = [
        tuple(_median(name, [link.stage(name) for _, link in found]) for name in StageName)
        for found in [*links.values()][:ROWS_MAX]
    ]
    left_out = not_drawn(len(links), ROWS_MAX, "links")
    return HeatMap(
        name="links-by-stage",
        title="Links by stage",
        notes=("median over all repeats", "colour: against the median of the column", _SIGNS, left_out),
        rows=tuple(links)[:ROWS_MAX],
        columns=tuple(map(str, StageName)),
        cells=tuple(cells),
        by_column=True,
    )


def link_by_repeat(timelines: Sequence[Timeline]) -> HeatMap | None:
    """One stage of each link in each reconfiguration that moved it, the first repeat first: the turnaround, or else the
    longest stage that was seen. None where no link moved twice.
    """
    links = _moved(timelines)
    for stage in (StageName.TURNAROUND, StageName.ACTIVATION, StageName.OPTICAL, StageName.CONTROL):
        if any(link.stage(stage).seconds is not None for found in links.values() for _, link in found):
            break
    else:
        return None
    repeats = max(len(found) for found in links.values())
    if repeats == 1:
        return None  # it is in the map by stage
    cells = tuple(
        tuple(_cell(one.stage(stage), f"{link}, {id}: ") for id, one in found[:REPEATS_MAX])
        + (None,) * (min(repeats, REPEATS_MAX) - len(found))
        for link, found in [*links.items()][:ROWS_MAX]
    )
    left_out = not_drawn(len(links), ROWS_MAX, "links"), not_drawn(repeats, REPEATS_MAX, "repeats")
    return HeatMap(
        name="links-by-repeat",
        title=f"Links by repeat: {stage}",
        notes=("colour: against the median of all", _SIGNS, *left_out),
        rows=tuple(links)[:ROWS_MAX],
        columns=tuple(str(index + 1) for index in range(min(repeats, REPEATS_MAX))),
        cells=cells,
        by_column=False,
    )


def heat_figure(heat: HeatMap) -> Figure:
    """Blue is faster than the median, orange slower; the value is in the cell where there is room."""
    return Figure(
        name=heat.name,
        title=heat.title,
        description="; ".join(
            f"{row}: "
            + ", ".join(
                f"{column} {_says(cell)}" for column, cell in zip(heat.columns, cells, strict=True) if cell is not None
            )
            for row, cells in zip(heat.rows, heat.cells, strict=True)
        ),
        chart=partial(_chart, heat),
    )


def _chart(heat: HeatMap, width: float, data: Datasets) -> Chart:
    names = min(max(len(row) for row in heat.rows) * 6.8 + 12, width * 0.4)
    across = (width - 2 * MARGIN - names) / len(heat.columns)
    values = [row for row in _rows(heat) if row]
    longest = max((len(str(row["says"])) for row in values), default=0)
    every = 1 if heat.by_column else max(1, math.ceil(max(map(len, heat.columns)) * CHARACTER / across))
    turned = heat.by_column and max(map(len, heat.columns)) * CHARACTER > across
    axis = alt.Axis(
        orient="top", ticks=False, domain=False, labelAngle=-50 if turned else 0, values=heat.columns[::every]
    )
    x = alt.X("column:N", title=None, scale=alt.Scale(domain=[*heat.columns]), axis=axis)
    y = a_row_each("link", [arrow(row) for row in heat.rows], labelLimit=int(names))
    scale = alt.Scale(domain=[-1, 0, 1], range=[_BLUE, _WHITE, _ORANGE], clamp=True, interpolate="rgb")
    tip = [alt.Tooltip("link:N"), alt.Tooltip("words:N", title="value")]
    coloured = [row for row in values if row["place"] is not None]
    plain = [row for row in values if row["place"] is None and row["known"]]
    unknown = [row for row in values if not row["known"]]
    colour = alt.Color("place:Q", scale=scale, legend=None)
    part = alt.RelativeBandSize
    layers = [
        data.marks(coloured, alt.MarkDef("rect", width=part(0.96), height=part(0.94)), x, y, colour, tip),
        data.marks(plain, alt.MarkDef("rect", style="band"), x, y, tip),
        data.marks(unknown, alt.MarkDef("rect", style="unknown", width=part(0.9), height=part(0.8)), x, y, tip),
    ]
    if longest * 5.2 < across:
        dark = alt.condition(f"datum.place < {_DARK_FROM}", alt.value("#ffffff"), alt.value("#1f2937"))
        says = (x, y, alt.Text("says:N"), tip)
        layers.append(data.marks(coloured, alt.MarkDef("text", fontSize=10), *says, color=dark))
        layers.append(data.marks(plain, alt.MarkDef("text", fontSize=10, style="soft"), *says))
    size = {"width": across * len(heat.columns), "height": _ROW * len(heat.rows)}
    return {"layer": layers, **size, "title": heading(heat.title, [" · ".join(filter(None, heat.notes))], width)}


def _rows(heat: HeatMap) -> Iterator[Row]:
    scales = _medians(heat)
    for link, cells in zip(heat.rows, heat.cells, strict=True):
        for column, cell, (middle, full) in zip(heat.columns, cells, scales, strict=True):
            if cell is None:
                continue
            known = cell.seconds is not None
            place = _place(cell.seconds, middle, full) if cell.seconds is not None and cell.resolved else None
            yield {
                "link": arrow(link), "column": column, "known": known, "place": place, "says": _says(cell),
                "words": cell.words,
            }  # fmt: skip


def _says(cell: Cell) -> str:
    if cell.seconds is None:
        return "unknown"
    return duration(cell.seconds) if cell.resolved else "not resolved"


def _median(name: StageName, found: Sequence[Stage]) -> Cell:
    seen = [one for one in found if one.seconds is not None]
    middle = statistics.median(one.seconds or 0.0 for one in seen) if seen else None
    error_s = statistics.median(one.error_s or 0.0 for one in seen) if seen else 0.0
    words = f"{name} median of {len(seen)} of {len(found)}: {resolved(middle, error_s)}, {bound(error_s)}"
    return Cell(seconds=middle, resolved=middle is not None and is_resolved(middle, error_s), words=words)


def _cell(stage: Stage, of: str) -> Cell:
    known = stage.seconds is not None and is_resolved(stage.seconds, stage.error_s)
    says = f"{resolved(stage.seconds, stage.error_s)}, {bound(stage.error_s)}"
    if stage.seconds is None:
        says = f"{stage.knowledge}: {stage.why}"
    return Cell(seconds=stage.seconds, resolved=known, words=f"{of}{stage.name} {says}")


def _moved(
    timelines: Sequence[Timeline], only: Container[Moved] | None = None
) -> dict[str, list[tuple[str, LinkTimeline]]]:
    """The timelines of each link, by its name, with the id of the reconfiguration."""
    links: dict[str, list[tuple[str, LinkTimeline]]] = {}
    for timeline in timelines:
        for link in timeline.moved:
            if only is None or (timeline.reconfiguration, link.link) in only:
                links.setdefault(link.link, []).append((timeline.reconfiguration, link))
    return dict(sorted(links.items()))


def _medians(heat: HeatMap) -> list[tuple[float, float]]:
    """The median of the resolved values of each column, and the logarithm of the ratio that gets full colour."""
    values: list[list[float]] = [[] for _ in heat.columns]
    for row in heat.cells:
        for column, cell in zip(values, row, strict=True):
            if cell is not None and cell.seconds is not None and cell.resolved:
                column.append(cell.seconds)
    if not heat.by_column:
        together = [one for column in values for one in column]
        values = [together for _ in values]
    found = []
    for column in values:
        middle = statistics.median(column) if column else 0.0
        ratios = [abs(math.log(value / middle)) for value in column if value > 0 and middle > 0]
        found.append((middle, max([math.log(_FULL), *ratios])))
    return found


def _place(seconds: float, middle: float, full: float) -> float:
    """The place of a duration from -1 (fastest) to 1 (slowest), 0 at the median, by ratio."""
    if middle <= 0:
        return 0.0
    return max(-1.0, min(1.0, math.log(seconds / middle) / full)) if seconds > 0 else -1.0
