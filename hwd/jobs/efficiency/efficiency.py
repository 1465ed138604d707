"""Efficiency of a job: how much of its network's capacity became data that its ranks go on with.

eta = gamma x delta x theta, after Ye et al., Switching Efficiency: A Novel Framework for Dissecting AI Data Center
Network Efficiency, section III. No I/O.

| gamma | effective bytes / received bytes: what is received and thrown away after a reduction makes it less |
| delta | received bytes / forwarded bytes: 1 / how often a byte is forwarded |
| theta | forwarded bytes / capacity: the rates of all ports that forward, times the time |

**The network of a job** are the NIC ports of its ranks. A byte that arrives over light was forwarded once, by the NIC
port that sent it; one that arrives over a packet switch was forwarded once by that; an optical switch forwards nothing.
So the bytes forwarded are those that arrive at NIC ports, each port's egress has the rate of its link, and what a host
passes on to another one arrives twice. Bytes are the kernel's, of whole frames.

**A participant is a host:** what its ranks give each other goes over no port. With a rank a host it is the paper's.

**A phase** is what the paper calls the communication of one dimension of parallelism: all groups of a job that have the
same `dimension`; a group without one is a phase of its own.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final, Literal

from hwd.jobs.efficiency.host_counts import NAMED, HostCounts
from hwd.jobs.efficiency.primitives import Primitive, Together, primitives_of, together
from hwd.jobs.verification.recorded_operations import RecordedOperation
from hwd.model.job import JobRecord
from hwd.model.job_status import JobEfficiency, JobEfficiencyRow
from hwd.model.plural import plural
from hwd_drivers.core.values import natural_key

BYTES_IN_MBIT: Final = 125_000


def efficiency(
    record: JobRecord, operations: Iterable[RecordedOperation], *, clock_broke: bool = False
) -> JobEfficiency:
    """The efficiency of the whole job, each of its phases and each kind of operation, over these operations.

    Operations of one host that overlap in time share its counters, and so do all that another host may pass on at the
    same time. They count together: for the job, and for a phase or a kind where all of them are of it. Operations whose
    bytes are not known are left out of all, with those that they overlap. `clock_broke`: times do not compare.
    """
    return _Job(record, operations, clock_broke=clock_broke).result()


class _Job:
    def __init__(self, record: JobRecord, operations: Iterable[RecordedOperation], *, clock_broke: bool) -> None:
        self._record = record
        primitives = primitives_of(record, operations)
        self._primitives = [*primitives.values()]
        if clock_broke:
            why = "the daemon's machine was started anew under it: times before and after do not compare"
            self._together = [Together(primitives=[one], why=why) for one in self._primitives]
        else:
            self._together = together(primitives, self._hosts())

    def result(self) -> JobEfficiency:
        record, left_out = self._record, dict[str, int]()
        for one in self._together:
            if one.why:
                left_out[one.why] = left_out.get(one.why, 0) + len(one.primitives)
        rows = [self._row("job", record.entry, self._primitives)]
        for phase in dict.fromkeys(one.phase for one in self._primitives):
            rows.append(self._row("phase", phase, [one for one in self._primitives if one.phase == phase]))
        for kind in dict.fromkeys(one.kind for one in self._primitives):
            rows.append(self._row("kind", kind, [one for one in self._primitives if one.kind == kind]))
        return JobEfficiency(
            job=record.id,
            entry=record.entry,
            state=record.state,
            operations=len(self._primitives),
            rows=rows,
            unshown=[f"{why}: {plural(count, 'operation')}" for why, count in left_out.items()],
        )

    def _row(
        self, scope: Literal["job", "phase", "kind"], name: str, all_of_it: Sequence[Primitive]
    ) -> JobEfficiencyRow:
        ids = {id(one) for one in all_of_it}
        near = [one for one in self._together if not ids.isdisjoint(map(id, one.primitives))]
        mine = [one for one in near if not one.why and ids.issuperset(map(id, one.primitives))]
        primitives = [one for all_of_them in mine for one in all_of_them.primitives]
        seconds = _busy_s(primitives)
        effective = sum(one.effective_bytes for one in mine)
        received = sum(one.received_bytes for one in mine)
        forwarded = sum(one.forwarded_bytes for one in mine)
        capacity = None if self._rate_why else seconds * self._rate_bytes_s
        why = self._rate_why
        if not near:
            why = "no operation between hosts was recorded: its shim asks nobody, or no rank was let go"
        elif not mine:
            why = next((one.why for one in near if one.why), "its operations overlapped others: they count for the job")
        elif not received:
            why = "no byte was received"
        return JobEfficiencyRow(
            scope=scope,
            name=name,
            operations=len(primitives),
            left_out=len(all_of_it) - len(primitives),
            seconds=seconds,
            effective_bytes=effective,
            received_bytes=received,
            forwarded_bytes=forwarded,
            capacity_bytes=capacity,
            gamma=_ratio(effective, received),
            delta=_ratio(received, forwarded),
            theta=_ratio(forwarded, capacity) if received else None,
            eta=_ratio(effective, capacity) if received else None,
            why=why,
        )

    # --- the network of the job

    def _hosts(self) -> list[HostCounts]:
        record, found = self._record, dict[str, HostCounts]()
        on = {port: record.packet_switches.get(port, port) for rank in record.ranks for port in rank.electrical}
        switches = sorted({*on.values()}, key=natural_key)
        by_host: defaultdict[str, list[RecordedOperation]] = defaultdict(list)
        for primitive in self._primitives:
            for one in primitive.operations:
                by_host[record.ranks[one.rank].host].append(one)
        for host, operations in by_host.items():
            ranks = [rank for rank in record.ranks if rank.host == host]
            found[host] = HostCounts(
                host=host,
                ports=frozenset(_port(port) for rank in ranks for port in (*rank.optical, *rank.electrical)),
                electrical=frozenset(_port(port) for rank in ranks for port in rank.electrical),
                packet_switches=switches,
            )
            found[host].take(operations)
        return [*found.values()]

    @cached_property
    def _ports(self) -> list[str]:
        """NIC ports of its ranks, each once."""
        ports = {port for rank in self._record.ranks for port in (*rank.optical, *rank.electrical)}
        return sorted(ports, key=natural_key)

    @cached_property
    def _rate_why(self) -> str:
        """Why its capacity is not known; empty where it is."""
        if not self._ports:
            return "its ranks have no NIC ports"
        if missing := [port for port in self._ports if port not in self._record.rates_mbit_s]:
            names = ", ".join(missing[:NAMED]) + (f" and {len(missing) - NAMED} more" if len(missing) > NAMED else "")
            return f"no rate of {names}: its agent did not read one. State `rate_mbit_s` in the testbed file"
        return ""

    @cached_property
    def _rate_bytes_s(self) -> float:
        return sum(self._record.rates_mbit_s[port] for port in self._ports) * BYTES_IN_MBIT


def _busy_s(primitives: Iterable[Primitive]) -> float:
    """The time in which one of them at least was under way on one of its hosts."""
    total_ns, until_ns = 0, 0
    times = sorted((one.began_ns, one.over_ns or 0) for primitive in primitives for one in primitive.operations)
    for began_ns, over_ns in times:
        total_ns += max(0, over_ns - max(began_ns, until_ns))
        until_ns = max(until_ns, over_ns)
    return total_ns / 1e9


def _ratio(one: float, other: float | None) -> float | None:
    return one / other if other else None


def _port(name: str) -> str:
    return name.partition(".")[2]
