"""Follows one reconfiguration while the call that applies it is waited for. No I/O."""

from collections.abc import Callable
from typing import Final

from hwd.model.document_list import DocumentList
from hwd.model.reconfiguration import ReconfigurationState, ReconfigurationStep

KINDS: Final = (ReconfigurationState.KIND, ReconfigurationStep.KIND)
"""Kinds of documents to look for."""
LOOK_S: Final = 0.25
"""Between two looks."""

Tell = Callable[[ReconfigurationState | ReconfigurationStep], None]


class ReconfigurationFollower:
    """A follower of one reconfiguration by its documents. `tell` gets each step of a plan with steps as it begins and
    ends, and the present state where it is another one.

    `after`: the id of the last document before the call.
    """

    def __init__(self, id: str, tell: Tell, after: str) -> None:
        self.after = after
        self._id = id
        self._tell = tell

    def take(self, found: DocumentList, *, is_over: bool) -> None:
        """Tell what these documents say. `is_over`: the call has its answer, so that there is no present state."""
        self.after = found.last
        state: ReconfigurationState | None = None
        for document in found.documents:
            match document.fact:
                case ReconfigurationStep(reconfiguration=self._id) as step:
                    self._tell(step)
                    state = None
                case ReconfigurationState(reconfiguration=self._id) as now:
                    state = now
        if state is not None and not is_over:
            self._tell(state)
