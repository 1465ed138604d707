"""Routes: what a request needs of each switch, whatever that switch carries now. No I/O.

Switches that hosts drive are never moved: a route may rely on what they carry now, and is refused where one would have
to change.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hwd.fabric.fabric import Fabric
from hwd.fabric.link_router import LinkWays
from hwd.model.link import SwitchCrossconnect
from hwd.model.plural import plural
from hwd.model.request import Request
from hwd.model.testbed import Switch, Testbed
from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, FibreEnd, PortSide, natural_key
from hwd_drivers.switching.moves import ApplyMode

HostReadings = Mapping[str, tuple[CrossconnectReading, ...]]
"""What the switches of hosts carry, by switch, as their agents reported it last.

A switch whose state is unknown is absent.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedRequest:
    """A request with the ways of its links: what each switch must carry.

    `composites`: what each composite must carry; how its elements make that is for the planner.
    `switches`: the names of those that must be read before planning, sorted; with them those of elements that may have
    to move. `ports`: switch ports and NIC ports that it needs, `ocs1.3`, `h0.eth0`.
    """

    request: Request
    links: tuple[LinkWays, ...]
    crossconnects: Mapping[str, frozenset[Crossconnect]]
    composites: Mapping[str, frozenset[Crossconnect]]
    switches: tuple[str, ...]
    ports: frozenset[str]
    host_readings: HostReadings
    """The present crossconnects of the switches of hosts; the links need no others of these switches."""
    mark: object = field(default=None, compare=False, repr=False)
    """The mark of the router that found the routes: another router may have another testbed."""


class Router:
    """Finds routes on one testbed. `host_readings()`: what the switches that hosts drive carry now."""

    def __init__(self, fabric: Fabric, host_readings: Callable[[], HostReadings]) -> None:
        self._testbed = fabric.testbed
        self._fabric = fabric
        self._host_readings = host_readings
        self._mark = object()
        self.has_composites = bool(fabric.composites)
        """Whether a way may lead through elements. The search through a large composite takes seconds."""

    def is_current(self, routed: RoutedRequest) -> bool:
        """Whether this router found the route, and the switches of hosts carry what they did then."""
        return routed.mark is self._mark and self._host_readings() == routed.host_readings

    def route(self, request: Request) -> RoutedRequest:
        """Find the ways of the links that are asked for.

        Raises ConfigError (no path, no such switch or port, an empty request) and RefusedError (a host's own switch
        would have to move, or demands conflict).
        """
        wanted = request.wanted
        emptied = [*wanted.emptied, *(one.switch for one in wanted.freed)]
        asked: dict[str, set[Crossconnect]] = {name: set() for name in emptied}
        for crossconnect in wanted.crossconnects:
            asked.setdefault(crossconnect.switch, set()).add(crossconnect.crossconnect)
        beside = {name: found for name, found in asked.items() if name in self._fabric.composites}
        for name, found in beside.items():
            self._fabric.composites[name].check(sorted(found, key=Crossconnect.sort_key))
        host_readings = self._host_readings()
        ways = self._ways(request, beside, host_readings)
        for link in ways:
            for one in link.crossconnects:
                asked.setdefault(one.switch, set()).add(one.crossconnect)
        for name, found in asked.items():
            if (ends := self._testbed.ends.get(name)) is None:
                raise ConfigError(
                    f"{name}: no such switch in testbed {self._testbed.name}; it has {', '.join(self._testbed.askable)}"
                )
            _check_ends(name, found, ends)
        if not asked and not request.body.may_be_empty:
            raise ConfigError(f"{request.wanted.name}: asks for no crossconnect")
        crossconnects: dict[str, frozenset[Crossconnect]] = {}
        composites: dict[str, frozenset[Crossconnect]] = {}
        of_hosts: dict[str, frozenset[Crossconnect]] = {}
        for name, found in asked.items():
            if name in self._fabric.composites:
                composites[name] = frozenset(found)
            elif self._testbed.switches[name].owner is None:
                crossconnects[name] = frozenset(found)
            else:
                of_hosts[name] = frozenset(found)
        _check_host_switches(self._testbed, of_hosts, host_readings, emptied=emptied)
        inner = self._inner(composites, request)
        for name in sorted(inner):
            if (owner := self._testbed.switches[name].owner) is not None:
                raise RefusedError(f"{name}: it belongs to host {owner}, which alone drives it")
        ports = {
            *(end for way in ways for end in way.link.ends),
            *(
                self._testbed.port_of(name, end)
                for found in (crossconnects, composites)
                for name in found
                for one in found[name]
                for end in one.ends
            ),
            *(self._testbed.port_of(one.switch, one.end) for one in request.wanted.freed if one.switch not in of_hosts),
        }
        return RoutedRequest(
            request=request,
            links=ways,
            crossconnects=crossconnects,
            composites=composites,
            switches=tuple(sorted(inner.union(crossconnects))),
            ports=frozenset(ports),
            host_readings=host_readings,
            mark=self._mark,
        )

    def _ways(
        self, request: Request, beside: Mapping[str, Iterable[Crossconnect]], host_readings: HostReadings
    ) -> tuple[LinkWays, ...]:
        """Through what the switches of hosts carry, if possible; else with what they would have to carry."""
        if not request.wanted.links:
            return ()
        closed = _closed_ends(self._testbed, host_readings)
        try:
            return self._fabric.router.ways(request.wanted.links, beside, closed=closed)
        except ConfigError:
            if not closed:
                raise
            return self._fabric.router.ways(request.wanted.links, beside)

    def _inner(self, composites: Mapping[str, frozenset[Crossconnect]], request: Request) -> set[str]:
        """Switches of the elements of composites that may have to move for a request."""
        inner: set[str] = set()
        for name, demands in composites.items():
            composite = self._fabric.composites[name]
            if name in request.wanted.emptied or request.body.mode is ApplyMode.OVERWRITE:
                inner.update(composite.inside.switches)
            else:
                freed = [one.end for one in request.wanted.freed if one.switch == name]
                ends = (end for demand in demands for end in demand.ends)
                inner.update(composite.inside.switches_of([*freed, *ends]))
        return inner


