"""Parameters of a playbook: defaults, overrides typed by them, and the places that they fill."""

import re
from collections.abc import Mapping
from dataclasses import replace

from hwd.config.expression import Value, substitute
from hwd.config.problem import Where, nearest
from hwd.config.tree import Node, Reading
from hwd_drivers.kit.errors import ConfigError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


def settle(reading: Reading, root: Node, overrides: Mapping[str, Value]) -> dict[str, Value]:
    """Defaults of the file with the overrides put in their place."""
    section = root.child("parameters")
    parameters: dict[str, Value] = {}
    for name, node in (section.mapping() if section else {}).items():
        if not _NAME.fullmatch(name):
            reading.add(("parameters", name), "a parameter's name has letters, digits and _ only")
        elif isinstance(node.value, dict | list) or node.value is None:
            reading.add(("parameters", name), "needs a default: text, a number, true or false")
        else:
            parameters[name] = node.value
    for name, value in overrides.items():
        if name not in parameters:
            reading.add(("parameters",), f"-D {name}={value}: no such parameter; {nearest(name, parameters)}")
            continue
        try:
            parameters[name] = _typed(name, value, parameters[name])
        except ConfigError as error:
            reading.add(("parameters", name), str(error))
    return parameters


def fill(reading: Reading, root: Node, parameters: Mapping[str, Value]) -> Node:
    """The same tree with every `{{ ... }}` outside of the parameters replaced by its value."""
    return _fill(reading, root, parameters, ())


def _fill(reading: Reading, node: Node, parameters: Mapping[str, Value], where: Where) -> Node:
    match node.value:
        case dict() as mapping:
            filled = {
                key: child if (*where, key) == ("parameters",) else _fill(reading, child, parameters, (*where, key))
                for key, child in mapping.items()
            }
            return replace(node, value=filled)
        case list() as items:
            return replace(
                node, value=[_fill(reading, child, parameters, (*where, index)) for index, child in enumerate(items)]
            )
        case str() as text if "{{" in text or "}}" in text:
            try:
                return replace(node, value=substitute(text, parameters))
            except ConfigError as error:
                reading.add(where, str(error))
                return node
        case _:
            return node


def _typed(name: str, value: Value, default: Value) -> Value:
    """The override in the type of the default; a whole number's default takes no fraction."""
    text = str(value).strip()
    try:
        match default:
            case bool():
                return {"true": True, "false": False}[text.lower()]
            case int():
                return int(text)
            case float():
                number = float(text)
                if number - number != 0:  # infinite, or no number
                    raise ValueError(text)
                return number
            case str():
                return text
    except (KeyError, ValueError):
        kind = {bool: "true or false", int: "a whole number", float: "a number"}[type(default)]
        raise ConfigError(f"-D {name}={value}: must be {kind}, as its default {default!r} is") from None
