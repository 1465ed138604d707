"""The links that crossconnects make now: light, carrier and where each hangs, from documents, by what changed."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from msgspec.structs import replace

from hwd.fabric.diagnosis import Diagnosis, EndState, Transfers
from hwd.fabric.fabric import Fabric
from hwd.fabric.last_seen import LastSeen
from hwd.model.circuit import RoutedLink
from hwd.model.desired_state import UnlitLink
from hwd.model.hang import Hang
from hwd.model.host import HostBirth, HostDown, HostEvent
from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.switch import CompositeStatus, LinkStatus, SwitchStatus
from hwd.rack.nic_ports import NicPorts
from hwd.rack.switches import ReportedSwitches
from hwd_agents.wire.events import CounterData, MonitorData
from hwd_drivers.core.documents import Document
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, PortSide, natural_key
from hwd_drivers.devices.facts import SwitchFact, SwitchPower

LOOKED_AT_ONCE: Final = 1024
"""Switches that are looked at for orphans in one turn, which takes some milliseconds."""
MONITORED_NS = 6 * 10**9
"""A host asks its own switches for their powers every 5 s and reports changes: what is not reported is not older."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _LinkLook:
    """A link as it was when it was looked at. `lasts`: until a document of an end or a switch of it; else a time makes
    it another one.
    """

    routed: RoutedLink
    status: LinkStatus
    lasts: bool

    @property
    def of(self) -> tuple[str, ...]:
        """The subjects that the look follows: NIC ports, hosts and switches."""
        link, switches = self.routed.link, (one.switch for one in self.routed.crossconnects)
        return (*dict.fromkeys((*link.ends, *(end.host for end in link.ends), *switches)),)


