"""Times in which a host was busy with operations, and what its NIC ports counted in them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from hwd.jobs.verification.recorded_operations import Key, RecordedOperation
from hwd_agents.wire import PortBytes

NEVER_NS: Final = 2**63
"""Later than any clock of a daemon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyTime:
    """Operations of one host that overlap, from the first one's begin to the last one's end."""

    operations: tuple[RecordedOperation, ...]

    @property
    def first(self) -> RecordedOperation:
        return min(self.operations, key=lambda one: one.began_ns)

    @property
    def start(self) -> dict[str, PortBytes]:
        """What was counted when the first of them was asked for; empty where one of them does not say it."""
        found: dict[str, PortBytes] = {}
        for one in self.operations:
            if one.sent is None or not one.sent.before:
                return {}
            for port, counted in one.sent.before.items():
                known = found.setdefault(port, counted)
                found[port] = PortBytes(
                    rx=min(known.rx, counted.rx), tx=min(known.tx, counted.tx), interface=known.interface
                )
        return found

    @property
    def has_start_times(self) -> bool:
        """Whether the counters at the start are recorded with the time of their count."""
        return all(one.sent is not None and one.sent.counted_ns is not None for one in self.operations)

    @property
    def reset_ports(self) -> set[str]:
        """NIC ports whose counters began anew while it lasted, as far as its readings show."""
        found: set[str] = set()
        interfaces: dict[str, int] = {}
        for one in self.operations:
            if one.sent is None:
                continue
            before, after = one.sent.before, one.sent.after
            found |= (before.keys() & after.keys()) - counted_of_each(before, after).keys()
            for port, counted in (*before.items(), *after.items()):
                if (
                    counted.interface is not None
                    and interfaces.setdefault(port, counted.interface) != counted.interface
                ):
                    found.add(port)
        return found

    @property
    def last(self) -> RecordedOperation:
        return max(self.operations, key=lambda one: one.over_ns or 0)


def busy_times(operations: Iterable[RecordedOperation]) -> Iterator[BusyTime]:
    """The busy times of operations in the order of their begins. One that has not ended is under way for ever. What
    ranks make together is under way from the first one's begin to the last one's end: a rank that sends for another one
    may end before that begins.
    """
    by_shared: dict[Key, list[RecordedOperation]] = {}
    for one in operations:
        by_shared.setdefault(one.shared, []).append(one)
    together: list[RecordedOperation] = []
    over_ns = 0
    for same in sorted(by_shared.values(), key=_begin):
        if together and _begin(same) > over_ns:
            yield BusyTime(operations=tuple(together))
            together, over_ns = [], 0
        together += same
        over_ns = max(over_ns, *(NEVER_NS if one.over_ns is None else one.over_ns for one in same))
    if together:
        yield BusyTime(operations=tuple(together))


def _begin(same: Iterable[RecordedOperation]) -> int:
    return min(one.began_ns for one in same)


def latest(one: Mapping[str, PortBytes], other: Mapping[str, PortBytes]) -> dict[str, PortBytes]:
    """The later of two readings, `one` where the interface was made anew between them: a rank may ask while others of
    its host still send.
    """
    found = {**other, **one}
    for port in one.keys() & other.keys():
        near, far = one[port], other[port]
        if _is_one(near, far):
            found[port] = PortBytes(rx=max(near.rx, far.rx), tx=max(near.tx, far.tx), interface=near.interface)
    return found


def counted_of_each(before: Mapping[str, PortBytes], after: Mapping[str, PortBytes]) -> dict[str, PortBytes]:
    """What was counted between two readings, without ports whose interface or whose counters began anew."""
    found = {}
    for port in before.keys() & after.keys():
        start, end = before[port], after[port]
        if end.rx >= start.rx and end.tx >= start.tx and _is_one(start, end):
            found[port] = PortBytes(rx=end.rx - start.rx, tx=end.tx - start.tx)
    return found


def counted_between(before: Mapping[str, PortBytes], after: Mapping[str, PortBytes]) -> dict[str, PortBytes] | None:
    """The bytes between two counts, of all ports; None where a port began to count again."""
    found = counted_of_each(before, after)
    return found if found.keys() == before.keys() & after.keys() else None


def _is_one(one: PortBytes, other: PortBytes) -> bool:
    """Whether two counts may be of one interface."""
    return None in (one.interface, other.interface) or one.interface == other.interface
