"""Exceptions, split by whose fault it is.

    HwdError
    ├── ConfigError      the input is wrong; nothing was touched                    exit 2
        │   └── UnknownError     it names something that does not exist                 exit 2
        ├── RefusedError     a lease, an interlock or a rule forbids it                 exit 3
        │   └── StalePlanError   the plan is not what would be planned now              exit 3
        ├── DeviceError      the device refused                                         exit 1
        │   └── LoginError       the device refused our credentials                     exit 1
        ├── LinkError        the device, broker or daemon cannot be reached             exit 4
        │   ├── StartingError    we are still starting it                               exit 4
        │   └── DeadlineError    it was reached but did not answer in the stated time   exit 4
        ├── ProtocolError    bytes that cannot be parsed                                exit 1
        ├── FailedError      the action was tried and failed                            exit 1
        ├── NotReadyError    links were not ready in time; the old state is restored    exit 5
        │   └── NotRolledBackError   and not every switch could be restored             exit 6
        └── BugError         our own mistake

A message says subject, attempt, finding, limit with unit, and remedy.
"""

from collections.abc import Iterable
from typing import Any, ClassVar

from typing_extensions import override


class HwdError(Exception):
    """Any error that hwd raises on purpose. It is pickled with all its attributes, as pools of processes need it."""

    exit_status: ClassVar[int] = 1
    title: ClassVar[str] = "error"

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the error by its message, not by the arguments of its constructor, which Python does not know."""
        return _unpickled, (type(self), self.args), self.__dict__


class ConfigError(HwdError):
    """Input of an operator that cannot be accepted: a file, an argument, a name."""

    exit_status = 2
    title = "bad input"


class UnknownError(ConfigError):
    """The name of something that does not exist, and may have existed."""


class RefusedError(HwdError):
    """A rule forbids it: another owner's lease, an interlock, a stale plan."""

    exit_status = 3
    title = "refused"


class StalePlanError(RefusedError):
    """A plan that was named by its hash is not what would be planned now; nothing was touched."""

    title = "stale plan"


class DeviceError(HwdError):
    """The device understood the command and refused it; `code` and `text` are its own words."""

    title = "device error"

    def __init__(self, message: str, *, device: str, command: str, code: str, text: str) -> None:
        super().__init__(message)
        self.device = device
        self.command = command
        self.code = code
        self.text = text


class LoginError(DeviceError):
    """The device refused our user or password; a retry soon is of no use."""

    title = "login refused"


class LinkError(HwdError):
    """The other side cannot be reached, or the connection broke."""

    exit_status = 4
    title = "unreachable"


class StartingError(LinkError):
    """The other side is starting and will answer soon; nothing is wrong."""

    title = "starting"


class DeadlineError(LinkError):
    """The other side was reached and did not answer in time."""

    title = "no answer in time"


class ProtocolError(HwdError):
    """Bytes from outside that do not follow the protocol."""

    title = "protocol error"


class FailedError(HwdError):
    """The action was tried and failed: the read-back differed, or it had no effect."""

    title = "failed"


class NotReadyError(HwdError):
    """Links did not become ready within the stated time."""

    exit_status = 5
    title = "not ready in time"


class NotRolledBackError(NotReadyError):
    """Links did not become ready in time, and `switches` could not be restored: the journal still holds them."""

    exit_status = 6
    title = "not ready and not rolled back"

    def __init__(self, message: str, *, switches: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.switches = tuple(switches)


class BugError(HwdError):
    """An assumption of ours does not hold."""

    title = "bug"


def _unpickled(kind: type[HwdError], message: tuple[Any, ...]) -> HwdError:
    return kind.__new__(kind, *message)
