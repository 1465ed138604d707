"""Transfers: the client of a process of a job. It says what the process sends, so that no light is cut under it.

with transfer(["eth0"], phase="all-reduce 7", within_s=5.0):
    ...                                          # send: it may; raises RefusedError before, where it may not

with Transfers(process="rank 3") as transfers:   # one connection for many phases
    with transfers.transfer(["h0.eth0<->h1.eth0"], phase="all-gather 8", within_s=5.0, wait_s=1.0):
        ...
    transfers.switch_set("p7x2a1b9", "crossed")  # between two phases; returns when it is confirmed
"""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import msgspec

from hwd_agents.transfers.lines import (
    AnswerLine,
    AskOperation,
    Claim,
    DoneOperation,
    JoinAnswerLine,
    Line,
    OverLine,
    Rank,
    Switch,
    SwitchAnswerLine,
)
from hwd_agents.wire import JobJoined, Operation
from hwd_drivers.core.errors import DeadlineError, FailedError, LinkError, ProtocolError, RefusedError
from hwd_drivers.core.structs import from_json, from_plain, to_json

SOCKET: Final = "/run/hwd-agent/transfers.sock"
"""Where agents listen that `hwd agent deploy` installs. Another one: the variable `SOCKET_VARIABLE`."""
SOCKET_VARIABLE: Final = "HWD_TRANSFER_SOCKET"
KEY_VARIABLE: Final = "HWD_JOB_KEY"
"""The secret of a job, in the environment of its ranks."""
GRACE_S: Final = 4.0
"""The agent answers within 2.5 s beside the wait that is asked for. One that is silent for longer counts as gone."""
ANSWER_LIMIT_BYTES: Final = 1 << 20
"""A rank hears of the addresses of all others: 256 ranks with 16 ports each have 130 KB."""

A = TypeVar("A", AnswerLine, SwitchAnswerLine, JoinAnswerLine)


