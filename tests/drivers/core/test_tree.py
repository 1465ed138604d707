"""What every module of the tree keeps to: its reasons, its starts of Python, its questions for user and home."""

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
SOURCES = ("hwd", "agents/hwd_agents", "drivers/hwd_drivers")
SAFE = ("-P", "-I")
OF_THE_SYSTEM = {
    "OSError", "ConnectionError", "ConnectionRefusedError", "TimeoutError", "PermissionError", "FileNotFoundError",
    "BlockingIOError",
    "gaierror", "ValidationError", "SSLError", "SSHException", "MqttError", "TransportError", "HTTPError",
}  # fmt: skip
SAYING = {"debug", "info", "warning", "error", "log", "str"}
ASKS = re.compile(r"getpass\.getuser|getlogin|Path\.home|expanduser|environ\[\"(HOME|USER|LOGNAME)\"\]")
MAY_ASK = {"drivers/hwd_drivers/core/user.py", "hwd/rollout/onhost/lock.py", "hwd/rollout/onhost/facts.py"}


def test_modules_say_reasons_start_python_apart_from_the_working_folder_and_leave_the_user_to_one() -> None:
    raw, asking, starts, unsafe = [], set(), 0, []
    for path in (path for top in SOURCES for path in sorted((ROOT / top).rglob("*.py"))):
        text, name = path.read_text(), str(path.relative_to(ROOT))
        tree = ast.parse(text)
        if ASKS.search(text):
            asking.add(name)
        if path.parent.name != "onhost":  # runs on hosts that have nothing of ours; it says strerror
            raw += [f"{name}:{line}" for line in _raw(tree)]
        for line, following in _starts(tree) if "python" in text or "sys.executable" in text else ():
            if following is None:
                continue  # no command, such as Path(sys.executable)
            starts += 1
            if not (isinstance(following, ast.Constant) and following.value in SAFE):
                unsafe.append(f"{name}:{line}")
    assert raw == [], "say reason_of(error)"
    assert asking <= MAY_ASK, "hwd_drivers.core.user knows what to do where there is none"
    assert not unsafe, "own_python() has -P; on hosts -I is right"
    assert starts >= 5


def _starts(tree: ast.AST) -> Iterator[tuple[int, ast.expr | None]]:
    """Each place where our interpreter is a word of a command, and the word after it."""
    for node in ast.walk(tree):
        words = node.elts if isinstance(node, ast.List | ast.Tuple) else node.args if isinstance(node, ast.Call) else []
        for word, following in itertools.zip_longest(words, words[1:]):
            match word:
                case ast.Name("python") | ast.Attribute(ast.Name("sys"), "executable"):
                    yield word.lineno, following


def _raw(tree: ast.AST) -> Iterator[int]:
    """Lines where a handler of such errors puts the error itself into a text or a log."""
    for handler in ast.walk(tree):
        if not (isinstance(handler, ast.ExceptHandler) and handler.name and handler.type):
            continue
        caught = {
            node.id if isinstance(node, ast.Name) else getattr(node, "attr", "") for node in ast.walk(handler.type)
        }
        if not caught & OF_THE_SYSTEM:
            continue
        for node in (node for statement in handler.body for node in ast.walk(statement)):
            if isinstance(node, ast.FormattedValue) and node.conversion == -1 and _names(node.value, handler.name):
                yield node.lineno
            elif isinstance(node, ast.Call) and any(_names(argument, handler.name) for argument in node.args):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                if called in SAYING:
                    yield node.lineno


def _names(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
