"""The witness of a world: looks at mirrors, disks and messages as they change, and holds them against the rules."""

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec import UNSET

from hwd.model.daemon import DaemonRecovered, DaemonStarted, JournalGivenUp
from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.prepared_set import FINISH, SetReleased, SetSettled
from hwd.model.reconfiguration import (
    ReconfigurationCommanded,
    ReconfigurationEnded,
    ReconfigurationStarted,
    ReconfigurationState,
)
from hwd.model.transfer import TransferClaimed, TransferCut
from hwd.reconfigure.apply.reconfiguration import State
from hwd.reconfigure.journal import file as journal_file
from hwd.reconfigure.journal.file import OpenEntry
from hwd.reconfigure.journal.sets import StoredSet
from hwd.sim.lease_watch import OF_A_RUN, LeaseWatch
from hwd.sim.racks import Rack
from hwd.sim.rules import Violation
from hwd.sim.world import DAEMON, World
from hwd_agents.bus.protocol import Bus, Incoming
from hwd_agents.wire import Command, Reply
from hwd_agents.wire.messages import decode
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.values import Crossconnect, PortSide

JOB_WITHIN_S: Final = 20.0
"""From the request of a job to the last change that comes of it: a slow switch answers after 12 s."""
PLAN_WITHIN_S: Final = 30.0
"""From the read that a plan was made from to its begin."""
OF_A_RULE: Final = "rule of prepared set "
"""Who asks for a switch that brings a set to where its rule says, after a crash; it is one more way back."""
EVENT_STREAM: Final = "the event stream"
ACTS: tuple[str, ...] = ("set", "put-back", "delegate")
"""Verbs of commands that change something at a host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsWatch:
    """An apply in steps: the links that were lit when it began, the wanted one of each NIC port, and how many may be
    dark at once.
    """

    lit: frozenset[Link]
    wanted: dict[NicPortId, Link]
    dark_at_once: int

    def dark(self, lit: frozenset[Link]) -> list[Link]:
        """Links that were lit and have an end whose wanted link is not, where these are lit now."""
        return [
            link
            for link in sorted(self.lit - lit)
            if any(end in self.wanted and self.wanted[end] not in lit for end in link.ends)
        ]


@dataclass(slots=True, kw_only=True)
class SetPromise:
    """A prepared set as its caller was told of it. `given_up`: an operator left a switch of it as it was."""

    lease: str
    expires_wall_ns: int | None
    released: bool = False
    given_up: bool = False


@dataclass(slots=True, kw_only=True)
class SeenReconfiguration:
    """A reconfiguration: what it removes and adds by switch, and what became of it by whom."""

    id: str
    run: str | None
    at_s: float
    moves: dict[str, tuple[frozenset[Crossconnect], frozenset[Crossconnect]]]
    of_set: str | None = None
    outcomes: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class InFlight:
    """A transfer as its rank knows it: it may send over `port` until `until_s`, or until `is_over` says that it heard
    otherwise.
    """

    name: str
    port: str
    until_s: float
    is_over: Callable[[], bool]


class Witness:
    """Attach it to a world that has started. `lease_of` says under which lease a reconfiguration was asked for."""

    def __init__(self, rack: Rack) -> None:
        self.violations: list[Violation] = []
        self.unwatched: dict[str, int] = {}
        """Changes of carrier of a NIC port before its agent first looked."""
        self.leases = LeaseWatch(lambda: self.world.clock.wall_ns(), self.breach)
        self.transfers: dict[int, InFlight] = {}
        """By step: transfers that a rank was let go and has not ended."""
        self.seen: dict[str, SeenReconfiguration] = {}
        self._moving: set[str] = set()
        """Reconfigurations that may move something now, as this process of the daemon tells it."""
        self.sets: dict[str, SetPromise] = {}
        """By id, once they were answered."""
        self.lease_of: dict[str, str | None] = {}
        self.lease_of_set: dict[str, str] = {}
        self.touched: dict[tuple[str, PortSide], float] = {}
        """When somebody else than we last changed what is at an end: a front panel, a power cycle, a fault."""
        self.found: dict[tuple[str, PortSide], float] = {}
        """When a daemon that was started anew found a prepared set at a target: a power cut may have taken what the
        journal had of its last switch, and what was told of an end before does not count any more."""
        self.failed_disks: set[str] = set()
        """Hosts whose disk has refused something: an agent that died then cannot know what it has reported."""
        self.troubled = False
        """Whether anything has befallen the world."""
        self.cuts: dict[str, str] = {}
        """By reconfiguration that is not told to be a way back: a transfer, or the host, that it has cut."""
        self.faulted = False
        """Whether any of it was a fault of a twin."""
        self.taken_back: set[str] = set()
        """Switches of hosts of which an operator was told that their host may not set them any more."""
        self.on_document: list[Callable[[Document], None]] = []
        self._rack = rack
        self._world: World | None = None
        self._stands: dict[str, frozenset[Crossconnect]] = {}
        self._powered: dict[str, bool] = {}
        self._outside = False
        self._steps: dict[str, StepsWatch] = {}
        """Applies in steps on their way forth."""
        self._died_s = -math.inf
        self.up_s = 0.0
        """When the daemon started last."""
        self._goals: dict[str, str] = {}
        """By set that a crash cut off in a switch: the target where its rule says it goes."""
        self._settled_s: dict[str, float] = {}
        self._late: dict[str, str] = {}
        self._job_s: dict[str, float] = {}

    @property
    def world(self) -> World:
        assert self._world is not None
        return self._world

    @property
    def now_s(self) -> float:
        return 0.0 if self._world is None else self._world.clock.monotonic_ns() / 1e9

    def attach(self, world: World) -> None:
        """Look at every mirror from now on."""
        self._world = world
        world.nodes.on_kill(self._died)
        for name, twin in world.rack.switches.items():
            self._stands[name] = frozenset(twin.mirror.crossconnects())
            self._powered[name] = twin.mirror.powered
            twin.mirror.on_change.append(partial(self._mirror_changed, name))

    def breach(self, rule: str, what: str) -> None:
        self.violations.append(Violation(at_s=round(self.now_s, 6), rule=rule, what=what))

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """What changes meanwhile is not changed by us."""
        self._outside = True
        try:
            yield
        finally:
            self._outside = False

    def touch(self, switch: str, ends: frozenset[PortSide] | None = None) -> None:
        """Somebody else changed what is at these ends, or at all of a switch."""
        for end in ends or self._rack.testbed.switches[switch].capabilities.ends:
            self.touched[switch, end] = self.now_s

    def was_touched(self, switch: str, crossconnects: frozenset[Crossconnect], *, since_s: float) -> bool:
        """Whether somebody else changed something at the ends of these, from then on."""
        ends = {end for one in crossconnects for end in one.ends}
        return any(self.touched.get((switch, end), -1.0) >= since_s for end in ends)

    def _died(self, node: str) -> None:
        if node == DAEMON:
            self._died_s = self.now_s
            self._steps.clear()
            self.leases.daemon_died()

    # --- the optics

    def _mirror_changed(self, switch: str, now_ns: int) -> None:
        mirror = self.world.rack.switches[switch].mirror
        before, now = self._stands[switch], frozenset(mirror.crossconnects())
        by_power = self._powered[switch] != mirror.powered
        self._stands[switch], self._powered[switch] = now, mirror.powered
        if before == now:
            return
        ends = [end for one in mirror.crossconnects() for end in one.ends]
        if len(ends) != len(set(ends)):
            self.breach("one-crossconnect-an-end", f"{switch} carries {', '.join(mirror.crossconnects())}")
        changed = before ^ now
        if self._outside or by_power:
            self.touch(switch, frozenset(end for one in changed for end in one.ends))
        elif switch in self._rack.driven_switches:
            self._check_change(switch, before - now, now - before)
            self._check_dark()
        else:
            self._check_writer(switch, changed)

    def _check_change(self, switch: str, gone: frozenset[Crossconnect], come: frozenset[Crossconnect]) -> None:
        contents = self._contents()
        entries = [one for one in contents.open if one.concerns(switch)]
        appended = journal_file.read(self.world.journal_disk.read(), None).open
        of_sets = [one for one in appended if one.of_set is not None]
        for stored in contents.sets:
            self.lease_of_set[stored.prepared.id] = stored.prepared.lease
        for one in sorted(gone | come, key=Crossconnect.sort_key):
            of = [entry for entry in (*entries, *of_sets) if _has(entry, switch, one)]
            leases = {self.lease_of.get(entry.reconfiguration) for entry in of}
            leases |= {self.lease_of_set.get(entry.of_set.id) for entry in of if entry.of_set is not None}
            sets = set[str | None]()
            if self.now_s - self._died_s < JOB_WITHIN_S:  # what it had sent, and a power cut took the entry of
                sets = {found.prepared.lease for found in contents.sets if _may_have(found, switch, one)}
            leases |= sets
            if not of and not sets and one in gone and self._overruns(entries, contents.sets, switch, one):
                continue
            if not of and not sets:
                self.breach(
                    "intent-durable", f"{switch} was commanded to change {one}, and no synced entry is open of it"
                )
                continue
            ports = {f"{switch}.{end.port}" for end in one.ends}
            if one in gone:
                ports |= {self._rack.attached[port] for port in sorted(ports) if port in self._rack.attached}
            runs = {entry.run for entry in of}
            self._check_leases(switch, one, ports, leases, runs)
            if one in gone:
                self._check_transfers(switch, one, ports)

    def _check_transfers(self, switch: str, one: Crossconnect, ports: set[str]) -> None:
        for flight in self.transfers.values():
            if flight.port in ports and flight.until_s > self.now_s and not flight.is_over():
                self.breach("transfer-kept", f"{switch} {one} went dark under {flight.name} on {flight.port}")

    def _let_go(self, claimed: TransferClaimed) -> None:
        """Take the go of a transfer; a daemon that was started again repeats one that its rank has already."""
        if any(flight.name == claimed.transfer for flight in self.transfers.values()):
            return
        for seen in [self.seen[id] for id in sorted(self._moving)]:
            ends = {
                (switch, end) for switch, sides in seen.moves.items() for one in sides[0] | sides[1] for end in one.ends
            }
            ports = {self._rack.attached.get(f"{switch}.{end.port}") for switch, end in ends}
            if shared := ports.intersection(claimed.ports):
                names = ", ".join(sorted(filter(None, shared)))
                self.breach("transfer-kept", f"{claimed.transfer} was let onto {names}, which {seen.id} moves")

    def _note_state(self, fact: Fact) -> None:
        match fact:
            case DaemonStarted():
                self.up_s = self.now_s
                self._moving.clear()
            case ReconfigurationState(reconfiguration=id, state="awaiting-confirm"):
                self._moving.discard(id)
            case ReconfigurationState(reconfiguration=id) if id in self.seen:
                self._moving.add(id)
            case ReconfigurationEnded(reconfiguration=id) | DaemonRecovered(reconfiguration=id):
                self._moving.discard(id)

    def _cut(self, cut: TransferCut) -> None:
        """What a way back records before it goes. Without a name: its host had not said what it sends."""
        if cut.reconfiguration not in self.seen:
            self.cuts.setdefault(cut.reconfiguration, cut.transfer or cut.host)
        for number, flight in [*self.transfers.items()]:
            if flight.name == cut.transfer or (not cut.transfer and flight.port in cut.ports):
                del self.transfers[number]

    def job_began(self, host: str) -> None:
        """A job of this host asks its agent to set its switches."""
        self._job_s[host] = self.now_s

    def _check_writer(self, switch: str, changed: frozenset[Crossconnect]) -> None:
        words = f"{switch} changed ({', '.join(map(str, sorted(changed, key=Crossconnect.sort_key)))})"
        if switch in self.taken_back:
            self.breach("one-writer", f"{words}, and it was taken back from its host, whose agent was told")
        if self.now_s - self._job_s.get(self._rack.owners[switch], -math.inf) > JOB_WITHIN_S:
            self.breach("one-writer", f"{words}, and no job of its host asked for that")

    def _check_dark(self) -> None:
        if not self._steps:
            return
        lit = self._lit()
        for id, steps in self._steps.items():
            since_s = self.seen[id].at_s
            if any(at_s >= since_s for at_s in self.touched.values()):
                continue  # somebody else's change of light is not the plan's
            if len(found := steps.dark(lit)) > steps.dark_at_once:
                self.breach(
                    "dark-as-planned", f"{id}: {', '.join(found)} are dark, its plan says {steps.dark_at_once} at once"
                )

    def _lit(self) -> frozenset[Link]:
        """The links that the optics make now, settled or not."""
        state = {name: frozenset(twin.mirror.crossconnects()) for name, twin in self.world.rack.switches.items()}
        return frozenset(self._rack.fabric.links_of(state))

    def _overruns(self, entries: list[OpenEntry], sets: tuple[StoredSet, ...], switch: str, one: Crossconnect) -> bool:
        """Whether somebody else has put this at an end of a set, whose switches read nothing before, or at an end of an
        open entry, after the read that it was planned from: that is reported, not prevented.
        """
        ends = frozenset(one.ends)
        of_set = any(not ends.isdisjoint(found.prepared.ends.get(switch, ())) for found in sets)
        of_entry = any(_takes(entry, switch, one) for entry in entries)
        since_s = 0.0 if of_set else self.now_s - PLAN_WITHIN_S
        return (of_set or of_entry) and self.was_touched(switch, frozenset((one,)), since_s=since_s)

    def _check_leases(
        self, switch: str, one: Crossconnect, ports: set[str], leases: set[str | None], runs: set[str | None]
    ) -> None:
        for id, promise, covered in self.leases.others(ports, but=frozenset(leases)):
            if not any(run is not None and promise.holder == f"{OF_A_RUN}{run}" for run in runs):
                self.breach(
                    "lease-kept", f"{switch} {one} changed; {', '.join(covered)} are leased to {promise.holder} ({id})"
                )

    # --- the journal

    def journaled(self) -> tuple[OpenEntry, ...]:
        """What the journal's disk holds open now, after a power cut."""
        return self._contents().open

    def journaled_sets(self) -> tuple[StoredSet, ...]:
        """The prepared sets that the journal's disk has, after a power cut."""
        return self._contents().sets

    def _contents(self) -> journal_file.Contents:
        return journal_file.read(self.world.journal_disk.durable(), None)

    def read_journal(self) -> None:
        """Note what the journal holds open, of a daemon that died before it could tell."""
        for entry in self.journaled():
            moves = {move.switch: (frozenset(move.remove), frozenset(move.add)) for move in entry.moves}
            self.seen.setdefault(
                entry.reconfiguration,
                SeenReconfiguration(
                    id=entry.reconfiguration,
                    run=entry.run,
                    at_s=self.now_s,
                    moves=moves,
                    of_set=None if entry.of_set is None else entry.of_set.id,
                ),
            )
        cut_off = {one.of_set.id: one.of_set.target for one in self.journaled() if one.of_set is not None}
        for stored in self.journaled_sets():
            if (target := cut_off.get(stored.prepared.id)) is not None and not stored.doubt:
                self._goals[stored.prepared.id] = target if stored.prepared.rule == FINISH else stored.prepared.rule

    # --- documents

    def take(self, document: Document) -> None:
        """A sink: what the daemon tells, held against the optics at once."""
        self._note_state(document.fact)
        self.leases.take(document.fact)
        match document.fact:
            case (
                ReconfigurationState(reconfiguration=id, state=State.ROLLING_BACK)
                | ReconfigurationEnded(reconfiguration=id)
            ):
                self._steps.pop(id, None)
        match document.fact:
            case ReconfigurationStarted(reconfiguration=id) if id in self.seen:
                pass  # its daemon died before the records had it, and the next one tells it
            case ReconfigurationStarted(reconfiguration=id, run=run, moves=moves) as started if not started.source:
                if str(started.by).startswith(OF_A_RULE):
                    self.cuts.pop(id, None)
                self.seen[id] = SeenReconfiguration(
                    id=id,
                    run=run,
                    at_s=self.now_s,
                    of_set=None if started.prepared_set is UNSET else started.prepared_set,
                    moves={
                        move.switch: (
                            frozenset(move.remove),
                            frozenset(move.add),
                        )
                        for move in moves
                    },
                )
                if self.seen[id].of_set is None:  # a switch of a set is told once it has been done
                    self._check_plan(self.seen[id])
                if started.dark_at_once is not UNSET:
                    self._steps[id] = StepsWatch(
                        lit=self._lit(),
                        wanted={end: link.link for link in started.links for end in link.link.ends},
                        dark_at_once=started.dark_at_once,
                    )
            case ReconfigurationEnded(reconfiguration=id, outcome=outcome, why=why) if (
                not self.troubled and outcome != "confirmed" and why.partition(":")[0] in self._rack.driven_switches
            ):
                self.end(id, outcome, EVENT_STREAM)
                self.breach("no-failure-without-cause", f"{id} is {outcome}: {why}")
            case ReconfigurationEnded(reconfiguration=id) | DaemonRecovered(reconfiguration=id) as end if (
                id in self.seen and end.from_journal
            ):
                self.end(id, end.outcome, EVENT_STREAM)  # what is in the optics now is for the last look to judge
            case ReconfigurationEnded(reconfiguration=id, outcome="rolled-back") if id not in self.seen:
                self.cuts.pop(id, None)  # it was to go, and moved nothing
            case ReconfigurationEnded(reconfiguration=id, outcome=outcome) if id in self.seen and outcome != "failed":
                self.end(id, outcome, EVENT_STREAM)
                self.check_optics(self.seen[id], outcome, "success-read-back")
            case DaemonRecovered(outcome="crashed"):
                pass  # it moved nothing, and its end may have been told and not recorded
            case DaemonRecovered(reconfiguration=id, outcome=outcome) if id in self.seen:
                self.end(id, outcome, EVENT_STREAM)
                self.check_optics(self.seen[id], outcome, "success-read-back")
            case ReconfigurationCommanded(reconfiguration=id, commanded_ns=int(sent_ns), window_s=window_s) if (
                id in self.seen and self.seen[id].of_set is not None
            ):  # it is told once it is done, and reads nothing before
                read_s = sent_ns / 1e9 - (window_s or 0.0)
                self.seen[id].at_s = min(self.seen[id].at_s, read_s)
            case SetSettled(prepared_set=id, target=target):
                self._check_settled(id, target)
            case SetReleased(prepared_set=id, why=why):
                self._goals.pop(id, None)
                if id in self.sets and "given up" in why:
                    self.sets[id].given_up = True
            case JournalGivenUp(reconfiguration=id):
                self.end(id, "given-up", EVENT_STREAM)
            case TransferClaimed() as claimed:
                self._let_go(claimed)
            case TransferCut() as cut:
                self._cut(cut)
        for call in self.on_document:
            call(document)

    def end(self, id: str, outcome: str, by: str) -> None:
        """Somebody tells an outcome of a reconfiguration."""
        seen = self.seen.get(id)
        if seen is None:
            return
        first_outcome = seen.outcomes.setdefault(by, outcome)
        others = {who: what for who, what in seen.outcomes.items() if what != outcome}
        if others or first_outcome != outcome:
            self.breach("one-story", f"{id} is {outcome} to {by}, and was {others or first_outcome} before")

    def check_optics(self, seen: SeenReconfiguration, outcome: str, rule: str) -> None:
        """Whether the twins have what the outcome says: the paths, lit or not, as not every protocol tells that."""
        if outcome == "given-up":
            return
        for switch, (removed, added) in seen.moves.items():
            wanted, unwanted = (added, removed - added) if outcome == "confirmed" else (removed, added - removed)
            there = frozenset(self.world.rack.switches[switch].mirror.crossconnects())
            for one in sorted(wanted | unwanted, key=Crossconnect.sort_key):
                if self.was_touched(switch, frozenset((one,)), since_s=seen.at_s):
                    continue
                if any(self.found.get((switch, end), -1.0) > seen.at_s for end in one.ends):
                    continue
                if one in wanted and one not in there:
                    self.breach(rule, f"{seen.id} is {outcome}, and {switch} {one} is not there")
                if one in unwanted and one in there:
                    self.breach(rule, f"{seen.id} is {outcome}, and {switch} still carries {one}")

    def _check_plan(self, seen: SeenReconfiguration) -> None:
        """Whether a plan that begins was made from what is there."""
        since_s = max(0.0, self.now_s - PLAN_WITHIN_S)
        for switch, (removed, added) in seen.moves.items():
            there = frozenset(self.world.rack.switches[switch].mirror.crossconnects())
            wrong = [f"{one} is not there" for one in removed - there]
            wrong += [f"{one} is there" for one in (added - removed) & there]
            ends = removed | added
            if wrong and not self.was_touched(switch, ends, since_s=since_s):
                self.breach("plan-of-now", f"{seen.id} begins, and at {switch} {', '.join(sorted(wrong))}")

    def set_since_s(self, id: str, switch: str) -> float:
        """When a set was last known to be at its target, or this switch of it was last moved to one, and read back."""
        nothing = frozenset[Crossconnect](), frozenset[Crossconnect]()
        switched = [
            one.at_s
            for one in self.seen.values()
            if one.of_set == id and "confirmed" in one.outcomes.values() and one.moves.get(switch, nothing) != nothing
        ]
        return max([self._settled_s.get(id, 0.0), *switched])

    def _check_settled(self, id: str, target: str) -> None:
        """Whether a prepared set is at the target at which its daemon found it, and that is where its rule says."""
        if (goal := self._goals.pop(id, target)) != target:
            self.breach("set-stands", f"set {id} was cut off in a switch, and went to {target}; its rule says {goal}")
        self._settled_s[id] = self.now_s
        for stored in self._contents().sets:
            if stored.prepared.id != id:
                continue
            for switch, wanted in stored.prepared.state(target).items():
                ends = frozenset(stored.prepared.ends[switch])
                self.found |= dict.fromkeys(((switch, end) for end in ends), self.now_s)
                there = frozenset(self.world.rack.switches[switch].mirror.crossconnects())
                strange = frozenset(one for one in there if not ends.isdisjoint(one.ends)) ^ wanted
                for one in sorted(strange, key=Crossconnect.sort_key):
                    if not self.was_touched(switch, frozenset((one,)), since_s=self.up_s):
                        self.breach("set-stands", f"set {id} was found at {target}, and {switch} differs at {one}")

    # --- messages

    def tap(self, bus: Bus, node: str, clock: Clock) -> Bus:
        """The bus of an agent, with a look at the commands that come late."""
        return _TappedBus(bus, clock, self) if node.startswith("agent ") else bus

    def command_came(self, incoming: Incoming, clock: Clock) -> None:
        with contextlib.suppress(ProtocolError):  # the agent answers for what cannot be read
            match decode(incoming.payload):
                case Command(id=id, verb=verb, expires_at_ns=expires) if clock.monotonic_ns() > expires:
                    self._late[id] = verb

    def replied(self, payload: bytes) -> None:
        with contextlib.suppress(ProtocolError):
            match decode(payload):
                case Reply(id=id, outcome="done") if self._late.get(id) in ACTS:
                    self.breach("late-command-refused", f"{self._late[id]} ({id}) came after its expiry, and was done")


