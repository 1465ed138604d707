"""A figure: its words, and a chart for any width; the colours and letters that all figures share."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any, TypeVar

import altair as alt

from hwd.timeline import StageName

Chart = dict[str, Any]
"""A chart or a part of one, in Vega-Lite."""
Row = Mapping[str, object]
"""A row of a chart's data: plain values by the names of its columns."""

STAGE_COLOURS = {
    StageName.CONTROL: "#6b7280",
    StageName.OPTICAL: "#e69f00",
    StageName.FIRMWARE: "#3b78c2",
    StageName.CARRIER: "#009e73",
    StageName.RDMA: "#cc5fa0",
    StageName.READY: "#56b4e9",
    StageName.TURNAROUND: "#7c5cc4",
    StageName.ACTIVATION: "#8a8f36",
}
"""After Okabe and Ito; every stage also has its name next to it, so that colour is never the only sign."""
GROUP_COLOURS = ("#3b78c2", "#e69f00", "#009e73", "#cc5fa0", "#7c5cc4", "#8a8f36", "#56b4e9", "#6b7280")

TEXT_SIZE = 12
"""Height of plain text in pixels; everything else is relative to it."""
CHARACTER = 6.1
"""About the width of a character of it."""
SINGLE_IN, DOUBLE_IN = 3.33, 7.0
"""Inches of one column of a paper, and of both."""
PAPER_WIDTHS = {SINGLE_IN: 411.0, DOUBLE_IN: 864.0}
"""Widths in pixels: plain text is 7 points high there."""
SCREEN_WIDTHS = (1160.0, 700.0, 336.0)
"""Widths that a page has a chart for: a screen, a tablet, a telephone."""
_OF_THE_WHOLE = frozenset({"$schema", "config", "datasets", "usermeta"})
MARGIN = 14
"""Pixels around a figure."""
_Axis = TypeVar("_Axis", alt.X, alt.Y)
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"


class Datasets:
    """The data of charts, by name. Equal data have one name, so that charts of several widths share them.

    Altair copies and checks data that stand in a chart many times over; names it does not.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, list[Row]] = {}

    def rows(self, values: Sequence[Row]) -> alt.NamedData:
        name = hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]
        self.by_name[name] = [*values]
        return alt.NamedData(name=name)

    def marks(
        self, rows: Sequence[Row], mark: alt.MarkDef, *channels: Any, zoomed: str = "", zooms: str = "x", **named: Any
    ) -> Chart:
        """A mark for each row, in Vega-Lite. `channels` know what they encode, those in `named` do not. `zoomed`: its
        name in the figure, where the pointer moves and enlarges its scales, those of the axes `zooms`.

        Altair makes it, and it is put together with others here, since Altair copies all marks anew in each chart that
        holds them: a page of sixteen figures would take 20 s.
        """
        made = alt.Chart(self.rows(rows), mark=mark).encode(*channels, **named)
        if zoomed:
            scales = alt.selection_interval(name=f"zoom_{zoomed}", bind="scales", encodings=[*zooms])
            made = made.properties(name=zoomed).add_params(scales)
        return {key: part for key, part in made.to_dict(validate=False).items() if key not in _OF_THE_WHOLE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of a report; `name` is that of its file. `description` has its figures in words, for those who cannot
    see it. `chart` makes it as wide as that many pixels, and adds its data.
    """

    name: str
    title: str
    description: str
    chart: Callable[[float, Datasets], Chart]


def named(figure: Figure, more: str) -> Figure:
    """The figure with another file name: letters, digits, dots and dashes only."""
    return replace(figure, name=f"{figure.name}-{re.sub('[^A-Za-z0-9.-]', '_', more)}") if more else figure


def heading(title: str, notes: Sequence[str], width: float) -> Chart:
    """The title, and below it the notes, in lines that fit. The letters of the title are larger."""
    room = (width - 2 * MARGIN) * 0.75
    lines = [line for note in notes if note for line in wrapped(note, width - 2 * MARGIN)]
    return {"text": [cut(line, room) for line in wrapped(title, room)], "subtitle": lines}


def panel_heading(title: str, **more: str) -> Chart:
    return {"text": title, "fontSize": TEXT_SIZE, "anchor": "start", "offset": 6, **more}


def in_rows(rows: Sequence[Sequence[Chart]], gap: int, title: Chart) -> Chart:
    """Panels in rows; they share their colours."""
    lines = [{"hconcat": [*row], "spacing": gap} for row in rows]
    shared = {"scale": {"color": "shared"}, "legend": {"color": "shared"}}
    return {"vconcat": lines, "spacing": gap, "title": title, "resolve": shared}


