"""MQTT messages and their fields, from the wire structs."""

import json
import re
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from docs.generate.pages import code, table
from hwd_agents import wire
from hwd_agents.wire import events
from hwd_agents.wire.events import DATA

_WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", type(None): "null", Any: "anything"}


def messages() -> str:
    """A section for each message, and one for each value within."""
    values = dict.fromkeys(value for module in (wire, events) for value in vars(module).values() if _is_value(value))
    return "\n".join(map(_section, (*get_args(wire.AnyMessage), *values)))


def _is_value(kind: object) -> bool:
    """A struct of the wire; values of other packages are text in a message, such as a crossconnect."""
    if not isinstance(kind, type) or kind.__name__.startswith("_") or not kind.__module__.startswith(wire.__name__):
        return False
    return issubclass(kind, msgspec.Struct) and not issubclass(kind, wire.Message) and bool(kind.__struct_fields__)


def _section(kind: Any) -> str:
    tag = kind.__struct_config__.tag
    common = wire.Message.__struct_fields__
    hints = get_type_hints(kind, include_extras=True)
    defaults = {field.name: field.default for field in msgspec.structs.fields(kind)}
    rows = [
        (code(name), _kind(hints[name]), "" if defaults[name] is msgspec.NODEFAULT else _default(defaults[name]))
        for name in kind.__struct_fields__
        if not issubclass(kind, wire.Message) or name not in common
    ]
    head = f"### `{tag}`" if issubclass(kind, wire.Message) else f"### {kind.__name__}"
    return (
        f"{head}\n\n{_text(kind)}\n\n{_kinds() if kind is wire.Event else ''}{table(('field', 'is', 'default'), rows)}"
    )


def _kinds() -> str:
    """The kinds of events, with the struct of their data."""
    rows = ((code(kind), " or ".join(map(_link, get_args(data) or (data,)))) for kind, data in DATA.items())
    return f"{table(('kind', 'data'), rows)}\n"


def _link(value: type) -> str:
    return f"[{value.__name__}](#{value.__name__.lower()})"


def _text(kind: Any) -> str:
    lines = (line.strip() for line in (kind.__doc__ or "").strip().splitlines())
    return re.sub(r"^\| (?!-|kind|verb)([\w, -]+?) \|", r"| `\1` |", "\n".join(lines), flags=re.MULTILINE)


def _default(value: object) -> str:
    """Write a value as JSON does."""
    if value is msgspec.UNSET:
        return "may be left out"
    return code(json.dumps(value, default=str))


def _kind(hint: Any) -> str:
    if get_origin(hint) is Annotated:
        bare, *notes = get_args(hint)
        is_object = any((getattr(note, "extra_json_schema", None) or {}).get("type") == "object" for note in notes)
        return _kind(dict[str, Any] if is_object else bare)
    if get_origin(hint) is Literal:
        return ", ".join(map(code, get_args(hint)))
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(_kind(one) for one in get_args(hint) if one is not msgspec.UnsetType)
    if get_origin(hint) is tuple and get_args(hint)[1:] == (...,):
        return f"list of {_kind(get_args(hint)[0])}"
    if get_origin(hint) is tuple:
        return f"[{', '.join(map(_kind, get_args(hint)))}]"
    if get_origin(hint) is list:
        return f"list of {_kind(get_args(hint)[0])}"
    if get_origin(hint) is dict:
        return f"mapping to {_kind(get_args(hint)[1])}"
    return _WORDS.get(hint) or str(hint.__name__)
