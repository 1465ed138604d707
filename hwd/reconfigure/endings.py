"""The ends of reconfigurations: confirmed, rolled back, or rolled back by itself when nobody confirms in time."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, MutableMapping, Sequence

from hwd.model.instant import Origin
from hwd.model.plan import SwitchMoves
from hwd.reconfigure import switching
from hwd.reconfigure.driving import Tell
from hwd.reconfigure.host_settings import HostSettings
from hwd.reconfigure.leases import Leases
from hwd.reconfigure.observing import Observing
from hwd.reconfigure.overrun import teller, unknown_overrun
from hwd.reconfigure.reconfiguration import Outcome, Reconfiguration, State
from hwd.reconfigure.recovery import Recovery
from hwd.reconfigure.switches import Switches
from hwd.reconfigure.turns import Turns
from hwd.timeline.build import build_timeline
from hwd.timeline.timeline import Timeline
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import FailedError, HwdError, RefusedError
from hwd_drivers.core.values import CrossconnectReading

ROLL_BACK_WITHIN_S = 3.5
"""For the switches to be back; after it the journal keeps the reconfiguration open. With the time that agents are waited for an abort ends within 5 s."""

log = logging.getLogger(__name__)


class Endings:
    """Brings each reconfiguration to its one end, and takes it out of `under_way` then. `to` sets the state of a reconfiguration and tells it."""

    def __init__(
        self,
        *,
        under_way: MutableMapping[str, Reconfiguration],
        switches: Switches,
        observing: Observing,
        recovery: Recovery,
        leases: Leases,
        turns: Turns,
        host_settings: HostSettings,
        switch_origins: Mapping[str, Origin],
        clock: Clock,
        tell: Tell,
        to: Callable[[Reconfiguration, State], None],
    ) -> None:
        self._under_way = under_way
        self._switches = switches
        self._observing = observing
        self._recovery = recovery
        self._leases = leases
        self._turns = turns
        self._host_settings = host_settings
        self._switch_origins = switch_origins
        self._clock = clock
        self._tell = tell
        self._to = to
        self._moved_ns: dict[str, int] = {}
        self._unwritten: dict[str, Reconfiguration] = {}
        """As they were asked for, and confirmed as soon as the journal takes that."""
        self._confirm_timers: dict[str, asyncio.Task[None]] = {}

    async def await_confirm(self, reconfiguration: Reconfiguration, *, within_s: float) -> None:
        """From here it goes back by itself after `within_s` seconds, unless `confirm` comes first; returns at once.

        Raises RefusedError where it has been confirmed or rolled back already.
        """
        if reconfiguration.ending is not None or reconfiguration.state is State.ENDED:
            raise RefusedError(
                f"reconfiguration {reconfiguration.id}: somebody has ended it already, {reconfiguration}"
            )

        async def expire() -> None:
            await asyncio.sleep(within_s)
            await self.roll_back(reconfiguration, f"not confirmed within {within_s:g} s")

        reconfiguration.confirm_by_s = asyncio.get_running_loop().time() + within_s
        self._to(reconfiguration, State.AWAITING_CONFIRM)
        self._confirm_timers[reconfiguration.id] = asyncio.create_task(
            expire(), name=f"hwd:reconfigure/confirm-{reconfiguration.id}"
        )

    async def confirm(self, reconfiguration: Reconfiguration) -> None:
        """The wanted state stays, durably. Raises RefusedError where it is on its way back already, FailedError where the journal does not take it yet: then it stays
        as it is, and is confirmed as soon as the journal does."""
        if reconfiguration.outcome is not None:
            raise RefusedError(f"reconfiguration {reconfiguration.id}: has ended already, {reconfiguration.outcome}")
        if reconfiguration.id in self._unwritten:  # asked for once more
            self._recovery.write_ends()
            self.finish_written()
        elif reconfiguration.ending is None and not reconfiguration.hosts:
            self._stop_timer(reconfiguration)
            self._confirm(reconfiguration)  # nobody is to be asked: nothing can come between
        elif reconfiguration.ending is None:
            self._begin_end(reconfiguration, State.CONFIRMING, self._end_confirmed(reconfiguration))
        elif reconfiguration.back_since_ns is not None:
            raise RefusedError(f"reconfiguration {reconfiguration.id}: too late, it is being rolled back")
        await self.reached(reconfiguration)
        if reconfiguration.id in self._unwritten:
            raise FailedError(
                f"reconfiguration {reconfiguration.id}: stands as it was asked for, and is not confirmed yet: {reconfiguration.why}"
            )

    def finish_written(self) -> None:
        """Those are confirmed now that were not because the journal did not take it, where it has."""
        for reconfiguration in list(self._unwritten.values()):
            if self._recovery.is_written(reconfiguration.id):
                del self._unwritten[reconfiguration.id]
                self._finish(reconfiguration, Outcome.CONFIRMED, "")

    async def roll_back(self, reconfiguration: Reconfiguration, why: str) -> None:
        """Back to the state read at the start; where it is being confirmed already, that stands.

        Does not raise for switches that cannot be driven: then the outcome is `failed`, and the journal keeps it. Who is cancelled here only waits no more.
        """
        if reconfiguration.id in self._unwritten:
            return
        if reconfiguration.ending is None and reconfiguration.state is not State.ENDED:
            reconfiguration.back_since_ns = self._clock.monotonic_ns()
            self._begin_end(reconfiguration, State.ROLLING_BACK, self._go_back(reconfiguration, why))
        await self.reached(reconfiguration)

    async def reached(self, reconfiguration: Reconfiguration) -> None:
        """Wait for the end that has begun; returns at once where none has."""
        if reconfiguration.ending is not None:
            await asyncio.shield(reconfiguration.ending)

    # --- parts

    def _begin_end(self, reconfiguration: Reconfiguration, state: State, end: Coroutine[None, None, None]) -> None:
        """From here there is one end, and nobody's cancelling reaches it."""
        self._stop_timer(reconfiguration)
        self._to(reconfiguration, state)
        reconfiguration.end_by(asyncio.create_task(end, name=f"hwd:reconfigure/end-{reconfiguration.id}"))

    def _stop_timer(self, reconfiguration: Reconfiguration) -> None:
        timer = self._confirm_timers.pop(reconfiguration.id, None)
        if timer is not None and timer is not asyncio.current_task():
            timer.cancel()

    async def _go_back(self, reconfiguration: Reconfiguration, why: str) -> None:
        outcome, said = Outcome.FAILED, f"{why}; the roll-back broke off"
        unanswered_s = dict(reconfiguration.unanswered_s)

        def way(move: SwitchMoves, now: Sequence[CrossconnectReading]) -> SwitchMoves:
            if switching.is_untouched(move, now):
                unanswered_s.pop(move.switch, None)
            return switching.way_back(move, now)

        try:
            errors: dict[str, HwdError] = {}
            if reconfiguration.journaled:
                errors = await self._switches.bring(
                    reconfiguration.plan.moves,
                    way,
                    within_s=ROLL_BACK_WITHIN_S,
                    on_overrun=teller(self._tell, reconfiguration.id, reconfiguration.remarks),
                )
            reconfiguration.remarks += map(unknown_overrun, unanswered_s, unanswered_s.values())
            if errors:
                reconfiguration.not_back = tuple(errors)
                said = f"{why}. Not rolled back: {self._switches.joined(errors, said=why)}"
            else:
                outcome, said = Outcome.ROLLED_BACK, why
                if reconfiguration.journaled:
                    reconfiguration.remarks += switching.lasting_remarks(reconfiguration.plan.moves)
                    gone = switching.gone_remarks(reconfiguration.plan.moves, self._switches.latest())
                    reconfiguration.remarks += gone
                    said = ". ".join([why, *gone])
        finally:
            await self._end(reconfiguration, outcome, said)

    async def _end(self, reconfiguration: Reconfiguration, outcome: Outcome, why: str) -> None:
        try:
            await self._observing.settle(reconfiguration)
        finally:
            self._finish(reconfiguration, outcome, why)

    async def _end_confirmed(self, reconfiguration: Reconfiguration) -> None:
        try:
            await self._observing.settle(reconfiguration)
        finally:
            self._confirm(reconfiguration)

    def _confirm(self, reconfiguration: Reconfiguration) -> None:
        """It has ended when that is durable, and not before: a crash would take it back."""
        if reconfiguration.journaled and (why := self._recovery.write_end(reconfiguration.id, Outcome.CONFIRMED)):
            reconfiguration.why = why
            self._unwritten[reconfiguration.id] = reconfiguration
            if reconfiguration.state is not State.CONFIRMING:
                self._to(reconfiguration, State.CONFIRMING)
        else:
            self._finish(reconfiguration, Outcome.CONFIRMED, "")

    def _finish(self, reconfiguration: Reconfiguration, outcome: Outcome, why: str) -> None:
        try:
            if reconfiguration.commanded or reconfiguration.events:
                reconfiguration.timeline = self._timeline(reconfiguration)
                self._tell("timeline", **reconfiguration.timeline.to_data())
        finally:
            reconfiguration.outcome, reconfiguration.why = outcome, why
            stays_open = reconfiguration.journaled and outcome is Outcome.FAILED
            if reconfiguration.journaled and outcome is Outcome.ROLLED_BACK:
                self._recovery.write_end(reconfiguration.id, outcome)
            if not stays_open:
                self._leases.let_go(reconfiguration.id)
            reconfiguration.state = State.ENDED
            self._under_way.pop(reconfiguration.id, None)
            self._turns.release(reconfiguration.id)
            if outcome is not Outcome.CONFIRMED:
                level = logging.WARNING if outcome is Outcome.FAILED else logging.INFO
                log.log(level, "%s (%s): %s: %s", reconfiguration.id, reconfiguration.plan.what, outcome, why)
            self._tell(
                "reconfiguration.ended",
                reconfiguration=reconfiguration.id,
                run=reconfiguration.run,
                what=reconfiguration.plan.what,
                outcome=outcome,
                why=why,
                seconds=(self._clock.monotonic_ns() - reconfiguration.started_ns) / 1e9,
                remarks=[*reconfiguration.remarks],
            )

    def _timeline(self, reconfiguration: Reconfiguration) -> Timeline:
        moved = [str(planned.routed.link) for planned in reconfiguration.plan.links if not planned.kept]
        timeline = build_timeline(
            started=reconfiguration.started,
            commanded=reconfiguration.commanded,
            events=reconfiguration.events,
            sampled=reconfiguration.sampled,
            switch_origins=self._switch_origins,
            actions=self._host_settings.actions,
            clock_steps=reconfiguration.clock_steps,
            dwells_s={
                link: (reconfiguration.started_ns - self._moved_ns[link]) / 1e9
                for link in moved
                if link in self._moved_ns
            },
        )
        dark = map(str, reconfiguration.plan.dark)
        self._moved_ns |= dict.fromkeys([*moved, *dark], reconfiguration.started_ns)
        return timeline
