"""The waterfall: one reconfiguration as a figure, a row for each link, with three scales.

Its first panel shows the whole way; next to it are the switch's part right after the command and the host's part after
the NIC's firmware (the carrier where that is unknown), which would be too thin in the whole. Unknown parts are
outlined, never left out; an instant that was seen after one is a tick at its end.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import altair as alt

from hwd.model.instant import InstantName, Knowledge, Origin
from hwd.model.plural import plural
from hwd.report.figures.bars import CHAIN, bars
from hwd.report.figures.figure import (
    CHARACTER,
    MARGIN,
    STAGE_COLOURS,
    Chart,
    Datasets,
    Figure,
    Row,
    a_row_each,
    along,
    arrow,
    coloured,
    fixed_place,
    heading,
    in_rows,
    moved,
    not_drawn,
    unit_of,
)
from hwd.report.figures.render import svg
from hwd.report.grouping import swept
from hwd.report.quantity import bound, duration, interval, is_resolved, resolved
from hwd.timeline import LinkTimeline, StageName, Timeline

ROWS_MAX = 64
"""Links drawn; more would not be read. The table has them all."""
WIDTH = 1160.0
"""The width of a waterfall that stands alone, in pixels."""

_NS_IN_S = 1e9
_STEP, _BAR, _ANSWER = 27, 13, 4
_TOTAL = 78
"""Pixels for the sum of each row."""
_GAP = 22
_ZOOM_FROM = 430.0
"""In a narrower figure there is room for the whole only."""
_HOST = (
    (InstantName.FIRMWARE, "host, after NIC firmware"),
    (InstantName.CARRIER, "host, after carrier"),
)
_WHOLE, _ZOOMED = 0.52, 0.24
"""Shares of the width of the panels."""
_STAGES = (StageName.CONTROL, *(stage for _, stage in CHAIN))
_OF_SWITCH = (StageName.CONTROL, StageName.OPTICAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """The scale of a panel, in seconds. `since`: the instant of each link that is zero, in place of the command."""

    name: str
    title: str
    low_s: float
    high_s: float
    since: InstantName | None = None


def typical(timelines: Sequence[Timeline]) -> Timeline | None:
    """The reconfiguration with the median slowest link, among those with most links timed; None where none has links
    that moved.
    """
    timed: list[tuple[int, float, Timeline]] = []
    for timeline in timelines:
        if timeline.moved:
            seconds = _turnarounds_s(timeline)
            timed.append((len(seconds), max(seconds, default=0.0), timeline))
    if not timed:
        return None
    most = max(count for count, _, _ in timed)
    best = sorted(((seconds, timeline) for count, seconds, timeline in timed if count == most), key=lambda one: one[0])
    return best[(len(best) - 1) // 2][1]


def _turnarounds_s(timeline: Timeline) -> list[float]:
    return [total_s for link in timeline.moved if (total_s := link.stage(StageName.TURNAROUND).seconds) is not None]


def waterfall(timeline: Timeline, *, virtual_time: bool) -> str:
    """A whole SVG document, legible alone, as in a README."""
    return svg(waterfall_figure(timeline, virtual_time=virtual_time), WIDTH)


def waterfall_figure(timeline: Timeline, *, virtual_time: bool, beside: Sequence[Timeline] = ()) -> Figure:
    """Make the waterfall of a timeline. In a narrow figure the scales shrink; where there is no room for three, only
    the whole is drawn. `beside`: the timelines that it is compared with, so that all have the same scales.
    """
    return Figure(
        name="waterfall",
        title=f"Reconfiguration {timeline.reconfiguration}: {timeline.what}",
        description=" ".join([*map(_describe, timeline.links[:ROWS_MAX]), _more(timeline)]).strip(),
        chart=partial(_chart, timeline, [timeline, *beside], virtual_time),
    )


def _more(timeline: Timeline) -> str:
    return not_drawn(len(timeline.links), ROWS_MAX, "links")


def _chart(timeline: Timeline, compared: Sequence[Timeline], virtual_time: bool, width: float, data: Datasets) -> Chart:
    links = timeline.links[:ROWS_MAX]
    scaled = [link for one in compared for link in one.links[:ROWS_MAX] if not link.kept]
    labels = max((len(link.link) for link in links), default=10) * CHARACTER + 16
    room = width - 2 * MARGIN - labels - _TOTAL
    scales = [_whole(scaled)]
    if room - 2 * _GAP >= _ZOOM_FROM:
        scales += [scale for scale in (_switch(scaled), _host(scaled)) if scale is not None]
    shares = [_WHOLE, *[_ZOOMED] * (len(scales) - 1)]
    parts = [(room - (len(scales) - 1) * _GAP) * share / sum(shares) for share in shares]
    panels = [
        _panel(data, timeline, scale, part, across=width, labels=index == 0, totals=index == len(scales) - 1)
        for index, (scale, part) in enumerate(zip(scales, parts, strict=True))
    ]
    signs = _signs(timeline, is_zoomed=any(scale.name == "switch" for scale in scales))
    notes = [*_heading(timeline), *_origins(timeline, virtual_time), *signs]
    title = heading(timeline.what or timeline.reconfiguration, notes, width)
    return in_rows([panels], _GAP, title)


def _panel(
    data: Datasets, timeline: Timeline, scale: _Scale, width: float, *, across: float, labels: bool, totals: bool
) -> Chart:
    """`across`: the width of the whole figure, for the legend."""
    links = timeline.links[:ROWS_MAX]
    factor, unit = unit_of(max(abs(scale.low_s), abs(scale.high_s)))
    domain = [scale.low_s * factor, scale.high_s * factor]
    ticks = max(3, int(width / 60))
    title = f"{scale.title}, {unit}"
    x = along(
        alt.X, "start", domain, title, tickCount=ticks, titleAnchor="start", orient="top", titlePadding=8,
        titleFontWeight=600,
    )  # fmt: skip
    y = a_row_each("link", [arrow(link.link) for link in links], grid=False, labels=labels, labelPadding=8)
    names = _legend(timeline)
    columns = max(2, int((across - 2 * MARGIN) / (max(map(len, names)) * CHARACTER + 26)))
    colours = [STAGE_COLOURS[stage] for stage in _STAGES]
    colour = coloured("stage", names, colours, columns=columns, columnPadding=10, offset=10)
    known, unknown, ends, whiskers = _bars(links, names, scale, factor)
    tip = alt.Tooltip("words:N", title="link")
    on = (x, alt.X2("end:Q"), y, tip)
    answer = alt.MarkDef("bar", height=_ANSWER, clip=True, yOffset=_BAR / 2 + 3)
    layers = [
        data.marks(unknown, alt.MarkDef("bar", style="unknown", height=_BAR, clip=True, minBandSize=1.6), *on),
        data.marks(known, alt.MarkDef("bar", height=_BAR, clip=True, minBandSize=1.6), *on, colour, zoomed=scale.name),
        data.marks(_answers(links, names[0], scale, factor), answer, *on, colour),
    ]
    if ends:
        end = alt.MarkDef("tick", thickness=3, height=_BAR, opacity=1, clip=True)
        layers.append(data.marks(ends, end, moved(x, "end:Q"), y, tip, colour))
    if scale.name == "switch":
        dark = alt.MarkDef("tick", thickness=2, height=_BAR + 6, clip=True, color=STAGE_COLOURS[StageName.CONTROL])
        layers.append(data.marks(_darks(links, factor), dark, x, y, tip))
    layers += _whiskers(data, whiskers, (domain[1] - domain[0]) * 3 / width, x, y)
    words = alt.MarkDef("text", style="soft", align="left", dx=6, clip=True)
    layers.append(data.marks(_words(links, scale, width), words, alt.XDatum(domain[0]), y, alt.Text("says:N"), tip))
    if totals:
        layers += _totals(data, links, y, width)
    return {"layer": layers, "width": width, "height": {"step": _STEP}}


def _whole(moved: Sequence[LinkTimeline]) -> _Scale:
    """The scale to the last instant that was seen of any link, whatever is known of the stages before it. There is some
    more room where the rest of a link is unknown.
    """
    all_bars = [bar for link in moved for bar in bars(link)]
    ends_s = [bar.most_s for bar in all_bars if bar.ends is not None] + _of_switch_s(moved)
    more = 1.02 if all(bar.ends is not None for bar in all_bars) else 1.12
    high_s = (max(ends_s, default=1.0) or 1.0) * more
    return _Scale(name="whole", title="whole way, after command", low_s=0, high_s=high_s)


def _switch(moved: Sequence[LinkTimeline]) -> _Scale | None:
    """The scale to the last dark, light or answer; None where none was seen."""
    longest_s = max(_of_switch_s(moved), default=0.0)
    return _Scale(name="switch", title="switch, after command", low_s=0, high_s=longest_s * 1.12) if longest_s else None


def _of_switch_s(moved: Sequence[LinkTimeline]) -> list[float]:
    """When the last parts of the switch's work were seen, after the command."""
    stages = [stage for link in moved for stage in link.stages if stage.name in _OF_SWITCH]
    darks_s = [_after_command_s(link, InstantName.DARK) for link in moved]
    return [seconds for seconds in (*(stage.seconds for stage in stages), *darks_s) if seconds is not None]


