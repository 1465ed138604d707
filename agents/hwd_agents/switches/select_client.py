"""Selector: the client of jobs; it sets the switches of this host through its agent, and waits for the links.

with Selector() as selector:
    answer = selector.select({"sel0": "in-2"}, within_s=1.0)      # raises when the links are not up by then
    print(answer.ports["eth0"].at_ns - answer.requested_ns)
"""

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from hwd_agents.wire import Selected
from hwd_drivers.core.errors import DeadlineError, FailedError, LinkError, NotReadyError, ProtocolError, RefusedError
from hwd_drivers.core.structs import from_json, to_json

SOCKET: Final = "/run/hwd-agent/select.sock"
"""The default socket of agents. The command line takes another from HWD_SELECT_SOCKET."""
GRACE_S: Final = 3.0
"""The agent keeps to the limit, except for a switch that failed or is read back late, which has 2 s to report its
state. An agent that is silent for longer counts as gone.
"""
ANSWER_LIMIT_BYTES: Final = 1 << 20
SHOW_WITHIN_S: Final = 5.0


class Selector:
    """One connection. It blocks, because a job waits for it; use one thread each to run several selections at once.
    A process that is forked from this one gets a connection of its own.
    """

    def __init__(self, path: str = SOCKET) -> None:
        self._path = path.removeprefix("unix:")
        self._socket: socket.socket | None = None
        self._process_id = os.getpid()
        self._buffer = b""
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect; a selection that has begun goes on to its end."""
        if self._socket is not None:
            if self._process_id == os.getpid():
                with suppress(OSError):  # the agent has hung up
                    # a process that was forked from this one may have it open
                    self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
            self._socket = None
        self._buffer = b""

    def ask(
        self, wanted: Mapping[str, str], *, within_s: float = 1.0, epoch: int | Mapping[str, int] | None = None
    ) -> Selected:
        """Set these, and return the agent's answer.

        Raises LinkError when it cannot be reached, DeadlineError when it does not answer.
        """
        self._number += 1
        by_s = time.monotonic() + within_s  # noqa: TID251 - the agent compares it with its own; a job has no Clock
        request = {"set": dict(wanted), "within_s": within_s, "by_s": by_s, "epoch": epoch, "id": self._number}
        line = self._exchange(request, within_s + GRACE_S)
        try:
            answer = from_json(line, Selected)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise self._garbled(line, error) from error
        if answer.id is not None and answer.id != self._number:
            self.close()
            raise ProtocolError(f"{self._path}: the answer is to request {answer.id}, not to {self._number}")
        return answer

    def select(
        self, wanted: Mapping[str, str], *, within_s: float = 1.0, epoch: int | Mapping[str, int] | None = None
    ) -> Selected:
        """Set these and return when every link behind them is up.

        Raises RefusedError (nothing was changed), NotReadyError (set, but links are not up), FailedError (a switch was
        not set), and as `ask`.
        """
        answer = self.ask(wanted, within_s=within_s, epoch=epoch)
        check(answer)
        return answer

    def show(self) -> dict[str, Any]:
        """The switches of this host by name: note and crossconnects, as the agent reports them."""
        line = self._exchange({"show": True}, SHOW_WITHIN_S)
        try:
            return from_json(line, dict[str, dict[str, Any]])["switches"]
        except (msgspec.MsgspecError, RecursionError, KeyError) as error:
            raise self._garbled(line, error) from error

    def _exchange(self, request: Mapping[str, Any], within_s: float) -> bytes:
        try:
            connection = self._connected()
            connection.settimeout(within_s)
            connection.sendall(to_json(request) + b"\n")
            answer = bytearray(self._buffer)
            scanned = 0
            while (end := answer.find(b"\n", scanned)) < 0:
                scanned = len(answer)
                data = connection.recv(65536)
                if not data:
                    raise LinkError(f"{self._path}: the agent disconnected before it answered. See the agent's log")
                answer += data
                if len(answer) > ANSWER_LIMIT_BYTES:
                    raise ProtocolError(f"{self._path}: an answer of more than {ANSWER_LIMIT_BYTES} bytes")
        except TimeoutError as error:
            self.close()
            raise DeadlineError(f"{self._path}: the agent did not answer within {within_s:g} s") from error
        except OSError as error:
            self.close()
            raise LinkError(
                f"{self._path}: cannot reach the agent: {error.strerror or error}. Is it running, does its file name "
                "switches, are you in the socket's group?"
            ) from error
        except (LinkError, ProtocolError):
            self.close()
            raise
        self._buffer = bytes(answer[end + 1 :])
        return bytes(answer[:end])

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

    def _garbled(self, line: bytes, error: Exception) -> ProtocolError:
        self.close()
        return ProtocolError(f"{self._path}: cannot parse the answer: {error}: {line[:200]!r}")


def check(answer: Selected) -> None:
    """Raises, with the answer's reason, for every outcome but `up`."""
    match answer.outcome:
        case "up":
            return
        case "refused":
            raise RefusedError(answer.why)
        case "not-up":
            raise NotReadyError(answer.why)
        case _:
            raise FailedError(answer.why)
