"""No error number, tuple or C source line reaches a person: the texts of `reason_of`; test_tree.py: its use."""

import asyncio
import socket
import ssl

import httpx2
import msgspec
import pytest

from hwd_drivers.core.errors import LinkError
from hwd_drivers.core.reason import reason_of


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
        (httpx2.ConnectError("[Errno 111] Connection refused"), "Connection refused"),
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


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