def _host(moved: Sequence[LinkTimeline]) -> _Scale | None:
    """The scale from the firmware to the last instant that was seen, or from the carrier where nobody saw the firmware
    of any link; None where there are none.
    """
    for since, title in _HOST:
        longest_s = max((length_s for link in moved for length_s in _after(link, since)), default=0.0)
        if longest_s > 0:
            return _Scale(name="host", title=title, low_s=-0.06 * longest_s, high_s=1.06 * longest_s, since=since)
    return None


def _after(link: LinkTimeline, since: InstantName) -> Iterator[float]:
    """How long after that instant the later ones were seen, in seconds."""
    start = link.instant(since)
    for name in (InstantName.CARRIER, InstantName.RDMA, InstantName.READY):
        end = link.instant(name)
        if Knowledge.SEEN is start.knowledge is end.knowledge:
            yield (end.at_ns - start.at_ns) / _NS_IN_S


def _bars(
    links: Sequence[LinkTimeline], names: Sequence[str], scale: _Scale, factor: float
) -> tuple[list[Row], list[Row], list[Row], list[Row]]:
    """The bars of known stages, those of unknown ones, the ends of these that were seen, and the bounds of each end.
    The later ones come first, so that a thin bar lies on the long one that follows it.
    """
    known: list[Row] = []
    unknown: list[Row] = []
    seen: list[Row] = []
    bounds: list[Row] = []
    legend = dict(zip(_STAGES, names, strict=True))
    for link in links:
        zero_s = _zero_s(link, scale)
        if zero_s is None:
            continue
        for bar in reversed(bars(link)):
            start_s, end_s = bar.start_s - zero_s, min(bar.end_s - zero_s, scale.high_s * 2)
            if end_s < scale.low_s or start_s > scale.high_s:
                continue
            one: Row = {
                "link": arrow(link.link), "start": start_s * factor, "end": end_s * factor, "words": bar.title
            }  # fmt: skip
            if bar.stage is None:
                unknown.append(one)
            else:
                known.append({**one, "stage": legend[bar.stage]})
            if bar.ends is None:
                continue
            if bar.stage is None:
                seen.append({**one, "stage": legend[bar.ends]})
            least, most = ((limit_s - zero_s) * factor for limit_s in (bar.least_s, bar.most_s))
            bounds.append({"link": arrow(link.link), "least": least, "most": most})
    return known, unknown, seen, bounds


