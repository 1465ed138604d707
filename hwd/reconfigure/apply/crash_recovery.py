"""Crash recovery: undoes every reconfiguration that the journal still has open, but for those that await a confirm.

A switch of a prepared set is finished where the rule of its set says so.

A try that fails is repeated until it succeeds or an operator gives the reconfiguration up.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from msgspec import UNSET

from hwd.fabric.state import State
from hwd.model.daemon import DaemonRecovered, JournalGivenUp, JournalOpen
from hwd.model.link import SwitchCrossconnect
from hwd.model.reconfiguration import (
    LeftOpen,
    ReconfigurationEnded,
)
from hwd.ports.claim import Claim, holder_of
from hwd.ports.ledger import Ledger
from hwd.ports.rules import Reason
from hwd.reconfigure.apply.journal_writer import JournalWriter
from hwd.reconfigure.apply.reconfiguration import Outcome
from hwd.reconfigure.apply.remarks import gone_remarks, lasting_remarks, overrun_report
from hwd.reconfigure.apply.switches import Switches
from hwd.reconfigure.journal.entries import OpenEntry
from hwd.reconfigure.plans.planner import changed_crossconnects, moved_ports
from hwd.reconfigure.transfers import Transfers
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import FailedError, LinkError, RefusedError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.values import natural_key
from hwd_drivers.devices.supervisor import NOT_CONNECTED_YET
from hwd_drivers.switching.turns import SwitchTurns
from hwd_drivers.switching.way_back import way_back, way_on

WITHIN_S = 30.0
"""The time limit for one try; no caller waits for it, and another try follows."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _FailedTry:
    """A try that failed at `switches`. `waits`: it failed only because they could not be reached."""

    why: str
    switches: tuple[str, ...]
    waits: bool
    wall_ns: int


