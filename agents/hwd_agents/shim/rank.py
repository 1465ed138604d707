"""Rank: one process of a job, with the connection to the agent of its host."""

import hmac
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Self, TypeVar

from msgspec.structs import replace

from hwd_agents.shim.exchange import PORT, Exchange
from hwd_agents.shim.move_channel import now_s
from hwd_agents.shim.shims import Ask, Go, Select, SendOver, Shim, find
from hwd_agents.switches.select_client import Selector
from hwd_agents.transfers import lines
from hwd_agents.transfers.client import KEY_VARIABLE, SOCKET_VARIABLE, Transfers
from hwd_agents.wire import Operation, OperationKind, RankPlace
from hwd_drivers.core.errors import ConfigError, DeadlineError, FailedError, HwdError, LinkError, RefusedError

JOB_VARIABLE: Final = "HWD_JOB"
RANK_VARIABLE: Final = "HWD_RANK"
SHIM_VARIABLE: Final = "HWD_SHIM"
SELECT_VARIABLE: Final = "HWD_SELECT_SOCKET"
"""What the daemon puts into the environment of each rank; `HWD_SHIM` is `ask` where it is not there."""
ASK_S: Final = 30.0
"""So long one ask waits; then it is asked again."""
AGAIN_S: Final = 0.05
AGAIN_MOST_S: Final = 1.0
"""Between two attempts while the agent or the daemon is away: twice as long each time."""
AWAY_S: Final = 300.0
"""How long a rank waits for an agent or a daemon that is away. What it sends is not held up by that."""

T = TypeVar("T")


