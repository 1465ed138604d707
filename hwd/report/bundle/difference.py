"""The comparison of a part of a report in a bundle with the same part derived from the bundle's records.

Texts and whole numbers are compared exactly; other numbers within a billionth, since another version of numpy may give
another last digit.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

RELATIVE = 1e-9
"""Two numbers that differ by no more of the larger one are equal."""
ABSOLUTE = 1e-12
"""Nor do numbers differ so near to zero: a thousandth of a nanosecond."""
EXCERPT = 60
"""Characters of a text in a line that says what differs."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A difference between a bundle and its records. `part`: `figures/waterfall`; `at`: where in it. A side without the
    value has no field in JSON. `note`: what is wrong with the whole part.
    """

    part: str
    at: str = ""
    in_bundle: Any = UNSET
    from_records: Any = UNSET
    unit: str = ""
    note: str = ""

    def __str__(self) -> str:
        if self.note:
            return f"{self.part}: {self.note}"
        place = f"{self.part}: {self.at}" if self.at else self.part
        return f"{place}: {self._text(self.in_bundle)} in the bundle, {self._text(self.from_records)} from its records"

    def _text(self, value: Any) -> str:
        match value:
            case UnsetType():
                return "nothing"
            case bool() | int() | float():
                return f"{json.dumps(value)}{f' {self.unit}' if self.unit else ''}"
        text = json.dumps(value, ensure_ascii=False)
        return text if len(text) <= EXCERPT else f"{text[:EXCERPT]}..."


def equal(first: object, second: object) -> bool:
    """Whether two plain values are equal."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, float) and isinstance(second, int | float):
        return math.isclose(first, second, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    if isinstance(first, int) and isinstance(second, float):
        return equal(second, first)
    return type(first) is type(second) and first == second


def value_differences(part: str, at: str, first: Any, second: Any, *, unit: str = "") -> Iterator[Difference]:
    """Find the differences of any JSON; `first` is the one of the bundle."""
    match first, second:
        case dict(), dict():
            for key in {**second, **first}:
                where = f"{at}.{key}" if at else str(key)
                yield from value_differences(part, where, first.get(key, UNSET), second.get(key, UNSET), unit=unit)
        case list(), list():
            for place in range(max(len(first), len(second))):
                pair = (side[place] if place < len(side) else UNSET for side in (first, second))
                yield from value_differences(part, f"{at}[{place}]", *pair, unit=unit)
        case _ if first is not second and not equal(first, second):
            yield Difference(part=part, at=at, in_bundle=first, from_records=second, unit=unit)


def row_differences(
    part: str,
    at: str,
    first: Any,
    second: Sequence[Mapping[str, Any]],
    key: Sequence[str],
    units: Mapping[str, str] | None = None,
) -> Iterator[Difference]:
    """Find the differences of the rows of a table. Rows are named by their values in the columns of `key` where that
    tells them apart, else by their number.
    """
    if not isinstance(first, list) or not all(isinstance(row, dict) for row in first):
        yield Difference(part=part, at=f"{at}: rows" if at else "rows", in_bundle=first, from_records=second)
        return
    names, derived = _names(first, key), _names(second, key)
    ours, theirs = dict(zip(names, first, strict=True)), dict(zip(derived, second, strict=True))
    for name in {**theirs, **ours}:
        where = f"{at}, {name}" if at else name
        one, other = ours.get(name), theirs.get(name)
        if one is None or other is None:
            yield Difference(
                part=part,
                at=f"{where}: row",
                in_bundle=UNSET if one is None else one,
                from_records=UNSET if other is None else other,
            )
            continue
        for column in {**other, **one}:
            unit = (units or {}).get(column) or ("s" if column.endswith("_s") else "")
            yield from value_differences(
                part, f"{where}: {column}", one.get(column, UNSET), other.get(column, UNSET), unit=unit
            )
    if [name for name in names if name in theirs] != [name for name in derived if name in ours]:
        yield Difference(
            part=part, at=f"{at}: order of rows" if at else "order of rows", in_bundle=names, from_records=derived
        )


def table_differences(part: str, first: Any, second: Mapping[str, Any]) -> Iterator[Difference]:
    """Find the differences of a member of `tables/`."""
    if not isinstance(first, dict):
        yield Difference(part=part, in_bundle=first, from_records=second)
        return
    yield from value_differences(part, "", *({**side, "rows": None} for side in (first, second)))
    yield from row_differences(part, "", first.get("rows"), second["rows"], second["key"])


def text_differences(part: str, first: str, second: str) -> Iterator[Difference]:
    """Find the differences of a text, line by line between the equal lines at both ends."""
    ours, theirs = first.split("\n"), second.split("\n")
    start = _equal_ahead(ours, theirs)
    behind = min(_equal_ahead(ours[::-1], theirs[::-1]), min(len(ours), len(theirs)) - start)
    changed, derived = ours[start : len(ours) - behind], theirs[start : len(theirs) - behind]
    for place in range(max(len(changed), len(derived))):
        one, other = (side[place] if place < len(side) else None for side in (changed, derived))
        if one != other:
            ahead = 0 if one is None or other is None else max(0, _equal_ahead(one, other) - EXCERPT // 3)
            yield Difference(
                part=part,
                at=f"line {start + place + 1}" + (f" from character {ahead + 1}" if ahead else ""),
                in_bundle=UNSET if one is None else one[ahead : ahead + EXCERPT],
                from_records=UNSET if other is None else other[ahead : ahead + EXCERPT],
            )


def _equal_ahead(first: Sequence[str], second: Sequence[str]) -> int:
    """How many items are equal from the beginning."""
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return place
    return min(len(first), len(second))


def _names(rows: Sequence[Mapping[str, Any]], key: Sequence[str]) -> list[str]:
    found = [", ".join(filter(None, (_word(row.get(column)) for column in key))) for row in rows]
    if len(set(found)) == len(found) and all(found):
        return found
    seen: dict[str, int] = {}
    for name in found:
        seen[name] = seen.get(name, 0) + 1
    return [
        name if name and seen[name] == 1 else f"{name} (row {place})" if name else f"row {place}"
        for place, name in enumerate(found, start=1)
    ]


def _word(value: Any) -> str:
    match value:
        case str():
            return value
        case list():
            return " ".join(map(_word, value))
        case None:
            return ""
    return json.dumps(value)
