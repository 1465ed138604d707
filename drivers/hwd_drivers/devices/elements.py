"""Elements: switches made of parts with few states each: 1xN selectors and 2x2 switches.

A single selector has the ports `in`, `1` to `N`. Selector e of many has `eA` and its N ends on side B, `((e-1)N+1)B` to
`(eN)B`. 2x2 number e has `(2e-1)A`, `(2e)A`, `(2e-1)B`, `(2e)B`; bar joins equal numbers, cross the others.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.values import Capabilities, Crossconnect, CrossconnectReading, Element, PortSide, Side

_SIZE: Final = re.compile(r"([1-9][0-9]{0,3})x([1-9][0-9]{0,3})")


def selector_size(model: str, size: str | None, *, count_most: int = 1, channels_most: int) -> tuple[int, int]:
    """Number of selectors and channels of each: `1x8`, or `2x6` for two 1x6. Raises ConfigError."""
    if size is None:
        raise ConfigError(f"size: {model} has several sizes. State one, such as 1x8")
    match = _SIZE.fullmatch(size)
    if match is None:
        raise ConfigError(f"size {size!r}: not a size. Write it as 1x8")
    count, channels = int(match[1]), int(match[2])
    if count > count_most or not 2 <= channels <= channels_most:
        counts = "1" if count_most == 1 else f"1 to {count_most}"
        raise ConfigError(
            f"size {size}: {model} has {counts} selectors of 2 to {channels_most} channels. Write a size such as 1x8"
        )
    return count, channels


def selector(channels: int, *, dark: bool = False) -> tuple[tuple[PortSide, ...], tuple[Element, ...]]:
    """A single 1xN: its ends, and its states in the order of the channels; a dark state, where it has one, is last."""
    common, others = PortSide(port="in"), _numbered(channels)
    return (common, *others), (_selector("1", common, others, dark=dark),)


def matrix_ends(inputs: int, outputs: int) -> tuple[PortSide, ...]:
    """Inputs on side A, then outputs on side B, each counted from 1."""
    return (*_numbered(inputs, Side.A), *_numbered(outputs, Side.B))


def selectors(count: int, channels: int, *, dark: bool = False) -> tuple[tuple[PortSide, ...], tuple[Element, ...]]:
    """Several 1xN of one controller: all ends on side A, then all on side B."""
    near, far = _numbered(count, Side.A), _numbered(count * channels, Side.B)
    parts = tuple(
        _selector(end.port, end, far[place * channels : (place + 1) * channels], dark=dark)
        for place, end in enumerate(near)
    )
    return (*near, *far), parts


def two_by_twos(count: int) -> tuple[tuple[PortSide, ...], tuple[Element, ...]]:
    """One or more 2x2; the first state of each is bar, the second cross."""
    near, far = _numbered(2 * count, Side.A), _numbered(2 * count, Side.B)
    parts = tuple(
        Element(
            name=str(place + 1),
            states=(
                _pairs(near[2 * place : 2 * place + 2], far[2 * place : 2 * place + 2]),
                _pairs(near[2 * place : 2 * place + 2], far[2 * place : 2 * place + 2][::-1]),
            ),
        )
        for place in range(count)
    )
    return (*near, *far), parts


def part_capabilities(
    ends: tuple[PortSide, ...],
    elements: tuple[Element, ...],
    *,
    settle_s: float = 0.008,
    loss_db_typical: float = 1.0,
    loss_db_max: float = 2.0,
    latching: bool = False,
    atomic_batches: bool = True,
    reports_before: bool = True,
) -> Capabilities:
    """Capabilities of a switch that is made of elements.

    By default loss as in a buyer's guide of 2026 for MEMS 1xN, at most 2.0 dB, and switching time as ACOS quotes it of
    such parts, 8 ms. Neither is a figure of a certain part.
    """
    return Capabilities(
        ends=ends,
        two_sided=bool(ends[0].side),
        reciprocal=True,
        latching=latching,
        atomic_batches=atomic_batches,
        moves_in_use=True,
        settle_s=settle_s,
        loss_db_typical=loss_db_typical,
        loss_db_max=loss_db_max,
        elements=elements,
        reports_before=reports_before,
    )


def one_by(
    model: str, size: str | None, *, channels_most: int = 256, count_most: int = 1, dark: bool = False, **others: Any
) -> Capabilities:
    """Capabilities of a 1xN of size `1x8`, or of several, `2x6`; `others` as in `part_capabilities`.

    Raises ConfigError for a size that the model, with its article, does not have.
    """
    count, channels = selector_size(model, size, count_most=count_most, channels_most=channels_most)
    made = selector(channels, dark=dark) if count == 1 else selectors(count, channels, dark=dark)
    return part_capabilities(*made, **others)


def channels_of(capabilities: Capabilities) -> int:
    """The number of states of its first element, of which a dark one is none."""
    return sum(map(bool, capabilities.elements[0].states))


class Elements:
    """Converts between states of the elements of one switch and crossconnects.

    elements = Elements(capabilities)
    elements.targets("sw1", remove=[in_1], add=[in_3])  # {0: 2}: the first element to its third state
    elements.readings([2])  # in-3
    """

    def __init__(self, capabilities: Capabilities) -> None:
        self.count = len(capabilities.elements)
        self._elements = capabilities.elements
        self._places: dict[str, int] = {}  # by the text of a crossconnect, whose hash is cached: a change looks up many
        self._alone: dict[str, tuple[int, int]] = {}
        self._states: list[dict[frozenset[Crossconnect], int]] = []
        self._readings: list[tuple[tuple[CrossconnectReading, ...], ...]] = []
        for place, element in enumerate(capabilities.elements):
            self._places |= dict.fromkeys(element.crossconnects, place)
            self._alone |= {own[0]: (place, state) for state, own in enumerate(element.states) if len(own) == 1}
            self._states.append({frozenset(state): number for number, state in enumerate(element.states)})
            self._readings.append(
                tuple(tuple(CrossconnectReading(crossconnect=pair) for pair in state) for state in element.states)
            )

    def targets(self, name: str, *, remove: Sequence[Crossconnect], add: Sequence[Crossconnect]) -> dict[int, int]:
        """The new state of each element that changes, by index.

        Raises RefusedError where `add` is not a complete state of it.
        """
        targets = dict(filter(None, map(self._alone.get, add)))
        if len(targets) == len(add) and set(map(self._places.get, remove)) <= targets.keys():
            return targets  # each pair of `add` is a complete state, as with selectors
        wanted: dict[int, set[Crossconnect]] = {}
        for pair in remove:
            wanted.setdefault(self._place(name, pair), set())
        for pair in add:
            wanted.setdefault(self._place(name, pair), set()).add(pair)
        return {place: self._state(name, place, pairs) for place, pairs in wanted.items()}

    def readings(self, states: Sequence[int]) -> tuple[CrossconnectReading, ...]:
        """All crossconnects of elements in these states, in the order of the elements."""
        return tuple(chain.from_iterable([own[state] for own, state in zip(self._readings, states, strict=True)]))

    def crossconnects(self, states: Sequence[int]) -> tuple[Crossconnect, ...]:
        return tuple([reading.crossconnect for reading in self.readings(states)])

    def _place(self, name: str, pair: Crossconnect) -> int:
        place = self._places.get(pair)
        if place is None:
            raise RefusedError(f"{name}: {pair}: no element of this switch joins {pair.a} with {pair.b}")
        return place

    def _state(self, name: str, place: int, pairs: Iterable[Crossconnect]) -> int:
        state = self._states[place].get(frozenset(pairs))
        if state is None:
            element = self._elements[place]
            states = "; ".join(", ".join(each) or "dark" for each in element.states)
            named = ", ".join(sorted(pairs)) or "dark"
            raise RefusedError(
                f"{name}: element {element.name} cannot be {named}: it is always in one of its states ({states}). "
                "Name all pairs of one state"
            )
        return state


def _numbered(count: int, side: Side = Side.NONE) -> tuple[PortSide, ...]:
    return tuple(PortSide(port=str(number), side=side) for number in range(1, count + 1))


def _selector(name: str, common: PortSide, others: Sequence[PortSide], *, dark: bool) -> Element:
    states: tuple[tuple[Crossconnect, ...], ...] = tuple((Crossconnect.of(common, other),) for other in others)
    return Element(name=name, states=(*states, ()) if dark else states)


def _pairs(near: Sequence[PortSide], far: Sequence[PortSide]) -> tuple[Crossconnect, ...]:
    return tuple(Crossconnect.of(one, other) for one, other in zip(near, far, strict=True))


def changed(states: Sequence[int], targets: Mapping[int, int]) -> list[int]:
    """All states, with those of `targets` replaced."""
    return [targets.get(place, state) for place, state in enumerate(states)]
