"""The planner: makes a plan from a route and what the switches report. No I/O: the same input gives the same plan."""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from hwd.fabric.fabric import Fabric
from hwd.fabric.last_seen import LastSeen
from hwd.fabric.state import State, crossconnect_ports
from hwd.interlocks import NO_MOTION, Interlocks, Motion, Proposal
from hwd.model.circuit import Observed, RoutedLink
from hwd.model.link import Link, SwitchCrossconnect, SwitchEnd, switch_crossconnect
from hwd.model.plan import Plan, PlannedLink
from hwd.model.plan_summary import PlanOrder
from hwd.model.plural import plural
from hwd.model.request import Request
from hwd.ports.isolation import Circuits
from hwd.reconfigure.plans.composites import CompositeDemand, CompositeWay, lead, settle
from hwd.reconfigure.plans.device_times import DeviceTimes
from hwd.reconfigure.plans.route import HostReadings, RoutedRequest, Router, host_crossconnects
from hwd.reconfigure.plans.steps import Transition, steps_of
from hwd.reconfigure.plans.warnings import failed_crossconnects, held_dark, needless_overrides, side_effects
from hwd_drivers.core.errors import LinkError
from hwd_drivers.core.offload import InlineOffload, Offload
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, PortSide, natural_key
from hwd_drivers.switching.demand import SwitchDemand, moves_of, unreported
from hwd_drivers.switching.moves import ApplyMode, SwitchMoves

