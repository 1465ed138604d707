"""Cumulative distributions of the stages: a small plot for each stage, a curve with its band for each group, the
papers' figures as dashed lines.
"""

from collections.abc import Callable, Collection, Iterator, Sequence

from hwd.report.figures.drawing import (
    CHARACTER,
    GROUP_COLOURS,
    SCREEN_WIDTH,
    Drawing,
    Mark,
    cut,
    line,
    polygon,
    polyline,
    rect,
    text,
    tick_labels,
    ticks,
    wrapped,
)
from hwd.report.figures.svg import svg
from hwd.report.papers import PaperFigure, Statistic, of_stage
from hwd.report.quantity import stated
from hwd.timeline import Distribution, Sample, StageName, distribution

_CELL = 274.0
"""About the width of a plot with its axis."""
_PLOT_HEIGHT, _CELL_HEIGHT = 118.0, 196.0
_MARGIN, _LEFT, _ABOVE = 16.0, 38.0, 38.0
_NOTE = (
    "shade: 95 % band (DKW over reconfigurations, from six on) around the bounds of all values · "
    "in brackets: reconfigurations · dashed: a paper's figure"
)

_Scale = Callable[[float], float]
Group = tuple[tuple[str, ...], bool]
"""The group of a curve: its words, and whether its time was virtual."""


def cdf(taken: Sequence[Sample], *, papers: Sequence[PaperFigure] = (), key: str = "cdf") -> str:
    """A whole SVG document; `key` makes its ids unique."""
    return svg(cdf_drawing(taken, papers=papers), key=key)


