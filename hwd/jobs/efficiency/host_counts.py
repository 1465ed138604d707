"""HostCounts: what came to the NIC ports of one host of a job while its ranks were busy, and what it passed on."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hwd.jobs.verification.busy_times import BusyTime, busy_times, counted_between, latest
from hwd.jobs.verification.counted_bytes import STRAY_BYTES
from hwd.jobs.verification.recorded_operations import RecordedOperation
from hwd_agents.wire import IpDatagrams, PortBytes
from hwd_drivers.core.values import natural_key

NAMED: Final = 4
"""Ports that a reason names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardedBytes:
    """Bytes that a host passed on between two times, beside those of its busy times. `why`: why they are not known.

    They are of what was under way elsewhere, but for `next`, which its ranks had not asked for; else of `before`, which
    they had ended.
    """

    from_ns: int
    upto_ns: int
    bytes: int
    before: tuple[RecordedOperation, ...] = ()
    next: tuple[RecordedOperation, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCount:
    """The bytes to a host in a busy time. `received_bytes`: without what it passed on. `why`: why that is not known."""

    operations: tuple[RecordedOperation, ...]
    received_bytes: int = 0
    arrived_bytes: int = 0
    why: str = ""


@dataclass(slots=True, kw_only=True)
class HostCounts:
    """The counts of one host. `ports`: its NIC ports that are the job's, and `electrical` those of them on packet
    switches, named without the host. `packet_switches`: all of the job: over one, each byte is forwarded once.

    How many bytes a host passed on is estimated: their share of what arrived is that of the datagrams. Linux counts
    the datagrams that it forwards, and no bytes of them (`KernelIpCounters`).
    """

    host: str
    ports: frozenset[str]
    electrical: frozenset[str]
    packet_switches: Sequence[str]
    counted: list[HostCount] = field(default_factory=list)
    passed: list[ForwardedBytes] = field(default_factory=list)

    def take(self, operations: Iterable[RecordedOperation]) -> None:
        """All operations of its ranks with other hosts."""
        before: BusyTime | None = None
        for busy in busy_times(operations):
            start = _CounterReading.before(busy)
            if before is not None:
                ended = _CounterReading.after(before)
                start = start.at_least(ended)
                self.passed += self._passed_between(before, busy, ended, start)
            self._take(busy, start)
            before = busy

    def _take(self, busy: BusyTime, start: "_CounterReading") -> None:
        arrived = self._arrived(start, _CounterReading.after(busy))
        if self.ports & busy.reset_ports:
            arrived = f"the counters of {self.host} began anew"
        if not isinstance(arrived, str) and arrived.electrical_bytes > STRAY_BYTES and len(self.packet_switches) > 1:
            arrived = f"how many of the packet switches {', '.join(self.packet_switches)} bytes passed is not known"
        if isinstance(arrived, str):
            self.counted.append(HostCount(operations=busy.operations, why=arrived))
            return
        passed_on = round(arrived.bytes * arrived.share)
        if passed_on:  # it may have been for operations of others
            self.passed.append(ForwardedBytes(from_ns=busy.first.began_ns, upto_ns=busy.last.over_ns or 0, bytes=0))
        self.counted.append(
            HostCount(operations=busy.operations, received_bytes=arrived.bytes - passed_on, arrived_bytes=arrived.bytes)
        )

    def _passed_between(
        self, before: BusyTime, after: BusyTime, start: "_CounterReading", end: "_CounterReading"
    ) -> Iterator[ForwardedBytes]:
        """What the host passed on when no rank of it was sending; none where one of the readings was not measured."""
        if not start.ports or not end.ports:
            return
        arrived = self._arrived(start, end)
        why = arrived if isinstance(arrived, str) else ""
        passed_on = 0 if isinstance(arrived, str) else round(arrived.bytes * arrived.share)
        if why or passed_on:
            from_ns, upto_ns = before.last.over_ns or 0, after.first.began_ns
            yield ForwardedBytes(
                from_ns=from_ns,
                upto_ns=upto_ns,
                bytes=passed_on,
                before=before.operations if passed_on else (),
                next=after.operations,
                why=why,
            )

    def _arrived(self, start: "_CounterReading", end: "_CounterReading") -> "_ArrivedBytes | str":
        """What came to its ports; a text says why that is not known."""
        host = self.host
        if not start.ports or not end.ports:
            return f"the bytes of {host} were not counted"
        if (counted := counted_between(start.ports, end.ports)) is None:
            return f"the counters of {host} began anew"
        if missing := sorted(self.ports - counted.keys(), key=natural_key):
            return f"the bytes of {', '.join(f'{host}.{port}' for port in missing[:NAMED])} were not counted"
        if start.datagrams is None or end.datagrams is None:
            return f"what {host} passes on for others is not counted: update its agent"
        received = end.datagrams.received - start.datagrams.received
        forwarded = end.datagrams.forwarded - start.datagrams.forwarded
        if received < 0 or forwarded < 0:
            return f"the counters of {host} began anew"
        # what came just before the first of two readings may be passed on after it
        passed_on = min(forwarded, received)
        return _ArrivedBytes(
            bytes=sum(counted[port].rx for port in self.ports),
            electrical_bytes=sum(counted[port].rx for port in self.electrical),
            share=passed_on / received if received else 0.0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _ArrivedBytes:
    """Bytes that came to NIC ports. `share`: of the datagrams that the host received, those that it passed on."""

    bytes: int
    electrical_bytes: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _CounterReading:
    """A reading of the counters of a host; without ports where there is none."""

    ports: Mapping[str, PortBytes]
    datagrams: IpDatagrams | None

    @classmethod
    def before(cls, busy: BusyTime) -> "_CounterReading":
        """When the first operation of a busy time was asked for."""
        all_before = [None if one.sent is None else one.sent.datagrams_before for one in busy.operations]
        known = [one for one in all_before if one is not None]
        datagrams = None
        if len(known) == len(all_before):
            datagrams = IpDatagrams(
                received=min(one.received for one in known), forwarded=min(one.forwarded for one in known)
            )
        return cls(ports=busy.start, datagrams=datagrams)

    @classmethod
    def after(cls, busy: BusyTime) -> "_CounterReading":
        """When the last one had ended."""
        sent = busy.last.sent
        return cls(ports={}, datagrams=None) if sent is None else cls(ports=sent.after, datagrams=sent.datagrams_after)

    def at_least(self, other: "_CounterReading") -> "_CounterReading":
        """The later one: a rank may ask while others of its host still send."""
        one, two = self.datagrams, other.datagrams
        if one is not None and two is not None:
            one = IpDatagrams(received=max(one.received, two.received), forwarded=max(one.forwarded, two.forwarded))
        return _CounterReading(ports=latest(self.ports, other.ports) if self.ports else {}, datagrams=one)
