"""Keys of testbed and playbook files, from their JSON Schemas."""

from typing import Any

from docs.generate.http import kind_of
from docs.generate.pages import code, table
from hwd.config.json_schema import json_schema

HOLE = r"\{\{.*\}\}"


def keys(kind: str) -> str:
    """One table: the place of a key, its name, its meaning, its default and limits."""
    schema = json_schema(kind)
    rows = _rows(kind, schema)
    for name, below in schema["$defs"].items():
        rows += _rows(name.removeprefix("_Whole"), below)
    return table(("in", "key", "is", "default", "limits"), rows)


def words(kind: str) -> str:
    """Keys that take one of few words, and the words."""
    found = ((code(name), kind_of(below)) for name, below in json_schema(kind)["$defs"].items() if "enum" in below)
    return table(("in", "one of"), found)


def _rows(name: str, schema: dict[str, Any]) -> list[tuple[str, ...]]:
    needed = schema.get("required", [])
    rows: list[tuple[str, ...]] = []
    for key, full in schema.get("properties", {}).items():
        shape = _without_hole(full)
        default = "needed" if key in needed else _default(shape)
        rows.append((code(name), code(key), _kind(shape), default, _limits(shape)))
    return rows


def _without_hole(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without the alternative of an expression, which is explained once for all."""
    shapes = [one for one in schema.get("anyOf", []) if one.get("pattern") != HOLE]
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    if len(shapes) == 1:
        return {**shapes[0], **rest}
    return {**rest, "anyOf": shapes} if shapes else rest


def _kind(schema: dict[str, Any]) -> str:
    if below := schema.get("patternProperties"):
        return f"mapping to {_kind(next(iter(below.values())))}"
    return kind_of(schema).removesuffix(" or null").replace("_Whole", "")


def _default(schema: dict[str, Any]) -> str:
    value = schema.get("default")
    if value is None or value in ([], {}, ""):
        return ""
    return code(str(value).lower() if isinstance(value, bool) else str(value))


def _limits(schema: dict[str, Any]) -> str:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum")
    if low is None and high is None:
        return ""
    first = f"over {low:g}" if "exclusiveMinimum" in schema else f"{low:g}" if low is not None else ""
    return f"{first} to {high:g}" if high is not None else first
