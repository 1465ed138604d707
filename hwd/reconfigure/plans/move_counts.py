"""Move counts: how often the elements of switches have moved, and the switches were changed, for the interlocks.

Counted from the documents of commands, whoever sent them: an apply, a way back, or the agent of a host for its own
switch.
"""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from hwd.fabric.fabric import Fabric
from hwd.interlocks import NO_MOTION, Motion
from hwd.model.interlock import InterlockRules
from hwd.model.testbed import Testbed
from hwd.records.records import Records
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document
from hwd_drivers.devices.facts import SwitchCommand

HOUR_NS: Final = 3_600_000_000_000
READ_AT_ONCE: Final = 500
"""Documents of commands that one query reads at a start."""
READ_MOST: Final = 100_000
"""Documents of commands that a start reads at most: some ten a second for an hour on three switches."""


class MoveCounts:
    """A `Sink`. Counts since the first command are in the records; the last hour is read from their documents.

    Windows are of the monotonic clock, so that a step of the wall clock changes nothing while the daemon is up. After a
    restart the ages come from the wall clock, and none is below zero: a clock that was set back keeps a change in its
    window for the whole of it, at most; one that was set forward lets it leave early.
    """

    TAKES: ClassVar = (SwitchCommand,)

    def __init__(self, testbed: Testbed, clock: Clock) -> None:
        rules = testbed.interlocks
        self._clock = clock
        self._limited = _limited(rules)
        self._in_life: dict[str, Counter[str]] = {}
        self._hours = {name: _Window(HOUR_NS) for name in rules.moves_per_hour_max}
        self._changes = {name: _Window(round(rules.rate_s * 1e9)) for name in rules.changes_max}

    def use_testbed(self, fabric: Fabric) -> None:
        """Go on with the testbed of this fabric."""
        self._limited = _limited(fabric.testbed.interlocks)  # with the same windows: see `testbed_diff`

    async def load(self, records: Records) -> None:
        """Take the counts of the records, and the commands of the last hour that earlier processes recorded."""
        for (switch, element), moves in (await records.moves.all()).items():
            self._in_life.setdefault(switch, Counter())[element] = moves
        windows = (*self._hours.values(), *self._changes.values())
        if not windows:
            return
        longest_ns, before = max(window.length_ns for window in windows), None
        now_ns, now_wall_ns = self._clock.monotonic_ns(), self._clock.wall_ns()
        recent: list[tuple[int, SwitchCommand]] = []
        for _ in range(READ_MOST // READ_AT_ONCE):
            page = await records.newest([SwitchCommand.KIND], limit=READ_AT_ONCE, before=before)
            ages_ns = [max(0, now_wall_ns - stored.document.wall_ns) for stored in page]
            for age_ns, stored in zip(ages_ns, page, strict=True):
                if age_ns < longest_ns and isinstance(stored.document.fact, SwitchCommand):
                    recent.append((now_ns - age_ns, stored.document.fact))
            if len(page) < READ_AT_ONCE or ages_ns[-1] >= longest_ns:
                break
            before = page[-1].id
        for at_ns, command in sorted(recent, key=lambda one: one[0]):
            self._count_recent(command, at_ns=at_ns)

    def __call__(self, document: Document) -> None:
        if isinstance(command := document.fact, SwitchCommand) and command.moved:
            self._in_life.setdefault(command.switch, Counter()).update(command.moved)
            self._count_recent(command, at_ns=document.at_ns)

    def of(self, switches: Iterable[str]) -> Motion:
        """The counts of these switches now, as far as the testbed limits them."""
        if self._limited.isdisjoint(names := frozenset(switches)):
            return NO_MOTION
        now_ns = self._clock.monotonic_ns()
        return Motion(
            in_life={name: dict(self._in_life.get(name, {})) for name in sorted(names & self._limited)},
            in_hour={name: window.counts(now_ns) for name, window in self._hours.items() if name in names},
            changes={name: window.changes(now_ns) for name, window in self._changes.items() if name in names},
        )

    def _count_recent(self, command: SwitchCommand, *, at_ns: int) -> None:
        for windows in (self._hours, self._changes):
            if command.moved and (window := windows.get(command.switch)) is not None:
                window.add(command.moved, at_ns=at_ns)


def _limited(rules: InterlockRules) -> frozenset[str]:
    return frozenset({*rules.moves_max, *rules.moves_per_hour_max, *rules.changes_max})


class _Window:
    """The changes of one switch in the last `length_ns`, with the elements that each moved."""

    def __init__(self, length_ns: int) -> None:
        self.length_ns = length_ns
        self._last: deque[tuple[int, list[str]]] = deque()
        self._counts: Counter[str] = Counter()

    def add(self, moved: list[str], *, at_ns: int) -> None:
        self._last.append((at_ns, moved))
        self._counts.update(moved)
        self._expire(at_ns)

    def counts(self, now_ns: int) -> Mapping[str, int]:
        self._expire(now_ns)
        return dict(self._counts)

    def changes(self, now_ns: int) -> int:
        self._expire(now_ns)
        return len(self._last)

    def _expire(self, now_ns: int) -> None:
        while self._last and self._last[0][0] <= now_ns - self.length_ns:
            _, moved = self._last.popleft()
            self._counts.subtract(moved)
        if not self._last:
            self._counts.clear()
