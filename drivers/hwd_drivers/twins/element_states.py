"""Element states of a mirror: the state of each element, and the states that a change of crossconnects requires."""

from collections.abc import Iterable, Mapping, Sequence

from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.values import Crossconnect, Element, PortSide


class ElementStates:
    """The elements of one switch, by number. Each is in the state `states[number]`, at start in its first."""

    def __init__(self, switch: str, elements: Sequence[Element]) -> None:
        self.states = [0] * len(elements)
        self._switch = switch
        self._elements = elements
        self._of = {
            end: number
            for number, element in enumerate(elements)
            for pair in element.crossconnects
            for end in pair.ends
        }

    def __bool__(self) -> bool:
        return bool(self.states)

    def by_name(self) -> dict[str, int]:
        """The state of each element."""
        return {element.name: state for element, state in zip(self._elements, self.states, strict=True)}

    def named(self, states: Mapping[str, int]) -> dict[int, int]:
        """States by the number of the element, from its name. Raises ConfigError for an unknown element or state."""
        numbers = {element.name: number for number, element in enumerate(self._elements)}
        for name, state in states.items():
            if name not in numbers:
                raise ConfigError(f"{self._switch}: there is no element {name}; it has {', '.join(numbers) or 'none'}")
            total = len(self._elements[numbers[name]].states)
            if not 0 <= state < total:
                raise ConfigError(f"{self._switch}: element {name} has no state {state}; it has 0 to {total - 1}")
        return {numbers[name]: state for name, state in states.items()}

    def with_pairs(self, pairs: Iterable[Crossconnect]) -> dict[int, int]:
        """The states that have all of `pairs`: the present one if it does, else the first.

        Raises RefusedError where none has.
        """
        wanted: dict[int, set[Crossconnect]] = {}
        for pair in pairs:
            number = self._of.get(pair.a)
            if number is None or number != self._of.get(pair.b):
                raise RefusedError(
                    f"{self._switch}: cannot connect {pair}: no element of it joins {pair.a} with {pair.b}"
                )
            wanted.setdefault(number, set()).add(pair)
        found = {}
        for number, own in wanted.items():
            element = self._elements[number]
            states = [state for state, has in enumerate(element.states) if own.issubset(has)]
            if not states:
                names = ", ".join(sorted(own))
                raise RefusedError(f"{self._switch}: cannot connect {names}: element {element.name} has no such state")
            found[number] = self.states[number] if self.states[number] in states else states[0]
        return found

    def dark(self, pairs: Iterable[Crossconnect]) -> dict[int, int]:
        """The dark states of the elements that have `pairs`. Raises RefusedError for an element without one."""
        found = {}
        for pair in pairs:
            element = self._elements[self._of[pair.a]]
            if () not in element.states:
                raise RefusedError(
                    f"{self._switch}: cannot disconnect {pair}: element {element.name} is always in one of its states. "
                    "Connect the pairs of another state instead"
                )
            found[self._of[pair.a]] = element.states.index(())
        return found

    def ends_taken_by(self, pair: Crossconnect) -> set[PortSide]:
        """The ends that making `pair` uses: its own, and all of their elements."""
        numbers = {self._of.get(end) for end in pair.ends}
        return {*pair.ends, *(end for end, number in self._of.items() if number in numbers)}

    def change(self, number: int, state: int) -> tuple[list[Crossconnect], list[Crossconnect]]:
        """The removed and the new pairs when an element moves to a state."""
        states = self._elements[number].states
        old, new = states[self.states[number]], states[state]
        return [pair for pair in old if pair not in new], [pair for pair in new if pair not in old]
