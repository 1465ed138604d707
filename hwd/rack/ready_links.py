"""Which links are ready, by reconfigurations and reports of hosts."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Final

from hwd.model.circuit import RoutedLink
from hwd.model.host import HostBirth, HostDown, HostEvent
from hwd.model.instant import InstantName, Knowledge
from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.nic_port import NicPortId
from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationStarted
from hwd.model.timeline import Timeline
from hwd.rack.nic_ports import NicPorts
from hwd_agents.wire.events import CarrierData, InterfaceData, ReadyData
from hwd_drivers.core.documents import Document

READY: Final = frozenset({Knowledge.SEEN, Knowledge.NEVER_LEFT})
"""What a timeline knows of `ready` where its link is ready."""


@dataclass(slots=True)
class _Change:
    """A reconfiguration under way: links that it makes, and links that it removed, each with its crossconnects."""

    made: list[Link] = field(default_factory=list)
    taken: dict[Link, frozenset[SwitchCrossconnect]] = field(default_factory=dict)


class ReadyLinks:
    """A `Sink`, after `ports`. A link is ready from the first transfer, both ways, until an end loses its carrier; it
    is not ready while an end is known to have no carrier.

    Nothing is known of a link whose carrier came back without a measured transfer, or whose agents are disconnected.
    One whose crossconnects were removed is no longer wanted, and nothing is said of it either.
    """

    TAKES: ClassVar = (HostBirth, HostDown, HostEvent, ReconfigurationStarted, ReconfigurationEnded, Timeline)

    def __init__(self, ports: NicPorts) -> None:
        self._ports = ports
        self._ready: dict[Link, bool] = {}
        self.changed: set[Link] = set()
        """By the last document. What one drops and sets again has not changed in between."""
        self._of_end: dict[NicPortId, Link] = {}
        self._of_crossconnect: dict[SwitchCrossconnect, Link] = {}
        self._made_of: dict[Link, frozenset[SwitchCrossconnect]] = {}
        self._transferred: set[NicPortId] = set()
        self._changes: dict[str, _Change] = {}

    def is_ready(self, link: Link) -> bool | None:
        """Whether a link is ready; None where that is not known, or where nobody wants the link."""
        return self._ready.get(link)

    def __call__(self, document: Document) -> None:
        self.changed.clear()
        match document.fact:
            case HostEvent(past=False, host=host, port=str(port), data=data):
                match data:
                    case CarrierData() | InterfaceData(present=False):
                        self._see(NicPortId(host=host, port=port))
                    case ReadyData():
                        self._transfer(NicPortId(host=host, port=port))
            case HostDown(host=host):
                self._away(host)
            case HostBirth(host=host, ports=ports):
                self._away(host)
                for port, host_port in ports.items():
                    if host_port.carrier is not None:
                        self._see(NicPortId(host=host, port=port))
            case ReconfigurationStarted() as started:
                self._begin(started)
            case ReconfigurationEnded(reconfiguration=id, outcome=outcome):
                self._end(id, outcome)
            case Timeline(links=timed):
                for link in timed:
                    ready = {one.knowledge for one in link.instants if one.name is InstantName.READY}
                    self._time(link.link, ready=bool(ready) and ready.issubset(READY))

    def expect(self, links: Iterable[RoutedLink]) -> None:
        """Expect these links, as earlier processes of the daemon have recorded."""
        for routed in links:
            self._make(routed.link, routed.crossconnects)

    # --- what reconfigurations do

    def _begin(self, started: ReconfigurationStarted) -> None:
        change = self._changes[started.reconfiguration] = _Change()
        removed = [
            SwitchCrossconnect(switch=move.switch, crossconnect=one) for move in started.moves for one in move.remove
        ]
        for link in {self._of_crossconnect[one] for one in removed if one in self._of_crossconnect}:
            change.taken[link] = self._made_of[link]
            self._forget(link)
        for one in started.links:
            if one.kept and one.link in self._made_of:
                continue
            self._make(one.link, frozenset(one.crossconnects or ()))
            if not one.kept:
                change.made.append(one.link)

    def _time(self, link: Link, *, ready: bool) -> None:
        """A timeline has this link; `ready`: that was seen, or never lost."""
        if link not in self._made_of:
            self._make(link, frozenset())
        if ready and not self._is_dark(link):
            self._set(link, True)

    def _end(self, id: str, outcome: str) -> None:
        """Unless it was confirmed, its links are none; after a way back, those from before are again."""
        change = self._changes.pop(id, None)
        if change is None or outcome == "confirmed":
            return
        for link in change.made:
            self._forget(link)
        if outcome == "rolled-back":
            for link, crossconnects in change.taken.items():
                self._make(link, crossconnects)

    # --- what hosts tell

    def _transfer(self, end: NicPortId) -> None:
        self._transferred.add(end)
        link = self._of_end.get(end)
        if link is not None and self._transferred.issuperset(link.ends) and not self._is_dark(link):
            self._set(link, True)

    def _see(self, end: NicPortId) -> None:
        """Its carrier may be another one."""
        if self._ports.carrier(end) is False:
            self._transferred.discard(end)
        if (link := self._of_end.get(end)) is not None:
            self._judge(link)

    def _away(self, host: str) -> None:
        """Nothing that was known of its ends holds any more."""
        for end, link in self._of_end.items():
            if end.host == host:
                self._transferred.discard(end)
                self._set(link, None)

    # --- links

    def _make(self, link: Link, crossconnects: frozenset[SwitchCrossconnect]) -> None:
        """A NIC port is in one link at a time: whatever used one of these ends before is no link any more."""
        for end in link.ends:
            if (other := self._of_end.get(end)) is not None:
                self._forget(other)
        self._made_of[link] = crossconnects
        self._of_crossconnect |= dict.fromkeys(crossconnects, link)
        for end in link.ends:
            self._of_end[end] = link
            self._transferred.discard(end)
        self._judge(link)

    def _forget(self, link: Link) -> None:
        for crossconnect in self._made_of.pop(link, ()):
            if self._of_crossconnect.get(crossconnect) == link:
                del self._of_crossconnect[crossconnect]
        for end in link.ends:
            if self._of_end.get(end) == link:
                del self._of_end[end]
        self._set(link, None)

    def _judge(self, link: Link) -> None:
        if self._is_dark(link):
            self._set(link, False)
        elif self._ready.get(link) is False:
            self._set(link, None)

    def _is_dark(self, link: Link) -> bool:
        return any(self._ports.carrier(end) is False for end in link.ends)

    def _set(self, link: Link, ready: bool | None) -> None:
        if ready is not self._ready.get(link):
            self.changed.add(link)
        if ready is None:
            self._ready.pop(link, None)
        else:
            self._ready[link] = ready
