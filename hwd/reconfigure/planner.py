"""The planner: from what is wanted and what the switches report to a plan. No I/O: the same input gives the same plan."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from hwd.fabric.fabric import Fabric, LinkWays
from hwd.fabric.state import State, crossconnect_ports
from hwd.model.link import Link, SwitchCrossconnect, SwitchEnd
from hwd.model.plan import ApplyMode, CrashRule, Plan, PlannedLink, SwitchMoves
from hwd.model.state import Observed
from hwd.model.testbed import Testbed
from hwd.reconfigure.composites import Demanded, Led, lead, settled
from hwd.reconfigure.given import Given, check_given, closed_ends, readings_of, standing
from hwd.reconfigure.switch_moves import Asked, moves_of, untold
from hwd_drivers.core.errors import ConfigError, LinkError, RefusedError
from hwd_drivers.core.values import Crossconnect, CrossconnectState, PortSide, natural_key


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
    """A request with the ways of its links found: what must be on each switch, whatever is there now.

    `composites`: what is asked of each; how their elements make it depends on what is there. `inner`: switches of elements that may have to move for it.
    `composite_ports`: the elements' ports that are its ends.
    """

    request: Request
    links: tuple[LinkWays, ...]
    crossconnects: Mapping[str, frozenset[Crossconnect]]
    composites: Mapping[str, frozenset[Crossconnect]] = field(default_factory=dict)
    inner: frozenset[str] = frozenset()
    composite_ports: frozenset[str] = frozenset()
    given: Given = field(default_factory=dict)
    """What the switches of hosts carry; what of it the links need is there."""

    @property
    def switches(self) -> tuple[str, ...]:
        """Names of the switches that must be read before planning."""
        return tuple(sorted(self.inner.union(self.crossconnects)))

    @property
    def ports(self) -> frozenset[str]:
        """What it needs whatever is there now: `ocs1.3`, `h0.eth0`."""
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


Expectation = Callable[[Iterable[str], bool], tuple[float, str]]
"""From the names of the switches that move, and whether links come up by it or are waited for, to (seconds from command to the end of that, where that figure
comes from)."""


class Planner:
    """Plans for one testbed. `given`: what the switches that hosts drive carry now; it is relied on, and never moved."""

    def __init__(
        self, testbed: Testbed, fabric: Fabric, expect: Expectation, given: Callable[[], Given] = dict
    ) -> None:
        self._given = given
        self._testbed = testbed
        self._fabric = fabric
        self._expect = expect
        self._ends = {name: frozenset(testbed.ends_of(name)) for name in testbed.askable}

    @property
    def has_composites(self) -> bool:
        """Whether ways may have to be searched through elements, which takes seconds for a large composite."""
        return bool(self._fabric.composites)

    def route(self, request: Request) -> Routed:
        """Raises ConfigError (no path, no such switch or port, nothing asked for), RefusedError (a host's own switch would have to move, demands that conflict)."""
        asked: dict[str, set[Crossconnect]] = {
            name: set() for name in [*request.emptied, *(one.switch for one in request.freed)]
        }
        for crossconnect in request.crossconnects:
            asked.setdefault(crossconnect.switch, set()).add(crossconnect.crossconnect)
        beside = {name: found for name, found in asked.items() if name in self._fabric.composites}
        for name, found in beside.items():
            self._fabric.composites[name].check(sorted(found, key=Crossconnect.sort_key))
        given, switches = self._given(), self._testbed.switches
        ways = self._ways(request, beside, given)
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
        check_given(self._testbed, {name: wanted.pop(name) for name in of_hosts}, given, emptied=emptied)
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
            given=given,
        )
        for name in routed.switches:  # elements of composites
            if (owner := self._testbed.switches[name].owner) is not None:
                raise RefusedError(f"{name}: it belongs to host {owner}, which alone drives it")
        return routed

    def _ways(
        self, request: Request, beside: Mapping[str, Iterable[Crossconnect]], given: Given
    ) -> tuple[LinkWays, ...]:
        """By what the switches of hosts carry where that does; else what they would have to carry."""
        closed = closed_ends(self._testbed, given)
        try:
            return self._fabric.ways(request.links, beside, closed=closed)
        except ConfigError:
            if not closed:
                raise
            return self._fabric.ways(request.links, beside)

    def plan(
        self, wanted: Routed, observed: Observed, blocked: Mapping[str, frozenset[PortSide]] | None = None
    ) -> Plan:
        """`blocked`: ends that overrides hold dark, by switch.

        Raises ConfigError (the switches light no whole link of it), RefusedError (in use under `safe`, demands that conflict), LinkError (a switch was
        not read).
        """
        request = wanted.request
        observed = {**observed, **readings_of(wanted.given)}
        for name in wanted.switches:
            if name not in observed:
                raise LinkError(f"{name}: cannot plan, the switch could not be read. See `hwd status`")
        demanded = self._demanded(wanted, observed)
        led = {name: lead(self._fabric.composites[name], one, observed) for name, one in demanded.items()}
        links = self._fabric.routed(wanted.links, {name: one.compiled for name, one in led.items()})
        asked = {
            name: wanted.crossconnects.get(name, frozenset()) | _of(name, (one.wanted for one in led.values()))
            for name in wanted.switches
        }
        moves = tuple(self._moves(name, asked[name], wanted, led.values(), observed) for name in wanted.switches)
        kept = frozenset(
            SwitchCrossconnect(switch=move.switch, crossconnect=crossconnect)
            for move in moves
            for crossconnect in move.keep
        ) | standing(wanted.given)
        now, then = self._state(moves, observed, after=False), self._state(moves, observed, after=True)
        led = {
            name: settled(self._fabric.composites[name], one, observed, then, demanded[name])
            for name, one in led.items()
        }
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
        links_come = request.ready_within_s is not None or not all(one.kept for one in planned)
        expected_s, expected_from = self._expect(moving, links_come) if moving else (0.0, "nothing moves")
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
                *self._warnings(observed, asked),
                *_held_dark(asked, moves, blocked or {}),
                *(text for one in led.values() for text in one.warnings),
                *self._beside(moves, asked, then),
            ),
            lease=request.lease,
            crash_rule=request.crash_rule,
            ready_within_s=request.ready_within_s,
            confirm_within_s=request.confirm_within_s,
            composites=tuple(one.moves for one in led.values()),
        )

    def ports_lit_by(self, crossconnects: Iterable[SwitchCrossconnect], observed: Observed) -> frozenset[str]:
        """NIC ports whose light these crossconnects may carry."""
        state = {name: tuple(reading.crossconnect for reading in readings) for name, readings in observed.items()}
        return frozenset(map(str, self._fabric.ports_reached(crossconnects, state)))

    def _demanded(self, wanted: Routed, observed: Observed) -> dict[str, Demanded]:
        """What is asked of composites."""
        request = wanted.request
        needed = tuple(
            SwitchCrossconnect(switch=name, crossconnect=one)
            for name in sorted(wanted.crossconnects)
            for one in sorted(wanted.crossconnects[name], key=Crossconnect.sort_key)
        )
        return {
            name: Demanded(
                demands=demands,
                mode=request.mode,
                used=lambda one: self._fabric.carries(one, observed),
                emptied=name in request.emptied,
                freed=frozenset(one.end for one in request.freed if one.switch == name),
                needed=needed,
            )
            for name, demands in wanted.composites.items()
        }

    def _moves(
        self, name: str, asked: frozenset[Crossconnect], wanted: Routed, led: Iterable[Led], observed: Observed
    ) -> SwitchMoves:
        request, composites = wanted.request, list(led)
        by_name = wanted.crossconnects.get(name)
        return moves_of(
            Asked(
                switch=name,
                wanted=asked,
                by_name=by_name or frozenset(),
                mode=request.mode,
                carries=lambda one: self._fabric.carries(SwitchCrossconnect(switch=name, crossconnect=one), observed),
                emptied=name in request.emptied,
                whole=by_name is not None and request.mode is ApplyMode.OVERWRITE,
                freed=frozenset(one.end for one in request.freed if one.switch == name),
                gone=_of(name, (one.gone for one in composites)),
                staying=_of(name, (one.staying for one in composites)),
            ),
            self._testbed.switches[name].capabilities,
            observed[name],
        )

    def _inner(self, name: str, demands: frozenset[Crossconnect], request: Request) -> tuple[str, ...]:
        """Switches of the elements of a composite that may have to do with what is asked of it."""
        composite = self._fabric.composites.get(name)
        if composite is None:
            return ()
        if name in request.emptied or request.mode is ApplyMode.OVERWRITE:
            return composite.inside.switches
        freed = [one.end for one in request.freed if one.switch == name]
        return composite.switches_near([*freed, *(end for demand in demands for end in demand.ends)])

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
        removed = [*_moved(moves, lambda move: move.remove), *self._maybe_removed(moves)]
        added = _moved(moves, lambda move: move.add)
        links = [*(one.routed.link for one in planned if not one.kept), *dark]
        ports = {end for link in links for end in link.ends}
        ports |= self._fabric.ports_reached(removed, now) | self._fabric.ports_reached(added, then)
        return crossconnect_ports([*removed, *added]) | {str(port) for port in ports}

    def _maybe_removed(self, moves: Iterable[SwitchMoves]) -> Iterable[SwitchCrossconnect]:
        """What elements may have now that move and of which the switch does not say what they have."""
        for move in moves:
            for element in untold(self._testbed.switches[move.switch].capabilities, move.before):
                if element.crossconnects.intersection(move.lasting):
                    for one in sorted(element.crossconnects, key=Crossconnect.sort_key):
                        yield SwitchCrossconnect(switch=move.switch, crossconnect=one)

    def _beside(
        self, moves: Iterable[SwitchMoves], asked: Mapping[str, frozenset[Crossconnect]], then: State
    ) -> Iterable[str]:
        """What a move does that nobody asked for: light that an element joins too, and what it joined before and nobody can tell."""
        for move in moves:
            for one in move.add:
                here = SwitchCrossconnect(switch=move.switch, crossconnect=one)
                if one in asked[move.switch] or one in move.before or not self._fabric.carries(here, then):
                    continue
                ports = ", ".join(sorted(map(str, self._fabric.ports_reached([here], then)), key=natural_key))
                yield f"{here} comes with it, as its element moves as one: it joins light of {ports or 'other devices'} that was not asked for"
            if move.lasting:
                yield (
                    f"{move.switch}: what {', '.join(map(str, move.lasting))} takes away cannot be told: the switch does not say where its element is. "
                    "It is not brought back where this is rolled back"
                )

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
    wanted: Mapping[str, frozenset[Crossconnect]],
    moves: Iterable[SwitchMoves],
    blocked: Mapping[str, frozenset[PortSide]],
) -> Iterable[str]:
    """Of each end that is wanted, and that an override holds dark: what is made there is read back as dark, which is no success."""
    for move in sorted(moves, key=lambda one: one.switch):
        name = move.switch
        for one in sorted(wanted[name], key=Crossconnect.sort_key):
            comes_to = "an apply makes it, fails and goes back" if one in move.add else "it stays so"
            for end in one.ends:
                if end in blocked.get(name, ()):
                    yield f"{name}:{one}: {end} is held dark by an override, and no light will pass: {comes_to}. `hwd unblock {name}:{end}` lets it go"


def moved_ports(moves: Iterable[SwitchMoves]) -> frozenset[str]:
    """Switch ports that some moves are about."""
    return crossconnect_ports(
        SwitchCrossconnect(switch=move.switch, crossconnect=one) for move in moves for one in (*move.remove, *move.add)
    )


def relied_ports(plan: Plan) -> frozenset[str]:
    """Switch ports of what is wanted and stands already: nobody else may move it meanwhile."""
    return crossconnect_ports(
        SwitchCrossconnect(switch=move.switch, crossconnect=one) for move in plan.moves for one in move.keep
    )


def touched_ports(plan: Plan) -> frozenset[str]:
    """Ports that a lease must cover, or nobody else's may."""
    return plan.touches


def _moved(
    moves: Iterable[SwitchMoves], which: Callable[[SwitchMoves], Iterable[Crossconnect]]
) -> list[SwitchCrossconnect]:
    return [SwitchCrossconnect(switch=move.switch, crossconnect=one) for move in moves for one in which(move)]


def _of(switch: str, found: Iterable[Iterable[SwitchCrossconnect]]) -> frozenset[Crossconnect]:
    return frozenset(one.crossconnect for some in found for one in some if one.switch == switch)


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
