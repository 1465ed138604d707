"""Expressions of playbooks: `repeats * 2 + 1`, `last.turnaround.max_s < limit_s and last.ready == last.links`. They run
no code.

They have names of parameters and measurements, numbers, 'text', true, false, [lists], + - * / // %, comparisons, in,
and, or, not, `a if b else c`, brackets, and abs, len, max, min, round, sum. Their length, depth and result are limited.
"""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hwd.config.yaml.file_problem import nearest
from hwd_drivers.core.errors import ConfigError

Scalar = str | int | float | bool
Value = Scalar | tuple[Scalar, ...]

LENGTH_MAX = 400
"""Characters; as many as a reader can grasp."""
TEXT_LENGTH_MAX = 10_000
"""Characters of a text with expressions, and of its result; a list of 1000 ports has fewer."""
DEPTH_MAX = 40
"""Keeps the stack small."""
MAGNITUDE_MAX = 1e12
"""Larger results are a mistake, and products of them would fill the memory."""

GRAMMAR = (
    "names, numbers, 'text', true, false, [lists], + - * / // %, comparisons, in, and, or, not, if else and brackets"
)

_WORDS: Mapping[str, bool] = {"true": True, "false": False}
_ARITHMETIC: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_ORDER: Mapping[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_SAME = (ast.Eq, ast.NotEq)
_OVER: Mapping[str, Callable[[list[int | float]], int | float]] = {"max": max, "min": min, "sum": sum}
_FUNCTIONS = ("abs", "len", "round", *_OVER)


class UnknownError(ConfigError):
    """An expression uses a figure that was not measured."""


@dataclass(frozen=True, slots=True)
class Expression:
    """One expression, parsed; `names` are those that it uses, with their dots. Use `parse`."""

    text: str
    tree: ast.expr = field(compare=False, repr=False)
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text

    @classmethod
    def parse(cls, text: str) -> "Expression":
        """Raises ConfigError for anything but what the module allows."""
        text = " ".join(text.split())
        if len(text) > LENGTH_MAX:
            raise ConfigError(f"expression of {len(text)} characters is over the {LENGTH_MAX} that it may have")
        try:
            tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            raise ConfigError(f"{text!r} is no expression; use {GRAMMAR}") from None
        return cls(text, tree, _check(tree, text))

    def value(self, scope: Mapping[str, Value | None]) -> Value:
        """Its value. Raises ConfigError for unknown names and impossible calculations, UnknownError where a figure of
        `scope` is None.
        """
        return _Evaluation(self.text, scope).value(self.tree)

    def try_out(self, scope: Mapping[str, Value]) -> Value:
        """Evaluate the expression as `value` does, with typical figures: every part is evaluated, and a division by
        zero is no error. Raises ConfigError where types do not fit.
        """
        return _Evaluation(self.text, scope, trying=True).value(self.tree)


def substitute(text: str, scope: Mapping[str, Value]) -> Value:
    """The text with each `{{ ... }}` replaced; a text that is a single one takes the type of its value.
    Raises ConfigError.
    """
    _check_length(text)
    bare = text.strip()
    if len(bare) >= 4 and bare.startswith("{{") and bare.endswith("}}") and "{{" not in (inside := bare[2:-2]):
        return Expression.parse(inside).value(scope)
    return fill_text(text, lambda expression: expression.value(scope))


def fill_text(text: str, value: Callable[[Expression], Value]) -> str:
    """The text with each `{{ ... }}` replaced by `value` of it. Raises ConfigError where a `{{` is not closed, and
    where the text is too long.
    """
    _check_length(text)
    around, holes = _cut(text)
    rest = "".join(around)
    if "{{" in rest or "}}" in rest:
        raise ConfigError(f"{text!r}: a {{{{ without its }}}}")
    pieces = [around[0]]
    put_in = 0
    for hole, after in zip(holes, around[1:], strict=True):
        piece = as_text(value(Expression.parse(hole)))
        put_in += len(piece)
        if put_in > TEXT_LENGTH_MAX:
            raise ConfigError(f"{{{{{hole}}}}}: puts over {TEXT_LENGTH_MAX} characters into one text; write less")
        pieces += (piece, after)
    return "".join(pieces)


def names_in(text: str) -> frozenset[str]:
    """Names that the `{{ ... }}` of a text use; those of invalid expressions, and of a text that is too
    long, are left out.
    """
    names: set[str] = set()
    for hole in _cut(text)[1] if len(text) <= TEXT_LENGTH_MAX else ():
        try:
            names |= {*Expression.parse(hole).names}
        except ConfigError:
            continue  # reported when it is replaced
    return frozenset(names)


def as_text(value: Value | None) -> str:
    """Write a value as a playbook does: `true`, `1,4,16`; an unknown figure is `unknown`."""
    match value:
        case None:
            return "unknown"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:.9g}"
        case tuple():
            return ",".join(map(as_text, value))
        case _:
            return str(value)


