"""Routes: what a request needs of each switch, whatever that switch carries now. No I/O.

Switches that hosts drive are never moved: a route may rely on what they carry now, and is refused where one would have
to change.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hwd.fabric.fabric import Fabric, LinkWays
from hwd.fabric.state import crossconnect_ports
from hwd.model.link import Link, SwitchCrossconnect, SwitchEnd
from hwd.model.testbed import Switch, Testbed
from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, FibreEnd, PortSide, natural_key
from hwd_drivers.switching.moves import ApplyMode

HostReadings = Mapping[str, tuple[CrossconnectReading, ...]]
"""What the switches of hosts carry, by switch, as their agents reported it last.

A switch whose state is unknown is absent.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What someone wants: links, or crossconnects by name, and the rules to apply it by.

    `what` is the text of the request.

    On switches in `emptied` and at ends in `freed` no crossconnect stays unless the request names it.
    """

    what: str
    links: tuple[Link, ...] = ()
    crossconnects: tuple[SwitchCrossconnect, ...] = ()
    emptied: tuple[str, ...] = ()
    freed: tuple[SwitchEnd, ...] = ()
    mode: ApplyMode = ApplyMode.UPDATE
    lease: str | None = None
    ready_within_s: float | None = None
    confirm_within_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """A request with the ways of its links: what each switch must carry.

    `composites`: what each composite must carry; how its elements make that is for the planner.
    `inner`: switches of elements that may have to move for it. `composite_ports`: the elements' ports at its ends.
    """

    request: Request
    links: tuple[LinkWays, ...]
    crossconnects: Mapping[str, frozenset[Crossconnect]]
    composites: Mapping[str, frozenset[Crossconnect]] = field(default_factory=dict)
    inner: frozenset[str] = frozenset()
    composite_ports: frozenset[str] = frozenset()
    host_readings: HostReadings = field(default_factory=dict)
    """The present crossconnects of the switches of hosts; the links need no others of these switches."""

    @property
    def switches(self) -> tuple[str, ...]:
        """Names of the switches that must be read before planning."""
        return tuple(sorted(self.inner.union(self.crossconnects)))

    @property
    def ports(self) -> frozenset[str]:
        """Switch ports and NIC ports that it needs: `ocs1.3`, `h0.eth0`."""
        pairs = (
            SwitchCrossconnect(switch=name, crossconnect=one)
            for name, found in self.crossconnects.items()
            for one in found
        )
        ends = {str(end) for link in self.links for end in link.link.ends}
        freed = (one for one in self.request.freed if one.switch in self.crossconnects)
        return (
            crossconnect_ports(pairs) | self.composite_ports | ends | {f"{one.switch}.{one.end.port}" for one in freed}
        )


class Router:
    """Finds routes on one testbed. `host_readings()`: what the switches that hosts drive carry now."""

    def __init__(self, testbed: Testbed, fabric: Fabric, host_readings: Callable[[], HostReadings]) -> None:
        self._testbed = testbed
        self._fabric = fabric
        self._host_readings = host_readings
        self._ends = {name: frozenset(testbed.ends_of(name)) for name in testbed.askable}

    def route(self, request: Request) -> Routed:
        """Find the ways of the links that are asked for.

        Raises ConfigError (no path, no such switch or port, an empty request) and RefusedError (a host's own switch
        would have to move, or demands conflict).
        """
        asked: dict[str, set[Crossconnect]] = {
            name: set() for name in [*request.emptied, *(one.switch for one in request.freed)]
        }
        for crossconnect in request.crossconnects:
            asked.setdefault(crossconnect.switch, set()).add(crossconnect.crossconnect)
        beside = {name: found for name, found in asked.items() if name in self._fabric.composites}
        for name, found in beside.items():
            self._fabric.composites[name].check(sorted(found, key=Crossconnect.sort_key))
        host_readings, switches = self._host_readings(), self._testbed.switches
        ways = self._ways(request, beside, host_readings)
        for one in (one for link in ways for one in link.crossconnects):
            asked.setdefault(one.switch, set()).add(one.crossconnect)
        for name, crossconnects in asked.items():
            if name not in self._ends:
                raise ConfigError(
                    f"{name}: no such switch in testbed {self._testbed.name}; it has {', '.join(self._testbed.askable)}"
                )
            _check_ends(name, crossconnects, self._ends[name])
        if not asked:
            raise ConfigError(f"{request.what}: asks for no crossconnect")
        wanted = {name: frozenset(found) for name, found in asked.items()}
        of_hosts = {name for name in wanted if (switch := switches.get(name)) is not None and switch.owner is not None}
        emptied = of_hosts.intersection([*request.emptied, *(one.switch for one in request.freed)])
        _check_host_switches(
            self._testbed, {name: wanted.pop(name) for name in of_hosts}, host_readings, emptied=emptied
        )
        routed = Routed(
            request=request,
            links=ways,
            crossconnects={name: found for name, found in wanted.items() if name not in self._fabric.composites},
            composites={name: found for name, found in wanted.items() if name in self._fabric.composites},
            inner=frozenset(
                name for composite in wanted for name in self._inner(composite, wanted[composite], request)
            ),
            composite_ports=frozenset(
                self._testbed.port_of(name, end)
                for name, end in (
                    *((name, end) for name, found in wanted.items() for one in found for end in one.ends),
                    *((one.switch, one.end) for one in request.freed),
                )
                if name in self._fabric.composites
            ),
            host_readings=host_readings,
        )
        for name in routed.switches:  # elements of composites
            if (owner := self._testbed.switches[name].owner) is not None:
                raise RefusedError(f"{name}: it belongs to host {owner}, which alone drives it")
        return routed

    def _ways(
        self, request: Request, beside: Mapping[str, Iterable[Crossconnect]], host_readings: HostReadings
    ) -> tuple[LinkWays, ...]:
        """Through what the switches of hosts carry, if possible; else with what they would have to carry."""
        closed = _closed_ends(self._testbed, host_readings)
        try:
            return self._fabric.ways(request.links, beside, closed=closed)
        except ConfigError:
            if not closed:
                raise
            return self._fabric.ways(request.links, beside)

    def _inner(self, name: str, demands: frozenset[Crossconnect], request: Request) -> tuple[str, ...]:
        """Switches of the elements of a composite that may have to move for a request."""
        composite = self._fabric.composites.get(name)
        if composite is None:
            return ()
        if name in request.emptied or request.mode is ApplyMode.OVERWRITE:
            return composite.inside.switches
        freed = [one.end for one in request.freed if one.switch == name]
        return composite.switches_near([*freed, *(end for demand in demands for end in demand.ends)])


def host_crossconnects(host_readings: HostReadings) -> frozenset[SwitchCrossconnect]:
    """All that the switches of hosts carry."""
    return frozenset(
        SwitchCrossconnect(switch=name, crossconnect=one.crossconnect)
        for name, found in host_readings.items()
        for one in found
    )


def _closed_ends(testbed: Testbed, host_readings: HostReadings) -> dict[FibreEnd, str]:
    """Free ends of the switches of hosts, with the reason why no light passes; all ends where the state is unknown."""
    closed = {}
    for name, switch in testbed.switches.items():
        if switch.owner is None:
            continue
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
    target = ",".join(map(str, wanted)) or "dark"
    if emptied:
        return f"{theirs}, and something would have to go from it", target
    if switch.name not in host_readings:
        return f"{theirs}, and what it carries is not known now", target
    there = {one.crossconnect for one in host_readings[switch.name]}
    if missing := [one for one in wanted if one not in there]:
        carries = ", ".join(sorted(map(str, there))) or "nothing"
        return f"{theirs}; it carries {carries}, and {missing[0]} is needed", target
    return "", ""


def _check_ends(name: str, crossconnects: Iterable[Crossconnect], ends: frozenset[PortSide]) -> None:
    used: dict[PortSide, Crossconnect] = {}
    for crossconnect in sorted(crossconnects, key=Crossconnect.sort_key):
        for end in crossconnect.ends:
            if end not in ends:
                raise ConfigError(f"{name}:{crossconnect}: {name} has no {end}; it has {len(ends)} ends")
            if end in used:
                raise ConfigError(
                    f"{name}: {crossconnect} and {used[end]} both want {end}; a fibre end carries one crossconnect"
                )
            used[end] = crossconnect
