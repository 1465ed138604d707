"""Transfers: the client of a process of a job. It says what the process sends, so that no light is cut under it.

with transfer(["eth0"], phase="all-reduce 7", within_s=5.0):
    ...                                          # send: it may; raises RefusedError before, where it may not

with Transfers(process="rank 3") as transfers:   # one connection for many phases
    with transfers.transfer(["h0.eth0<->h1.eth0"], phase="all-gather 8", within_s=5.0, wait_s=1.0):
        ...
"""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from hwd_agents.transfers.lines import AnswerLine, Claim, Line, OverLine
from hwd_drivers.core.errors import DeadlineError, FailedError, LinkError, ProtocolError, RefusedError

SOCKET: Final = "/run/hwd-agent/transfers.sock"
"""Where agents listen that `hwd agent deploy` installs. Another one: the variable `SOCKET_VARIABLE`."""
SOCKET_VARIABLE: Final = "HWD_TRANSFER_SOCKET"
GRACE_S: Final = 4.0
"""The agent answers within 2.5 s beside the wait that is asked for. One that is silent for longer counts as gone."""
ANSWER_LIMIT_BYTES: Final = 1 << 16


class Transfers:
    """One connection to the agent of this host; its transfers end with it. Not for several threads at once.

    `path`: by default that in HWD_TRANSFER_SOCKET, else `SOCKET`. `process`: a name for refusals and `hwd status`.
    """

    def __init__(self, path: str | None = None, *, process: str = "") -> None:
        self._path = (path or os.environ.get(SOCKET_VARIABLE) or SOCKET).removeprefix("unix:")
        self._process = process
        self._socket: socket.socket | None = None
        self._buffer = b""
        self._number = 0
        self._over: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect: all transfers of this connection end."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._buffer = b""

    @contextmanager
    def transfer(
        self, links: Sequence[str], *, within_s: float, phase: str = "-", wait_s: float = 0.0
    ) -> Iterator[str]:
        """Claim a transfer, and end it after the block. Raises as `claim` and `end` do; an error of the block counts
        more than one of the end.
        """
        id = self.claim(links, within_s=within_s, phase=phase, wait_s=wait_s)
        try:
            yield id
        except BaseException:
            try:
                self.end(id)
            except (FailedError, LinkError, DeadlineError, ProtocolError, RefusedError):
                self.close()
            raise
        self.end(id)

    def claim(self, links: Sequence[str], *, within_s: float, phase: str = "-", wait_s: float = 0.0) -> str:
        """Say that one phase of at most `within_s` sends over these ports and links of this host; returns its id.

        `links`: `eth0`, `h0.eth0` or `h0.eth0<->h1.eth0`. `wait_s`: for ports that are being moved. Raises RefusedError
        where it may not go, FailedError where the daemon cannot be asked now, LinkError and DeadlineError where the
        agent cannot: nothing may be sent then.
        """
        claim = Claim(links=[*links], within_s=within_s, phase=phase, wait_s=wait_s, process=self._process)
        answer = self._exchange(within_s=wait_s + GRACE_S, claim=claim)
        match answer.outcome:
            case "go":
                return answer.transfer
            case "refused":
                raise RefusedError(answer.why)
            case _:
                raise FailedError(f"{answer.why}. Nothing may be sent")

    def end(self, transfer: str) -> None:
        """Say that it has ended. Raises FailedError where it was over before: its light may have been cut meanwhile."""
        answer = self._exchange(within_s=GRACE_S, end=transfer)
        if answer.outcome != "ended":
            raise FailedError(
                f"transfer {transfer}: was over before it ended: {answer.why}. Its light may have been cut"
            )

    def _exchange(self, *, within_s: float, claim: Claim | None = None, end: str | None = None) -> AnswerLine:
        self._number += 1
        line = Line(claim=claim, end=end, id=self._number)
        try:
            connection = self._connected()
            connection.settimeout(within_s)
            connection.sendall(msgspec.json.encode(line) + b"\n")
            while True:
                text = self._read_line(connection)
                found: Any = msgspec.json.decode(text, type=dict[str, Any])
                if "over" in found:
                    over = msgspec.convert(found, OverLine)
                    self._over[over.over] = over.why
                    continue
                answer = msgspec.convert(found, AnswerLine)
                if answer.id == self._number:
                    return answer
        except TimeoutError as error:
            self.close()
            raise DeadlineError(f"{self._path}: the agent did not answer within {within_s:g} s") from error
        except OSError as error:
            self.close()
            raise LinkError(
                f"{self._path}: cannot reach the agent: {error.strerror or error}. Is it running, does its file name "
                "this socket under `transfers`, are you in the socket's group?"
            ) from error
        except (msgspec.MsgspecError, RecursionError) as error:
            self.close()
            raise ProtocolError(f"{self._path}: cannot parse the answer: {error}") from error
        except (LinkError, ProtocolError):
            self.close()
            raise

    def over(self, transfer: str) -> str:
        """Why a transfer is over that this process did not end, as far as the agent has said so; empty where not."""
        return self._over.get(transfer, "")

    def _read_line(self, connection: socket.socket) -> bytes:
        while (end := self._buffer.find(b"\n")) < 0:
            data = connection.recv(65536)
            if not data:
                raise LinkError(f"{self._path}: the agent disconnected, and all transfers ended. See the agent's log")
            self._buffer += data
            if len(self._buffer) > ANSWER_LIMIT_BYTES:
                raise ProtocolError(f"{self._path}: an answer of more than {ANSWER_LIMIT_BYTES} bytes")
        line, self._buffer = self._buffer[:end], self._buffer[end + 1 :]
        return line

    def _connected(self) -> socket.socket:
        if self._socket is None:
            fresh = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                fresh.connect(self._path)
            except OSError:
                fresh.close()
                raise
            self._socket = fresh
        return self._socket


@contextmanager
def transfer(
    links: Sequence[str],
    *,
    within_s: float,
    phase: str = "-",
    wait_s: float = 0.0,
    path: str | None = None,
    process: str = "",
) -> Iterator[str]:
    """One transfer on a connection of its own: see `Transfers.transfer`."""
    with (
        Transfers(path, process=process) as transfers,
        transfers.transfer(links, within_s=within_s, phase=phase, wait_s=wait_s) as id,
    ):
        yield id
