"""Hosts: the gateway to the agents, the switches that hosts drive themselves, and the settings of NIC ports."""

from dataclasses import dataclass
from typing import Self

from hwd.bus.gateway import Gateway
from hwd.bus.host_events import EventStore
from hwd.daemon.agents import GatewayAgents
from hwd.daemon.assembly.foundation import Foundation
from hwd.hosts.delegations import Delegations
from hwd.hosts.run_settings import HostSettings
from hwd.hosts.selections import Selections
from hwd.hosts.switch_documents import HostSwitches
from hwd.reconfigure.apply.switches import Switches
from hwd.timeline.alignment import Alignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """The hosts of the testbed, over the bus."""

    gateway: Gateway
    agents: GatewayAgents
    switches: HostSwitches
    delegations: Delegations
    selections: Selections
    settings: HostSettings

    @classmethod
    async def open(cls, base: Foundation, switches: Switches) -> Self:
        """Make the hosts; `load` reads their leases on switches. `switches`: those that the daemon drives."""
        alignments = await base.records.alignments.read(base.machine.clock_name)
        gateway = Gateway(
            bus=base.access.bus,
            testbed=base.testbed.name,
            hosts=tuple(base.testbed.hosts),
            clock=base.clock,
            ids=base.ids,
            sink=base.sink,
            event_store=EventStore(
                alignments={boot: Alignment.of(fact) for (_, boot), fact in alignments.items()},
                positions=await base.records.event_positions(),
                flush=base.recorder.flush,
                full=base.recorder.full,
            ),
            clocks_by_udp=not base.machine.virtual_time,
            reached=base.limits,
        )
        host_switches = HostSwitches(base.testbed, clock=base.clock, sink=base.sink)
        delegations = Delegations(
            gateway,
            base.in_use,
            store=base.records.delegations,
            ledger=base.ledger,
            clock=base.clock,
            sink=base.sink,
            on_answer=host_switches.take_answer,
        )
        return cls(
            gateway=gateway,
            agents=GatewayAgents(gateway),
            switches=host_switches,
            delegations=delegations,
            selections=Selections(
                base.in_use,
                delegations,
                observed=lambda: {**switches.latest(), **host_switches.crossconnects()},
                origins=switches.origins,
                clock=base.clock,
                sink=base.sink,
                contain=gateway.containment.of,
            ),
            settings=HostSettings(gateway, base.in_use, base.ledger, clock=base.clock, sink=base.sink),
        )

    async def load(self, base: Foundation) -> None:
        """Read the leases of hosts on their switches, and the selections that have not ended."""
        await self.delegations.load()
        if has_switches(base):
            self.selections.resume(*(await base.records.unfinished_selections.read()))


def has_switches(base: Foundation) -> bool:
    """Whether hosts drive some switches themselves."""
    return any(switch.owner is not None for switch in base.testbed.switches.values())