def cdf_drawing(taken: Sequence[Sample], *, papers: Sequence[PaperFigure] = (), width: float = SCREEN_WIDTH) -> Drawing:
    """Curves of the most likely values; the true distribution lies in the band. A stage without a value is not drawn,
    but named.
    """
    groups: dict[Group, None] = {(sample.group, sample.virtual_time): None for sample in taken}
    colours = {group: GROUP_COLOURS[index % len(GROUP_COLOURS)] for index, group in enumerate(groups)}
    found: dict[StageName, dict[Group, Distribution]] = {}
    for name in StageName:
        for group in groups:
            of_group = [one for one in taken if one.stage.name is name and (one.group, one.virtual_time) == group]
            if (curve := distribution(of_group)) is not None:
                found.setdefault(name, {})[group] = curve
    columns = max(2, round((width - 2 * _MARGIN) / _CELL))
    across = (width - 2 * _MARGIN) / columns
    marks, head = _legend(colours, width)
    for index, (name, curves) in enumerate(found.items()):
        left = _MARGIN + (index % columns) * across + _LEFT
        top = head + (index // columns) * _CELL_HEIGHT + _ABOVE
        marks += _plot(name, curves, colours, of_stage(papers, name), left, top, across - _LEFT - 18)
    empty = [str(name) for name in StageName if name not in found]
    foot = head + -(-len(found) // columns) * _CELL_HEIGHT
    if empty:
        marks.append(text(_MARGIN, foot + 8, f"never seen: {', '.join(empty)}", kind="soft"))
    return Drawing(
        name="distributions",
        width=width,
        height=foot + (22 if empty else 4),
        title="Cumulative distribution of each stage",
        description="; ".join(
            f"{name}: {sum(len(curve.best_s) for curve in curves.values())} values" for name, curves in found.items()
        ),
        marks=tuple(marks),
    )


def _legend(colours: dict[Group, str], width: float) -> tuple[list[Mark], float]:
    """The legend, and the y at which the plots begin."""
    marks: list[Mark] = [text(_MARGIN, 26, "Share of links within a time", kind="title")]
    y = 26.0
    if width > 900:
        marks.append(text(width - _MARGIN, 26, _NOTE, kind="soft", anchor="end"))
    else:
        for part in wrapped(_NOTE, width - 2 * _MARGIN):
            y += 16
            marks.append(text(_MARGIN, y, part, kind="soft"))
    columns = 3 if width > 900 else 2 if width > 600 else 1
    across = (width - 2 * _MARGIN) / columns
    for index, ((words, virtual), colour) in enumerate(colours.items()):
        x, below = _MARGIN + (index % columns) * across, y + 24 + 18 * (index // columns)
        marks.append(rect(x, below - 8, 16, 4, fill=colour, radius=2))
        name = " · ".join(words) or "all"
        time = f", {'virtual' if virtual else 'real'} time"
        marks.append(text(x + 22, below - 2, cut(name, across - 40 - len(time) * CHARACTER) + time, title=name))
    return marks, y + 8 + 18 * -(-len(colours) // columns)


def _plot(
    name: StageName,
    curves: dict[Group, Distribution],
    colours: dict[Group, str],
    papers: Sequence[PaperFigure],
    left: float,
    top: float,
    width: float,
) -> Iterator[Mark]:
    shown = [figure for figure in papers if figure.statistic is not Statistic.UP_TO]
    low_s, high_s = _range(curves.values(), shown)

    def x(seconds: float) -> float:
        return left + width * min(1.0, max(0.0, (seconds - low_s) / (high_s - low_s)))

    def y(share: float) -> float:
        return top + _PLOT_HEIGHT * (1 - share)

    count = sum(len(one.best_s) for one in curves.values())
    reconfigurations = sum(one.reconfigurations for one in curves.values())
    yield text(left, top - 12, str(name), kind="head")
    told = f"n = {count}" + (f" ({reconfigurations})" if reconfigurations < count else "")
    if (len(told) + 1.2 * len(name)) * CHARACTER > width:
        told = told.removeprefix("n = ")
    yield text(left + width, top - 12, told, kind="soft num", anchor="end")
    for share in (0.0, 0.5, 1.0):
        yield line(left, y(share), left + width, y(share), kind="axis" if share == 0 else "grid")
        yield text(left - 6, y(share) + 4, f"{share * 100:.0f} %", kind="soft num", anchor="end")
    values = ticks(low_s, high_s, 5 if width > 180 else 3)
    labels, unit = tick_labels(values)
    for value, label in zip(values, labels, strict=True):
        yield line(x(value), y(0), x(value), y(0) + 4, kind="axis")
        yield text(
            x(value), y(0) + 18, f"{label} {unit}" if value == values[-1] else label, kind="soft num", anchor="middle"
        )
    for figure in shown:
        for at_s in dict.fromkeys((figure.low_s, figure.high_s)):
            yield line(x(at_s), y(0), x(at_s), y(1), kind="paper")
        words = f"{figure.paper} {figure.where}: {figure.statistic} {stated(figure.low_s, figure.high_s)}"
        yield rect(
            x(figure.low_s) - 3,
            y(1),
            x(figure.high_s) - x(figure.low_s) + 6,
            _PLOT_HEIGHT,
            fill="transparent",
            title=words,
        )
    for group, curve in curves.items():
        yield from _curve(curve, colours[group], x, y, left + width, left)


def _range(curves: Collection[Distribution], papers: Sequence[PaperFigure]) -> tuple[float, float]:
    """The range of all values and figures, and of their bounds as far as these do not compress them."""
    low_s = min([curve.best_s[0] for curve in curves] + [figure.low_s for figure in papers])
    high_s = max([curve.best_s[-1] for curve in curves] + [figure.high_s for figure in papers])
    span_s = (high_s - low_s) or abs(high_s) * 0.05 or 1e-6
    least_s, most_s = min(curve.least_s[0] for curve in curves), max(curve.most_s[-1] for curve in curves)
    return (
        low_s - max(0.05 * span_s, min(0.5 * span_s, low_s - least_s)),
        high_s + max(0.05 * span_s, min(0.5 * span_s, most_s - high_s)),
    )


def _curve(curve: Distribution, colour: str, x: _Scale, y: _Scale, right: float, left: float) -> Iterator[Mark]:
    """The band extends to both edges of the plot: beyond all values it is no narrower."""
    if curve.half_width is not None:
        high = [(left, y(min(1.0, curve.half_width)))]
        for at_s, share in curve.high:
            high += [(x(at_s), high[-1][1]), (x(at_s), y(share))]
        low = [(left, y(0))]
        for at_s, share in curve.low:
            low += [(x(at_s), low[-1][1]), (x(at_s), y(share))]
        yield polygon([*high, (right, high[-1][1]), (right, low[-1][1]), *reversed(low)], colour=colour)
    steps: list[tuple[float, float]] = []
    for index, seconds in enumerate(curve.best_s):
        steps += [(x(seconds), y(index / len(curve.best_s))), (x(seconds), y((index + 1) / len(curve.best_s)))]
    yield polyline(steps, colour=colour)
