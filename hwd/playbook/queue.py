"""The queue of runs: which run starts next, and what each of the others waits for. No I/O; `Runs` owns it."""

from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from hwd.model.run import RunState, RunStatus
from hwd.playbook.runner import Runner
from hwd.ports.claim import Claim, holder_of
from hwd.ports.ledger import Asker, Ledger
from hwd.ports.rules import PortAction, Reason
from hwd.records.queue_table import QueuedRun
from hwd_drivers.core.errors import RefusedError

QUEUED_MAX = 100
"""The most runs in the queue. Each has up to a megabyte of playbook, and each start or end looks at all of them."""
ITS_TIME = "its due time"
NAMED = 5
"""The most runs that a waiting one names; the rest is a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRun:
    """A run in the queue: its record there, and its runner."""

    queued: QueuedRun
    runner: Runner

    @property
    def id(self) -> str:
        return self.queued.id

    @property
    def ports(self) -> frozenset[str]:
        return self.runner.ports

    @property
    def from_wall_ns(self) -> int:
        """The earliest start: its due time, or when it came."""
        return max(self.queued.queued_wall_ns, self.queued.due_wall_ns or 0)

    @property
    def span_s(self) -> float:
        return self.runner.span_s

    @property
    def due_claim(self) -> Claim | None:
        """Its place in the calendar; None for a run that may start at any time."""
        if self.queued.due_wall_ns is None:
            return None
        return Claim(
            id=self.id,
            reason=Reason.DUE_RUN,
            owner=holder_of(self.id),
            ports=self.ports,
            run=self.id,
            what=self.queued.playbook,
            since_wall_ns=self.queued.due_wall_ns,
            expires_wall_ns=self.queued.due_wall_ns + round(self.span_s * 1e9),
        )

    def status(self, state: RunState, **fields: Any) -> RunStatus:
        """Its state before its first step."""
        status = RunStatus(
            run=self.id,
            playbook=self.queued.playbook,
            state=state,
            steps=self.runner.total_steps,
            queued_wall_ns=self.queued.queued_wall_ns,
            due_wall_ns=self.queued.due_wall_ns,
        )
        return replace(status, **fields)


class Queue:
    """Runs that wait, in the order in which they start: by their earliest start, then by arrival.

    A run starts when it is due, the ledger does not refuse its ports, and no earlier due run has one of them. So a run
    may overtake another one on other ports only, and no run waits for ever.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._waiting: list[WaitingRun] = []

    @property
    def waiting(self) -> tuple[WaitingRun, ...]:
        return tuple(self._waiting)

    def check_calendar(self, waiting: WaitingRun, *, now_wall_ns: int) -> None:
        """Raises RefusedError where its ports are reserved for somebody else at the time of its start, and while a
        reload waits for the end of those who have or want them.

        A reservation whose time has come is about to be a lease, for whose end a run waits.
        """
        for refusal in self._ledger.refusals(Asker(), waiting.ports, PortAction.START, now_wall_ns=now_wall_ns):
            if refusal.claim is not None and refusal.claim.reason is Reason.RELOAD:
                raise RefusedError(str(refusal))
        ends_wall_ns = waiting.from_wall_ns + round(waiting.span_s * 1e9)
        asker = Asker(run=waiting.id, from_wall_ns=waiting.from_wall_ns, until_wall_ns=ends_wall_ns)
        for refusal in self._ledger.refusals(asker, waiting.ports, PortAction.START, now_wall_ns=waiting.from_wall_ns):
            claim = refusal.claim
            if claim is not None and claim.reason is Reason.RESERVATION and claim.since_wall_ns > now_wall_ns:
                raise RefusedError(str(refusal))

    def add(self, waiting: WaitingRun) -> None:
        """Add a run, and its place in the calendar where it has a due time."""
        self._waiting.append(waiting)
        self._waiting.sort(key=lambda one: one.from_wall_ns)  # stable: arrival decides between equals
        if (due := waiting.due_claim) is not None:
            self._ledger.claim(due)

    def check_length(self) -> None:
        """Raises RefusedError where more wait than may."""
        if len(self._waiting) > QUEUED_MAX:
            raise RefusedError(
                f"queue: {QUEUED_MAX} runs wait already, which `hwd queue` lists. Start it when one of them has begun; "
                "who queued one may take it out: `hwd abort RUN`"
            )

    def get(self, id: str) -> WaitingRun | None:
        return next((one for one in self._waiting if one.id == id), None)

    def remove(self, id: str) -> None:
        self._waiting = [one for one in self._waiting if one.id != id]
        self._ledger.release(Reason.DUE_RUN, id)

    def look(self, now_wall_ns: int) -> dict[str, tuple[str, ...]]:
        """What each run waits for, in order; empty where it can start."""
        earlier: dict[str, frozenset[str]] = {}
        waits_for: dict[str, tuple[str, ...]] = {}
        for one in self._waiting:
            if one.from_wall_ns > now_wall_ns:
                waits_for[one.id] = (ITS_TIME,)
                continue
            runs, others = list[str](), list[str]()
            asker = Asker(run=one.id, until_wall_ns=now_wall_ns + round(one.span_s * 1e9))
            for refusal in self._ledger.refusals(asker, one.ports, PortAction.START, now_wall_ns=now_wall_ns):
                if refusal.claim is not None and refusal.claim.reason is Reason.RELOAD:
                    continue  # it was queued before, and the reload waits for it
                if refusal.claim is not None and refusal.claim.reason is Reason.RUN:
                    runs.append(refusal.claim.owner)
                else:
                    others.append(str(refusal))
            runs += [holder_of(run) for run, ports in earlier.items() if ports & one.ports]
            more = [f"{len(runs) - NAMED} more"] if len(runs) > NAMED else []
            waits_for[one.id] = (*runs[:NAMED], *more, *others)
            earlier[one.id] = one.ports
        return waits_for

    def next_wall_ns(self, now_wall_ns: int) -> int | None:
        """When the next run becomes due; None where all are due already."""
        return min((one.from_wall_ns for one in self._waiting if one.from_wall_ns > now_wall_ns), default=None)
