"""AnnouncedDemand: the bytes between hosts that the ranks of a job have announced, as a plane is told of them.

demand = AnnouncedDemand(job, every_s=1.0)
demand.take(event, at_s=12.0)         # everything that the plane is told
demand.due(at_s=13.0)                 # the next Demand, None where it is not time, or nobody announced anything
"""

from collections import Counter

from hwd.model.plane import Demand, Event, Intent, Job
from hwd_agents.wire import Operation, OperationKind


class AnnouncedDemand:
    """The demand from host to host whatever the algorithm: of each operation the parts that each rank has for each
    other one. All parts of a collective operation are taken to be equal, but where an all-to-all says its parts. A
    broadcast, a reduce, a gather and a scatter count nothing, since nobody says which rank is the one, and so does an
    operation without a size.
    """

    def __init__(self, job: Job, *, every_s: float) -> None:
        self._every_s = every_s
        self._hosts = {rank.number: rank.host for rank in job.ranks}
        self._groups = job.groups
        self._members = {
            name: (len(group.ranks), Counter(self._hosts[rank] for rank in group.ranks))
            for name, group in job.groups.items()
        }
        """By group: how many ranks it has, in all and by host."""
        self._bytes: dict[tuple[str, str], float] = {}
        self._announced_s = 0.0

    def take(self, event: Event, *, at_s: float) -> None:
        """The plane was told this."""
        match event:
            case Intent(rank=rank, operation=operation):
                self._count(self._hosts[rank], operation)
            case Demand():
                self._bytes, self._announced_s = {}, at_s

    def due(self, *, at_s: float) -> Demand | None:
        if not self._bytes or at_s - self._announced_s < self._every_s:
            return None
        return Demand(bytes_between=dict(self._bytes))

    def _count(self, host: str, operation: Operation) -> None:
        size_bytes = operation.size_bytes
        if operation.peer is not None:
            if operation.kind is OperationKind.SEND:
                self._add(host, self._hosts[operation.peer], size_bytes)
            return
        if operation.parts:
            for rank, size_bytes in zip(self._groups[operation.group].ranks, operation.parts, strict=True):
                self._add(host, self._hosts[rank], size_bytes)
            return
        ranks, by_host = self._members[operation.group]
        for other, count in by_host.items():
            self._add(host, other, _parts(operation.kind) * size_bytes * count / ranks)

    def _add(self, host: str, other: str, size_bytes: float) -> None:
        if host != other and size_bytes:
            self._bytes[host, other] = self._bytes.get((host, other), 0.0) + size_bytes


def _parts(kind: OperationKind) -> int:
    """How often each rank has a part for each other one."""
    match kind:
        case OperationKind.ALL_REDUCE:
            return 2  # a part to add, and a part of the sum
        case OperationKind.ALL_GATHER | OperationKind.REDUCE_SCATTER | OperationKind.ALL_TO_ALL:
            return 1
    return 0
