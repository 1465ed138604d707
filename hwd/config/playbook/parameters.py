"""Parameters of a playbook: defaults, overrides converted to their types, and their use in the file."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from hwd.config.playbook.effort import Effort
from hwd.config.playbook.expression import TEXT_LENGTH_MAX, Scalar, Value, as_text, substitute
from hwd.config.playbook.playbook_schema import VARIABLE
from hwd.config.yaml.file_problem import Where, nearest
from hwd.config.yaml.tree import Node, Reading
from hwd.config.yaml.validate import matches
from hwd_drivers.core.errors import ConfigError

LIST_MAX = 1000
"""Values of a parameter that is a list."""


def defaults(reading: Reading, root: Node) -> dict[str, Value]:
    """The defaults of a file: each is text, a number, true, false, or a list of these."""
    section = root.child("parameters")
    parameters: dict[str, Value] = {}
    for name, node in (section.mapping() if section else {}).items():
        where = ("parameters", name)
        if not matches(VARIABLE, name):
            reading.add(where, "a parameter's name has letters, digits and _ only")
        elif name in ("last", "run", "true", "false"):
            reading.add(where, "a name that expressions use already; choose another")
        else:
            try:
                parameters[name] = plain_value(node)
            except ConfigError as error:
                reading.add(where, str(error))
    return parameters


def settle(reading: Reading, root: Node, overrides: Mapping[str, Value]) -> dict[str, Value]:
    """The defaults of the file, with the overrides (`-D`) in their place."""
    parameters = defaults(reading, root)
    for name, value in overrides.items():
        try:
            parameters[name] = parameter_value(name, value, parameters)
        except ConfigError as error:
            where: Where = ("parameters", name) if name in parameters else ("parameters",)
            reading.add(where, f"-D {name}={as_text(value)}: {error}")
    return parameters


def parameter_value(name: str, value: Value, parameters: Mapping[str, Value]) -> Value:
    """Convert a value to the type of the parameter's default; a default that is a whole number takes no fraction.
    Raises ConfigError.
    """
    if name not in parameters:
        raise ConfigError(f"no such parameter; {nearest(name, parameters)}")
    default = parameters[name]
    if isinstance(default, tuple):
        parts = value if isinstance(value, tuple) else [part.strip() for part in as_text(value).split(",")]
        return _list(default, parts)
    return _typed(value, default)


def plain_value(node: Node) -> Value:
    """Raises ConfigError for a mapping, an empty value, and a list of lists."""
    match node.value:
        case list() as items:
            parts = [item.value for item in items]
            if not parts or len(parts) > LIST_MAX:
                raise ConfigError(f"a list here has 1 to {LIST_MAX} values")
            if not all(isinstance(part, str | int | float) for part in parts):
                raise ConfigError("a list here holds text, numbers, true and false only")
            return tuple(_bounded(part) for part in parts if isinstance(part, str | int | float))
        case str() | int() | float() as value:
            return _bounded(value)
        case _:
            raise ConfigError("needs a default: text, a number, true or false, or a list of such")


def fill(reading: Reading, node: Node, scope: Mapping[str, Value], where: Where, effort: Effort) -> Node:
    """Replace every `{{ ... }}` of a tree by its value. Raises TooMuchError."""
    effort.values(1)
    match node.value:
        case dict() as mapping:
            filled_mapping = {key: fill(reading, child, scope, (*where, key), effort) for key, child in mapping.items()}
            return replace(node, value=filled_mapping)
        case list() as items:
            filled = [fill(reading, child, scope, (*where, index), effort) for index, child in enumerate(items)]
            return replace(node, value=filled)
        case str() as text if "{{" in text or "}}" in text:
            effort.holes(text)
            try:
                value = substitute(text, scope)
            except ConfigError as error:
                reading.add(where, str(error))
                return node
            if isinstance(value, tuple):
                effort.values(len(value))
                return replace(node, value=[Node(value=part, line=node.line, text=as_text(part)) for part in value])
            filled_text = as_text(value)
            effort.filled(filled_text)
            return replace(node, value=value, text=filled_text)
        case _:
            return node


def _list(default: tuple[Scalar, ...], parts: Iterable[Scalar]) -> Value:
    """Each part, in the common type of the defaults."""
    kind: Scalar = default[0]
    if any(isinstance(one, str) for one in default):
        kind = ""
    elif any(isinstance(one, float) for one in default):
        kind = 0.0
    values = tuple(_typed(part, kind) for part in parts)
    if not values or len(values) > LIST_MAX:
        raise ConfigError(f"a list here has 1 to {LIST_MAX} values")
    return values


def _bounded(value: Scalar) -> Scalar:
    if isinstance(value, str) and len(value) > TEXT_LENGTH_MAX:
        raise ConfigError(f"text of {len(value)} characters is over the {TEXT_LENGTH_MAX} allowed for a value")
    return value


def _typed(value: Value, default: Scalar) -> Scalar:
    text = as_text(value).strip() if isinstance(value, bool | tuple) else str(value).strip()
    try:
        match default:
            case bool():
                return {"true": True, "false": False}[text.lower()]
            case int():
                return int(text)
            case float():
                number = float(text)
                if number - number != 0:  # infinite, or not a number
                    raise ValueError(text)
                return number
            case str():
                return _bounded(text)
    except (KeyError, ValueError):
        kind = {bool: "true or false", int: "a whole number", float: "a number"}[type(default)]
        raise ConfigError(f"must be {kind}, as its default {as_text(default)} is") from None
