"""What the NIC ports of a host counted during operations, and between them, against what was said."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hwd.jobs.verification.busy_times import BusyTime, busy_times, counted_between, latest
from hwd.jobs.verification.recorded_operations import RecordedOperation
from hwd_agents.wire import OperationKind, PortBytes

STRAY_BYTES: Final = 65536
"""What hosts say to each other beside operations: address resolution, probes of readiness, ends of TCP connections."""
VOLUMES: Final = 4
"""An operation brings a host up to so many times its tensor: a ring all-reduce receives less than 2, and sends as
much.
"""


Key = tuple[str | int, ...]
"""`Operation.shared`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Bytes that an operation brings a host at least, over these of its NIC ports: without the host."""

    ports: frozenset[str]
    least_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`is_known` False: it cannot be shown from the records, which is no breach."""

    what: str
    operation: RecordedOperation
    is_known: bool = True


def least_received(kind: OperationKind, size_bytes: int, ranks: int, here: int) -> int:
    """Bytes that a host receives at least in an operation of `ranks` ranks, of which it has `here`, whatever the
    algorithm: what its ranks have in the end and did not have before. `size_bytes` is the whole tensor: all parts of an
    all-gather, all that a rank sends in an all-to-all.
    """
    away = ranks - here
    if away <= 0:
        return 0
    match kind:
        case OperationKind.ALL_REDUCE | OperationKind.RECEIVE:
            return size_bytes
        case OperationKind.ALL_GATHER:
            return size_bytes * away // ranks
        case OperationKind.REDUCE_SCATTER:
            return size_bytes * here // ranks
        case OperationKind.ALL_TO_ALL:
            return size_bytes * here * away // ranks
    return 0  # one of them has it before, or at the end alone: which one is not recorded


def judge(
    host: str,
    operations: Iterable[RecordedOperation],
    *,
    ways: Mapping[RecordedOperation, frozenset[str]],
    needs: Mapping[Key, Sequence[Need]],
    optical: frozenset[str],
    others: Sequence[RecordedOperation],
) -> Iterator[Finding]:
    """`operations`: of the ranks of a host that have ended. `ways`: the NIC ports that each may use, without the host;
    `needs`: what the host must receive, by `Operation.shared`: once for all its ranks. `optical`: of the host.
    `others`: all of the job.
    """
    before: BusyTime | None = None
    in_order = sorted(others, key=lambda one: one.began_ns)
    for busy in busy_times(operations):
        last = busy.last
        earlier = before.last.sent.after if before is not None and before.last.sent is not None else {}
        start = latest(busy.start, earlier)
        end = last.sent.after if last.sent is not None else {}
        if not start or not end:
            yield Finding(what=f"the bytes of {host} were not counted", operation=last, is_known=False)
        elif (counted := counted_between(start, end)) is None:
            yield Finding(what=f"the counters of {host} began anew", operation=last, is_known=False)
        else:
            yield from _judge_busy(host, busy, counted, ways, needs, optical)
        if before is not None:
            yield from _judge_between(host, before, busy, optical, in_order)
        before = busy


def _judge_busy(
    host: str,
    busy: BusyTime,
    counted: Mapping[str, PortBytes],
    ways: Mapping[RecordedOperation, frozenset[str]],
    needs: Mapping[Key, Sequence[Need]],
    optical: frozenset[str],
) -> Iterator[Finding]:
    way = frozenset[str]().union(*(ways[one] for one in busy.operations))
    if missing := way - counted.keys():
        what = f"the bytes of {', '.join(f'{host}.{port}' for port in sorted(missing))} were not counted"
        yield Finding(what=what, operation=busy.last, is_known=False)
        return
    all_needs = [one for shared in dict.fromkeys(map(_shared, busy.operations)) for one in needs[shared]]
    for ports in dict.fromkeys(one.ports for one in all_needs):
        need = sum(one.least_bytes for one in all_needs if one.ports <= ports)
        got = sum(counted[port].rx for port in ports)
        if got < need:
            elsewhere = {port: one.rx for port, one in counted.items() if port not in ports and one.rx > 0}
            words = ", ".join(f"{host}.{port} {rx}" for port, rx in sorted(elsewhere.items())) or "none"
            names = ", ".join(f"{host}.{port}" for port in sorted(ports)) or "no port"
            what = (
                f"{host} received {got} bytes over {names}, and the operation brings {need} at least; "
                f"over others: {words}"
            )
            yield Finding(what=what, operation=busy.last)
    for port in sorted((optical & counted.keys()) - way):
        if (stray := counted[port].rx + counted[port].tx) > STRAY_BYTES:
            what = f"{stray} bytes went over {host}.{port}, which is on no light of its target"
            yield Finding(what=what, operation=busy.last)


def _shared(one: RecordedOperation) -> Key:
    return one.operation.shared(one.rank)


def _judge_between(
    host: str, before: BusyTime, after: BusyTime, optical: frozenset[str], others: Sequence[RecordedOperation]
) -> Iterator[Finding]:
    """Nothing of any size goes over light when no rank was let go. Others, which began meanwhile, may still be
    receiving what was sent. `others`: in the order of their begins.
    """
    end, start = before.last.sent, after.start
    if end is None or not start:
        return
    counted = counted_between(end.after, latest(start, end.after))
    if counted is None:
        return  # said where it is in an operation
    from_ns, upto_ns = before.first.began_ns, after.first.began_ns
    first = bisect_left(others, from_ns, key=lambda one: one.began_ns)
    last = bisect_right(others, upto_ns, key=lambda one: one.began_ns)
    near: dict[Key, int] = {}
    for one in others[first:last]:
        size_bytes = one.operation.size_bytes
        if not size_bytes and not one.operation.parts:
            return  # how much they bring was not said
        # ranks whose parts differ may each send another amount, all of it to one host
        near[_shared(one)] = near.get(_shared(one), 0) + size_bytes if one.operation.parts else size_bytes
    most = STRAY_BYTES + VOLUMES * sum(near.values())
    for port in sorted(optical & counted.keys()):
        if (stray := counted[port].rx + counted[port].tx) > most:
            yield Finding(
                what=f"{stray} bytes went over {host}.{port} before it, outside of operations", operation=after.first
            )
