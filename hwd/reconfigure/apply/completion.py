"""The completion of a reconfiguration: confirmed, rolled back on request, or rolled back without a confirm in time."""

import asyncio
import logging
from collections.abc import Coroutine, Sequence

from msgspec import UNSET, structs

from hwd.model.reconfiguration import ReconfigurationEnded
from hwd.model.timeline import Timeline
from hwd.ports.ledger import Ledger
from hwd.ports.rules import Reason
from hwd.reconfigure.apply.agent_watch import AgentWatch
from hwd.reconfigure.apply.confirm_wait import ConfirmWait
from hwd.reconfigure.apply.crash_recovery import CrashRecovery
from hwd.reconfigure.apply.journal_writer import JournalWriter
from hwd.reconfigure.apply.ready_wait import not_ready_error
from hwd.reconfigure.apply.reconfiguration import Emitter, Outcome, Reconfiguration, State
from hwd.reconfigure.apply.remarks import gone_remarks, lasting_remarks, overrun_report, unknown_overrun
from hwd.reconfigure.apply.switches import Switches, raise_joined, same_fault
from hwd.reconfigure.desired.desired_state import DesiredState
from hwd.reconfigure.desired.history import HostSettings
from hwd.reconfigure.journal.entries import OpenEntry
from hwd.reconfigure.plans.device_times import measured
from hwd.reconfigure.transfers import Transfers
from hwd.timeline.build import build_timeline
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import BugError, FailedError, HwdError, NotReadyError, RefusedError
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.values import CrossconnectReading
from hwd_drivers.switching.drive import at_once
from hwd_drivers.switching.moves import ApplyMode, SwitchMoves
from hwd_drivers.switching.read_back import read_back
from hwd_drivers.switching.way_back import is_untouched, way_back

ROLL_BACK_WITHIN_S = 3.5
"""The time limit for a roll-back; after it the journal keeps the reconfiguration open.

An abort takes 5 s at most: this, and the answers of agents.
"""

log = logging.getLogger(__name__)


