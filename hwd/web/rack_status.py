"""The state of the rack as callers see it: switches, hosts, what is not ready, and the inventory of a run's record."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from hwd.bus.gateway import Gateway
from hwd.bus.skew import skew
from hwd.fabric.in_use import InUse
from hwd.hosts.delegations import Delegations
from hwd.model.desired_state import DesiredEnds, SwitchDesired, UnlitLink, crossconnects_of, difference, free_ends_of
from hwd.model.host import HostStatus
from hwd.model.lease import SwitchLease
from hwd.model.status import Alert, BusStatus, DiskSpace, Readiness, StorageStatus
from hwd.model.switch import NOT_ENDED, CompositeStatus, LinkStatus, SwitchChange, SwitchStatus
from hwd.ports.delegation import Delegation
from hwd.rack.rack import Rack
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd.records.recorder import RecordingSink
from hwd.telemetry.alerts import Alerts
from hwd.web.daemonboard import Daemonboard
from hwd.web.turns import in_turns
from hwd_drivers.core.documents import Json
from hwd_drivers.core.structs import to_plain
from hwd_drivers.core.values import PortSide, natural_key

SWITCHES_AT_ONCE, HOSTS_AT_ONCE, DESIRED_AT_ONCE = 2048, 512, 256
LINKS_AT_ONCE, FOLLOWED_AT_ONCE = 16, 128
"""How many make one turn of the event loop, which takes some milliseconds at worst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeptDesired:
    """The desired state said of a switch, and of what. `is_changing`: while reconfigurations in progress change it."""

    of: SwitchStatus
    ends: DesiredEnds
    is_changing: bool
    desired: SwitchDesired


@dataclass(frozen=True, slots=True, kw_only=True)
class _KeptSwitch:
    """One switch with its last change, and of what that was made."""

    of: SwitchStatus
    change: SwitchChange
    status: SwitchStatus


