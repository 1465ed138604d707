"""Arrangements: crossconnects for the checks, so that the same checks fit a matrix, a selector and element arrays."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.values import Capabilities, Crossconnect, Element, PortSide, Side

Arrangement = frozenset[Crossconnect]
"""All crossconnects at the ends that a check may use."""

PARTS: Final = 4
"""Number of pairs, or elements, that are used of a switch that has enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangements:
    """The arrangements of crossconnects that the checks make. `rest` is the state before and after each check: no
    crossconnects in a matrix, elements in their first state.

    `one` and `other` differ in few pairs. `full` uses all ends; `moved` joins the ends of `full` differently. With
    stuck mirrors at `stuck`, `full` becomes `stuck_full`. `impossible`: crossconnects of an element that are not one of
    its states; None where every choice is a state.
    """

    ends: frozenset[PortSide]
    rest: Arrangement
    one: Arrangement
    other: Arrangement
    full: Arrangement
    moved: Arrangement
    stuck: tuple[PortSide, ...]
    stuck_full: Arrangement
    impossible: Arrangement | None = None

    @classmethod
    def of(cls, capabilities: Capabilities, allowed: Collection[PortSide] | None = None) -> "Arrangements":
        """Arrangements of a switch, only at `allowed` ends if given.

        Raises ConfigError where these are too few for any check.
        """
        ends = [end for end in capabilities.ends if allowed is None or end in allowed]
        return _of_elements(capabilities.elements, ends) if capabilities.elements else _of_matrix(ends)


def _of_matrix(ends: list[PortSide]) -> Arrangements:
    far = [end for end in ends if end.side is Side.B]
    near = [end for end in ends if end.side is not Side.B]
    if not far:
        near, far = near[: len(near) // 2], near[len(near) // 2 :]
    pairs = [Crossconnect.of(a, b) for a, b in zip(near, far, strict=False)][:PARTS]
    if len(pairs) < 2:
        raise ConfigError(f"ends {', '.join(ends) or 'none'}: too few; two crossconnects must have room")
    first, second, *kept = pairs
    crossed = (Crossconnect.of(first.a, second.b), Crossconnect.of(second.a, first.b))
    return Arrangements(
        ends=frozenset(end for pair in pairs for end in pair.ends),
        rest=frozenset(),
        one=frozenset({first}),
        other=frozenset({second}),
        full=frozenset(pairs),
        moved=frozenset({*crossed, *kept}),
        stuck=(first.a,),
        stuck_full=frozenset(pairs[1:]),
    )


def _of_elements(elements: Iterable[Element], ends: list[PortSide]) -> Arrangements:
    """An element takes part if all of its ends are allowed and it has several states."""
    there = frozenset(ends)
    parts = [each for each in elements if len(each.states) > 1 and _ends(each.crossconnects) <= there][:PARTS]
    if not parts:
        raise ConfigError(f"ends {', '.join(ends) or 'none'}: no element has all of its ends there")
    states = [[frozenset(state) for state in part.states] for part in parts]
    rest = _joined(own[0] for own in states)
    full = _joined(own[1] for own in states)
    elsewhere = 2 if len(states[0]) > 2 else 0
    others = [own[1 if place == 1 else 0] for place, own in enumerate(states)]
    return Arrangements(
        ends=_ends(_joined(part.crossconnects for part in parts)),
        rest=rest,
        one=_joined([states[0][1], *(own[0] for own in states[1:])]),
        other=_joined(others) if len(parts) > 1 else states[0][elsewhere],
        full=full,
        moved=_joined(own[2 if len(own) > 2 else 0] for own in states),
        stuck=tuple(sorted(_ends(parts[0].crossconnects), key=PortSide.sort_key)),
        stuck_full=_joined([states[0][0], *(own[1] for own in states[1:])]),
        impossible=_impossible(states[0]),
    )


def _impossible(states: list[Arrangement]) -> Arrangement | None:
    """The first state without one of its crossconnects, where that is not a state."""
    for missing in sorted(states[0], key=Crossconnect.sort_key):
        if (rest := states[0] - {missing}) not in states:
            return rest
    return None


def _joined(parts: Iterable[Arrangement]) -> Arrangement:
    return frozenset[Crossconnect]().union(*parts)


def _ends(crossconnects: Iterable[Crossconnect]) -> frozenset[PortSide]:
    return frozenset(end for one in crossconnects for end in one.ends)
