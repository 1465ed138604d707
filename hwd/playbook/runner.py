"""The runner: one run of one playbook, from the first step to a named end.

A run ends as succeeded, failed (with the class of its fault) or aborted; a run that the daemon's death cut off is closed as crashed by the records.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from hwd.config.playbook import ApplyStep, LeaseStep, Playbook, RepeatStep, Step, WaitStep
from hwd.model.lease import Lease
from hwd.reconfigure.history import History
from hwd.reconfigure.leases import Leases
from hwd.reconfigure.planner import Request
from hwd.reconfigure.reconfiguration import Outcome, Reconfiguration, State
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd.records.run import RunOutcome
from hwd_drivers.kit.clock import Clock
from hwd_drivers.kit.documents import Document, Json, Sink
from hwd_drivers.kit.errors import BugError, FailedError, HwdError

log = logging.getLogger(__name__)


class SafeState(StrEnum):
    """Where the switches are when a run has ended."""

    AS_APPLIED = "as-applied"
    """Nothing was under way: what was confirmed last stands."""
    BEFORE_APPLY = "before-apply"
    """The state read at the start of the last apply, and read back."""
    UNKNOWN = "unknown"
    """A switch could not be brought back; the journal holds it open and the daemon brings it back when it answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnd:
    """How a run ended. `fault` is what stopped it, None where it succeeded or was aborted."""

    outcome: RunOutcome
    why: str
    safe_state: SafeState
    fault: HwdError | None = None


class Runner:
    """One run of one playbook. Call `go` once; `abort` at any time."""

    def __init__(
        self,
        id: str,
        playbook: Playbook,
        *,
        reconfigurer: Reconfigurer,
        leases: Leases,
        request: Callable[[ApplyStep, str | None], Request],
        all_ports: frozenset[str],
        history: History,
        clock: Clock,
        sink: Sink,
    ) -> None:
        self.id = id
        self.playbook = playbook
        self.end: RunEnd | None = None
        self._reconfigurer = reconfigurer
        self._leases = leases
        self._request = request
        self._all_ports = all_ports
        self._history = history
        self._clock = clock
        self._sink = sink
        self._lease: Lease | None = None
        self._open: Reconfiguration | None = None
        self._done = 0
        self._total = sum(1 for _ in _flat(playbook.steps))
        self._applies_left = sum(isinstance(step, ApplyStep) for step in _flat(playbook.steps))
        self._aborted_by: str | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def total_steps(self) -> int:
        return self._total

    @property
    def progress(self) -> dict[str, Json]:
        return {"done": self._done, "total": self._total, "expected_s": self._expected_s()}

    async def go(self) -> RunEnd:
        """Do all steps, then leave the switches in a named state. What stops it, a fault of ours too, is in its end, and never raised."""
        self._task = asyncio.create_task(self._steps(), name=f"hwd:run/{self.id}")
        if self._aborted_by is not None:
            self._task.cancel()
        fault: HwdError | None = None
        outcome, why = RunOutcome.SUCCEEDED, ""
        try:
            await self._task
        except HwdError as error:
            fault, outcome, why = error, RunOutcome.FAILED, f"{error.title}: {error}"
        except asyncio.CancelledError:
            if self._aborted_by is None and not self._task.cancelled():
                self._task.cancel()
            outcome, why = RunOutcome.ABORTED, f"by {self._aborted_by or 'the end of the daemon'}"
        except Exception as error:  # the supervisor of runs: the switches come first
            log.exception("run %s", self.id)
            fault = BugError(repr(error))
            outcome, why = RunOutcome.FAILED, f"{fault.title}: {fault}"
        safe = await self._to_safe_state(why)
        self.end = RunEnd(outcome=outcome, why=why, safe_state=safe, fault=fault)
        return self.end

    def abort(self, by: str) -> None:
        """Stop after the current command; `go` returns within 5 s: `ROLL_BACK_WITHIN_S` and the time that agents are waited for."""
        if self._aborted_by is not None:
            return  # it is on its way back already, and that must not be cut off
        self._aborted_by = by
        if self._task is not None:
            self._task.cancel()

    async def _steps(self) -> None:
        for step in _flat(self.playbook.steps):
            number = self._done + 1
            self._tell(number, step, "started")
            try:
                await self._do(step)
            except HwdError:
                self._tell(number, step, "failed")
                raise
            self._done += 1
            self._tell(number, step, "done")
        await self._confirm()

    async def _do(self, step: Step) -> None:
        match step:
            case LeaseStep():
                await self._take(step)
            case ApplyStep():
                await self._confirm()
                lease = self._lease.id if self._lease else None
                self._open = await self._reconfigurer.begin(self._request(step, lease), run=self.id)
            case WaitStep():
                if self._open is None:
                    raise FailedError("wait: nothing was applied that could become ready; put an apply step before it")
                await self._reconfigurer.wait_ready(self._open, within_s=step.within_s)
                await self._confirm()

    async def _take(self, step: LeaseStep) -> None:
        ports = self._all_ports if step.ports == "all" else frozenset(step.ports)
        if self._lease is not None:
            await self._leases.release(self._lease.id)
        self._lease = await self._leases.take(holder=f"run {self.id}", ports=ports, for_s=step.for_s, lasting=False)

    async def _confirm(self) -> None:
        if self._open is not None:
            if self._open.state is not State.ENDED:
                await self._reconfigurer.confirm(self._open)
            self._applies_left -= 1
        self._open = None

    async def _to_safe_state(self, why: str) -> SafeState:
        last = next(iter(self._reconfigurer.last_of(self.id)), None)
        if last is not None and last.state is not State.ENDED:
            await self._reconfigurer.roll_back(last, why)
        if self._lease is not None:
            await self._leases.release(self._lease.id)
        self._reconfigurer.forget(self.id)
        match last.outcome if last is not None else Outcome.CONFIRMED:
            case Outcome.CONFIRMED:
                return SafeState.AS_APPLIED
            case Outcome.ROLLED_BACK:
                return SafeState.BEFORE_APPLY
            case _:
                return SafeState.UNKNOWN

    def _expected_s(self) -> float:
        seconds, _ = self._history.expect(())
        return self._applies_left * seconds

    def _tell(self, number: int, step: Step, state: str) -> None:
        self._sink(
            Document(
                kind="run.step",
                at_ns=self._clock.monotonic_ns(),
                wall_ns=self._clock.wall_ns(),
                data={"run": self.id, "step": number, "what": str(step), "state": state, **self.progress},
            )
        )


def _flat(steps: tuple[Step, ...]) -> Iterator[Step]:
    """The steps in the order in which they are done, repeats written out."""
    for step in steps:
        if isinstance(step, RepeatStep):
            for _ in range(step.times):
                yield from _flat(step.steps)
        else:
            yield step
