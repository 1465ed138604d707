"""Tables: configuration and optics of a SONiC switch: the readings that they give, and the commands of a change."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from hwd_drivers.core.values import Crossconnect, CrossconnectReading, CrossconnectState, PortSide
from hwd_drivers.families.sonic import protocol
from hwd_drivers.families.sonic.protocol import Mode, Row

BESIDE_MOST: Final = 4
"""Most others at one port that are reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """The commands of a change, in order; `made`: crossconnects that the switch must report as made after them."""

    lines: tuple[str, ...]
    made: tuple[Crossconnect, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The two tables of one query, which was answered at `received_ns`."""

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
        """Crossconnects in the optics that are not configured: gone after the next restart, and not deletable."""
        return frozenset(self.rows) - self.configured

    def readings(self) -> tuple[CrossconnectReading, ...]:
        """The readings have at most one crossconnect at each end.

        A crossconnect that is configured and in the optics has its own state; failed if another one shares an end in
        the optics. One in the optics only is failed. One in the configuration only is failed too, unless the optics
        have another crossconnect at one of its ends: then it is left out.
        """
        used: set[PortSide] = set()
        readings = []
        for pair in self._by_weight():
            if used.isdisjoint(pair.ends):
                used.update(pair.ends)
                readings.append(CrossconnectReading(crossconnect=pair, state=self.state(pair)))
        return tuple(sorted(readings, key=lambda reading: Crossconnect.sort_key(reading.crossconnect)))

    def state(self, pair: Crossconnect) -> CrossconnectState:
        """Its own state where it is made, else failed."""
        made = pair in self.configured and pair in self.rows and not self._others_at(pair)
        return self.rows[pair].state if made else CrossconnectState.FAILED

    def finding(self, pair: Crossconnect) -> str:
        """The finding for a crossconnect that is not as wanted: `not there`, `tuned, and in no configuration`."""
        if pair not in self.rows:
            return "not there"
        row = self.rows[pair]
        state = f"{row.unknown}, which is not known here" if row.unknown else str(row.state)
        if pair not in self.configured:
            return f"{state}, and in no configuration"
        if beside := self._others_at(pair):
            return f"{state}, beside {', '.join(beside)} at the same port"
        return state

    def remarks(self) -> tuple[str, ...]:
        """A remark on each crossconnect that is in one table only, shares a port with another, or whose state is not
        known.
        """
        reported = {reading.crossconnect for reading in self.readings()}
        unknown = {pair for pair, row in self.rows.items() if row.unknown}
        odd = [
            pair for pair in self._by_weight() if pair not in reported or pair not in self.configured or pair in unknown
        ]
        return tuple(
            f"{pair} is {self.finding(pair)}"
            if pair in self.rows
            else f"{pair} is configured, and its port carries another"
            for pair in sorted(odd, key=Crossconnect.sort_key)
        )

    def commands(self, remove: Sequence[Crossconnect], add: Sequence[Crossconnect]) -> Commands:
        """Commands from these tables to a state without `remove` and with `add`.

        A crossconnect in the optics only is configured before it is deleted. Others that this replaces, and that must
        stay, are made again. Missing ones are not deleted.
        """
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
        """Crossconnects in the optics only that must go, are in the way, or would appear after a removal."""
        beside = {end for pair in remove if pair in self.rows for end in pair.ends}
        return [
            pair
            for pair in sorted(self.stale, key=Crossconnect.sort_key)
            if pair not in add and (pair in remove or any(end in taken or end in beside for end in pair.ends))
        ]

    def _by_weight(self) -> Iterator[Crossconnect]:
        """Made crossconnects, those in the optics only, those in the configuration only; each in port order."""
        both = self.configured.intersection(self.rows)
        for some in (both, self.stale, self.configured.difference(self.rows)):
            yield from sorted(some, key=Crossconnect.sort_key)

    def _others_at(self, pair: Crossconnect) -> list[Crossconnect]:
        """The first others in the optics at an end of this one; limited, as thousands would take quadratic time."""
        others = (other for end in pair.ends for other in self._at.get(end, ())[: BESIDE_MOST + 1] if other != pair)
        return list(itertools.islice(dict.fromkeys(others), BESIDE_MOST))


def _apart(pairs: Iterable[Crossconnect]) -> list[list[Crossconnect]]:
    """Split pairs into lists without a common port, each pair into the first list that fits."""
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
