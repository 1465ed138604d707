"""verify: the rack's truth as it was recorded, against what the ranks of a job did and what its plane said. No I/O."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from hwd.jobs.verification.counted_bytes import Need, judge, least_received
from hwd.jobs.verification.recorded_light import LitPorts, RecordedLight
from hwd.jobs.verification.recorded_operations import Key, RecordedOperation, TargetLight, operations_of
from hwd.model.job import JobEvent, JobRecord
from hwd.model.job_status import JobBreach, JobVerification
from hwd.model.link import Link
from hwd.model.plural import plural
from hwd.planes.joined_hosts import are_joined

SHOWN: Final = 200
"""Breaches, and what cannot be shown, that are listed of each; the counts are of all."""

STATES: Final = 256
"""States of the light that are kept at hand: operations come nearly in their order."""

EARLY: Final = "early"
DARK: Final = "dark"
MOVING: Final = "moving"
UNREADY: Final = "unready"
CUT: Final = "cut"
BYTES: Final = "bytes"


def verify(
    record: JobRecord, events: Sequence[JobEvent], light: RecordedLight, *, gaps: Iterable[str] = ()
) -> JobVerification:
    """`gaps`: what the records lack, in words."""
    return _Verifier(record, events, light).result(gaps)


class _Verifier:
    def __init__(self, record: JobRecord, events: Sequence[JobEvent], light: RecordedLight) -> None:
        self._record = record
        self._light = light
        self._operations = operations_of(events)
        self._end_ns = light.job_ends.get(record.id, max((event.at_ns for event in events), default=0))
        self._together: defaultdict[Key, list[RecordedOperation]] = defaultdict(list)
        """What ranks make together."""
        for one in self._operations.all:
            self._together[one.shared].append(one)
        self._lit_ports: dict[tuple[TargetLight, ...], LitPorts] = {}
        self._breaches: list[JobBreach] = []
        self._unshown: dict[str, list[RecordedOperation]] = {}
        """What the records do not show, and of which operations."""

    def result(self, gaps: Iterable[str]) -> JobVerification:
        operations = self._operations.all
        self._unshown |= {gap: [] for gap in gaps}
        if self._operations.gaps:
            self._lacks("ranks were let go of whose asking nothing is recorded: the records lack events of the job")
        if not operations:
            self._lacks("no operation was recorded: its shim asks nobody, or no rank was let go")
        elif self._operations.clock_broke:
            self._lacks("the daemon's machine was started anew under it: times before and after do not compare")
        elif not any(rank.optical or rank.electrical for rank in self._record.ranks):
            self._lacks("its ranks have no NIC ports")
        else:
            for one in operations:
                self._judge(one)
            self._judge_bytes()
            self._judge_cuts()
        self._breaches.sort(key=lambda breach: breach.at_ns)
        unshown = [_listed(what, operations) for what, operations in self._unshown.items()]
        return JobVerification(
            job=self._record.id,
            entry=self._record.entry,
            state=self._record.state,
            operations=len(operations),
            measured=sum(one.sent is not None for one in operations),
            reconfigurations=len(self._operations.reconfigurations),
            breaches=self._breaches[:SHOWN],
            breaches_total=len(self._breaches),
            unshown=unshown[:SHOWN],
            unshown_total=len(unshown),
        )

    # --- one operation

    def _judge(self, one: RecordedOperation) -> None:
        if one.sent is not None and one.sent.began_ns is not None:
            early_ns = one.granted_ns - one.sent.began_ns
            if early_ns > one.error_ns and self._is_resumed(one.sent.began_ns - one.error_ns, one.granted_ns):
                self._lacks("whether operations were let go that began before the daemon was started anew", one)
            elif (
                early_ns > one.error_ns and one.ended_ns is not None and self._is_resumed(one.granted_ns, one.ended_ns)
            ):
                # the daemon that converted its begin does not know of a clock that was set before its own start
                self._lacks("whether operations began early, whose times a daemon converted that was started anew", one)
            elif early_ns > one.error_ns:
                self._breach(EARLY, one, f"it began {early_ns / 1e6:.3f} ms before its plane let it go")
        needs_light = self._is_over_light(one)
        ports, lit = self._lit(one), self._lit_by(one)
        if not needs_light and not (one.operation.parts and ports):
            return
        if not self._has_way(one):
            self._lacks("the light that operations were let go over is not in the records", one)
            return
        for id in sorted({lit.by[port] for port in ports} or {*lit.by.values()}):
            if not self._light.is_confirmed(id):
                self._lacks(f"the end of reconfiguration {id} is not in the records", one)
        if not ports and needs_light:
            targets = ", ".join(part.target for part in one.light if part.target)
            self._breach(DARK, one, f"no light of target {targets} is at {self._host(one)}")
        for port in sorted(ports):
            for breach in self._judge_port(one, port, lit):
                if one.is_measured or breach.at_ns <= one.began_ns + one.error_ns:
                    self._breaches.append(breach)
                else:
                    self._lacks(f"whether operations were over, whose end was not measured, when {breach.what}", one)

    def _judge_port(self, one: RecordedOperation, port: str, lit: LitPorts) -> Iterator[JobBreach]:
        """One NIC port during one operation: lit, at rest, with a carrier, and seen ready before."""
        light = self._light
        from_ns, upto_ns = one.began_ns + one.error_ns, self._over_ns(one) - one.error_ns
        for crossconnect in sorted(lit.paths[port]):
            switch, text = crossconnect.split(":", 1)
            ends = {*text.split("-")}
            since_ns = light.last_moved_ns(switch, ends, from_ns)
            for read in light.readings(switch, since_ns, from_ns, upto_ns):
                if crossconnect not in read.crossconnects:
                    yield self._made(DARK, one, f"{crossconnect} of {port} was not there", read.at_ns)
                    break
            for move in light.moved(switch, ends, from_ns, upto_ns):
                yield self._made(MOVING, one, f"{crossconnect} of {port} was moved by {move.by}", move.began_ns)
        changes = light.carriers.get(port, ())
        before = [change for change in changes if change.latest_ns <= from_ns]
        if before and not before[-1].up:
            if light.had_carrier(port, from_ns) is None:
                self._lacks(f"whether {port} had a carrier, which its agent did not see then, is not known", one)
            else:
                yield self._made(DARK, one, f"{port} had no carrier", before[-1].latest_ns)
        for change in changes:
            is_fall = not change.up or change.unseen > 0
            if is_fall and from_ns < change.earliest_ns and change.latest_ns < upto_ns:
                yield self._made(DARK, one, f"{port} lost its carrier", change.latest_ns)
            elif (
                change.unseen
                and not (one.is_measured or change.is_of_one_agent)
                and change.earliest_ns < upto_ns
                and from_ns < change.latest_ns
            ):
                self._lacks(f"whether {port}, whose agent was away, lost its carrier under operations", one)
        for end in filter(None, (port, lit.links.get(port))):
            ready_ns = light.ready.get((end, lit.by[port]))
            if ready_ns is None:
                self._lacks(f"when {end} was ready after reconfiguration {lit.by[port]} is not in the records", one)
            elif ready_ns > one.granted_ns and (end, lit.by[port]) in light.unsure:
                self._lacks(f"when {end} was ready first is not in the records, which lack events of its host", one)
            elif ready_ns > one.granted_ns:
                what = f"its plane let it go {(ready_ns - one.granted_ns) / 1e6:.3f} ms before {end} was seen ready"
                yield self._made(UNREADY, one, what, one.granted_ns)

    # --- all of them

    def _judge_bytes(self) -> None:
        by_host: defaultdict[str, list[RecordedOperation]] = defaultdict(list)
        for one in self._operations.all:
            if one.over_ns is not None and len(self._hosts(one)) > 1 and self._has_way(one):
                by_host[self._host(one)].append(one)
        for host, operations in by_host.items():
            ways = {one: _names(self._way(one)) for one in operations}
            shared: defaultdict[Key, list[RecordedOperation]] = defaultdict(list)
            for one in operations:
                shared[one.shared].append(one)
            found = judge(
                host,
                operations,
                ways=ways,
                needs={
                    key: self._needs(some[0], frozenset[str]().union(*(ways[one] for one in some)))
                    for key, some in shared.items()
                },
                optical=frozenset(_port(port) for port in self._record.fibres if port.startswith(f"{host}.")),
                others=self._operations.all,
                resumed=self._is_resumed,
            )
            for finding in found:
                if finding.is_known:
                    self._breach(BYTES, finding.operation, finding.what)
                else:
                    self._lacks(finding.what, finding.operation)

    def _judge_cuts(self) -> None:
        for at_ns, cut in self._light.cuts:
            for one in self._operations.all:
                if self._host(one) != cut.host:
                    continue
                is_named = cut.process.startswith(f"rank {one.rank} of job {self._record.id}")
                if is_named and cut.phase == str(one.operation):
                    self._breach(CUT, one, f"reconfiguration {cut.reconfiguration} ({cut.what}) cut it", at_ns)
                is_under_way = one.began_ns <= at_ns <= self._over_ns(one)
                if not cut.transfer and is_under_way and {*cut.ports} & self._way(one):
                    self._lacks(f"whether reconfiguration {cut.reconfiguration} cut operations is not known", one)

    # --- what an operation is

    def _over_ns(self, one: RecordedOperation) -> int:
        """The end of an operation; where it is not known, that of its job at the latest, else of what is recorded."""
        return self._end_ns if one.over_ns is None else one.over_ns

    def _host(self, one: RecordedOperation) -> str:
        return self._record.ranks[one.rank].host

    def _ranks(self, one: RecordedOperation) -> tuple[int, ...]:
        return one.operation.ranks(one.rank, self._record.groups[one.operation.group])

    def _hosts(self, one: RecordedOperation) -> set[str]:
        return {self._record.ranks[rank].host for rank in self._ranks(one)}

    def _needs(self, one: RecordedOperation, way: frozenset[str]) -> list[Need]:
        """What the host must receive of an operation of its ranks. `way`: their ports."""
        ranks, host, operation = self._ranks(one), self._host(one), one.operation
        hosts = [self._record.ranks[rank].host for rank in ranks]
        if not operation.parts:
            least_bytes = least_received(operation.kind, operation.size_bytes, len(ranks), hosts.count(host))
            return [Need(ports=way, least_bytes=least_bytes)]
        from_host: defaultdict[str, int] = defaultdict(int)
        for sent in self._together[one.shared]:
            parts = zip(hosts, sent.operation.parts, strict=False)
            from_host[self._host(sent)] += sum(size_bytes for to, size_bytes in parts if to == host)
        links = self._lit_by(one).links
        own = {_port(near): far.partition(".")[0] for near, far in links.items() if near.startswith(f"{host}.")}
        without_light = way - {*own} or way  # where hosts have no other way, others on the light pass it on
        return [
            Need(
                ports=frozenset(port for port in way if own.get(port) == other) or without_light,
                least_bytes=least_bytes,
            )
            for other, least_bytes in from_host.items()
            if other != host and least_bytes
        ]

    def _is_over_light(self, one: RecordedOperation) -> bool:
        """Whether its hosts have no other way, or are joined by the light of the target. One that says its parts goes
        over both: by light between hosts that it joins straight.
        """
        hosts = self._hosts(one)
        if len(hosts) < 2:
            return False
        if not all(any(rank.electrical for rank in self._record.ranks if rank.host == host) for host in hosts):
            return True
        if one.operation.parts:
            return False
        links = {Link.parse(f"{near}<->{far}") for near, far in self._lit_by(one).links.items()}
        return are_joined(sorted(hosts), links) if links else bool(self._lit(one))

    def _is_resumed(self, from_ns: int, upto_ns: int) -> bool:
        """Whether a daemon went on with the job between two times. A power cut may have taken what the one before it
        had answered; then the ranks were let go once more.
        """
        return any(from_ns <= at_ns <= upto_ns for at_ns in self._light.resumed.get(self._record.id, ()))

    def _has_way(self, one: RecordedOperation) -> bool:
        """Whether the records have the light that it was let go over, where it needs some."""
        return not self._is_over_light(one) or bool(self._lit_by(one).paths)

    def _lit(self, one: RecordedOperation) -> frozenset[str]:
        return frozenset(self._record.ranks[one.rank].optical) & self._lit_by(one).paths.keys()

    def _way(self, one: RecordedOperation) -> frozenset[str]:
        """The NIC ports that its bytes may take: of its rank. One that says its parts is sent by all ranks of a host
        for each other.
        """
        if one.operation.parts:
            ranks = [rank for rank in self._ranks(one) if self._record.ranks[rank].host == self._host(one)]
        else:
            ranks = [one.rank]
        own = [self._record.ranks[rank] for rank in ranks]
        lit = frozenset(port for rank in own for port in rank.optical) & self._lit_by(one).paths.keys()
        return lit if self._is_over_light(one) else lit | {port for rank in own for port in rank.electrical}

    def _lit_by(self, one: RecordedOperation) -> LitPorts:
        if one.light not in self._lit_ports:
            if len(self._lit_ports) == STATES:
                del self._lit_ports[next(iter(self._lit_ports))]
            self._lit_ports[one.light] = self._light.lit(one.light, self._record.fibres)
        return self._lit_ports[one.light]

    def _lacks(self, what: str, *operations: RecordedOperation) -> None:
        self._unshown.setdefault(what, []).extend(operations)

    def _breach(self, kind: str, one: RecordedOperation, what: str, at_ns: int | None = None) -> None:
        self._breaches.append(self._made(kind, one, what, one.began_ns if at_ns is None else at_ns))

    def _made(self, kind: str, one: RecordedOperation, what: str, at_ns: int) -> JobBreach:
        return JobBreach(
            kind=kind, rank=one.rank, host=self._host(one), operation=str(one.operation), what=what, at_ns=at_ns
        )


def _listed(what: str, operations: Sequence[RecordedOperation]) -> str:
    """`the bytes of h2 were not counted: 12 operations, from rank 2, all-reduce 0 of world on`."""
    return f"{what}: {plural(len(operations), 'operation')}, from {operations[0]} on" if operations else what


def _port(name: str) -> str:
    return name.partition(".")[2]


def _names(ports: Iterable[str]) -> frozenset[str]:
    return frozenset(map(_port, ports))
