"""The light of a rack, followed from state to state: what a change does not touch is not traced again."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from hwd.fabric.last_seen import LastSeen
from hwd.fabric.light import LightMap, Onward, Trace
from hwd.fabric.state import Carried, State, lighting
from hwd.model.circuit import RoutedLink
from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.nic_port import NicPortId
from hwd_drivers.core.values import FibreEnd

Ways = dict[tuple[NicPortId, NicPortId], dict[int, Trace]]
"""Light from NIC port to NIC port, by lane; a receiver with light of two transmitters is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LightChange:
    """The changed `links`: those that came, went, or were traced again; `went`: those of them that are lit no more."""

    links: frozenset[Link]
    went: frozenset[Link]


class FollowedLight:
    """Where light goes in one state at a time; `follow` goes to another one.

    `loss_db`: of a crossconnect of each switch; `owners`: the NIC port of each fibre end of a module;
    `is_whole(link, ways)`: whether all lanes of a link have light, both ways.
    """

    def __init__(
        self,
        light: LightMap,
        *,
        loss_db: Mapping[str, float],
        owners: Mapping[FibreEnd, NicPortId],
        is_whole: Callable[[Link, Ways], bool],
    ) -> None:
        self._light = light
        self._loss_db = loss_db
        self._owners = owners
        self._is_whole = is_whole
        self._last = LastSeen[Carried]()
        self._beside: set[str] = set()
        """Switches that were changed beside the state that was followed last, or are still to be followed to it."""
        self._follows = 0
        """How often states were followed."""
        self._lit: dict[str, tuple[SwitchCrossconnect, ...]] = {}
        """By switch: what passes light."""
        self._joined: dict[FibreEnd, Onward] = {}
        self._traces: dict[FibreEnd, list[Trace]] = {}
        """By transmitter."""
        self._at: dict[FibreEnd, list[Trace]] = {}
        """By the end where light enters a device."""
        self._way_at: dict[FibreEnd, tuple[NicPortId, NicPortId]] = {}
        """By receiver: the pair of `ways` that it is a lane of."""
        self.ways: Ways = {}
        self.links: set[Link] = set()
        """The links that have light both ways, on every lane."""
        self.routed: dict[Link, RoutedLink] = {}
        """The routed links, as far as somebody asked for them."""
        self._in_order: tuple[Link, ...] | None = None
        self._place = {source: number for number, source in enumerate(light.sources)}
        self._trace(light.sources)

    @property
    def in_order(self) -> tuple[Link, ...]:
        """The links that are lit, in order."""
        if self._in_order is None:
            self._in_order = in_order(self.links)
        return self._in_order

    def follow(self, state: State) -> None:
        """Go on with this state."""
        differing, gone = self._last.differing(state)
        self._follows += 1
        beside, self._beside = self._beside, set()
        touched = [end for name in beside.union(differing) for end in self._change(name, state.get(name, ()))]
        touched += [end for name in gone for end in self._change(name, ())]
        self._trace_at(touched)

    def follow_in_parts(self, state: State, switches_at_once: int) -> Iterator[None]:
        """Follow the light as `follow` does, a part at a time. Whoever follows the light in between follows all of it;
        then this ends.
        """
        differing, gone = self._last.differing(state)
        self._follows += 1
        this, names = self._follows, [*dict.fromkeys((*self._beside, *differing, *gone))]
        self._beside.update(names)  # until they are followed
        for first in range(0, len(names), switches_at_once):
            if self._follows != this:
                return
            part = names[first : first + switches_at_once]
            self._beside.difference_update(part)
            self._trace_at([end for name in part for end in self._change(name, state.get(name, ()))])
            yield

    def change(self, changed: State) -> LightChange:
        """Go on with the same state, but for these switches; returns what changed."""
        self._beside.update(changed)
        return self._trace_at(end for name, carried in changed.items() for end in self._change(name, carried))

    def entering(self, end: FibreEnd) -> list[Trace]:
        """The light that enters a device there, in the order of the transmitters."""
        return sorted(self._at.get(end, ()), key=lambda trace: self._place[trace.source])

    def links_through(self, crossconnects: frozenset[SwitchCrossconnect]) -> set[Link]:
        """The links whose light passes one of these."""
        sources = {
            trace.source
            for one in crossconnects
            if one.switch in self._loss_db
            for into, _ in self._light.crossings(one)
            if into in self._joined and self._joined[into][1] == one
            for trace in self._at.get(into, ())
        }
        pairs = (
            self._way_at[trace.end]
            for source in sources
            for trace in self._traces[source]
            if trace.end in self._way_at and not crossconnects.isdisjoint(trace.crossconnects)
        )
        return self.links.intersection(Link.of(*pair) for pair in pairs)

    def _change(self, switch: str, carried: Carried) -> set[FibreEnd]:
        """Ends of a switch whose light goes on otherwise."""
        if switch not in self._loss_db:
            return set()
        old, new = self._lit.get(switch, ()), lighting({switch: carried})
        if isinstance(carried, frozenset) and _clash(new):
            new = tuple(sorted(new))
        self._lit[switch] = new
        before = frozenset(old)
        removed, added = before.difference(new), [one for one in new if one not in before]
        if old != new and (_clash(old) or _clash(new)):  # an end twice: the last one counts
            removed, added = before, [*new]
        for one in removed:
            self._light.join(self._joined, one, None)
        for one in added:
            self._light.join(self._joined, one, self._loss_db[switch])
        return {into for one in (*removed, *added) for into, _ in self._light.crossings(one)}

    def _trace_at(self, ends: Iterable[FibreEnd]) -> LightChange:
        change = self._trace(dict.fromkeys(trace.source for end in ends for trace in self._at.get(end, ())))
        if change.links:
            self._in_order = None
            for link in change.links:
                self.routed.pop(link, None)
        return change

    def _trace(self, sources: Iterable[FibreEnd]) -> LightChange:
        """Follow the light of these transmitters anew."""
        sources = [*sources]
        if 2 * len(sources) > len(self._place):
            return self._trace_all()
        ends: set[FibreEnd] = set()
        for source in sources:
            for end in {trace.end for trace in self._traces.pop(source, ())}:
                if left := [trace for trace in self._at[end] if trace.source != source]:
                    self._at[end] = left
                else:
                    del self._at[end]
                ends.add(end)
            traces = self._traces[source] = [*self._light.follow(self._joined, (source,))]
            for trace in traces:
                self._at.setdefault(trace.end, []).append(trace)
                ends.add(trace.end)
        pairs: set[tuple[NicPortId, NicPortId]] = set()
        for end in ends & self._owners.keys():
            pairs.update(self._find_way(end))
        links = frozenset(Link.of(*pair) for pair in pairs)
        lit = {link for link in links if self._is_whole(link, self.ways)}
        went = frozenset(self.links.intersection(links) - lit)
        self.links -= went
        self.links |= lit
        return LightChange(links=links, went=went)

    def _trace_all(self) -> LightChange:
        traces: dict[FibreEnd, list[Trace]] = {source: [] for source in self._place}
        before, self._at, self._way_at, self.ways = self.links, {}, {}, {}
        for trace in self._light.follow(self._joined, self._place):
            traces[trace.source].append(trace)
            self._at.setdefault(trace.end, []).append(trace)
        self._traces = traces
        pairs = {pair for end in self._at if end in self._owners for pair in self._find_way(end)}
        links = {Link.of(*pair) for pair in pairs if pair[::-1] in pairs}
        self.links = {link for link in links if self._is_whole(link, self.ways)}
        return LightChange(links=frozenset(before | self.links), went=frozenset(before - self.links))

    def _find_way(self, end: FibreEnd) -> Iterator[tuple[NicPortId, NicPortId]]:
        """Find what a receiver gets, and yield the pairs of NIC ports whose light that changes."""
        if (before := self._way_at.pop(end, None)) is not None:
            lanes = self.ways[before]
            del lanes[end.lane]
            if not lanes:
                del self.ways[before]
            yield before
        traces = self._at.get(end, ())
        if len(traces) != 1:
            return
        (trace,) = traces
        source, target = self._owners.get(trace.source), self._owners[end]
        if source is not None and source != target and trace.source.lane == end.lane:
            self._way_at[end] = source, target
            self.ways.setdefault((source, target), {})[end.lane] = trace
            yield source, target


def _clash(crossconnects: tuple[SwitchCrossconnect, ...]) -> bool:
    return len({end for one in crossconnects for end in one.crossconnect.ends}) < 2 * len(crossconnects)


def in_order(links: Iterable[Link]) -> tuple[Link, ...]:
    return tuple(sorted(links, key=lambda link: (link.a.sort_key(), link.b.sort_key())))
