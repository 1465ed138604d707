"""Primitives: the operations of a job, each once for all its ranks, and those that counters cannot tell apart."""

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hwd.jobs.efficiency.host_counts import ForwardedBytes, HostCount, HostCounts
from hwd.jobs.verification.busy_times import NEVER_NS
from hwd.jobs.verification.counted_bytes import least_received
from hwd.jobs.verification.recorded_operations import Key, RecordedOperation
from hwd.model.job import JobRecord
from hwd_agents.wire import OperationKind

PAIR: Final = "point-to-point"
"""The kind of a send and its receive together."""


def effective_bytes(kind: OperationKind, size_bytes: int, here: Collection[int]) -> int:
    """What an operation brings that its ranks can go on with: what each of its hosts has in the end and did not have
    before (equation 2). `here`: how many of its ranks each host has. `size_bytes` as in `Operation`.

    Of an all-to-all each part counts: k_r of the paper is in the size of a dispatch, and a combine is not known as one.
    """
    match kind:
        case OperationKind.BROADCAST:
            return size_bytes * (len(here) - 1)
        case OperationKind.REDUCE:
            return size_bytes if len(here) > 1 else 0
        case OperationKind.GATHER | OperationKind.SCATTER:  # which host has all is not recorded: the largest one
            return size_bytes * (sum(here) - max(here)) // sum(here)
    return sum(least_received(kind, size_bytes, sum(here), one) for one in here)


@dataclass(slots=True, kw_only=True)
class Primitive:
    """One operation of all its ranks. `hosts`: of its ranks, in their order; `here`: how many ranks each host has."""

    kind: str
    phase: str
    hosts: Mapping[int, str]
    here: Mapping[str, int]
    operations: list[RecordedOperation] = field(default_factory=list)

    @property
    def began_ns(self) -> int:
        return min(one.began_ns for one in self.operations)

    @property
    def over_ns(self) -> int:
        return max(NEVER_NS if one.over_ns is None else one.over_ns for one in self.operations)

    @property
    def effective_bytes(self) -> int:
        operation = self.operations[0].operation
        if operation.peer is not None:
            return sum(one.operation.size_bytes for one in self.operations if one.operation.kind == "receive")
        if operation.parts:
            return sum(
                size_bytes
                for one in self.operations
                for host, size_bytes in zip(self.hosts.values(), one.operation.parts, strict=False)
                if host != self.hosts[one.rank]
            )
        return effective_bytes(operation.kind, operation.size_bytes, self.here.values())

    @property
    def problem(self) -> str:
        """Why the primitive cannot be counted; empty where it can."""
        if len(self.operations) < sum(self.here.values()) or any(one.over_ns is None for one in self.operations):
            return "operations have not ended on all their ranks"
        if any(one.sent is None or one.sent.began_ns is None for one in self.operations):
            return "the begin or the end of operations was not measured"
        operation = self.operations[0].operation
        has_size = operation.size_bytes or operation.parts or operation.kind is OperationKind.BARRIER
        if not has_size:
            return "the size of operations was not said: `size_bytes` of `rank.operation`"
        return ""


@dataclass(slots=True, kw_only=True)
class Together:
    """Primitives that cannot be told apart by counters, with what was counted for all of them; `why`: why that is not
    known.
    """

    primitives: list[Primitive] = field(default_factory=list)
    received_bytes: int = 0
    forwarded_bytes: int = 0
    why: str = ""

    @property
    def effective_bytes(self) -> int:
        return sum(one.effective_bytes for one in self.primitives)

    def fail(self, why: str) -> None:
        self.why = self.why or why


def primitives_of(record: JobRecord, operations: Iterable[RecordedOperation]) -> dict[Key, Primitive]:
    """Those between hosts: what ranks of one host give each other goes over no port."""
    found: dict[Key, Primitive] = {}
    for one in operations:
        operation = one.operation
        members = operation.ranks(one.rank, record.groups[operation.group])
        hosts = {rank: record.ranks[rank].host for rank in members}
        here = Counter(hosts.values())
        if len(here) < 2:
            continue
        if (key := one.shared) not in found:
            found[key] = Primitive(
                kind=str(operation.kind) if operation.peer is None else PAIR,
                phase=record.dimensions.get(operation.group) or operation.group,
                hosts=hosts,
                here=here,
            )
        found[key].operations.append(one)
    return found


def together(primitives: Mapping[Key, Primitive], hosts: Iterable[HostCounts]) -> list[Together]:
    """Join primitives that are busy on one host at one time and so share its counters, and all that are under way while
    a host passes something on.
    """
    counted: list[HostCount] = []
    passed: list[ForwardedBytes] = []
    for host in hosts:
        counted += host.counted
        passed += host.passed
    key_of = {one: key for key, primitive in primitives.items() for one in primitive.operations}
    joined = _KeySets(primitives)
    for busy in counted:
        joined.join(key_of[one] for one in busy.operations)
    under_way = _PrimitiveFinder(primitives)
    ways: list[tuple[Key, ForwardedBytes]] = []
    for way in passed:
        but = {key_of[one] for one in way.next}
        keys = [key for key in under_way.keys_between(way.from_ns, way.upto_ns) if key not in but]
        if keys := keys or [key_of[one] for one in way.before]:
            joined.join(keys)
            ways.append((keys[0], way))
    found: defaultdict[Key, Together] = defaultdict(Together)
    for key, primitive in primitives.items():
        found[joined.of(key)].primitives.append(primitive)
        found[joined.of(key)].fail(primitive.problem)
    for busy in counted:
        one_of = found[joined.of(key_of[busy.operations[0]])]
        one_of.received_bytes += busy.received_bytes
        one_of.forwarded_bytes += busy.arrived_bytes
        one_of.fail(busy.why)
    for key, way in ways:
        found[joined.of(key)].forwarded_bytes += way.bytes
        found[joined.of(key)].fail(way.why)
    for one_of in found.values():
        if one_of.forwarded_bytes < one_of.effective_bytes:
            one_of.fail("fewer bytes arrived at the ports of the job than operations bring: they went another way")
    return [*found.values()]


class _PrimitiveFinder:
    """Finds the primitives of a time."""

    def __init__(self, primitives: Mapping[Key, Primitive]) -> None:
        times = [(one.began_ns, one.over_ns, key) for key, one in primitives.items()]
        self._endless = [(began_ns, key) for began_ns, over_ns, key in times if over_ns == NEVER_NS]
        self._in_order = sorted((one for one in times if one[1] < NEVER_NS), key=_began)
        self._longest_ns = max((over_ns - began_ns for began_ns, over_ns, _ in self._in_order), default=0)

    def keys_between(self, from_ns: int, upto_ns: int) -> list[Key]:
        first = bisect_right(self._in_order, from_ns - self._longest_ns, key=_began)
        last = bisect_left(self._in_order, upto_ns, key=_began)
        found = [key for _, over_ns, key in self._in_order[first:last] if over_ns > from_ns]
        return found + [key for began_ns, key in self._endless if began_ns < upto_ns]


def _began(one: tuple[int, int, Key]) -> int:
    return one[0]


class _KeySets:
    """Sets of keys that grow together."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self._up = {key: key for key in keys}

    def of(self, key: Key) -> Key:
        """The key that stands for its set."""
        while (up := self._up[key]) != key:
            self._up[key] = key = self._up[up]
        return key

    def join(self, keys: Iterable[Key]) -> None:
        first, *others = map(self.of, keys)
        for other in others:
            self._up[self.of(other)] = self.of(first)
