"""SwitchDemand, moves_of: from the demand on one switch and its report to the crossconnects to remove, add and keep."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.values import (
    Capabilities,
    Crossconnect,
    CrossconnectReading,
    CrossconnectState,
    Element,
    PortSide,
)
from hwd_drivers.switching.moves import ApplyMode, SwitchMoves


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchDemand:
    """The demand on one switch.

    `by_name`: the part of `wanted` that the request names; composites need the rest, and check themselves what is
    in use. `emptied`: only `wanted` may stay. `freed`: ends that must be free. `gone`: crossconnects to
    remove. `staying`: crossconnects that others rely on; no element may leave them. `whole`: remove everything else,
    if possible. `carries`: whether light passes a crossconnect from a transmitter to a receiver, asked under `safe`.
    `or_else`: what else to do where an element cannot be dark, for the refusal.
    """

    switch: str
    wanted: frozenset[Crossconnect]
    by_name: frozenset[Crossconnect] = frozenset()
    mode: ApplyMode = ApplyMode.UPDATE
    carries: Callable[[Crossconnect], bool] = bool
    emptied: bool = False
    whole: bool = False
    freed: frozenset[PortSide] = frozenset()
    gone: frozenset[Crossconnect] = frozenset()
    staying: frozenset[Crossconnect] = frozenset()
    or_else: str = ""


def moves_of(demand: SwitchDemand, capabilities: Capabilities, readings: Sequence[CrossconnectReading]) -> SwitchMoves:
    """Raises RefusedError: in use under `safe`, a state that no element has, an element that cannot be dark."""
    before = tuple(reading.crossconnect for reading in readings)
    good = frozenset(reading.crossconnect for reading in readings if reading.state is not CrossconnectState.FAILED)
    if capabilities.elements:
        there = frozenset(before)
        after = _after_elements(demand, capabilities.elements, there)
        again = _again(demand.wanted, capabilities.elements, there, good)
        remove = [one for one in before if one not in after or one in again]
        add = (after - there) | again
    else:
        add = demand.wanted - good
        remove = _colliding(demand, before, add, demand.wanted & good)
    if demand.mode is ApplyMode.SAFE:
        named = demand.freed.union(end for one in demand.by_name for end in one.ends)
        used = [one for one in remove if one not in add and _is_judged(demand, one, capabilities.elements, named)]
        _refuse_used(demand, used, add)
    if demand.whole and not capabilities.elements:
        remove = [one for one in before if one not in demand.wanted or one not in good]
    keep = demand.wanted & good
    if demand.mode is ApplyMode.OVERWRITE:  # all that stays is wanted
        keep |= frozenset(before) - frozenset(remove)
    return SwitchMoves(
        switch=demand.switch,
        remove=tuple(remove),
        add=tuple(sorted(add, key=Crossconnect.sort_key)),
        keep=tuple(sorted(keep, key=Crossconnect.sort_key)),
        before=before,
        failed=tuple(one for one in before if one not in good),
        lasting=_lasting(capabilities, before, add.union(remove)) if capabilities.elements else (),
    )


def unreported(capabilities: Capabilities, before: Iterable[Crossconnect]) -> tuple[Element, ...]:
    """Elements that cannot be dark and whose state the switch does not report."""
    there = frozenset(before)
    return tuple(
        element for element in capabilities.elements if there & element.crossconnects not in element.state_sets
    )


def _lasting(
    capabilities: Capabilities, before: Iterable[Crossconnect], changed: frozenset[Crossconnect]
) -> tuple[Crossconnect, ...]:
    possible = frozenset(one for element in unreported(capabilities, before) for one in element.crossconnects)
    return tuple(sorted(changed & possible, key=Crossconnect.sort_key))


def _is_judged(
    demand: SwitchDemand, one: Crossconnect, elements: Sequence[Element], named_ends: frozenset[PortSide]
) -> bool:
    """Whether `safe` protects a crossconnect: one of its ends was named, or its element, which can be dark or lit."""
    element = next((element for element in elements if one in element.crossconnects), None)
    if element is None:
        return demand.emptied or not named_ends.isdisjoint(one.ends)
    ends = {end for other in element.crossconnects for end in other.ends}
    named = demand.emptied or demand.by_name & element.crossconnects or demand.freed & ends
    return bool(named) and (() in element.states or demand.carries(one))


def _colliding(
    demand: SwitchDemand, before: Iterable[Crossconnect], add: frozenset[Crossconnect], keep: frozenset[Crossconnect]
) -> list[Crossconnect]:
    ends = demand.freed.union(end for crossconnect in add for end in crossconnect.ends)
    return [
        one
        for one in before
        if one not in keep and (demand.emptied or one in demand.gone or ends.intersection(one.ends))
    ]


def _refuse_used(demand: SwitchDemand, used: Sequence[Crossconnect], add: frozenset[Crossconnect]) -> None:
    if not used:
        return
    name, first = demand.switch, used[0]
    if demand.emptied:
        raise RefusedError(f"{name}: cannot be emptied: it carries {first}. Remove it with --mode update")
    if free := sorted(demand.freed.intersection(first.ends)):
        raise RefusedError(f"{name}: cannot free {free[0]}: it carries {first}. Remove it with --mode update")
    both = ((one, end) for one in sorted(add, key=Crossconnect.sort_key) for end in one.ends if end in first.ends)
    wants, end = next(both, (None, None))
    if wants is None:
        raise RefusedError(f"{name}: {first} would have to go, and is in use. Remove it with --mode update")
    raise RefusedError(
        f"{name}: cannot connect {wants}: {end} already carries {first}. "
        "Replace it with --mode update, or choose another port"
    )


# --- switches whose elements are in one of few states each


def _after_elements(
    demand: SwitchDemand, elements: Sequence[Element], before: frozenset[Crossconnect]
) -> frozenset[Crossconnect]:
    possible = frozenset[Crossconnect]().union(*(element.crossconnects for element in elements))
    if never := sorted(demand.wanted - possible, key=Crossconnect.sort_key):
        raise RefusedError(_never(demand.switch, never[0], elements))
    after = set(before - possible)
    for element in elements:
        after |= _state_of(demand, element, before & element.crossconnects)
    return frozenset(after)


def _again(
    wanted: frozenset[Crossconnect],
    elements: Sequence[Element],
    before: frozenset[Crossconnect],
    good: frozenset[Crossconnect],
) -> frozenset[Crossconnect]:
    """Wanted crossconnects that failed, with the rest of their element's state: an element is set to a whole state."""
    failed = (wanted & before) - good
    if not failed:
        return failed
    return frozenset(
        one for element in elements if failed & element.crossconnects for one in before & element.crossconnects
    )