class CrashRecovery:
    """Owns what the journal has open, and holds its ports until it is closed."""

    def __init__(
        self,
        *,
        writer: JournalWriter,
        switches: Switches,
        ledger: Ledger,
        transfers: Transfers,
        lit_by: Callable[[Iterable[SwitchCrossconnect], State], frozenset[str]],
        clock: Clock,
        emit: Emitter,
    ) -> None:
        """`lit_by`: NIC ports whose light may pass some crossconnects."""
        self._transfers = transfers
        self._lit_by = lit_by
        self._journal = journal = writer.journal
        self._writer = writer
        self._switches = switches
        self._ledger = ledger
        self._clock = clock
        self._emit = emit
        self._tried: dict[str, _FailedTry] = {}
        self._last_why: dict[str, str] = {}
        self._turns = SwitchTurns("way back")
        self._trying: dict[str, asyncio.Event] = {}
        """The reconfigurations that are tried now; the event tells the end of the try."""
        for reason in (Reason.CUT_OFF, Reason.IN_DOUBT):
            ledger.report_why(reason, self._why_held)
        now = clock.wall_ns()
        self.awaiting = tuple(
            entry for entry in journal.open if entry.terms and entry.wait and entry.wait.left_s(now) > 0
        )
        """The entries that awaited a confirm when the daemon started, and have time left: `Completion` goes on with
        them.
        """
        self._from_before_start = {entry.reconfiguration: entry for entry in journal.open if entry not in self.awaiting}
        for entry in self._from_before_start.values():
            self.claim(entry.reconfiguration, self._ports_of(entry))

    def claim(self, id: str, ports: frozenset[str]) -> None:
        """Claim ports for a reconfiguration that was cut off, and its switches, until it is closed."""
        if (entry := self._journal.open_entry(id)) is None:
            return
        switches = {*self._switches.names, *(move.switch for move in entry.moves)}
        self._ledger.claim(
            Claim(
                id=id,
                reason=_reason(entry),
                owner=_owner(entry),
                ports=ports,
                run=entry.run,
                switches=frozenset(name for name in switches if entry.concerns(name)),
                whole=True,
                what=entry.what,
            )
        )

    def light(self) -> frozenset[str]:
        """The NIC ports whose light ways back may change that are open; those of all hosts while a switch is unread."""
        left = [entry for entry in self._journal.open if not entry.doubt and self._is_left_open(entry)]
        return frozenset().union(*map(self._light_of, left))

    async def recover(self) -> None:
        """Try each one once, those of one switch one after the other; what fails stays open.

        Bugs are raised at the end, so that none blocks the others.
        """
        results = await asyncio.gather(*map(self._try, self._journal.open), return_exceptions=True)
        if bugs := [result for result in results if isinstance(result, Exception)]:
            raise ExceptionGroup("what the journal holds open", bugs)

    def left_open(self) -> tuple[LeftOpen, ...]:
        """What is left open, oldest first."""
        return tuple(
            LeftOpen(
                reconfiguration=entry.reconfiguration,
                run=entry.run,
                what=entry.what,
                why=claim.why,
                tried_wall_ns=tried.wall_ns if (tried := self._tried.get(entry.reconfiguration)) else None,
                goes="nowhere" if entry.doubt else "forward" if self._goes_forward(entry) else "back",
                ports=sorted(claim.ports, key=natural_key),
            )
            for entry in self._journal.open
            if (claim := self._claim_of(entry)) is not None
        )

    def has(self, id: str) -> bool:
        """Whether a reconfiguration is left open."""
        return any(self._ledger.get(reason, id) is not None for reason in (Reason.CUT_OFF, Reason.IN_DOUBT))

    def texts(self) -> dict[str, str]:
        """The obstacle and the remedy of each open reconfiguration, in a sentence."""
        now = self._clock.wall_ns()
        return {claim.id: claim.says(now) for claim in self._ledger.all(Reason.CUT_OFF, Reason.IN_DOUBT)}

    async def give_up(self, id: str, *, by: str, reason: str = "") -> JournalGivenUp:
        """Close one, leave its switches as they are and free its ports, after the end of a try in progress.

        Returns what its document says. Raises RefusedError where it is not left open, and FailedError where the
        journal does not take it: then it stays open.
        """
        while (trying := self._trying.get(id)) is not None:
            await trying.wait()
        return self._give_up(id, by, reason)

    def _give_up(self, id: str, by: str, reason: str) -> JournalGivenUp:
        left = [entry for entry in self._journal.open if self._is_left_open(entry)]
        entry = next((entry for entry in left if entry.reconfiguration == id), None)
        if entry is None:
            under_way = self._ledger.get(Reason.RECONFIGURATION, id)
            way = "it is not left open"
            if under_way is not None:
                way = f"it is under way, asked for by {under_way.owner}; {under_way.why}. `hwd rollback {id}` ends it"
            names = ", ".join(other.reconfiguration for other in left) or "none"
            raise RefusedError(f"reconfiguration {id}: cannot be given up, {way}. Left open: {names}")
        why, carried = entry.doubt or self._why(entry), self._carried_now(entry)
        given_up = JournalGivenUp(
            reconfiguration=id, run=entry.run, what=entry.what, why=why, by=by, reason=reason or UNSET, left=carried
        )
        try:
            self._writer.end(given_up)
        except OSError as error:
            raise FailedError(
                f"reconfiguration {id}: cannot be given up, the journal does not take it: {reason_of(error)}. "
                "It stays open; make room on its disk"
            ) from error
        self._tried.pop(id, None)
        self._last_why.pop(id, None)
        self._release(entry)
        self._emit(given_up)
        left_as = f". Left: {'; '.join(carried)}" if carried else ""
        said = f' ("{reason}")' if reason else ""
        log.warning("journal: %s (%s) was given up by %s%s: %s%s", id, entry.what, by, said, why, left_as)
        return given_up

    def _release(self, entry: OpenEntry) -> None:
        self._ledger.release(_reason(entry), entry.reconfiguration)

    def _claim_of(self, entry: OpenEntry) -> Claim | None:
        """The claim of one that is left open, None for any other: it is in progress, or its end is not written yet."""
        return self._ledger.get(_reason(entry), entry.reconfiguration)

    def _is_left_open(self, entry: OpenEntry) -> bool:
        """Call it again for each entry: another may have been confirmed meanwhile."""
        return self._journal.open_entry(entry.reconfiguration) == entry and self._claim_of(entry) is not None

    def _carried_now(self, entry: OpenEntry) -> list[str]:
        """What its switches reported last at its ends: `ocs1: 1A-4B failed`."""
        latest = self._switches.latest()
        texts: list[str] = []
        for move in entry.moves:
            ends = {end for one in (*move.remove, *move.add) for end in one.ends}
            if not ends:
                continue
            readings = latest.get(move.switch)
            if readings is None:
                texts.append(f"{move.switch}: not read since the daemon began")
                continue
            there = [str(reading) for reading in readings if not ends.isdisjoint(reading.crossconnect.ends)]
            texts.append(f"{move.switch}: {', '.join(there) or 'nothing'}")
        return texts

    def _why_held(self, claim: Claim) -> str:
        entry = self._journal.open_entry(claim.id)
        return claim.why if entry is None else self._why(entry)

    def _why(self, entry: OpenEntry) -> str:
        """The obstacle: as the last try found it, or which switches are unreachable now."""
        if entry.doubt:
            return (
                f"{entry.doubt}. It is not driven by guess: look at its switches, then "
                f"`hwd give-up {entry.reconfiguration}` leaves them as they are, "
                "and `hwd apply` makes of them what you want"
            )
        tried = self._tried.get(entry.reconfiguration)
        if tried is None:
            return "not tried yet"
        if not tried.waits:
            return tried.why
        away = self._switches.away(move.switch for move in entry.moves)
        return "; ".join(away) or "its switches are back, and it is tried anew"

    def _ports_of(self, entry: OpenEntry) -> frozenset[str]:
        """The switch ports of its moves and, where it is to be brought back, the NIC ports whose light that may change.

        The journal has what its switches carried before and after it, so they need not be read for that. Where other
        switches are unread, light may go anywhere behind them.
        """
        ports = moved_ports(entry.moves)
        if entry.doubt:
            return ports
        latest, moved = self._switches.latest(), self._moved(entry)
        before: State = {move.switch: move.before for move in entry.moves}
        after: State = {move.switch: move.after for move in entry.moves}
        stored = None if entry.of_set is None else self._journal.set(entry.of_set.id)
        of_set = frozenset() if stored is None else frozenset(stored.prepared.ports)  # its moves have its ends only
        states: list[State] = [{**latest, **before}, {**latest, **after}, {**before, **latest}]
        return ports.union(of_set, *(self._lit_by(moved, state) for state in states))

    def _light_of(self, entry: OpenEntry) -> frozenset[str]:
        latest = self._switches.latest()
        if self._switches.names and not latest.keys() >= {*self._switches.names}:
            return self._transfers.ports
        return self._lit_by(self._moved(entry), latest)

    def _moved(self, entry: OpenEntry) -> list[SwitchCrossconnect]:
        """Its crossconnects that come or go, but for those of switches that have left the testbed: nobody drives them,
        and their fibres are unknown.
        """
        return [one for one in changed_crossconnects(entry.moves) if one.switch in self._switches.names]

    async def _try(self, entry: OpenEntry) -> None:
        async with self._turns.take({move.switch for move in entry.moves}):
            if not self._is_left_open(entry):
                return
            if entry.doubt:
                self._emit_open(entry, self._why(entry))
                return
            id = entry.reconfiguration
            over = self._trying[id] = asyncio.Event()
            try:
                if id in self._from_before_start:  # more switches are read now
                    self.claim(id, self._ports_of(entry))
                await self._bring(entry)
            finally:
                del self._trying[id]
                over.set()

    async def _bring(self, entry: OpenEntry) -> None:
        moving = [move for move in entry.moves if not move.is_empty]
        down = {move.switch: cause for move in moving if (cause := self._switches.cause(move.switch)) is not None}
        there = [move for move in moving if move.switch not in down]  # one that comes back meanwhile is not drained yet
        cut: list[str] = []
        if there:
            cut = await self._transfers.drain(self._light_of(entry), by=entry.reconfiguration, what=entry.what)
        on_overrun = overrun_report(self._emit, entry.reconfiguration)
        way = way_on if self._goes_forward(entry) else way_back
        brought = await self._switches.bring(there, way, within_s=WITHIN_S, on_overrun=on_overrun)
        brought |= {name: LinkError(f"{name}: the switch is down: {cause}") for name, cause in down.items()}
        errors = [*brought.values()]
        if errors:
            why = "; ".join(map(str, errors))
            waits = all(isinstance(error, LinkError) for error in errors)
            self._emit_open(entry, why, level=logging.INFO if waits else logging.WARNING)
            self._tried[entry.reconfiguration] = _FailedTry(
                why=why, switches=tuple(brought), waits=waits, wall_ns=self._clock.wall_ns()
            )
            return
        last = self._tried.pop(entry.reconfiguration, None)
        self._last_why.pop(entry.reconfiguration, None)
        if self._goes_forward(entry):
            self._finish(entry)
            return
        before = self._from_before_start.get(entry.reconfiguration)
        if before is not None and before.wait is not None:
            why = f"not confirmed within {before.wait.within_s:g} s, which ended while the daemon was away"
        elif before is not None:
            why = "the daemon ended before it did"
        elif last is None:
            why = "a switch could not be driven before"
        else:
            names = ", ".join(last.switches)
            why = f"{names} could not be {'reached' if last.waits else 'driven'} before, and can be now"
        gone = gone_remarks(entry.moves, self._switches.latest())
        why = ". ".join([why, *lasting_remarks(entry.moves), *gone, *cut])
        fact = DaemonRecovered(
            reconfiguration=entry.reconfiguration, run=entry.run, outcome=Outcome.ROLLED_BACK, why=why
        )
        self._close(entry, fact)

    def _goes_forward(self, entry: OpenEntry) -> bool:
        """A failure of this process goes back; only what a crash cut off may be finished."""
        is_cut_off = entry.reconfiguration in self._from_before_start
        return is_cut_off and entry.of_set is not None and entry.of_set.forward

    def _finish(self, entry: OpenEntry) -> None:
        """Close a switch of a prepared set that was brought to its target."""
        assert entry.of_set is not None
        began = entry.started
        fact = ReconfigurationEnded(
            reconfiguration=entry.reconfiguration,
            run=entry.run,
            what=entry.what,
            outcome=Outcome.CONFIRMED,
            why=f"the daemon ended before it did; finished by the rule of prepared set {entry.of_set.id}",
            seconds=0.0 if began is None else max(0, self._clock.wall_ns() - began.wall_ns) / 1e9,
            wanted=[*entry.wanted],
        )
        self._close(entry, fact)

    def _close(self, entry: OpenEntry, fact: DaemonRecovered | ReconfigurationEnded) -> None:
        self._writer.write_end(fact)
        self._release(entry)
        self._emit(fact)
        log.info("journal: %s (%s) is %s: %s", entry.reconfiguration, entry.what, fact.outcome, fact.why)

    def _emit_open(self, entry: OpenEntry, why: str, *, level: int = logging.WARNING) -> None:
        """Emit `journal.open`, once for each new reason."""
        if self._last_why.get(entry.reconfiguration) != why:
            log.log(level, "journal: %s (%s) %s", entry.reconfiguration, entry.what, self._open_text(entry, why))
            self._emit(
                JournalOpen(
                    reconfiguration=entry.reconfiguration,
                    run=entry.run,
                    what=entry.what,
                    why=why,
                    held=bool(entry.doubt),
                )
            )
        self._last_why[entry.reconfiguration] = why

    def _open_text(self, entry: OpenEntry, why: str) -> str:
        """Say why an entry stays open. At the start of the daemon its switches are being connected: nothing is wrong
        yet.
        """
        away = self._switches.away(move.switch for move in entry.moves)
        if away and not entry.doubt and all(one.endswith(f": {NOT_CONNECTED_YET}") for one in away):
            return f"is brought in order once its switches are connected: {', '.join(away)}"
        return f"stays open: {why}"


def _reason(entry: OpenEntry) -> Reason:
    return Reason.IN_DOUBT if entry.doubt else Reason.CUT_OFF


def _owner(entry: OpenEntry) -> str:
    if entry.run is not None:
        return holder_of(entry.run)
    return "who asked for it" if entry.started is None else entry.started.fact.by or "who asked for it"
