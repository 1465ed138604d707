"""The planner: from what is wanted and what the switches report to a plan. No I/O: the same input gives the same plan."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from hwd.fabric.fabric import Fabric
from hwd.fabric.state import State, crossconnect_ports
from hwd.model.link import Link, RoutedLink, SwitchCrossconnect, SwitchEnd
from hwd.model.plan import ApplyMode, CrashRule, Plan, PlannedLink, SwitchMoves
from hwd.model.state import Observed
from hwd.model.testbed import Testbed
from hwd_drivers.kit.errors import ConfigError, LinkError, RefusedError
from hwd_drivers.kit.values import Crossconnect, CrossconnectState, PortSide


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What someone wants: links, or crossconnects by name, and the rules to apply it by. `what` is the text that they gave.

    On switches that are `emptied` and at ends that are `freed` nothing stays; everything there is in the way of that.
    """

    what: str
    links: tuple[Link, ...] = ()
    crossconnects: tuple[SwitchCrossconnect, ...] = ()
    emptied: tuple[str, ...] = ()
    freed: tuple[SwitchEnd, ...] = ()
    mode: ApplyMode = ApplyMode.UPDATE
    lease: str | None = None
    crash_rule: CrashRule = CrashRule.ROLL_BACK
    ready_within_s: float | None = None
    confirm_within_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """A request with the ways of its links found: what must be on each switch, whatever is there now."""

    request: Request
    links: tuple[RoutedLink, ...]
    crossconnects: Mapping[str, frozenset[Crossconnect]]

    @property
    def switches(self) -> tuple[str, ...]:
        """Names of the switches that must be read before planning."""
        return tuple(sorted(self.crossconnects))

    @property
    def ports(self) -> frozenset[str]:
        """What it needs whatever is there now: `ocs1.3`, `h0.eth0`."""
        pairs = (
            SwitchCrossconnect(switch=name, crossconnect=one)
            for name, found in self.crossconnects.items()
            for one in found
        )
        ends = {str(end) for link in self.links for end in link.link.ends}
        return crossconnect_ports(pairs) | ends | {f"{one.switch}.{one.end.port}" for one in self.request.freed}


Expectation = Callable[[Iterable[str]], tuple[float, str]]
"""From the names of the switches that move to (seconds from command to ready, where that figure comes from)."""


