"""Drawings as SVG: for a page, light and dark, or in the size of a paper's column."""

from html import escape

from hwd.report.figures.drawing import (
    HATCH_STEP,
    INKS,
    TEXT_SIZE,
    Area,
    Curve,
    Dot,
    Drawing,
    Line,
    Mark,
    Rect,
    Text,
    ink,
)

_TEXTS = frozenset({"plain", "soft", "small", "cell", "cell-light", "head", "title"})
_FILLS = frozenset({"ground", "stripe"})
_SCREEN_FONT = "system-ui,-apple-system,'Segoe UI',Roboto,sans-serif"
_PAPER_FONT = "Helvetica,Arial,'Liberation Sans',sans-serif"
_ILLEGAL = {
    code: "\N{REPLACEMENT CHARACTER}"
    for code in (
        *range(0x20),
        *range(0x7F, 0xA0),
        0x61C,
        0x200E,
        0x200F,
        *range(0x2028, 0x202F),
        *range(0x2066, 0x206A),
        0xFFFE,
        0xFFFF,
    )
    if chr(code) not in "\t\n\r"
}
"""Characters that XML cannot have, even escaped, and those that change the direction of the text around them."""


def svg(drawing: Drawing, *, key: str = "", width_in: float | None = None) -> str:
    """A whole SVG that can be used alone and inline. `key` makes its ids unique among the figures of the page.

    `width_in`: its width on paper, in inches, on white.
    """
    key = key or drawing.name
    screen = width_in is None
    width = f'width="{n(drawing.width)}"'
    if width_in is not None:
        width = f'width="{n(width_in)}in" height="{n(width_in * drawing.height / drawing.width)}in"'
    hatch = (
        f'<pattern id="{key}-hatch" width="{n(HATCH_STEP)}" height="{n(HATCH_STEP)}" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)"><line class="hatch" x1="0" y1="0" x2="0" y2="{n(HATCH_STEP)}"/></pattern>'
    )
    size = f"{n(drawing.width)} {n(drawing.height)}"
    corner = ' rx="10"' if screen else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="hwd" viewBox="0 0 {size}" {width} '
        f'role="img" aria-labelledby="{key}-title {key}-desc">'
        f'<title id="{key}-title">{_legal(drawing.title)}</title>'
        f'<desc id="{key}-desc">{_legal(drawing.description)}</desc>'
        f"<style>{_style(dark=screen)}</style><defs>{hatch}</defs>"
        f'<rect class="ground" width="{n(drawing.width)}" height="{n(drawing.height)}"{corner}/>'
        f"{''.join(_mark(mark, key) for mark in drawing.marks)}</svg>\n"
    )


def n(value: float) -> str:
    """A coordinate: two decimals, no more characters than needed."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _style(*, dark: bool) -> str:
    font = _SCREEN_FONT if dark else _PAPER_FONT
    rules = [f".hwd{{font:{n(TEXT_SIZE)}px {font}}}.hwd .num{{font-variant-numeric:tabular-nums}}"]
    at_night = []
    for kind, one in INKS.items():
        name = ".hwd text" if kind == "plain" else f".hwd .{kind}"
        paint = "fill" if kind in _TEXTS | _FILLS else "stroke"
        more = ""
        if kind in _TEXTS and kind != "plain":
            more = (f";font-size:{n(one.size)}px" if one.size != TEXT_SIZE else "") + (
                f";font-weight:{one.weight}" if one.weight != 400 else ""
            )
        elif paint == "stroke":
            more = f";stroke-width:{n(one.width)}" + (
                f";stroke-dasharray:{' '.join(map(n, one.dash))}" if one.dash else ""
            )
        rules.append(f"{name}{{{paint}:{one.light}{more}}}")
        at_night.append(f"{name}{{{paint}:{one.dark}}}")
    if dark:
        rules.append(f"@media (prefers-color-scheme:dark){{{''.join(at_night)}}}")
    return "".join(rules)


def _mark(mark: Mark, key: str) -> str:
    match mark:
        case Text():
            return _text(mark)
        case Rect():
            fill = f"url(#{key}-hatch)" if mark.hatched else mark.fill
            paint = (f' fill="{fill}"' if fill else "") + (f' rx="{n(mark.radius)}"' if mark.radius else "")
            at = f'x="{n(mark.x)}" y="{n(mark.y)}" width="{n(mark.width)}" height="{n(mark.height)}"'
            return f"<rect {at}{paint}{_class(mark.kind)}>{_title(mark.title)}</rect>"
        case Line():
            return f'<line x1="{n(mark.x1)}" y1="{n(mark.y1)}" x2="{n(mark.x2)}" y2="{n(mark.y2)}"{_class(mark.kind)}/>'
        case Curve():
            paint = f' stroke="{mark.colour}" stroke-width="1.8"' if mark.colour else ""
            paint += f' stroke-linejoin="round"{_class(mark.kind)}'
            return f'<polyline points="{_points(mark.points)}" fill="none"{paint}/>'
        case Area():
            return f'<polygon points="{_points(mark.points)}" fill="{mark.colour}" opacity="0.16"/>'
        case Dot():
            paint = f' stroke="{mark.colour}"' if mark.colour else ""
            fill = "none" if mark.hollow else mark.colour or ink(mark.kind).light
            width = ' stroke-width="1.6"' if mark.colour else ""
            return (
                f'<circle cx="{n(mark.x)}" cy="{n(mark.y)}" r="{n(mark.radius)}" fill="{fill}"{paint}{width}'
                f"{_class(mark.kind)}>{_title(mark.title)}</circle>"
            )


def _text(mark: Text) -> str:
    at = f' text-anchor="{mark.anchor}"' if mark.anchor != "start" else ""
    where = f'<text x="{n(mark.x)}" y="{n(mark.y)}"'
    if len(mark.spans) == 1:
        ((words, kind),) = mark.spans
        return f"{where}{_class(kind)}{at}>{_title(mark.title)}{_legal(words)}</text>"
    spans = "".join(
        f"<tspan{_class(kind)}{'' if index == 0 else ' dx=' + chr(34) + '7' + chr(34)}>{_legal(words)}</tspan>"
        for index, (words, kind) in enumerate(mark.spans)
    )
    return f"{where}{at}>{_title(mark.title)}{spans}</text>"


def _points(points: tuple[tuple[float, float], ...]) -> str:
    return " ".join(f"{n(x)},{n(y)}" for x, y in points)


def _title(words: str) -> str:
    return f"<title>{_legal(words)}</title>" if words else ""


def _legal(words: str) -> str:
    return escape(words.translate(_ILLEGAL).encode("utf-8", "replace").decode())


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
