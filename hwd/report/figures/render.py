"""Figures as specifications for a page, as SVG and as PDF, by vl-convert: no network, no browser."""

import hashlib
import io
import json
import re
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import IO, Any

import altair as alt
import vl_convert
from pypdf import PdfReader, PdfWriter

from hwd.report.figures.figure import SCREEN_WIDTHS, Datasets, Figure, config
from hwd_drivers.core.printable import printable

_CLIP = re.compile(r"clip\d+(?=[\")])")
_SIZE = re.compile(r'(<svg [^>]*?)width="([0-9.]+)" height="([0-9.]+)"')
_POINTS_IN_INCH = 72.0


def specification(figure: Figure, width: float) -> dict[str, Any]:
    """Vega-Lite, without its look, which is `config`."""
    data = Datasets()
    chart = figure.chart(width, data)
    whole = {"$schema": alt.SCHEMA_URL, **chart, "description": figure.description, "datasets": data.by_name}
    return {key: _visible(part) for key, part in whole.items()}


def specifications(figure: Figure) -> list[dict[str, Any]]:
    """The specifications of a figure for a page: one for each width, the widest first; their data is in the first only,
    by its name.
    """
    found = [specification(figure, width) for width in SCREEN_WIDTHS]
    datasets: dict[str, Any] = {}
    for one in found:
        datasets |= one.pop("datasets", {})
    found[0]["datasets"] = datasets
    return found


def svg(figure: Figure, width: float, *, width_in: float | None = None) -> str:
    """A whole SVG document on white. `width`: of the chart, in pixels; `width_in`: of the document, in inches."""
    chart = json.dumps(specification(figure, width))
    text: str = vl_convert.vegalite_to_svg(chart, config=config(dark=False))
    text = _with_own_ids(text, hashlib.sha256(chart.encode()).hexdigest()[:8])
    title, words = escape(_visible(figure.title)), escape(_visible(figure.description))
    text = text.replace("<svg ", '<svg role="img" ', 1)
    text = text.replace(">", f"><title>{title}</title><desc>{words}</desc>", 1)
    if width_in is None:
        return text

    def size(found: re.Match[str]) -> str:
        start, wide, high = found[1], float(found[2]), float(found[3])
        return f'{start}width="{width_in:g}in" height="{width_in * high / wide:.4g}in"'

    return _SIZE.sub(size, text, count=1)


def pdf(figures: Sequence[Figure], to: IO[bytes], *, width: float, width_in: float, title: str) -> None:
    """One page for each figure, just as large as it is."""
    writer = PdfWriter()
    for one in figures:
        page = writer.add_page(PdfReader(io.BytesIO(vl_convert.svg_to_pdf(svg(one, width)))).pages[0])
        page.scale_by(width_in * _POINTS_IN_INCH / float(page.mediabox.width))
        writer.add_outline_item(title=one.title, page_number=page)
    writer.add_metadata({"/Title": title})
    writer.write(to)


def _with_own_ids(text: str, key: str) -> str:
    """Vega numbers its clip paths through all charts of a process. Here they are named after the chart: the same chart
    gives the same bytes, and several can stand in one page.
    """
    numbers: dict[str, int] = {}
    return _CLIP.sub(lambda found: f"clip-{key}-{numbers.setdefault(found[0], len(numbers))}", text)


@cache
def script() -> str:
    """Vega, Vega-Lite and Vega-Embed for a page, 0.9 MB. Bundling them takes longer than all else of a page."""
    text: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return text


def _visible(value: Any) -> Any:
    """No character that XML cannot have, even escaped, or that changes the direction of the text around it; and no text
    that is `if` alone, which Vega 6 takes for the name of a signal. It gets a blank that is not broken.
    """
    match value:
        case "if":
            return "if\u00a0"
        case str():
            return printable(value, most=10 * len(value))
        case dict():
            return {key: _visible(part) for key, part in value.items()}
        case list():
            return [_visible(part) for part in value]
    return value
