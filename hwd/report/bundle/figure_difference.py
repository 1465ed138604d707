"""The comparison of two figures: in the data that their marks draw, by panel and row; in all else, by its path."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from hwd.report.bundle.difference import Difference, row_differences, value_differences

_NAMES_OF_ROWS = ("y", "x", "color", "row", "column", "detail")
"""Channels whose nominal fields say which row it is, the most telling first."""
_UNITS = ("s", "ms", "µs")


@dataclass(frozen=True, slots=True, kw_only=True)
class _DrawnData:
    """Data that a mark draws: the name of the dataset, where, the fields that name a row, and the units of others."""

    dataset: Any
    panel: str
    key: tuple[str, ...]
    units: Mapping[str, str]


def figure_differences(part: str, first: Any, second: Mapping[str, Any]) -> Iterator[Difference]:
    """Find the differences of a member of `figures/`; `first` is the one of the bundle. Names of datasets are not
    compared.
    """
    if not isinstance(first, dict) or not isinstance(first.get("specification"), dict):
        yield from value_differences(part, "", first, second)
        return
    ours, theirs = first["specification"], second["specification"]
    own, derived = [*_drawn(ours)], [*_drawn(theirs)]
    sides = (
        {**side, "specification": _without_data({key: part for key, part in spec.items() if key != "datasets"})}
        for side, spec in ((first, ours), (second, theirs))
    )
    yield from value_differences(part, "", *sides)
    if len(own) != len(derived):
        return  # another number of marks: it is among the differences already
    data = ours.get("datasets")
    data = data if isinstance(data, dict) else {}
    compared: set[tuple[str, str]] = set()
    for one, other in zip(own, derived, strict=True):
        pair = (str(one.dataset), str(other.dataset))
        if pair not in compared:
            compared.add(pair)
            rows = data.get(one.dataset, UNSET) if isinstance(one.dataset, str) else UNSET
            yield from row_differences(
                part, other.panel, rows, theirs["datasets"][other.dataset], other.key, other.units
            )
    for name in sorted({*data} - {name for name, _ in compared}):
        yield Difference(part=part, at=f"dataset {name}, which no mark draws", in_bundle=data[name])


def _drawn(chart: Any, panel: str = "") -> Iterator[_DrawnData]:
    """The marks of a chart in their order."""
    if not isinstance(chart, dict):
        return
    for composed in ("vconcat", "hconcat", "concat"):
        parts = chart.get(composed)
        for place, part in enumerate(parts if isinstance(parts, list) else (), start=1):
            yield from _drawn(part, _panel(part) or (f"{panel} {place}".strip() if panel else f"panel {place}"))
    layers = chart.get("layer")
    for layer in layers if isinstance(layers, list) else ():
        yield from _drawn(layer, panel or _panel(chart))
    data, encoding = chart.get("data"), chart.get("encoding")
    if isinstance(data, dict) and "name" in data:
        channels = encoding if isinstance(encoding, dict) else {}
        yield _DrawnData(dataset=data["name"], panel=panel, key=_key(channels), units=_units(channels))


def _panel(chart: Any) -> str:
    """`whole panel`, by a mark with a name; else its title."""
    if not isinstance(chart, dict):
        return ""
    layers = chart.get("layer")
    named = [layer.get("name") for layer in layers if isinstance(layer, dict)] if isinstance(layers, list) else []
    if name := next((name for name in named if isinstance(name, str)), ""):
        return f"{name} panel"
    title = chart.get("title")
    text = title.get("text") if isinstance(title, dict) else title
    return text if isinstance(text, str) else ""


def _key(channels: Mapping[str, Any]) -> tuple[str, ...]:
    found = [channels[name] for name in _NAMES_OF_ROWS if isinstance(channels.get(name), dict)]
    fields = [one.get("field") for one in found if one.get("type") in ("nominal", "ordinal")]
    return tuple(dict.fromkeys(field for field in fields if isinstance(field, str)))


def _units(channels: Mapping[str, Any]) -> Mapping[str, str]:
    """The unit of a field is the last word of its axis' title: `whole way, after the command, s`."""
    units: dict[str, str] = {}
    for name in ("x", "y"):
        axis = channels.get(name)
        title = axis.get("title") if isinstance(axis, dict) else None
        _, comma, unit = title.rpartition(", ") if isinstance(title, str) else ("", "", "")
        if comma and unit in _UNITS:
            for channel in (name, f"{name}2"):
                field = channels[channel].get("field") if isinstance(channels.get(channel), dict) else None
                if isinstance(field, str):
                    units[field] = unit
    return units


def _without_data(chart: Any) -> Any:
    """A mark's data is its dataset's name and nothing else: with inline values beside it, those would be drawn."""
    match chart:
        case dict():
            return {
                key: "its data"
                if key == "data" and isinstance(value, dict) and set(value) == {"name"}
                else _without_data(value)
                for key, value in chart.items()
            }
        case list():
            return [_without_data(one) for one in chart]
    return chart