def _check_length(text: str) -> None:
    if len(text) > TEXT_LENGTH_MAX:
        raise ConfigError(
            f"text of {len(text)} characters is over the {TEXT_LENGTH_MAX} that one with {{{{ }}}} may have"
        )


def _cut(text: str) -> tuple[list[str], list[str]]:
    """The texts before, between and after its `{{ ... }}`, and their contents: one more of the former. Each character
    is visited once.
    """
    around: list[str] = []
    holes: list[str] = []
    at = 0
    while (start := text.find("{{", at)) >= 0 and (end := text.find("}}", start + 2)) >= 0:
        around.append(text[at:start])
        holes.append(text[start + 2 : end])
        at = end + 2
    return [*around, text[at:]], holes


def _check(tree: ast.expr, text: str) -> tuple[str, ...]:
    """The names of a syntax tree; raises ConfigError where it is too deep or has anything that is not allowed."""
    names: list[str] = []
    level: list[ast.expr] = [tree]
    depth = 0
    while level:
        if (depth := depth + 1) > DEPTH_MAX:
            raise ConfigError(f"{text!r}: nested over {DEPTH_MAX} levels")
        below: list[ast.expr] = []
        for node in level:
            match node:
                case ast.Name() | ast.Attribute():
                    if (name := _dotted(node)) is None:
                        raise ConfigError(f"{text!r}: only {GRAMMAR} are allowed in an expression")
                    names += [] if name in _WORDS else [name]
                case ast.Constant(value=bool() | int() | float() | str()):
                    pass
                case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not(), operand=operand):
                    below.append(operand)
                case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                    below += [left, right]
                case ast.BoolOp(values=values) | ast.List(elts=values):
                    below += values
                case ast.Compare(left=left, ops=ops, comparators=others) if all(
                    isinstance(op, (*_ORDER, *_SAME, ast.In, ast.NotIn)) for op in ops
                ):
                    below += [left, *others]
                case ast.IfExp(test=test, body=body, orelse=orelse):
                    below += [test, body, orelse]
                case ast.Call(func=ast.Name(id=function), args=[_, *_] as args, keywords=[]) if function in _FUNCTIONS:
                    below += args
                case ast.Call(func=ast.Name(id=function)):
                    raise ConfigError(
                        f"{text!r}: {function}() is not a function of expressions; there are {', '.join(_FUNCTIONS)}"
                        if function not in _FUNCTIONS
                        else f"{text!r}: {function} takes values only"
                    )
                case _:
                    raise ConfigError(f"{text!r}: only {GRAMMAR} are allowed in an expression")
        level = below
    return tuple(dict.fromkeys(names))


def _dotted(node: ast.expr) -> str | None:
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            owner = _dotted(value)
            return None if owner is None else f"{owner}.{name}"
        case _:
            return None


