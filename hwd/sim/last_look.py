"""The last look at a simulated world: once nothing befalls it any more, it comes to rest, and all is in order."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from typing import Final

import msgspec

from hwd.model.bodies import ActBody
from hwd.model.daemon import DaemonRecovered, JournalGivenUp
from hwd.model.host import HostEvent, HostLost
from hwd.model.reconfiguration import ReconfigurationEnded
from hwd.records.records import Records
from hwd.records.records_file import DatabaseUrl
from hwd.sim.racks import Rack
from hwd.sim.watches.sight import SeenReconfiguration
from hwd.sim.watches.witness import Witness
from hwd.sim.world import DAEMON, World
from hwd.twin.nic import What
from hwd.web.service import Service
from hwd_agents.wire.events import CarrierData
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.frames import decode_frames
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.core.values import Crossconnect, PortSide

REST_WITHIN_S: Final = 90.0
"""Longer than the slowest retry: a try of the recovery takes up to 30 s, and another follows after 5 s."""
EVENTS_WITHIN_S: Final = 60.0
LOOK_S: Final = 0.5
OURS: Final = ("early", "moving", "unready", "cut")
"""Breaches of a job's promises that nobody but us can make."""
ENDS: Final = (ReconfigurationEnded, DaemonRecovered, JournalGivenUp)