def _zero_s(link: LinkTimeline, scale: _Scale) -> float | None:
    """Where the scale begins, in seconds after the command; None where that was not seen."""
    return 0.0 if scale.since is None else _after_command_s(link, scale.since)


def _after_command_s(link: LinkTimeline, name: InstantName) -> float | None:
    """The time from the command to an instant; None where either was not seen."""
    instant, command = link.instant(name), link.instant(InstantName.COMMANDED)
    if instant.knowledge is not Knowledge.SEEN or command.knowledge is not Knowledge.SEEN:
        return None
    return (instant.at_ns - command.at_ns) / _NS_IN_S


def _answers(links: Sequence[LinkTimeline], label: str, scale: _Scale, factor: float) -> list[Row]:
    """The switch's answer: a thin bar under the light's, since the two have no order."""
    if scale.since is not None:
        return []
    return [
        {"link": arrow(link.link), "start": 0, "end": control.seconds * factor, "stage": label, "words": str(control)}
        for link in links
        if not link.kept and (control := link.stage(StageName.CONTROL)).seconds is not None
    ]


def _darks(links: Sequence[LinkTimeline], factor: float) -> list[Row]:
    found = [(link, _after_command_s(link, InstantName.DARK)) for link in links if not link.kept]
    return [
        {"link": arrow(link.link), "start": at_s * factor, "words": f"dark {duration(at_s)} after the command"}
        for link, at_s in found
        if at_s is not None
    ]


def _whiskers(data: Datasets, found: Sequence[Row], visible: float, x: alt.X, y: alt.Y) -> Iterator[Chart]:
    """Draw the whiskers that are wide enough to be seen; `visible`: in the unit of the axis."""
    wide = [one for one in found if float(str(one["most"])) - float(str(one["least"])) >= visible]
    if wide:
        least, most = moved(x, "least:Q"), moved(x, "most:Q")
        yield data.marks(wide, alt.MarkDef("rule", style="whisker", clip=True), least, alt.X2("most:Q"), y)
        for edge in (least, most):
            yield data.marks(
                wide, alt.MarkDef("tick", style="whisker-end", thickness=1.2, height=7, clip=True), edge, y
            )


