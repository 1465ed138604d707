"""The light of the rack as the records have it: what switches were read to have, when ends moved, what hosts saw."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from msgspec import UNSET

from hwd.jobs.verification.recorded_operations import TargetLight
from hwd.model.host import HostBirth, HostEvent, HostLost
from hwd.model.job import JobEnded, JobResumed
from hwd.model.reconfiguration import (
    ReconfigurationCommanded,
    ReconfigurationEnded,
    ReconfigurationStarted,
    WantedSwitch,
)
from hwd.model.transfer import TransferCut
from hwd_agents.wire.events import CarrierData, ReadyData
from hwd_drivers.core.documents import Document
from hwd_drivers.devices.facts import SwitchCommand, SwitchRead

KINDS = tuple(
    fact.KIND
    for fact in (
        HostBirth,
        HostEvent,
        HostLost,
        ReconfigurationStarted,
        ReconfigurationCommanded,
        ReconfigurationEnded,
        SwitchRead,
        SwitchCommand,
        TransferCut,
        JobResumed,
        JobEnded,
    )
)
"""The kinds of documents that it is read from."""

Paths = Mapping[str, frozenset[str]]
"""By NIC port: the crossconnects that its light passes, `ocs1:1A-2B`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Fibre ends of a switch that moved, or may have, between two times of the daemon's clock. `by`: who moved them."""

    began_ns: int
    ended_ns: int
    ends: frozenset[str]
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchReading:
    """All crossconnects of a switch, as read after a change."""

    at_ns: int
    crossconnects: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    """A change of the carrier of a NIC port, between two times. `unseen`: changes beside it that nobody saw one by one.
    `lost`: how often events of its host had been lost before it. `is_of_one_agent`: the agent that told it had told of
    the carrier before all of them; else they are counted from what an earlier agent had stored.
    """

    earliest_ns: int
    latest_ns: int
    up: bool
    unseen: int = 0
    lost: int = 0
    is_of_one_agent: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LitPorts:
    """The light of a job at one time, by NIC port: the crossconnects that it passes, the port at the other end of its
    link, where that is known, and the reconfiguration that brought it there.
    """

    paths: Paths
    links: Mapping[str, str]
    by: Mapping[str, str]


