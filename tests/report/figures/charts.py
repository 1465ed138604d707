"""Reads charts: the data of each mark, and the texts of an SVG."""

from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from hwd.report.figures.figure import Figure
from hwd.report.figures.render import specification

Marks = list[tuple[dict[str, Any], list[dict[str, Any]]]]
"""Each layer of a chart with its rows."""


def _layers(node: dict[str, Any], datasets: dict[str, Any]) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    for key in ("vconcat", "hconcat", "layer"):
        for part in node.get(key, []):
            yield from _layers(part, datasets)
    if "mark" in node:
        data = node.get("data", {})
        yield node, datasets[data["name"]] if "name" in data else data.get("values", [])


def marks_of(figure: Figure, width: float = 1160, *, style: str | None = None) -> Marks:
    """The layers of a figure at a width, each with its data; of one style of mark, where that is asked for."""
    chart = specification(figure, width)
    found = [*_layers(chart, chart.get("datasets", {}))]
    return [one for one in found if style is None or one[0]["mark"].get("style") == style]


def texts_of(svg: str) -> list[str]:
    """The texts of an SVG."""
    return ["".join(part.itertext()) for part in ElementTree.fromstring(svg).iter() if part.tag.endswith("}text")]


def drawn(figure: Figure, width: float) -> Iterator[str]:
    """Each layer: its name, style or mark, where its axis ends, its first colour, and its rows."""
    yield f"{figure.title} | {figure.description}"
    for layer, rows in marks_of(figure, width):
        mark, encoding = layer["mark"], layer["encoding"]
        x = encoding.get("x", {})
        ends = [f"{one:.4g}" if isinstance(one, float) else str(one) for one in x.get("scale", {}).get("domain", [])]
        colours = encoding.get("color", {}).get("scale", {}).get("range", [])
        words = [layer.get("name", ""), mark.get("style", mark["type"]), x.get("title") or "", *ends, *colours[:1]]
        yield f"  {' '.join(filter(None, words))}"
        yield from (f"    {' '.join(map(shown, row.items()))}" for row in rows)


def shown(item: tuple[str, Any]) -> str:
    name, value = item
    return f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
