"""The state of a run in its events. No I/O."""

from hwd.client.event_stream import Event
from hwd.model.run import RunStatus
from hwd_drivers.core.errors import ProtocolError

KINDS = (RunStatus.KIND,)
"""Kinds of events to subscribe to."""


def state_in(event: Event, run: str) -> RunStatus | None:
    """The state of a run in an event; None where the event has none of it. Where `event.document` is None, the state
    has to be fetched. Raises ProtocolError for a state that this version cannot read.
    """
    if event.document is None or event.document.kind not in KINDS:
        return None
    status = event.document.fact
    if not isinstance(status, RunStatus):
        if status.to_data().get("run") != run:
            return None
        raise ProtocolError(f"run {run}: cannot follow it: the daemon is of another version: {event.document}")
    return status if status.run == run else None
