"""RankOperations: what the ranks of a host have asked for and ended, with what its NIC ports had counted then."""

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import Final

from msgspec.structs import replace

from hwd_agents.transfers.lines import AskOperation, DoneOperation, Rank
from hwd_agents.wire import CountedBytes, EndedOperation, Operation
from hwd_agents.wire.transfers import TRANSFERS_MOST

ENDS_AT_ONCE: Final = 64
"""Ends in one message: each has the counters of all ports twice."""

READINGS_MOST: Final = 256
"""Ranks of which one is kept: anybody may say that they are some, and the daemon alone knows it."""


class RankOperations:
    """The operations of ranks on this host; `counted`: reads the counters of the NIC ports. A rank is known by the key
    that it says, too: who guesses its number without the key changes nothing of the rank itself.
    """

    def __init__(self, counted: Callable[[], CountedBytes]) -> None:
        self._counted = counted
        self._asked: dict[Rank, tuple[Operation, CountedBytes]] = {}
        self._done: dict[Rank, tuple[Operation, CountedBytes]] = {}
        self._to_report: deque[EndedOperation] = deque(maxlen=TRANSFERS_MOST)

    def before(self, ask: AskOperation) -> CountedBytes:
        """What was counted when a rank asked for this first."""
        return self._first(self._asked, ask)

    def forget_before(self, ask: AskOperation) -> None:
        """Forget what was counted before an operation that was let go and has ended, or was refused."""
        self._asked.pop(_rank(ask), None)

    def after(self, done: DoneOperation) -> CountedBytes:
        """What was counted when a rank first said that this had ended, which an earlier agent let go."""
        return self._first(self._done, done)

    def forget_after(self, done: DoneOperation) -> None:
        """The daemon has answered it."""
        self._done.pop(_rank(done), None)

    def end(self, operation: EndedOperation) -> None:
        """End an operation now. Until the daemon has answered that, the rank's next ask tells it too."""
        self._to_report.append(replace(operation, after=self._counted()))

    def last_end(self, job: str, rank: int) -> EndedOperation | None:
        """The last of a rank of which the daemon may not know; the ones before were told with the rank's asks."""
        ended = (one for one in reversed(self._to_report) if (one.job, one.rank) == (job, rank))
        return next(ended, None)

    def to_report(self) -> list[EndedOperation]:
        """What the daemon is to be told, as much as one message takes."""
        return [*islice(self._to_report, ENDS_AT_ONCE)]

    def forget(self, answered: Iterable[EndedOperation]) -> None:
        """The daemon has answered these."""
        for one in answered:
            with suppress(ValueError):  # where it went to make room
                self._to_report.remove(one)

    def _first(
        self, known: dict[Rank, tuple[Operation, CountedBytes]], said: AskOperation | DoneOperation
    ) -> CountedBytes:
        rank, operation = _rank(said), said.operation
        if (first := known.get(rank)) is None or first[0] != operation:
            known.pop(rank, None)
            first = known[rank] = operation, self._counted()
            if len(known) > READINGS_MOST:
                del known[next(iter(known))]
        return first[1]


def _rank(said: Rank) -> Rank:
    return Rank(job=said.job, rank=said.rank, key=said.key)