class Completion:
    """Ends each reconfiguration, exactly once, and then removes it from `under_way`.

    Of those that await a confirm it stops the time, over restarts of the daemon too.
    """

    def __init__(
        self,
        *,
        switches: Switches,
        agent_watch: AgentWatch,
        writer: JournalWriter,
        recovery: CrashRecovery,
        ledger: Ledger,
        host_settings: HostSettings,
        desired: DesiredState,
        transfers: Transfers,
        clock: Clock,
        emitter: Emitter,
    ) -> None:
        self.under_way: dict[str, Reconfiguration] = {}
        self._switches = switches
        self._agent_watch = agent_watch
        self._writer = writer
        self._recovery = recovery
        self._ledger = ledger
        self._host_settings = host_settings
        self._desired = desired
        self._transfers = transfers
        self._clock = clock
        self._emitter = emitter
        self._moved_ns: dict[str, int] = {}
        self._unwritten: dict[str, Reconfiguration] = {}
        """Reconfigurations that are confirmed as soon as the journal can write it."""
        self._confirm_timers: dict[str, asyncio.Task[None]] = {}
        self._taken_over: list[Reconfiguration] = []
        """The reconfigurations of an earlier process whose time is not stopped yet."""

    async def await_confirm(self, reconfiguration: Reconfiguration) -> None:
        """Roll it back after the `confirm_within_s` of its plan, unless `confirm` comes first; returns at once.

        That is in the journal before it is emitted, so that it holds for the next process of the daemon too: see
        `take_over`. Raises RefusedError where it has been confirmed or rolled back already, and FailedError where the
        journal does not take it, after the roll-back.
        """
        if reconfiguration.ending is not None or reconfiguration.state is State.ENDED:
            raise RefusedError(
                f"reconfiguration {reconfiguration.id}: somebody has ended it already, {reconfiguration}"
            )
        within_s = reconfiguration.plan.confirm_within_s
        if within_s is None:
            raise BugError(f"reconfiguration {reconfiguration.id}: its plan awaits no confirm")
        if not reconfiguration.journaled:
            raise BugError(f"reconfiguration {reconfiguration.id}: is to await a confirm and is not in the journal")
        now, passed_ns = self._clock.wall_ns(), self._clock.monotonic_ns() - reconfiguration.started_ns
        wait = ConfirmWait(
            started_wall_ns=now - passed_ns, until_wall_ns=now + round(within_s * 1e9), within_s=within_s
        )
        try:
            self._writer.await_confirm(reconfiguration.id, wait)
        except OSError as error:
            why = f"journal: that it awaits its confirm cannot be written: {reason_of(error)}"
            await self.roll_back(reconfiguration, why)
            raise FailedError(
                f"reconfiguration {reconfiguration.id}: {why}. Outcome: {reconfiguration.outcome}. "
                "Look at the disk of the data directory, and ask again"
            ) from error
        reconfiguration.confirm_by_s = asyncio.get_running_loop().time() + within_s
        self._start_timer(reconfiguration)

    def take_over(self, entry: OpenEntry) -> None:
        """Take one over that awaited its confirm when an earlier process of the daemon ended. `resume` comes later.

        Its links count as ready where that was waited for: what the agents saw while the daemon was away comes later,
        and neither confirms nor ends anything.
        """
        terms, wait, now = entry.terms, entry.wait, self._clock.wall_ns()
        if terms is None or wait is None:
            raise BugError(f"reconfiguration {entry.reconfiguration}: the journal says nothing of its wait")
        self._ledger.claim(terms.claim(id=entry.reconfiguration, run=entry.run, what=entry.what))
        reconfiguration = Reconfiguration(
            id=entry.reconfiguration,
            plan=terms.plan(what=entry.what, hash=entry.hash, moves=entry.moves),
            run=entry.run,
            started_ns=self._clock.monotonic_ns() - max(0, now - wait.started_wall_ns),
            read_ns={},
            journaled=True,
            resumed=True,
            wanted=entry.wanted,
            state=State.AWAITING_CONFIRM,
            confirm_by_s=asyncio.get_running_loop().time() + wait.left_s(now),
        )
        if terms.ready_within_s is not None:
            reconfiguration.assume_ready()
        self.under_way[reconfiguration.id] = reconfiguration
        self._taken_over.append(reconfiguration)

    def resume(self) -> None:
        """Go on with the waits that were taken over, when the sinks listen. Later calls do nothing."""
        for one in self._taken_over:
            if one.state is State.AWAITING_CONFIRM:
                log.info("%s (%s): awaits its confirm for another %.0f s", one.id, one.plan.what, self._left_s(one))
                self._start_timer(one)
        self._taken_over.clear()

    def leave(self, reconfiguration: Reconfiguration) -> bool:
        """Leave one to the next process of the daemon that awaits its confirm; returns whether that can be."""
        if reconfiguration.state is not State.AWAITING_CONFIRM or not self._writer.awaits_confirm(reconfiguration.id):
            return False
        self._stop_timer(reconfiguration)
        log.info("%s: the next start goes on waiting for its confirm", reconfiguration)
        return True

    async def confirm(self, reconfiguration: Reconfiguration) -> None:
        """Make the wanted state durable.

        What has waited for it is read back first: others may have changed it, or a restart of a switch.

        Raises RefusedError where the switches do not report it any more, where its time is over and where it is being
        rolled back; LinkError where a switch is away; FailedError where the journal does not take it yet: then the
        switches stay as they are, and it is confirmed as soon as the journal does.
        """
        if reconfiguration.state is State.AWAITING_CONFIRM:
            await self._check_carried(reconfiguration)
            if reconfiguration.outcome is Outcome.CONFIRMED:
                return  # by another request, during the read
        if reconfiguration.outcome is not None:
            raise RefusedError(f"reconfiguration {reconfiguration.id}: has ended already, {reconfiguration.outcome}")
        if reconfiguration.state is State.AWAITING_CONFIRM and self._left_s(reconfiguration) <= 0:
            raise RefusedError(f"reconfiguration {reconfiguration.id}: too late, its time to be confirmed is over")
        if reconfiguration.id in self._unwritten:  # a repeated request
            self._writer.write_ends()
            self.finish_written()
        elif reconfiguration.ending is None and not reconfiguration.is_watched:
            self._stop_timer(reconfiguration)
            self._confirm(reconfiguration)  # no agent has to answer, so this cannot be interrupted
        elif reconfiguration.ending is None:
            self._begin_end(reconfiguration, State.CONFIRMING, self._end_confirmed(reconfiguration))
        elif reconfiguration.back_since_ns is not None:
            raise RefusedError(f"reconfiguration {reconfiguration.id}: too late, it is being rolled back")
        await self.wait_end(reconfiguration)
        if reconfiguration.id in self._unwritten:
            raise FailedError(
                f"reconfiguration {reconfiguration.id}: stands as it was asked for, and is not confirmed yet: "
                f"{reconfiguration.why}"
            )

    def finish_written(self) -> None:
        """Confirm those that waited for the journal, where it has taken them now."""
        for reconfiguration in list(self._unwritten.values()):
            if self._writer.is_written(reconfiguration.id):
                del self._unwritten[reconfiguration.id]
                self._finish(reconfiguration, Outcome.CONFIRMED, "")

    async def roll_back(self, reconfiguration: Reconfiguration, why: str) -> None:
        """Bring the switches back to the state read at the start, unless it is being confirmed already.

        Does not raise for switches that cannot be driven: then the outcome is `failed`, and the journal keeps it open.
        To cancel this call ends the wait only, not the roll-back.
        """
        if reconfiguration.id in self._unwritten:
            return
        if reconfiguration.ending is None and reconfiguration.state is not State.ENDED:
            reconfiguration.back_since_ns = self._clock.monotonic_ns()
            self._begin_end(reconfiguration, State.ROLLING_BACK, self._go_back(reconfiguration, why))
        await self.wait_end(reconfiguration)

    async def go_back_from(self, reconfiguration: Reconfiguration, error: BaseException) -> None:
        """Bring the switches back after a drive that failed; raises its error with the outcome, where that is one of
        ours.
        """
        why = str(error) if isinstance(error, HwdError) else repr(error)
        await self.roll_back(reconfiguration, "aborted" if isinstance(error, asyncio.CancelledError) else why)
        if not isinstance(error, HwdError):
            return
        if isinstance(error, NotReadyError):  # in a step before the last
            raise not_ready_error(reconfiguration) from error
        after = reconfiguration.outcome or Outcome.FAILED
        raise same_fault(
            error, f"{error}. Outcome: {after}{'' if after is Outcome.ROLLED_BACK else f' ({reconfiguration.why})'}"
        ) from error

    async def wait_end(self, reconfiguration: Reconfiguration) -> None:
        """Wait for the end, if one has begun."""
        if reconfiguration.ending is not None:
            await asyncio.shield(reconfiguration.ending)

    # --- parts

    def _start_timer(self, reconfiguration: Reconfiguration) -> None:
        async def expire() -> None:
            await asyncio.sleep(self._left_s(reconfiguration))
            await self.roll_back(reconfiguration, f"not confirmed within {reconfiguration.plan.confirm_within_s:g} s")

        self._emitter.change_state(reconfiguration, State.AWAITING_CONFIRM)
        self._transfers.set_at_rest(reconfiguration.id, True)
        self._confirm_timers[reconfiguration.id] = asyncio.create_task(
            expire(), name=f"hwd:reconfigure/confirm-{reconfiguration.id}"
        )

    def _left_s(self, reconfiguration: Reconfiguration) -> float:
        by_s = reconfiguration.confirm_by_s
        return float("inf") if by_s is None else max(0.0, by_s - asyncio.get_running_loop().time())

    async def _check_carried(self, reconfiguration: Reconfiguration) -> None:
        """Raises RefusedError where switches do not report any more what was driven, LinkError where one is away."""
        plan = reconfiguration.plan
        moves = [move for move in plan.moves if move.add or move.remove or move.keep]

        async def check(move: SwitchMoves) -> None:
            await read_back(self._switches.driver(move.switch), move, alone=plan.mode is ApplyMode.OVERWRITE)

        errors = await at_once(moves, check)
        different = [error for error in errors if isinstance(error, FailedError)]
        if different:
            raise RefusedError(
                f"reconfiguration {reconfiguration.id}: not confirmed: {'; '.join(map(str, different))}. "
                "That changed while it waited for its confirm. Put it right, "
                f"or `hwd rollback {reconfiguration.id}` brings back what was before it"
            )
        raise_joined(errors)

    def _begin_end(self, reconfiguration: Reconfiguration, state: State, end: Coroutine[None, None, None]) -> None:
        """Start the one task that ends it; no caller can cancel that."""
        self._stop_timer(reconfiguration)
        if state is State.ROLLING_BACK:
            self._transfers.set_at_rest(reconfiguration.id, False)
            self._writer.go_back(reconfiguration.id)
        self._emitter.change_state(reconfiguration, state)
        reconfiguration.end_by(asyncio.create_task(end, name=f"hwd:reconfigure/end-{reconfiguration.id}"))

    def _stop_timer(self, reconfiguration: Reconfiguration) -> None:
        timer = self._confirm_timers.pop(reconfiguration.id, None)
        if timer is not None and timer is not asyncio.current_task():
            timer.cancel()

    async def _go_back(self, reconfiguration: Reconfiguration, why: str) -> None:
        if steps := reconfiguration.steps_text:
            why = f"{why}. Of its plan, {steps}"
        outcome, said = Outcome.FAILED, f"{why}; the roll-back broke off"
        unanswered_s = dict(reconfiguration.unanswered_s)

        def way(move: SwitchMoves, now: Sequence[CrossconnectReading]) -> SwitchMoves:
            if is_untouched(move, now):
                unanswered_s.pop(move.switch, None)
            return way_back(move, now)

        try:
            errors: dict[str, HwdError] = {}
            if reconfiguration.journaled:
                touched = reconfiguration.plan.touches
                reconfiguration.remarks += await self._transfers.drain(
                    touched, by=reconfiguration.id, what=f"back from {reconfiguration.plan.what}"
                )
                errors = await self._switches.bring(
                    reconfiguration.plan.moves,
                    way,
                    within_s=ROLL_BACK_WITHIN_S,
                    on_overrun=overrun_report(self._emitter, reconfiguration.id, reconfiguration.remarks),
                )
            reconfiguration.remarks += map(unknown_overrun, unanswered_s, unanswered_s.values())
            if errors:
                reconfiguration.not_back = tuple(errors)
                said = f"{why}. Not rolled back: {self._switches.error_text(errors, said=why)}"
            else:
                outcome, said = Outcome.ROLLED_BACK, why
                if reconfiguration.journaled:
                    reconfiguration.remarks += lasting_remarks(reconfiguration.plan.moves)
                    gone = gone_remarks(reconfiguration.plan.moves, self._switches.latest())
                    reconfiguration.remarks += gone
                    said = ". ".join([why, *gone])
        finally:
            try:
                if reconfiguration.is_watched:
                    await self._agent_watch.settle(reconfiguration)
            finally:
                self._finish(reconfiguration, outcome, said)

    async def _end_confirmed(self, reconfiguration: Reconfiguration) -> None:
        try:
            await self._agent_watch.settle(reconfiguration)
        finally:
            self._confirm(reconfiguration)

    def _confirm(self, reconfiguration: Reconfiguration) -> None:
        """End it as soon as the confirm is durable, not before: a crash would roll it back."""
        end = self._end_fact(reconfiguration, Outcome.CONFIRMED, "")
        if reconfiguration.journaled and (why := self._writer.write_end(end)):
            reconfiguration.why = why
            self._unwritten[reconfiguration.id] = reconfiguration
            if reconfiguration.state is not State.CONFIRMING:
                self._emitter.change_state(reconfiguration, State.CONFIRMING)
        else:
            self._finish(reconfiguration, Outcome.CONFIRMED, "", end)

    def _finish(
        self, reconfiguration: Reconfiguration, outcome: Outcome, why: str, end: ReconfigurationEnded | None = None
    ) -> None:
        """`end`: what the journal has of it already."""
        try:
            if not reconfiguration.resumed and (reconfiguration.commanded or reconfiguration.events):
                reconfiguration.timeline = self._timeline(reconfiguration)
                self._emitter(reconfiguration.timeline)
        finally:
            reconfiguration.outcome, reconfiguration.why = outcome, why
            stays_open = reconfiguration.journaled and outcome is Outcome.FAILED
            end = end or self._end_fact(reconfiguration, outcome, why)
            if reconfiguration.journaled and outcome is Outcome.ROLLED_BACK:
                self._writer.write_end(end)
            reconfiguration.state = State.ENDED
            self.under_way.pop(reconfiguration.id, None)
            if stays_open:
                self._recovery.claim(reconfiguration.id, reconfiguration.plan.touches)
            self._ledger.release(Reason.RECONFIGURATION, reconfiguration.id)
            if outcome is not Outcome.CONFIRMED:
                level = logging.WARNING if outcome is Outcome.FAILED else logging.INFO
                log.log(level, "%s (%s): %s: %s", reconfiguration.id, reconfiguration.plan.what, outcome, why)
            timeline, predicted = reconfiguration.timeline, reconfiguration.plan.prediction
            if timeline is not None and predicted is not None:
                end = structs.replace(end, prediction=measured(timeline, predicted))
            self._emitter(end)

    def _end_fact(self, reconfiguration: Reconfiguration, outcome: Outcome, why: str) -> ReconfigurationEnded:
        wanted = reconfiguration.wanted if outcome is Outcome.CONFIRMED else None
        if wanted is not None:
            reconfiguration.leftovers = self._desired.leftovers(reconfiguration.id, wanted, self._switches.latest())
        return ReconfigurationEnded(
            reconfiguration=reconfiguration.id,
            run=reconfiguration.run,
            what=reconfiguration.plan.what,
            outcome=outcome,
            why=why,
            seconds=(self._clock.monotonic_ns() - reconfiguration.started_ns) / 1e9,
            remarks=[*reconfiguration.remarks],
            hangs=[*reconfiguration.hangs] or UNSET,
            wanted=UNSET if wanted is None else [*wanted],
            stale=[*reconfiguration.leftovers.stale] or UNSET,
            unasked=[*reconfiguration.leftovers.unasked] or UNSET,
        )

    def _timeline(self, reconfiguration: Reconfiguration) -> Timeline:
        moved = [planned.routed.link for planned in reconfiguration.plan.links if not planned.kept]
        timeline = build_timeline(
            started=reconfiguration.started,
            commanded=reconfiguration.commanded,
            events=reconfiguration.events,
            sampled=reconfiguration.sampled,
            switch_origins=self._switches.origins,
            actions=self._host_settings.actions,
            clock_steps=reconfiguration.clock_steps,
            dwells_s={
                link: (reconfiguration.started_ns - self._moved_ns[link]) / 1e9
                for link in moved
                if link in self._moved_ns
            },
        )
        self._moved_ns |= dict.fromkeys([*moved, *reconfiguration.plan.dark], reconfiguration.started_ns)
        return timeline