class Rank:
    """Joins its job when it is made. Not for several threads at once.

    `number`: its own; `places`: of all ranks, by number; `groups`: their ranks, by name; `longest_s`: the most that an
    operation may have as `within_s`, None where the daemon does not say it; `links`: those of the light when the last
    operation was let go that said its parts, `h0.eth0<->h1.eth0`.
    """

    def __init__(
        self, *, job: str, number: int, key: str, path: str | None = None, shim: str = "ask", away_s: float = AWAY_S
    ) -> None:
        self.job = job
        self.number = number
        self._key = key
        self._away_s = away_s
        self._transfers = Transfers(path, key=key)
        self._selector: Selector | None = None
        self._counts: Counter[tuple[str | int, ...]] = Counter()
        self.links: tuple[str, ...] = ()
        self._open = ""
        """The operation whose block has not ended."""
        self._ended: Operation | None = None
        """The last one that the agent knows to have ended."""
        self._to_report: Operation | None = None
        """The last operation of an agent that has gone away since: maybe before it had told the daemon of its end."""
        try:
            joined = self._until(lambda: self._transfers.join(self._identity))
            self.places: tuple[RankPlace, ...] = tuple(joined.ranks)
            self.groups: Mapping[str, tuple[int, ...]] = {name: tuple(ranks) for name, ranks in joined.groups.items()}
            self.longest_s = joined.longest_s
            self._shim: Shim = find(shim, number, joined)
        except BaseException:
            self._transfers.close()
            raise

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Self:
        """The rank that the daemon started. Raises ConfigError where this process is none."""
        try:
            job, number, key = (environment[name] for name in (JOB_VARIABLE, RANK_VARIABLE, KEY_VARIABLE))
        except KeyError as error:
            raise ConfigError(f"{error.args[0]}: not in the environment. Start ranks with `hwd job run`") from error
        if not number.isdecimal():
            raise ConfigError(f"{RANK_VARIABLE}: {number!r} is no number. Start ranks with `hwd job run`")
        return cls(
            job=job,
            number=int(number),
            key=key,
            path=environment.get(SOCKET_VARIABLE),
            shim=environment.get(SHIM_VARIABLE, "ask"),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def exchange(self, *, port: int = PORT, eps_ports: int | None = None) -> Exchange:
        """What sends mFabric's collectives of all ranks of the job; it listens at once. `port`: rank n listens on this
        one and n more; `eps_ports`: NIC ports of a host on packet switches to use at most.
        """
        job = f"{self.job} {self._key}".encode()
        return Exchange(self.number, self.places, job=job, port=port, eps_ports=eps_ports)

    def proof(self, number: int) -> str:
        """What shows the other ranks of the job that rank `number` knows its key."""
        return hmac.new(self._key.encode(), f"{self.job} rank {number}".encode(), "sha256").hexdigest()

    def close(self) -> None:
        """Disconnect the rank. What it was let go for has ended then."""
        self._transfers.close()
        if self._selector is not None:
            self._selector.close()

    @contextmanager
    def operation(
        self,
        group: str,
        kind: OperationKind | str,
        *,
        within_s: float,
        size_bytes: int = 0,
        parts: Sequence[int] = (),
        peer: int | None = None,
        iteration: int | None = None,
        layer: int | None = None,
    ) -> Iterator[str | None]:
        """One operation of a group: the block sends and receives, and ends when that has completed.

        Yields the NIC port to send over, where the shim names one. `within_s`: the longest time of the block: after it
        its light may be moved. `parts`: of an all-to-all whose parts differ, the bytes for each rank of the group, in
        its order; `size_bytes` is their sum then. `peer`: the other rank, of a send or a receive. `iteration`, `layer`:
        of its training, from 0 on, for `hwd job training` and `hwd job demand`.
        Raises RefusedError where it may not be sent, and within the block of another one; LinkError and DeadlineError
        where agent or daemon stay away; FailedError after a block that took longer than `within_s`.
        """
        if self._open:
            raise RefusedError(f"rank {self.number} of job {self.job}: {self._open} has not ended: one at a time")
        first = Operation(
            group=group,
            kind=OperationKind(kind),
            index=0,
            size_bytes=sum(parts) if parts else size_bytes,
            parts=tuple(parts),
            peer=peer,
            iteration=iteration,
            layer=layer,
        )
        operation = replace(first, index=self._counts[first.shared(self.number)])
        self._counts[first.shared(self.number)] += 1
        port: str | None = None
        transfer: str | None = None
        match self._shim.before(operation):
            case Go():
                pass
            case Ask():
                transfer = self._until(lambda: self._ask(operation, within_s))
            case Select() as select:
                self._select(select)
            case SendOver() as over:
                port = over.port
        self._open = str(operation)
        try:
            yield port
        except BaseException:
            self._transfers.close()  # whatever it was let go for has ended
            raise
        finally:
            self._open = ""
        if transfer is not None:
            self._end(transfer, operation)
        if isinstance(after := self._shim.after(operation), Select):
            self._select(after)

    def _ask(self, operation: Operation, within_s: float) -> str:
        if self._to_report is not None:
            self._transfers.done(self._identity, self._to_report)
            self._to_report = None
        try:
            transfer, links = self._transfers.ask(self._identity, operation, within_s=within_s, wait_s=ASK_S)
        except LinkError:
            self._to_report, self._ended = self._ended, None
            raise
        if operation.parts:
            self.links = links
        return transfer

    def _end(self, transfer: str, operation: Operation) -> None:
        try:
            self._transfers.end(transfer)
            self._ended = operation
        except (LinkError, RefusedError, DeadlineError):  # the agent went away, and a new one knows nothing of it
            self._until(lambda: self._transfers.done(self._identity, operation))

    def _select(self, select: Select) -> None:
        if self._selector is None:
            path = os.environ.get(SELECT_VARIABLE)
            self._selector = Selector() if path is None else Selector(path)
        self._selector.select(select.positions, within_s=select.within_s)

    @property
    def _identity(self) -> lines.Rank:
        return lines.Rank(job=self.job, rank=self.number, key=self._key)

    def _until(self, ask: Callable[[], T]) -> T:
        """The answer, asked for again while agent or daemon are away; raises the last error after `away_s`."""
        pause_s, by_s = AGAIN_S, now_s() + self._away_s
        while True:
            began_s = now_s()
            try:
                return ask()
            except RefusedError:
                raise
            except (LinkError, DeadlineError, FailedError) as error:
                now = now_s()
                if now - began_s >= ASK_S / 2:  # it was heard, and waits for its plane
                    by_s = now + self._away_s
                if now >= by_s:
                    raise _named(error, self) from error
            threading.Event().wait(pause_s)
            pause_s = min(2 * pause_s, AGAIN_MOST_S)


def _named(error: HwdError, rank: Rank) -> HwdError:
    return type(error)(f"rank {rank.number} of job {rank.job}: {error}")
