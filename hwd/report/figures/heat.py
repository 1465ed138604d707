"""Heat maps of links: the duration of each stage on each link, and of the longest stage over the repeats."""

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hwd.report.figures.drawing import CHARACTER, SCREEN_WIDTH, Drawing, Mark, cut, rect, text, wrapped
from hwd.report.quantity import duration
from hwd.timeline import LinkTimeline, StageName, Timeline

ROWS_MAX = 64
"""Links drawn; more would not be read."""
REPEATS_MAX = 60
_MARGIN, _ROW, _TOP = 16.0, 22.0, 30.0
_BLUE, _WHITE, _ORANGE = (0x2F, 0x6D, 0xB5), (0xF3, 0xF4, 0xF6), (0xD9, 0x7A, 0x00)
_FULL = 1.1
"""The least ratio to the median that gets full colour: smaller differences stay pale."""

Seconds = tuple[float | None, str]
"""A cell: its value, None where it is unknown, and details."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """`cells` by row and column; None where there is nothing, such as a kept link. `by_column`: each column has a scale
    of its own.
    """

    name: str
    title: str
    note: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[Seconds | None, ...], ...]
    by_column: bool
    left_out: str = ""


def link_by_stage(timelines: Sequence[Timeline]) -> HeatMap | None:
    """The median over all repeats, for each link and stage. None where no link moved."""
    links = _moved(timelines)
    if not links:
        return None
    cells = []
    for found in [*links.values()][:ROWS_MAX]:
        row: list[Seconds | None] = []
        for name in StageName:
            values = [seconds for _, link in found if (seconds := link.stage(name).seconds) is not None]
            middle = statistics.median(values) if values else None
            row.append((middle, f"{name} median of {len(values)} of {len(found)}: {duration(middle)}"))
        cells.append(tuple(row))
    return HeatMap(
        name="links-by-stage",
        title="Links by stage",
        note="median over all repeats · colour: against the median of the column · hatched: unknown",
        rows=tuple(links)[:ROWS_MAX],
        columns=tuple(map(str, StageName)),
        cells=tuple(cells),
        by_column=True,
        left_out=_more(len(links), ROWS_MAX, "links"),
    )


def link_by_repeat(timelines: Sequence[Timeline]) -> HeatMap | None:
    """One stage of each link in each reconfiguration that moved it, the first repeat first: the turnaround, or else the
    longest stage that was seen.
    """
    links = _moved(timelines)
    for stage in (StageName.TURNAROUND, StageName.ACTIVATION, StageName.OPTICAL, StageName.CONTROL):
        if any(link.stage(stage).seconds is not None for found in links.values() for _, link in found):
            break
    else:
        return None
    repeats = max(len(found) for found in links.values())
    cells = tuple(
        tuple((one.stage(stage).seconds, f"{link}, {id}: {one.stage(stage)}") for id, one in found[:REPEATS_MAX])
        + (None,) * (min(repeats, REPEATS_MAX) - len(found))
        for link, found in [*links.items()][:ROWS_MAX]
    )
    more = [_more(len(links), ROWS_MAX, "links"), _more(repeats, REPEATS_MAX, "repeats")]
    return HeatMap(
        name="links-by-repeat",
        title=f"Links by repeat: {stage}",
        note="colour: against the median of all · hatched: unknown",
        rows=tuple(links)[:ROWS_MAX],
        columns=tuple(str(index + 1) for index in range(min(repeats, REPEATS_MAX))),
        cells=cells,
        by_column=False,
        left_out=", ".join(filter(None, more)),
    )


def heat_drawing(heat: HeatMap, *, width: float = SCREEN_WIDTH) -> Drawing:
    """Blue is faster than the median, orange slower; the value is in the cell where there is room."""
    marks: list[Mark] = [text(_MARGIN, 26, heat.title, kind="title")]
    y = 26.0
    for part in wrapped(" · ".join(filter(None, (heat.note, heat.left_out))), width - 2 * _MARGIN):
        y += 16
        marks.append(text(_MARGIN, y, part, kind="soft"))
    names = min(max(len(row) for row in heat.rows) * CHARACTER + 12, width * 0.4)
    left, top = _MARGIN + names, y + _TOP
    across = (width - _MARGIN - left) / len(heat.columns)
    longest = max(len(one) for one in heat.columns) * CHARACTER
    lines = 2 if heat.by_column and longest > across else 1
    top += 14 * (lines - 1)
    every = 1 if heat.by_column else max(1, math.ceil(longest / across))
    for index, column in enumerate(heat.columns):
        if index % every == 0:
            middle, above = left + (index + 0.5) * across, 8 + 14 * ((index + 1) % lines)
            marks.append(
                text(middle, top - above, cut(column, lines * across), kind="soft", anchor="middle", title=column)
            )
    texts = [duration(cell[0]) for row in heat.cells for cell in row if cell is not None and cell[0] is not None]
    legible = max(map(len, texts), default=0) * 5.0 < across
    scales = _scales(heat)
    for index, (row, cells) in enumerate(zip(heat.rows, heat.cells, strict=True)):
        below = top + index * _ROW
        told = cut(row.replace("<->", " ↔ "), names)
        marks.append(text(_MARGIN, below + _ROW / 2 + 4, told, kind="num", title=row))
        for at, cell in enumerate(cells):
            if cell is not None:
                marks += _cell(cell, left + at * across, below, across, scales[at], legible)
    return Drawing(
        name=heat.name,
        width=width,
        height=top + len(heat.rows) * _ROW + 14,
        title=heat.title,
        description=f"{len(heat.rows)} links, {len(heat.columns)} columns; {heat.note}",
        marks=tuple(marks),
    )


def _moved(timelines: Sequence[Timeline]) -> dict[str, list[tuple[str, LinkTimeline]]]:
    """The timelines of each link, by its name, with the id of the reconfiguration."""
    links: dict[str, list[tuple[str, LinkTimeline]]] = {}
    for timeline in timelines:
        for link in timeline.links:
            if not link.kept:
                links.setdefault(str(link.link), []).append((timeline.reconfiguration, link))
    return dict(sorted(links.items()))


def _more(count: int, most: int, what: str) -> str:
    return f"{count - most} more {what} not drawn" if count > most else ""


def _scales(heat: HeatMap) -> list[Callable[[float], float]]:
    """For each column: from seconds to -1 (fastest) .. 1 (slowest), 0 at the median, by ratio."""
    values: list[list[float]] = [[] for _ in heat.columns]
    for row in heat.cells:
        for column, cell in zip(values, row, strict=True):
            if cell is not None and cell[0] is not None:
                column.append(cell[0])
    if not heat.by_column:
        together = [one for column in values for one in column]
        values = [together for _ in values]
    return [_scale(column) for column in values]


def _scale(values: Sequence[float]) -> Callable[[float], float]:
    middle = statistics.median(values) if values else 0.0
    if middle <= 0:
        return lambda seconds: 0.0
    ratios = [abs(math.log(value / middle)) for value in values if value > 0]
    full = max([math.log(_FULL), *ratios])
    return lambda seconds: max(-1.0, min(1.0, math.log(seconds / middle) / full)) if seconds > 0 else -1.0


def _cell(
    cell: Seconds, x: float, y: float, width: float, scale: Callable[[float], float], legible: bool
) -> Iterator[Mark]:
    seconds, title = cell
    gap = 1.0 if width > 6 else 0.3
    if seconds is None:
        yield rect(x + gap / 2, y + 0.5, width - gap, _ROW - 1, hatched=True, title=title)
        return
    place = scale(seconds)
    yield rect(x + gap / 2, y + 0.5, width - gap, _ROW - 1, fill=_colour(place), title=title)
    if legible:
        kind = "cell-light num" if place < -0.55 else "cell num"
        yield text(x + width / 2, y + _ROW / 2 + 3.5, duration(seconds), kind=kind, anchor="middle")


def _colour(place: float) -> str:
    towards = _ORANGE if place > 0 else _BLUE
    share = abs(place)
    mixed = (round(start + (end - start) * share) for start, end in zip(_WHITE, towards, strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)
