"""Libraries are used by public names: no module touches a private name of another package or of Python's library."""

import ast
import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Protocol

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {"hwd_drivers": ROOT / "drivers", "hwd_agents": ROOT / "agents", "hwd": ROOT}


class Bare(Protocol):
    """Has what Python itself gives to each abstract class and protocol."""


def is_private(name: str) -> bool:
    """`_repr_html_` and the like are protocols, and public."""
    return name.startswith("_") and not name.endswith("_")


def test_no_module_touches_a_private_name_of_others() -> None:
    touched = [
        f"{path.relative_to(ROOT)}: {name}" for path in sources() for name in private_names(ast.parse(path.read_text()))
    ]
    assert touched == []


def test_private_names_are_found() -> None:
    source = """
        import os._a, b
        from c._d import e
        from f import _g
        sys.modules["h._i"] = None
        j._k = getattr(l, "_m")
        class N:
            def __init__(self):
                self._o = 1
            def p(self, other):
                other._o = super()._q()
                self._r._s()
    """
    names = ["os._a", "c._d.e", "f._g", "h._i", "_k", "_m", "_q", "_s"]
    assert sorted(private_names(ast.parse(textwrap.dedent(source)))) == sorted(names)


@pytest.mark.parametrize("package", PACKAGES)
def test_subclass_shares_no_private_name_with_a_class_of_others(package: str) -> None:
    """It would use what is not public, or hide it by chance."""
    shared = [
        f"{ours.__module__}.{ours.__qualname__} and {theirs.__qualname__}: {', '.join(sorted(names))}"
        for ours in classes(package)
        for theirs in ours.__mro__[1:]
        if is_foreign(theirs) and (names := own_names(ours) & own_names(theirs) - mangled(theirs))
    ]
    assert shared == []


def mangled(theirs: type) -> frozenset[str]:
    """Names `__name` of a class, which Python mangles: only its own code can have put them into a subclass, as pyroute2
    does with its compiled tables of attributes.
    """
    return frozenset(name for name in vars(theirs) if name.startswith(f"_{theirs.__name__.lstrip('_')}__"))


def private_names(tree: ast.Module) -> Iterator[str]:
    """Of others: not defined in this module, nor, after `super()`, a method of ours."""
    nodes = [*ast.walk(tree)]
    here = defined(nodes)
    for node in nodes:
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names if is_private_path(one.name))
            case ast.ImportFrom(module=module, names=names):
                paths = (f"{module or ''}.{one.name}" for one in names)
                yield from (path for path in paths if is_private_path(path))
            case ast.Attribute(value=ast.Name(id="self" | "cls")):
                pass
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name):
                if is_private(name) and name not in all_methods():
                    yield name
            case ast.Attribute(attr=name) if is_private(name) and name not in here:
                yield name
            case ast.Call(func=ast.Name(id="getattr" | "setattr" | "hasattr" | "delattr"), args=[_, name_node, *_]):
                if isinstance(name_node, ast.Constant) and is_private(str(name_node.value)):
                    yield str(name_node.value)
            case ast.Constant(value=str(text)) if all(map(str.isidentifier, text.split("."))):
                if is_private_path(text.partition(".")[2]):
                    yield text


def is_private_path(path: str) -> bool:
    return path != "__future__.annotations" and any(is_private(part) for part in path.split("."))


def defined(nodes: list[ast.AST]) -> set[str]:
    """Private names that the classes and functions of a module define, or set on `self` and `cls`."""
    names = set[str]()
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                names.add(name)
            case ast.Assign(targets=targets):
                names |= {
                    one.attr
                    for target in targets
                    for one in ast.walk(target)
                    if isinstance(one, ast.Attribute) and is_own(one.value)
                }
    return {name for name in names if is_private(name)}


def is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


@cache
def all_methods() -> frozenset[str]:
    return frozenset(name for path in sources() for name in re.findall(r"\bdef (_\w+)", path.read_text()))


def sources() -> list[Path]:
    return sorted(path for package, folder in PACKAGES.items() for path in (folder / package).rglob("*.py"))


def classes(package: str) -> Iterator[type]:
    for module in modules(package):
        for one in vars(module).values():
            if inspect.isclass(one) and one.__module__ == module.__name__:
                yield one


def modules(package: str) -> Iterator[ModuleType]:
    root = importlib.import_module(package)
    yield root
    for found in pkgutil.walk_packages(root.__path__, f"{package}."):
        if found.name == "hwd_agents.pytorch.process_group" and importlib.util.find_spec("torch") is None:
            continue  # `make test-torch` looks at it
        if not found.name.endswith("__main__"):
            yield importlib.import_module(found.name)


def is_foreign(one: type) -> bool:
    return one is not object and one.__module__.partition(".")[0] not in (*PACKAGES, "typing", "abc")


@cache
def own_names(one: type) -> frozenset[str]:
    """Private names that a class defines, or uses of itself."""
    used = (names for name, names in used_names(one.__module__) if name == one.__qualname__)
    names = {*vars(one), *(name for names in used for name in names)}
    return frozenset(name for name in names if is_private(name) and name not in vars(Bare))


@cache
def used_names(module: str) -> list[tuple[str, frozenset[str]]]:
    """The classes of a module, each with what its methods use of `self` and `cls`; none of a module in C."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError, KeyError):
        return []
    return [*_used(tree, "")]


def _used(tree: ast.AST, outer: str) -> Iterator[tuple[str, frozenset[str]]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            own = (one for one in ast.walk(node) if isinstance(one, ast.Attribute))
            yield f"{outer}{node.name}", frozenset(one.attr for one in own if is_own(one.value))
            yield from _used(node, f"{outer}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _used(node, f"{outer}{node.name}.<locals>.")
        else:
            yield from _used(node, outer)