class Links:
    """A `Sink`, after `switches` and `ports`. What is said of a link is kept until one of its ends or switches is told
    of.

    `powers_asked_wall_ns(switch)`: when a switch was asked for the powers that it answered last, None where the daemon
    does not drive it. `now_wall_ns`: the time of the daemon's clock.
    """

    TAKES: ClassVar = (HostBirth, HostDown, HostEvent, *ReportedSwitches.TAKES)

    def __init__(
        self,
        fabric: Fabric,
        switches: ReportedSwitches,
        ports: NicPorts,
        now_wall_ns: Callable[[], int] | None = None,
        *,
        powers_asked_wall_ns: Callable[[str], int | None] = lambda switch: None,
    ) -> None:
        self._switches = switches
        self._ports = ports
        self._now_wall_ns = now_wall_ns
        self._powers_asked_wall_ns = powers_asked_wall_ns
        self.use_testbed(fabric)

    def use_testbed(self, fabric: Fabric) -> None:
        """Go on with the testbed of this fabric."""
        self._fabric = fabric
        self._looked: dict[Link, _LinkLook] = {}
        self._of: dict[str, dict[Link, None]] = {}
        """By NIC port, host and switch: the links that were looked at."""
        self._carried = LastSeen[frozenset[Crossconnect]]()
        self._unlooked: dict[str, None] = {}
        """Switches that were not looked at for orphans since they changed."""
        self._orphans: dict[str, list[str]] = {}
        inside = {name for one in fabric.composites.values() for name in one.inside.switches}
        patched: dict[str, set[PortSide]] = {}
        for strand in fabric.testbed.strands:
            for end in strand.ends:
                if end.owner not in inside:
                    patched.setdefault(end.owner, set()).add(end.port_side)
        self._patched = patched

    def __call__(self, document: Document) -> None:
        match document.fact:
            case HostEvent(past=True) | HostEvent(data=CounterData()):
                return
            case HostEvent(host=host, port=str(port), data=data):
                self._look_again(f"{host}.{port}", but_up=isinstance(data, MonitorData))
            case HostBirth(host=host) | HostDown(host=host):
                self._look_again(host, but_up=False)
            case SwitchFact(switch=switch) as fact:
                self._look_again(switch, but_up=isinstance(fact, SwitchPower))

    def follow(self, *, switches_at_once: int) -> Iterator[None]:
        """Follow the light of all switches a part at a time, so that `each` begins at once."""
        return self._fabric.follow(self._switches.state(), switches_at_once=switches_at_once)

    def each(self) -> Iterator[LinkStatus]:
        """Yield the links that crossconnects make now. One of which something was told since is looked at when it is
        asked for, which takes a third of a millisecond. It ends where a reload comes in between.
        """
        fabric = self._fabric
        routed = fabric.routed_of(self._switches.state())
        if len(self._looked) > 2 * len(routed):
            self._looked, self._of = {}, {}
        for one in routed:
            if self._fabric is not fabric:
                return
            looked = self._looked.get(one.link)
            if looked is None or looked.routed is not one or not looked.lasts:
                self._forget(one.link)
                looked = self._looked[one.link] = self._look(one)
                for name in looked.of:
                    self._of.setdefault(name, {})[one.link] = None
            yield looked.status

    def state(self) -> dict[str, frozenset[Crossconnect]]:
        """What each switch carries, as it was reported last."""
        return self._switches.state()

    def orphans(self) -> list[str]:
        """Crossconnects with an end that no fibre of the testbed leads to, on switches that fibres lead to: what a
        fibre that was taken out of its file leaves behind. Elements of composites are not among them.
        """
        for _ in self.look_for_orphans():
            pass
        return sorted((one for found in self._orphans.values() for one in found), key=natural_key)

    def look_for_orphans(self, *, switches_at_once: int = LOOKED_AT_ONCE) -> Iterator[None]:
        """Look at the switches that carry something else than before, a part at a time, so that `orphans` is quick."""
        changed, gone = self._carried.differing(self.state())
        for switch in gone:
            self._orphans.pop(switch, None)
        self._unlooked.update(dict.fromkeys(changed))
        for number, switch in enumerate([*self._unlooked], 1):
            self._unlooked.pop(switch, None)
            ends = self._patched.get(switch)
            found = (
                () if ends is None else (one for one in self._switches.carried(switch) if not ends.issuperset(one.ends))
            )
            if orphans := [f"{switch}:{one}" for one in found]:
                self._orphans[switch] = orphans
            else:
                self._orphans.pop(switch, None)
            if number % switches_at_once == 0:
                yield

    def unlit(self, desired: Mapping[str, tuple[Crossconnect, ...]]) -> list[UnlitLink]:
        """Links that the desired crossconnects would make beside all that is not in their way, and that are not lit.

        What a switch carries that is down, or not read yet, is unknown: of it nothing is said to be missing.
        """
        carried = self._switches.state()
        there: dict[str, frozenset[Crossconnect] | tuple[Crossconnect, ...]] = {**carried}
        for one in self._switches.reports():
            if not one.up:
                there[one.switch] = desired.get(one.switch, ())
        then = dict(there)
        missing: set[SwitchCrossconnect] = set()
        for name, wanted in desired.items():
            if there.get(name) is wanted or carried[name].issuperset(wanted):
                continue
            missing.update(
                SwitchCrossconnect(switch=name, crossconnect=one) for one in wanted if one not in there[name]
            )
            taken = {end for one in wanted for end in one.ends}
            then[name] = frozenset(wanted).union(one for one in there[name] if taken.isdisjoint(one.ends))
        if not missing:
            return []
        lit = frozenset(self._fabric.links_of(there))
        found: list[UnlitLink] = []
        for routed in self._fabric.routed_through(missing, then):
            if routed.link in lit:
                continue
            of_link = missing.intersection(routed.crossconnects)
            used = {(one.switch, end) for one in of_link for end in one.crossconnect.ends}
            instead = {
                SwitchCrossconnect(switch=name, crossconnect=one)
                for name, end in used
                for one in there[name]
                if end in one.ends
            }
            found.append(
                UnlitLink(
                    link=routed.link,
                    missing=sorted(of_link, key=natural_key),
                    instead=sorted(instead, key=natural_key),
                )
            )
        return found

    def hang(self, routed: RoutedLink, *, transfers: Transfers | None = None) -> Hang | None:
        """Where a link hangs now, None where it is up or nothing of it is known.

        Switches are asked for their powers in turns of some seconds. Those from before the link was made are of another
        one, and are left out; those from before it lost its light are shown with their age.
        """
        return self._hang(routed, transfers)[0]

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
                    CrossconnectReading(crossconnect=one.demand, state=one.state)
                    for one in composite.present_demands(state)
                ],
            )
            for name, composite in self._fabric.composites.items()
        ]

    def _look_again(self, owner: str, *, but_up: bool) -> None:
        """`but_up`: powers came, which change nothing of a link that is up."""
        for link in [*self._of.get(owner, ())]:
            if not (but_up and self._looked[link].status.carrier):
                self._forget(link)

    def _forget(self, link: Link) -> None:
        if (looked := self._looked.pop(link, None)) is None:
            return
        for name in looked.of:
            links = self._of[name]
            links.pop(link, None)
            if not links:
                del self._of[name]

    def _look(self, routed: RoutedLink) -> _LinkLook:
        reports = {one.switch: self._switches.report(one.switch) for one in routed.crossconnects}
        away = [one for one in reports.values() if one is not None and one.up is False]
        carriers = [*map(self._ports.carrier, routed.link.ends)]
        carrier = None if away or None in carriers else all(carriers)
        hang, lasts = (None, True) if away else self._hang(routed)
        status = LinkStatus(
            link=routed.link,
            carrier=carrier,
            away=sorted((one.switch for one in away), key=natural_key),
            since_wall_ns=self._since(routed, away, carrier),
            hang=hang,
            made_wall_ns=max(self._made(routed), default=None),
        )
        return _LinkLook(routed=routed, status=status, lasts=lasts)

    def _hang(self, routed: RoutedLink, transfers: Transfers | None = None) -> tuple[Hang | None, bool]:
        """Where a link hangs, and whether that lasts until a document comes."""
        reports = {one.switch: self._switches.report(one.switch) for one in routed.crossconnects}
        switches = {name: one for name, one in reports.items() if one is not None}  # else a reload has taken it out
        made_wall_ns, lost_wall_ns = max(self._made(routed), default=0), self._lost(routed)
        now_ns, ages_s, lasts = 0 if self._now_wall_ns is None else self._now_wall_ns(), dict[str, float](), True
        for name, report in switches.items():
            if not report.power_dbm or (asked_wall_ns := self._asked(name)) is None:
                continue
            if asked_wall_ns < made_wall_ns:
                switches[name], lasts = replace(report, power_dbm={}), False
            if lost_wall_ns is not None and asked_wall_ns < lost_wall_ns:
                ages_s[name], lasts = (now_ns - asked_wall_ns) / 1e9, False
        ends = {end: EndState() if (port := self._ports.get(end)) is None else port.end for end in routed.link.ends}
        diagnosis = Diagnosis(
            routed, ends, testbed=self._fabric.testbed, switches=switches, ages_s=ages_s, transfers=transfers
        )
        return diagnosis.hang, lasts

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
            port = self._ports.get(end)
            if port is not None and port.was is not None and port.was.there is False:
                times += [one for one in (port.was.since_wall_ns, port.dark_wall_ns) if one is not None]
        return max(times, default=None)

    def _made(self, routed: RoutedLink) -> list[int]:
        """When its crossconnects were made, of those whose making was seen."""
        found = (self._switches.made_wall_ns(one.switch, one.crossconnect) for one in routed.crossconnects)
        return [one for one in found if one is not None]

    def _since(self, routed: RoutedLink, away: list[SwitchStatus], carrier: bool | None) -> int | None:
        """Since when a link is as it is: since it is lit, or the change of an end or a switch that came after that.

        None where the change of an end or a switch was not seen. A crossconnect whose making was not seen does not
        count: a carrier follows its light.
        """
        lit_ns = self._made(routed)
        ports = [self._ports.get(end) for end in routed.link.ends]
        if away:
            began = _all_seen(one.since_wall_ns for one in away)
            return None if began is None else max([min(began), *lit_ns])
        if carrier is None:
            unknown = [one for one in ports if one is None or one.carrier is None]
            began = _all_seen(None if one is None else one.lost_wall_ns for one in unknown)
            return None if began is None else max([min(began), *lit_ns])
        found = [None if one is None else one.was for one in ports]
        as_it_is = [one for one in found if one is None or one.there is carrier]
        began = _all_seen(None if one is None else one.since_wall_ns for one in as_it_is)
        return None if began is None else max([max(began) if carrier else min(began), *lit_ns])


def _all_seen(times: Iterable[int | None]) -> list[int] | None:
    """The times, or None where one of them is not known."""
    found = [*times]
    seen = [one for one in found if one is not None]
    return seen if seen and len(seen) == len(found) else None
