"""The rack's control socket: faults of its switch twins, set while it runs. JSON lines, one answer a request.

{"switch": "ocs1", "fault": "deny", "code": "SROF", "text": "..."}     the next change is denied
{"switch": "ocs1", "fault": "reset"}                                   all sessions are cut now
{"switch": "ocs1", "fault": "refuse", "on": true}                      new sessions are ended at once
{"switch": "ocs1", "fault": "slow", "seconds": 0.5}                    every answer comes so much later
{"switch": "ocs1", "fault": "silent", "on": true}                      commands are done and not answered
{"switch": "ocs1", "fault": "half"}                                    the next answer ends in its middle
{"switch": "ocs1", "fault": "garble"}                                  the next answer is garbage
{"switch": "ocs1", "fault": "stick", "ends": ["3A", "17B"]}            these mirrors do not move any more
{"switch": "ocs1", "fault": "clear"}                                   all is well again

The answer is {"done": true}, or {"done": false, "why": "..."}.
"""

import asyncio
import json
import logging
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from typing_extensions import override

from hwd_drivers.kit.errors import ConfigError, HwdError, LinkError
from hwd_drivers.kit.registry import Twin
from hwd_drivers.kit.server import Denial
from hwd_drivers.kit.values import PortSide

LINE_LIMIT_BYTES: Final = 64 * 1024
ANSWER_TIMEOUT_S: Final = 5.0  # an answer takes under a millisecond

log = logging.getLogger(__name__)


class Fault(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="fault"):
    """What goes wrong with `switch` from now on."""

    switch: str


class Deny(Fault, frozen=True, kw_only=True, tag="deny"):
    code: str
    text: str = ""


class Reset(Fault, frozen=True, kw_only=True, tag="reset"):
    pass


class Refuse(Fault, frozen=True, kw_only=True, tag="refuse"):
    on: bool = True


class Slow(Fault, frozen=True, kw_only=True, tag="slow"):
    seconds: float


class Silent(Fault, frozen=True, kw_only=True, tag="silent"):
    on: bool = True


class Half(Fault, frozen=True, kw_only=True, tag="half"):
    pass


class Garble(Fault, frozen=True, kw_only=True, tag="garble"):
    pass


class Stick(Fault, frozen=True, kw_only=True, tag="stick"):
    ends: Sequence[str]


class Clear(Fault, frozen=True, kw_only=True, tag="clear"):
    pass


AnyFault = Deny | Reset | Refuse | Slow | Silent | Half | Garble | Stick | Clear

_decoder: msgspec.json.Decoder[AnyFault] = msgspec.json.Decoder(AnyFault)


def decode_fault(line: bytes) -> AnyFault:
    """Raises ConfigError on anything else."""
    try:
        return _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(f"fault: {error}") from error


def set_fault(twins: Mapping[str, Twin], fault: AnyFault) -> None:
    """Raises ConfigError for a switch or an end that is not there, naming those that are."""
    twin = twins.get(fault.switch)
    if twin is None:
        raise ConfigError(
            f"fault: {fault.switch!r} is no switch twin of this rack; it has {', '.join(twins) or 'none'}"
        )
    faults = twin.faults
    match fault:
        case Deny(code=code, text=text):
            faults.deny_next = Denial(code=code, text=text)
        case Reset():
            faults.reset()
        case Refuse(on=on):
            faults.refusing = on
        case Slow(seconds=seconds):
            if seconds < 0:
                raise ConfigError(f"fault: slow: {seconds} s is below 0")
            faults.slow_s = seconds
        case Silent(on=on):
            faults.silent = on
        case Half():
            faults.half_next = True
        case Garble():
            faults.garble_next = True
        case Stick(ends=ends):
            sides = [PortSide.parse(end) for end in ends]
            if missing := [str(side) for side in sides if side not in twin.mirror.capabilities.ends]:
                raise ConfigError(f"fault: {fault.switch} has no port {', '.join(missing)}")
            faults.stick(sides)
        case Clear():
            faults.clear()
    log.info("fault: %s", fault)


class ControlSession(asyncio.Protocol):
    """One client of the control socket."""

    def __init__(self, twins: Mapping[str, Twin]) -> None:
        self._twins = twins
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
            set_fault(self._twins, decode_fault(line))
        except HwdError as error:
            answer = {"done": False, "why": str(error)}
        if self._transport is not None:
            self._transport.write(json.dumps(answer).encode() + b"\n")


def ask(path: Path, fault: AnyFault) -> None:
    """Set a fault in the rack whose control socket is `path`, and wait for it. Raises ConfigError where the rack refuses it, LinkError where it is away."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(ANSWER_TIMEOUT_S)
            connection.connect(str(path))
            connection.sendall(msgspec.json.encode(fault) + b"\n")
            with connection.makefile("rb") as lines:
                answer = json.loads(lines.readline(LINE_LIMIT_BYTES) or b'{"done": false, "why": "the rack hung up"}')
    except OSError as error:
        raise LinkError(f"{path}: cannot reach the twin rack: {error.strerror or error}. Is it up?") from error
    if not answer["done"]:
        raise ConfigError(answer["why"])
