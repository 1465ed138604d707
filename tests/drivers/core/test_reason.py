"""No error number, tuple or C source line reaches a person: the texts of `reason_of`, and the code that uses it."""

import ast
import asyncio
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

import hwd
import hwd_agents
import hwd_drivers
from hwd_drivers.core.errors import LinkError
from hwd_drivers.core.reason import reason_of

OF_THE_SYSTEM = {
    "OSError", "ConnectionError", "ConnectionRefusedError", "TimeoutError", "PermissionError", "FileNotFoundError",
    "BlockingIOError",
    "gaierror", "ValidationError", "SSLError", "SSHException", "MqttError", "TransportError", "HTTPError",
}  # fmt: skip
SAYING = {"debug", "info", "warning", "error", "log", "str"}


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ConnectionRefusedError(111, "Connect call failed ('127.0.0.1', 1)"), "Connection refused"),
        (OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0), "
                 "[Errno 111] Connect call failed ('127.0.0.1', 1)"),
         "Multiple exceptions: Connection refused, Connection refused"),
        (OSError(98, "error while attempting to bind on address ('127.0.0.1', 80): address already in use"),
         "address already in use"),
        (FileNotFoundError(2, "No such file or directory", "/a"), "No such file or directory"),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (httpx.ConnectError("[Errno 111] Connection refused"), "Connection refused"),
        (ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: "
                                         "self-signed certificate (_ssl.c:992)"),
         "certificate verify failed: self-signed certificate"),
        (LinkError("ocs1: no way to [1]"), "ocs1: no way to [1]"),
        (msgspec.ValidationError("Expected `float`, got `str` - at `$.seconds`"), "seconds: expected float, got str"),
        (msgspec.ValidationError("Object missing required field `seconds`"), "seconds is missing"),
        (msgspec.ValidationError("Object contains unknown field `min` - at `$.a`"), "a: min is an unknown field"),
        (TimeoutError(), "no answer in time"),
        (EOFError(), "EOFError"),
    ],
)  # fmt: skip
def test_an_error_has_a_plain_reason(error: Exception, said: str) -> None:
    assert reason_of(error) == said


async def test_a_refused_connection_of_this_machine_has_a_plain_reason() -> None:
    with pytest.raises(OSError) as raised:  # noqa: PT011 - whatever the loop makes of it
        await asyncio.get_running_loop().create_connection(asyncio.Protocol, "127.0.0.1", _free_port())
    assert reason_of(raised.value) == "Connection refused"


def test_no_module_prints_a_raw_system_error() -> None:
    found = [
        f"{path}:{line}"
        for package in (hwd, hwd_drivers, hwd_agents)
        for path in sorted(Path(str(package.__file__)).parent.rglob("*.py"))
        if path.parent.name != "onhost"  # runs on hosts that have nothing of ours; it says strerror
        for line in _raw(ast.parse(path.read_text()))
    ]
    assert found == [], "say reason_of(error)"


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


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
