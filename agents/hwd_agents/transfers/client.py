"""Transfers: the client of a process of a job. It says what the process sends, so that no light is cut under it.

with transfer(["eth0"], phase="all-reduce 7", within_s=5.0):
    ...                                          # send: it may; raises RefusedError before, where it may not

with Transfers(process="rank 3") as transfers:   # one connection for many phases
    with transfers.transfer(["h0.eth0<->h1.eth0"], phase="all-gather 8", within_s=5.0, wait_s=1.0):
        ...
    transfers.switch_set("p7x2a1b9", "crossed")  # between two phases; returns when it is confirmed
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import asdict

from hwd_agents.process.agent_client import AgentClient
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
from hwd_drivers.core.errors import (
    BugError,
    DeadlineError,
    FailedError,
    HwdError,
    LinkError,
    ProtocolError,
    RefusedError,
)
from hwd_drivers.core.structs import from_json, from_plain

SOCKET: Final = "/run/hwd-agent/transfers.sock"
"""Where agents listen that `hwd agent deploy` installs. Another one: the variable `SOCKET_VARIABLE`."""
SOCKET_VARIABLE: Final = "HWD_TRANSFER_SOCKET"
KEY_VARIABLE: Final = "HWD_JOB_KEY"
"""The secret of a job, in the environment of its ranks."""
GRACE_S: Final = 4.0
"""The agent answers within 2.5 s beside the wait that is asked for. One that is silent for longer counts as gone."""

A = TypeVar("A", AnswerLine, SwitchAnswerLine, JoinAnswerLine)


class Transfers(AgentClient):
    """One connection to the agent of this host; its transfers end with it, when it is closed.

    `path`: by default that in HWD_TRANSFER_SOCKET, else `SOCKET`. `process`: a name for refusals and `hwd status`.
    `key`: of the job whose ports and set it uses, which nobody else may; by default that in HWD_JOB_KEY, which ranks
    have.
    """

    NAMED = "this socket under `transfers`"
    GONE = ", and all transfers ended"

    def __init__(self, path: str | None = None, *, process: str = "", key: str | None = None) -> None:
        super().__init__(path or os.environ.get(SOCKET_VARIABLE) or SOCKET)
        self._process = process
        self._key = key or os.environ.get(KEY_VARIABLE) or None
        self._over: dict[str, str] = {}

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
        if answer.outcome != "switched":
            raise _error(answer)
        return answer.reconfiguration

    # --- of the ranks of jobs: `hwd_agents.shim` has what a rank calls

    def join(self, rank: Rank) -> JobJoined:
        """Say that a rank has come. Raises RefusedError where it is none, and as `claim` does."""
        answer = self._exchange(JoinAnswerLine, Line(join=rank), within_s=GRACE_S)
        if answer.joined is None:
            raise _error(answer)
        return answer.joined

    def ask(self, rank: Rank, operation: Operation, *, within_s: float, wait_s: float) -> tuple[str, tuple[str, ...]]:
        """Ask the control plane of a job for an operation; returns the id of its transfer, and the links of the light
        where the operation says its parts. Raises as `claim` does.
        """
        ask = AskOperation(**asdict(rank), operation=operation, within_s=within_s, wait_s=wait_s)
        answer = self._exchange(AnswerLine, Line(ask=ask), within_s=wait_s + GRACE_S)
        _check_granted(answer)
        return answer.transfer, (*(answer.links or ()),)

    def done(self, rank: Rank, operation: Operation) -> None:
        """Say that an operation has ended whose transfer the agent does not know any more. Raises as `claim` does."""
        done = DoneOperation(**asdict(rank), operation=operation)
        answer = self._exchange(AnswerLine, Line(done=done), within_s=GRACE_S)
        if answer.outcome != "ended":
            raise _error(answer)

    def _exchange(self, kind: type[A], line: Line, *, within_s: float) -> A:
        self._number += 1
        for text in self._answers(msgspec.structs.replace(line, id=self._number), within_s):
            try:
                found: Any = from_json(text, dict[str, Any])
                if "over" in found:
                    over = from_plain(found, OverLine)
                    self._over[over.over] = over.why
                    continue
                answer = from_plain(found, kind)
            except (msgspec.MsgspecError, RecursionError) as error:
                self.close()
                raise ProtocolError(f"{self._path}: cannot parse the answer: {error}") from error
            if answer.id in (self._number, None):  # without an id: it could not parse the line
                return answer
        raise BugError(f"{self._path}: the answers came to an end without an error")

    def over(self, transfer: str) -> str:
        """Why a transfer is over that this process did not end, as far as the agent has said so; empty where not."""
        return self._over.get(transfer, "")


def _error(answer: AnswerLine | SwitchAnswerLine | JoinAnswerLine) -> HwdError:
    return RefusedError(answer.why) if answer.outcome == "refused" else FailedError(answer.why)


def _check_granted(answer: AnswerLine) -> None:
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