@dataclass(frozen=True, slots=True)
class _Evaluation:
    text: str
    scope: Mapping[str, Value | None]
    trying: bool = False

    def value(self, node: ast.expr) -> Value:
        match node:
            case ast.Name() | ast.Attribute():
                return self._named(_dotted(node) or "")
            case ast.Constant(value=str() | bool() | int() | float() as constant):
                return constant if isinstance(constant, str | bool) else self._bounded(constant)
            case ast.List(elts=parts):
                return tuple(self._scalar(part) for part in parts)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self._truth(operand)
            case ast.UnaryOp(op=sign, operand=operand):
                number = self._number(operand)
                return -number if isinstance(sign, ast.USub) else number
            case ast.BinOp(left=left, op=op, right=right):
                return self._calculate(op, self._number(left), self._number(right))
            case ast.BoolOp(op=op, values=values):
                return self._joined(isinstance(op, ast.And), values)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._either(test, body, orelse)
            case ast.Compare(left=left, ops=ops, comparators=others):
                return self._compare(left, ops, others)
            case ast.Call(func=ast.Name(id=function), args=args):
                return self._call(function, [self.value(arg) for arg in args])
            case _:
                raise ConfigError(f"{self.text!r}: only {GRAMMAR} are allowed in an expression")

    def _named(self, name: str) -> Value:
        if name in _WORDS:
            return _WORDS[name]
        if name not in self.scope:
            what = "nothing of that name" if "." in name else "no parameter"
            raise ConfigError(f"{self.text!r}: {what} {name!r}; {nearest(name, self.scope)}")
        value = self.scope[name]
        if value is None:
            raise UnknownError(f"{self.text!r}: {name} is unknown: nothing that was measured says it")
        return value

    def _calculate(self, op: ast.operator, one: float, other: float) -> int | float:
        if other == 0 and isinstance(op, ast.Div | ast.FloorDiv | ast.Mod):
            if self.trying:
                return 1
            raise ConfigError(f"{self.text!r}: divides by zero")
        return self._bounded(_ARITHMETIC[type(op)](one, other))

    def _joined(self, both: bool, values: Sequence[ast.expr]) -> bool:
        found = both
        for value in values:
            truth = self._truth(value)
            found = found and truth if both else found or truth
            if found is not both and not self.trying:
                break
        return found

    def _either(self, test: ast.expr, body: ast.expr, orelse: ast.expr) -> Value:
        truth = self._truth(test)
        if self.trying:
            self.value(orelse if truth else body)
        return self.value(body if truth else orelse)

    def _compare(self, left: ast.expr, ops: Sequence[ast.cmpop], others: Sequence[ast.expr]) -> bool:
        held, one = True, self.value(left)
        for op, node in zip(ops, others, strict=True):
            other = self.value(node)
            held = self._holds(one, op, other) and held
            if not held and not self.trying:
                break
            one = other
        return held

    def _holds(self, one: Value, op: ast.cmpop, other: Value) -> bool:
        match op:
            case ast.Eq() | ast.NotEq():
                if _kind(one) != _kind(other):
                    raise ConfigError(
                        f"{self.text!r}: {_shown(one)} and {_shown(other)} are of different types, "
                        "so that they are never equal"
                    )
                return (one == other) is isinstance(op, ast.Eq)
            case ast.In() | ast.NotIn():
                if not isinstance(other, tuple) or isinstance(one, tuple):
                    raise ConfigError(f"{self.text!r}: `in` asks whether a value is in a list")
                return (one in other) is isinstance(op, ast.In)
            case _:
                return _ORDER[type(op)](self._as_number(one), self._as_number(other))

    def _call(self, function: str, args: list[Value]) -> Value:
        if function == "len":
            if len(args) != 1 or not isinstance(args[0], tuple | str):
                raise ConfigError(f"{self.text!r}: len takes one list or one text")
            return len(args[0])
        if function == "abs":
            if len(args) != 1:
                raise ConfigError(f"{self.text!r}: abs takes one number")
            return abs(self._as_number(args[0]))
        if function == "round":
            digits = args[1] if len(args) == 2 else 0
            if isinstance(digits, bool) or not isinstance(digits, int) or not 0 <= digits <= 12 or len(args) > 2:
                raise ConfigError(f"{self.text!r}: round takes a number, and how many digits (0 to 12) after the point")
            number = self._as_number(args[0])
            return round(number, digits) if len(args) == 2 else round(number)
        values = args[0] if len(args) == 1 and isinstance(args[0], tuple) else tuple(args)
        if not values:
            raise ConfigError(f"{self.text!r}: {function} of an empty list")
        numbers = [self._as_number(value) for value in values]
        return self._bounded(_OVER[function](numbers))

    def _number(self, node: ast.expr) -> int | float:
        return self._as_number(self.value(node))

    def _as_number(self, value: Value) -> int | float:
        if isinstance(value, bool | str | tuple):
            raise ConfigError(f"{self.text!r}: {_shown(value)} is no number, so it cannot be calculated with")
        return value

    def _scalar(self, node: ast.expr) -> Scalar:
        value = self.value(node)
        if isinstance(value, tuple):
            raise ConfigError(f"{self.text!r}: a list in a list")
        return value

    def _truth(self, node: ast.expr) -> bool:
        value = self.value(node)
        if not isinstance(value, bool):
            raise ConfigError(f"{self.text!r}: {_shown(value)} is neither true nor false")
        return value

    def _bounded(self, number: float) -> int | float:
        if not abs(number) <= MAGNITUDE_MAX:  # NaN too
            raise ConfigError(f"{self.text!r}: the result is beyond {MAGNITUDE_MAX:.0e}")
        return number


def _kind(value: Value) -> str:
    match value:
        case bool():
            return "truth"
        case int() | float():
            return "number"
        case str():
            return "text"
        case _:
            return "list"


def _shown(value: Value) -> str:
    return repr(value) if isinstance(value, str) else as_text(value)