Expectation = Callable[[Iterable[str], bool], tuple[float, str]]
"""From the switches that move, and whether links come up, to the expected seconds and the source of that figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWithInputs:
    """A plan with all that it was made from. It is applied without a second planning while that is still so.

    `observed`, `blocked`: what the switches reported, and ends that overrides held dark. `motion`: how often they had
    moved.
    """

    routed: RoutedRequest
    observed: Observed
    blocked: Mapping[str, frozenset[PortSide]]
    motion: Motion
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inside:
    """The needs of all composites together on their elements, by switch: see `CompositeWay`."""

    wanted: dict[str, set[Crossconnect]]
    staying: dict[str, set[Crossconnect]]
    gone: dict[str, set[Crossconnect]]


class Planner:
    """Plans for one testbed. `host_readings()`: what the switches that hosts drive carry now; no plan moves these.
    `device_times`: for predictions; by default nothing was observed yet.

    `offload`: a search takes seconds, and is done in a thread so that the event loop stays free; by default it is not.
    With neither a composite nor steps there is no search, and a thread would take longer than the planner.
    """

    def __init__(
        self,
        fabric: Fabric,
        expect: Expectation,
        host_readings: Callable[[], HostReadings] = dict,
        device_times: DeviceTimes | None = None,
        *,
        offload: Offload | None = None,
    ) -> None:
        self.expect = expect
        self._host_readings = host_readings
        self._device_times = device_times or DeviceTimes()
        self._offload = offload or InlineOffload()
        self.use_testbed(fabric)

    def use_testbed(self, fabric: Fabric) -> None:
        """Go on with the testbed of this fabric."""
        self.testbed = fabric.testbed
        self.router = Router(fabric, self._host_readings)
        self._take(fabric)

    def _take(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self.interlocks = Interlocks(fabric)
        self._read = LastSeen[Sequence[CrossconnectReading]]()
        self._now: dict[str, frozenset[Crossconnect]] = {}

    async def route(self, request: Request) -> RoutedRequest:
        """See `Router.route`."""
        while (router := self.router).has_composites:
            routed = await self._offload(router.route, request)
            if router is self.router:  # else the testbed was reloaded meanwhile
                return routed
        return router.route(request)

    async def plan(
        self,
        routed: RoutedRequest,
        observed: Observed,
        blocked: Mapping[str, frozenset[PortSide]],
        motion: Motion = NO_MOTION,
    ) -> Plan:
        """See `plan_at_once`. A thread has a planner of its own, as the loop may use this one at the same time."""
        if not (routed.composites or routed.request.body.steps):
            return self.plan_at_once(routed, observed, blocked, motion)
        other = copy.copy(self)
        other._take(self._fabric.for_thread())
        return await self._offload(other.plan_at_once, routed, observed, blocked, motion)

    def plan_at_once(
        self,
        wanted: RoutedRequest,
        observed: Observed,
        blocked: Mapping[str, frozenset[PortSide]] | None = None,
        motion: Motion = NO_MOTION,
    ) -> Plan:
        """Plan from what the switches report. `blocked`: ends that overrides hold dark, by switch. `motion`: how often
        the switches have moved.

        An interlock that refuses is in the plan, and who applies it raises. Raises ConfigError (the switches light no
        complete link), RefusedError (a port is in use under `safe`, demands conflict, or an override is not allowed),
        LinkError (a switch was not read).
        """
        request = wanted.request
        observed = {**observed, **wanted.host_readings}
        for name in wanted.switches:
            if name not in observed:
                raise LinkError(f"{name}: cannot plan, the switch could not be read. See `hwd status`")
        demands = self._demands(wanted, observed)
        led = {name: lead(self._fabric.composites[name], one, observed) for name, one in demands.items()}
        links = self._fabric.routed(wanted.links, {name: one.compiled for name, one in led.items()})
        inside = _inside(led.values())
        asked = {
            name: wanted.crossconnects.get(name, frozenset()).union(inside.wanted.get(name, ()))
            for name in wanted.switches
        }
        moves = tuple(self._moves(name, asked[name], wanted, inside, observed) for name in wanted.switches)
        kept = frozenset(
            switch_crossconnect(move.switch, crossconnect) for move in moves for crossconnect in move.keep
        ) | host_crossconnects(wanted.host_readings)
        now = self._carried(observed)
        after = {move.switch: move.after for move in moves}
        then = {**now, **after}
        led = {
            name: settle(self._fabric.composites[name], one, observed, then, demands[name]) for name, one in led.items()
        }
        dark = tuple(sorted(self._fabric.lost(now, after), key=natural_key))
        if not links:
            made = self._fabric.routed_through(request.wanted.crossconnects, then)
            links = tuple(sorted(made, key=natural_key))
        planned = tuple(PlannedLink(routed=link, kept=link.crossconnects <= kept) for link in links)
        moving = [move.switch for move in moves if not move.is_empty]
        proposal = Proposal.of(
            links=links,
            moves=moves,
            composites={name: (*one.moves.keep, *one.moves.add) for name, one in led.items()},
            after=then,
            motion=motion,
        )
        if request.is_way_back:
            interlocks = self.interlocks.found_back(proposal)
        else:
            interlocks = self.interlocks.found(proposal, request.body.overrides)
        waits = request.body.ready_within_s is not None  # for kept links too
        order, step_moves = None, tuple[tuple[SwitchMoves, ...], ...]()
        if request.body.steps and moving:
            order, step_moves = self._order(moves, observed, then)
        expected_s, expected_from = self._expected(moving, planned, order, waits=waits)
        prediction = self._device_times.predict(moves, planned, waits=waits, steps=order) if moving else None
        return Plan(
            what=request.wanted.name,
            mode=request.body.mode,
            moves=moves,
            links=planned,
            dark=dark,
            touches=self._touches(moves, planned, dark, now, then),
            expected_s=expected_s,
            expected_from=expected_from,
            warnings=(
                *request.warnings,
                *failed_crossconnects(observed, asked),
                *held_dark(asked, moves, blocked or {}),
                *(text for one in led.values() for text in one.warnings),
                *side_effects(moves, asked, then, self._fabric),
                *needless_overrides(request, interlocks),
            ),
            lease=request.body.lease,
            ready_within_s=request.body.ready_within_s,
            confirm_within_s=request.body.confirm_within_s,
            composites=tuple(one.moves for one in led.values()),
            interlocks=interlocks,
            freed=self._freed(request, wanted.crossconnects),
            is_restore=request.body.restore is not None,
            away=request.away,
            order=order,
            step_moves=step_moves,
            prediction=prediction,
        )

    def _expected(
        self, moving: Sequence[str], links: Sequence[PlannedLink], order: PlanOrder | None, *, waits: bool
    ) -> tuple[float, str]:
        """Seconds from the first command until all is ready: of several steps the sum, as each begins when the one
        before it is ready or, where its links are not waited for, has settled.
        """
        if not moving:
            return 0.0, "nothing moves"
        links_come = any(waits or not one.kept for one in links)
        steps = [] if order is None else order.steps
        if len(steps) < 2:
            return self.expect(moving, links_come)
        found = [self.expect([move.switch for move in step.moves], waits and bool(step.made)) for step in steps]
        if not waits:  # the links of all steps come up after the last one
            found[-1] = self.expect([move.switch for move in steps[-1].moves], links_come)
        sources = "; ".join(dict.fromkeys(source for _, source in found))
        return sum(seconds for seconds, _ in found), f"sum of {plural(len(steps), 'step')}; {sources}"

    def _order(
        self, moves: tuple[SwitchMoves, ...], observed: Observed, then: State
    ) -> tuple[PlanOrder, tuple[tuple[SwitchMoves, ...], ...]]:
        return steps_of(
            Transition(
                moves=moves,
                before=self._fabric.routed_of(observed),
                after=self._fabric.routed_of(then),
                elements={move.switch: self.testbed.switches[move.switch].capabilities.elements for move in moves},
            )
        )

    def circuits(self, observed: Observed) -> Circuits:
        """Light from NIC port to NIC port now, one way, with the crossconnects that it passes."""
        return self._fabric.circuits({**observed, **self._host_readings()})

    def routed_of(self, state: State) -> tuple[RoutedLink, ...]:
        """The links that these crossconnects make, with what the switches of hosts carry now."""
        hosts = {name: frozenset(one.crossconnect for one in found) for name, found in self._host_readings().items()}
        return self._fabric.routed_of({**state, **hosts})

    def ports_lit_by(self, crossconnects: Iterable[SwitchCrossconnect], state: State) -> frozenset[str]:
        """NIC ports whose light may pass these crossconnects while all else is as in `state`."""
        return frozenset(self._fabric.ports_reached(crossconnects, state))

    def _carried(self, observed: Observed) -> Mapping[str, frozenset[Crossconnect]]:
        """What the switches carry, whatever its state: the same object of each that was not read since."""
        differing, gone = self._read.differing(observed)
        if differing or gone:
            changed = {name: frozenset(one.crossconnect for one in observed[name]) for name in differing}
            self._now = {**self._now, **changed}
            for name in gone:
                del self._now[name]
        return self._now

    def _demands(self, wanted: RoutedRequest, observed: Observed) -> dict[str, CompositeDemand]:
        if not wanted.composites:
            return {}
        request = wanted.request
        needed = tuple(
            switch_crossconnect(name, one)
            for name in sorted(wanted.crossconnects)
            for one in sorted(wanted.crossconnects[name], key=Crossconnect.sort_key)
        )
        return {
            name: CompositeDemand(
                demands=demands,
                mode=request.body.mode,
                used=lambda one: self._fabric.carries(one, observed),
                emptied=name in request.wanted.emptied,
                freed=frozenset(one.end for one in request.wanted.freed if one.switch == name),
                needed=needed,
            )
            for name, demands in wanted.composites.items()
        }

    def _moves(
        self, name: str, asked: frozenset[Crossconnect], wanted: RoutedRequest, inside: _Inside, observed: Observed
    ) -> SwitchMoves:
        request = wanted.request
        by_name = wanted.crossconnects.get(name)
        return moves_of(
            SwitchDemand(
                switch=name,
                wanted=asked,
                by_name=by_name or frozenset(),
                mode=request.body.mode,
                carries=lambda one: self._fabric.carries(switch_crossconnect(name, one), observed),
                emptied=name in request.wanted.emptied,
                whole=by_name is not None and request.body.mode is ApplyMode.OVERWRITE,
                freed=frozenset(one.end for one in request.wanted.freed if one.switch == name),
                gone=frozenset(inside.gone.get(name, ())),
                staying=frozenset(inside.staying.get(name, ())),
                or_else="hold an end dark with `hwd block` where the switch can",
            ),
            self.testbed.switches[name].capabilities,
            observed[name],
        )

    def _freed(self, request: Request, switches: Iterable[str]) -> tuple[SwitchEnd, ...]:
        """Ends that the request wants to have no crossconnect, but for those that it wants one of."""
        wanted = request.wanted
        whole = {*wanted.emptied, *(switches if request.body.mode is ApplyMode.OVERWRITE else ())}
        return (
            *(one for one in wanted.freed if one.switch in self.testbed.switches),
            *(
                SwitchEnd(switch=name, end=end)
                for name in (self.testbed.switches if whole else ())
                if name in whole
                for end in self.testbed.switches[name].capabilities.ends
            ),
        )

    def _touches(
        self,
        moves: tuple[SwitchMoves, ...],
        planned: tuple[PlannedLink, ...],
        dark: tuple[Link, ...],
        now: State,
        then: State,
    ) -> frozenset[str]:
        """Switch ports that move, NIC ports of links that come or go, and NIC ports lit by a crossconnect that moves.

        The last do not follow from the links: one-way light makes no link, nor does light through a switch without a
        reading.
        """
        removed = [switch_crossconnect(move.switch, one) for move in moves for one in move.remove]
        removed += self._maybe_removed(moves)
        added = [switch_crossconnect(move.switch, one) for move in moves for one in move.add]
        links = [*(one.routed.link for one in planned if not one.kept), *dark]
        ports = {end for link in links for end in link.ends}
        ports |= self._fabric.ports_reached(removed, now) | self._fabric.ports_reached(added, then)
        return crossconnect_ports([*removed, *added]) | set(ports)

    def _maybe_removed(self, moves: Iterable[SwitchMoves]) -> Iterable[SwitchCrossconnect]:
        """Crossconnects that elements may carry which move and whose state the switch does not report."""
        for move in moves:
            for element in unreported(self.testbed.switches[move.switch].capabilities, move.before):
                if element.crossconnects.intersection(move.lasting):
                    for one in sorted(element.crossconnects, key=Crossconnect.sort_key):
                        yield switch_crossconnect(move.switch, one)


def changed_crossconnects(moves: Iterable[SwitchMoves]) -> list[SwitchCrossconnect]:
    """The crossconnects that come or go."""
    return [switch_crossconnect(move.switch, one) for move in moves for one in (*move.remove, *move.add)]


def moved_ports(moves: Iterable[SwitchMoves]) -> frozenset[str]:
    """Switch ports whose crossconnects change."""
    return crossconnect_ports(changed_crossconnects(moves))


def relied_ports(plan: Plan) -> frozenset[str]:
    """Switch ports of wanted crossconnects that are there already: nobody else may move them meanwhile."""
    return crossconnect_ports(switch_crossconnect(move.switch, one) for move in plan.moves for one in move.keep)


def _inside(ways: Iterable[CompositeWay]) -> _Inside:
    inside = _Inside(wanted={}, staying={}, gone={})
    for way in ways:
        parts = (inside.wanted, way.wanted), (inside.staying, way.staying), (inside.gone, way.gone)
        for found, crossconnects in parts:
            for one in crossconnects:
                found.setdefault(one.switch, set()).add(one.crossconnect)
    return inside
