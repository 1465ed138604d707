"""The board: the state of every queued or active run, and of the last ended ones, from documents."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from msgspec.structs import replace

from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationState
from hwd.model.run import RunState, RunStatus
from hwd.model.run_facts import RunStep
from hwd_drivers.core.documents import Document

ENDED_KEPT = 32
"""Ended runs whose states stay here and on the bus."""
STAGES = frozenset({"journaled", "driving", "read-back", "waiting", "awaiting-confirm", "rolling-back"})
"""States of a reconfiguration that take time."""


class Board:
    """A `Sink` that calls `tell(status)` at every change.

    `run_of` names the run of a reconfiguration in progress, `paused_by` who asked a run to pause.
    """

    TAKES: ClassVar = (RunStep, ReconfigurationState, ReconfigurationEnded)

    def __init__(
        self,
        *,
        run_of: Callable[[str], str | None],
        paused_by: Callable[[str], str | None],
        tell: Callable[[RunStatus], None],
    ) -> None:
        self._run_of = run_of
        self._paused_by = paused_by
        self._tell = tell
        self._live: dict[str, RunStatus] = {}
        self._steps_open: dict[str, int] = {}
        self._ended: dict[str, RunStatus] = {}

    @property
    def live(self) -> tuple[RunStatus, ...]:
        """The runs that have not ended, in the order in which they came."""
        return tuple(self._live.values())

    @property
    def all(self) -> tuple[RunStatus, ...]:
        """The runs, ended ones first, oldest first."""
        return *self._ended.values(), *self._live.values()

    def get(self, run: str) -> RunStatus | None:
        return self._live.get(run) or self._ended.get(run)

    def load(self, ended: Iterable[RunStatus]) -> None:
        """Load ended runs of earlier processes of the daemon, oldest first, without a call of `tell`."""
        for status in ended:
            self._keep(status)

    def put(self, status: RunStatus, *, tell: Callable[[RunStatus], None] | None = None) -> None:
        """Add a run, or take its end. `tell` replaces that of the board."""
        if status.state.ended:
            self._live.pop(status.run, None)
            self._steps_open.pop(status.run, None)
            self._keep(status)
        else:
            self._live[status.run] = status
        (tell or self._tell)(status)

    def change(self, run: str, **fields: Any) -> RunStatus:
        """Change fields of a live run, and `tell` it where one differs."""
        before = self._live[run]
        after = replace(before, **fields)
        self._live[run] = after
        if after != before:
            self._tell(after)
        return after

    def look(self, run: str) -> None:
        """Update a run after a request to pause or resume. It is paused when no step of it is in progress."""
        by = self._paused_by(run)
        if by is not None and not self._steps_open.get(run):
            self.change(run, state=RunState.PAUSED, by=by, stage=None)
        elif by is None and self._live[run].state is RunState.PAUSED:
            self.change(run, state=RunState.RUNNING, by=None)

    def __call__(self, document: Document) -> None:
        match document.fact:
            case RunStep() as step if step.run in self._live:
                self._step(step)
            case ReconfigurationState(reconfiguration=id, state=state) if self._live and state in STAGES:
                run = self._run_of(id)
                if run is not None and run in self._live:
                    self.change(run, stage=state)
            case ReconfigurationEnded(run=str(run)) if run in self._live:
                self.change(run, stage=None)

    def _step(self, step: RunStep) -> None:
        run = step.run
        if step.state == "started":
            self._steps_open[run] = self._steps_open.get(run, 0) + 1
            now = {"step": step.step, "steps": step.total, "what": step.what, "stage": None}
            self.change(run, state=RunState.RUNNING, by=None, expected_s=step.expected_s, **now)
            return
        self._steps_open[run] = self._steps_open.get(run, 1) - 1
        # emitted with the next start, or the end
        self._live[run] = replace(self._live[run], expected_s=step.expected_s)
        if step.done != step.total:
            self.look(run)

    def _keep(self, status: RunStatus) -> None:
        self._ended.pop(status.run, None)
        self._ended[status.run] = status
        while len(self._ended) > ENDED_KEPT:
            del self._ended[next(iter(self._ended))]
