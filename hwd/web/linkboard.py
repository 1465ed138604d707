"""Light and carrier of links and hosts, from documents, for the status screen."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from hwd.fabric.diagnosis import Diagnosis, Transfers
from hwd.fabric.fabric import Fabric
from hwd.model.answers import CompositeStatus, LinkStatus, SwitchStatus, UnlitLink
from hwd.model.circuit import RoutedLink
from hwd.model.documents.hosts import HostBirth, HostDown, HostEvent, HostFact, HostPort, HostUp
from hwd.model.hang import Hang
from hwd.model.link import SwitchCrossconnect
from hwd.model.nic_port import NicPortId
from hwd.web.port_states import PortStates
from hwd.web.switchboard import Switchboard
from hwd_agents.wire.events import CarrierData, InterfaceData, LightData, RdmaData
from hwd_drivers.core.documents import Document
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, PortSide, natural_key

MONITORED_NS = 6 * 10**9
"""A host asks its own switches for their powers every 5 s and reports changes: what is not reported is not older."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Carrier:
    """A carrier that is known, or was when its agent was lost. `changes`: the kernel's count of its changes then."""

    boot: str
    carrier: bool | None
    changes: int | None
    since_wall_ns: int | None


class Linkboard:
    """A `Sink`. A carrier is None until the agent of its host reports it, and again while that agent is away.

    The beginning of a carrier is the time of its event. One that was there when the agent connected has none, unless
    the same boot of the agent reported it before and the kernel has counted no change of it since.

    `powers_asked_wall_ns(switch)`: when a switch was asked for the powers that it answered last, None where the daemon
    does not drive it. `now_wall_ns`: the time of the daemon's clock.
    """

    TAKES: ClassVar = (HostBirth, HostUp, HostDown, HostEvent)

    def __init__(
        self,
        fabric: Fabric,
        switches: Switchboard,
        now_wall_ns: Callable[[], int] | None = None,
        *,
        powers_asked_wall_ns: Callable[[str], int | None] = lambda switch: None,
    ) -> None:
        self._fabric = fabric
        self._switches = switches
        self._now_wall_ns = now_wall_ns
        self._powers_asked_wall_ns = powers_asked_wall_ns
        self._ports: dict[str, dict[str, HostPort]] = {}
        self._carriers: dict[str, dict[str, _Carrier]] = {}
        self._hosts_since_wall_ns: dict[str, int] = {}
        self._lost_wall_ns: dict[str, dict[str, int]] = {}
        """By host and port: when a known carrier became unknown, as its agent was lost."""
        self._dark_wall_ns: dict[str, dict[str, int]] = {}
        """By host and port: when its module lost the light."""
        self._states = PortStates()

    def use_testbed(self, fabric: Fabric) -> None:
        """Go on with the testbed of this fabric."""
        self._fabric = fabric

    def __call__(self, document: Document) -> None:
        if isinstance(document.fact, HostFact):
            self._states.take(document.fact)
        match document.fact:
            case HostUp(host=host):
                self._hosts_since_wall_ns[host] = document.wall_ns
            case HostBirth() as birth:
                self._ports[birth.host] = dict(birth.ports)
                self._born(birth)
            case HostDown(host=host):
                ports = self._ports.get(host, {})
                self._ports[host] = {
                    name: replace(port, carrier=None, carrier_changes=None, rdma=None) for name, port in ports.items()
                }
                self._hosts_since_wall_ns[host] = document.wall_ns
                known = (name for name, port in ports.items() if port.carrier is not None)
                self._lost_wall_ns.setdefault(host, {}).update(dict.fromkeys(known, document.wall_ns))
            case HostEvent(past=False, host=host, port=str(name), data=data) as event:
                ports = self._ports.get(host, {})
                if name in ports:
                    ports[name] = _after(ports[name], data)
                    at_wall_ns = document.wall_ns - (document.at_ns - event.best_ns)
                    if isinstance(data, CarrierData | InterfaceData):
                        self._changed(event, data, ports[name].carrier, at_wall_ns)
                    elif isinstance(data, LightData) and event.type == "dark":
                        self._dark_wall_ns.setdefault(host, {})[name] = at_wall_ns

    def since_wall_ns(self, host: str) -> int | None:
        """When its agent connected, or disconnected; None where that was not seen."""
        return self._hosts_since_wall_ns.get(host)

    def ports(self, host: str) -> dict[str, HostPort]:
        """Ports of a host by name, from the birth and the events of its agent."""
        return dict(self._ports.get(host, {}))

    def links(self) -> list[LinkStatus]:
        """All links that crossconnects make now."""
        switches = [switch for switch in self._switches.reports() if switch.up is not None]
        down = {switch.switch for switch in switches if not switch.up}
        links: list[LinkStatus] = []
        for routed in self._fabric.routed_of(self._switches.state()):
            away = sorted(down.intersection(one.switch for one in routed.crossconnects), key=natural_key)
            ends = [self._end(end) for end in routed.link.ends]
            carrier = None if away or None in ends else all(ends)
            since = self._since(routed, [one for one in switches if one.switch in away], carrier)
            hang = None if away else self.hang(routed)
            made = max(self._made(routed), default=None)
            links.append(
                LinkStatus(
                    link=routed.link, carrier=carrier, away=away, since_wall_ns=since, hang=hang, made_wall_ns=made
                )
            )
        return links

    def state(self) -> dict[str, frozenset[Crossconnect]]:
        """What each switch carries, as it was reported last."""
        return self._switches.state()

    def orphans(self) -> list[str]:
        """Crossconnects with an end that no fibre of the testbed leads to, on switches that fibres lead to: what a
        fibre that was taken out of its file leaves behind. Elements of composites are not among them.
        """
        testbed = self._fabric.testbed
        patched: dict[str, set[PortSide]] = {}
        for strand in testbed.strands:
            for end in strand.ends:
                patched.setdefault(end.owner, set()).add(end.port_side)
        inside = {name for one in self._fabric.composites.values() for name in one.inside.switches}
        found = [
            f"{switch}:{one}"
            for switch, crossconnects in self.state().items()
            if (ends := patched.get(switch)) is not None and switch not in inside
            for one in crossconnects
            if not ends.issuperset(one.ends)
        ]
        return sorted(found, key=natural_key)

    def unlit(self, desired: Mapping[str, tuple[Crossconnect, ...]]) -> list[UnlitLink]:
        """Links that the desired crossconnects would make beside all that is not in their way, and that are not lit.

        What a switch carries that is down, or not read yet, is unknown: of it nothing is said to be missing.
        """
        carried = self._switches.state()
        there = {
            one.switch: carried[one.switch] if one.up else frozenset(desired.get(one.switch, ()))
            for one in self._switches.reports()
        }
        if all(there.get(name, frozenset()).issuperset(wanted) for name, wanted in desired.items()):
            return []
        then = dict(there)
        for name, wanted in desired.items():
            taken = {end for one in wanted for end in one.ends}
            then[name] = frozenset(wanted).union(one for one in there.get(name, ()) if taken.isdisjoint(one.ends))
        lit = frozenset(self._fabric.links_of(there))
        found: list[UnlitLink] = []
        for routed in self._fabric.routed_of(then):
            missing = [one for one in routed.crossconnects if one.crossconnect not in there.get(one.switch, ())]
            if routed.link in lit or not missing:
                continue
            used = {(one.switch, end) for one in missing for end in one.crossconnect.ends}
            instead = [
                SwitchCrossconnect(switch=name, crossconnect=one)
                for name in then
                for one in there.get(name, ())
                if any((name, end) in used for end in one.ends)
            ]
            found.append(
                UnlitLink(
                    link=routed.link,
                    missing=sorted(missing, key=natural_key),
                    instead=sorted(instead, key=natural_key),
                )
            )
        return found

    def hang(self, routed: RoutedLink, *, transfers: Transfers | None = None) -> Hang | None:
        """Where a link hangs now, None where it is up or nothing of it is known.

        Switches are asked for their powers in turns of some seconds. Those from before the link was made are of another
        one, and are left out; those from before it lost its light are shown with their age.
        """
        found = ((one.switch, self._switches.report(one.switch)) for one in routed.crossconnects)
        switches = {name: report for name, report in found if report is not None}  # else a reload has just taken it out
        asked_wall_ns = {one.switch: self._asked(one.switch) for one in routed.crossconnects}
        made_wall_ns, lost_wall_ns = max(self._made(routed), default=0), self._lost(routed)
        for name in [name for name, asked in asked_wall_ns.items() if asked is not None and asked < made_wall_ns]:
            if name in switches:
                switches[name] = replace(switches[name], power_dbm={})
        now_ns = 0 if self._now_wall_ns is None else self._now_wall_ns()
        ages_s = {
            name: (now_ns - asked) / 1e9
            for name, asked in asked_wall_ns.items()
            if asked is not None and lost_wall_ns is not None and asked < lost_wall_ns
        }
        ends = {
            end: self._states.end(end.host, end.port, self._ports.get(end.host, {}).get(end.port))
            for end in routed.link.ends
        }
        testbed = self._fabric.testbed
        return Diagnosis(routed, ends, testbed=testbed, switches=switches, ages_s=ages_s, transfers=transfers).hang

    def _asked(self, switch: str) -> int | None:
        """When a switch was asked for the powers that it has now; None where there is no clock to say it by."""
        if (asked := self._powers_asked_wall_ns(switch)) is not None or self._now_wall_ns is None:
            return asked
        return self._now_wall_ns() - MONITORED_NS

    def _lost(self, routed: RoutedLink) -> int | None:
        """When the last of what is down now of its ends went: light at a module, or a carrier; None where that was not
        seen.
        """
        times: list[int] = []
        for end in routed.link.ends:
            carrier = self._carriers.get(end.host, {}).get(end.port)
            if carrier is None or carrier.carrier is not False:
                continue
            dark = self._dark_wall_ns.get(end.host, {}).get(end.port)
            times += [one for one in (carrier.since_wall_ns, dark) if one is not None]
        return max(times, default=None)

    def _made(self, routed: RoutedLink) -> list[int]:
        """When its crossconnects were made, of those whose making was seen."""
        found = (self._switches.made_wall_ns(one.switch, one.crossconnect) for one in routed.crossconnects)
        return [one for one in found if one is not None]

    def composites(self) -> list[CompositeStatus]:
        """All composites, with what their elements make."""
        if not self._fabric.composites:
            return []
        switches = {switch.switch: switch for switch in self._switches.reports()}
        state = {name: tuple(switch.readings) for name, switch in switches.items()}
        return [
            CompositeStatus(
                composite=name,
                switches=[*composite.inside.switches],
                away=[one for one in composite.inside.switches if not switches[one].up],
                readings=[
                    CrossconnectReading(crossconnect=one.demand, state=one.state) for one in composite.standing(state)
                ],
            )
            for name, composite in self._fabric.composites.items()
        ]

    def _born(self, birth: HostBirth) -> None:
        before = self._carriers.get(birth.host, {})
        carriers: dict[str, _Carrier] = {}
        for name, port in birth.ports.items():
            found = before.get(name)
            if port.carrier is None:
                if found is not None:  # as it was when it was last known: it may be found unchanged
                    carriers[name] = found
                continue
            same = found is not None and (found.boot, found.carrier) == (birth.boot, port.carrier)
            counted = found is not None and found.changes is not None and found.changes == port.carrier_changes
            carriers[name] = _Carrier(
                boot=birth.boot,
                carrier=port.carrier,
                changes=port.carrier_changes,
                since_wall_ns=found.since_wall_ns if found is not None and same and counted else None,
            )
        self._carriers[birth.host] = carriers

    def _changed(self, event: HostEvent, data: CarrierData | InterfaceData, carrier: bool | None, at: int) -> None:
        carriers = self._carriers.setdefault(event.host, {})
        found = carriers.get(str(event.port))
        changes: int | UnsetType | None = UNSET
        if isinstance(data, CarrierData):
            changes = data.carrier_changes
        elif carrier is None or (found is not None and found.carrier is carrier):
            return  # an interface that came, without a carrier
        if changes is UNSET:
            changes = None
        if found is not None and found.carrier is carrier and found.changes == changes and changes is not None:
            return  # said again
        carriers[str(event.port)] = _Carrier(boot=event.boot, carrier=carrier, changes=changes, since_wall_ns=at)

    def _since(self, routed: RoutedLink, away: list[SwitchStatus], carrier: bool | None) -> int | None:
        """Since when a link is as it is: since it is lit, or the change of an end or a switch that came after that.

        None where the change of an end or a switch was not seen. A crossconnect whose making was not seen does not
        count: a carrier follows its light.
        """
        lit_ns = self._made(routed)
        if away:
            began = _all_seen(one.since_wall_ns for one in away)
            return None if began is None else max([min(began), *lit_ns])
        if carrier is None:
            unknown = [end for end in routed.link.ends if self._end(end) is None]
            began = _all_seen(self._lost_wall_ns.get(end.host, {}).get(end.port) for end in unknown)
            return None if began is None else max([min(began), *lit_ns])
        found = [self._carriers.get(end.host, {}).get(end.port) for end in routed.link.ends]
        as_it_is = [one for one in found if one is None or one.carrier is carrier]
        began = _all_seen(None if one is None else one.since_wall_ns for one in as_it_is)
        return None if began is None else max([max(began) if carrier else min(began), *lit_ns])

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


def _all_seen(times: Iterable[int | None]) -> list[int] | None:
    """The times, or None where one of them is not known."""
    found = [*times]
    seen = [one for one in found if one is not None]
    return seen if seen and len(seen) == len(found) else None
