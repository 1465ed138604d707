"""training: the iterations of a job, the moves of its light, and what waited for them; and what its ranks had for each
other. From the records, no I/O.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hwd.jobs.verification.recorded_operations import Key, operations_of
from hwd.model.job import JobEvent, JobRecord
from hwd.model.job_status import JobDemand, JobDemandMatrix, JobIteration, JobMove, JobTraining
from hwd.model.link import Link
from hwd.model.plane import Applied, Fallback, Intent, NotReady, Prepare, Switch
from hwd.planes.target_rules import FALLBACK
from hwd_agents.wire import Operation, OperationKind


@dataclass(slots=True, kw_only=True)
class _Together:
    """One operation of all its ranks, in ns of the daemon's clock. `asked_ns`: when the last one had come."""

    operation: Operation
    asked_ns: int
    granted_ns: int | None = None
    began_ns: int | None = None
    over_ns: int | None = None
    sent: dict[int, Operation] = field(default_factory=dict)

    @property
    def held_s(self) -> float:
        """How long it waited for its plane, once all its ranks had come."""
        return 0.0 if self.granted_ns is None else max(0, self.granted_ns - self.asked_ns) / 1e9


@dataclass(slots=True, kw_only=True)
class _Move:
    target: str
    began_ns: int
    links: int | None
    over_ns: int | None = None
    reconfiguration: str = ""
    ports: frozenset[str] = frozenset()
    """The ports of the region that moves; empty: all of the job."""
    why: str = ""
    held_by: list[_Together] = field(default_factory=list)


def training(record: JobRecord, events: Sequence[JobEvent]) -> JobTraining:
    """Operations that say no iteration count in none; each move counts."""
    together = _together(events)
    by_iteration: defaultdict[int, list[_Together]] = defaultdict(list)
    for one in together.values():
        if one.operation.iteration is not None and one.began_ns is not None:
            by_iteration[one.operation.iteration].append(one)
    begins = {number: min(one.began_ns or 0 for one in some) for number, some in by_iteration.items()}
    iterations = []
    for number, some in sorted(by_iteration.items()):
        ends = [one.over_ns for one in some if one.over_ns is not None]
        end_ns = begins.get(number + 1, max(ends, default=None) if len(ends) == len(some) else None)
        iterations.append(
            JobIteration(
                iteration=number,
                seconds=None if end_ns is None else (end_ns - begins[number]) / 1e9,
                operations=len(some),
                held_s=sum(one.held_s for one in some),
            )
        )
    return JobTraining(
        job=record.id,
        entry=record.entry,
        plane=record.plane_text,
        state=record.state,
        iterations=iterations,
        moves=[_moved(move, events[0].at_ns) for move in _moves(record, events, together)] if events else [],
    )


