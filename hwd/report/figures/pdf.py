"""Drawings as PDF in the size of a paper's column: one page each, fonts embedded, for
`\\includegraphics[page=2]{...}`.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, BinaryIO

from hwd.report.figures.drawing import HATCH_STEP, Area, Curve, Dot, Drawing, Line, Mark, Rect, Text, ink
from hwd.report.optional_import import import_optional

POINTS_IN_INCH = 72.0
CONDENSED = 90.0
"""Per cent: the font is wider than those of screens and papers; this makes it about as wide as the layouts assume."""
_REGULAR, _BOLD = "HwdSans", "HwdSans-Bold"
_WHAT = "PDF"


def pdf(drawings: Sequence[Drawing], to: BinaryIO, *, width_in: float, title: str) -> None:
    """All as wide as `width_in` inches; text is then about 7 points high where drawings have a width of `PAPER_WIDTHS`.

    The same drawings give the same bytes. Raises ConfigError without the extra `export`.
    """
    canvas_of = import_optional("reportlab.pdfgen.canvas", _WHAT).Canvas
    _fonts()
    page = canvas_of(to, invariant=1, initialFontName=_REGULAR)
    page.setTitle(_plain(title))
    page.setCreator("hwd")
    for drawing in drawings:
        scale = width_in * POINTS_IN_INCH / drawing.width
        page.setPageSize((drawing.width * scale, drawing.height * scale))
        page.bookmarkPage(drawing.name)
        page.addOutlineEntry(_plain(drawing.title), drawing.name)
        page.saveState()
        page.scale(scale, scale)
        pen = _Pen(page, drawing.height)
        for mark in drawing.marks:
            pen.draw(mark)
        page.restoreState()
        page.showPage()
    page.save()


def _plain(words: str) -> str:
    return "".join(one if one.isprintable() else "?" for one in words)


def _fonts() -> None:
    """Bitstream Vera, which is part of reportlab and may be embedded by anyone."""
    metrics = import_optional("reportlab.pdfbase.pdfmetrics", _WHAT)
    ttfonts = import_optional("reportlab.pdfbase.ttfonts", _WHAT)
    known = metrics.getRegisteredFontNames()
    for name, file in ((_REGULAR, "Vera.ttf"), (_BOLD, "VeraBd.ttf")):
        if name not in known:
            metrics.registerFont(ttfonts.TTFont(name, file))


class _Pen:
    """Draws marks, whose y grows downwards, on a canvas whose y grows upwards."""

    def __init__(self, page: Any, height: float) -> None:
        self._page = page
        self._height = height
        self._metrics = import_optional("reportlab.pdfbase.pdfmetrics", _WHAT)
        self._colour = import_optional("reportlab.lib.colors", _WHAT).HexColor
        self._glyphs = self._metrics.getFont(_REGULAR).face.charToGlyph

    def draw(self, mark: Mark) -> None:
        match mark:
            case Text():
                self._text(mark)
            case Rect():
                self._rect(mark)
            case Line():
                self._ink(mark.kind)
                self._page.line(mark.x1, self._y(mark.y1), mark.x2, self._y(mark.y2))
            case Curve():
                self._curve(mark)
            case Area():
                self._page.setFillColor(self._colour(mark.colour), alpha=0.16)
                self._page.drawPath(self._path(mark.points, close=True), stroke=0, fill=1)
                self._page.setFillAlpha(1)
            case Dot():
                colour = self._colour(mark.colour or ink(mark.kind).light)
                self._page.setStrokeColor(colour)
                self._page.setFillColor(colour)
                self._page.setLineWidth(1.6)
                self._page.setDash()
                self._page.circle(mark.x, self._y(mark.y), mark.radius, stroke=1, fill=int(not mark.hollow))

    def _y(self, y: float) -> float:
        return self._height - y

    def _ink(self, kind: str) -> None:
        one = ink(kind)
        self._page.setStrokeColor(self._colour(one.light))
        self._page.setLineWidth(one.width)
        self._page.setDash(list(one.dash))

    def _text(self, mark: Text) -> None:
        parts = [(self._known(words), ink(kind)) for words, kind in mark.spans]
        sizes = [(_BOLD if one.weight >= 600 else _REGULAR, one.size) for _, one in parts]
        widths = [
            self._metrics.stringWidth(words, font, size) * CONDENSED / 100
            for (words, _), (font, size) in zip(parts, sizes, strict=True)
        ]
        gap = 7.0
        whole = sum(widths) + gap * (len(widths) - 1)
        x = mark.x - {"start": 0.0, "middle": whole / 2, "end": whole}[mark.anchor]
        for (words, one), (font, size), width in zip(parts, sizes, widths, strict=True):
            line = self._page.beginText(x, self._y(mark.y))
            line.setFont(font, size)
            line.setHorizScale(CONDENSED)
            line.setFillColor(self._colour(one.light))
            line.textOut(words)
            self._page.drawText(line)
            x += width + gap

    def _known(self, words: str) -> str:
        """Replace characters that the font lacks by question marks; it has Latin letters."""
        words = words.replace("↔", "-").replace("…", "...")
        return "".join(one if ord(one) in self._glyphs and one.isprintable() else "?" for one in words)

    def _rect(self, mark: Rect) -> None:
        y = self._y(mark.y + mark.height)
        if mark.hatched:
            self._hatch(mark.x, y, mark.width, mark.height)
            return
        if mark.fill == "transparent":  # has a title, which paper cannot show
            return
        self._page.setFillColor(self._colour(mark.fill or ink(mark.kind).light))
        shape = partial(self._page.roundRect, radius=mark.radius) if mark.radius else self._page.rect
        shape(mark.x, y, mark.width, mark.height, stroke=0, fill=1)

    def _hatch(self, x: float, y: float, width: float, height: float) -> None:
        self._page.saveState()
        clip = self._page.beginPath()
        clip.rect(x, y, width, height)
        self._page.clipPath(clip, stroke=0, fill=0)
        self._ink("hatch")
        step = HATCH_STEP * 2**0.5
        at = x - height
        while at < x + width:
            self._page.line(at, y, at + height, y + height)
            at += step
        self._page.restoreState()

    def _curve(self, mark: Curve) -> None:
        if mark.colour:
            self._page.setStrokeColor(self._colour(mark.colour))
            self._page.setLineWidth(1.8)
            self._page.setDash()
        else:
            self._ink(mark.kind)
        self._page.setLineJoin(1)
        self._page.drawPath(self._path(mark.points), stroke=1, fill=0)

    def _path(self, points: Sequence[tuple[float, float]], *, close: bool = False) -> Any:
        path = self._page.beginPath()
        for index, (x, y) in enumerate(points):
            (path.lineTo if index else path.moveTo)(x, self._y(y))
        if close:
            path.close()
        return path
