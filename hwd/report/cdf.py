"""Cumulative distributions of the stages as an SVG: a small drawing for each stage, a curve for each group, the papers' figures as dashed lines."""

from collections.abc import Callable, Iterator, Sequence

from hwd.report import drawing
from hwd.report.drawing import GROUP_COLOURS, line, polygon, polyline, rect, text, tick_labels, ticks
from hwd.report.papers import PaperFigure, Statistic, of_stage
from hwd.report.quantity import stated
from hwd.timeline import Sample, StageName

_COLUMNS = 4
_PLOT_WIDTH, _PLOT_HEIGHT = 218.0, 118.0
_CELL_WIDTH, _CELL_HEIGHT = 274.0, 196.0
_MARGIN, _LEFT, _ABOVE = 16.0, 34.0, 38.0

_Scale = Callable[[float], float]
Group = tuple[tuple[str, ...], bool]
"""What a curve is of: the words of the group, and whether its time was virtual."""


def cdf(taken: Sequence[Sample], *, papers: Sequence[PaperFigure] = (), key: str = "cdf") -> str:
    """Only values that were seen; the shade beside a curve is each value's own bound. A stage without a value is not drawn, but named."""
    groups: dict[Group, None] = {(sample.group, sample.virtual_time): None for sample in taken}
    colours = {group: GROUP_COLOURS[index % len(GROUP_COLOURS)] for index, group in enumerate(groups)}
    stages = [name for name in StageName if any(_values(taken, name, group) for group in groups)]
    head = 34.0 + 18 * ((len(groups) + 2) // 3)
    rows = (len(stages) + _COLUMNS - 1) // _COLUMNS
    width = 2 * _MARGIN + _COLUMNS * _CELL_WIDTH
    body = list(_legend(colours, width))
    for index, name in enumerate(stages):
        left = _MARGIN + (index % _COLUMNS) * _CELL_WIDTH + _LEFT
        top = head + (index // _COLUMNS) * _CELL_HEIGHT + _ABOVE
        body += _plot(name, taken, colours, of_stage(papers, name), left, top)
    empty = [str(name) for name in StageName if name not in stages]
    foot = head + rows * _CELL_HEIGHT
    if empty:
        body.append(text(_MARGIN, foot + 8, f"never seen: {', '.join(empty)}", kind="soft"))
    return drawing.document(
        body,
        width=width,
        height=foot + (22 if empty else 4),
        title="Cumulative distribution of each stage",
        description="; ".join(
            f"{name}: {len([1 for one in taken if one.stage.name is name])} values" for name in stages
        ),
        key=key,
    )


def _values(taken: Sequence[Sample], name: StageName, group: Group) -> list[tuple[float, float]]:
    """Seconds and bounds, ascending."""
    return sorted(
        (sample.stage.seconds, sample.stage.error_s or 0.0)
        for sample in taken
        if sample.stage.name is name
        and (sample.group, sample.virtual_time) == group
        and sample.stage.seconds is not None
    )


def _legend(colours: dict[Group, str], width: float) -> Iterator[str]:
    yield text(_MARGIN, 26, "Share of links within a time, by stage", kind="title")
    yield text(width - _MARGIN, 26, "dashed: a paper's figure · shade: bound of each value", kind="soft", anchor="end")
    for index, ((words, virtual), colour) in enumerate(colours.items()):
        x, y = _MARGIN + (index % 3) * (width - 2 * _MARGIN) / 3, 50 + 18 * (index // 3)
        yield rect(x, y - 8, 16, 4, fill=colour, radius=2)
        name = " · ".join(words) or "all"
        yield text(x + 22, y - 2, f"{name[:44]}, {'virtual' if virtual else 'real'} time", title=name)


def _plot(
    name: StageName,
    taken: Sequence[Sample],
    colours: dict[Group, str],
    papers: Sequence[PaperFigure],
    left: float,
    top: float,
) -> Iterator[str]:
    curves = {group: found for group in colours if (found := _values(taken, name, group))}
    shown = [figure for figure in papers if figure.statistic is not Statistic.UP_TO]
    low_s = min([found[0][0] - found[0][1] for found in curves.values()] + [figure.low_s for figure in shown])
    high_s = max([found[-1][0] + found[-1][1] for found in curves.values()] + [figure.high_s for figure in shown])
    room_s = (high_s - low_s) * 0.05 or abs(high_s) * 0.05 or 1e-6
    low_s, high_s = low_s - room_s, high_s + room_s

    def x(seconds: float) -> float:
        return left + _PLOT_WIDTH * min(1.0, max(0.0, (seconds - low_s) / (high_s - low_s)))

    def y(share: float) -> float:
        return top + _PLOT_HEIGHT * (1 - share)

    count = sum(map(len, curves.values()))
    yield text(left, top - 12, str(name), kind="head")
    yield text(left + _PLOT_WIDTH, top - 12, f"n = {count}", kind="soft num", anchor="end")
    for share in (0.0, 0.5, 1.0):
        yield line(left, y(share), left + _PLOT_WIDTH, y(share), kind="axis" if share == 0 else "grid")
        yield text(left - 6, y(share) + 4, f"{share:.0%}".replace("%", " %"), kind="soft num", anchor="end")
    values = ticks(low_s, high_s, 5)
    labels, unit = tick_labels(values)
    for value, label in zip(values, labels, strict=True):
        yield line(x(value), y(0), x(value), y(0) + 4, kind="axis")
        told = f"{label} {unit}" if value == values[-1] else label
        yield text(x(value), y(0) + 18, told, kind="soft num", anchor="middle")
    for figure in shown:
        for at_s in dict.fromkeys((figure.low_s, figure.high_s)):
            yield line(x(at_s), y(0), x(at_s), y(1), kind="paper")
        told = f"{figure.paper} {figure.where}: {figure.statistic} {stated(figure.low_s, figure.high_s)}"
        yield rect(
            x(figure.low_s) - 3,
            y(1),
            x(figure.high_s) - x(figure.low_s) + 6,
            _PLOT_HEIGHT,
            fill="transparent",
            title=told,
        )
    for group, found in curves.items():
        yield from _curve(found, colours[group], x, y)


def _curve(found: list[tuple[float, float]], colour: str, x: _Scale, y: _Scale) -> Iterator[str]:
    steps: list[tuple[float, float]] = []
    early: list[tuple[float, float]] = []
    late: list[tuple[float, float]] = []
    for index, (seconds, error_s) in enumerate(found):
        below, above = y(index / len(found)), y((index + 1) / len(found))
        steps += [(x(seconds), below), (x(seconds), above)]
        early += [(x(seconds - error_s), below), (x(seconds - error_s), above)]
        late += [(x(seconds + error_s), below), (x(seconds + error_s), above)]
    yield polygon([*early, *reversed(late)], colour=colour)
    yield polyline(steps, colour=colour)
