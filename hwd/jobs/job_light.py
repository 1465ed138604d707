"""JobLight: what a job holds of the rack, and how its light goes from target to target. Under its lease, always."""

import asyncio
import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Final

from hwd.config.testbed.wanted_state import parse_what
from hwd.fabric.fabric import Fabric
from hwd.jobs.live_job import LiveJob
from hwd.model.bodies import PrepareBody, ReconfigurationBody, TargetBody
from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.nic_port import NicPortId
from hwd.model.plane import Target, View
from hwd.model.prepared_set import BEFORE, FINISH, TARGETS_MOST, PreparedSetStatus
from hwd.model.request import Request
from hwd.model.testbed import Testbed
from hwd.ports.ledger import Asker
from hwd.ports.rules import PortAction, Reason
from hwd.ports.testbed_ports import all_ports
from hwd.reconfigure.applies import Applies
from hwd.reconfigure.leases.leases import Leases
from hwd.reconfigure.plans.planner import Planner
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd.reconfigure.transfers import Transfers
from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.values import Crossconnect, CrossconnectState

MARGIN_S: Final = 600.0
"""A lease lasts so much longer than its job: for the start, and for its end."""
SETTLED_WITHIN_S: Final = 60.0
LOOK_S: Final = 0.2
"""Between two looks at what a restart of the daemon has left open."""


log = logging.getLogger(__name__)


