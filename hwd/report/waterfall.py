"""The waterfall: one reconfiguration as an SVG, a row for each link, three scales side by side.

The middle of the drawing shows the whole; beside it, the switch's part right after the command and the host's part after the NIC's firmware, which
would be hair-thin in the whole. What is unknown is hatched, never left out.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hwd.model.instant import InstantName, Knowledge, Origin
from hwd.report import drawing
from hwd.report.drawing import STAGE_COLOURS, line, pair, rect, text, tick_labels, ticks
from hwd.report.quantity import bound, duration
from hwd.timeline import LinkTimeline, StageName, Timeline

ROWS_MAX = 64
"""Links drawn; more would not be read. The table has them all."""

_ROW, _BAR, _TOP, _BOTTOM = 27.0, 13.0, 112.0, 62.0
_MARGIN, _GAP = 18.0, 26.0
_WHOLE, _ZOOM, _TOTAL = 430.0, 196.0, 92.0
_THINNEST = 1.6
_NS_IN_S = 1e9

_CHAIN: tuple[tuple[InstantName, StageName], ...] = (
    (InstantName.LIGHT, StageName.OPTICAL),
    (InstantName.FIRMWARE, StageName.FIRMWARE),
    (InstantName.CARRIER, StageName.CARRIER),
    (InstantName.RDMA, StageName.RDMA),
    (InstantName.READY, StageName.READY),
)
_STAGES = tuple(stage for _, stage in _CHAIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bar:
    """A part of a row, in seconds after the command. `stage` None: nobody knows what happened in it."""

    start_s: float
    end_s: float
    error_s: float
    stage: StageName | None
    title: str


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


def waterfall(timeline: Timeline, *, virtual_time: bool, key: str = "waterfall") -> str:
    """A whole SVG document, legible alone (a README) and inside a page; `key` makes its ids unique there."""
    drawn = timeline.links[:ROWS_MAX]
    bars = {link.link: _bars(link) for link in drawn}
    labels = max((len(str(link.link)) for link in drawn), default=10) * 6.3 + 8
    left = _MARGIN + labels
    moved = [link for link in drawn if bars[link.link]]
    whole_s = (
        max((bar.end_s + bar.error_s for found in bars.values() for bar in found if bar.stage), default=1.0) or 1.0
    )
    whole = _Panel(left=left, width=_WHOLE, low_s=0, high_s=whole_s * 1.02)
    switch = _Panel(left=left + _WHOLE + _GAP, width=_ZOOM, low_s=0, high_s=_switch_s(moved) * 1.12)
    host_s = _host_s(moved)
    host = _Panel(left=switch.left + _ZOOM + _GAP, width=_ZOOM, low_s=-0.06 * host_s, high_s=host_s * 1.06)
    width = host.left + _ZOOM + _TOTAL + _MARGIN
    rest = len(timeline.links) - len(drawn)
    floor = _TOP + _ROW * len(drawn)
    body = [
        *_heading(timeline, moved, width),
        *_stripes(len(drawn), width),
        *_axis(whole, floor, "whole way, after the command"),
        *_axis(switch, floor, "switch, after the command"),
        *_axis(host, floor, "host, after its NIC's firmware"),
    ]
    for index, link in enumerate(drawn):
        body += _row(link, bars[link.link], _TOP + _ROW * index, whole, switch, host, width, key)
    body += _footer(moved, virtual_time, floor, rest, timeline)
    what = f"Reconfiguration {timeline.reconfiguration}: {timeline.what}"
    return drawing.document(
        body,
        width=width,
        height=floor + _BOTTOM,
        title=what,
        description=" ".join(_describe(link) for link in drawn),
        key=key,
    )


def _bars(link: LinkTimeline) -> list[_Bar]:
    """Between two instants that are seen lies the stage of the later one, unless an unknown one lies between."""
    commanded = link.instant(InstantName.COMMANDED)
    if commanded.knowledge is not Knowledge.SEEN:
        return []
    found: list[_Bar] = []
    at_s = 0.0
    unknown: list[str] = []
    for name, stage in _CHAIN:
        instant = link.instant(name)
        if instant.knowledge is Knowledge.UNKNOWN:
            unknown.append(f"{name} unknown: {instant.why}")
        if instant.knowledge is not Knowledge.SEEN:
            continue
        end_s = max(at_s, (instant.at_ns - commanded.at_ns) / _NS_IN_S)
        error_s = (instant.error_ns + commanded.error_ns) / _NS_IN_S
        told = f"{stage} {duration(end_s - at_s)}, {instant.name} {bound(error_s)} ({instant.origin}, {instant.source})"
        found.append(
            _Bar(
                start_s=at_s,
                end_s=end_s,
                error_s=error_s,
                stage=None if unknown else stage,
                title="; ".join([*unknown, told]),
            )
        )
        at_s, unknown = end_s, []
    if unknown:
        found.append(_Bar(start_s=at_s, end_s=float("inf"), error_s=0, stage=None, title="; ".join(unknown)))
    return found


def _switch_s(links: Sequence[LinkTimeline]) -> float:
    """The longest until light or answer."""
    return max(
        [stage.seconds for link in links for stage in link.stages if stage.name in _OF_SWITCH and stage.seconds]
        or [1.0]
    )


_OF_SWITCH = (StageName.CONTROL, StageName.OPTICAL)


def _host_s(links: Sequence[LinkTimeline]) -> float:
    """The longest from the firmware to the last instant seen."""
    lengths = []
    for link in links:
        start = link.instant(InstantName.FIRMWARE)
        if start.knowledge is Knowledge.SEEN:
            ends = [link.instant(name) for name in (InstantName.CARRIER, InstantName.RDMA, InstantName.READY)]
            lengths += [(end.at_ns - start.at_ns) / _NS_IN_S for end in ends if end.knowledge is Knowledge.SEEN]
    return max([length for length in lengths if length > 0] or [1.0])


def _heading(timeline: Timeline, moved: Sequence[LinkTimeline], width: float) -> Iterator[str]:
    yield text(_MARGIN, 30, timeline.what or timeline.reconfiguration, kind="title")
    totals = [total_s for link in moved if (total_s := link.stage(StageName.TURNAROUND).seconds) is not None]
    kept = sum(link.kept for link in timeline.links)
    words = f"{len(timeline.links) - kept} links moved" + (f", {kept} kept" if kept else "")
    if totals:
        words += f" · from command to first transfer {duration(statistics.median(totals))} (median)"
    yield text(width - _MARGIN, 30, words, kind="soft", anchor="end")
    x = _MARGIN
    for stage in (StageName.CONTROL, *_STAGES):
        values = [seconds for link in moved if (seconds := link.stage(stage).seconds) is not None]
        if stage is StageName.CONTROL:
            yield rect(x, 53.5, 12, 4, fill=STAGE_COLOURS[stage], radius=2)
        else:
            yield rect(x, 49, 12, 12, fill=STAGE_COLOURS[stage], radius=3)
        told = duration(statistics.median(values)) if values else "unknown"
        yield pair(x + 18, 59, stage, told)
        x += 18 + len(stage) * 7.6 + 7 + len(told) * 7.1 + 26


def _stripes(rows: int, width: float) -> Iterator[str]:
    for index in range(0, rows, 2):
        yield rect(_MARGIN / 2, _TOP + _ROW * index, width - _MARGIN, _ROW, kind="stripe", radius=4)


def _axis(panel: _Panel, floor: float, name: str) -> Iterator[str]:
    yield text(panel.left, _TOP - 13, name, kind="head")
    values = ticks(panel.low_s, panel.high_s, 7 if panel.width > _ZOOM else 4)
    labels, unit = tick_labels(values)
    for value, label in zip(values, labels, strict=True):
        x = panel.x(value)
        yield line(x, _TOP - 4, x, floor, kind="axis" if value == 0 else "grid")
        last = value == values[-1]
        yield text(x, floor + 15, f"{label} {unit}" if last else label, kind="soft num", anchor="middle")


def _row(
    link: LinkTimeline,
    bars: Sequence[_Bar],
    y: float,
    whole: _Panel,
    switch: _Panel,
    host: _Panel,
    width: float,
    key: str,
) -> Iterator[str]:
    middle = y + _ROW / 2
    yield text(_MARGIN, middle + 4, str(link.link).replace("<->", " ↔ "), kind="num")
    if link.kept:
        yield text(whole.left + 6, middle + 4, "kept: none of its crossconnects moved", kind="soft")
        return
    if not bars:
        why = link.instant(InstantName.COMMANDED).why
        yield rect(whole.left, middle - _BAR / 2, whole.width, _BAR, fill=f"url(#{key}-hatch)", title=why)
        return
    for bar in reversed(bars):  # so that a thin bar lies on the long one after it
        yield from _bar(bar, whole, middle, key)
        if bar.start_s <= switch.high_s:
            yield from _bar(bar, switch, middle, key)
    yield from _control(link, switch, middle)
    yield from _host_bars(link, bars, host, middle, key)
    turnaround = link.stage(StageName.TURNAROUND)
    right = width - _MARGIN
    if turnaround.seconds is None:
        yield text(right, middle + 4, "unknown", kind="soft", anchor="end", title=turnaround.why)
    else:
        yield text(
            right, middle + 1, duration(turnaround.seconds), kind="head num", anchor="end", title=str(turnaround)
        )
        yield f'<g font-size="9">{text(right, middle + 11.5, bound(turnaround.error_s), kind="soft num", anchor="end")}</g>'


def _bar(bar: _Bar, panel: _Panel, middle: float, key: str) -> Iterator[str]:
    left, right = panel.x(bar.start_s), panel.x(bar.end_s)
    fill = f"url(#{key}-hatch)" if bar.stage is None else STAGE_COLOURS[bar.stage]
    yield rect(left, middle - _BAR / 2, max(_THINNEST, right - left), _BAR, fill=fill, title=bar.title)
    if bar.end_s < panel.high_s:
        yield from _whisker(panel, bar.end_s, bar.error_s, middle)


def _whisker(panel: _Panel, at_s: float, error_s: float, middle: float) -> Iterator[str]:
    """Only where the bound is wide enough to be seen."""
    left, right = panel.x(at_s - error_s), panel.x(at_s + error_s)
    if right - left >= 3:
        yield line(left, middle, right, middle, kind="whisker")
        for x in (left, right):
            yield line(x, middle - 3.5, x, middle + 3.5, kind="whisker")


def _control(link: LinkTimeline, switch: _Panel, middle: float) -> Iterator[str]:
    """The switch's answer: a thin bar under the light's, since the two have no order."""
    control = link.stage(StageName.CONTROL)
    if control.seconds is not None:
        right = switch.x(control.seconds)
        colour = STAGE_COLOURS[StageName.CONTROL]
        yield rect(
            switch.left, middle + _BAR / 2 + 1, right - switch.left, 4, fill=colour, title=str(control), radius=2
        )
    dark = link.instant(InstantName.DARK)
    if dark.knowledge is Knowledge.SEEN:
        at_s = (dark.at_ns - link.instant(InstantName.COMMANDED).at_ns) / _NS_IN_S
        x = switch.x(at_s)
        title = f"dark {duration(at_s)} after the command"
        yield rect(
            x - 1, middle - _BAR / 2 - 3, 2, _BAR + 3, kind="mark", fill=STAGE_COLOURS[StageName.CONTROL], title=title
        )


def _host_bars(link: LinkTimeline, bars: Sequence[_Bar], host: _Panel, middle: float, key: str) -> Iterator[str]:
    firmware = link.instant(InstantName.FIRMWARE)
    if firmware.knowledge is not Knowledge.SEEN:
        yield text(host.left + 6, middle + 4, f"firmware {firmware.knowledge}", kind="soft", title=firmware.why)
        return
    zero_s = (firmware.at_ns - link.instant(InstantName.COMMANDED).at_ns) / _NS_IN_S
    for bar in reversed(bars):
        if bar.end_s >= zero_s:
            moved = _Bar(
                start_s=bar.start_s - zero_s,
                end_s=bar.end_s - zero_s,
                error_s=bar.error_s,
                stage=bar.stage,
                title=bar.title,
            )
            yield from _bar(moved, host, middle, key)


def _footer(
    moved: Sequence[LinkTimeline], virtual_time: bool, floor: float, rest: int, timeline: Timeline
) -> Iterator[str]:
    words = []
    for stage in (StageName.CONTROL, *_STAGES):
        origins = sorted({str(origin) for link in moved if (origin := link.stage(stage).origin) is not None})
        if origins:
            words.append(f"{stage} {'/'.join(origins)}")
    origins_seen = {link.stage(stage).origin for link in moved for stage in _STAGES}
    if Origin.FITTED in origins_seen:
        words.append("fitted: drawn from a model of a paper's own figure")
    y = floor + 38
    told = (
        f"{'virtual' if virtual_time else 'real'} time · where figures come from: {', '.join(words) or 'nothing seen'}"
    )
    yield text(_MARGIN, y, told, kind="soft")
    marks = ["grey bar under the light: the switch's answer", "grey tick: dark", "hatched: unknown"]
    notes = [f"{rest} more links not drawn"] if rest else []
    notes += [f"{len(timeline.breaches)} breaches of the order"] if timeline.breaches else []
    yield text(_MARGIN, y + 15, " · ".join([*marks, *notes]), kind="soft")


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
