"""RegionalLight: the light of the regions of one job, as the plane that moves it knows it. A region is a set of NIC
ports whose links are among them; regions that share no port move at once.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.plane import MOST_PREPARED, Action, Prepare, Switch, Target

KNOWN_TARGETS: Final = MOST_PREPARED - 2
"""The latest targets of a region, which exist for sure: the oldest one goes that its light is neither at nor on the way
to.
"""

Region = frozenset[NicPortId]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Move:
    """A region's move; `about`: its ports, and those at the other ends of links that go; links of `touched` change."""

    links: frozenset[Link]
    about: frozenset[NicPortId]
    touched: frozenset[NicPortId]


class RegionalLight:
    """The light of a job by regions; at first it is known of no port where its light is. `go` makes targets `light1`,
    `light2` and so on.
    """

    def __init__(self) -> None:
        self._light: dict[NicPortId, Link | None] = {}
        """The link of each port whose light is known; None: it has none."""
        self._moves: dict[str, _Move] = {}
        self._known: dict[Region, dict[frozenset[Link], str]] = {}
        """The targets of each region by their links, the latest last."""
        self._number = 0

    @property
    def links(self) -> frozenset[Link]:
        """The links that are known."""
        return frozenset(link for link in self._light.values() if link is not None)

    @property
    def moving(self) -> frozenset[NicPortId]:
        """The ports whose links are others when what is under way has arrived."""
        return frozenset[NicPortId]().union(*(move.touched for move in self._moves.values()))

    def at(self, region: Region) -> frozenset[Link]:
        """The links at ports of a region, as far as they are known."""
        return frozenset(link for port in region if (link := self._light.get(port)) is not None)

    def is_at(self, region: Region, links: Iterable[Link]) -> bool:
        """Whether these are all links of a region."""
        return self._light.keys() >= region and self.at(region) == frozenset(links)

    def touched(self, region: Region, links: Iterable[Link]) -> frozenset[NicPortId]:
        """The ports whose links are others with these links in a region; all of it, where it is not known what they are
        now.
        """
        ends = frozenset(end for link in self.at(region) ^ frozenset(links) for end in link.ends)
        return ends if self._light.keys() >= region else ends | region

    def is_free(self, region: Region, links: Iterable[Link]) -> bool:
        """Whether a region can go to these links now: none of these ports is on its way."""
        about = region | self.touched(region, links)
        return all(about.isdisjoint(move.about) for move in self._moves.values())

    def go(self, region: Region, links: Iterable[Link]) -> Iterator[Action]:
        """What brings a region that is free to these links."""
        wanted, touched = frozenset(links), self.touched(region, links)
        known = self._known.setdefault(region, {})
        if wanted not in known:
            self._number += 1
            known[wanted] = f"light{self._number}"
            ports = tuple(sorted(region, key=NicPortId.sort_key))
            yield Prepare(id=known[wanted], target=Target(links=tuple(sorted(wanted, key=str)), ports=ports))
            if len(known) > KNOWN_TARGETS:
                del known[next(iter(known))]
        self._moves[known[wanted]] = _Move(links=wanted, about=region | touched, touched=touched)
        yield Switch(target=known[wanted])

    def applied(self, target: str) -> None:
        """The light is there now."""
        move = self._moves.pop(target)
        self._light |= dict.fromkeys(move.about)
        self._light |= {end: link for link in move.links for end in link.ends}

    def not_ready(self, target: str) -> frozenset[NicPortId]:
        """Nobody knows where it is. Returns the ports of which that holds."""
        about = self._moves.pop(target).about
        for port in about:
            self._light.pop(port, None)
        return about
