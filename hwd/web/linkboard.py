"""Light and carrier of links and hosts, from documents, for the status screen."""

from collections.abc import Callable
from typing import ClassVar

from msgspec.structs import replace

from hwd.fabric.diagnosis import Diagnosis, Transfers
from hwd.fabric.fabric import Fabric
from hwd.model.answers import CompositeStatus, LinkStatus, SwitchStatus
from hwd.model.documents.hosts import HostBirth, HostDown, HostEvent, HostFact, HostPort
from hwd.model.hang import Hang
from hwd.model.link import Link, RoutedLink
from hwd.model.nic_port import NicPortId
from hwd.web.port_states import PortStates
from hwd_agents.wire.events import CarrierData, InterfaceData, RdmaData
from hwd_drivers.core.documents import Document
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, natural_key
from hwd_drivers.devices.facts import CrossconnectReport


class Linkboard:
    """A `Sink`. A carrier is None until the agent of its host reports it, and again while that agent is away."""

    TAKES: ClassVar = (HostBirth, HostDown, HostEvent)

    def __init__(self, fabric: Fabric, switches: Callable[[], list[SwitchStatus]]) -> None:
        self._fabric = fabric
        self._switches = switches
        self._ports: dict[str, dict[str, HostPort]] = {}
        self._states = PortStates()

    def __call__(self, document: Document) -> None:
        if isinstance(document.fact, HostFact):
            self._states.take(document.fact)
        match document.fact:
            case HostBirth(host=host, ports=ports):
                self._ports[host] = dict(ports)
            case HostDown(host=host):
                ports = self._ports.get(host, {})
                self._ports[host] = {
                    name: replace(port, carrier=None, carrier_changes=None, rdma=None) for name, port in ports.items()
                }
            case HostEvent(past=False, host=host, port=str(name), data=data):
                ports = self._ports.get(host, {})
                if name in ports:
                    ports[name] = _after(ports[name], data)

    def ports(self, host: str) -> dict[str, HostPort]:
        """Ports of a host by name, from the birth and the events of its agent."""
        return dict(self._ports.get(host, {}))

    def links(self) -> list[LinkStatus]:
        """All links that crossconnects make now."""
        switches = [switch for switch in self._switches() if switch.up is not None]
        down = {switch.switch for switch in switches if not switch.up}
        state = {switch.switch: frozenset(map(Crossconnect.parse, switch.crossconnects)) for switch in switches}
        links: list[LinkStatus] = []
        for routed in self._fabric.routed_of(state):
            away = sorted(down.intersection(one.switch for one in routed.crossconnects), key=natural_key)
            carrier = None if away else self._carrier(routed.link)
            hang = None if away else self.hang(routed)
            links.append(LinkStatus(link=str(routed), carrier=carrier, away=away, hang=hang))
        return links

    def hang(
        self, routed: RoutedLink, *, transfers: Transfers | None = None, with_monitors: bool = True
    ) -> Hang | None:
        """Where a link hangs now, None where it is up or nothing of it is known.

        `with_monitors`: switches are asked for their powers in turns of some seconds; False leaves out what may be
        older than the link.
        """
        switches = {one.switch: one for one in self._switches()}
        if not with_monitors:
            switches = {name: replace(one, power_dbm={}) for name, one in switches.items()}
        ends = {
            end: self._states.end(end.host, end.port, self._ports.get(end.host, {}).get(end.port))
            for end in routed.link.ends
        }
        testbed = self._fabric.testbed
        return Diagnosis(routed, ends, testbed=testbed, switches=switches, transfers=transfers).hang

    def composites(self) -> list[CompositeStatus]:
        """All composites, with what their elements make."""
        if not self._fabric.composites:
            return []
        switches = {switch.switch: switch for switch in self._switches()}
        state = {name: _readings(switch) for name, switch in switches.items()}
        return [
            CompositeStatus(
                composite=name,
                switches=[*composite.inside.switches],
                away=[one for one in composite.inside.switches if not switches[one].up],
                readings=[CrossconnectReport(id=str(one.demand), state=one.state) for one in composite.standing(state)],
            )
            for name, composite in self._fabric.composites.items()
        ]

    def _carrier(self, link: Link) -> bool | None:
        ends = [self._end(end) for end in link.ends]
        return None if None in ends else all(ends)

    def _end(self, end: NicPortId) -> bool | None:
        port = self._ports.get(end.host, {}).get(end.port)
        return None if port is None else port.carrier


def _after(port: HostPort, data: object) -> HostPort:
    """A port after an event of it."""
    match data:
        case RdmaData(active=active):
            return replace(port, rdma=active)
        case CarrierData(carrier=carrier):
            return replace(port, carrier=carrier and port.present)
        case InterfaceData(present=present):
            return replace(port, present=present, carrier=port.carrier if present else False)
        case _:
            return port


def _readings(switch: SwitchStatus) -> list[CrossconnectReading]:
    return [CrossconnectReading(crossconnect=Crossconnect.parse(one.id), state=one.state) for one in switch.readings]
