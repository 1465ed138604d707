"""Drawings as values: marks on a plane, and their inks, legible to colour-blind people. `svg` and `pdf` render them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hwd.timeline import StageName
from hwd_drivers.core.errors import BugError

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

TEXT_SIZE = 12.0
"""Height of plain text, in units of the drawing; everything else is relative to it."""
CHARACTER = 6.0
"""About the width of a character."""

SCREEN_WIDTH = 1180.0
"""Width of a drawing on a screen, in units."""
SINGLE_IN, DOUBLE_IN = 3.33, 7.0
"""Inches of one column of a paper, and of both."""
PAPER_WIDTHS = {SINGLE_IN: 411.0, DOUBLE_IN: 864.0}
"""Widths in units: plain text is 7 points high there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ink:
    """How a kind of mark is drawn: colour on light and on dark ground, width and dashes of lines, size and
    weight of text.
    """

    light: str
    dark: str
    width: float = 1.0
    dash: tuple[float, ...] = ()
    size: float = TEXT_SIZE
    weight: int = 400


INKS: Mapping[str, Ink] = {
    "ground": Ink(light="#ffffff", dark="#0f141b"),
    "stripe": Ink(light="#f6f7f9", dark="#151c26"),
    "plain": Ink(light="#1f2937", dark="#e6e9ee"),
    "soft": Ink(light="#5b6472", dark="#a3adba"),
    "small": Ink(light="#5b6472", dark="#a3adba", size=9),
    "cell": Ink(light="#1f2937", dark="#1f2937", size=10),
    "cell-light": Ink(light="#ffffff", dark="#ffffff", size=10),
    "head": Ink(light="#1f2937", dark="#e6e9ee", weight=600),
    "title": Ink(light="#1f2937", dark="#e6e9ee", size=16, weight=650),
    "grid": Ink(light="#e5e7eb", dark="#263040"),
    "axis": Ink(light="#9ca3af", dark="#5d6878"),
    "whisker": Ink(light="#1f2937", dark="#e6e9ee", width=1.2),
    "hatch": Ink(light="#9ca3af", dark="#6b7687", width=1.4),
    "paper": Ink(light="#1f2937", dark="#e6e9ee", width=1.2, dash=(4, 3)),
}
"""By the first word of a mark's kind."""
HATCH_STEP = 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """Words in one line, each part with its kind; `anchor` is start, middle or end. `title` has more details, where one
    can point at it.
    """

    x: float
    y: float
    spans: tuple[tuple[str, str], ...]
    anchor: str = "start"
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rect:
    """`fill` is a colour, else that of its kind; `hatched` where the value is unknown."""

    x: float
    y: float
    width: float
    height: float
    fill: str = ""
    kind: str = ""
    hatched: bool = False
    title: str = ""
    radius: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    x1: float
    y1: float
    x2: float
    y2: float
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A line through points, dashed or not."""

    points: tuple[tuple[float, float], ...]
    colour: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Area:
    """A light shade."""

    points: tuple[tuple[float, float], ...]
    colour: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A round mark; `hollow` has a rim only. `kind` selects the ink of that kind in place of a colour."""

    x: float
    y: float
    radius: float
    colour: str = ""
    kind: str = ""
    hollow: bool = False
    title: str = ""


Mark = Text | Rect | Line | Curve | Area | Dot


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """`name` is that of its file; `title` and `description` are for those who cannot see it."""

    name: str
    width: float
    height: float
    title: str
    description: str
    marks: tuple[Mark, ...]


def ink(kind: str) -> Ink:
    return INKS[kind.partition(" ")[0] or "plain"] if kind != "num" else INKS["plain"]


def text(x: float, y: float, words: str, *, kind: str = "", anchor: str = "start", title: str = "") -> Text:
    return Text(x=x, y=y, spans=((words, kind),), anchor=anchor, title=title)


def pair(x: float, y: float, name: str, value: str) -> Text:
    """A name and its value as one text, so that no width has to be estimated between them."""
    return Text(x=x, y=y, spans=((name, "head"), (value, "soft num")))


def rect(
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    fill: str = "",
    kind: str = "",
    hatched: bool = False,
    title: str = "",
    radius: float = 0,
) -> Rect:
    return Rect(
        x=x,
        y=y,
        width=max(0.0, width),
        height=height,
        fill=fill,
        kind=kind,
        hatched=hatched,
        title=title,
        radius=radius,
    )


def line(x1: float, y1: float, x2: float, y2: float, *, kind: str) -> Line:
    return Line(x1=x1, y1=y1, x2=x2, y2=y2, kind=kind)


def polyline(points: Sequence[tuple[float, float]], *, colour: str = "", kind: str = "") -> Curve:
    return Curve(points=tuple(points), colour=colour, kind=kind)


def polygon(points: Sequence[tuple[float, float]], *, colour: str) -> Area:
    return Area(points=tuple(points), colour=colour)


def cut(words: str, width: float) -> str:
    """As much of a text as fits."""
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


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round values from `low` to `high`, at most `most` of them, steps of 1, 2 or 5."""
    span = high - low
    if span <= 0:
        return [low]
    unit = 10 ** math.floor(math.log10(span / most))
    for factor in (1, 2, 5, 10, 20):
        step = unit * factor
        found = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
        if len(found) <= most:
            return [index * step for index in found]
    raise BugError(f"no round steps from {low} to {high}")


def tick_labels(values: Sequence[float]) -> tuple[list[str], str]:
    """Texts for ticks in seconds, and the unit that they share."""
    largest = max((abs(value) for value in values), default=0.0)
    factor, unit = (1e6, "µs") if largest < 1e-3 else (1e3, "ms") if largest < 2 else (1.0, "s")
    return [f"{value * factor:g}" if value else "0" for value in (round(value, 12) for value in values)], unit
