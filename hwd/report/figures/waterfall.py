"""The waterfall: one reconfiguration as a drawing, a row for each link, with three scales.

The middle of the drawing shows the whole; next to it are the switch's part right after the command and the host's part
after the NIC's firmware, which would be too thin in the whole. Unknown parts are hatched, never left out.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hwd.model.instant import InstantName, Knowledge, Origin
from hwd.report.figures.bars import CHAIN, Bar, bars
from hwd.report.figures.drawing import (
    CHARACTER,
    SCREEN_WIDTH,
    STAGE_COLOURS,
    Drawing,
    Mark,
    cut,
    line,
    pair,
    rect,
    text,
    tick_labels,
    ticks,
    wrapped,
)
from hwd.report.figures.svg import svg
from hwd.report.quantity import bound, duration
from hwd.timeline import LinkTimeline, StageName, Timeline

ROWS_MAX = 64
"""Links drawn; more would not be read. The table has them all."""

_ROW, _BAR = 27.0, 13.0
_MARGIN, _GAP = 18.0, 26.0
_WHOLE, _ZOOM, _TOTAL = 430.0, 196.0, 92.0
_THINNEST = 1.6
_NS_IN_S = 1e9

_STAGES = tuple(stage for _, stage in CHAIN)
_ZOOM_FROM = 430.0
"""In a narrower drawing there is room for the whole only."""


_NAMES = ("whole way, after the command", "switch, after the command", "host, after its NIC's firmware")
_NAMES_FROM = 190.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Panel:
    """A scale: seconds from `low_s` to `high_s` between two x."""

    left: float
    width: float
    low_s: float
    high_s: float

    def x(self, seconds: float) -> float:
        share = (seconds - self.low_s) / (self.high_s - self.low_s)
        return self.left + self.width * min(1.0, max(0.0, share))


def typical(timelines: Sequence[Timeline]) -> Timeline | None:
    """The reconfiguration with the median slowest link, among those with most links timed; None where none has links
    that moved.
    """
    timed: list[tuple[int, float, Timeline]] = []
    for timeline in timelines:
        moved = [link for link in timeline.links if not link.kept]
        seconds = [total_s for link in moved if (total_s := link.stage(StageName.TURNAROUND).seconds) is not None]
        if moved:
            timed.append((len(seconds), max(seconds, default=0.0), timeline))
    if not timed:
        return None
    most = max(count for count, _, _ in timed)
    best = sorted(((seconds, timeline) for count, seconds, timeline in timed if count == most), key=lambda one: one[0])
    return best[(len(best) - 1) // 2][1]


def waterfall(timeline: Timeline, *, virtual_time: bool, key: str = "waterfall") -> str:
    """A whole SVG document, legible alone (in a README) and inside a page; `key` makes its ids unique there."""
    return svg(waterfall_drawing(timeline, virtual_time=virtual_time), key=key)


def waterfall_drawing(timeline: Timeline, *, virtual_time: bool, width: float | None = None) -> Drawing:
    """`width` None: as wide as it needs. In a narrower drawing the scales shrink; where there is no room for three,
    only the whole is drawn.
    """
    drawn = timeline.links[:ROWS_MAX]
    parts = {link.link: bars(link) for link in drawn}
    labels = max((len(str(link.link)) for link in drawn), default=10) * 6.3 + 8
    left = _MARGIN + labels
    moved = [link for link in drawn if parts[link.link]]
    whole_s = (
        max((bar.end_s + bar.error_s for found in parts.values() for bar in found if bar.stage), default=1.0) or 1.0
    )
    room = (_WHOLE + 2 * _ZOOM) if width is None else width - left - 2 * _GAP - _TOTAL - _MARGIN
    zoomed = room >= _ZOOM_FROM
    wide = room * _WHOLE / (_WHOLE + 2 * _ZOOM) if zoomed else room + 2 * _GAP
    panels = [_Panel(left=left, width=wide, low_s=0, high_s=whole_s * 1.02)]
    if zoomed:
        zoom = (room - wide) / 2
        host_s = _host_s(moved)
        at = left + wide + _GAP
        panels.append(_Panel(left=at, width=zoom, low_s=0, high_s=_switch_s(moved) * 1.12))
        panels.append(_Panel(left=at + zoom + _GAP, width=zoom, low_s=-0.06 * host_s, high_s=host_s * 1.06))
    width = panels[-1].left + panels[-1].width + _TOTAL + _MARGIN if width is None else width
    heading, top = _heading(timeline, moved, width)
    rest = len(timeline.links) - len(drawn)
    floor = top + _ROW * len(drawn)
    marks: list[Mark] = [*heading, *_stripes(len(drawn), width, top)]
    short = zoomed and panels[1].width < _NAMES_FROM
    names = ("whole way, after the command", "switch", "host, after firmware") if short else _NAMES
    for panel, name in zip(panels, names, strict=False):
        marks += _axis(panel, top, floor, name)
    for index, link in enumerate(drawn):
        marks += _row(link, parts[link.link], top + _ROW * index, panels, width)
    footer, height = _footer(moved, virtual_time, floor, rest, timeline, width, zoomed)
    return Drawing(
        name="waterfall",
        width=width,
        height=height,
        title=f"Reconfiguration {timeline.reconfiguration}: {timeline.what}",
        description=" ".join(_describe(link) for link in drawn),
        marks=(*marks, *footer),
    )


def _switch_s(links: Sequence[LinkTimeline]) -> float:
    """The longest time until light or answer."""
    return max(
        [stage.seconds for link in links for stage in link.stages if stage.name in _OF_SWITCH and stage.seconds]
        or [1.0]
    )


_OF_SWITCH = (StageName.CONTROL, StageName.OPTICAL)


def _host_s(links: Sequence[LinkTimeline]) -> float:
    """The longest time from the firmware to the last instant seen."""
    lengths = []
    for link in links:
        start = link.instant(InstantName.FIRMWARE)
        if start.knowledge is Knowledge.SEEN:
            ends = [link.instant(name) for name in (InstantName.CARRIER, InstantName.RDMA, InstantName.READY)]
            lengths += [(end.at_ns - start.at_ns) / _NS_IN_S for end in ends if end.knowledge is Knowledge.SEEN]
    return max([length for length in lengths if length > 0] or [1.0])


def _heading(timeline: Timeline, moved: Sequence[LinkTimeline], width: float) -> tuple[list[Mark], float]:
    """The heading, and the y at which the rows begin."""
    title = timeline.what or timeline.reconfiguration
    totals = [total_s for link in moved if (total_s := link.stage(StageName.TURNAROUND).seconds) is not None]
    kept = sum(link.kept for link in timeline.links)
    words = f"{len(timeline.links) - kept} links moved" + (f", {kept} kept" if kept else "")
    if totals:
        words += f" · from command to first transfer {duration(statistics.median(totals))} (median)"
    y = 30.0
    marks: list[Mark] = [text(_MARGIN, y, cut(title, (width - 2 * _MARGIN) * 0.75), kind="title", title=title)]
    if (len(title) * 1.34 + len(words)) * CHARACTER + 2 * _MARGIN < width:
        marks.append(text(width - _MARGIN, y, words, kind="soft", anchor="end"))
    else:
        for part in wrapped(words, width - 2 * _MARGIN):
            y += 16
            marks.append(text(_MARGIN, y, part, kind="soft"))
    x, y = _MARGIN, y + 29
    for stage in (StageName.CONTROL, *_STAGES):
        values = [seconds for link in moved if (seconds := link.stage(stage).seconds) is not None]
        told = duration(statistics.median(values)) if values else "unknown"
        wide = 18 + len(stage) * 7.6 + 7 + len(told) * 7.1
        if x + wide > width - _MARGIN and x > _MARGIN:
            x, y = _MARGIN, y + 18
        if stage is StageName.CONTROL:
            marks.append(rect(x, y - 5.5, 12, 4, fill=STAGE_COLOURS[stage], radius=2))
        else:
            marks.append(rect(x, y - 10, 12, 12, fill=STAGE_COLOURS[stage], radius=3))
        marks.append(pair(x + 18, y, stage, told))
        x += wide + (26 if width > SCREEN_WIDTH * 0.85 else 12)
    return marks, y + 53


def _stripes(rows: int, width: float, top: float) -> Iterator[Mark]:
    for index in range(0, rows, 2):
        yield rect(_MARGIN / 2, top + _ROW * index, width - _MARGIN, _ROW, kind="stripe", radius=4)


def _axis(panel: _Panel, top: float, floor: float, name: str) -> Iterator[Mark]:
    yield text(panel.left, top - 13, cut(name, panel.width + _GAP - 4), kind="head")
    values = ticks(panel.low_s, panel.high_s, 7 if panel.width > 330 else 4)
    labels, unit = tick_labels(values)
    for value, label in zip(values, labels, strict=True):
        x = panel.x(value)
        yield line(x, top - 4, x, floor, kind="axis" if value == 0 else "grid")
        last = value == values[-1]
        yield text(x, floor + 15, f"{label} {unit}" if last else label, kind="soft num", anchor="middle")


def _row(link: LinkTimeline, found: Sequence[Bar], y: float, panels: Sequence[_Panel], width: float) -> Iterator[Mark]:
    """`panels`: the whole and, where there is room, the switch and the host."""
    middle = y + _ROW / 2
    whole = panels[0]
    yield text(_MARGIN, middle + 4, str(link.link).replace("<->", " ↔ "), kind="num")
    if link.kept:
        yield text(whole.left + 6, middle + 4, cut("kept: none of its crossconnects moved", whole.width), kind="soft")
        return
    if not found:
        why = link.instant(InstantName.COMMANDED).why
        yield rect(whole.left, middle - _BAR / 2, whole.width, _BAR, hatched=True, title=why)
        return
    switch = panels[1] if len(panels) > 1 else whole
    for bar in reversed(found):  # a thin bar lies on the long one that follows it
        yield from _bar(bar, whole, middle)
        if len(panels) > 1 and bar.start_s <= switch.high_s:
            yield from _bar(bar, switch, middle)
    yield from _control(link, switch, middle)
    if len(panels) > 1:
        yield from _dark(link, switch, middle)
        yield from _host_bars(link, found, panels[2], middle)
    turnaround = link.stage(StageName.TURNAROUND)
    right = width - _MARGIN
    if turnaround.seconds is None:
        yield text(right, middle + 4, "unknown", kind="soft", anchor="end", title=turnaround.why)
    else:
        yield text(
            right, middle + 1, duration(turnaround.seconds), kind="head num", anchor="end", title=str(turnaround)
        )
        yield text(right, middle + 11.5, bound(turnaround.error_s), kind="small num", anchor="end")


def _bar(bar: Bar, panel: _Panel, middle: float) -> Iterator[Mark]:
    left, right = panel.x(bar.start_s), panel.x(bar.end_s)
    fill = "" if bar.stage is None else STAGE_COLOURS[bar.stage]
    wide = max(_THINNEST, right - left)
    yield rect(left, middle - _BAR / 2, wide, _BAR, fill=fill, hatched=bar.stage is None, title=bar.title)
    if bar.end_s < panel.high_s:
        yield from _whisker(panel, bar.end_s, bar.error_s, middle)


def _whisker(panel: _Panel, at_s: float, error_s: float, middle: float) -> Iterator[Mark]:
    """A whisker, where the bound is wide enough to be visible."""
    left, right = panel.x(at_s - error_s), panel.x(at_s + error_s)
    if right - left >= 3:
        yield line(left, middle, right, middle, kind="whisker")
        for x in (left, right):
            yield line(x, middle - 3.5, x, middle + 3.5, kind="whisker")


def _control(link: LinkTimeline, switch: _Panel, middle: float) -> Iterator[Mark]:
    """The switch's answer: a thin bar under the light's, since the two have no order."""
    control = link.stage(StageName.CONTROL)
    if control.seconds is not None:
        right = switch.x(control.seconds)
        colour = STAGE_COLOURS[StageName.CONTROL]
        yield rect(
            switch.left, middle + _BAR / 2 + 1, right - switch.left, 4, fill=colour, title=str(control), radius=2
        )


def _dark(link: LinkTimeline, switch: _Panel, middle: float) -> Iterator[Mark]:
    dark = link.instant(InstantName.DARK)
    if dark.knowledge is Knowledge.SEEN:
        at_s = (dark.at_ns - link.instant(InstantName.COMMANDED).at_ns) / _NS_IN_S
        x = switch.x(at_s)
        title = f"dark {duration(at_s)} after the command"
        yield rect(x - 1, middle - _BAR / 2 - 3, 2, _BAR + 3, fill=STAGE_COLOURS[StageName.CONTROL], title=title)


def _host_bars(link: LinkTimeline, bars: Sequence[Bar], host: _Panel, middle: float) -> Iterator[Mark]:
    firmware = link.instant(InstantName.FIRMWARE)
    if firmware.knowledge is not Knowledge.SEEN:
        yield text(host.left + 6, middle + 4, f"firmware {firmware.knowledge}", kind="soft", title=firmware.why)
        return
    zero_s = (firmware.at_ns - link.instant(InstantName.COMMANDED).at_ns) / _NS_IN_S
    for bar in reversed(bars):
        if bar.end_s >= zero_s:
            moved = Bar(
                start_s=bar.start_s - zero_s,
                end_s=bar.end_s - zero_s,
                error_s=bar.error_s,
                stage=bar.stage,
                title=bar.title,
            )
            yield from _bar(moved, host, middle)


def _footer(
    moved: Sequence[LinkTimeline],
    virtual_time: bool,
    floor: float,
    rest: int,
    timeline: Timeline,
    width: float,
    zoomed: bool,
) -> tuple[list[Mark], float]:
    """The legend, and the y at which the drawing ends."""
    words = []
    for stage in (StageName.CONTROL, *_STAGES):
        origins = sorted({str(origin) for link in moved if (origin := link.stage(stage).origin) is not None})
        if origins:
            words.append(f"{stage} {'/'.join(origins)}")
    origins_seen = {link.stage(stage).origin for link in moved for stage in _STAGES}
    if Origin.FITTED in origins_seen:
        words.append("fitted: drawn from a model of a paper's own figure")
    time = "virtual" if virtual_time else "real"
    marks_told = ["grey bar under the light: the switch's answer", "hatched: unknown"]
    if zoomed:
        marks_told.insert(1, "grey tick: dark")
    notes = [f"{rest} more links not drawn"] if rest else []
    notes += [f"{len(timeline.breaches)} breaches of the order"] if timeline.breaches else []
    told = [
        f"{time} time · where figures come from: {', '.join(words) or 'nothing seen'}",
        " · ".join([*marks_told, *notes]),
    ]
    lines = [part for one in told for part in wrapped(one, width - 2 * _MARGIN)]
    marks: list[Mark] = [text(_MARGIN, floor + 38 + 15 * index, part, kind="soft") for index, part in enumerate(lines)]
    return marks, floor + 38 + 15 * len(lines) - 6


def _describe(link: LinkTimeline) -> str:
    if link.kept:
        return f"{link.link}: kept."
    parts = [
        f"{stage} {duration(link.stage(stage).seconds)}"
        if link.stage(stage).seconds is not None
        else f"{stage} {link.stage(stage).knowledge}"
        for stage in (*_STAGES, StageName.TURNAROUND)
    ]
    return f"{link.link}: {', '.join(parts)}."
