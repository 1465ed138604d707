"""Expressions of playbooks: `{{ repeats * 2 + 1 }}`. Names of parameters, numbers, + - * // and brackets; no calls, no attributes, nothing that runs."""

import ast
import re
from collections.abc import Mapping

from hwd.config.problem import nearest
from hwd_drivers.kit.errors import ConfigError

Value = str | int | float | bool

LENGTH_MAX = 200
"""Keeps the parser's stack small; no step count needs more."""
MAGNITUDE_MAX = 1e12
"""Results beyond it are a slip, and products of them would fill the memory."""

_HOLE = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)


def substitute(text: str, parameters: Mapping[str, Value]) -> Value:
    """The text with each `{{ ... }}` replaced; a text that is one such hole takes the type of its value. Raises ConfigError."""
    whole = _HOLE.fullmatch(text.strip())
    if whole and "{{" not in whole[1]:
        return evaluate(whole[1], parameters)
    filled = _HOLE.sub(lambda match: _text(evaluate(match[1], parameters)), text)
    if "{{" in _HOLE.sub("", text) or "}}" in _HOLE.sub("", text):
        raise ConfigError(f"{text!r}: a {{{{ without its }}}}")
    return filled


def evaluate(text: str, parameters: Mapping[str, Value]) -> Value:
    """The value of one expression; raises ConfigError on anything but names, numbers, + - * // and brackets."""
    text = text.strip()
    if len(text) > LENGTH_MAX:
        raise ConfigError(f"expression of {len(text)} characters is over the {LENGTH_MAX} that it may have")
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ConfigError(f"{text!r} is no expression; use names, numbers, + - * // and brackets") from None
    return _value(tree.body, text, parameters)


def _value(node: ast.expr, text: str, parameters: Mapping[str, Value]) -> Value:
    match node:
        case ast.Name(id=name):
            if name not in parameters:
                raise ConfigError(f"{text!r}: no parameter {name!r}; {nearest(name, parameters)}")
            return parameters[name]
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(number, text)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            number = _number(operand, text, parameters)
            return -number if isinstance(sign, ast.USub) else number
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() as operator, right=right):
            one, other = _number(left, text, parameters), _number(right, text, parameters)
            return _bounded(_apply(operator, one, other, text), text)
        case _:
            raise ConfigError(f"{text!r}: only names, numbers, + - * // and brackets are allowed in an expression")


def _apply(operator: ast.operator, one: int | float, other: int | float, text: str) -> int | float:
    match operator:
        case ast.Add():
            return one + other
        case ast.Sub():
            return one - other
        case ast.Mult():
            return one * other
        case _:
            if other == 0:
                raise ConfigError(f"{text!r}: divides by zero")
            return one // other


def _number(node: ast.expr, text: str, parameters: Mapping[str, Value]) -> int | float:
    value = _value(node, text, parameters)
    if isinstance(value, bool | str):
        raise ConfigError(f"{text!r}: {value!r} is no number, so it cannot be calculated with")
    return value


def _bounded(number: int | float, text: str) -> int | float:
    if not abs(number) <= MAGNITUDE_MAX:  # NaN too
        raise ConfigError(f"{text!r}: the result is beyond {MAGNITUDE_MAX:.0e}")
    return number


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
