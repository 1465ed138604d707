"""Preparation: from requests and what the switches report to a prepared set. No I/O."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hwd.fabric.state import crossconnect_ports
from hwd.model.bodies import PrepareBody
from hwd.model.circuit import Observed, RoutedLink
from hwd.model.interlock import refusal
from hwd.model.link import SwitchCrossconnect
from hwd.model.plan import Plan
from hwd.model.plural import plural
from hwd.model.prepared_set import BEFORE, FINISH, TARGETS_MOST, PreparedLink, PreparedTarget
from hwd.model.request import Request
from hwd.model.testbed import Testbed
from hwd.reconfigure.plans.planner import Planner, relied_ports
from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.values import Crossconnect, CrossconnectState, PortSide, natural_key
from hwd_drivers.switching.moves import ApplyMode

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
CROSSCONNECTS_MOST: Final = 100_000
"""Crossconnects of all targets of a set together: some 1 MB of the journal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """The result of the plans of all targets, made from one reading. `routed`: the links of each, with paths."""

    targets: tuple[PreparedTarget, ...]
    ends: Mapping[str, list[PortSide]]
    ports: frozenset[str]
    routed: Mapping[str, tuple[RoutedLink, ...]]


def check_targets(requests: Mapping[str, Request], body: PrepareBody) -> None:
    """Raises ConfigError, all findings at once, where these can be no targets of one set."""
    problems = []
    if not 1 <= len(requests) <= TARGETS_MOST:
        problems.append(f"{plural(len(requests), 'target')}: a set has 1 to {TARGETS_MOST}")
    for name, request in requests.items():
        if name in (BEFORE, FINISH):
            problems.append(f"target {name}: the word has a meaning of its own; choose another name")
        elif not NAME.fullmatch(name):
            problems.append(f"target {name!r}: a name has up to 64 letters, digits, dots, dashes and underscores")
        if request.wanted.is_empty:
            problems.append(f"target {name}: asks for nothing")
        if request.wanted.emptied:
            problems.append(
                f"target {name}: empties {', '.join(request.wanted.emptied)}; name the ends to free instead"
            )
    if body.mode is ApplyMode.OVERWRITE:
        problems.append("mode overwrite: a set holds the ports that it names, not whole switches; use update or safe")
    if body.after_crash not in (FINISH, BEFORE, *requests):
        known = ", ".join((FINISH, BEFORE, *requests))
        problems.append(f"after a crash {body.after_crash!r}: no such rule; there are {known}")
    if problems:
        raise ConfigError(f"prepare: {'; '.join(problems)}")


def prepared_from(plans: Mapping[str, Plan], observed: Observed, planner: Planner) -> Preparation:
    """Raises RefusedError where an interlock refuses a target, and where a state could not be come back to."""
    for name, plan in plans.items():
        if why := refusal(plan.interlocks):
            raise RefusedError(f"target {name}: {why}")
    testbed = planner.testbed
    ends = _ends(plans, testbed)
    before = {
        switch: frozenset(one.crossconnect for one in observed[switch] if not found.isdisjoint(one.crossconnect.ends))
        for switch, found in ends.items()
    }
    _check_known(plans, ends, observed)
    states = {BEFORE: before}
    for name, plan in plans.items():
        after = {move.switch: move.after for move in plan.moves}
        states[name] = {
            switch: frozenset(one for one in after.get(switch, before[switch]) if not found.isdisjoint(one.ends))
            for switch, found in ends.items()
        }
    if sum(len(one) for state in states.values() for one in state.values()) > CROSSCONNECTS_MOST:
        raise RefusedError(
            f"prepare: its targets have more than {CROSSCONNECTS_MOST} crossconnects together. Prepare fewer of them"
        )
    now = {name: frozenset(one.crossconnect for one in readings) for name, readings in observed.items()}
    of_set = {
        SwitchCrossconnect(switch=switch, crossconnect=one)
        for state in states.values()
        for switch, found in state.items()
        for one in found
    }
    targets, routed = [], {BEFORE: tuple[RoutedLink, ...]()}
    for name, state in states.items():
        whole = {**now, **{switch: (now[switch] - before[switch]) | found for switch, found in state.items()}}
        lit = [one for one in planner.routed_of(whole) if not one.crossconnects.isdisjoint(of_set)]
        planned = None if name == BEFORE else plans[name]
        routed[name] = tuple(lit) if planned is None else tuple(one.routed for one in planned.links)
        targets.append(
            PreparedTarget(
                name=name,
                what="what the switches carried at the preparation" if planned is None else planned.what,
                state={switch: sorted(found, key=Crossconnect.sort_key) for switch, found in sorted(state.items())},
                free={} if planned is None else _free(planned),
                links=[
                    PreparedLink(link=one.link, crossconnects=sorted(one.crossconnects, key=natural_key))
                    for one in routed[name]
                ],
                lit=sorted((one.link for one in lit), key=natural_key),
            )
        )
    ports = frozenset[str]().union(*(plan.touches | relied_ports(plan) for plan in plans.values()))
    return Preparation(
        targets=tuple(targets),
        ends={switch: sorted(found, key=natural_key) for switch, found in sorted(ends.items())},
        ports=ports | crossconnect_ports(of_set) | {testbed.port_of(name, one) for name in ends for one in ends[name]},
        routed=routed,
    )


def _ends(plans: Mapping[str, Plan], testbed: Testbed) -> dict[str, frozenset[PortSide]]:
    """The fibre ends that some target changes, wants or frees, by switch."""
    found: dict[str, set[PortSide]] = {}
    for plan in plans.values():
        for move in plan.moves:
            for one in (*move.remove, *move.add, *move.keep):
                found.setdefault(move.switch, set()).update(one.ends)
        for end in plan.freed:
            if end.switch in testbed.switches:
                found.setdefault(end.switch, set()).add(end.end)
    return {switch: frozenset(ends) for switch, ends in found.items()}


def _check_known(plans: Mapping[str, Plan], ends: Mapping[str, frozenset[PortSide]], observed: Observed) -> None:
    """Raises RefusedError where the state at the preparation is not one that a switch can be brought back to."""
    for switch, found in ends.items():
        for one in observed[switch]:
            if one.state is CrossconnectState.FAILED and not found.isdisjoint(one.crossconnect.ends):
                raise RefusedError(
                    f"{switch}:{one.crossconnect}: is reported as failed, and no set can come back to that. "
                    f"Remove it first: hwd apply {switch}:{one.crossconnect.a}-none"
                )
    for name, plan in plans.items():
        for move in plan.moves:
            if move.lasting:
                raise RefusedError(
                    f"target {name}: {move.switch} does not say where the elements of "
                    f"{', '.join(move.lasting)} are, and no set can come back to that. Apply it once before"
                )
        if owned := sorted(
            {one.switch for link in plan.links for one in link.routed.crossconnects}
            - {one.switch for one in plan.moves}
        ):
            raise RefusedError(
                f"target {name}: its light passes {', '.join(owned)}, which a host sets and no set can hold. "
                "Name crossconnects of the daemon's own switches"
            )


def _free(plan: Plan) -> dict[str, list[PortSide]]:
    found: dict[str, list[PortSide]] = {}
    for one in plan.freed:
        found.setdefault(one.switch, []).append(one.end)
    return found