class Planner:
    """Plans for one testbed."""

    def __init__(self, testbed: Testbed, fabric: Fabric, expect: Expectation) -> None:
        self._testbed = testbed
        self._fabric = fabric
        self._expect = expect
        self._ends = {name: frozenset(switch.capabilities.ends) for name, switch in testbed.switches.items()}

    def route(self, request: Request) -> Routed:
        """Raises ConfigError (no path, no such switch or port, nothing asked for), RefusedError (a host's own switch)."""
        routed = tuple(self._fabric.routes(request.links))
        left_free = [*request.emptied, *(one.switch for one in request.freed)]
        wanted: dict[str, set[Crossconnect]] = {name: set() for name in left_free}
        for crossconnect in [*(one for link in routed for one in link.crossconnects), *request.crossconnects]:
            wanted.setdefault(crossconnect.switch, set()).add(crossconnect.crossconnect)
        for name, crossconnects in wanted.items():
            switch = self._testbed.switches.get(name)
            if switch is None:
                raise ConfigError(
                    f"{name}: no such switch in testbed {self._testbed.name}; it has {', '.join(self._testbed.switches)}"
                )
            if switch.owner is not None:
                raise RefusedError(f"{name}: it belongs to host {switch.owner}, which alone drives it")
            _check_ends(name, crossconnects, self._ends[name])
        if not wanted:
            raise ConfigError(f"{request.what}: asks for no crossconnect")
        return Routed(
            request=request,
            links=routed,
            crossconnects={name: frozenset(crossconnects) for name, crossconnects in wanted.items()},
        )

    def plan(
        self, wanted: Routed, observed: Observed, blocked: Mapping[str, frozenset[PortSide]] | None = None
    ) -> Plan:
        """`blocked`: ends that overrides hold dark, by switch.

        Raises ConfigError (the switches light no whole link of it), RefusedError (in use under `safe`), LinkError (a switch was not read).
        """
        request, links = wanted.request, wanted.links
        moves = tuple(self._moves(name, wanted.crossconnects[name], observed, request) for name in wanted.switches)
        kept = frozenset(
            SwitchCrossconnect(switch=move.switch, crossconnect=crossconnect)
            for move in moves
            for crossconnect in move.keep
        )
        now, then = self._state(moves, observed, after=False), self._state(moves, observed, after=True)
        before = frozenset(self._fabric.links_of(now))
        if links:
            after = frozenset(self._fabric.links_of(then))
        else:
            made, touched = self._fabric.routed_of(then), frozenset(request.crossconnects)
            after = frozenset(one.link for one in made)
            links = tuple(sorted((one for one in made if one.crossconnects & touched), key=str))
        dark = tuple(sorted(before - after, key=str))
        planned = tuple(PlannedLink(routed=link, kept=link.crossconnects <= kept) for link in links)
        moving = [move.switch for move in moves if move.remove or move.add]
        expected_s, expected_from = self._expect(moving) if moving else (0.0, "nothing moves")
        return Plan(
            what=request.what,
            mode=request.mode,
            moves=moves,
            links=planned,
            dark=dark,
            touches=self._touches(moves, planned, dark, now, then),
            expected_s=expected_s,
            expected_from=expected_from,
            warnings=(
                *self._warnings(observed, wanted.crossconnects),
                *_held_dark(wanted.crossconnects, blocked or {}),
            ),
            lease=request.lease,
            crash_rule=request.crash_rule,
            ready_within_s=request.ready_within_s,
            confirm_within_s=request.confirm_within_s,
        )

    def ports_lit_by(self, crossconnects: Iterable[SwitchCrossconnect], observed: Observed) -> frozenset[str]:
        """NIC ports whose light these crossconnects may carry."""
        state = {name: tuple(reading.crossconnect for reading in readings) for name, readings in observed.items()}
        return frozenset(map(str, self._fabric.ports_reached(crossconnects, state)))

    def _moves(self, name: str, wanted: frozenset[Crossconnect], observed: Observed, request: Request) -> SwitchMoves:
        if name not in observed:
            raise LinkError(f"{name}: cannot plan, the switch could not be read. See `hwd status`")
        before = tuple(reading.crossconnect for reading in observed[name])
        good = {reading.crossconnect for reading in observed[name] if reading.state is not CrossconnectState.FAILED}
        keep, add = wanted & good, wanted - good
        emptied = name in request.emptied
        freed = {one.end for one in request.freed if one.switch == name}
        ends = freed.union(end for crossconnect in add for end in crossconnect.ends)
        colliding = [
            crossconnect
            for crossconnect in before
            if crossconnect not in keep and (emptied or ends.intersection(crossconnect.ends))
        ]
        if request.mode is ApplyMode.SAFE and (
            others := [crossconnect for crossconnect in colliding if crossconnect not in add]
        ):
            first = others[0]
            if emptied:
                raise RefusedError(f"{name}: cannot be emptied: it carries {first}. Remove it with --mode update")
            if free := sorted(map(str, freed.intersection(first.ends))):
                raise RefusedError(f"{name}: cannot free {free[0]}: it carries {first}. Remove it with --mode update")
            wants = next(
                crossconnect
                for crossconnect in sorted(add, key=Crossconnect.sort_key)
                if set(crossconnect.ends) & set(first.ends)
            )
            end = next(end for end in wants.ends if end in first.ends)
            raise RefusedError(
                f"{name}: cannot connect {wants}: {end} already carries {first}. Replace it with --mode update, or choose another port"
            )
        remove = (
            [crossconnect for crossconnect in before if crossconnect not in keep]
            if request.mode is ApplyMode.OVERWRITE
            else colliding
        )
        return SwitchMoves(
            switch=name,
            remove=tuple(remove),
            add=tuple(sorted(add, key=Crossconnect.sort_key)),
            keep=tuple(sorted(keep, key=Crossconnect.sort_key)),
            before=before,
        )

    def _touches(
        self,
        moves: tuple[SwitchMoves, ...],
        planned: tuple[PlannedLink, ...],
        dark: tuple[Link, ...],
        now: State,
        then: State,
    ) -> frozenset[str]:
        """Moved switch ports, NIC ports of links that are wanted or go dark, and NIC ports whose light a moved crossconnect carries, or will carry.

        The last do not follow from the links: light of one way only makes no link, nor does light through a switch that was not read.
        """
        removed = _moved(moves, lambda move: move.remove)
        added = _moved(moves, lambda move: move.add)
        links = [*(one.routed.link for one in planned if not one.kept), *dark]
        ports = {end for link in links for end in link.ends}
        ports |= self._fabric.ports_reached(removed, now) | self._fabric.ports_reached(added, then)
        return crossconnect_ports([*removed, *added]) | {str(port) for port in ports}

    def _state(
        self, moves: tuple[SwitchMoves, ...], observed: Observed, *, after: bool
    ) -> dict[str, frozenset[Crossconnect]]:
        state = {name: frozenset(reading.crossconnect for reading in readings) for name, readings in observed.items()}
        if after:
            state |= {move.switch: move.after for move in moves}
        return state

    def _warnings(self, observed: Observed, wanted: Mapping[str, frozenset[Crossconnect]]) -> tuple[str, ...]:
        return tuple(
            f"{name}:{reading.crossconnect} is reported as failed; it will be made anew"
            for name in sorted(wanted)
            for reading in observed[name]
            if reading.state is CrossconnectState.FAILED and reading.crossconnect in wanted[name]
        )


def _held_dark(
    wanted: Mapping[str, frozenset[Crossconnect]], blocked: Mapping[str, frozenset[PortSide]]
) -> Iterable[str]:
    """Of each end that is wanted, and that an override holds dark."""
    for name in sorted(wanted):
        for one in sorted(wanted[name], key=Crossconnect.sort_key):
            for end in one.ends:
                if end in blocked.get(name, ()):
                    yield f"{name}:{one}: {end} is held dark by an override, and no light will pass. `hwd unblock {name}:{end}` lets it go"


def moved_ports(moves: Iterable[SwitchMoves]) -> frozenset[str]:
    """Switch ports that some moves are about."""
    return crossconnect_ports(
        SwitchCrossconnect(switch=move.switch, crossconnect=one) for move in moves for one in (*move.remove, *move.add)
    )


def touched_ports(plan: Plan) -> frozenset[str]:
    """Ports that a lease must cover, or nobody else's may."""
    return plan.touches


def _moved(
    moves: Iterable[SwitchMoves], which: Callable[[SwitchMoves], Iterable[Crossconnect]]
) -> list[SwitchCrossconnect]:
    return [SwitchCrossconnect(switch=move.switch, crossconnect=one) for move in moves for one in which(move)]


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
