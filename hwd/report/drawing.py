"""SVG by hand: elements, axes, and the colours of stages, legible to colour-blind people, on light and on dark ground."""

import math
from collections.abc import Iterable, Sequence
from html import escape

from hwd.timeline import StageName
from hwd_drivers.kit.errors import BugError

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
"""After Okabe and Ito; names and figures stand beside them, so that no stage is told by its colour alone."""

GROUP_COLOURS = ("#3b78c2", "#e69f00", "#009e73", "#cc5fa0", "#7c5cc4", "#8a8f36", "#56b4e9", "#6b7280")

STYLE = (
    ".hwd{font:12px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}"
    ".hwd .ground{fill:#fff}.hwd text{fill:#1f2937}.hwd .soft{fill:#5b6472}.hwd .head{font-weight:600}"
    ".hwd .title{font-size:16px;font-weight:650}.hwd .num{font-variant-numeric:tabular-nums}"
    ".hwd .grid{stroke:#e5e7eb;stroke-width:1}.hwd .axis{stroke:#9ca3af;stroke-width:1}"
    ".hwd .whisker{stroke:#1f2937;stroke-width:1.2}.hwd .stripe{fill:#f6f7f9}"
    ".hwd .hatch{stroke:#9ca3af;stroke-width:1.4}.hwd .paper{stroke:#1f2937;stroke-width:1.2;stroke-dasharray:4 3}"
    "@media (prefers-color-scheme:dark){"
    ".hwd .ground{fill:#0f141b}.hwd text{fill:#e6e9ee}.hwd .soft{fill:#a3adba}"
    ".hwd .grid{stroke:#263040}.hwd .axis{stroke:#5d6878}.hwd .whisker{stroke:#e6e9ee}.hwd .stripe{fill:#151c26}"
    ".hwd .hatch{stroke:#6b7687}.hwd .paper{stroke:#e6e9ee}}"
)


def document(body: Iterable[str], *, width: float, height: float, title: str, description: str, key: str) -> str:
    """A whole SVG that stands alone and inline. `key` keeps its ids apart from those of other figures on the page."""
    hatch = (
        f'<pattern id="{key}-hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<line class="hatch" x1="0" y1="0" x2="0" y2="6"/></pattern>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="hwd" viewBox="0 0 {n(width)} {n(height)}" width="{n(width)}" '
        f'role="img" aria-labelledby="{key}-title {key}-desc">'
        f'<title id="{key}-title">{escape(title)}</title><desc id="{key}-desc">{escape(description)}</desc>'
        f"<style>{STYLE}</style><defs>{hatch}</defs>"
        f'<rect class="ground" width="{n(width)}" height="{n(height)}" rx="10"/>'
        f"{''.join(body)}</svg>\n"
    )


def n(value: float) -> str:
    """A coordinate: two decimals, no more characters than needed."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def text(x: float, y: float, words: str, *, kind: str = "", anchor: str = "start", title: str = "") -> str:
    inside = f"<title>{escape(title)}</title>{escape(words)}" if title else escape(words)
    at = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{n(x)}" y="{n(y)}"{_class(kind)}{at}>{inside}</text>'


def pair(x: float, y: float, name: str, value: str) -> str:
    """A name and its value as one text, so that no width has to be guessed between them."""
    return (
        f'<text x="{n(x)}" y="{n(y)}"><tspan class="head">{escape(name)}</tspan>'
        f'<tspan class="soft num" dx="7">{escape(value)}</tspan></text>'
    )


def rect(
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    fill: str = "",
    kind: str = "",
    title: str = "",
    radius: float = 0,
) -> str:
    inside = f"<title>{escape(title)}</title>" if title else ""
    paint = f' fill="{fill}"' if fill else ""
    round_ = f' rx="{n(radius)}"' if radius else ""
    size = f'width="{n(max(0, width))}" height="{n(height)}"'
    return f'<rect x="{n(x)}" y="{n(y)}" {size}{paint}{round_}{_class(kind)}>{inside}</rect>'


def line(x1: float, y1: float, x2: float, y2: float, *, kind: str) -> str:
    return f'<line x1="{n(x1)}" y1="{n(y1)}" x2="{n(x2)}" y2="{n(y2)}"{_class(kind)}/>'


def polyline(points: Sequence[tuple[float, float]], *, colour: str) -> str:
    path = " ".join(f"{n(x)},{n(y)}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8" stroke-linejoin="round"/>'


def polygon(points: Sequence[tuple[float, float]], *, colour: str) -> str:
    path = " ".join(f"{n(x)},{n(y)}" for x, y in points)
    return f'<polygon points="{path}" fill="{colour}" opacity="0.13"/>'


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


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