def demand(
    record: JobRecord, events: Sequence[JobEvent], *, iteration: int | None = None, layer: int | None = None
) -> JobDemand:
    """The demand of each all-to-all between hosts, as its ranks said it: all parts are equal where they did not."""
    hosts = [*dict.fromkeys(rank.host for rank in record.ranks)]
    place = {host: n for n, host in enumerate(hosts)}
    matrices = []
    for one in _together(events).values():
        operation = one.operation
        if operation.kind is not OperationKind.ALL_TO_ALL or operation.peer is not None:
            continue
        if iteration not in (None, operation.iteration) or layer not in (None, operation.layer):
            continue
        ranks = record.groups[operation.group]
        size_bytes = [[0] * len(hosts) for _ in hosts]
        for rank, said in one.sent.items():
            parts = said.parts or (said.size_bytes // len(ranks),) * len(ranks)
            for other, part in zip(ranks, parts, strict=False):
                here, there = record.ranks[rank].host, record.ranks[other].host
                if here != there:
                    size_bytes[place[here]][place[there]] += part
        matrices.append(
            JobDemandMatrix(
                group=operation.group,
                index=operation.index,
                iteration=operation.iteration,
                layer=operation.layer,
                size_bytes=size_bytes,
            )
        )
    return JobDemand(job=record.id, entry=record.entry, hosts=hosts, matrices=matrices)


def _together(events: Iterable[JobEvent]) -> dict[Key, _Together]:
    """The operations that ranks make together, in the order in which the first rank came to each."""
    events = [*events]
    found: dict[Key, _Together] = {}
    for event in events:
        if isinstance(plane_event := event.plane_event, Intent):
            key = plane_event.operation.shared(plane_event.rank)
            one = found.setdefault(key, _Together(operation=plane_event.operation, asked_ns=event.at_ns))
            one.asked_ns = max(one.asked_ns, event.at_ns)
            one.sent[plane_event.rank] = plane_event.operation
    for begun in operations_of(events).all:
        one = found[begun.shared]
        one.granted_ns = max(one.granted_ns or 0, begun.granted_ns)
        one.began_ns = begun.began_ns if one.began_ns is None else min(one.began_ns, begun.began_ns)
        if begun.over_ns is not None:
            one.over_ns = max(one.over_ns or 0, begun.over_ns)
    return found


def _moves(record: JobRecord, events: Iterable[JobEvent], together: Mapping[Key, _Together]) -> list[_Move]:
    """The moves of light, each with the operations that all ranks had come to while it was under way, and that went
    after it, of ranks that can send over ports of its region.
    """
    links: dict[str, frozenset[Link]] = {}
    lit: frozenset[Link] | None = frozenset()
    found: list[_Move] = []
    under_way: dict[str, _Move] = {}
    for event in events:
        plane_event = event.plane_event
        if isinstance(plane_event, Applied | NotReady):
            new = links.get(plane_event.target) if isinstance(plane_event, Applied) else frozenset[Link]()
            kept = _elsewhere(lit, event.ports)
            lit = None if new is None or kept is None else kept | new
            if (move := under_way.pop(plane_event.target, None)) is not None:
                move.over_ns = event.at_ns
                move.reconfiguration = event.reconfiguration
                move.ports = frozenset(event.ports)
                move.why = plane_event.why if isinstance(plane_event, NotReady) else ""
        for action in event.plane_actions:
            if isinstance(action, Prepare):
                links[action.id] = frozenset(action.target.links)
            elif isinstance(action, Switch | Fallback):
                target = action.target if isinstance(action, Switch) else FALLBACK
                count = None if lit is None or target not in links else len(links[target] - lit)
                under_way[target] = _Move(target=target, began_ns=event.at_ns, links=count)
                found.append(under_way[target])
    for one in together.values():
        if one.granted_ns is None:
            continue
        own = frozenset(port for rank in one.sent for port in record.ranks[rank].optical)
        for move in found:
            if move.over_ns is None or not one.asked_ns < move.over_ns <= one.granted_ns:
                continue
            if not move.ports or move.ports & own:
                move.held_by.append(one)
    return found


def _elsewhere(lit: frozenset[Link] | None, ports: Collection[str]) -> frozenset[Link] | None:
    """The links that stay when these ports, or all of the job (empty), go to another target; None: nobody knows."""
    if not ports:
        return frozenset()
    return None if lit is None else frozenset(link for link in lit if not {*link.ends} & {*ports})


def _moved(move: _Move, first_ns: int) -> JobMove:
    held = [(move.over_ns or 0) - max(one.asked_ns, move.began_ns) for one in move.held_by]
    last = max(move.held_by, key=lambda one: (move.over_ns or 0) - one.asked_ns, default=None)
    return JobMove(
        target=move.target,
        reconfiguration=move.reconfiguration,
        at_s=(move.began_ns - first_ns) / 1e9,
        seconds=None if move.over_ns is None else (move.over_ns - move.began_ns) / 1e9,
        links=move.links,
        held_s=max(held, default=0) / 1e9,
        held="" if last is None else str(last.operation),
        why=move.why,
    )
