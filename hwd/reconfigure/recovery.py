"""What the journal holds open and nobody is at work on: brought back, or on, by its rule, as often as it takes."""

import asyncio
import logging
from collections.abc import Callable, Container
from dataclasses import dataclass

from hwd.model.plan import CrashRule
from hwd.reconfigure import switching
from hwd.reconfigure.journal import Journal, OpenEntry
from hwd.reconfigure.leases import Leases
from hwd.reconfigure.overrun import teller
from hwd.reconfigure.planner import moved_ports
from hwd.reconfigure.reconfiguration import Outcome
from hwd.reconfigure.switches import Switches
from hwd_drivers.kit.clock import Clock
from hwd_drivers.kit.documents import Json
from hwd_drivers.kit.errors import FailedError, LinkError, RefusedError

WITHIN_S = 30.0
"""For the switches to be back when nobody waits; then it is tried again."""

GIVEN_UP = "given-up"
"""How the journal closes what an operator leaves as it is."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOpen:
    """A reconfiguration that was cut off and is not undone, or finished, yet.

    `why`: what keeps it; `tried_wall_ns`: when that was found, at the end of the last try, None before the first. `ports` are held until it is closed.
    """

    reconfiguration: str
    run: str | None
    what: str
    why: str
    tried_wall_ns: int | None
    finish: bool
    ports: frozenset[str]

    def to_data(self) -> dict[str, Json]:
        return {
            "reconfiguration": self.reconfiguration,
            "run": self.run,
            "what": self.what,
            "why": self.why,
            "tried_wall_ns": self.tried_wall_ns,
            "goes": "on" if self.finish else "back",
            "ports": list[Json](sorted(self.ports)),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """A try that failed. `waits`: only for switches that could not be reached."""

    why: str
    waits: bool
    wall_ns: int


class Recovery:
    """Owns what is left open. Its ports are held until it is closed. `tell(kind, **data)` emits a document."""

    def __init__(
        self, *, journal: Journal, switches: Switches, leases: Leases, clock: Clock, tell: Callable[..., None]
    ) -> None:
        self._journal = journal
        self._switches = switches
        self._leases = leases
        self._clock = clock
        self._tell = tell
        self._unwritten: dict[str, Outcome] = {}
        self._tried: dict[str, _Tried] = {}
        self._trying = asyncio.Lock()
        self._tries: str | None = None
        self._of_an_earlier_life = {entry.reconfiguration for entry in journal.open}
        for entry in journal.open:
            leases.hold_reconfiguration(entry.reconfiguration, moved_ports(entry.moves), run=entry.run)

    async def recover(self, under_way: Container[str]) -> None:
        """Try everything once. What cannot be brought where it shall be stays open. Raises what is a bug when all were tried: nothing waits behind it."""
        bugs: list[Exception] = []
        for id, outcome in list(self._unwritten.items()):
            self.write_end(id, outcome)
        for entry in self._journal.open:
            async with self._trying:
                if self._is_left(entry, under_way):
                    self._tries = entry.reconfiguration
                    try:
                        await self._bring(entry)
                    except Exception as error:  # noqa: BLE001 - raised below, when the others had their turn
                        bugs.append(error)
                    finally:
                        self._tries = None
        if bugs:
            raise ExceptionGroup("what the journal holds open", bugs)

    def left(self, under_way: Container[str]) -> tuple[LeftOpen, ...]:
        """All that is left open, oldest first."""
        return tuple(
            LeftOpen(
                reconfiguration=entry.reconfiguration,
                run=entry.run,
                what=entry.what,
                why=self._why(entry),
                tried_wall_ns=tried.wall_ns if (tried := self._tried.get(entry.reconfiguration)) else None,
                finish=entry.crash_rule is CrashRule.FINISH,
                ports=self._leases.held(entry.reconfiguration),
            )
            for entry in self._journal.open
            if self._is_left(entry, under_way)
        )

    def left_open(self, switch: str, under_way: Container[str]) -> str | None:
        """Why a switch cannot be driven for anything else, None where it can."""
        for entry in self._journal.open:
            if self._is_left(entry, under_way) and any(move.switch == switch for move in entry.moves):
                return f"reconfiguration {entry.reconfiguration} ({entry.what}) was cut off and is not undone yet: {self._why(entry)}. It is tried again and again; `hwd give-up {entry.reconfiguration}` leaves it as it is"
        return None

    async def give_up(self, id: str, *, by: str, under_way: Container[str]) -> dict[str, Json]:
        """Close what is left open, and leave its switches as they are; its ports are free. Returns what `journal.given-up` tells; waits for the end of a try of this one.

        Raises RefusedError where this one is not left open, FailedError where the journal does not take it: then it stays open.
        """
        if self._tries != id:
            return self._give_up(id, by, under_way)
        async with self._trying:
            return self._give_up(id, by, under_way)

    def write_end(self, id: str, outcome: Outcome) -> None:
        """What cannot be written now is tried again by `recover`, and until then nobody takes it for left open."""
        try:
            self._journal.end(id, outcome=outcome)
            self._unwritten.pop(id, None)
        except OSError as error:
            self._unwritten[id] = outcome
            log.warning(
                "journal: %s is %s, and that cannot be written: %s. A crash now would roll it back", id, outcome, error
            )

    def _give_up(self, id: str, by: str, under_way: Container[str]) -> dict[str, Json]:
        left = [entry for entry in self._journal.open if self._is_left(entry, under_way)]
        entry = next((entry for entry in left if entry.reconfiguration == id), None)
        if entry is None:
            way = "it is under way, `hwd rollback` ends it" if id in under_way else "it is not left open"
            names = ", ".join(other.reconfiguration for other in left) or "none"
            raise RefusedError(f"reconfiguration {id}: cannot be given up, {way}. Left open: {names}")
        why, standing = self._why(entry), self._standing(entry)
        try:
            self._journal.end(id, outcome=GIVEN_UP)
        except OSError as error:
            raise FailedError(
                f"reconfiguration {id}: cannot be given up, the journal does not take it: {error}. It stays open; make room on its disk"
            ) from error
        self._tried.pop(id, None)
        self._leases.let_go(id)
        told: dict[str, Json] = {
            "reconfiguration": id,
            "run": entry.run,
            "what": entry.what,
            "why": why,
            "by": by,
            "left": [*standing],
        }
        self._tell("journal.given-up", **told)
        log.warning("journal: %s (%s) was given up by %s: %s. Left: %s", id, entry.what, by, why, "; ".join(standing))
        return told

    def _is_left(self, entry: OpenEntry, under_way: Container[str]) -> bool:
        """Asked again before each entry: while one is brought back, another may have been confirmed."""
        there = entry in self._journal.open
        return there and entry.reconfiguration not in under_way and entry.reconfiguration not in self._unwritten

    def _standing(self, entry: OpenEntry) -> list[str]:
        """What each of its switches reported last at the ends that it is about: `ocs1: 1A-4B failed`."""
        latest = self._switches.latest()
        told: list[str] = []
        for move in entry.moves:
            ends = {end for one in (*move.remove, *move.add) for end in one.ends}
            if not ends:
                continue
            readings = latest.get(move.switch)
            if readings is None:
                told.append(f"{move.switch}: not read since the daemon began")
                continue
            there = [str(reading) for reading in readings if not ends.isdisjoint(reading.crossconnect.ends)]
            told.append(f"{move.switch}: {', '.join(there) or 'nothing'}")
        return told

    def _why(self, entry: OpenEntry) -> str:
        """What keeps it: as the last try found it, or, where that could not reach its switches, how they are now."""
        tried = self._tried.get(entry.reconfiguration)
        if tried is None:
            return "not tried yet"
        if not tried.waits:
            return tried.why
        away = self._switches.away(move.switch for move in entry.moves)
        return "; ".join(away) or "its switches are back, and it is tried anew"

    async def _bring(self, entry: OpenEntry) -> None:
        finish = entry.crash_rule is CrashRule.FINISH
        way = switching.way_on if finish else switching.way_back
        on_overrun = teller(self._tell, entry.reconfiguration)
        errors = await self._switches.bring(entry.moves, way, within_s=WITHIN_S, on_overrun=on_overrun)
        if errors:
            why = switching.joined(errors)
            before = self._tried.get(entry.reconfiguration)
            waits = all(isinstance(error, LinkError) for error in errors)
            if before is None or before.why != why:
                level = logging.INFO if waits else logging.WARNING  # at each start, until the switches are connected
                log.log(level, "journal: %s (%s) stays open: %s", entry.reconfiguration, entry.what, why)
                self._tell(
                    "journal.open", reconfiguration=entry.reconfiguration, run=entry.run, what=entry.what, why=why
                )
            self._tried[entry.reconfiguration] = _Tried(why=why, waits=waits, wall_ns=self._clock.wall_ns())
            return
        last = self._tried.pop(entry.reconfiguration, None)
        outcome = Outcome.CONFIRMED if finish else Outcome.ROLLED_BACK
        self.write_end(entry.reconfiguration, outcome)
        self._leases.let_go(entry.reconfiguration)
        why = "a switch could not be driven" if last is None else last.why
        if entry.reconfiguration in self._of_an_earlier_life:
            why = "the daemon ended before it did"
        if not finish:
            why = ". ".join([why, *switching.lasting_remarks(entry.moves)])
        self._tell("daemon.recovered", reconfiguration=entry.reconfiguration, run=entry.run, outcome=outcome, why=why)
        log.info("journal: %s (%s) is %s: %s", entry.reconfiguration, entry.what, outcome, why)
