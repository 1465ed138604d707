"""What a SONiC switch has configured beside what its optics have: what that reads as, and the commands of a change from there."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState, PortSide
from hwd_drivers.families.sonic import protocol
from hwd_drivers.families.sonic.protocol import Mode, Row

BESIDE_MOST: Final = 4
"""Others at one port that are told of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """The commands of a change, in their order; `made`: what the switch must show as made after them."""

    lines: tuple[str, ...]
    made: tuple[Crossconnect, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Both tables of one look, which was answered at `received_ns`."""

    configured: frozenset[Crossconnect]
    rows: Mapping[Crossconnect, Row]
    received_ns: int
    _at: dict[PortSide, list[Crossconnect]] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for pair in self.rows:
            for end in pair.ends:
                self._at.setdefault(end, []).append(pair)

    @property
    def stale(self) -> frozenset[Crossconnect]:
        """In the optics and not configured: gone after the next restart, and nothing that can be deleted."""
        return frozenset(self.rows) - self.configured

    def readings(self) -> tuple[CrossconnectReading, ...]:
        """One crossconnect at most at each end.

        Made is only what is configured and in the optics: such a one has its own state; where another is beside it in the optics it is failed. What is in the
        optics only is failed, and what is configured only too, unless the optics have another crossconnect at one of its ends: then it is not told.
        """
        used: set[PortSide] = set()
        readings = []
        for pair in self._by_weight():
            if used.isdisjoint(pair.ends):
                used.update(pair.ends)
                readings.append(CrossconnectReading(crossconnect=pair, state=self.state(pair)))
        return tuple(sorted(readings, key=lambda reading: Crossconnect.sort_key(reading.crossconnect)))

    def state(self, pair: Crossconnect) -> CrossconnectState:
        """Its own where it is made, else failed."""
        made = pair in self.configured and pair in self.rows and not self._beside(pair)
        return self.rows[pair].state if made else CrossconnectState.FAILED

    def finding(self, pair: Crossconnect) -> str:
        """What is to be said of one that is not as it was asked for: `not there`, `tuned, and in no configuration`."""
        if pair not in self.rows:
            return "not there"
        state = str(self.rows[pair].state)
        if pair not in self.configured:
            return f"{state}, and in no configuration"
        if beside := self._beside(pair):
            return f"{state}, beside {_list(beside)} at the same port"
        return state

    def remarks(self) -> tuple[str, ...]:
        """Of each crossconnect that is in one of the tables only, or beside another."""
        told = {reading.crossconnect for reading in self.readings()}
        odd = [pair for pair in self._by_weight() if pair not in told or pair not in self.configured]
        return tuple(
            f"{pair} is {self.finding(pair)}"
            if pair in self.rows
            else f"{pair} is configured, and its port carries another"
            for pair in sorted(odd, key=Crossconnect.sort_key)
        )

    def commands(self, remove: Sequence[Crossconnect], add: Sequence[Crossconnect]) -> Commands:
        """From here to a state without `remove` and with `add`. What is only in the optics is configured before it is deleted; what that takes the place of,
        and is to stay, is made anew; what is not there any more is not deleted."""
        taken = {end for pair in add for end in pair.ends}
        clearing = self._to_clear(frozenset(remove), frozenset(add), taken)
        cleared = {end for pair in clearing for end in pair.ends}
        displaced = {pair for pair in self.configured if not cleared.isdisjoint(pair.ends)}
        gone = [
            pair
            for pair in dict.fromkeys(remove)
            if pair in self.configured and pair not in displaced and taken.isdisjoint(pair.ends)
        ]
        restored = [
            pair
            for pair in sorted(displaced, key=Crossconnect.sort_key)
            if pair in self.rows and pair not in remove and pair not in add and taken.isdisjoint(pair.ends)
        ]
        lines = []
        for together in _apart(clearing):
            lines += [protocol.add(together, Mode.UPDATE), protocol.delete([*gone, *together])]
            gone = []
        lines += [protocol.delete(gone)] if gone else []
        made = (*add, *restored)
        lines += [protocol.add(made, Mode.UPDATE)] if made else []
        return Commands(lines=tuple(lines), made=made)

    def _to_clear(
        self, remove: Collection[Crossconnect], add: Collection[Crossconnect], taken: Collection[PortSide]
    ) -> list[Crossconnect]:
        """What is only in the optics and is to go, is in the way, or is beside one that is to go and would show up in its place."""
        beside = {end for pair in remove if pair in self.rows for end in pair.ends}
        return [
            pair
            for pair in sorted(self.stale, key=Crossconnect.sort_key)
            if pair not in add and (pair in remove or any(end in taken or end in beside for end in pair.ends))
        ]

    def _by_weight(self) -> Iterator[Crossconnect]:
        """Made ones, then what is only in the optics, then what is only configured; each in the order of ports."""
        both = self.configured.intersection(self.rows)
        for some in (both, self.stale, self.configured.difference(self.rows)):
            yield from sorted(some, key=Crossconnect.sort_key)

    def _beside(self, pair: Crossconnect) -> list[Crossconnect]:
        """The first others in the optics at an end of this one: there should be none, and a switch that lists thousands is not to cost their square."""
        others = (other for end in pair.ends for other in self._at.get(end, ())[: BESIDE_MOST + 1] if other != pair)
        return list(itertools.islice(dict.fromkeys(others), BESIDE_MOST))


def _apart(pairs: Iterable[Crossconnect]) -> list[list[Crossconnect]]:
    """In lists that have no port twice, as few as come of taking them in their order."""
    lists: list[tuple[list[Crossconnect], set[PortSide]]] = []
    for pair in pairs:
        for together, used in lists:
            if used.isdisjoint(pair.ends):
                together.append(pair)
                used.update(pair.ends)
                break
        else:
            lists.append(([pair], set(pair.ends)))
    return [together for together, _ in lists]


def _list(pairs: Iterable[Crossconnect]) -> str:
    return ", ".join(map(str, pairs))
