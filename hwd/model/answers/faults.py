"""Faults of twins in the answers of the API."""

from hwd.model.answers.answer import Answer


class FaultConfirmation(Answer, frozen=True, kw_only=True):
    """A fault of a twin was set or cleared; a failure is a problem document."""

    done: bool