class _TappedBus:
    """A bus that passes all on; the witness sees what comes and goes."""

    def __init__(self, bus: Bus, clock: Clock, witness: Witness) -> None:
        self.address = bus.address
        self._bus = bus
        self._clock = clock
        self._witness = witness

    @property
    def connected(self) -> bool:
        return self._bus.connected

    def subscribe(self, topic_filter: str, handler: Callable[[Incoming], None]) -> None:
        def receive(incoming: Incoming) -> None:
            if incoming.topic.endswith("/command"):
                self._witness.command_came(incoming, self._clock)
            handler(incoming)

        self._bus.subscribe(topic_filter, receive)

    def on_up(self, call: Callable[[], None]) -> None:
        self._bus.on_up(call)

    def on_down(self, call: Callable[[str], None]) -> None:
        self._bus.on_down(call)

    async def publish(self, topic: str, payload: bytes, *, qos: int = 0, retain: bool = False) -> None:
        if topic.endswith("/reply"):
            self._witness.replied(payload)
        await self._bus.publish(topic, payload, qos=qos, retain=retain)

    async def run(self) -> None:
        await self._bus.run()


def _may_have(stored: StoredSet, switch: str, one: Crossconnect) -> bool:
    """Whether a crossconnect is of some target of a set."""
    return any(one in target.state.get(switch, ()) for target in stored.prepared.targets)


def _takes(entry: OpenEntry, switch: str, one: Crossconnect) -> bool:
    """Whether an entry puts another crossconnect at an end of this one, on its way forth or back."""
    moved = (each for move in entry.moves if move.switch == switch for each in (*move.remove, *move.add))
    return any(not set(one.ends).isdisjoint(each.ends) for each in moved)


def _has(entry: OpenEntry, switch: str, one: Crossconnect) -> bool:
    return any(one in (*move.remove, *move.add) for move in entry.moves if move.switch == switch)
