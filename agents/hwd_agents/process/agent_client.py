"""AgentClient: the side of a process that asks the agent of its host over a Unix socket, line by line."""

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import ClassVar, Final, Self

from hwd_drivers.core.errors import DeadlineError, LinkError, ProtocolError
from hwd_drivers.core.structs import to_json

ANSWER_LIMIT_BYTES: Final = 1 << 20
"""A rank hears of the addresses of all others: 256 ranks with 16 ports each have 130 KB."""


class AgentClient:
    """One connection, which is made when it is needed. Not for several threads at once. A process that is forked from
    this one, as workers of a data loader are, gets a connection of its own.

    `NAMED`: where the agent's file names the socket. `GONE`: what has happened where the agent hangs up.
    """

    NAMED: ClassVar[str]
    GONE: ClassVar[str]

    def __init__(self, path: str) -> None:
        self._path = path.removeprefix("unix:")
        self._socket: socket.socket | None = None
        self._process_id = os.getpid()
        self._buffer = bytearray()
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect from the agent."""
        if self._socket is not None:
            if self._process_id == os.getpid():
                with suppress(OSError):  # the agent has hung up
                    # a process that was forked from this one may have it open
                    self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
            self._socket = None
        self._buffer.clear()

    def _answers(self, request: object, within_s: float) -> Iterator[bytes]:
        """Send a request, and yield the lines that come. Raises LinkError where the agent cannot be reached,
        DeadlineError where it is silent, ProtocolError for a line that is too long; then it is disconnected.
        """
        try:
            connection = self._connected()
            connection.settimeout(within_s)
            connection.sendall(to_json(request) + b"\n")
            while True:
                yield self._read_line(connection)
        except TimeoutError as error:
            self.close()
            raise DeadlineError(f"{self._path}: the agent did not answer within {within_s:g} s") from error
        except OSError as error:
            self.close()
            raise LinkError(
                f"{self._path}: cannot reach the agent: {error.strerror or error}. Is it running, does its file name "
                f"{self.NAMED}, are you in the socket's group?"
            ) from error
        except (LinkError, ProtocolError):
            self.close()
            raise

    def _read_line(self, connection: socket.socket) -> bytes:
        scanned = 0
        while (end := self._buffer.find(b"\n", scanned)) < 0:
            scanned = len(self._buffer)
            data = connection.recv(65536)
            if not data:
                raise LinkError(f"{self._path}: the agent disconnected{self.GONE}. See the agent's log")
            self._buffer += data
            if len(self._buffer) > ANSWER_LIMIT_BYTES:
                raise ProtocolError(f"{self._path}: an answer of more than {ANSWER_LIMIT_BYTES} bytes")
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def _connected(self) -> socket.socket:
        if self._process_id != os.getpid():  # forked: that connection is its parent's
            self.close()
            self._process_id = os.getpid()
        if self._socket is None:
            fresh = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                fresh.connect(self._path)
            except OSError:
                fresh.close()
                raise
            self._socket = fresh
        return self._socket
