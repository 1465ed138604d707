"""Runs of playbooks in the answers of the API."""

from typing import Self

from typing_extensions import override

from hwd.model.answers.answer import Answer
from hwd.model.plural import plural
from hwd.model.run import RunState, RunStatus


class AcceptedRun(Answer, frozen=True, kw_only=True):
    """A run that was accepted: it is running, or in the queue.

    `due_wall_ns`, `waits_for`: see RunStatus. `after`: an id of the event stream,
    which has all of this run after it.
    """

    run: str
    playbook: str
    steps: int
    state: RunState
    due_wall_ns: int | None
    waits_for: list[str]
    after: str

    @classmethod
    def of(cls, status: RunStatus, *, after: str) -> Self:
        return cls(
            run=status.run,
            playbook=status.playbook,
            steps=status.steps,
            state=status.state,
            due_wall_ns=status.due_wall_ns,
            waits_for=[*status.waits_for],
            after=after,
        )

    @property
    def id(self) -> str:
        return self.run

    @override
    def __str__(self) -> str:
        return f"run {self.id} of {self.playbook}, {plural(self.steps, 'step')}"


class AbortedRun(Answer, frozen=True, kw_only=True):
    """The end of a run that was aborted. `outcome`: its final state. `safe_state`: where it left the switches."""

    run: str
    outcome: RunState
    why: str
    safe_state: str | None

    @override
    def __str__(self) -> str:
        return f"run {self.run} {self.outcome}: {self.why}"
