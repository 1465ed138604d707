"""The rack's control socket: faults of its twins, while it runs. JSON lines, one answer a request.

{"switch": "ocs1", "fault": "slow", "seconds": 0.5}                    a fault, as in `hwd.model.fault`
{"fault": "clear"}                                                     clear all faults
{"fault": "list"}                                                      list the faults

The answer is {"done": true}, to the list with "set": [faults], or {"done": false, "why": "...", "refused": whether it
is no twin}.
"""

import asyncio
import json
import socket
from pathlib import Path
from typing import Any, Final

from typing_extensions import override

from hwd.model.fault import Fault, decode_fault, parse_fault
from hwd.twin.faults.scenario_player import SetsFaults
from hwd_drivers.core.errors import ConfigError, HwdError, LinkError, RefusedError
from hwd_drivers.core.structs import to_plain

CONTROL: Final = "control"
"""Name of the control socket in the run directory; no host's, whose sockets end in .sock."""
LINE_LIMIT_BYTES: Final = 64 * 1024
ANSWER_LIMIT_BYTES: Final = 16 * 1024 * 1024
"""Every port of a large rack with every fault."""
ANSWER_TIMEOUT_S: Final = 5.0  # an answer takes under a millisecond
LIST: Final = {"fault": "list"}


class ControlSession(asyncio.Protocol):
    """One client of the control socket."""

    def __init__(self, faults: SetsFaults) -> None:
        self._faults = faults
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in filter(None, lines):
            self._answer(line)
        if len(self._buffer) > LINE_LIMIT_BYTES and self._transport is not None:
            self._transport.abort()

    def _answer(self, line: bytes) -> None:
        answer: dict[str, object] = {"done": True}
        try:
            if line == _encode(LIST):
                answer["set"] = to_plain(self._faults.present())
            else:
                self._faults.set(decode_fault(line))
        except HwdError as error:
            answer = {"done": False, "why": str(error), "refused": isinstance(error, RefusedError)}
        if self._transport is not None:
            self._transport.write(_encode(answer) + b"\n")


def ask(path: Path, fault: Fault) -> None:
    """Inject a fault into the rack with this control socket, and wait for it.

    Raises ConfigError for an unknown subject, RefusedError where it is no twin, LinkError where the rack does not
    answer. It blocks, usually for a millisecond.
    """
    _ask(path, to_plain(fault))


def ask_present(path: Path) -> tuple[Fault, ...]:
    """The faults of the rack with this control socket. Raises LinkError where it does not answer."""
    return tuple(map(parse_fault, _ask(path, LIST)["set"]))


def _ask(path: Path, request: object) -> dict[str, Any]:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(ANSWER_TIMEOUT_S)
            connection.connect(str(path))
            connection.sendall(_encode(request) + b"\n")
            with connection.makefile("rb") as lines:
                line = lines.readline(ANSWER_LIMIT_BYTES)
    except OSError as error:
        raise LinkError(f"{path}: cannot reach the twin rack: {error.strerror or error}. Is it up?") from error
    if not line.endswith(b"\n"):
        raise LinkError(f"{path}: the twin rack hung up before it answered")
    answer: dict[str, Any] = json.loads(line)
    if not answer["done"]:
        raise (RefusedError if answer["refused"] else ConfigError)(answer["why"])
    return answer


def _encode(data: object) -> bytes:
    return json.dumps(data).encode()
