"""LinkRouter: finds paths of links that exist at once; no fibre end is used twice, each element is in one state."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hwd.fabric.conflict import ConflictError
from hwd.fabric.hops import Hops
from hwd.fabric.loss_budget import fits
from hwd.fabric.obstacle import explain
from hwd.fabric.path import EndsInUse, Path, find_path
from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.nic_port import NicPortId
from hwd.model.testbed import NicPort, Testbed
from hwd_drivers.core.errors import BugError, ConfigError
from hwd_drivers.core.values import Crossconnect, FibreEnd, Side

REORDERINGS_MAX = 8
"""How often links are routed again with the one first that found no path; real racks need none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkWays:
    """A link with the paths of its light from switch to switch; the paths inside composites are not chosen yet."""

    link: Link
    paths: tuple[Path, ...]

    @property
    def crossconnects(self) -> frozenset[SwitchCrossconnect]:
        """Crossconnects of switches, and those of composites under the composite's name."""
        return frozenset(one for path in self.paths for one in path.crossconnects)


class LinkRouter:
    """The router of links; `barred`: ends of switches that the testbed file sets aside, with the reason."""

    def __init__(self, testbed: Testbed, hops: Hops, barred: Mapping[FibreEnd, str]) -> None:
        self._testbed = testbed
        self._hops = hops
        self._barred = barred
        self._composites = hops.composites
        self._ports = {port.id: port for port in testbed.ports()}

    def ways(
        self,
        links: Iterable[Link],
        beside: Mapping[str, Iterable[Crossconnect]] | None = None,
        *,
        closed: Mapping[FibreEnd, str] | None = None,
        set_aside: bool = True,
    ) -> tuple[LinkWays, ...]:
        """Paths of links that exist at once, in their order, together with `needed` demands on composites.

        `closed`: switch ends that they must not use, with the reason. Ports that the testbed file sets aside (spare,
        in maintenance ...) are used only where nothing else leads there, for an interlock to judge; without
        `set_aside` never.

        Raises ConfigError where a link has no path, RefusedError where a composite cannot meet all demands.
        """
        wanted = tuple(links)
        self._check_ports(wanted)
        beside, closed = beside or {}, closed or {}
        try:
            return self._settled(wanted, beside, {**closed, **self._barred})
        except ConfigError:
            if not (self._barred and set_aside):
                raise
            try:
                return self._settled(wanted, beside, closed)
            except ConfigError:
                pass  # the ports that are set aside are not the obstacle
            raise

    def _settled(
        self, wanted: tuple[Link, ...], beside: Mapping[str, Iterable[Crossconnect]], barred: Mapping[FibreEnd, str]
    ) -> tuple[LinkWays, ...]:
        ways = self._ordered(wanted, beside, barred, careful=False)
        try:
            self._check_composites(ways, beside)
        except ConflictError as conflict:
            try:  # other paths may exist: now each step asks the composites
                return self._ordered(wanted, beside, barred, careful=True)
            except _NoWayError:
                raise conflict from None
        return ways

    def demands(self, ways: Iterable[LinkWays]) -> dict[str, frozenset[Crossconnect]]:
        """The demands of these links on each composite."""
        found: dict[str, set[Crossconnect]] = {}
        for one in (one for link in ways for one in link.crossconnects if one.switch in self._composites):
            found.setdefault(one.switch, set()).add(one.crossconnect)
        return {name: frozenset(demands) for name, demands in found.items()}

    def _check_composites(self, ways: Iterable[LinkWays], beside: Mapping[str, Iterable[Crossconnect]]) -> None:
        for name, demands in self.demands(ways).items():
            self._composites[name].check([*sorted(demands, key=Crossconnect.sort_key), *beside.get(name, ())])

    def _ordered(
        self,
        wanted: tuple[Link, ...],
        beside: Mapping[str, Iterable[Crossconnect]],
        barred: Mapping[FibreEnd, str],
        *,
        careful: bool,
    ) -> tuple[LinkWays, ...]:
        order = list(wanted)
        for attempt in range(REORDERINGS_MAX + 1):
            taken = self._taken(beside, careful=careful)
            routed: dict[Link, LinkWays] = {}
            for link in order:
                try:
                    routed[link] = self._route(link, taken, barred)
                except _NoWayError:
                    if attempt == REORDERINGS_MAX or order[0] == link:
                        raise
                    order = [link, *(other for other in order if other != link)]
                    break
            else:
                return tuple(routed[link] for link in wanted)
        raise BugError("routes: the last attempt neither returned nor raised")

    def _check_ports(self, links: tuple[Link, ...]) -> None:
        used: dict[NicPortId, Link] = {}
        for link in links:
            for end in link.ends:
                self._port(end)
                if end in used:
                    raise ConfigError(
                        f"{link}: {end} is used by {used[end]} already; a NIC port is in one link at a time"
                    )
                used[end] = link

    def _port(self, id: NicPortId) -> NicPort:
        return self._ports[id] if id in self._ports else self._testbed.port(id)

    def _taken(self, beside: Mapping[str, Iterable[Crossconnect]], *, careful: bool) -> EndsInUse:
        taken = EndsInUse(careful=careful)
        for name, demands in beside.items():
            ports = self._testbed.composites[name].ports
            for demand in demands:
                one = SwitchCrossconnect(switch=name, crossconnect=demand)
                taken.ends |= {ports[end]: one for end in demand.ends}
                taken.of_station.setdefault(name, set()).add(one)
                taken.ways |= {(ports[demand.b], ports[demand.a]), (ports[demand.a], ports[demand.b])}
        return taken

    def _route(self, link: Link, taken: EndsInUse, barred: Mapping[FibreEnd, str]) -> LinkWays:
        a, b = (self._port(end) for end in link.ends)
        if not fits(a.module, b.module):
            raise ConfigError(
                f"{link}: {a.id} has a {a.module.type} and {b.id} a {b.module.type}: "
                "their lanes differ, so that neither "
                "understands the other. Join ports with modules of one type"
            )
        paths = []
        for source, target in ((a, b), (b, a)):
            for start, end in zip(source.ends(Side.TX), target.ends(Side.RX), strict=True):
                path = find_path(self._hops, start, end, taken=taken, barred=barred)
                if path is None:
                    why = explain(self._hops, start, end, taken=taken, barred=barred)
                    raise _NoWayError(f"{link}: no way for the light of {start} to {end}: {why}")
                taken.take(path)
                paths.append(path)
        return LinkWays(link=link, paths=tuple(paths))


class _NoWayError(ConfigError):
    """There is no path with what is left: another order of the links may find one."""