class RackStatus:
    """Made from documents and from what the parts of the daemon know now; it asks no device.

    `version`, `commit`: of this program.
    """

    def __init__(
        self,
        *,
        in_use: InUse,
        version: str,
        commit: str,
        rack: Rack,
        alerts: Alerts,
        own: Daemonboard,
        gateway: Gateway,
        delegations: Delegations,
        reconfigurer: Reconfigurer,
        recorder: RecordingSink,
    ) -> None:
        self._in_use = in_use
        self.version = version
        self._commit = commit
        self._switches = rack.switches
        self._links = rack.links
        self._ports = rack.ports
        self._changes = rack.changes
        self._alerts = alerts
        self._own = own
        self._gateway = gateway
        self._delegations = delegations
        self._reconfigurer = reconfigurer
        self._recorder = recorder
        self._desired: dict[str, _KeptDesired] = {}
        self._kept: dict[str, _KeptSwitch] = {}
        self._following = asyncio.Lock()

    def bus(self) -> BusStatus:
        return BusStatus(
            address=self._gateway.address,
            connected=self._gateway.connected,
            since_wall_ns=self._own.bus_since_wall_ns,
        )

    def alerts(self) -> list[Alert]:
        """The alerts in force, the worst first."""
        return self._alerts.in_force()

    def disk(self) -> DiskSpace | None:
        """The space of the data folder, as it was read last."""
        return self._own.disk

    def records(self) -> StorageStatus:
        failure = self._recorder.failure
        return StorageStatus(writable=failure is None, why=None if failure is None else str(failure))

    def journal(self) -> StorageStatus:
        trouble = self._reconfigurer.journal_trouble
        return StorageStatus(writable=not trouble, why=trouble or None)

    def composites(self) -> list[CompositeStatus]:
        return self._links.composites()

    async def links(self) -> list[LinkStatus]:
        """The links that have light from end to end."""
        while True:  # a reload may come in between
            fabric = self._in_use.fabric
            async with self._following:  # who asks at the same time would end it, and follow the rest at once
                for _ in self._links.follow(switches_at_once=FOLLOWED_AT_ONCE):
                    await asyncio.sleep(0)
            links = await in_turns(self._links.each(), LINKS_AT_ONCE)
            if fabric is self._in_use.fabric:
                return links

    async def desired(self) -> list[SwitchDesired]:
        """What is wanted of each switch of which something is wanted, and how it differs as it was reported last."""
        return await in_turns(self._desired_of_each(), DESIRED_AT_ONCE)

    def _desired_of_each(self) -> Iterator[SwitchDesired]:
        """The desired state of each switch as it is when it is judged: reconfigurations may end between two turns."""
        desired, made = self._reconfigurer.desired, 0
        changing, changed = frozenset[str](), set[str]()
        for name in self._in_use.testbed.switches:
            report, ends = self._switches.report(name), desired.of(name)
            if report is None or not ends:
                continue
            if made % DESIRED_AT_ONCE == 0:  # once for each turn
                changing = desired.changing()
                changed = {port.partition(".")[0] for port in changing}
            found, is_changing = self._desired.get(name), name in changed
            if found is None or is_changing or found.is_changing or found.ends is not ends or found.of is not report:
                kept = _desired_of(report, ends, changing)
                found = _KeptDesired(of=report, ends=ends, is_changing=is_changing, desired=kept)
            self._desired[name] = found
            made += 1
            yield found.desired

    async def orphans(self) -> list[str]:
        """See `Links.orphans`."""
        await asyncio.sleep(0)
        for _ in self._links.look_for_orphans():
            await asyncio.sleep(0)
        return self._links.orphans()

    def unlit(self) -> list[UnlitLink]:
        """Links that are wanted, and that the crossconnects do not make now."""
        desired = self._reconfigurer.desired
        return [
            replace(one, reconfiguration=desired.changed_by(one.missing))
            for one in self._links.unlit(desired.crossconnects())
        ]

    def ready(self) -> Readiness:
        """Ready means: our switches answer, the broker is connected, records and journal can be written, and no entry
        of a damaged journal waits for a decision.
        """
        why = [] if self._gateway.connected else [f"broker {self._gateway.address} is not connected"]
        why += [
            f"switch {switch.switch} is down: {switch.cause}"
            for switch in self._switches.reports()
            if switch.up is False and switch.owner is None
        ]
        if self._recorder.failure is not None:
            why.append(str(self._recorder.failure))
        if trouble := self._reconfigurer.journal_trouble:
            why.append(trouble)
        why += [
            f"{one.reconfiguration} ({one.what}): {one.why}"
            for one in self._reconfigurer.recovery.left_open()
            if one.is_held
        ]
        return Readiness(ready=not why, why=why)

    def is_settled(self) -> bool:
        """Whether all is ready, agents are connected, their clocks aligned, and no reconfiguration is left open."""
        hosts = self._gateway.hosts().values()
        there = all(agent.up and agent.alignment is not None for agent in hosts)
        return there and self.ready().ready and not self._reconfigurer.recovery.left_open()

    async def switches(self) -> list[SwitchStatus]:
        """All switches, each with the lease of the host that drives it, and its last change."""
        return await in_turns(self._each_switch(), SWITCHES_AT_ONCE)

    def _each_switch(self) -> Iterator[SwitchStatus]:
        leases = {lease.switch: delegated(lease) for lease in self._delegations.all()}
        for name in self._in_use.testbed.switches:
            if (one := self._switches.report(name)) is None:  # a reload has just taken it out
                continue
            lease, change = leases.get(name), self._changes.last(name)
            if lease is not None or (change is not None and change.outcome == NOT_ENDED):
                yield replace(one, lease=lease, last_change=self._stated(change))
            elif change is None:
                yield one
            else:
                found = self._kept.get(name)
                if found is None or found.of is not one or found.change is not change:
                    status = replace(one, last_change=change)
                    found = self._kept[name] = _KeptSwitch(of=one, change=change, status=status)
                yield found.status

    def _stated(self, change: SwitchChange | None) -> SwitchChange | None:
        """A change with the state of its reconfiguration where that is under way."""
        if change is None or change.outcome != NOT_ENDED:
            return change
        states = {one.id: str(one.state) for one in self._reconfigurer.under_way}
        return replace(change, outcome=states.get(change.reconfiguration or "", NOT_ENDED))

    def blocked(self, switch: str) -> list[PortSide]:
        """The ends of a switch that overrides hold dark, as it was reported last."""
        return next(one.blocked for one in self._switches.reports() if one.switch == switch)

    async def hosts(self) -> list[HostStatus]:
        return await in_turns(self._each_host(), HOSTS_AT_ONCE)

    def inventory(self) -> dict[str, Json]:
        """Models, serials and versions that the devices report now, for the record of a run."""
        births = {name: agent.birth for name, agent in self._gateway.hosts().items()}
        return {
            "switches": to_plain([*self._each_switch()]),
            "hosts": [
                {
                    **to_plain(host),
                    "inventory": to_plain(birth.inventory) if (birth := births.get(host.name)) else None,
                }
                for host in self._each_host()
            ],
            "version": self.version,
            "commit": self._commit,
        }

    def _each_host(self) -> Iterator[HostStatus]:
        agents, skews = self._gateway.hosts(), dict[str, str]()
        for name in self._in_use.testbed.hosts:
            birth = agents[name].birth
            version = "" if birth is None else birth.version
            if version not in skews:
                skews[version] = skew(self.version, version) if birth is not None else ""
            ports = {port: now.as_host_port for port, now in self._ports.of_host(name).items()}
            since_ns = self._ports.since_wall_ns(name)
            yield self._gateway.status(name, ports, since_wall_ns=since_ns, skew=skews[version])


def _desired_of(report: SwitchStatus, ends: DesiredEnds, changing: frozenset[str]) -> SwitchDesired:
    name = report.switch
    differs = difference(name, ends, report.readings, but=changing) if report.up else None
    return SwitchDesired(
        switch=name,
        crossconnects=[*crossconnects_of(ends)],
        free=[*free_ends_of(ends)],
        by={end: one.by for end, one in sorted(ends.items(), key=lambda item: item[0].sort_key())},
        unknown=None if report.up else report.cause,
        missing=None if differs is None else [*differs.missing],
        stale=None if differs is None else [*differs.stale],
        unasked=None if differs is None else [*differs.unasked],
        changing=sorted({f"{name}.{end.port}" for end in ends} & changing, key=natural_key),
    )


def delegated(lease: Delegation) -> SwitchLease:
    return SwitchLease(host=lease.host, epoch=lease.epoch, state=lease.state, why=lease.why)
