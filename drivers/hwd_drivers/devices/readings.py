"""Readings of one switch: reports how they differ from the last ones, and whether we asked for the difference."""

import asyncio
import logging
from collections.abc import Collection, Sequence
from typing import Final

from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document, Sink
from hwd_drivers.core.values import Crossconnect, CrossconnectReading, PortSide, PowerReading
from hwd_drivers.devices.facts import SwitchPower, SwitchRead

POWER_STEP_DB: Final = 0.2
"""A smaller change of power is not reported: readings are good to about 0.1 dB."""

RESTORED_WITHIN_S: Final = 300.0
"""How long a restarted switch may restore its crossconnects, each once; a later one is a foreign change."""

log = logging.getLogger(__name__)

Asked = list[tuple[Sequence[Crossconnect], Sequence[Crossconnect]]]
"""Crossconnects that we asked to remove and to add since the last reading."""


class Readings:
    """Emits `switch.read` and `switch.power`. `last`: the last reading, None before the first.

    `powers_asked_wall_ns`: when the switch was asked for the powers that it answered last; None before the first.
    """

    def __init__(self, name: str, *, clock: Clock, sink: Sink) -> None:
        self.last: tuple[CrossconnectReading, ...] | None = None
        self.powers_asked_wall_ns: int | None = None
        self._name = name
        self._clock = clock
        self._sink = sink
        self._asked: Asked = []
        self._restored: frozenset[Crossconnect] = frozenset()
        self._restored_until_ns = 0
        """Pairs that a restart removed or made, and until when the switch may undo that by itself."""
        self._power_dbm: dict[PortSide, float | None] = {}

    def ask(self, remove: Sequence[Crossconnect], add: Sequence[Crossconnect]) -> None:
        """Record a change that we ask for: it explains differences until the next reading."""
        self._asked.append((remove, add))
        self._restored = frozenset()

    def note(
        self,
        readings: tuple[CrossconnectReading, ...],
        *,
        connected: bool = False,
        explained: Collection[Crossconnect] = (),
    ) -> None:
        """Report differences from the last reading, after the caller has continued: comparing takes as long as reading.

        `explained`: pairs that a restart of the switch removed or made. They, and those that the switch then restores
        once by itself, soon and before we ask for a change, do not count as a foreign change.
        """
        at_ns, wall_ns = self._clock.monotonic_ns(), self._clock.wall_ns()
        if at_ns > self._restored_until_ns:
            self._restored = frozenset()
        if restart := frozenset(explained):
            self._restored |= restart
            self._restored_until_ns = at_ns + round(RESTORED_WITHIN_S * 1e9)
        last, asked = self.last, self._asked
        self.last, self._asked = readings, []
        if not restart and last is not None and self._restored and readings != last:
            now, before = ({one.crossconnect for one in each} for each in (readings, last))
            excused, self._restored = self._restored, self._restored - (now ^ before)
        else:
            excused = self._restored
        if connected or readings != last:
            asyncio.get_running_loop().call_soon(
                self._report, readings, last, asked, excused, connected, at_ns, wall_ns
            )

    def note_power(self, readings: Sequence[PowerReading], *, asked_wall_ns: int) -> None:
        """Report power readings that differ from the last reported ones."""
        self.powers_asked_wall_ns = asked_wall_ns
        power_dbm = {reading.end: reading.power_dbm for reading in readings}
        if power_dbm.keys() != self._power_dbm.keys() or any(
            _moved(self._power_dbm[end], power) for end, power in power_dbm.items()
        ):
            self._power_dbm = power_dbm
            at_ns, wall_ns = self._clock.monotonic_ns(), self._clock.wall_ns()
            fact = SwitchPower(switch=self._name, power_dbm=power_dbm)
            self._sink(Document(at_ns=at_ns, wall_ns=wall_ns, fact=fact))

    def _report(
        self,
        readings: tuple[CrossconnectReading, ...],
        last: tuple[CrossconnectReading, ...] | None,
        asked: Asked,
        explained: frozenset[Crossconnect],
        connected: bool,
        at_ns: int,
        wall_ns: int,
    ) -> None:
        """Emit `switch.read`. `connected`: it is the first reading of a session.

        `ours` is False where neither our commands nor a restart of the switch explain the difference.
        """
        there = dict.fromkeys(reading.crossconnect for reading in readings)
        before = there if last is None else dict.fromkeys(reading.crossconnect for reading in last)
        added = [pair for pair in there if pair not in before]
        removed = [pair for pair in before if pair not in there]
        ours = _explain(asked, added=frozenset(added) - explained, removed=frozenset(removed) - explained)
        if not ours:
            words = [f"+{pair}" for pair in added] + [f"-{pair}" for pair in removed]
            how = "changed while it was down" if connected else "changed by another client"
            log.warning("%s: %s: %s", self._name, how, " ".join(words))
        fact = SwitchRead(
            switch=self._name,
            crossconnects=[*readings],
            added=added,
            removed=removed,
            ours=ours,
        )
        self._sink(Document(at_ns=at_ns, wall_ns=wall_ns, fact=fact))


def _explain(asked: Asked, *, added: Collection[Crossconnect], removed: Collection[Crossconnect]) -> bool:
    """Whether the commands explain the whole difference. A removed pair may have shared an end with an added one."""
    if not added and not removed:
        return True
    to_remove = {pair for remove, _ in asked for pair in remove}
    to_add = {pair for _, add in asked for pair in add}
    taken = {end for pair in to_add for end in pair.ends}
    return to_add.issuperset(added) and all(pair in to_remove or not taken.isdisjoint(pair.ends) for pair in removed)


def _moved(before_dbm: float | None, now_dbm: float | None) -> bool:
    if before_dbm is None or now_dbm is None:
        return before_dbm is not now_dbm
    return abs(before_dbm - now_dbm) >= POWER_STEP_DB
