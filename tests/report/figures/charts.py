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
