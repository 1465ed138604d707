"""The check of bytes that a host's NIC ports counted during operations, and between them, against what was said."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from hwd.jobs.verification.busy_times import BusyTime, busy_times, counted_of_each, latest
from hwd.jobs.verification.recorded_operations import Key, RecordedOperation
from hwd_agents.wire import OperationKind, PortBytes

STRAY_BYTES: Final = 65536
"""What hosts say to each other beside operations: address resolution, probes of readiness, ends of TCP connections."""
VOLUMES: Final = 4
"""An operation brings a host up to so many times its tensor: a ring all-reduce receives less than 2, and sends as
much.
"""

WRAP_BYTES: Final = 1 << 32
"""Counters of 32 bits, as some NICs have them, begin anew there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Bytes that an operation brings a host at least, over these of its NIC ports: without the host."""

    ports: frozenset[str]
    least_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A finding about an operation; `is_known` False: it cannot be shown from the records, which is no breach."""

    what: str
    operation: RecordedOperation
    is_known: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Span:
    """The bytes that a host counted in a busy time, by NIC port. `most`: from a time on that is surely before anything
    of it can have come, where one is known. `reset_ports`: ports whose counters began anew meanwhile.
    """

    counted: Mapping[str, PortBytes]
    most: Mapping[str, PortBytes]
    reset_ports: Set[str]


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
    resumed: Callable[[int, int], bool],
) -> Iterator[Finding]:
    """`operations`: of the ranks of a host that have ended. `ways`: the NIC ports that each may use, without the host;
    `needs`: what the host must receive, by `Operation.shared`: once for all its ranks. `optical`: of the host.
    `others`: all of the job. `resumed`: whether a daemon went on with the job between two times: a power cut may have
    taken what the one before it let go.
    """
    before: BusyTime | None = None
    in_order = sorted(others, key=lambda one: one.began_ns)
    for busy in busy_times(operations):
        last = busy.last
        end = last.sent.after if last.sent is not None else {}
        start = latest(busy.start, _end(before))
        if not start or not end:
            yield Finding(what=f"the bytes of {host} were not counted", operation=last, is_known=False)
        else:
            counted = counted_of_each(start, end)
            span = _Span(
                counted=counted,
                most=counted_of_each(_start_in_time(busy, before, resumed), end),
                reset_ports=(start.keys() & end.keys()) - counted.keys() | busy.reset_ports,
            )
            yield from _judge_busy(host, busy, span, ways, needs, optical)
        if before is not None:
            yield from _judge_between(host, before, busy, optical, in_order)
        before = busy


def _end(busy: BusyTime | None) -> Mapping[str, PortBytes]:
    return busy.last.sent.after if busy is not None and busy.last.sent is not None else {}


def _start_in_time(
    busy: BusyTime, before: BusyTime | None, resumed: Callable[[int, int], bool]
) -> Mapping[str, PortBytes]:
    """The latest reading before anything of a busy time can have come; empty where none is known to be. What an agent
    counted that was started anew may be later, and that of the busy time before may be of a rank that ended late.
    """
    let_go = [one.let_go_ns for one in busy.operations if one.let_go_ns is not None]
    let_go_ns = min(let_go, default=0)
    ended_ns = before.last.ended_ns if before is not None else None
    if resumed(ended_ns or 0, let_go_ns):
        return {}
    earlier = _end(before) if ended_ns is not None and ended_ns <= let_go_ns else {}
    if busy.has_start_times:
        return latest(busy.start, earlier)
    return earlier or busy.start


