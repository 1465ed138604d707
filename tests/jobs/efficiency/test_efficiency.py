"""Efficiency of jobs over a played network, whose ports count what algorithms send hop by hop."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from hwd.config.testbed.testbed import load_testbed
from hwd.jobs.efficiency.efficiency import efficiency
from hwd.jobs.efficiency.port_rates import PortRates, packet_switches
from hwd.jobs.efficiency.primitives import effective_bytes
from hwd.jobs.verification.recorded_operations import RecordedOperation
from hwd.model.host import HostBirth, HostEvent
from hwd.model.job import JobRank, JobRecord, JobState, OperationSent
from hwd.model.job_status import JobEfficiency, JobEfficiencyRow
from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Testbed
from hwd_agents.wire import Inventory, IpDatagrams, Operation, OperationKind, PortBytes
from hwd_agents.wire.events import LinkStateData
from hwd_agents.wire.inventory import NicNote
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.devices import registry

from ...texts import event_of
from ..job_record import job_record

MS = 1_000_000
MTU = 1000
"""Of all datagrams of the played network."""
RATE_MBIT_S = 8.0
"""1 byte a microsecond."""
TAKES_MS = 10

Send = tuple[int, int, int]
"""From a host to another one, so many bytes."""
Readings = dict[int, tuple[dict[str, PortBytes], IpDatagrams]]
Change = Callable[[RecordedOperation], RecordedOperation]


def record(hosts: Sequence[int], groups: dict[str, list[int]], **changes: Any) -> JobRecord:
    """A rank on each of these hosts, by number. A host has two NIC ports on light."""
    own = {
        "ranks": [JobRank(host=f"h{n}", optical=[f"h{n}.eth0", f"h{n}.eth1"]) for n in hosts],
        "rates_mbit_s": {f"h{n}.eth{port}": RATE_MBIT_S for n in hosts for port in range(2)},
        "groups": groups,
        "state": JobState.SUCCEEDED,
    }
    return job_record(**own | changes)


@dataclass(slots=True)
class Ring:
    """Hosts in a ring; `eth0` sends clockwise, so that a packet for another one than the next is passed on.

    It plays one operation after the other, and records it as agents measure it.
    """

    record: JobRecord
    hosts: int
    is_meshed: bool = False
    """Each host reaches each other one in one hop."""
    at_ms: int = 100
    counters: dict[str, list[int]] = field(default_factory=dict)
    datagrams: dict[str, list[int]] = field(default_factory=dict)
    operations: list[RecordedOperation] = field(default_factory=list)
    indexes: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for n in range(self.hosts):
            for port in range(3):
                self.counters[f"h{n}.eth{port}"] = [0, 0]
            self.datagrams[f"h{n}"] = [0, 0]

    def send(self, near: int, far: int, size: int) -> None:
        way = [near, far]
        if not self.is_meshed:
            way = [(near + hop) % self.hosts for hop in range((far - near) % self.hosts + 1)]
        for at, (one, other) in enumerate(pairwise(way), start=1):
            self.counters[f"h{one}.eth0"][1] += size
            self.counters[f"h{other}.eth1"][0] += size
            self.datagrams[f"h{other}"][0] += -(-size // MTU)
            if at < len(way) - 1:
                self.datagrams[f"h{other}"][1] += -(-size // MTU)

    def reading(self, host: str) -> tuple[dict[str, PortBytes], IpDatagrams]:
        ports = {
            name.partition(".")[2]: PortBytes(rx=rx, tx=tx)
            for name, (rx, tx) in self.counters.items()
            if name.startswith(f"{host}.")
        }
        received, forwarded = self.datagrams[host]
        return ports, IpDatagrams(received=received, forwarded=forwarded)

    def operate(
        self,
        kind: OperationKind,
        size: int,
        sends: Iterable[Send],
        *,
        group: str = "world",
        takes_ms: int = TAKES_MS,
        late: Iterable[Send] = (),
    ) -> None:
        """`late`: what is sent when the ranks have ended."""
        self.at_once({group: (kind, size, sends)}, takes_ms=takes_ms)
        for one in late:
            self.send(*one)

    def at_once(self, work: dict[str, tuple[OperationKind, int, Iterable[Send]]], *, takes_ms: int = TAKES_MS) -> None:
        """One operation of each of these groups, all at one time."""
        before = self.readings()
        for _, _, sends in work.values():
            for one in sends:
                self.send(*one)
        after = self.readings()
        for group, (kind, size, _) in work.items():
            index = self.indexes[group] = self.indexes.get(group, -1) + 1
            operation = Operation(group=group, kind=kind, index=index, size_bytes=size)
            for rank in self.record.groups[group]:
                self.ended(rank, operation, before, after, takes_ms)
        self.at_ms += takes_ms + 5

    def readings(self) -> Readings:
        """By rank."""
        return {number: self.reading(rank.host) for number, rank in enumerate(self.record.ranks)}

    def ended(
        self, rank: int, operation: Operation, before: Readings, after: Readings, takes_ms: int = TAKES_MS
    ) -> None:
        began_ns = self.at_ms * MS
        self.operations.append(
            RecordedOperation(
                rank=rank,
                operation=operation,
                granted_ns=began_ns,
                ended_ns=began_ns + takes_ms * MS + MS,
                sent=OperationSent(
                    began_ns=began_ns,
                    ended_ns=began_ns + takes_ms * MS,
                    error_ns=0,
                    before=before[rank][0],
                    after=after[rank][0],
                    datagrams_before=before[rank][1],
                    datagrams_after=after[rank][1],
                ),
            )
        )

    @property
    def found(self) -> JobEfficiency:
        return efficiency(self.record, self.operations)


def ring_of(hosts: int, **changes: Any) -> Ring:
    return Ring(record=record(range(hosts), {"world": [*range(hosts)]}, **changes), hosts=hosts)


def row(found: JobEfficiency, scope: str, name: str) -> JobEfficiencyRow:
    (one,) = [one for one in found.rows if (one.scope, one.name) == (scope, name)]
    return one


def assert_product(one: JobEfficiencyRow) -> None:
    assert one.gamma is not None
    assert one.delta is not None
    assert one.theta is not None
    assert one.eta == pytest.approx(one.gamma * one.delta * one.theta, rel=1e-12)


# --- what algorithms send


def ring_reduce(hosts: int, size: int) -> Iterable[Send]:
    """Each round, each host sends one part to the next one; after n - 1 rounds each has the sum of one part."""
    for _ in range(hosts - 1):
        yield from ((host, (host + 1) % hosts, size // hosts) for host in range(hosts))


def ring_all_reduce(hosts: int, size: int) -> Iterable[Send]:
    yield from ring_reduce(hosts, size)
    yield from ring_reduce(hosts, size)  # the sums go round as the parts did


def reduced(hosts: int, times: int = 1, *, parts: int = 10_000, **changes: Any) -> Ring:
    """So many all-reduces, one after the other."""
    ring = ring_of(hosts, **changes)
    for _ in range(times):
        ring.operate(OperationKind.ALL_REDUCE, hosts * parts, ring_all_reduce(hosts, hosts * parts))
    return ring


def each_to_each(hosts: int, size: int) -> Iterable[Send]:
    """Its part to each other one."""
    yield from ((near, far, size // hosts) for near in range(hosts) for far in range(hosts) if near != far)


@pytest.mark.parametrize("hosts", [2, 3, 4, 8, 16])
def test_ring_all_reduce_has_the_data_efficiency_of_its_law(hosts: int) -> None:
    found = reduced(hosts).found
    for one in found.rows:
        assert one.gamma == pytest.approx(hosts / (2 * (hosts - 1)))
        assert one.delta == 1
        assert_product(one)
    capacity_bytes = hosts * 2 * RATE_MBIT_S * 125_000 * TAKES_MS / 1000
    assert found.whole.theta == pytest.approx(2 * (hosts - 1) * hosts * 10_000 / capacity_bytes)
    assert found.unshown == []


@pytest.mark.parametrize("hosts", [2, 3, 5, 9])
def test_parts_that_are_reduced_where_they_arrive_are_received_n_minus_1_times(hosts: int) -> None:
    ring = ring_of(hosts)
    ring.is_meshed = True
    size = hosts * 10_000
    ring.operate(OperationKind.REDUCE_SCATTER, size, each_to_each(hosts, size))
    ring.operate(OperationKind.ALL_GATHER, size, each_to_each(hosts, size))
    found = ring.found
    assert row(found, "kind", "reduce-scatter").gamma == pytest.approx(1 / (hosts - 1))
    assert row(found, "kind", "all-gather").gamma == 1
    assert found.whole.gamma == pytest.approx((1 + (hosts - 1)) / (2 * (hosts - 1)))


@pytest.mark.parametrize("hosts", [2, 4, 8, 15])
def test_all_to_all_of_a_one_way_ring_is_forwarded_half_of_the_ring_on_average(hosts: int) -> None:
    ring = ring_of(hosts)
    size = hosts * 10_000
    ring.operate(OperationKind.ALL_TO_ALL, size, each_to_each(hosts, size))
    found = ring.found.whole
    assert found.gamma == pytest.approx(1, rel=1e-4)
    assert found.delta == pytest.approx(1 / (hosts / 2), rel=1e-4)
    assert_product(found)


def test_what_is_passed_on_after_the_rank_of_a_relay_has_ended_is_of_that_operation() -> None:
    ring = ring_of(3)
    for _ in range(2):
        ring.operate(OperationKind.ALL_TO_ALL, 30_000, each_to_each(3, 30_000), late=[(0, 2, 20_000)])
        ring.operate(OperationKind.ALL_REDUCE, 30_000, ring_all_reduce(3, 30_000))
    found = ring.found
    assert row(found, "kind", "all-reduce").delta == 1
    assert row(found, "kind", "all-to-all").forwarded_bytes == 2 * (3 * 10_000 + 3 * 20_000 + 20_000)


def test_host_outside_of_a_group_that_passes_its_bytes_on_is_seen_in_its_own_counters() -> None:
    ring = Ring(record=record(range(3), {"ends": [0, 2], "all": [0, 1, 2]}), hosts=3)
    ring.operate(OperationKind.ALL_REDUCE, 30_000, ring_all_reduce(3, 30_000), group="all")
    ring.operate(OperationKind.ALL_REDUCE, 20_000, [(0, 2, 20_000), (2, 0, 20_000)], group="ends")
    ring.operate(OperationKind.ALL_REDUCE, 30_000, ring_all_reduce(3, 30_000), group="all")
    found = row(ring.found, "phase", "ends")
    assert (found.received_bytes, found.forwarded_bytes) == (40_000, 60_000)
    assert row(ring.found, "phase", "all").delta == 1


def test_what_a_pair_sends_each_way_is_one_operation_each_and_half_of_one_is_left_out() -> None:
    ring = ring_of(2)
    for sender in (0, 1):
        before = ring.readings()
        ring.send(sender, 1 - sender, 50_000)
        after = ring.readings()
        for rank, kind in ((sender, OperationKind.SEND), (1 - sender, OperationKind.RECEIVE)):
            told = Operation(group="world", kind=kind, index=0, size_bytes=50_000, peer=1 - rank)
            ring.ended(rank, told, before, after)
        assert ring.found.operations == 1 + sender
        assert row(ring.found, "kind", "point-to-point").gamma == ring.found.whole.gamma == 1, "it is received once"
        ring.at_ms += 2 * TAKES_MS
    assert (ring.found.whole.operations, ring.found.whole.effective_bytes) == (2, 100_000)
    ring.operations.pop()  # its other rank has not ended
    whole = ring.found.whole
    assert (whole.operations, whole.left_out, whole.effective_bytes) == (1, 1, 50_000)


@pytest.mark.parametrize(
    ("kind", "here", "wanted"),
    [
        (OperationKind.ALL_REDUCE, [1, 1, 1, 1], 4 * 1200),
        (OperationKind.ALL_GATHER, [1, 1, 1, 1], 1200 * 3),
        (OperationKind.REDUCE_SCATTER, [1, 1, 1, 1], 1200),
        (OperationKind.ALL_TO_ALL, [1, 1, 1, 1], 1200 * 3),
        (OperationKind.BROADCAST, [1, 1, 1, 1], 1200 * 3),
        (OperationKind.REDUCE, [1, 1, 1, 1], 1200),
        (OperationKind.GATHER, [1, 1, 1, 1], 900),
        (OperationKind.SCATTER, [1, 1, 1, 1], 900),
        (OperationKind.BARRIER, [1, 1, 1, 1], 0),
        (OperationKind.ALL_REDUCE, [2, 2], 2 * 1200),
        (OperationKind.ALL_GATHER, [2, 2], 1200),
        (OperationKind.REDUCE_SCATTER, [2, 2], 1200),
        (OperationKind.ALL_TO_ALL, [2, 2], 2 * 1200),
        (OperationKind.GATHER, [2, 2], 600),
        (OperationKind.SCATTER, [1, 3], 300),
        (OperationKind.REDUCE, [4], 0),
        (OperationKind.SCATTER, [4], 0),
    ],
)
def test_effective_bytes_are_those_of_equation_2_between_hosts(
    kind: OperationKind, here: list[int], wanted: int
) -> None:
    assert effective_bytes(kind, 1200, here) == wanted


def test_ranks_of_one_host_count_its_ports_once_and_what_they_give_each_other_is_not_there() -> None:
    ring = Ring(record=record([0, 0, 1, 1], {"world": [0, 1, 2, 3], "tp": [0, 1]}), hosts=2)
    ring.operate(OperationKind.ALL_REDUCE, 40_000, [(0, 1, 40_000), (1, 0, 40_000)])
    ring.operate(OperationKind.ALL_REDUCE, 40_000, [], group="tp")
    found = ring.found
    assert found.operations == 1
    assert (found.whole.gamma, found.whole.delta) == (1, 1)
    assert found.whole.received_bytes == 80_000
    assert found.whole.capacity_bytes == 4 * RATE_MBIT_S * 125_000 * TAKES_MS / 1000


# --- what counters cannot tell apart


BOTH_WAYS = [(0, 1, 10_000), (1, 0, 10_000)]


def overlapped(dimensions: dict[str, str]) -> JobEfficiency:
    """Two groups over the same two hosts, which operate at one time; then one of them alone."""
    ring = Ring(record=record([0, 0, 1, 1], {"a": [0, 2], "b": [1, 3]}, dimensions=dimensions), hosts=2)
    all_reduce = OperationKind.ALL_REDUCE, 10_000, BOTH_WAYS
    ring.at_once({"a": all_reduce, "b": (OperationKind.ALL_GATHER, 20_000, BOTH_WAYS)})
    ring.operate(*all_reduce, group="a")
    return ring.found


def test_operations_that_overlap_on_a_host_count_once_for_the_job_and_for_neither_group() -> None:
    found = overlapped({})
    assert (found.whole.received_bytes, found.whole.effective_bytes) == (60_000, 60_000)
    assert found.whole.seconds == pytest.approx(2 * TAKES_MS / 1000)
    alone, never = row(found, "phase", "a"), row(found, "phase", "b")
    assert (alone.operations, alone.left_out, alone.received_bytes) == (1, 1, 20_000)
    assert (never.operations, never.left_out, never.gamma, never.eta) == (0, 1, None, None)
    assert never.why == "its operations overlapped others: they count for the job"
    assert found.unshown == []


def test_groups_of_one_dimension_are_one_phase_also_where_they_overlap() -> None:
    found = overlapped({"a": "dp", "b": "dp"})
    assert [one.name for one in found.rows if one.scope == "phase"] == ["dp"]
    phase = row(found, "phase", "dp")
    assert (phase.operations, phase.left_out, phase.received_bytes) == (3, 0, 60_000)
    assert row(found, "kind", "all-gather").operations == 0


def test_rank_that_asks_while_another_one_of_its_host_sends_does_not_count_the_bytes_of_that() -> None:
    ring = Ring(record=record([0, 0, 1, 1], {"a": [0, 2], "b": [1, 3]}), hosts=2)
    before = ring.readings()
    ring.operate(OperationKind.ALL_REDUCE, 10_000, BOTH_WAYS, group="a")
    ring.operate(OperationKind.ALL_REDUCE, 10_000, BOTH_WAYS, group="b")
    asked_early = [
        sent(before=before[one.rank][0], datagrams_before=before[one.rank][1])(one)
        for one in ring.operations
        if one.operation.group == "b"
    ]
    ring.operations = [one for one in ring.operations if one.operation.group == "a"] + asked_early
    assert row(ring.found, "phase", "a").received_bytes == 20_000
    assert row(ring.found, "phase", "b").received_bytes == 20_000


def all_reduce_of(one: int, other: int) -> tuple[OperationKind, int, list[Send]]:
    return OperationKind.ALL_REDUCE, 20_000, [(one, other, 20_000), (other, one, 20_000)]


def test_relay_that_operates_itself_cannot_tell_its_own_bytes_from_those_of_others() -> None:
    ring = Ring(record=record(range(4), {"a": [0, 2], "b": [1, 3]}), hosts=4)
    ring.at_once({"a": all_reduce_of(0, 2), "b": all_reduce_of(1, 3)})
    found = ring.found
    assert (found.whole.operations, found.whole.delta) == (2, 0.5)
    assert [row(found, "phase", phase).operations for phase in "ab"] == [0, 0]


def with_a_relay(change: Change = lambda one: one) -> JobEfficiency:
    """Host 1 operates before and after two groups at one time, of which it passes bytes on for one, which is odd."""
    ring = Ring(record=record(range(5), {"a": [0, 2], "c": [3, 4], "m": [1, 3]}), hosts=5)
    ring.operate(*all_reduce_of(1, 3), group="m")
    ring.at_once({"a": (OperationKind.BROADCAST, 20_000, [(0, 2, 20_000)]), "c": all_reduce_of(3, 4)})
    ring.operate(*all_reduce_of(1, 3), group="m")
    ring.operations = [change(one) if one.operation.group == "a" else one for one in ring.operations]
    return ring.found


def test_what_a_relay_passes_on_between_its_own_operations_may_be_of_each_that_is_under_way() -> None:
    found = with_a_relay()
    assert found.unshown == []
    assert [row(found, "phase", phase).operations for phase in "ac"] == [0, 0]
    found = with_a_relay(of(sent=None, ended_ns=None))
    assert found.unshown[0].startswith("operations have not ended on all their ranks: ")
    assert row(found, "phase", "c").operations == 0


def test_what_is_passed_on_late_is_not_of_the_next_operation_which_others_have_begun_a_little_earlier() -> None:
    ring = ring_of(3)
    ring.operate(OperationKind.ALL_TO_ALL, 30_000, each_to_each(3, 30_000), late=[(0, 2, 20_000)])
    ring.at_ms -= 2
    ring.operate(OperationKind.ALL_REDUCE, 30_000, ring_all_reduce(3, 30_000))
    last = [one for one in ring.operations if one.operation.kind is OperationKind.ALL_REDUCE and one.rank == 1]
    later = [sent(began_ns=one.sent.began_ns + 3 * MS)(one) for one in last if one.sent and one.sent.began_ns]
    ring.operations = [one for one in ring.operations if one not in last] + later
    assert row(ring.found, "kind", "all-reduce").delta == 1
    assert row(ring.found, "kind", "all-to-all").forwarded_bytes == 3 * 10_000 + 3 * 20_000 + 20_000


@pytest.mark.parametrize("size", [0, 10_000])
def test_datagram_that_came_before_a_reading_and_is_passed_on_after_it_is_no_error(size: int) -> None:
    ring = Ring(record=record([0, 1], {"world": [0, 1]}), hosts=2)
    ring.operate(OperationKind.ALL_REDUCE, 10_000, BOTH_WAYS)
    ring.datagrams["h0"][1] += 1
    ring.counters["h0.eth1"][0] += size
    ring.operate(OperationKind.ALL_REDUCE, 10_000, BOTH_WAYS)
    assert row(ring.found, "phase", "world").received_bytes == 2 * 20_000


def test_rank_that_sends_for_ever_leaves_out_what_others_of_its_host_do_later() -> None:
    ring = Ring(record=record([0, 0, 1, 1], {"a": [0, 2], "b": [1, 3]}), hosts=2)
    ring.operate(OperationKind.ALL_REDUCE, 10_000, BOTH_WAYS, group="a")
    ring.operate(OperationKind.ALL_REDUCE, 10_000, BOTH_WAYS, group="b")
    ring.operations = [of(sent=None, ended_ns=None)(one) for one in ring.operations[:2]] + ring.operations[2:]
    assert ring.found.unshown == ["operations have not ended on all their ranks: 2 operations"]


# --- what is not shown


def edited(ring: Ring, change: Change, index: int = 1) -> JobEfficiency:
    """Rank 0 is odd in one operation."""
    at = next(n for n, one in enumerate(ring.operations) if one.operation.index == index and one.rank == 0)
    ring.operations[at] = change(ring.operations[at])
    return ring.found


def sent(**changes: Any) -> Change:
    def change(one: RecordedOperation) -> RecordedOperation:
        assert one.sent is not None
        return replace(one, sent=structs.replace(one.sent, **changes))

    return change


def of(**changes: Any) -> Change:
    return lambda one: replace(one, **changes)


def without_a_port(one: RecordedOperation) -> RecordedOperation:
    assert one.sent is not None
    return sent(after={"eth0": one.sent.after["eth0"]})(one)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (of(sent=None), "the begin or the end of operations was not measured"),
        (sent(began_ns=None), "the begin or the end of operations was not measured"),
        (sent(after={}), "the bytes of h0 were not counted"),
        (without_a_port, "the bytes of h0.eth1 were not counted"),
        (sent(after={f"eth{n}": PortBytes(rx=0, tx=0) for n in range(2)}), "the counters of h0 began anew"),
        (sent(datagrams_after=None), "what h0 passes on for others is not counted: update its agent"),
        (sent(datagrams_after=IpDatagrams(received=0, forwarded=0)), "the counters of h0 began anew"),
    ],
)
def test_operation_whose_bytes_are_not_known_is_left_out_with_the_reason(change: Change, why: str) -> None:
    found = edited(reduced(3, times=3), change)
    assert found.unshown == [f"{why}: 1 operation"]
    assert (found.whole.operations, found.whole.left_out) == (2, 1)
    assert (found.whole.gamma, found.whole.delta) == (0.75, 1)
    assert_product(found.whole)


def test_operation_that_is_under_way_is_left_out_with_all_that_overlaps_it_on_its_hosts() -> None:
    ring, under_way = reduced(3, times=3), of(sent=None, ended_ns=None)
    for index, left_out in ((2, 1), (1, 2)):
        found = edited(ring, under_way, index)
        assert found.unshown[0].startswith("operations have not ended on all their ranks: ")
        assert (found.whole.left_out, found.whole.gamma) == (left_out, 0.75)


def test_operation_is_not_left_out_for_the_next_one_that_has_not_ended() -> None:
    ring = reduced(3, times=2)
    first, *others, one, two, three = ring.operations
    assert first.sent is not None
    early = sent(ended_ns=first.sent.ended_ns - 3 * MS)(first)
    ring.operations = [early, *others, *map(of(sent=None, ended_ns=None), (one, two, three))]
    assert (ring.found.whole.operations, ring.found.whole.left_out) == (1, 1)


def test_size_that_was_not_said_and_bytes_that_went_past_the_kernel_are_left_out() -> None:
    ring = ring_of(2)
    ring.operate(OperationKind.ALL_REDUCE, 0, ring_all_reduce(2, 20_000))
    ring.operate(OperationKind.ALL_REDUCE, 20_000, [(0, 1, 100), (1, 0, 100)])
    assert ring.found.unshown == [
        "the size of operations was not said: `size_bytes` of `rank.operation`: 1 operation",
        "fewer bytes arrived at the ports of the job than operations bring: they went another way: 1 operation",
    ]


def test_what_is_not_shown_of_a_job_has_its_reason() -> None:
    uncounted, unrated = reduced(2), reduced(3)
    uncounted.operations = [sent(datagrams_before=None, datagrams_after=None)(one) for one in uncounted.operations]
    del unrated.record.rates_mbit_s["h1.eth1"]
    for why, found, factors in (
        ("no operation between hosts was recorded: its shim asks nobody", ring_of(2).found, (None, None)),
        ("what h0 passes on for others is not counted: update its agent", uncounted.found, (None, None)),
        ("started anew under it", efficiency(reduced(2).record, reduced(2).operations, clock_broke=True), (None, None)),
        ("no rate of h1.eth1: its agent did not read one. State `rate_mbit_s`", unrated.found, (0.75, 1)),
    ):
        assert why in found.whole.why
        assert (found.whole.gamma, found.whole.delta) == factors, "what needs no rate is shown without one"
        assert (found.whole.theta, found.whole.eta) == (None, None)


def electrical(switches: dict[str, str]) -> Ring:
    """The ring that is played goes through packet switches."""
    ring = reduced(2, parts=100_000, packet_switches=switches)
    ranks = [JobRank(host=f"h{n}", electrical=[f"h{n}.eth0", f"h{n}.eth1"]) for n in range(2)]
    ring.record = structs.replace(ring.record, ranks=ranks)
    return ring


def test_one_packet_switch_forwards_each_byte_once_and_the_way_over_several_is_not_known() -> None:
    ports = [f"h{n}.eth{port}" for n in range(2) for port in range(2)]
    one = electrical(dict.fromkeys(ports, "eps1"))
    assert (one.found.whole.gamma, one.found.whole.delta) == (1, 1)
    two = electrical({port: f"eps{port[1]}" for port in ports})
    assert two.found.unshown == ["how many of the packet switches eps0, eps1 bytes passed is not known: 1 operation"]


# --- sums


KINDS = st.sampled_from([OperationKind.ALL_REDUCE, OperationKind.ALL_GATHER, OperationKind.ALL_TO_ALL])
WORK = st.lists(st.tuples(KINDS, st.integers(1, 200), st.sampled_from(["a", "b"]), st.integers(1, 50)), min_size=1)


@given(st.integers(2, 6), WORK)
def test_factors_multiply_in_every_row_and_phases_add_up_to_the_job(
    hosts: int, work: list[tuple[OperationKind, int, str, int]]
) -> None:
    ring = Ring(record=record(range(hosts), {"a": [*range(hosts)], "b": [*range(hosts)]}), hosts=hosts)
    for kind, parts, group, takes_ms in work:
        size = hosts * parts * MTU
        sends = ring_all_reduce(hosts, size) if kind is OperationKind.ALL_REDUCE else each_to_each(hosts, size)
        ring.operate(kind, size, sends, group=group, takes_ms=takes_ms)
    found = ring.found
    assert found.unshown == []
    for one in found.rows:
        assert_product(one)
        assert one.gamma is not None
        assert 0 < one.gamma <= 1 + 1e-3
    for scope in ("phase", "kind"):
        rows = [one for one in found.rows if one.scope == scope]
        for name in ("operations", "effective_bytes", "received_bytes", "forwarded_bytes"):
            assert sum(getattr(one, name) for one in rows) == getattr(found.whole, name)
        weighted = [one.seconds / found.whole.seconds * (one.eta or 0) for one in rows]
        assert sum(weighted) == pytest.approx(found.whole.eta)
        weighted = [one.seconds / found.whole.seconds * (one.theta or 0) for one in rows]
        assert sum(weighted) == pytest.approx(found.whole.theta)


# --- rates of NIC ports: as agents read them, else as the testbed file states them


TEXT = """
testbed: lab
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: ideal, seed: 1}}
packet_switches: {eps1: {ports: 8, rate_mbit_s: 1000}, eps2: {ports: 8}}
hosts:
  h0:
    nics:
      eth0: {module: 100g-lr4}
      eth1: {module: 100g-lr4, rate_mbit_s: 50000}
      eth2: {module: 100g-lr4, rate_mbit_s: 40000}
      eth3: {module: 100g-lr4, rate_mbit_s: 25000}