def host_crossconnects(host_readings: HostReadings) -> frozenset[SwitchCrossconnect]:
    """The crossconnects that the switches of hosts carry."""
    return frozenset(
        SwitchCrossconnect(switch=name, crossconnect=one.crossconnect)
        for name, found in host_readings.items()
        for one in found
    )


def _closed_ends(testbed: Testbed, host_readings: HostReadings) -> dict[FibreEnd, str]:
    """Free ends of the switches of hosts, with the reason why no light passes; all ends where the state is unknown."""
    closed = {}
    for name, switch in testbed.owned.items():
        used = {end for one in host_readings.get(name, ()) for end in one.crossconnect.ends}
        for end in switch.capabilities.ends:
            if end not in used:
                closed[FibreEnd(owner=name, port=end.port, side=end.side)] = (
                    f"host {switch.owner} has not set {name} so"
                )
    return closed


def _check_host_switches(
    testbed: Testbed,
    wanted: Mapping[str, Iterable[Crossconnect]],
    host_readings: HostReadings,
    *,
    emptied: Collection[str],
) -> None:
    """Check what is wanted of the switches of hosts. Switches in `emptied` would have to lose crossconnects.

    Raises RefusedError where one would have to move, with the commands that the hosts have to run for it.
    """
    findings, asked = [], dict[str, list[str]]()
    for name in sorted(wanted, key=natural_key):
        switch = testbed.switches[name]
        finding, target = _finding(
            switch, sorted(wanted[name], key=Crossconnect.sort_key), host_readings, name in emptied
        )
        if finding:
            findings.append(finding)
            asked.setdefault(str(switch.owner), []).append(f"{name}:{target}")
    if findings:
        commands = "; ".join(f"on {host}: hwd-agent select {' '.join(what)}" for host, what in asked.items())
        raise RefusedError(f"{'; '.join(findings)}. The daemon never drives a host's own switch. First {commands}")


def _finding(
    switch: Switch, wanted: Sequence[Crossconnect], host_readings: HostReadings, emptied: bool
) -> tuple[str, str]:
    """Why a switch does not carry what is wanted, and what its host must select; both empty where it does."""
    theirs = f"{switch.name} belongs to host {switch.owner}"
    target = ",".join(wanted) or "dark"
    if emptied:
        return f"{theirs}, and something would have to go from it", target
    if switch.name not in host_readings:
        return f"{theirs}, and what it carries is not known now", target
    there = {one.crossconnect for one in host_readings[switch.name]}
    if missing := [one for one in wanted if one not in there]:
        carries = ", ".join(sorted(there, key=natural_key)) or "nothing"
        return f"{theirs}; it carries {carries}, and {missing[0]} is needed", target
    return "", ""


def _check_ends(name: str, crossconnects: Iterable[Crossconnect], ends: frozenset[PortSide]) -> None:
    used: dict[PortSide, Crossconnect] = {}
    for crossconnect in sorted(crossconnects, key=Crossconnect.sort_key):
        for end in crossconnect.ends:
            if end not in ends:
                raise ConfigError(f"{name}:{crossconnect}: {name} has no {end}; it has {plural(len(ends), 'end')}")
            if end in used:
                raise ConfigError(
                    f"{name}: {crossconnect} and {used[end]} both want {end}; a fibre end carries one crossconnect"
                )
            used[end] = crossconnect
