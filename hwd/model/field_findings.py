"""The findings about the fields of an object that somebody sent: every one at once, each by its field.

findings({"ready_within_s": -1}, PlanBody)    # ["ready_within_s: must be greater than 0"]
takes(Reboot)                                 # "switch (text), seconds (a number from 0 to 86400)"
"""

import re
from collections.abc import Iterator, Mapping
from enum import EnumMeta
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec
from msgspec import inspect
from msgspec.structs import fields

from hwd_drivers.core.structs import from_plain

_WORDS: Final = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "a whole number",
    "object": "an object",
    "str": "text",
}
_SIGNS: Final = {">": "greater than", ">=": "greater than or equal to", "<=": "less than or equal to"}
_BOUND: Final = re.compile(r"Expected `\w+` (>|>=|<=) (-?[\d.]+)")


def findings(data: Mapping[str, Any], kind: type[msgspec.Struct]) -> list[str]:
    """Empty where each field by itself is right."""
    return list(_of_fields(data, kind, ""))


def takes(kind: type[msgspec.Struct]) -> str:
    """The fields of an object, each with what it may be."""
    return ", ".join(f"{one.encode_name} ({allowed(one.type)})" for one in fields(kind)) or "no fields"


def allowed(kind: Any) -> str:
    """What a value may be: `a number from 0 to 86400`, `text or null`, `'tx', 'rx' or 'both'`."""
    return _allowed(inspect.type_info(kind))


def _allowed(kind: inspect.Type) -> str:
    match kind:
        case inspect.FloatType() | inspect.IntType():
            return ("a whole number" if isinstance(kind, inspect.IntType) else "a number") + _bounds(kind)
        case inspect.StrType():
            return "text"
        case inspect.BoolType():
            return "true or false"
        case inspect.NoneType():
            return "null"
        case inspect.LiteralType(values=values):
            return _one_of(values)
        case inspect.EnumType(cls=members):
            return _one_of(tuple(members))
        case inspect.ListType() | inspect.VarTupleType():
            return f"a list, of {_allowed(kind.item_type)} each"
        case inspect.UnionType(types=types):
            return " or ".join(map(_allowed, types))
        case _:
            return "an object"


def _bounds(kind: inspect.FloatType | inspect.IntType) -> str:
    if kind.ge is not None and kind.le is not None:
        return f" from {kind.ge:g} to {kind.le:g}"
    words = [f"{word} {bound:g}" for word, bound in (("above", kind.gt), ("from", kind.ge)) if bound is not None]
    words += [] if kind.le is None else [f"up to {kind.le:g}"]
    return f" {', '.join(words)}" if words else ""


def _of_fields(data: Mapping[str, Any], kind: type[msgspec.Struct], before: str) -> Iterator[str]:
    known = {one.encode_name: one for one in fields(kind)}
    for name, one in known.items():
        if name in data:
            yield from _of_value(data[name], one.type, f"{before}{name}")
        elif one.required:
            yield f"{before}{name}: is missing; it must be {allowed(one.type)}"
    if kind.__struct_config__.forbid_unknown_fields:
        tag = kind.__struct_config__.tag_field
        yield from (f"{before}{name}: is an unknown field" for name in data if name not in known and name != tag)


def _of_value(value: Any, kind: Any, place: str) -> Iterator[str]:
    if isinstance(value, dict):
        for part in _alternatives(kind):
            if isinstance(part, type) and issubclass(part, msgspec.Struct):
                yield from _of_fields(value, part, f"{place}.")
                return
            if get_origin(part) is dict:
                of_name, of_value = get_args(part)
                for name, one in value.items():
                    yield from _of_value(name, of_name, f"{place}.{name}")
                    yield from _of_value(one, of_value, f"{place}.{name}")
                return
    try:
        from_plain(value, kind)
    except msgspec.ValidationError as error:
        yield f"{place}{_finding(error, kind)}"


def _alternatives(kind: Any) -> Iterator[Any]:
    """The types of a union, without the bounds of each."""
    if get_origin(kind) is Annotated:
        yield from _alternatives(get_args(kind)[0])
    elif get_origin(kind) in (Union, UnionType):
        for part in get_args(kind):
            yield from _alternatives(part)
    else:
        yield kind


def _finding(error: msgspec.ValidationError, kind: Any) -> str:
    """`: must be greater than 0` for a message of msgspec, ```Expected `float` > 0.0```."""
    text, _, place = str(error).partition(" - at `$")
    values: list[Any] = []
    for part in _alternatives(kind):
        if get_origin(part) is Literal:
            values += get_args(part)
        elif isinstance(part, EnumMeta):
            values += part.__members__.values()
    if values:
        return f": must be {_one_of(tuple(values))}"
    if bound := _BOUND.fullmatch(text):
        text = f"must be {_SIGNS[bound[1]]} {bound[2].removesuffix('.0')}"
    return f"{place.rstrip('`')}: {re.sub('`([^`]+)`', _plain, text.replace('Expected', 'must be'))}"


def _plain(match: re.Match[str]) -> str:
    return " or ".join(_WORDS.get(part, part) for part in match[1].split(" | "))


def _one_of(values: tuple[Any, ...]) -> str:
    *others, last = (repr(str(one)) for one in values)
    return f"{', '.join(others)} or {last}" if others else last