class LastLook:
    """Checks what must hold at the end. The records are read by a connection of its own."""

    def __init__(
        self, world: World, records_url: DatabaseUrl, rack: Rack, witness: Witness, tell: Callable[[str], None]
    ) -> None:
        self._world = world
        self._url = records_url
        self._rack = rack
        self._witness = witness
        self._tell = tell

    async def look(self, calls: Sequence[asyncio.Task[None]], jobs: Collection[str]) -> None:
        """`calls`: of the operators; `jobs`: those whose start was answered, once all calls are."""
        ended = self._world.ended()
        for node, error in ended.items():
            self._witness.breach("no-bug", f"{node} ended by itself: {error!r}")
        if ended:
            for call in calls:
                call.cancel()
            return
        await asyncio.gather(*calls)
        await self._come_to_rest()
        self._check_ends()
        self._check_sets()
        await self._check_jobs(jobs)
        await self._check_events()
        await self._check_story()
        await self._check_rack()

    async def _come_to_rest(self) -> None:
        until_s = self._witness.now_s + REST_WITHIN_S
        left: list[str] = []
        while self._witness.now_s < until_s:
            await asyncio.sleep(LOOK_S)
            for node, error in self._world.ended().items():
                self._witness.breach("no-bug", f"{node} ended by itself: {error!r}")
                return
            daemon = self._world.daemon
            left = ["the daemon is down"] if daemon is None else await self._left(daemon.service)
            if daemon is not None:
                jobs = await daemon.service.jobs.jobs()
                left += [f"job {one.id} is {one.state}" for one in jobs if not one.ended]
            if not left:
                return
            if daemon is not None and self._witness.now_s > until_s - REST_WITHIN_S / 2:
                await self._give_up(daemon.service)
        self._witness.breach("recovered", f"after {REST_WITHIN_S:g} s of peace: {'; '.join(left)}")

    async def _left(self, service: Service) -> list[str]:
        status, ready = await service.rack.status(), service.rack.ready()
        return [
            *([] if ready.ready else [f"the rack is not ready: {', '.join(ready.why)}"]),
            *(f"{host.host} is away or not aligned" for host in status.hosts if not (host.up and host.aligned)),
            *(f"{one} is under way" for one in status.reconfigurations),
            *map(str, status.open),
            *(f"run {one.run} is {one.state}" for one in (*status.runs, *status.queue)),
            *(f"the journal has {one.reconfiguration} open" for one in self._witness.journaled()),
            *(f"set {one.id} is nowhere: {one.why}" for one in status.sets if one.at is None),
            *(f"set {one.id} is still being switched" for one in status.sets if one.switching is not None),
        ]

    async def _give_up(self, service: Service) -> None:
        """An operator decides where somebody else has taken an end: the daemon must not."""
        for entry in self._witness.journaled():
            seen = self._witness.seen.get(entry.reconfiguration)
            ours = [(move.switch, frozenset((*move.remove, *move.add))) for move in entry.moves]
            if seen and any(self._witness.was_touched(switch, ends, since_s=seen.at_s) for switch, ends in ours):
                self._tell(f"an operator gives {entry.reconfiguration} up: somebody else has changed its light")
                try:
                    await self._world.nodes.run_in_node(
                        DAEMON, service.light.give_up(entry.reconfiguration, ActBody(by="somebody"))
                    )
                except RefusedError as error:
                    self._tell(str(error))

    def _check_ends(self) -> None:
        """The last reconfiguration of each end decides what is there; who cut a transfer was a way back."""
        for id, cut in self._witness.transfers.cuts.items():
            self._witness.breach("transfer-kept", f"{id} cut {cut}, and is no way back")
        taken = set[tuple[str, PortSide]]()
        for seen in sorted(self._witness.seen.values(), key=lambda one: -one.at_s):
            outcome = next(iter(seen.outcomes.values()), None)
            if outcome is not None and taken.isdisjoint(seen.ends):
                self._witness.check_optics(seen, outcome, "all-or-nothing")
            taken |= seen.ends

    def _check_sets(self) -> None:
        """Each set that was answered and has not ended stands, and its switches have its target."""
        now_ns = self._world.clock.wall_ns()
        stored = {one.prepared.id: one for one in self._witness.journaled_sets()}
        for id, promise in self._witness.sets.promises.items():
            lease = self._witness.leases.promises.get(promise.lease)
            is_over = promise.released or promise.given_up or lease is None or lease.released
            is_over = is_over or any(
                until_ns is not None and until_ns <= now_ns
                for until_ns in (promise.expires_wall_ns, None if lease is None else lease.expires_wall_ns)
            )
            if id not in stored and not is_over:
                self._witness.breach("set-stands", f"set {id} was prepared, and is gone")
        for id, one in stored.items():
            for switch, wanted in one.prepared.state(one.at).items():
                mirror = self._world.rack.switches[switch].mirror
                ends = frozenset(one.prepared.ends[switch])
                there = frozenset(each for each in mirror.crossconnects() if not ends.isdisjoint(each.ends))
                since_s = self._witness.sets.since_s(id, switch)
                strange = frozenset(
                    each
                    for each in there ^ wanted
                    if not self._witness.was_touched(switch, frozenset((each,)), since_s=since_s)
                )
                if strange:
                    names = ", ".join(sorted(strange))
                    self._witness.breach("set-stands", f"set {id} is at {one.at}, and {switch} differs at {names}")

    async def _check_jobs(self, answered: Collection[str]) -> None:
        """Check that each job has ended and holds nothing, and that none of its promises was broken by us."""
        if (daemon := self._world.daemon) is None:
            return  # which is said already
        service = daemon.service
        jobs = {one.id for one in await service.jobs.jobs()}
        for id in answered:
            if id not in jobs:
                self._witness.breach("job-kept", f"job {id} was started, and is not in the records")
        for program in self._world.processes.running:
            self._witness.breach("job-kept", f"{program} runs, and its job has ended")
        status = await service.rack.status()
        for id in jobs:
            held = [f"lease {one.lease}" for one in status.leases if one.holder.startswith(f"job {id} ")]
            held += [f"set {one.id}" for one in status.sets if one.holder.startswith(f"job {id} ")]
            if held:
                self._witness.breach("job-kept", f"job {id} has ended, and holds {', '.join(held)}")
            for found in await service.jobs.verification(id):
                for one in found.breaches:
                    if one.kind in OURS or not self._witness.faulted:
                        self._witness.breach("job-kept", f"job {id}: {one}")

    async def _check_events(self) -> None:
        until_s = self._witness.now_s + EVENTS_WITHIN_S
        true: dict[str, int] = {}
        while True:
            recorded, unseen, lost, broken = await self._recorded_changes()
            true = {
                port: count - self._witness.unwatched.get(port, 0)
                for port, count in carrier_changes(self._world).items()
            }
            short = {
                port: count
                for port, count in true.items()
                if not self._least(port, recorded, unseen)
                <= count
                <= recorded.get(port, 0) + max(0, lost.get(port.partition(".")[0], 0))
            }
            if not short and not broken:
                return
            if self._witness.now_s > until_s:
                break
            await asyncio.sleep(2.0)
        for port, count in short.items():
            self._witness.breach(
                "no-event-lost",
                f"the carrier of {port} changed {count} times, and {recorded.get(port, 0)} are recorded",
            )
        for text in broken:
            self._witness.breach("no-event-lost", text)

    async def note_unwatched(self) -> None:
        """Note at the start what changed before the agents first looked: that is nobody's event."""
        recorded, _, _, _ = await self._recorded_changes()
        true = carrier_changes(self._world)
        self._witness.unwatched = {port: count - recorded.get(port, 0) for port, count in true.items()}

    def _least(self, port: str, recorded: dict[str, int], unseen: dict[str, int]) -> int:
        """The fewest changes that the records stand for. An agent whose disk had failed counts again what it had sent
        and not stored when it died.
        """
        again = unseen.get(port, 0) if port.partition(".")[0] in self._witness.failed_disks else 0
        return recorded.get(port, 0) - again

    async def _recorded_changes(self) -> tuple[dict[str, int], dict[str, int], dict[str, int], list[str]]:
        """Carrier changes by port, seen or counted, and those that were counted only; losses by host that are not
        counted at a port; gaps in numbers.
        """
        with closing(Records(self._url, InlineOffload())) as records:
            await records.open()
            stored = await records.documents(kinds=[HostEvent.KIND, HostLost.KIND])
        facts = [one.document.fact for one in stored]
        lost: dict[str, int] = {}
        events = [fact for fact in facts if isinstance(fact, HostEvent)]
        for fact in facts:
            if isinstance(fact, HostLost):
                lost[fact.host] = lost.get(fact.host, 0) + fact.count
        numbers: dict[tuple[str, str], list[int]] = {}
        changes: dict[str, int] = {}
        counted: dict[str, int] = {}
        carrier: dict[str, bool] = {}
        counters: dict[str, object] = {}
        boots = {boot: number for number, boot in enumerate(self._world.boots)}
        for event in sorted(events, key=lambda one: (boots[one.boot], one.seq)):  # a host's clock may be stepped
            numbers.setdefault((event.host, event.boot), []).append(event.seq)
            if isinstance(event.data, CarrierData):
                port = f"{event.host}.{event.port}"
                unseen = event.data.unseen or 0
                before = carrier.get(port, bool(self._witness.unwatched.get(port, 0) % 2))
                counter = event.data.carrier_changes
                is_change = event.data.carrier != before and counter != counters.get(port)  # else its interface is away
                changes[port] = changes.get(port, 0) + unseen + is_change
                counted[port] = counted.get(port, 0) + unseen
                counters[port] = counter
                carrier[port] = event.data.carrier
                lost[event.host] = lost.get(event.host, 0) - unseen
        broken = [
            f"events of {host} (boot {boot[:8]}) are recorded as {sorted(seqs)}"
            for (host, boot), seqs in numbers.items()
            if (missing := len(set(range(1, max(seqs) + 1)) - set(seqs)) + len(seqs) - len(set(seqs)))
            and missing > lost.get(host, 0)
        ]
        return changes, counted, lost, broken

    async def _check_rack(self) -> None:
        """The leases of the records, and what they say is desired."""
        with closing(Records(self._url, InlineOffload())) as records:
            await records.open()
            leases = frozenset(one.id for one in await records.leases.all())
            requests = frozenset(one.id for one in await records.leases.requests())
            desired = await records.desired.all()
        self._witness.leases.check_stored(leases, requests)
        wanted: dict[tuple[str, PortSide], tuple[SeenReconfiguration, Crossconnect | None]] = {}
        for seen in sorted(self._witness.seen.values(), key=lambda one: one.at_s):
            if next(iter(seen.outcomes.values()), None) != "confirmed":
                continue
            for switch, (removed, added) in seen.moves.items():
                wanted |= {(switch, end): (seen, None) for one in removed for end in one.ends}
                wanted |= {(switch, end): (seen, one) for one in added for end in one.ends}
        for (switch, end), (seen, one) in wanted.items():
            found = desired.get(switch, {}).get(end)
            there = None if found is None else found.crossconnect
            others = (
                self._witness.touched,
                self._witness.sets.found,
            )  # a set that was found later says what is desired
            if any(known.get((switch, end), -1.0) >= seen.at_s for known in others):
                continue
            if there == one or seen.of_set is not None:
                continue
            self._witness.breach(
                "desired-kept", f"{seen.id} wanted {one or 'nothing'} at {switch}.{end}, and {there or 'nothing'} is"
            )

    async def _check_story(self) -> None:
        ends = [
            msgspec.json.decode(payload)
            for payload in decode_frames(self._world.journal_disk.durable().rstrip(b"\0")).payloads
        ]
        for end in ends:
            if end["entry"] == "end":
                self._witness.end(end["reconfiguration"], end["outcome"], "the journal")
        with closing(Records(self._url, InlineOffload())) as records:
            await records.open()
            await self._world.nodes.run_in_node(DAEMON, _settle())
            stored = await records.documents(kinds=[one.KIND for one in ENDS])
        outcomes: dict[str, str] = {}
        for one in stored:
            match one.document.fact:
                case ReconfigurationEnded(reconfiguration=id, outcome="confirmed" | "rolled-back" as outcome):
                    outcomes[id] = outcome
                case DaemonRecovered(reconfiguration=id, outcome=outcome):
                    outcomes[id] = outcome
                case JournalGivenUp(reconfiguration=id):
                    outcomes[id] = "given-up"
        for end in ends:
            if end["entry"] == "end" and outcomes.get(end["reconfiguration"]) != end["outcome"]:
                self._witness.breach(
                    "one-story",
                    f"{end['reconfiguration']} is {end['outcome']} in the journal, "
                    f"and {outcomes.get(end['reconfiguration'], 'without an end')} in the records",
                )


def carrier_changes(world: World) -> dict[str, int]:
    """How often the carrier of each NIC port truly changed."""
    changes: dict[str, int] = {}
    for truth in world.truths:
        if truth.what is What.CARRIER:
            changes[truth.port] = changes.get(truth.port, 0) + 1
    return changes


async def _settle() -> None:
    await asyncio.sleep(2.0)  # the recorder writes what was told last, to a disk that takes its time