def _judge_busy(
    host: str,
    busy: BusyTime,
    span: _Span,
    ways: Mapping[RecordedOperation, frozenset[str]],
    needs: Mapping[Key, Sequence[Need]],
    optical: frozenset[str],
) -> Iterator[Finding]:
    counted, most = span.counted, span.most
    way = frozenset[str]().union(*(ways[one] for one in busy.operations))
    if way & span.reset_ports:
        yield Finding(what=f"the counters of {host} began anew", operation=busy.last, is_known=False)
        return
    if missing := way - counted.keys():
        what = f"the bytes of {', '.join(f'{host}.{port}' for port in sorted(missing))} were not counted"
        yield Finding(what=what, operation=busy.last, is_known=False)
        return
    all_needs = [one for shared in dict.fromkeys(one.shared for one in busy.operations) for one in needs[shared]]
    for ports in dict.fromkeys(one.ports for one in all_needs):
        need = sum(one.least_bytes for one in all_needs if one.ports <= ports)
        if sum(counted[port].rx for port in ports) >= need:
            continue
        if not most.keys() >= ports:
            what = f"whether all bytes came that operations bring: {host} was first counted when some may have come"
            yield Finding(what=what, operation=busy.last, is_known=False)
        elif (got := sum(most[port].rx for port in ports)) < need:
            elsewhere = {port: one.rx for port, one in most.items() if port not in ports and one.rx > 0}
            if _may_have_wrapped(busy, ports, need - got - sum(elsewhere.values())):
                what = f"the counters of {host} may have begun anew at {WRAP_BYTES} bytes"
                yield Finding(what=what, operation=busy.last, is_known=False)
                continue
            words = ", ".join(f"{host}.{port} {rx}" for port, rx in sorted(elsewhere.items())) or "none"
            names = ", ".join(f"{host}.{port}" for port in sorted(ports)) or "no port"
            what = (
                f"{host} received {got} bytes over {names}, and the operation brings {need} at least; "
                f"over others: {words}"
            )
            yield Finding(what=what, operation=busy.last)
    for port in sorted((optical & counted.keys()) - way - span.reset_ports):
        if (stray := counted[port].rx + counted[port].tx) > STRAY_BYTES:
            if busy.start:
                what = f"{stray} bytes went over {host}.{port}, which is on no light of its target"
            else:
                what = f"whether bytes went over {host}.{port}, which is on no light of its target, or did so before"
            yield Finding(what=what, operation=busy.last, is_known=bool(busy.start))


def _may_have_wrapped(busy: BusyTime, ports: Iterable[str], lacking_bytes: int) -> bool:
    """Whether counters of 32 bits explain what lacks: operations may bring as much as these count, and no port has
    ever counted more.
    """
    sent = busy.last.sent
    brought = sum(one.operation.size_bytes for one in busy.operations)
    if sent is None or lacking_bytes <= 0 or VOLUMES * brought < WRAP_BYTES:
        return False
    return any(port in sent.after and sent.after[port].rx < WRAP_BYTES for port in ports)


def _judge_between(
    host: str, before: BusyTime, after: BusyTime, optical: frozenset[str], others: Sequence[RecordedOperation]
) -> Iterator[Finding]:
    """Nothing of any size goes over light when no rank was let go. Others, which began meanwhile, may still be
    receiving what was sent. `others`: in the order of their begins.
    """
    end, start = before.last.sent, after.start
    if end is None or not start:
        return
    counted = counted_of_each(end.after, latest(start, end.after))
    from_ns, upto_ns = before.first.began_ns, after.first.began_ns
    first = bisect_left(others, from_ns, key=lambda one: one.began_ns)
    last = bisect_right(others, upto_ns, key=lambda one: one.began_ns)
    near: dict[Key, int] = {}
    for one in others[first:last]:
        size_bytes = one.operation.size_bytes
        if not size_bytes and not one.operation.parts:
            return  # how much they bring was not said
        # ranks whose parts differ may each send another amount, all of it to one host
        near[one.shared] = near.get(one.shared, 0) + size_bytes if one.operation.parts else size_bytes
    most = STRAY_BYTES + VOLUMES * sum(near.values())
    for port in sorted(optical & counted.keys()):
        if (stray := counted[port].rx + counted[port].tx) > most:
            yield Finding(
                what=f"{stray} bytes went over {host}.{port} before it, outside of operations", operation=after.first
            )
