"""Expressions of a source file that can be changed, and the file with one of them changed.

Only what runs when a function is called: no defaults, decorators, annotations, docstrings, assertions, texts of logs or
of errors.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}
LOGS = ("log", "_log", "logger")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of one expression, in words that outlive a move of the code."""

    function: str
    """Its qualified name in the file."""
    statement: str
    """The line of the statement that has the expression, as `ast.unparse` writes it."""
    before: str
    after: str
    nth: int
    """Which one, where the function has this expression in this statement more than once."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a change is in a file of now."""

    change: Change
    line: int
    node: ast.expr


def places(source: str) -> list[Place]:
    """All changes that a file allows, in its order."""
    found: list[Place] = []
    seen: dict[tuple[str, str, str, str], int] = {}
    expressions = _Expressions()
    expressions.visit(ast.parse(source))
    for function, statement, node in expressions.found:
        said = ast.unparse(statement).splitlines()[0]
        for after in _changed(node):
            key = (function, said, ast.unparse(node), ast.unparse(after))
            nth = seen[key] = seen.get(key, -1) + 1
            change = Change(function=function, statement=said, before=key[2], after=key[3], nth=nth)
            found.append(Place(change, node.lineno, node))
    return found


def place_of(source: str, change: Change) -> Place | None:
    """Where a change is in a file of now; None where it has no such expression.

    Where the statement reads otherwise now, the expression is taken that is the only one of its kind in the function.
    """
    there = [one for one in places(source) if one.change.function == change.function]
    same = [one for one in there if one.change == change] or [
        one for one in there if (one.change.before, one.change.after) == (change.before, change.after)
    ]
    return same[0] if len(same) == 1 else None


def planted(source: str, change: Change) -> str | None:
    """The file with the change; None where it has no such expression. Lines keep their numbers."""
    place = place_of(source, change)
    if place is None:
        return None
    node = place.node
    lines = source.encode().splitlines(keepends=True)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    head, tail = lines[node.lineno - 1][: node.col_offset], lines[node.end_lineno - 1][node.end_col_offset :]
    broken = b"\n" * (node.end_lineno - node.lineno)
    new = b"(" + change.after.encode() + broken + b")"
    return b"".join([*lines[: node.lineno - 1], head + new + tail, *lines[node.end_lineno :]]).decode()


class _Expressions(ast.NodeVisitor):
    """Collects every expression in the body of a function, with the function's name and the innermost statement."""

    def __init__(self) -> None:
        self.found: list[tuple[str, ast.stmt, ast.expr]] = []
        self._names: tuple[str, ...] = ()
        self._runs = False
        self._statement: ast.stmt | None = None

    def visit(self, node: ast.AST) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._inside(node.name, node.body, runs=True)
            case ast.ClassDef():
                self._inside(node.name, node.body, runs=False)
            case ast.Assert() | ast.Raise() | ast.JoinedStr():
                pass
            case ast.AnnAssign():
                self._of(node, [node.value] if node.value is not None else [])
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name))) if name in LOGS:
                pass
            case ast.stmt():
                self._of(node, list(ast.iter_child_nodes(node)))
            case ast.expr() if self._runs and self._statement is not None:
                self.found.append((".".join(self._names), self._statement, node))
                self.generic_visit(node)
            case _:
                self.generic_visit(node)

    def _inside(self, name: str, body: list[ast.stmt], *, runs: bool) -> None:
        before = self._names, self._runs, self._statement
        self._names, self._runs = (*self._names, name), runs
        for statement in body:
            self.visit(statement)
        self._names, self._runs, self._statement = before

    def _of(self, statement: ast.stmt, children: list[ast.AST]) -> None:
        before, self._statement = self._statement, statement
        for child in children:
            self.visit(child)
        self._statement = before


def _changed(node: ast.expr) -> Iterator[ast.expr]:
    """What the expression can become."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=comparators) if type(op) in COMPARED:
            yield ast.Compare(left=left, ops=[COMPARED[type(op)]()], comparators=comparators)
        case ast.Compare(left=left, ops=[first, *rest], comparators=comparators) if type(first) in COMPARED:
            yield ast.Compare(left=left, ops=[COMPARED[type(first)](), *rest], comparators=comparators)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(op=ast.Or() if isinstance(op, ast.And) else ast.And(), values=values)
            yield values[0] if len(values) == 2 else ast.BoolOp(op=op, values=values[:-1])
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=op, right=right) if type(op) in COMPUTED and not (_text(left) or _text(right)):
            yield ast.BinOp(left=left, op=COMPUTED[type(op)](), right=right)
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() as value):
            yield ast.Constant(value + 1)
        case ast.Constant(value=float() as value):
            yield ast.Constant(value * 2 if value else 1.0)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in CALLED:
            yield ast.Call(func=ast.Name(CALLED[name]), args=args, keywords=keywords)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield ast.IfExp(test=test, body=orelse, orelse=body)


def _text(node: ast.expr) -> bool:
    """Whether it is a text or a list: to subtract one fails at once, and shows nothing."""
    return isinstance(node, ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    )
