"""Overrides of one switch as it says them: those that are new or gone since the last look are told."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from hwd_drivers.core.errors import FailedError, RefusedError
from hwd_drivers.core.values import CrossconnectReading, CrossconnectState, PortOverride, PortSide

Tell = Callable[[Sequence[PortSide], PortOverride, str], None]
"""Ends, what they are held to from now on, and who asked for it."""

_LIT = (CrossconnectState.TUNED, CrossconnectState.UNSTATED)


class Overrides:
    """Owns what is known of them. `blocked`: ends that the switch held dark when it was last asked."""

    def __init__(self, name: str, tell: Tell) -> None:
        self.blocked: frozenset[PortSide] = frozenset()
        self._name = name
        self._tell = tell
        self._asked: dict[PortSide, tuple[PortOverride, str]] = {}

    def ask(self, ends: Iterable[PortSide], to: PortOverride, *, by: str) -> None:
        """From now on this is what the switch is asked for: where it does that, `by` did it, whatever comes of the command."""
        self._asked |= dict.fromkeys(ends, (to, by))

    def begin(self, found: Mapping[PortSide, PortOverride]) -> None:
        """What a switch has that was just connected, all of it; what it held when it was last asked, and says is let go, is told too."""
        before, self.blocked = self.blocked, frozenset()
        self.note(found, by="found at connecting")
        if gone := [end for end in before if found.get(end) is PortOverride.NORMAL]:
            self._tell(sorted(gone, key=PortSide.sort_key), PortOverride.NORMAL, "gone at connecting")

    def note(self, found: Mapping[PortSide, PortOverride], *, by: str) -> None:
        """What some ends are held to now; nothing is said of the others. `by`: who did what nobody asked us for."""
        held = {end for end, to in found.items() if to is PortOverride.FORCE_BLOCKED}
        new, gone = held - self.blocked, (found.keys() - held) & self.blocked
        self.blocked = (self.blocked | held) - gone
        for ends, to in ((new, PortOverride.FORCE_BLOCKED), (gone, PortOverride.NORMAL)):
            whose: dict[str, list[PortSide]] = {}
            for end in sorted(ends, key=PortSide.sort_key):
                asked, who = self._asked.get(end, (None, by))
                whose.setdefault(who if asked is to else by, []).append(end)
            for who, theirs in whose.items():
                self._tell(theirs, to, who)
        for end in found:
            self._asked.pop(end, None)

    def check_able(self, ends: Iterable[PortSide], able: Sequence[PortSide]) -> None:
        """Raises RefusedError for ends that the switch cannot hold."""
        if unable := [str(end) for end in ends if end not in able]:
            raise RefusedError(
                f"{self._name}: {', '.join(unable)} cannot be held dark; those from {able[0]} to {able[-1]} can"
            )

    def check(self, ends: Iterable[PortSide], to: PortOverride, found: Mapping[PortSide, PortOverride]) -> None:
        """Raises FailedError where the switch does not say what it was asked for."""
        if wrong := [str(end) for end in ends if found.get(end) is not to]:
            raise FailedError(f"{self._name}: it answered, but {', '.join(wrong)} is not {to}")

    def shown(self, readings: tuple[CrossconnectReading, ...]) -> tuple[CrossconnectReading, ...]:
        """What is lit as far as the switch says, and has an end that is held dark, is blocked: alike for switches that say so themselves and those that do not."""
        if not self.blocked:
            return readings
        return tuple(
            CrossconnectReading(crossconnect=one.crossconnect, state=CrossconnectState.BLOCKED)
            if one.state in _LIT and not self.blocked.isdisjoint(one.crossconnect.ends)
            else one
            for one in readings
        )
