"""Hosts: their agents, the events of their NIC ports and their clocks, in series."""

from collections.abc import Iterator
from itertools import chain

from msgspec import UNSET, UnsetType

from hwd.model.host import (
    ClockAligned,
    ClockStepped,
    HostBirth,
    HostDown,
    HostEvent,
    HostFact,
    HostGarbage,
    HostLost,
    HostSelection,
    HostTrouble,
    HostUp,
)
from hwd.telemetry.clocks import Clocks
from hwd.telemetry.optics import Optics
from hwd.telemetry.port_counters import PortCounters
from hwd.telemetry.series import Series
from hwd_agents.wire.events import CarrierData, CounterData, InterfaceData, LightData, MonitorData, RdmaData

SELECTION_OUTCOMES = ("up", "not-up", "failed", "unknown")
"""The outcomes of `hwd_agents.switches.request.Selected`, but for `refused`: a refused selection changes nothing."""


class Hosts:
    """Takes all documents whose subject is a host, or the clock of one."""

    def __init__(self, *, hosts: int, ports: int, lanes: int) -> None:
        self._interfaces: dict[tuple[str, str], str] = {}
        self._failing: dict[str, set[str]] = {}
        """By host, the tasks of the daemon that fail."""

        nic = ("host", "device")
        self._carrier = Series("hwd_nic_carrier", "1 while the kernel has carrier", *nic, limit=ports)
        self._carrier_changes = Series(
            "hwd_nic_carrier_changes_total", "Carrier changes that the kernel counted", *nic, limit=ports
        )
        self._rdma = Series("hwd_rdma_port_active", "1 while the RDMA port is active", *nic, limit=ports)
        self._agent_up = Series("hwd_agent_up", "1 while the agent is there", "host", limit=hosts)
        self._trouble = Series(
            "hwd_host_trouble", "Parts of the daemon's work for this host that fail", "host", limit=hosts
        )
        self._events = Series("hwd_agent_events_total", "Events that an agent reported", "host", limit=hosts)
        self._lost = Series(
            "hwd_agent_events_lost_total", "Events that an agent could not hold or see", "host", limit=hosts
        )
        self._selections = Series(
            "hwd_selections_total",
            "Settings of own switches that jobs of a host asked for",
            *("host", "outcome"),
            limit=hosts * len(SELECTION_OUTCOMES),
        )
        self._garbage = Series("hwd_bus_garbage_total", "Messages that nobody could use", "host", limit=hosts)
        self._clocks = Clocks(hosts=hosts)
        self._port_counters = PortCounters(hosts=hosts, ports=ports)
        self._optics = Optics(ports=ports, lanes=lanes)

    def __iter__(self) -> Iterator[Series]:
        own = (value for value in vars(self).values() if isinstance(value, Series))
        return chain(own, self._clocks, self._port_counters, self._optics)

    def settle(self) -> None:
        """Bring the series up to date before they are read."""
        self._optics.settle()

    def take(self, fact: HostFact) -> None:
        host = fact.host
        match fact:
            case HostUp():
                self._agent_up.set(1, host)
            case HostDown():
                self._agent_up.set(0, host)
                self._port_counters.drop(host)
                self._clocks.away(host)
                self._optics.away(host)
                for series in (self._carrier, self._carrier_changes, self._rdma):
                    series.drop(host)
            case HostBirth():
                self._agent_up.set(1, host)
                self._lost.add(0, host)
                self._garbage.add(0, host)
                self._trouble.set(len(self._failing.get(host, ())), host)
                self._clocks.born(fact)
                self._take_ports(fact)
            case HostTrouble(task=task, why=why):
                failing = self._failing.setdefault(host, set())
                (failing.add if why else failing.discard)(task)
                self._trouble.set(len(failing), host)
            case HostSelection(outcome=outcome) if outcome in SELECTION_OUTCOMES:
                self._selections.add(1, host, outcome)
            case HostLost(count=count):
                self._lost.add(count, host)
            case HostGarbage(count=count):
                self._garbage.add(count, host)
            case ClockAligned():
                self._clocks.aligned(fact)
            case ClockStepped():
                self._clocks.stepped(host)

    def take_event(self, event: HostEvent) -> None:
        host, port = event.host, event.port or ""
        self._events.add(1, host)
        if event.past:
            return  # an earlier one, whose spool is read to its end: its states are over
        device = self._interfaces.get((host, port), port)
        match event.data:
            case CarrierData(carrier=carrier, carrier_changes=changes):
                self._take_carrier(host, port, carrier, changes)
            case InterfaceData(present=False):
                for series in (self._carrier, self._carrier_changes, self._rdma):
                    series.drop(host, device)
                self._optics.forget_port(host, device)
            case MonitorData() as monitors:
                self._optics.take(host, device, monitors)
            case LightData(lanes=lanes):
                self._optics.light(host, device, lanes)
            case RdmaData(active=active):
                self._rdma.set(active, host, device)
            case CounterData() as counters:
                self._port_counters.take(host, device, counters)

    def _take_ports(self, birth: HostBirth) -> None:
        host = birth.host
        for series in (self._carrier, self._carrier_changes, self._rdma):
            series.drop(host)
        for port, note in birth.ports.items():
            self._interfaces[host, port] = note.interface or port
            self._take_carrier(host, port, note.carrier, note.carrier_changes)
            if note.rdma is not None:
                self._rdma.set(note.rdma, host, self._interfaces[host, port])
        monitors = {} if birth.inventory is UNSET else birth.inventory.monitors or {}
        self._optics.born(host, {self._interfaces[host, port]: monitors.get(port) for port in birth.ports})

    def _take_carrier(self, host: str, port: str, carrier: bool | None, changes: int | UnsetType | None) -> None:
        device = self._interfaces.get((host, port), port)
        if carrier is not None:
            self._carrier.set(carrier, host, device)
        if changes is not UNSET and changes is not None:
            self._carrier_changes.set(changes, host, device)
