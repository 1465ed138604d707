"""The witness of a world: looks at mirrors, disks and messages as they change, and holds them against the rules."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec import UNSET

from hwd.model.daemon import DaemonRecovered, DaemonStarted, JournalGivenUp
from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.reconfiguration import (
    ReconfigurationCommanded,
    ReconfigurationEnded,
    ReconfigurationStarted,
    ReconfigurationState,
)
from hwd.reconfigure.apply.reconfiguration import State
from hwd.reconfigure.journal import file as journal_file
from hwd.reconfigure.journal.entries import OpenEntry
from hwd.reconfigure.journal.sets import StoredSet
from hwd.sim.racks import Rack
from hwd.sim.watches.command_watch import CommandWatch
from hwd.sim.watches.lease_watch import OF_A_JOB, OF_A_RUN, LeaseWatch
from hwd.sim.watches.set_watch import SetWatch
from hwd.sim.watches.sight import SeenReconfiguration, Sight
from hwd.sim.watches.transfer_watch import TransferWatch
from hwd.sim.world import DAEMON, World
from hwd_drivers.core.documents import Document
from hwd_drivers.core.values import Crossconnect

JOB_WITHIN_S: Final = 20.0
"""From the request of a job to the last change that comes of it: a slow switch answers after 12 s."""
PLAN_WITHIN_S: Final = 30.0
"""From the read that a plan was made from to its begin."""
EVENT_STREAM: Final = "the event stream"


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


class Witness(Sight):
    """Attach it to a world that has started. `lease_of` says under which lease a reconfiguration was asked for."""

    def __init__(self, rack: Rack) -> None:
        super().__init__(rack)
        self.unwatched: dict[str, int] = {}
        """Changes of carrier of a NIC port before its agent first looked."""
        self.leases = LeaseWatch(lambda: self.world.clock.wall_ns(), self.breach)
        self.transfers = TransferWatch(self)
        self.sets = SetWatch(self)
        self.commands = CommandWatch(self)
        self.lease_of: dict[str, str | None] = {}
        self.lease_of_set: dict[str, str] = {}
        self.failed_disks: set[str] = set()
        """Hosts whose disk has refused something: an agent that died then cannot know what it has reported."""
        self.troubled = False
        """Whether anything has befallen the world."""
        self.faulted = False
        """Whether any of it was a fault of a twin."""
        self.taken_back: set[str] = set()
        """Switches of hosts of which an operator was told that their host may not set them any more."""
        self.on_document: list[Callable[[Document], None]] = []
        self._stands: dict[str, frozenset[Crossconnect]] = {}
        self._powered: dict[str, bool] = {}
        self._steps: dict[str, StepsWatch] = {}
        """Applies in steps on their way forth."""
        self._died_s = -math.inf
        self._job_s: dict[str, float] = {}

    def attach(self, world: World) -> None:
        """Look at every mirror from now on."""
        self._world = world
        world.nodes.on_kill(self._died)
        for name, twin in world.rack.switches.items():
            self._stands[name] = frozenset(twin.mirror.crossconnects())
            self._powered[name] = twin.mirror.powered
            twin.mirror.on_change.append(partial(self._mirror_changed, name))

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
        elif switch in self.rack.driven_switches:
            self._check_change(switch, before - now, now - before)
            self._check_dark()
        else:
            self._check_writer(switch, changed)

    def _check_change(self, switch: str, gone: frozenset[Crossconnect], come: frozenset[Crossconnect]) -> None:
        contents = self.contents()
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
                ports |= {self.rack.attached[port] for port in sorted(ports) if port in self.rack.attached}
            runs = {entry.run for entry in of}
            self._check_leases(switch, one, ports, leases, runs)
            if one in gone:
                self.transfers.check_gone(switch, one, ports)

    def job_began(self, host: str) -> None:
        """A job of this host asks its agent to set its switches."""
        self._job_s[host] = self.now_s

    def _check_writer(self, switch: str, changed: frozenset[Crossconnect]) -> None:
        words = f"{switch} changed ({', '.join(map(str, sorted(changed, key=Crossconnect.sort_key)))})"
        if switch in self.taken_back:
            self.breach("one-writer", f"{words}, and it was taken back from its host, whose agent was told")
        if self.now_s - self._job_s.get(self.rack.owners[switch], -math.inf) > JOB_WITHIN_S:
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
        return frozenset(self.rack.fabric.links_of(state))

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
        self.sets.read_journal()

    # --- documents

    def take(self, document: Document) -> None:
        """A sink: what the daemon tells, held against the optics at once."""
        self.leases.take(document.fact)
        self.transfers.take(document.fact)
        self.sets.take(document.fact)
        match document.fact:
            case DaemonStarted():
                self.up_s = self.now_s
            case ReconfigurationStarted(reconfiguration=id, lease=str() as lease, by=str() as by) if by.startswith(
                OF_A_JOB
            ):
                self.lease_of.setdefault(id, lease)
            case (
                ReconfigurationState(reconfiguration=id, state=State.ROLLING_BACK)
                | ReconfigurationEnded(reconfiguration=id)
            ):
                self._steps.pop(id, None)
        match document.fact:
            case ReconfigurationStarted(reconfiguration=id) if id in self.seen:
                pass  # its daemon died before the records had it, and the next one tells it
            case ReconfigurationStarted(reconfiguration=id, run=run, moves=moves) as started if not started.source:
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
                not self.troubled and outcome != "confirmed" and why.partition(":")[0] in self.rack.driven_switches
            ):
                self.end(id, outcome, EVENT_STREAM)
                self.breach("no-failure-without-cause", f"{id} is {outcome}: {why}")
            case ReconfigurationEnded(reconfiguration=id) | DaemonRecovered(reconfiguration=id) as end if (
                id in self.seen and end.from_journal
            ):
                self.end(id, end.outcome, EVENT_STREAM)  # what is in the optics now is for the last look to judge
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
            case JournalGivenUp(reconfiguration=id):
                self.end(id, "given-up", EVENT_STREAM)
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
            there = self.there(switch)
            for one in sorted(wanted | unwanted, key=Crossconnect.sort_key):
                if self.was_touched(switch, frozenset((one,)), since_s=seen.at_s):
                    continue
                if any(self.sets.found.get((switch, end), -1.0) > seen.at_s for end in one.ends):
                    continue
                if one in wanted and one not in there:
                    self.breach(rule, f"{seen.id} is {outcome}, and {switch} {one} is not there")
                if one in unwanted and one in there:
                    self.breach(rule, f"{seen.id} is {outcome}, and {switch} still carries {one}")

    def _check_plan(self, seen: SeenReconfiguration) -> None:
        """Whether a plan that begins was made from what is there."""
        since_s = max(0.0, self.now_s - PLAN_WITHIN_S)
        for switch, (removed, added) in seen.moves.items():
            there = self.there(switch)
            wrong = [f"{one} is not there" for one in removed - there]
            wrong += [f"{one} is there" for one in (added - removed) & there]
            ends = removed | added
            if wrong and not self.was_touched(switch, ends, since_s=since_s):
                self.breach("plan-of-now", f"{seen.id} begins, and at {switch} {', '.join(sorted(wrong))}")


def _may_have(stored: StoredSet, switch: str, one: Crossconnect) -> bool:
    return any(one in target.state.get(switch, ()) for target in stored.prepared.targets)


def _takes(entry: OpenEntry, switch: str, one: Crossconnect) -> bool:
    """Whether an entry puts another crossconnect at an end of this one, on its way forth or back."""
    moved = (each for move in entry.moves if move.switch == switch for each in (*move.remove, *move.add))
    return any(not set(one.ends).isdisjoint(each.ends) for each in moved)


def _has(entry: OpenEntry, switch: str, one: Crossconnect) -> bool:
    return any(one in (*move.remove, *move.add) for move in entry.moves if move.switch == switch)