def _words(links: Sequence[LinkTimeline], scale: _Scale, width: float) -> list[Row]:
    """What a row says in place of bars."""
    found: list[Row] = []
    for link in links:
        says = why = ""
        if link.kept:
            says = "kept: none of its crossconnects moved" if scale.name == "whole" else ""
        elif scale.since is not None and (zero := link.instant(scale.since)).knowledge is not Knowledge.SEEN:
            says, why = f"{zero.name} {zero.knowledge}", zero.why
        elif scale.name == "whole" and not bars(link):
            says, why = "command unknown", link.instant(InstantName.COMMANDED).why
        if says:
            found.append({"link": arrow(link.link), "says": says, "words": why or says})
    return found


def _totals(data: Datasets, links: Sequence[LinkTimeline], y: alt.Y, width: float) -> Iterator[Chart]:
    """The turnaround of each link and its bound, right of the panel."""
    found = [(arrow(link.link), link.stage(StageName.TURNAROUND)) for link in links if not link.kept]
    sums: list[Row] = [
        {"link": name, "says": duration(one.seconds), "bound": bound(one.error_s), "words": str(one)}
        for name, one in found
        if one.seconds is not None
    ]
    missing: list[Row] = [
        {"link": name, "says": "unknown", "words": one.why or "unknown"} for name, one in found if one.seconds is None
    ]
    tip = alt.Tooltip("words:N", title="sum")
    for style, values, field, down in (
        ("total", sums, "says", -3), ("small", sums, "bound", 8), ("soft", missing, "says", 0)
    ):  # fmt: skip
        if values:
            mark = alt.MarkDef("text", style=style, align="right", dx=_TOTAL - 6, dy=down, clip=False)
            yield data.marks(values, mark, y, alt.Text(f"{field}:N"), tip, fixed_place(alt.XValue, width))


def _legend(timeline: Timeline) -> list[str]:
    labels = []
    for stage in _STAGES:
        seen = [one for link in timeline.moved if (one := link.stage(stage)).seconds is not None]
        middle_s = statistics.median(one.seconds or 0.0 for one in seen) if seen else None
        known = middle_s is not None and is_resolved(middle_s, statistics.median(one.error_s or 0.0 for one in seen))
        labels.append(f"{stage} {duration(middle_s) if known else 'unresolved' if seen else 'unknown'}")
    return labels


def _heading(timeline: Timeline) -> Iterator[str]:
    """The lines above a waterfall: what was measured, and the total."""
    dwells_s = [link.dwell_s for link in timeline.moved if link.dwell_s is not None]
    run = f"run {timeline.run}" if timeline.run else ""
    dwell = interval(min(dwells_s), max(dwells_s)) if dwells_s else "unknown"
    words = (run, swept(timeline.sweep), f"reconfiguration {timeline.reconfiguration}", f"dwell {dwell}")
    yield ", ".join(filter(None, words))
    totals = _turnarounds_s(timeline)
    kept = len(timeline.links) - len(timeline.moved)
    total = f" · from command to first transfer {duration(statistics.median(totals))} (median)" if totals else ""
    yield f"{plural(len(timeline.moved), 'link')} moved{f', {kept} kept' if kept else ''}{total}"


def _origins(timeline: Timeline, virtual_time: bool) -> Iterator[str]:
    origins = {
        stage: {one for link in timeline.moved if (one := link.stage(stage).origin) is not None} for stage in _STAGES
    }
    words = [f"{stage} {'/'.join(sorted(found))}" for stage, found in origins.items() if found]
    if Origin.FITTED in set().union(*origins.values()):
        words.append("fitted: drawn from a model of a paper's own figure")
    time = "virtual" if virtual_time else "real"
    yield f"{time} time · where figures come from: {', '.join(words) or 'nothing seen'}"


def _signs(timeline: Timeline, *, is_zoomed: bool) -> Iterator[str]:
    signs = ["grey bar under the light: the switch's answer"]
    signs += ["grey tick: dark"] if is_zoomed else []
    if any(bar.stage is None and bar.ends is not None for link in timeline.moved for bar in bars(link)):
        signs.append("coloured tick: seen, at the end of an unknown stage")
    breaches = f"{plural(len(timeline.breaches), 'breach', many='breaches')} of the order" if timeline.breaches else ""
    yield " · ".join(filter(None, (*signs, "dashed outline: unknown", _more(timeline), breaches)))


def _describe(link: LinkTimeline) -> str:
    if link.kept:
        return f"{link.link}: kept."
    parts = [
        f"{stage} {resolved(link.stage(stage).seconds, link.stage(stage).error_s)}"
        if link.stage(stage).seconds is not None
        else f"{stage} {link.stage(stage).knowledge}"
        for stage in (*_STAGES[1:], StageName.TURNAROUND)
    ]
    return f"{link.link}: {', '.join(parts)}."
