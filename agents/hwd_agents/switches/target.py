"""parse_target, moves_to: the crossconnects that a request demands of a switch, and the changes that lead to them."""

from collections.abc import Iterable

from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.values import Capabilities, Crossconnect, Element

DARK = "dark"
"""The target of a switch that shall have no crossconnects."""

Moves = tuple[tuple[Crossconnect, ...], tuple[Crossconnect, ...]]
"""To remove, to add."""


def parse_target(name: str, text: str, capabilities: Capabilities) -> frozenset[Crossconnect]:
    """Parse `in-2`, `1A-2B,3A-7B` or `dark`. Raises ConfigError for any other text, and for unknown ends."""
    if text.strip() == DARK:
        return frozenset()
    found = [Crossconnect.parse(one) for one in text.split(",")]
    ends = [end for one in found for end in one.ends]
    if unknown := [end for end in ends if end not in capabilities.ends]:
        known = capabilities.ends
        raise ConfigError(f"{name}: it has no {unknown[0]}; its ends go from {known[0]} to {known[-1]}")
    if twice := [end for end in ends if ends.count(end) > 1]:
        raise ConfigError(f"{name}: {text}: {twice[0]} is named twice; an end carries one crossconnect")
    return frozenset(found)


def moves_to(
    name: str, wanted: frozenset[Crossconnect], capabilities: Capabilities, before: Iterable[Crossconnect]
) -> Moves:
    """The crossconnects to remove and to add for `wanted`. Only those in its way are removed; if it is empty, all are.

    Raises RefusedError for a crossconnect that no element of the switch can have.
    """
    there = tuple(before)
    if capabilities.elements:
        after = _after(name, wanted, capabilities.elements, frozenset(there))
    else:
        ends = {end for one in wanted for end in one.ends}
        after = wanted | {one for one in there if wanted and not ends.intersection(one.ends)}
    remove = tuple(one for one in there if one not in after)
    add = tuple(sorted(after.difference(there), key=Crossconnect.sort_key))
    return remove, add


def _after(
    name: str, wanted: frozenset[Crossconnect], elements: tuple[Element, ...], there: frozenset[Crossconnect]
) -> frozenset[Crossconnect]:
    possible = frozenset(one for element in elements for one in element.crossconnects)
    if never := sorted(wanted - possible, key=Crossconnect.sort_key):
        raise RefusedError(f"{name}: no element of it joins {never[0].a} with {never[0].b}")
    after: set[Crossconnect] = set()
    for element in elements:
        asked = wanted & element.crossconnects
        if wanted and not asked:
            after |= there & element.crossconnects
            continue
        states = [frozenset(state) for state in element.states if asked <= frozenset(state)]
        if not states or (not wanted and () not in element.states):
            told = "; ".join(", ".join(map(str, state)) or DARK for state in element.states)
            named = ", ".join(sorted(map(str, asked))) or DARK
            raise RefusedError(f"{name}: element {element.name} cannot be {named}: it is always in one of ({told})")
        after |= min(states, key=lambda state: len(state))
    return frozenset(after)
