"""The daemon's objects between a request and its switches, in the process of a measurement: no agents, no records."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from hwd.fabric.fabric import Fabric
from hwd.fabric.in_use import InUse
from hwd.model.circuit import Observed
from hwd.model.instant import Origin
from hwd.model.nic_port import NicPortId
from hwd.model.plan import Plan
from hwd.model.testbed import Testbed
from hwd.ports.ledger import Ledger
from hwd.rack.links import Links
from hwd.rack.nic_ports import NicPorts
from hwd.rack.switches import ReportedSwitches
from hwd.reconfigure.apply.switches import Switches
from hwd.reconfigure.desired.desired_state import DesiredState
from hwd.reconfigure.desired.history import History, Outcomes
from hwd.reconfigure.journal.journal import Journal
from hwd.reconfigure.plans.move_counts import MoveCounts
from hwd.reconfigure.plans.planner import Planner
from hwd.reconfigure.plans.planning import Planning
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd.reconfigure.transfers import Transfers
from hwd.records.records import Records
from hwd_agents.wire import Arguments
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import LinkError
from hwd_drivers.core.ids import Draws, RandomIds
from hwd_drivers.core.offload import Offload, ThreadOffload
from hwd_drivers.devices import registry
from hwd_drivers.devices.abilities import Device
from hwd_drivers.devices.supervisor import Supervisor
from hwd_drivers.transports.dial import TcpDialer

UP_WITHIN_S = 10.0

A = TypeVar("A", bound=msgspec.Struct)


class SilentAgents:
    """The agents of a testbed that has no hosts."""

    def address(self, port: NicPortId) -> tuple[str, int] | None:
        return None

    def verbs(self, port: NicPortId) -> None:
        return None

    def boot(self, host: str) -> str | None:
        return None

    def why_silent(self, host: str) -> str | None:
        return None

    def is_there(self, host: str) -> bool:
        return True

    def why_missing(self, port: NicPortId) -> str | None:
        return None

    async def command(self, host: str, arguments: Arguments[A], *, within_s: float) -> A:
        raise LinkError(f"{host}: there is no such host")


async def no_baseline(plan: Plan, observed: Observed) -> None:
    pass


async def no_records() -> None:
    """What is measured is the way to the switch: its documents go to a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrivenRack:
    """The switches of a testbed with their sessions. The last documents of all are stored."""

    testbed: Testbed
    supervisors: Mapping[str, Supervisor]
    documents: deque[Document]
    offload: Offload

    @classmethod
    @contextlib.asynccontextmanager
    async def connected(cls, testbed: Testbed, addresses: Mapping[str, str]) -> "AsyncIterator[DrivenRack]":
        """Connect a session to each TL1 switch, by the names of the switches."""
        documents, offload = deque[Document](maxlen=1000), ThreadOffload(1)
        supervisors = {name: _supervisor(testbed, name, at, documents) for name, at in addresses.items()}
        runs = [asyncio.create_task(one.run(), name=f"bench:{name}") for name, one in supervisors.items()]
        try:
            async with asyncio.timeout(UP_WITHIN_S):
                for one in supervisors.values():
                    await one.wait_up()
            yield cls(testbed=testbed, supervisors=supervisors, documents=documents, offload=offload)
        finally:
            for run in runs:
                run.cancel()
            await asyncio.wait(runs)
            offload.close()

    def reconfigurer(self, journal: Journal) -> Reconfigurer:
        """Make a reconfigurer that starts with this journal, which is loaded."""
        clock, ids, sink, agents = SystemClock(), RandomIds(), self.documents.append, SilentAgents()
        testbed, fabric, ledger = self.testbed, Fabric(self.testbed), Ledger()
        switches = Switches(self.supervisors, clock, dict.fromkeys(self.supervisors, Origin.TWIN))
        transfers = Transfers(
            ledger,
            testbed,
            store=Records("sqlite://", self.offload).transfers,
            agents=agents,
            clock=clock,
            sink=sink,
            announce=sink,
        )
        planning = Planning(
            Planner(fabric, History(InUse(fabric)).expect, offload=self.offload),
            switches=switches,
            move_counts=MoveCounts(testbed, clock),
            ledger=ledger,
            transfers=transfers,
            note_baseline=no_baseline,
            clock=clock,
            emit=Emitter(clock, sink),
        )
        return Reconfigurer(
            planning=planning,
            switches=switches,
            agents=agents,
            links=Links(fabric, ReportedSwitches(testbed.switches), NicPorts()),
            journal=journal,
            ledger=ledger,
            clock=clock,
            ids=ids,
            sink=sink,
            outcomes=Outcomes(clock),
            desired=DesiredState(testbed, ledger, no_records),
            transfers=transfers,
        )


def _supervisor(testbed: Testbed, name: str, address: str, documents: deque[Document]) -> Supervisor:
    clock, spec = SystemClock(), registry.find("polatis-tl1")

    async def open_switch() -> Device:
        return await spec.open(
            registry.OpenContext(
                name=name,
                address=address,
                dialer=TcpDialer(),
                clock=clock,
                sink=documents.append,
                user="bench",
                password="bench",
                options=spec.options(),
                capabilities=testbed.switches[name].capabilities,
            )
        )

    return Supervisor(name=name, open=open_switch, clock=clock, sink=documents.append, draws=Draws(None), poll_s=600.0)