@dataclass(slots=True, kw_only=True)
class RecordedLight:
    """The light of a job by its records. `reads` and `moves` by switch, in the order of their times once all is taken;
    `carriers` by NIC port; `ready`: by NIC port and reconfiguration, the first time that its link was seen ready;
    `unsure` are those of them before which events of the host were lost. `lost`: by host, how often some were.
    """

    reads: dict[str, list[SwitchReading]] = field(default_factory=lambda: defaultdict(list))
    moves: dict[str, list[Move]] = field(default_factory=lambda: defaultdict(list))
    carriers: dict[str, list[Carrier]] = field(default_factory=lambda: defaultdict(list))
    ready: dict[tuple[str, str], int] = field(default_factory=dict)
    unsure: set[tuple[str, str]] = field(default_factory=set)
    lost: dict[str, int] = field(default_factory=dict)
    cuts: list[tuple[int, TransferCut]] = field(default_factory=list)
    job_ends: dict[str, int] = field(default_factory=dict)
    resumed: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """By job: when a daemon that was started anew went on with it."""
    _started: dict[str, ReconfigurationStarted] = field(default_factory=dict)
    _wanted: dict[str, list[WantedSwitch]] = field(default_factory=dict)
    _lost_at: dict[str, dict[str, int]] = field(default_factory=dict)
    """By reconfiguration: `lost` when it started."""
    _births: dict[str, HostBirth] = field(default_factory=dict)
    """By host, the last one."""
    _flaps: int = 0
    """The flaps that the last document was about; the next document counts them among the losses."""

    def take(self, documents: Iterable[Document]) -> None:
        """Take documents in the order of recording."""
        for document in documents:
            at_ns, flaps = document.at_ns, self._flaps
            self._flaps = 0
            match document.fact:
                case HostEvent() as event:
                    self._take_event(event)
                case HostBirth(host=host) as birth:
                    self._births[host] = birth
                case HostLost(host=host, count=count) if count != flaps:
                    self.lost[host] = self.lost.get(host, 0) + 1
                case ReconfigurationStarted() as started:
                    self._started[started.reconfiguration] = started
                    self._lost_at[started.reconfiguration] = {**self.lost}
                case ReconfigurationCommanded() as commanded:
                    self._take_commanded(commanded)
                case ReconfigurationEnded(reconfiguration=id, outcome="confirmed", wanted=wanted):
                    self._wanted[id] = [] if wanted is UNSET else wanted
                case SwitchRead(switch=switch, crossconnects=crossconnects):
                    found = frozenset(f"{switch}:{one.crossconnect}" for one in crossconnects)
                    self.reads[switch].append(SwitchReading(at_ns=at_ns, crossconnects=found))
                case SwitchCommand(switch=switch, verb=verb, moved=moved, seconds=seconds) if moved:
                    began_ns = at_ns - round(seconds * 1e9)
                    ends = frozenset(moved)
                    self.moves[switch].append(Move(began_ns=began_ns, ended_ns=at_ns, ends=ends, by=f"command {verb}"))
                case JobResumed(job=job):
                    self.resumed[job].append(at_ns)
                case JobEnded(job=job):
                    self.job_ends[job] = at_ns
                case TransferCut() as cut:
                    self.cuts.append((at_ns, cut))

    def order(self) -> None:
        """Sort it by time: late documents are of earlier times."""
        for reads in self.reads.values():
            reads.sort(key=lambda read: read.at_ns)
        for moves in self.moves.values():
            moves.sort(key=lambda move: move.ended_ns)
        for carriers in self.carriers.values():
            carriers.sort(key=lambda carrier: carrier.latest_ns)

    def had_carrier(self, port: str, at_ns: int) -> bool | None:
        """Whether a NIC port had a carrier at a time, as far as it was seen; None where that is not known: its agent
        was away when it changed, or events of its host were lost after the last change that is known.
        """
        changes = self.carriers.get(port, [])
        number = bisect_right(changes, at_ns, key=lambda change: change.latest_ns)
        if not number:
            return None
        last, later = changes[number - 1], changes[number:]
        lost = later[0].lost if later else self.lost.get(port.partition(".")[0], 0)
        if lost > last.lost or any(change.earliest_ns <= at_ns for change in later):
            return None
        return last.up

    def moved(self, switch: str, ends: Set[str], from_ns: int, upto_ns: int) -> Iterator[Move]:
        """Moves of these ends of a switch that were under way between two times."""
        moves = self.moves.get(switch, [])
        longest_ns = max((move.ended_ns - move.began_ns for move in moves), default=0)
        for move in moves[bisect_right(moves, from_ns, key=lambda move: move.ended_ns) :]:
            if move.ended_ns - longest_ns >= upto_ns:
                return
            if move.began_ns < upto_ns and move.ends & ends:
                yield move

    def last_moved_ns(self, switch: str, ends: Set[str], at_ns: int) -> int:
        """When the last move of these ends was over, before a time; 0 where none is recorded."""
        moves = self.moves.get(switch, [])
        before = moves[: bisect_right(moves, at_ns, key=lambda move: move.ended_ns)]
        return next((move.ended_ns for move in reversed(before) if move.ends & ends), 0)

    def readings(self, switch: str, since_ns: int, from_ns: int, upto_ns: int) -> list[SwitchReading]:
        """The last reading between `since_ns` and `from_ns`, and all until `upto_ns`."""
        reads = self.reads.get(switch, [])
        first = bisect_right(reads, from_ns, key=lambda read: read.at_ns)
        during = reads[first : bisect_left(reads, upto_ns, key=lambda read: read.at_ns)]
        before = [reads[first - 1]] if first and reads[first - 1].at_ns >= since_ns else []
        return before + during

    def is_confirmed(self, reconfiguration: str) -> bool:
        """Whether its switches were read back, and it ended so."""
        return reconfiguration in self._wanted

    def lit(self, light: Sequence[TargetLight], fibres: Mapping[str, Iterable[str]]) -> LitPorts:
        """What is lit where the light is at these targets. A link is none any more where one of its ports went on."""

        of_all, of_region = TargetLight(), dict[str, TargetLight]()
        for one in light:
            if one.ports:
                of_region |= dict.fromkeys(one.ports, one)
            else:
                of_all = one  # nothing is left of those before it

        def last(port: str) -> TargetLight:
            return of_region.get(port, of_all)

        paths: dict[str, frozenset[str]] = {}
        links: dict[str, str] = {}
        by: dict[str, str] = {}
        for one in light:
            wanted = self._links(one.reconfiguration)
            for port, path in self._paths(one.reconfiguration, fibres).items():
                if last(port) is one and last(wanted.get(port, port)) is one:
                    paths[port], by[port] = path, one.reconfiguration
            links |= {port: far for port, far in wanted.items() if last(port) is last(far) is one}
        return LitPorts(paths=paths, links=links, by=by)

    def _links(self, reconfiguration: str) -> dict[str, str]:
        """The links that it wanted: by NIC port the port at the other end."""
        started = self._started.get(reconfiguration)
        found: dict[str, str] = {}
        for one in started.links if started is not None else ():
            near, far = one.link.ends
            found |= {near: far, far: near}
        return found

    def _paths(self, reconfiguration: str, fibres: Mapping[str, Iterable[str]]) -> Paths:
        """The crossconnects of the links that a reconfiguration wanted; of one of crossconnects alone, those at the
        ports of switches that the fibres of a NIC port lead to.
        """
        found: dict[str, frozenset[str]] = {}
        started = self._started.get(reconfiguration)
        for link in started.links if started is not None else ():
            if link.crossconnects is not UNSET:
                found |= dict.fromkeys(link.link.ends, frozenset(link.crossconnects))
        if found:
            return found
        at: dict[str, set[str]] = defaultdict(set)
        for wanted in self._wanted.get(reconfiguration, ()):
            for one in wanted.crossconnects:
                for end in one.ends:
                    at[f"{wanted.switch}.{end.port}"].add(f"{wanted.switch}:{one}")
        for port, ends in fibres.items():
            if crossconnects := frozenset().union(*(at[end] for end in ends if end in at)):
                found[port] = crossconnects
        return found

    def _take_event(self, event: HostEvent) -> None:
        port = f"{event.host}.{event.port}"
        match event.data:
            case CarrierData(carrier=up, unseen=unseen):
                self._flaps, lost = unseen or 0, self.lost.get(event.host, 0)
                self.carriers[port].append(
                    Carrier(
                        earliest_ns=event.earliest_ns,
                        latest_ns=event.latest_ns,
                        up=up,
                        unseen=unseen or 0,
                        lost=lost,
                        is_of_one_agent=self._is_of_one_agent(event, event.data),
                    )
                )
            case ReadyData(reconfiguration=str(reconfiguration)):
                key = port, reconfiguration
                lost = self.lost.get(event.host, 0)
                if key not in self.ready and lost > self._lost_at.get(reconfiguration, {}).get(event.host, 0):
                    self.unsure.add(key)
                self.ready[key] = min(self.ready.get(key, event.earliest_ns), event.earliest_ns)

    def _is_of_one_agent(self, event: HostEvent, data: CarrierData) -> bool:
        """Whether the kernel has counted all these changes since its agent described the port at its birth."""
        birth = self._births.get(event.host)
        if birth is None or birth.boot != event.boot or data.carrier_changes is UNSET:
            return False
        port = birth.ports.get(event.port or "")
        if port is None or port.carrier is None or port.carrier_changes is None:
            return False
        return data.carrier_changes - port.carrier_changes >= (data.unseen or 0) + (data.carrier != port.carrier)

    def _take_commanded(self, commanded: ReconfigurationCommanded) -> None:
        started = self._started.get(commanded.reconfiguration)
        if started is None or commanded.commanded_ns is None:
            return
        ends = frozenset(
            end
            for move in started.moves
            if move.switch == commanded.switch
            for one in (*move.remove, *move.add)
            for end in one.ends
        )
        acknowledged_ns = commanded.acknowledged_ns
        self.moves[commanded.switch].append(
            Move(
                began_ns=commanded.commanded_ns,
                ended_ns=commanded.commanded_ns if acknowledged_ns is None else acknowledged_ns,
                ends=ends,
                by=f"reconfiguration {commanded.reconfiguration} ({started.what})",
            )
        )
