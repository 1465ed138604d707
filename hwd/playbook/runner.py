"""The runner: one run of one playbook, from the first step to a named end.

A run ends as succeeded, failed (with the class of its fault) or aborted. A run that a crash of the daemon cut off is
closed as crashed by the records.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass

from hwd.config.playbook.expression import names_in
from hwd.config.playbook.measurement_names import stages_of
from hwd.config.playbook.playbook import Playbook
from hwd.config.playbook.steps import AssertStep, NoteStep, Step, below, longest_lease_s, total_applies, total_dwell_s
from hwd.model.fault import Clear
from hwd.model.recorded_run import RunOutcome
from hwd.model.run_facts import RunFault
from hwd.model.stage import StageName
from hwd.playbook.lane import Brake, Lane, LaneContext
from hwd.playbook.measures import Tally
from hwd.playbook.run_access import RunAccess
from hwd.playbook.safe_state import SafeState, SafeStates, left_by
from hwd.ports.testbed_ports import all_ports
from hwd.reconfigure.apply.reconfiguration import State
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import BugError, FailedError, HwdError

END_WITHIN_S = 4.6
"""The time limit for undoing all changes of a run, so that an abort takes 5 s at most."""
STOPPED_WITHIN_S = 1.0
"""The time limit for the steps to stop. What hangs longer, as in records that do not answer, is left behind: the
switches come first, and what hung does nothing more when it goes on."""
CLEARED_WITHIN_S = 0.3
"""The time limit for clearing faults of twins before switches are rolled back; it usually takes a millisecond."""

RELEASED_WITHIN_S = 0.2
"""The least time that the releases of leases get, which as a rule take none."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """How a run ended. `fault` is what stopped it, None where it succeeded or was aborted."""

    outcome: RunOutcome
    why: str
    safe_state: SafeState
    fault: HwdError | None = None


def why_failed(fault: HwdError) -> str:
    """Why a run failed. The class of the fault is named where it says more than `failed`."""
    return str(fault) if fault.title == RunOutcome.FAILED else f"{fault.title}: {fault}"


class Runner:
    """One run of one playbook. Call `go` once; `abort`, `pause` and `resume` at any time."""

    def __init__(self, id: str, playbook: Playbook, access: RunAccess) -> None:
        self.id = id
        self.playbook = playbook
        self.end: RunEnd | None = None
        self.total_steps = playbook.total_steps
        self._access = access
        self._reconfigurer = access.reconfigurer
        self._clock = access.clock
        self._emit = Emitter(access.clock, access.sink)
        self._brake = Brake()
        self._shared = LaneContext(
            run=id,
            access=access,
            all_ports=all_ports(access.in_use.testbed),
            tally=Tally(_asked_of_run(playbook)),
            brake=self._brake,
            emit=self._emit,
            started_ns=access.clock.monotonic_ns(),
            total_steps=self.total_steps,
            expected_s=self._expected_s,
        )
        self._applies = total_applies(playbook.steps)
        self._dwell_s = total_dwell_s(playbook.steps)
        self._aborted_by: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._clearing: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()
        self._stopped_s: float | None = None
        self.waits_for = "its steps"
        """What has to end before the run does."""

    @property
    def ports(self) -> frozenset[str]:
        """The ports that the run may claim: `ocs1.3`, `h0.eth0`."""
        return self.playbook.ports

    @property
    def span_s(self) -> float:
        """The longest time that one of its steps leases ports for."""
        return longest_lease_s(self.playbook.steps)

    @property
    def progress(self) -> dict[str, float]:
        """Steps done, their total, and the expected seconds that are left."""
        return {"done": self._shared.done, "total": self.total_steps, "expected_s": self._expected_s()}

    @property
    def paused_by(self) -> str | None:
        """Who requested a pause, which takes effect before the next step."""
        return self._brake.by

    async def go(self) -> RunEnd:
        """Do all steps, then leave the switches in a named state. The returned end has every error; it raises none."""
        self._shared.started_ns = self._clock.monotonic_ns()
        self._task = asyncio.create_task(self._steps(), name=f"hwd:run/{self.id}")
        if self._aborted_by is not None:
            self._stop_once()
        fault: HwdError | None = None
        outcome, why = RunOutcome.SUCCEEDED, ""
        try:
            if not await self._join(self._task):
                outcome, why = RunOutcome.ABORTED, f"by {self._aborted_by}"
        except HwdError as error:
            fault, outcome, why = error, RunOutcome.FAILED, why_failed(error)
        except asyncio.CancelledError:
            outcome, why = RunOutcome.ABORTED, f"by {self._aborted_by or 'the end of the daemon'}"
        except Exception as error:  # the supervisor of runs: the switches come first
            log.exception("run %s", self.id)
            fault = BugError(repr(error))
            outcome, why = RunOutcome.FAILED, why_failed(fault)
        switches, not_undone, unreadable = await self._undo(why)
        if not_undone and outcome is RunOutcome.SUCCEEDED:
            fault = FailedError("; ".join(not_undone))
            outcome, why = RunOutcome.FAILED, why_failed(fault)
        elif not_undone:
            why = "; ".join([why, *not_undone])
        if not self._task.done():
            why = f"{why}; its step {self._shared.begun} still hangs, and does nothing more"
            log.error("run %s: %s", self.id, why)
        if switches.state is SafeState.MIXED:
            why = f"{why}; switches by branch: {switches}"
        if unreadable:
            cannot = f"{', '.join(unreadable)} cannot be read now: what was confirmed last may be gone"
            why = f"{why}; {cannot}" if why else cannot
        self.end = RunEnd(outcome=outcome, why=why, safe_state=switches.state, fault=fault)
        return self.end

    def abort(self, by: str) -> None:
        """Stop after the current command; `go` returns within 5 s, which `ROLL_BACK_WITHIN_S` is a part of."""
        if self._aborted_by is not None:
            return  # it is on its way back already, and that must not be cut off
        self._aborted_by = by
        if self._task is None:
            return
        if not self._shared.has_harmed:
            self._stop_once()
            return
        self._shared.has_harmed = False  # what a lane still sets until it is stopped is cleared once more
        self._clearing = self._start(self._clear(), "clear")  # before switches are rolled back
        self._clearing.add_done_callback(self._is_clear)
        asyncio.get_running_loop().call_later(CLEARED_WITHIN_S, self._stop_once)

    def pause(self, by: str) -> None:
        """Pause before the next step, in every branch; the remaining time of leases stays as it is now."""
        self._brake.pull(by)

    def resume(self) -> None:
        self._brake.let_go()

    def _expected_s(self) -> float:
        per_apply_s, _ = self._access.history.expect(())
        applies, dwell_s = self._applies - self._shared.applies_done, self._dwell_s - self._shared.dwelt_s
        return max(0, applies) * per_apply_s + max(0.0, dwell_s)

    async def _steps(self) -> None:
        lane = Lane(self._shared)
        limit = asyncio.timeout(self.playbook.within_s)
        try:
            async with limit:
                await lane.go(self.playbook.steps)
        except TimeoutError:
            if not limit.expired():
                raise
            raise FailedError(
                f"run {self.id}: not done within {self.playbook.within_s:g} s; "
                f"{self._shared.done} of {self.total_steps} steps were. Raise within_s of the playbook"
            ) from None

    def _stop_once(self) -> None:
        """Cancel the steps, but only once: a second cancel would cut the roll-back short."""
        if self._task is not None and not self._stopped.is_set():
            self._stopped_s = asyncio.get_running_loop().time()
            self._stopped.set()
            self._task.cancel()

    async def _join(self, steps: asyncio.Task[None]) -> bool:
        """Wait for the steps, and raise what they raise. False where they go on for `STOPPED_WITHIN_S` after they were
        stopped: they wait for their way back, which `_undo` waits for too, or they hang.
        """
        stopped = asyncio.create_task(self._stopped.wait(), name=f"hwd:run/{self.id}/stopped")
        try:
            await asyncio.wait([steps, stopped], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._stop_once()
            await asyncio.wait([steps], timeout=STOPPED_WITHIN_S)
            raise
        finally:
            stopped.cancel()
        if self._stopped.is_set():
            await asyncio.wait([steps], timeout=STOPPED_WITHIN_S)
        if not steps.done():
            return False
        await steps
        return True

    def _is_clear(self, clearing: asyncio.Task[None]) -> None:
        if not clearing.cancelled():
            clearing.exception()  # `_undo` reports the error, or clears again and reports that result
        self._stop_once()

    async def _undo(self, why: str) -> tuple[SafeStates, list[str], list[str]]:
        """Clear faults, restore NIC settings, roll back and release leases.

        Returns where the switches were left, what could not be undone in time, and the switches that cannot be read.
        """
        self.waits_for = "what it changed to be undone"
        now_s = asyncio.get_running_loop().time()
        by_s = (now_s if self._stopped_s is None else self._stopped_s) + END_WITHIN_S
        tasks: dict[str, asyncio.Task[None]] = {}
        if self._clearing is not None and not self._shared.has_harmed:
            tasks["faults of twins"] = self._clearing
        elif self._shared.has_harmed:
            tasks["faults of twins"] = self._start(self._clear(), "clear")
        if self._shared.has_set:
            tasks["settings of NIC ports"] = self._start(self._access.host_settings.put_back(self.id), "put-back")
        if "faults of twins" in tasks:
            await asyncio.wait([tasks["faults of twins"]], timeout=CLEARED_WITHIN_S)
        open_ones = [one for one in self._reconfigurer.last_of(self.id) if one.state is not State.ENDED]
        await asyncio.gather(*(self._reconfigurer.roll_back(one, why) for one in open_ones))
        left = [text for what, task in tasks.items() if (text := await self._end_of(what, task, by_s))]
        releases = {
            f"lease {lane.lease.id}": self._start(lane.release(), "release")
            for lane in self._shared.lanes
            if lane.lease is not None
        }
        by_s = max(by_s, asyncio.get_running_loop().time() + RELEASED_WITHIN_S)  # drains may have taken the time
        left += [text for what, task in releases.items() if (text := await self._end_of(what, task, by_s))]
        light, jobs = self._access.light, [job for lane in self._shared.lanes for job in lane.jobs]
        if self._task is not None and any(move.outcome is None for move in light.last_moves(jobs)):
            await asyncio.wait([self._task], timeout=max(0.0, by_s - asyncio.get_running_loop().time()))
        left += [f"job {move.job}: it still moves light" for move in light.last_moves(jobs) if move.outcome is None]
        switches = left_by(self._shared.lanes, self._reconfigurer.last_by_branch(self.id), light)
        light.forget(jobs)
        unreadable = self._reconfigurer.unreadable(self.id)
        self._reconfigurer.forget(self.id)
        self.waits_for = "the records to take its end"
        return switches, left, unreadable

    def _start(self, work: Coroutine[None, None, None], what: str) -> asyncio.Task[None]:
        return asyncio.create_task(work, name=f"hwd:run/{self.id}/{what}")

    async def _clear(self) -> None:
        await self._access.faults.clear_of(self.id)
        self._emit(RunFault(run=self.id, fault=Clear()))

    async def _end_of(self, what: str, task: asyncio.Task[None], by_s: float) -> str | None:
        """Why `what` is not undone; None where it is."""
        await asyncio.wait([task], timeout=max(0.0, by_s - asyncio.get_running_loop().time()))
        if not task.done():
            task.cancel()
            return f"{what}: not undone within {END_WITHIN_S:g} s"
        error = task.exception()
        if error is None:
            return None
        if not isinstance(error, HwdError):
            log.error("run %s: %s", self.id, what, exc_info=error)
        return f"{what}: not undone: {error}"


def _asked_of_run(playbook: Playbook) -> frozenset[StageName]:
    """Stages that asserts and notes ask of the run as a whole."""
    names: set[str] = set()
    for step in _leaves(playbook.steps):
        match step:
            case AssertStep(expression=expression):
                names |= {*expression.names}
            case NoteStep(text=text):
                names |= names_in(text)
    return stages_of(tuple(names), "run")


def _leaves(steps: tuple[Step, ...]) -> Iterator[Step]:
    for step in steps:
        yield step
        for found in below(step):
            yield from _leaves(found)
