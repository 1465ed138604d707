"""The answer to a fault that was set."""

from hwd.model.api_value import ApiValue


class FaultConfirmation(ApiValue, frozen=True, kw_only=True):
    """A fault of a twin was set or cleared; a failure is a problem document."""

    done: bool
