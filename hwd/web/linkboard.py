"""Light and carrier of links and hosts, from documents, for the status screen."""

from collections.abc import Callable
from typing import Any, ClassVar

from hwd.fabric.fabric import Fabric
from hwd.model.documents.hosts import HostBirth, HostDown, HostEvent
from hwd.model.link import Link
from hwd.model.testbed import NicPortId
from hwd.web.switchboard import SwitchReport
from hwd_agents.wire import CarrierData, InterfaceData, RdmaData
from hwd_drivers.core.documents import Document, Json
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, natural_key


class Linkboard:
    """A `Sink`. A carrier is None until the agent of its host reports it, and again while that agent is away."""

    TAKES: ClassVar = (HostBirth, HostDown, HostEvent)

    def __init__(self, fabric: Fabric, switches: Callable[[], list[SwitchReport]]) -> None:
        self._fabric = fabric
        self._switches = switches
        self._ports: dict[str, dict[str, dict[str, Any]]] = {}

    def __call__(self, document: Document) -> None:
        match document.fact:
            case HostBirth(host=host, ports=ports):
                self._ports[host] = {name: dict(port) for name, port in ports.items()}
            case HostDown(host=host):
                for away in self._ports.get(host, {}).values():
                    away |= {"carrier": None, "carrier_changes": None, "rdma": None}
            case HostEvent(past=False, host=host) as event:
                port = self._ports.get(host, {}).get(event.port or "")
                if port is not None:
                    _take(port, event.data)

    def ports(self, host: str) -> dict[str, Json]:
        """Ports of a host by name, from the birth and the events of its agent."""
        return {name: dict(port) for name, port in self._ports.get(host, {}).items()}

    def links(self) -> list[dict[str, Json]]:
        """[{link, carrier, away}] of all links that crossconnects make now; `carrier`: both ends have it.

        `away`: switches on a link's way that are down. Nobody knows then whether there is light, and `carrier` is None.
        """
        switches = [switch for switch in self._switches() if switch.up is not None]
        down = {switch.switch for switch in switches if not switch.up}
        state = {
            switch.switch: frozenset(Crossconnect.parse(one.id) for one in switch.crossconnects) for switch in switches
        }
        told: list[dict[str, Json]] = []
        for routed in self._fabric.routed_of(state):
            away = sorted(down.intersection(one.switch for one in routed.crossconnects), key=natural_key)
            carrier = None if away else self._carrier(routed.link)
            told.append({"link": str(routed), "carrier": carrier, "away": list[Json](away)})
        return told

    def composites(self) -> list[dict[str, Json]]:
        """[{composite, switches, away, crossconnects: [{id, state}]}]; `away`: switches that are down."""
        if not self._fabric.composites:
            return []
        switches = {switch.switch: switch for switch in self._switches()}
        state = {name: _readings(switch) for name, switch in switches.items()}
        return [
            {
                "composite": name,
                "switches": [*composite.inside.switches],
                "away": [one for one in composite.inside.switches if not switches[one].up],
                "crossconnects": [{"id": str(one.demand), "state": one.state} for one in composite.standing(state)],
            }
            for name, composite in self._fabric.composites.items()
        ]

    def _carrier(self, link: Link) -> bool | None:
        ends = [self._end(end) for end in link.ends]
        return None if None in ends else all(ends)

    def _end(self, end: NicPortId) -> bool | None:
        carrier: bool | None = self._ports.get(end.host, {}).get(end.port, {}).get("carrier")
        return carrier


def _take(port: dict[str, Any], data: object) -> None:
    """Change the state of a port by the data of its event."""
    match data:
        case RdmaData(active=active):
            port["rdma"] = active
        case CarrierData(carrier=carrier):
            port["carrier"] = carrier and port["present"]
        case InterfaceData(present=present):
            port["present"] = present
            if not present:
                port["carrier"] = False


def _readings(switch: SwitchReport) -> list[CrossconnectReading]:
    return [
        CrossconnectReading(crossconnect=Crossconnect.parse(one.id), state=one.state) for one in switch.crossconnects
    ]
