"""One run followed to its end, from what events tell of it. No I/O."""

from hwd.client.events import Event
from hwd.model.run import RunStatus

KINDS = ("run.state",)
"""What must be listened to."""


class Following:
    """What is known of one run. Where events were missed, its state has to be asked for."""

    def __init__(self, status: RunStatus) -> None:
        self.status = status

    def ended(self) -> bool:
        return self.status.state.ended

    def told_by(self, event: Event) -> RunStatus | None:
        """What an event tells of this run; None where it is about another one."""
        if event.document is None or event.document.data.get("run") != self.status.run:
            return None
        return RunStatus.from_data(event.document.data)

    def take(self, status: RunStatus | None) -> bool:
        """Whether it is news."""
        if status is None or status == self.status:
            return False
        self.status = status
        return True