class JobLight:
    """The targets of a plane that can be listed are prepared once, as a set; a switch to one of those reads and plans
    nothing. Where a plane has none, more than a set may have or those of regions, or prepares further ones, each switch
    is planned.
    """

    def __init__(
        self,
        job: LiveJob,
        testbed: Testbed,
        *,
        applies: Applies,
        reconfigurer: Reconfigurer,
        leases: Leases,
        planner: Planner,
        transfers: Transfers,
    ) -> None:
        self._job = job
        self._testbed = testbed
        self._applies = applies
        self._reconfigurer = reconfigurer
        self._sets = reconfigurer.sets
        self._leases = leases
        self._planner = planner
        self._transfers = transfers

    async def take(self, view: View, targets: Iterable[Target]) -> str:
        """Take the lease of the job: its ports, and those that the paths of its targets pass; returns its id.

        Raises RefusedError where one of them is taken, and what a plan of a target raises.
        """
        ports = {*view.ports, *view.ends}
        for target in targets:
            if what := what_of(target):
                routed = await self._planner.route(Request(wanted=parse_what(what, self._testbed)))
                ports |= routed.ports
        ports &= all_ports(self._testbed)
        if not ports:
            return ""  # its hosts are on packet switches alone
        claim = await self._leases.take(holder=str(self._job), ports=ports, for_s=self._job.record.within_s + MARGIN_S)
        return claim.id

    async def prepare(self, targets: Mapping[str, Target]) -> str:
        """Prepare the targets of a job as a set; returns its id, empty where there is none. Regions have none, as a set
        is at one target.
        """
        wanted = {id: what for id, target in targets.items() if (what := what_of(target))}
        if not 0 < len(wanted) <= TARGETS_MOST or any(target.ports for target in targets.values()):
            return ""
        await self._end_unleased_light()
        body = PrepareBody(
            targets={id: TargetBody(what=what) for id, what in wanted.items()},
            lease=self._job.record.lease,
            after_crash=FINISH,
            ready_within_s=self._job.record.ready_within_s,
            by=str(self._job),
        )
        return (await self._applies.prepare(body)).id

    async def _end_unleased_light(self) -> None:
        """End what joins a port of its lease to one beyond it, where nobody holds that: light that a job before has
        left. A set has both ends of what it changes, so it could not be prepared; and neither drift nor a restore is to
        bring that light back.
        """
        own, now = self.ports, self._job.clock.wall_ns()
        asker, freed = Asker(lease=self._job.record.lease), []
        for switch, readings in self._reconfigurer.observed.items():
            for one in readings:
                ends = {f"{switch}.{end.port}": end for end in one.crossconnect.ends}
                if len(inside := own & ends.keys()) != 1 or len(ends) == 1:
                    continue
                if not any(self._leases.ledger.refusals(asker, ends, PortAction.CHANGE, now_wall_ns=now)):
                    freed.append(f"{switch}:{ends[next(iter(inside))]}-none")
        if freed:
            what = " ".join(freed)
            log.info("%s: takes light that stands on its ports and is nobody's: %s", self._job, what)
            await self._applies.apply(
                ReconfigurationBody(what=what, lease=self._job.record.lease, by=str(self._job.record))
            )

    async def wait_until_known(self, target: Target) -> None:
        """Wait until it is known what hosts send, and where the switches of its set are: a restart of the daemon leaves
        both open. Raises RefusedError where the job is over before that.
        """
        if not what_of(target):
            await self._until(lambda: True)
            return
        hosts = {rank.host for rank in self._job.record.ranks}
        await self._until(lambda: hosts.isdisjoint(self._transfers.unreported))
        if (of_set := self._set) is not None:
            await self._until(lambda: self._sets.is_settled(of_set.id), within_s=SETTLED_WITHIN_S)

    async def wait_until_read(self) -> None:
        """Wait as `wait_until_known` does, for light at a target: until each switch of its lease was read, or cannot
        be.
        """
        named = {port.partition(".")[0] for port in self.ports}
        await self._until(lambda: named.isdisjoint(self._reconfigurer.unread), within_s=SETTLED_WITHIN_S)

    async def go(self, id: str, target: Target, *, reconfiguration: str) -> None:
        """Bring the light to a target, read back and with its links ready; `wait_until_known` comes first. Raises what
        a switch or an apply raises.
        """
        if not (what := what_of(target)):
            return
        record = self._job.record
        if self._set is not None:
            await self._applies.switch(record.prepared_set, id, id=reconfiguration, by=str(record))
            return
        await self._applies.apply(
            ReconfigurationBody(
                what=what,
                id=reconfiguration,
                lease=record.lease,
                ready_within_s=record.ready_within_s,
                by=str(record),
            )
        )

    async def roll_back(self, reconfiguration: str) -> None:
        """End one that is under way in the state before it. Raises RefusedError where it has not begun, or stands."""
        await self._applies.roll_back(reconfiguration)

    def why_unleased(self) -> str:
        """Why the job has its lease no more; empty where it has it, or needs none."""
        try:
            if self._job.record.lease:
                self._leases.get(self._job.record.lease)
        except RefusedError as error:
            return reason_of(error)
        return ""

    def seen_at(self, id: str, target: Target) -> str:
        """Where the light is that was brought to a target: what its set says, by the last reports of its switches,
        empty where they have left it or that is not known; the target itself where no set holds it.
        """
        of_set = self._set
        return id if of_set is None or not what_of(target) else of_set.at or ""

    @property
    def ports(self) -> frozenset[str]:
        """The ports of its lease: a change of any of them may be one of its light."""
        lease = self._leases.ledger.get(Reason.LEASE, self._job.record.lease)
        return frozenset() if lease is None else lease.ports

    def how_it_left(self, id: str, target: Target, ports: Collection[NicPortId]) -> str:
        """How the light of these ports has left a target, by the last reports of its switches; empty where it has not,
        or where that is not known.
        """
        if not what_of(target):
            return ""
        if (of_set := self._set) is None:
            links = [link for link in target.links if {*link.ends} <= {*ports}]
            made = self._made(links)
            found = [f"{link} is no more what is desired" for link in links if link not in made]
            wanted = dict.fromkeys((*target.crossconnects, *(one for link in links for one in made.get(link, ()))))
            return ", ".join((*found, *self._lacks(wanted)))
        states = {one.id: one.crossconnects for one in of_set.targets}
        if id not in states or of_set.switching is not None or not self._sets.is_settled(of_set.id):
            return ""
        if of_set.at is None:
            return ", ".join(self._lacks(states[id])) or of_set.why
        if {*states[of_set.at]} != {*states[id]}:
            return f"set {of_set.id} is at {of_set.at}"
        return ", ".join(self._lacks(states[id]))

    def way_back(self, id: str, target: Target, ports: Collection[NicPortId]) -> Target:
        """What brings the light of these ports back to a target: its own where the prepared set has it, else the
        crossconnects that made it, where these are known.
        """
        if (of_set := self._set) is not None and any(one.id == id for one in of_set.targets):
            return target
        links = [link for link in target.links if {*link.ends} <= {*ports}]
        made = self._made(links)
        if target.crossconnects or not made.keys() >= {*links}:
            return Target(links=tuple(links), crossconnects=target.crossconnects)
        return Target(crossconnects=tuple(dict.fromkeys(one for link in links for one in made[link])))

    def _lacks(self, wanted: Iterable[SwitchCrossconnect]) -> Iterator[str]:
        """What of this passes no light. What a switch carries that was not read yet is not known."""
        latest = self._reconfigurer.observed
        for one in wanted:
            if (readings := latest.get(one.switch)) is None:
                continue
            state = next((each.state for each in readings if each.crossconnect == one.crossconnect), None)
            if state in (None, CrossconnectState.FAILED, CrossconnectState.BLOCKED):
                yield f"{one.switch} {'lacks' if state is None else f'says {state}:'} {one.crossconnect}"

    def _made(self, links: Collection[Link]) -> dict[Link, list[SwitchCrossconnect]]:
        """The crossconnects of these links, as the reconfigurations that made them want them."""
        desired = self._reconfigurer.desired.crossconnects()
        made = self._planner.routed_of({name: frozenset(found) for name, found in desired.items()}) if links else ()
        return {one.link: sorted(one.crossconnects, key=str) for one in made if one.link in links}

    def links_of(self, target: Target) -> tuple[Link, ...]:
        """The links that a target makes, also one of crossconnects."""
        state: dict[str, set[Crossconnect]] = {}
        for one in target.crossconnects:
            state.setdefault(one.switch, set()).add(one.crossconnect)
        return target.links or tuple(self._fabric.links_of({name: frozenset(all) for name, all in state.items()}))

    @cached_property
    def _fabric(self) -> Fabric:
        return Fabric(self._testbed)

    async def release_set(self) -> None:
        """No error where it is over already."""
        if (of_set := self._set) is not None:
            await self._sets.release(of_set.id, why=f"{self._job} has ended, or plans each switch")

    async def release(self) -> None:
        """Give back all that the job holds. Its light stays as it is."""
        await self.release_set()
        owner = str(self._job)
        for lease in [one for one in self._leases.all() if one.owner == owner]:  # also one that was not recorded
            await self._leases.release(lease.id, why=f"{owner} has ended")

    @property
    def _set(self) -> PreparedSetStatus | None:
        """Its prepared set, where it has one."""
        return next((one for one in self._sets.all() if one.id == self._job.record.prepared_set), None)

    async def _until(self, is_known: Callable[[], bool], *, within_s: float = math.inf) -> None:
        """Raises RefusedError where the job is over before it is known."""
        by_s = asyncio.get_running_loop().time() + within_s
        while not self._job.is_over:
            if is_known() or asyncio.get_running_loop().time() >= by_s:
                return
            await asyncio.sleep(LOOK_S)
        raise RefusedError("the job has come to its end")


def what_of(target: Target) -> str:
    """A target in the words of an apply; empty where it wants no light. Raises ConfigError for one of both kinds."""
    if target.links and target.crossconnects:
        raise ConfigError("a target of a plane has links or crossconnects, not both")
    if target.links:
        return ", ".join(target.links)
    by_switch: dict[str, list[str]] = {}
    for one in target.crossconnects:
        by_switch.setdefault(one.switch, []).append(one.crossconnect)
    return " ".join(f"{switch}:{','.join(pairs)}" for switch, pairs in by_switch.items())


def check_names(targets: Iterable[str]) -> None:
    """Raises ConfigError for targets whose names have a meaning in a set."""
    if taken := {BEFORE, FINISH}.intersection(targets):
        raise ConfigError(f"a target of its plane is named {', '.join(sorted(taken))}, which means something else")
