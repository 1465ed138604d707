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
        return state_in(event, self.status.run)

    def take(self, status: RunStatus | None) -> bool:
        """Whether it is news."""
        if status is None or status == self.status:
            return False
        self.status = status
        return True


def state_in(event: Event, run: str) -> RunStatus | None:
    """The state of a run that an event tells; None where it tells of something else. Where `event.document` is None, it has to be asked for."""
    document = event.document
    if document is None or document.kind not in KINDS or document.data.get("run") != run:
        return None
    return RunStatus.from_data(document.data)