def _state_of(demand: SwitchDemand, element: Element, present: frozenset[Crossconnect]) -> frozenset[Crossconnect]:
    """The state to set: the present one if it serves, else the one with the fewest changes."""
    wanted = demand.wanted & element.crossconnects
    if not (wanted or demand.whole or demand.emptied or demand.gone or demand.freed):
        return present
    staying = demand.staying & element.crossconnects
    shut = frozenset(
        one
        for one in element.crossconnects - wanted
        if demand.emptied or one in demand.gone or demand.freed.intersection(one.ends)
    )
    states = element.state_sets
    if not (wanted or demand.whole or present & shut or (shut and present not in states)):
        return present
    having = [state for state in states if wanted <= state]
    if not having:
        raise RefusedError(_contradiction(demand.switch, element, wanted))
    leaving = [state for state in having if staying <= state]
    if not leaving:
        raise RefusedError(
            f"{demand.switch}: cannot have {_list(wanted)}: element {element.name} would have to leave "
            f"{_list(staying)}, which others use. "
            "Ask for other ends, or free those first"
        )
    open_states = [state for state in leaving if not state & shut and (wanted or demand.whole or state <= present)]
    if not open_states:
        raise RefusedError(_cannot_be_dark(demand, element, shut))
    if demand.whole:
        open_states = [*_with_least(open_states, wanted, present)]
    if present in open_states:
        return present
    return min(open_states, key=lambda state: (-len(state & present), len(state - wanted), states.index(state)))


def _with_least(
    states: Sequence[frozenset[Crossconnect]], wanted: frozenset[Crossconnect], present: frozenset[Crossconnect]
) -> Sequence[frozenset[Crossconnect]]:
    """The states that join least in addition to `wanted`; just the present one if none joins less."""
    least = min(len(state - wanted) for state in states)
    if present in states and len(present - wanted) <= least:
        return [present]
    return [state for state in states if len(state - wanted) == least]


def _contradiction(switch: str, element: Element, wanted: frozenset[Crossconnect]) -> str:
    ordered = sorted(wanted, key=Crossconnect.sort_key)
    states = element.state_sets
    smallest = next(
        some
        for size in range(1, len(ordered) + 1)
        for some in combinations(ordered, size)
        if not any(state.issuperset(some) for state in states)
    )
    return (
        f"{switch}: {_list(smallest)} cannot be at once: element {element.name} is in one state at a time: "
        f"{_states(element)}. "
        "Ask for one of them less"
    )


def _cannot_be_dark(demand: SwitchDemand, element: Element, shut: frozenset[Crossconnect]) -> str:
    held = sorted(shut, key=Crossconnect.sort_key)
    ends = sorted(demand.freed & {end for one in held for end in one.ends})
    what = "be emptied" if demand.emptied else f"free {ends[0]}" if ends else f"be without {held[0]}"
    return (
        f"{demand.switch}: cannot {what}: element {element.name} always joins something: {_states(element)}. "
        f"Ask for another of its states{demand.or_else and f', or {demand.or_else}'}"
    )


def _never(switch: str, one: Crossconnect, elements: Sequence[Element]) -> str:
    for element in elements:
        partners = [
            other.b if other.a == one.a else other.a
            for other in sorted(element.crossconnects, key=Crossconnect.sort_key)
            if one.a in other.ends
        ]
        if partners:
            return (
                f"{switch}: cannot connect {one}: {one.a} is of element {element.name}, which joins it with "
                f"{', '.join(partners)} only"
            )
    return f"{switch}: cannot connect {one}: no element has {one.a}"


def _states(element: Element) -> str:
    return ", ".join("/".join(state) or "dark" for state in element.states)


def _list(crossconnects: Iterable[Crossconnect]) -> str:
    return ", ".join(map(str, sorted(crossconnects, key=Crossconnect.sort_key)))