def in_lines(panels: Sequence[Chart], columns: int) -> list[Sequence[Chart]]:
    """So many panels in each row."""
    return [panels[at : at + columns] for at in range(0, len(panels), columns)]


def along(channel: type[_Axis], column: str, ends: Iterable[float], title: str | None = None, /, **axis: Any) -> _Axis:
    """Numbers on an axis with these ends."""
    scale = alt.Scale(domain=[*ends], nice=False)
    return channel(f"{column}:Q", title=title, scale=scale, axis=alt.Axis(**axis))


def moved(axis: _Axis, column: str) -> _Axis:
    """Move a scale and its axis to another column."""
    found = axis.copy(deep=False)
    found["shorthand"] = column
    return found


def fixed_place(channel: Callable[[float], Any], pixels: float) -> Any:
    """Place all marks at the same pixel. `alt.value` says it too, in 5 ms: Altair then looks for its type among all."""
    return channel(pixels)


def a_row_each(column: str, names: Sequence[str], **axis: Any) -> alt.Y:
    """Names below each other, without lines."""
    look = alt.Axis(ticks=False, domain=False, **axis)
    return alt.Y(f"{column}:N", title=None, scale=alt.Scale(domain=[*names]), axis=look)


def coloured(column: str, names: Sequence[str], colours: Sequence[str] = GROUP_COLOURS, **legend: Any) -> alt.Color:
    """A colour for each name; where there are more names, colours are there again."""
    scale = alt.Scale(domain=[*names], range=[*islice(cycle(colours), len(names))])
    return alt.Color(f"{column}:N", scale=scale, legend=alt.Legend(**legend))


def unit_of(seconds: float) -> tuple[float, str]:
    """The factor and the name of the unit for an axis that reaches so far."""
    size = abs(seconds)
    return (1e6, "µs") if size < 1e-3 else (1e3, "ms") if size < 2 else (1.0, "s")


def arrow(link: object) -> str:
    """A link's name as figures show it."""
    return str(link).replace("<->", " ↔ ")


def not_drawn(count: int, most: int, what: str) -> str:
    """What a figure leaves out, in words; an empty text where it has all."""
    return f"{count - most} more {what} not drawn" if count > most else ""


def cut(words: str, width: float) -> str:
    """Cut a text to what fits."""
    most = max(1, int(width / CHARACTER))
    return words if len(words) <= most else f"{words[: most - 1]}…"


def wrapped(words: str, width: float) -> list[str]:
    """A text in lines that fit, broken between words; a word that is too long has its own line."""
    lines = [""]
    for word in words.split(" "):
        if lines[-1] and (len(lines[-1]) + 1 + len(word)) * CHARACTER > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def config(*, dark: bool) -> dict[str, Any]:
    """The look of all figures. Marks have a style by name, so that both looks have one specification."""
    text, soft, grid, axis = (
        ("#e6e9ee", "#a3adba", "#263040", "#5d6878") if dark else ("#1f2937", "#5b6472", "#e5e7eb", "#9ca3af")
    )
    return {
        "background": "#0f141b" if dark else "#ffffff",
        "padding": MARGIN,
        "font": FONT,
        "view": {"stroke": None},
        "title": {
            "anchor": "start", "frame": "bounds", "fontSize": 16, "fontWeight": 600, "color": text,
            "subtitleFontSize": TEXT_SIZE, "subtitleColor": soft, "subtitleLineHeight": 16, "subtitlePadding": 6,
            "offset": 14,
        },
        "axis": {
            "labelColor": soft, "labelFontSize": TEXT_SIZE, "titleColor": soft, "titleFontSize": TEXT_SIZE,
            "titleFontWeight": "normal", "gridColor": grid, "domainColor": axis, "tickColor": axis,
            "labelLimit": 400,
        },
        "legend": {
            "labelColor": text, "labelFontSize": TEXT_SIZE, "labelLimit": 500, "titleColor": soft, "orient": "top",
            "symbolType": "square", "symbolSize": 120, "title": None, "columnPadding": 18,
        },
        "style": {
            "plain": {"color": text}, "soft": {"color": soft},
            "total": {"color": text, "fontWeight": 600}, "small": {"color": soft, "fontSize": 9},
            "whisker": {"color": text, "strokeWidth": 1.2}, "whisker-end": {"color": text},
            "unknown": {"color": grid, "stroke": axis, "strokeDash": [3, 2]},
            "paper": {"color": text, "strokeWidth": 1.2, "strokeDash": [4, 3]},
            "paper-dot": {"color": text, "strokeWidth": 1.4},
            "zero": {"color": axis, "strokeWidth": 1},
            "band": {"color": grid, "fillOpacity": 0.6},
        },
    }  # fmt: skip
