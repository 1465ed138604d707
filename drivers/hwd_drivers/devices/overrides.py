"""Overrides of one switch: reports those that are new or gone since the last reading."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from hwd_drivers.core.errors import FailedError, RefusedError
from hwd_drivers.core.values import CrossconnectReading, CrossconnectState, PortOverride, PortSide

Report = Callable[[Sequence[PortSide], PortOverride, str], None]
"""Called with ends, their override from now on, and who asked for it."""

_LIT = (CrossconnectState.TUNED, CrossconnectState.UNSTATED)


class Overrides:
    """Stores the overrides of a switch. `blocked`: ends that were dark at the last reading."""

    def __init__(self, name: str, report: Report) -> None:
        self.blocked: frozenset[PortSide] = frozenset()
        self._name = name
        self._report = report
        self._asked: dict[PortSide, tuple[PortOverride, str]] = {}

    def ask(self, ends: Iterable[PortSide], to: PortOverride, *, by: str) -> None:
        """Record what the switch is asked for now: where it does that, `by` did it, even if the command fails."""
        self._asked |= dict.fromkeys(ends, (to, by))

    def begin(self, found: Mapping[PortSide, PortOverride]) -> None:
        """Record all overrides of a new session; those that were released since the last reading are reported too."""
        before, self.blocked = self.blocked, frozenset()
        self.note(found, by="found at connecting")
        if gone := [end for end in before if found.get(end) is PortOverride.NORMAL]:
            self._report(sorted(gone, key=PortSide.sort_key), PortOverride.NORMAL, "gone at connecting")

    def note(self, found: Mapping[PortSide, PortOverride], *, by: str) -> None:
        """Record the present override of some ends; others stay. `by`: who made changes that we did not ask for."""
        held = {end for end, to in found.items() if to is PortOverride.FORCE_BLOCKED}
        new, gone = held - self.blocked, (found.keys() - held) & self.blocked
        self.blocked = (self.blocked | held) - gone
        for ends, to in ((new, PortOverride.FORCE_BLOCKED), (gone, PortOverride.NORMAL)):
            whose: dict[str, list[PortSide]] = {}
            for end in sorted(ends, key=PortSide.sort_key):
                asked, who = self._asked.get(end, (None, by))
                whose.setdefault(who if asked is to else by, []).append(end)
            for who, theirs in whose.items():
                self._report(theirs, to, who)
        for end in found:
            self._asked.pop(end, None)

    def check_able(self, ends: Iterable[PortSide], able: Sequence[PortSide]) -> None:
        """Raises RefusedError for ends that the switch cannot make dark."""
        if unable := [end for end in ends if end not in able]:
            raise RefusedError(
                f"{self._name}: {', '.join(unable)} cannot be held dark; those from {able[0]} to {able[-1]} can"
            )

    def check(self, ends: Iterable[PortSide], to: PortOverride, found: Mapping[PortSide, PortOverride]) -> None:
        """Raises FailedError where the switch does not report the wanted override."""
        if wrong := [end for end in ends if found.get(end) is not to]:
            raise FailedError(f"{self._name}: it answered, but {', '.join(wrong)} is not {to}")

    def with_blocked(self, readings: tuple[CrossconnectReading, ...]) -> tuple[CrossconnectReading, ...]:
        """The readings with state blocked for each tuned crossconnect that has a dark end, on every kind of switch."""
        if not self.blocked:
            return readings
        return tuple(
            CrossconnectReading(crossconnect=one.crossconnect, state=CrossconnectState.BLOCKED)
            if one.state in _LIT and not self.blocked.isdisjoint(one.crossconnect.ends)
            else one
            for one in readings
        )