class Transfers:
    """One connection to the agent of this host; its transfers end with it. Not for several threads at once. A process
    that is forked from this one, as workers of a data loader are, gets a connection of its own.

    `path`: by default that in HWD_TRANSFER_SOCKET, else `SOCKET`. `process`: a name for refusals and `hwd status`.
    `key`: of the job whose ports and set it uses, which nobody else may; by default that in HWD_JOB_KEY, which ranks
    have.
    """

    def __init__(self, path: str | None = None, *, process: str = "", key: str | None = None) -> None:
        self._path = (path or os.environ.get(SOCKET_VARIABLE) or SOCKET).removeprefix("unix:")
        self._process = process
        self._key = key or os.environ.get(KEY_VARIABLE) or None
        self._socket: socket.socket | None = None
        self._process_id = os.getpid()
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
            if self._process_id == os.getpid():
                with suppress(OSError):  # the agent has hung up
                    # a process that was forked from this one may have it open
                    self._socket.shutdown(socket.SHUT_RDWR)
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
        claim = Claim(
            links=[*links], within_s=within_s, phase=phase, wait_s=wait_s, process=self._process, key=self._key
        )
        answer = self._exchange(AnswerLine, Line(claim=claim), within_s=wait_s + GRACE_S)
        _check_granted(answer)
        return answer.transfer

    def end(self, transfer: str) -> None:
        """Say that it has ended. Raises FailedError where it was over before: its light may have been cut meanwhile."""
        answer = self._exchange(AnswerLine, Line(end=transfer), within_s=GRACE_S)
        if answer.outcome != "ended":
            raise FailedError(
                f"transfer {transfer}: was over before it ended: {answer.why}. Its light may have been cut"
            )

    def switch_set(
        self,
        prepared_set: str,
        target: str,
        *,
        within_s: float = 30.0,
        epoch: int | None = None,
        reconfiguration: str | None = None,
    ) -> str:
        """Bring a prepared set with a port of this host to a target; returns the id of the reconfiguration once its
        switches are read back and it is confirmed.

        `within_s`: seconds, up to 60, in which an answer is of use; a daemon that gets it later does nothing. `epoch`:
        of the set's lease; refused where another is in force. `reconfiguration`: the id of this switch, 8 of a-z and
        0-9, by default drawn anew; one that was used is refused with what became of it. Raises RefusedError where it is
        not switched, as under a transfer in flight, or one of a job without its key; FailedError where it failed, which
        says whether its switches went back, and where no answer came; LinkError and DeadlineError where the agent
        cannot be reached or goes away. Without an answer it may be switched or not: ask again, and where the set is at
        the target nothing moves.
        """
        switch = Switch(
            prepared_set=prepared_set,
            target=target,
            within_s=within_s,
            epoch=epoch,
            reconfiguration=reconfiguration,
            process=self._process,
            key=self._key,
        )
        answer = self._exchange(SwitchAnswerLine, Line(switch=switch), within_s=within_s + GRACE_S)
        match answer.outcome:
            case "switched":
                return answer.reconfiguration
            case "refused":
                raise RefusedError(answer.why)
            case _:
                raise FailedError(answer.why)

    # --- of the ranks of jobs: `hwd_agents.shim` has what a rank calls

    def join(self, job: str, rank: int, key: str) -> JobJoined:
        """Say that a rank has come. Raises RefusedError where it is none, and as `claim` does."""
        answer = self._exchange(JoinAnswerLine, Line(join=Rank(job=job, rank=rank, key=key)), within_s=GRACE_S)
        if answer.joined is None:
            raise RefusedError(answer.why) if answer.outcome == "refused" else FailedError(answer.why)
        return answer.joined

    def ask(
        self, job: str, rank: int, key: str, operation: Operation, *, within_s: float, wait_s: float
    ) -> tuple[str, tuple[str, ...]]:
        """Ask the control plane of a job for an operation; returns the id of its transfer, and the links of the light
        where the operation says its parts. Raises as `claim` does.
        """
        ask = AskOperation(job=job, rank=rank, key=key, operation=operation, within_s=within_s, wait_s=wait_s)
        answer = self._exchange(AnswerLine, Line(ask=ask), within_s=wait_s + GRACE_S)
        _check_granted(answer)
        return answer.transfer, (*(answer.links or ()),)

    def done(self, job: str, rank: int, key: str, operation: Operation) -> None:
        """Say that an operation has ended whose transfer the agent does not know any more. Raises as `claim` does."""
        done = DoneOperation(job=job, rank=rank, key=key, operation=operation)
        answer = self._exchange(AnswerLine, Line(done=done), within_s=GRACE_S)
        if answer.outcome != "ended":
            raise RefusedError(answer.why) if answer.outcome == "refused" else FailedError(answer.why)

    def _exchange(self, kind: type[A], line: Line, *, within_s: float) -> A:
        self._number += 1
        line = msgspec.structs.replace(line, id=self._number)
        try:
            connection = self._connected()
            connection.settimeout(within_s)
            connection.sendall(to_json(line) + b"\n")
            while True:
                text = self._read_line(connection)
                found: Any = from_json(text, dict[str, Any])
                if "over" in found:
                    over = from_plain(found, OverLine)
                    self._over[over.over] = over.why
                    continue
                answer = from_plain(found, kind)
                if answer.id in (self._number, None):  # without an id: it could not parse the line
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


def _check_granted(answer: AnswerLine) -> None:
    """Raises RefusedError and FailedError where the transfer may not go."""
    match answer.outcome:
        case "go":
            return
        case "refused":
            raise RefusedError(answer.why)
        case _:
            raise FailedError(f"{answer.why}. Nothing may be sent")


@contextmanager
def transfer(
    links: Sequence[str],
    *,
    within_s: float,
    phase: str = "-",
    wait_s: float = 0.0,
    path: str | None = None,
    process: str = "",
    key: str | None = None,
) -> Iterator[str]:
    """One transfer on a connection of its own: see `Transfers.transfer`."""
    with (
        Transfers(path, process=process, key=key) as transfers,
        transfers.transfer(links, within_s=within_s, phase=phase, wait_s=wait_s) as id,
    ):
        yield id


def switch_set(
    prepared_set: str,
    target: str,
    *,
    within_s: float = 30.0,
    epoch: int | None = None,
    reconfiguration: str | None = None,
    path: str | None = None,
    process: str = "",
    key: str | None = None,
) -> str:
    """One switch of a prepared set on a connection of its own: see `Transfers.switch_set`."""
    with Transfers(path, process=process, key=key) as transfers:
        return transfers.switch_set(
            prepared_set, target, within_s=within_s, epoch=epoch, reconfiguration=reconfiguration
        )
