"""A run that waits in the queue, as the records have it."""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import UNSET, UnsetType

from hwd.model.run import TrialRun


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRun:
    """A run that has not begun, with all that its start needs, also after a restart. `due_wall_ns` None: as soon as its
    ports are free.
    """

    id: str
    playbook: str
    playbook_text: str
    file: str
    parameters: Mapping[str, str]
    queued_wall_ns: int
    due_wall_ns: int | None = None
    trial: TrialRun | UnsetType = UNSET
