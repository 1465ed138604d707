"""UnitError: a wish that a simulated unit refuses, with the kind of reason; each protocol has its own code for it."""

from enum import StrEnum

from hwd_drivers.core.errors import HwdError


class Wrong(StrEnum):
    """Why a unit refuses a wish."""

    PORT = "port"
    """Unknown port."""
    SIDE = "side"
    """Both ports are on the same side."""
    LIST = "list"
    """A port is twice in a list, or the lists differ in length."""
    IN_USE = "in-use"
    """A port has another connection, and this unit does not move it."""
    HARDWARE = "hardware"
    """The unit, or the port, lacks the monitor or attenuator."""
    VALUE = "value"
    """A value outside the unit's limits."""
    NAME = "name"
    """No connection or group has this name, or one has it already."""
    STATE = "state"
    """Not allowed in the present state of the unit or the connection."""
    FAULT = "fault"
    """A fault makes it refuse: `code` has the text."""


class UnitError(HwdError):
    """A wish that the unit refuses; `code` is that of one protocol, where a fault sets it."""

    def __init__(self, wrong: Wrong, text: str = "", *, code: str = "") -> None:
        super().__init__(text or wrong)
        self.wrong = wrong
        self.text = text
        self.code = code
