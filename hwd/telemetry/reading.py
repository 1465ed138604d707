"""Reads fields of documents with values from agents and switches: a value of a wrong type counts as absent."""

import math
from collections.abc import Mapping
from typing import Any


def text(data: Mapping[str, Any], key: str) -> str:
    """Empty where it is absent."""
    value = data.get(key)
    return value if isinstance(value, str) else ""


def number(data: Mapping[str, Any], key: str) -> float | None:
    """Finite numbers and booleans; None for anything else: one infinite value would spoil a histogram's sum."""
    return finite(data.get(key))


def finite(value: object) -> float | None:
    """As `number`, of the value itself."""
    if not isinstance(value, int | float):
        return None
    try:
        read = float(value)
    except OverflowError:
        return None
    return read if math.isfinite(read) else None


def mapping(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict | Mapping) else {}  # nearly all are dicts, which is seen sooner


def rows(data: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = data.get(key)
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list | tuple) else []


def texts(data: Mapping[str, Any], key: str) -> list[str]:
    value = data.get(key)
    return [one for one in value if isinstance(one, str)] if isinstance(value, list | tuple) else []
