"""YAML as a tree with line numbers. Reading never raises: errors are returned as problems.

Scalars follow the YAML 1.2 core schema, so that `on`, `no`, `1:30` and `2027-01-10` stay text. Aliases are allowed
within the limits.
"""

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hwd.config.yaml.file_problem import Problem, Where, render_path
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.user_file import read_user_file

FILE_BYTES_MAX = 4_000_000
"""A rack of 10,000 fibres fits four times; more is a wrong file."""
NODES_MAX = 200_000
"""After aliases are expanded, so that a chain of them cannot fill the memory."""
DEPTH_MAX = 32
"""Our deepest key is at level 7."""
NUMBER_LENGTH_MAX = 64
"""Longer digits are text: no quantity here needs them, and converting them is slow."""

Scalar = None | bool | int | float | str

_NULL = re.compile(r"~|null|Null|NULL|")
_TRUE = re.compile(r"true|True|TRUE")
_FALSE = re.compile(r"false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_OCTAL = re.compile(r"0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")

_FIRST = frozenset(["", *"~nNtTfF+-.0123456789"])
"""First characters of scalars that may be no text."""

_TAG = "tag:yaml.org,2002:"
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml is ten times faster where the wheel has it


@dataclass(slots=True, kw_only=True)
class Node:
    """A value with the line where it starts. `key_lines` are those of a mapping's keys; `size` counts
    the values in it.
    """

    value: "Scalar | dict[str, Node] | list[Node]"
    line: int
    text: str = ""
    key_lines: dict[str, int] = field(default_factory=dict)
    size: int = 1
    open: bool = False

    def plain(self) -> Any:
        """The value without lines; keys are text."""
        match self.value:
            case dict():
                return {key: node.plain() for key, node in self.value.items()}
            case list():
                return [node.plain() for node in self.value]
            case _:
                return self.value

    def line_of(self, where: Where) -> int:
        """Line of a path, or of its nearest existing parent."""
        node, line = self, self.line
        for part in where:
            match node.value:
                case dict() if str(part) in node.value:
                    line, node = node.key_lines[str(part)], node.value[str(part)]
                case list() if isinstance(part, int) and 0 <= part < len(node.value):
                    node = node.value[part]
                    line = node.line
                case _:
                    return line
        return line

    def child(self, *where: str | int) -> "Node | None":
        node: Node | None = self
        for part in where:
            match node.value if node else None:
                case dict() as mapping:
                    node = mapping.get(str(part))
                case list() as items if isinstance(part, int) and part < len(items):
                    node = items[part]
                case _:
                    return None
        return node

    def mapping(self) -> "dict[str, Node]":
        """Its entries; none where it is not a mapping."""
        return self.value if isinstance(self.value, dict) else {}

    def walk(self, where: Where = ()) -> "Iterator[tuple[Where, Node]]":
        """Itself and all values below, with their paths."""
        yield where, self
        match self.value:
            case dict():
                for key, node in self.value.items():
                    yield from node.walk((*where, key))
            case list():
                for index, node in enumerate(self.value):
                    yield from node.walk((*where, index))


@dataclass(slots=True)
class Reading:
    """A file during its reading: its tree (None: it cannot be used at all) and the problems so far."""

    file: str
    root: Node | None = None
    problems: list[Problem] = field(default_factory=list)
    text: str = ""

    def add(self, where: Where, text: str, *, warning: bool = False) -> None:
        line = self.root.line_of(where) if self.root else 1
        self.problems.append(Problem(file=self.file, line=line, path=render_path(where), text=text, warning=warning))

    def add_at(self, line: int, text: str) -> None:
        self.problems.append(Problem(file=self.file, line=line, path="", text=text))

    @property
    def sound(self) -> bool:
        return self.root is not None and all(problem.warning for problem in self.problems)

    def in_order(self) -> tuple[Problem, ...]:
        """Problems in the order of the file, each once."""
        return tuple(sorted(dict.fromkeys(self.problems), key=lambda problem: (problem.line, problem.path)))


@contextmanager
def uncollected() -> Iterator[None]:
    """Stop the garbage collector for work in a thread that makes a million values, none of them garbage: to look
    through them again and again holds all threads, for half a second each time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def read_tree(source: str | Path | Reading) -> Reading:
    """Read a YAML file whose top is a mapping, by its path, which may be a pipe; a reading is returned as it is."""
    if isinstance(source, Reading):
        return source
    file = str(source)
    try:
        data = read_user_file(source, most_bytes=FILE_BYTES_MAX, pipes=True).data
    except ConfigError as error:
        reading = Reading(file)
        reading.add_at(1, str(error).removeprefix(f"{file}: "))
        return reading
    return parse_tree(data, file=file)


def parse_tree(data: bytes | str, *, file: str) -> Reading:
    """Parse the content of a YAML file whose top is a mapping; `file` is its name in problems."""
    reading = Reading(file)
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    try:
        if len(data) > FILE_BYTES_MAX:
            raise _Limit(1, f"is over the {FILE_BYTES_MAX} bytes allowed for such a file")
        reading.text = data.decode("utf-8-sig")
        root = _Builder(reading).build(reading.text)
        if root is None:
            raise _Limit(1, "the file is empty")
        if not isinstance(root.value, dict):
            raise _Limit(root.line, "the file must be a mapping at its top, such as `testbed: NAME`")
        reading.root = root
    except UnicodeDecodeError as error:
        reading.add_at(data.count(b"\n", 0, error.start) + 1, f"not UTF-8: {error.reason}")
    except yaml.reader.ReaderError as error:
        line = reading.text.count("\n", 0, error.position) + 1
        reading.add_at(line, f"a character that YAML does not allow: {error.reason}")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        reading.add_at(line, f"not YAML: {_explain(error, reading.text, line)}")
    except _Limit as limit:
        reading.add_at(limit.line, limit.text)
    return reading


def _explain(error: yaml.MarkedYAMLError, text: str, line: int) -> str:
    what = error.problem or error.context or "cannot be parsed"
    lines = text.splitlines()
    if line <= len(lines) and "\t" in lines[line - 1]:
        what += "; indent with spaces, not with tabs"
    elif error.context and error.context != what:
        what += f" ({error.context})"
    return what


class _Limit(Exception):
    def __init__(self, line: int, text: str) -> None:
        super().__init__(line, text)
        self.line = line
        self.text = text


class _Builder:
    """Builds the tree from parser events without recursion, so that no nesting can exhaust the stack."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._stack: list[Node] = []
        # the key that waits for its value, one for each mapping of the stack
        self._keys: list[tuple[str, int] | None] = []
        self._anchors: dict[str, Node] = {}
        self._root: Node | None = None
        self._documents = 0

    def build(self, text: str) -> Node | None:
        for event in yaml.parse(text, Loader=_LOADER):
            line = event.start_mark.line + 1 if event.start_mark else 1
            match event:
                case yaml.DocumentStartEvent():
                    self._documents += 1
                    if self._documents > 1:
                        raise _Limit(line, "a second document (`---`): one file holds one")
                case yaml.AliasEvent():
                    self._alias(event.anchor or "", line)
                case yaml.ScalarEvent():
                    self._add(self._scalar(event, line), event.anchor)
                case yaml.MappingStartEvent():
                    self._open(Node(value={}, line=line, open=True), event)
                case yaml.SequenceStartEvent():
                    self._open(Node(value=[], line=line, open=True), event)
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    self._close()
        return self._root

    def _open(self, node: Node, event: Any) -> None:
        if len(self._stack) >= DEPTH_MAX:
            raise _Limit(node.line, f"nested over {DEPTH_MAX} levels")
        kind = "map" if isinstance(node.value, dict) else "seq"
        if event.tag not in (None, "!", _TAG + kind):
            self._reading.add_at(node.line, f"tag {event.tag} is not accepted here: plain YAML only")
        if event.anchor:
            self._anchors[event.anchor] = node
        self._stack.append(node)
        self._keys.append(None)

    def _close(self) -> None:
        node = self._stack.pop()
        self._keys.pop()
        node.open = False
        self._add(node, None)

    def _alias(self, anchor: str, line: int) -> None:
        node = self._anchors.get(anchor)
        if node is None:
            raise _Limit(line, f"*{anchor} names no &{anchor} above it")
        if node.open:
            raise _Limit(line, f"*{anchor} is inside of &{anchor}")
        self._add(node, None)

    def _add(self, node: Node, anchor: str | None) -> None:
        if anchor:
            self._anchors[anchor] = node
        if not self._stack:
            self._root = node
            return
        parent = self._stack[-1]
        match parent.value:
            case list():
                parent.value.append(node)
            case dict() if self._keys[-1] is None:
                self._keys[-1] = self._key(node)
                return
            case dict():
                key, line = self._keys[-1] or ("", node.line)
                self._keys[-1] = None
                if key in parent.value:
                    first = parent.key_lines[key]
                    self._reading.add_at(line, f"key {key!r} is repeated; first in line {first}")
                else:
                    parent.value[key] = node
                    parent.key_lines[key] = line
        parent.size += node.size
        if parent.size > NODES_MAX:
            raise _Limit(node.line, f"over {NODES_MAX} values after aliases are expanded")

    def _key(self, node: Node) -> tuple[str, int]:
        if isinstance(node.value, dict | list):
            raise _Limit(node.line, "a key must be text, not a mapping or a list")
        return node.text, node.line

    def _scalar(self, event: Any, line: int) -> Node:
        text: str = event.value
        if not text.isascii() and not text.isprintable() and any("\ud800" <= char <= "\udfff" for char in text):
            raise _Limit(line, "a character that is half of a surrogate pair")
        quoted = event.style in ("'", '"', "|", ">")
        match event.tag:
            case None | "!" if quoted or event.tag == "!":
                return Node(value=text, line=line, text=text)
            case None:
                return Node(value=_resolve(text), line=line, text=text)
            case tag if tag == _TAG + "str":
                return Node(value=text, line=line, text=text)
            case tag if tag in (_TAG + "int", _TAG + "float", _TAG + "bool", _TAG + "null"):
                return Node(value=_resolve(text), line=line, text=text)
            case tag:
                self._reading.add_at(line, f"tag {tag} is not accepted here: plain YAML only")
                return Node(value=text, line=line, text=text)


def _resolve(text: str) -> Scalar:
    """A plain scalar by the YAML 1.2 core schema. Infinities and NaN stay text: no quantity here may have them."""
    if text[:1] not in _FIRST:
        return text
    if _NULL.fullmatch(text):
        return None
    if _TRUE.fullmatch(text):
        return True
    if _FALSE.fullmatch(text):
        return False
    if len(text) > NUMBER_LENGTH_MAX or _INFINITE.fullmatch(text) or not text.isascii():
        return text
    if _INT.fullmatch(text):
        return int(text)
    if _HEX.fullmatch(text):
        return int(text, 16)
    if _OCTAL.fullmatch(text):
        return int(text[2:], 8)
    if _FLOAT.fullmatch(text):
        number = float(text)
        return text if number in (float("inf"), float("-inf")) else number
    return text
