"""Sockets: opens sockets in the host's own network, or in a namespace that a keeper process holds.

The protocol between a keeper and its clients is defined here: Unix SOCK_SEQPACKET, one JSON object per message, and the
descriptor of a reply as SCM_RIGHTS. It needs only the standard library, because the keeper is a small process.
"""

import array
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

MESSAGE_LIMIT_BYTES: Final = 4096
ANSWER_TIMEOUT_S: Final = 5.0  # an answer takes 0.1 ms; a keeper that takes this long is gone or stopped


class Sockets(Protocol):
    """Opens sockets in one network namespace."""

    def open(self, family: int, kind: int, proto: int = 0) -> socket.socket:
        """A new non-blocking socket of that network. Raises OSError as socket.socket does."""
        ...


class NetworkFiles(Protocol):
    """Opens what the kernel tells of one network in /proc/net."""

    def open_file(self, name: str) -> int:
        """A descriptor of `name` (`snmp`), which the caller closes; each reading from its begin is a new one.

        Raises OSError.
        """
        ...


class HostSockets:
    """Sockets and files of the network that this process is in."""

    def open(self, family: int, kind: int, proto: int = 0) -> socket.socket:
        opened = socket.socket(family, kind, proto)
        opened.setblocking(False)
        return opened

    def open_file(self, name: str) -> int:
        return os.open(f"/proc/net/{name}", os.O_RDONLY | os.O_CLOEXEC)


class NamespaceSockets:
    """Sockets and files of namespace `ns` of the keeper that listens at `path`.

    A socket stays in the namespace in which it was made, so that the process that uses it may stay in its own.
    """

    def __init__(self, path: Path | str, ns: str) -> None:
        self._path = Path(path)
        self._ns = ns

    def open(self, family: int, kind: int, proto: int = 0) -> socket.socket:
        """A non-blocking socket made inside the namespace. Raises OSError with the keeper's reason."""
        request = KeeperRequest(verb=Verb.SOCKET, ns=self._ns, family=int(family), kind=int(kind), proto=proto)
        opened = socket.socket(fileno=ask_for_descriptor(self._path, request))
        opened.setblocking(False)
        return opened

    def open_file(self, name: str) -> int:
        """A descriptor of `/proc/net/NAME` of the namespace. Raises OSError with the keeper's reason."""
        return ask_for_descriptor(self._path, KeeperRequest(verb=Verb.FILE, ns=self._ns, name=name))


class Verb(StrEnum):
    """The verb of a client's request to a keeper."""

    SOCKET = "socket"
    """A new socket made inside the namespace."""
    NAMESPACE = "namespace"
    """A descriptor of the namespace itself, to move interfaces into it."""
    SETTING = "setting"
    """Write `value` to /proc/sys/`name` from inside the namespace."""
    FILE = "file"
    """A descriptor of /proc/net/`name` of the namespace."""
    TAP = "tap"
    """A descriptor of the tap device `name`, created with the index `value` if absent. It ends with the keeper."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeeperRequest:
    """One request to a keeper."""

    verb: Verb
    ns: str
    family: int = 0
    kind: int = 0
    proto: int = 0
    name: str = ""
    value: str = ""

    def __str__(self) -> str:
        match self.verb:
            case Verb.SOCKET:
                return f"open a socket (family {self.family}, type {self.kind}, protocol {self.proto})"
            case Verb.NAMESPACE:
                return "get the namespace"
            case Verb.SETTING:
                return f"set {self.name} to {self.value}"
            case Verb.FILE:
                return f"open /proc/net/{self.name}"
            case Verb.TAP:
                return f"get the tap device {self.name}"


def encode_request(request: KeeperRequest) -> bytes:
    return json.dumps(asdict(request)).encode()


def decode_request(data: bytes) -> KeeperRequest:
    """The request in `data`. Raises ValueError when it is invalid."""
    try:
        fields = json.loads(data)
    except RecursionError as error:
        raise ValueError("keeper request: nested too deeply") from error
    if not isinstance(fields, dict):
        raise ValueError(f"keeper request: not an object but {type(fields).__name__}")
    try:
        fields["verb"] = Verb(fields["verb"])
        request = KeeperRequest(**fields)
    except (KeyError, TypeError) as error:
        raise ValueError(f"keeper request: {error}") from error
    if not all(isinstance(number, int) for number in (request.family, request.kind, request.proto)):
        raise ValueError("keeper request: family, kind and proto are integers")
    return request


def send_answer(connection: socket.socket, *, descriptor: int | None = None) -> None:
    """Send a success, with the descriptor if there is one."""
    rights = [] if descriptor is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
    connection.sendmsg([json.dumps({"errno": 0}).encode()], rights)


def send_refusal(connection: socket.socket, *, number: int, why: str) -> None:
    """Send a refusal, with an errno and the reason in words."""
    connection.send(json.dumps({"errno": number, "why": why[:1000]}).encode())


def ask(path: Path, request: KeeperRequest) -> list[int]:
    """Ask the keeper at `path`; returns its descriptors, which the caller owns.

    Raises OSError with subject, attempt and finding.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(ANSWER_TIMEOUT_S)
        try:
            connection.connect(os.fspath(path))
            connection.send(encode_request(request))
            data, descriptors = _receive(connection)
        except TimeoutError as error:
            words = f"{request.ns}: cannot {request}: no answer from the keeper at {path} in {ANSWER_TIMEOUT_S:g} s"
            raise TimeoutError(words) from error
        except OSError as error:
            words = f"{request.ns}: cannot {request}: the keeper at {path} is not there ({error.strerror})"
            raise OSError(error.errno, words) from error
    if not data:
        raise ConnectionResetError(f"{request.ns}: cannot {request}: the keeper at {path} closed the connection")
    answer: Mapping[str, object] = json.loads(data)
    number = answer["errno"]
    if number != 0:
        raise OSError(number, f"{request.ns}: cannot {request}: {answer.get('why')}")
    return descriptors


def ask_for_descriptor(path: Path, request: KeeperRequest) -> int:
    """Ask for exactly one descriptor."""
    descriptors = ask(path, request)
    if len(descriptors) != 1:
        for descriptor in descriptors:
            os.close(descriptor)
        raise OSError(
            f"{request.ns}: cannot {request}: the keeper at {path} passed {len(descriptors)} descriptors, not 1"
        )
    return descriptors[0]


def _receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    """recvmsg, because socket.recv_fds of Python 3.11 ignores its flags, and child processes must not inherit these."""
    descriptors = array.array("i")
    room = socket.CMSG_SPACE(4 * descriptors.itemsize)
    data, control, _flags, _address = connection.recvmsg(MESSAGE_LIMIT_BYTES, room, socket.MSG_CMSG_CLOEXEC)
    for level, kind, passed in control:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            descriptors.frombytes(passed[: len(passed) - len(passed) % descriptors.itemsize])
    return data, list(descriptors)