fibres:
  - h0.eth0 <-> ocs1.1
  - h0.eth1 <-> ocs1.2
  - h0.eth2 <-> eps1.1
  - h0.eth3 <-> eps2.1
"""
PORTS = [NicPortId(host="h0", port=f"eth{n}") for n in range(4)]


@pytest.fixture
def testbed(tmp_path: Path) -> Testbed:
    path = tmp_path / "testbed.yaml"
    path.write_text(TEXT)
    return load_testbed(path, {name: registry.find(name) for name in registry.names()}).require()


def tell(rates: PortRates, fact: Fact) -> None:
    rates(Document(at_ns=0, wall_ns=0, fact=fact))


def link(speed_mbps: int | None) -> LinkStateData:
    return LinkStateData(
        up=speed_mbps is not None, why_down=None, detail=None, downs=0, autoneg=True, speed_mbps=speed_mbps, fec=None
    )


def changed(speed_mbps: int | None) -> HostEvent:
    return event_of("h0.eth1", "link-state", 1, 0, link(speed_mbps), origin="nic", source="ethtool")


def born(**inventory: Any) -> HostBirth:
    return HostBirth(host="h0", boot="b", version="", ports={}, inventory=Inventory(**inventory))


def test_what_an_agent_reads_counts_before_what_is_stated_and_outlasts_a_dark_link(testbed: Testbed) -> None:
    rates = PortRates()
    stated = {"h0.eth1": 50_000, "h0.eth2": 1000, "h0.eth3": 25_000}
    assert rates.of(testbed, PORTS) == stated
    tell(rates, born(nics={"eth0": NicNote(speed_mbps=100_000)}, links={"eth1": link(None)}))
    assert rates.of(testbed, PORTS) == {**stated, "h0.eth0": 100_000}
    for speed in (10_000, None):
        tell(rates, changed(speed))
        assert rates.of(testbed, PORTS[1:2]) == {"h0.eth1": 10_000}
    tell(rates, HostBirth(host="h0", boot="c", version="", ports={}))
    assert rates.of(testbed, PORTS[:1]) == {"h0.eth0": 100_000}


def test_packet_switches_are_those_at_the_other_ends_of_fibres(testbed: Testbed) -> None:
    assert packet_switches(testbed, PORTS) == {"h0.eth2": "eps1", "h0.eth3": "eps2"}
