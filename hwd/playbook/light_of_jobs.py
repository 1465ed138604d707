"""LightOfJobs: where the jobs of runs left their light, from the documents of what moved under their leases."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from hwd.model.job import JobStarted
from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationStarted
from hwd_drivers.core.documents import Document


@dataclass(slots=True, kw_only=True)
class JobMove:
    """A reconfiguration of a job. `ends`: the fibre ends that it moves; `outcome`: None while it is under way."""

    job: str
    began_ns: int
    ends: frozenset[str]
    outcome: str | None = None


class LightOfJobs:
    """A sink. It follows the jobs of runs alone, from their start until their run forgets them.

    A move of which every end was moved again later says nothing any more, and is dropped. So regions of a job, which
    move at once, have a last move each.
    """

    TAKES: ClassVar = (JobStarted, ReconfigurationStarted, ReconfigurationEnded)

    def __init__(self) -> None:
        self._leases: dict[str, str] = {}
        """By job: the lease that it moves light under; empty before it has one."""
        self._moves: dict[str, JobMove] = {}
        """By reconfiguration, in the order in which they began."""

    def follow(self, job: str) -> None:
        """Follow a job from now on, before its first move."""
        self._leases[job] = ""

    def forget(self, jobs: Collection[str]) -> None:
        for job in jobs:
            self._leases.pop(job, None)
        self._moves = {id: move for id, move in self._moves.items() if move.job not in jobs}

    def last_moves(self, jobs: Collection[str]) -> list[JobMove]:
        """The last moves of some jobs: each has ends that no later move of them had."""
        last: list[JobMove] = []
        for move in [move for move in self._moves.values() if move.job in jobs]:
            last = [one for one in last if not one.ends <= move.ends]
            last.append(move)
        return last

    def __call__(self, document: Document) -> None:
        match document.fact:
            case JobStarted(job=job, lease=lease) if job in self._leases:
                self._leases[job] = lease
            case ReconfigurationStarted(reconfiguration=id, lease=str(lease)) if lease:
                self._began(id, lease, document)
            case ReconfigurationEnded(reconfiguration=id, outcome=outcome) if id in self._moves:
                self._moves[id].outcome = outcome

    def _began(self, id: str, lease: str, document: Document) -> None:
        assert isinstance(document.fact, ReconfigurationStarted)
        job = next((job for job, own in self._leases.items() if own == lease), None)
        ends = frozenset(
            f"{move.switch}:{end}"
            for move in document.fact.moves
            for crossconnect in (*move.remove, *move.add)
            for end in crossconnect.split("-")
        )
        if job is None or not ends:
            return
        self._moves = {one: move for one, move in self._moves.items() if move.job != job or not move.ends <= ends}
        self._moves[id] = JobMove(job=job, began_ns=document.at_ns, ends=ends)
