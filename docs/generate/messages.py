"""MQTT messages and their fields, from the wire structs."""

import json
import re
import types
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from docs.generate.pages import code, table
from hwd_agents import wire

_WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", type(None): "null", Any: "anything"}


def messages() -> str:
    """A section for each message, and one for each value within."""
    values = [kind for kind in vars(wire).values() if _is_value(kind)]
    return "\n".join(map(_section, (*get_args(wire.AnyMessage), *values)))


def _is_value(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct) and not issubclass(kind, wire.Message)


def _section(kind: Any) -> str:
    tag = kind.__struct_config__.tag
    common = wire.Message.__struct_fields__
    hints = get_type_hints(kind)
    defaults = {field.name: field.default for field in msgspec.structs.fields(kind)}
    rows = [
        (code(name), _kind(hints[name]), "" if defaults[name] is msgspec.NODEFAULT else _default(defaults[name]))
        for name in kind.__struct_fields__
        if not issubclass(kind, wire.Message) or name not in common
    ]
    head = f"### `{tag}`" if issubclass(kind, wire.Message) else f"### {kind.__name__}"
    return f"{head}\n\n{_text(kind)}\n\n{table(('field', 'is', 'default'), rows)}"


def _text(kind: Any) -> str:
    lines = (line.strip() for line in (kind.__doc__ or "").strip().splitlines())
    return re.sub(r"^\| (?!-|kind|verb)([\w, -]+?) \|", r"| `\1` |", "\n".join(lines), flags=re.MULTILINE)


def _default(value: object) -> str:
    """As in JSON."""
    if value is msgspec.UNSET:
        return "may be left out"
    return code(json.dumps(value, default=str))


def _kind(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return ", ".join(map(code, get_args(hint)))
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_kind(one) for one in get_args(hint) if one is not msgspec.UnsetType)
    if get_origin(hint) is tuple:
        return f"[{', '.join(map(_kind, get_args(hint)))}]"
    if get_origin(hint) is list:
        return f"list of {_kind(get_args(hint)[0])}"
    if get_origin(hint) is dict:
        return f"mapping to {_kind(get_args(hint)[1])}"
    return _WORDS.get(hint) or str(hint.__name__)
