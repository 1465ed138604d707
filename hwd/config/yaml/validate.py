"""Validates one node of a file with one pydantic model: every finding becomes a problem with its line."""

import re
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from hwd.config.yaml.file_problem import Where, nearest
from hwd.config.yaml.tree import Node, Reading

_SECRET_KEY = re.compile(
    r"(?:^|[_-])(?:password|passwd|passphrase|secret|token|api_?key|private_?key)(?:$|[_-])", re.IGNORECASE
)
"""A key like this names a secret: its value is never printed and must not be in the file."""

SHOWN_LENGTH_MAX = 40

_WORDS = {
    "missing": "is missing",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
}

ModelT = TypeVar("ModelT", bound=BaseModel)


def validate(model: type[ModelT], node: Node, where: Where, reading: Reading) -> ModelT | None:
    """The model's instance. Problems are added to `reading`; the instance is then made without their keys, so that the
    rest is checked too.

    None where that is not possible.
    """
    plain = node.plain()
    try:
        return model.model_validate(plain)
    except ValidationError as error:
        bad: set[str] = set()
        for detail in error.errors(include_url=False):
            loc = tuple(part for part in detail["loc"] if part != "[key]")
            bad.update(str(part) for part in loc[:1])
            if detail["type"] == "model_type" and is_secret(loc):
                continue  # a secret in clear text: reported once for the whole file
            reading.add((*where, *_in_tree(node, loc)), _say(detail, model, loc))
    if not isinstance(plain, dict) or not bad:
        return None
    try:
        return model.model_validate({key: value for key, value in plain.items() if key not in bad})
    except ValidationError:  # a required key is among the removed ones
        return None


def is_secret(where: Where) -> bool:
    return any(_SECRET_KEY.search(str(part)) for part in where)


def matches(pattern: str, text: str) -> bool:
    """Whether the whole text follows the pattern, to the last character."""
    return re.fullmatch(pattern.removeprefix("^").removesuffix("$"), text) is not None


def _say(detail: Any, model: type[BaseModel], loc: Where) -> str:
    kind: str = detail["type"]
    if kind == "extra_forbidden":
        return f"unknown key; {nearest(str(loc[-1]), _keys_at(model, loc[:-1]))}"
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    if kind == "string_pattern_mismatch":
        text = f"must match {detail['ctx']['pattern']}"
    else:
        text = _WORDS.get(kind) or detail["msg"].replace("Input should", "must")
    value = detail["input"]
    if kind in ("missing", "too_short", "string_too_short") or is_secret(loc) or isinstance(value, dict | list | tuple):
        return text
    shown = repr(value)
    return f"{text}, not {shown if len(shown) <= SHOWN_LENGTH_MAX else shown[:SHOWN_LENGTH_MAX] + '...'}"


def _in_tree(node: Node, loc: Where) -> Where:
    """The path without the parts that pydantic adds for its own unions; the last one stays, since it may be
    a missing key.
    """
    kept: list[str | int] = []
    at: Node | None = node
    for index, part in enumerate(loc):
        below = at.child(part) if at else None
        if below is not None or index == len(loc) - 1:
            kept.append(part if isinstance(part, int) and at is not None and isinstance(at.value, list) else str(part))
        at = below or at
    return tuple(kept)


def _keys_at(model: type[BaseModel], loc: Where) -> list[str]:
    """Keys that are allowed in a mapping at this place."""
    at: Any = model
    for part in loc:
        at = _below(at, part)
    fields = at.model_fields if isinstance(at, type) and issubclass(at, BaseModel) else {}
    return [field.alias or name for name, field in fields.items()]


def _below(at: Any, part: str | int) -> Any:
    if isinstance(at, type) and issubclass(at, BaseModel):
        for name, field in at.model_fields.items():
            if part in (name, field.alias):
                return _bare(field.annotation)
        return None
    arguments = get_args(at)
    return _bare(arguments[-1] if get_origin(at) is dict else arguments[0]) if arguments else None


def _bare(annotation: Any) -> Any:
    """The annotation without Annotated and without `| None`."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        rest = [argument for argument in get_args(annotation) if argument is not type(None)]
        return _bare(rest[0]) if len(rest) == 1 else annotation
    return annotation
