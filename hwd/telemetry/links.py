"""Which links are ready, by reconfigurations and reports of hosts: 1, 0, or no series where it is not known."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from hwd.model.circuit import RoutedLink
from hwd.model.documents.hosts import HostBirth, HostDown, HostEvent
from hwd.model.documents.reconfigurations import ReconfigurationEnded, ReconfigurationStarted
from hwd.model.instant import InstantName, Knowledge
from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.timeline import Timeline
from hwd_agents.wire.events import CarrierData, InterfaceData, ReadyData
from hwd_drivers.core.documents import Fact

READY = frozenset({Knowledge.SEEN, Knowledge.NEVER_LEFT})
"""What a timeline knows of `ready` where its link is ready."""


class ReadyGauge(Protocol):
    """A value by link: a `Series`, or what else wants to know."""

    def set(self, value: float, link: Link, /) -> None: ...

    def drop(self, link: Link, /) -> None: ...

    def value(self, link: Link, /) -> float | None: ...


@dataclass(slots=True)
class _Change:
    """A reconfiguration under way: links that it makes, and links that it removed, each with its crossconnects."""

    made: list[Link] = field(default_factory=list)
    taken: dict[Link, frozenset[SwitchCrossconnect]] = field(default_factory=dict)


class Links:
    """Sets one gauge by link: 1 from the first transfer, both ways, until an end loses its carrier; 0 while an end is
    known to have no carrier.

    There is no series for a link whose carrier came back without a measured transfer, or whose agents are disconnected.
    A link whose crossconnects were removed has no series either: it is no longer wanted.
    """

    def __init__(self, ready: ReadyGauge) -> None:
        self._ready = ready
        self._of_end: dict[str, Link] = {}
        self._of_crossconnect: dict[SwitchCrossconnect, Link] = {}
        self._made_of: dict[Link, frozenset[SwitchCrossconnect]] = {}
        self._transferred: set[str] = set()
        self._lit: dict[str, bool] = {}
        self._changes: dict[str, _Change] = {}

    def take(self, fact: Fact) -> None:
        """Take a document of a host or of a reconfiguration; all others change nothing."""
        match fact:
            case HostEvent(past=False, host=host, port=str(port), data=data):
                match data:
                    case CarrierData(carrier=lit):
                        self.carrier(f"{host}.{port}", lit)
                    case InterfaceData(present=False):
                        self.carrier(f"{host}.{port}", False)
                    case ReadyData():
                        self.transferred(f"{host}.{port}")
            case HostBirth(host=host, ports=ports):
                self.away(host)
                for port, note in ports.items():
                    if note.carrier is not None:
                        self.carrier(f"{host}.{port}", note.carrier)
            case HostDown(host=host):
                self.away(host)
            case ReconfigurationStarted(reconfiguration=id, links=links, moves=moves):
                removed = [
                    SwitchCrossconnect(switch=move.switch, crossconnect=one) for move in moves for one in move.remove
                ]
                self.begin(id, [(one.link, one.kept, one.crossconnects or ()) for one in links], removed)
            case ReconfigurationEnded(reconfiguration=id, outcome=outcome):
                self.end(id, outcome)
            case Timeline(links=timed):
                for timed_link in timed:
                    ready = {one.knowledge for one in timed_link.instants if one.name is InstantName.READY}
                    # a timeline of another version may have no instant `ready`: then its link is not ready
                    self.timed(timed_link.link, ready=bool(ready) and ready.issubset(READY))

    def expect(self, links: Iterable[RoutedLink]) -> None:
        """These are wanted, as earlier processes of the daemon have recorded."""
        for routed in links:
            self._make(routed.link, routed.crossconnects)

    # --- what reconfigurations do

    def begin(
        self,
        id: str,
        links: Iterable[tuple[Link, bool, Iterable[SwitchCrossconnect]]],
        removed: Iterable[SwitchCrossconnect],
    ) -> None:
        """`links`: each, whether it is kept, and its crossconnects; `removed`: crossconnects that go."""
        change = self._changes[id] = _Change()
        for link in {self._of_crossconnect[one] for one in removed if one in self._of_crossconnect}:
            change.taken[link] = self._made_of[link]
            self._forget(link)
        for link, kept, crossconnects in links:
            if kept and link in self._made_of:
                continue
            self._make(link, frozenset(crossconnects))
            if not kept:
                change.made.append(link)

    def timed(self, link: Link, *, ready: bool) -> None:
        """A timeline has this link; `ready`: that was seen, or never lost."""
        if link not in self._made_of:
            self._make(link, frozenset())
        if ready and not self._is_dark(link):
            self._ready.set(1, link)

    def end(self, id: str, outcome: str) -> None:
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

    def transferred(self, end: str) -> None:
        """A transfer from this end to its peer succeeded."""
        self._transferred.add(end)
        link = self._of_end.get(end)
        if link is not None and self._transferred.issuperset(link.ends) and not self._is_dark(link):
            self._ready.set(1, link)

    def carrier(self, end: str, lit: bool) -> None:
        self._lit[end] = lit
        link = self._of_end.get(end)
        if not lit:
            self._transferred.discard(end)
        if link is not None:
            self._judge(link)

    def away(self, host: str) -> None:
        """Nothing is known of its ends."""
        for end in [end for end in self._lit if end.startswith(f"{host}.")]:
            del self._lit[end]
            self._transferred.discard(end)
            if (link := self._of_end.get(end)) is not None:
                self._ready.drop(link)

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
        self._ready.drop(link)

    def _judge(self, link: Link) -> None:
        if self._is_dark(link):
            self._ready.set(0, link)
        elif self._ready.value(link) == 0:
            self._ready.drop(link)

    def _is_dark(self, link: Link) -> bool:
        return any(self._lit.get(end) is False for end in link.ends)
