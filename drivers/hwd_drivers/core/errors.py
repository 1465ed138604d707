"""Exceptions, split by whose fault it is.

    HwdError
    ├── ConfigError      the input is wrong; nothing was touched                    exit 2
    │   └── UnknownError     it names something that is not there                   exit 2
    ├── RefusedError     a lease, an interlock or a rule says no                    exit 3
    ├── DeviceError      the device answered no                                     exit 1
    │   └── LoginError       it does not take our credentials                       exit 1
    ├── LinkError        the device, broker or daemon cannot be reached             exit 4
    │   ├── StartingError    it is being started by us                              exit 4
    │   └── DeadlineError    it was reached but did not answer in the stated time   exit 4
    ├── ProtocolError    bytes that cannot be parsed                                exit 1
    ├── FailedError      what was asked for was tried and did not come out          exit 1
    ├── NotReadyError    links were not ready in time; all is as before             exit 5
    │   └── NotRolledBackError   and not all could be brought back                  exit 6
    └── BugError         ours

A message says subject, attempt, finding, limit with unit, and remedy.
"""

from collections.abc import Iterable
from typing import ClassVar


class HwdError(Exception):
    """Anything that hwd raises on purpose."""

    exit_status: ClassVar[int] = 1
    title: ClassVar[str] = "error"


class ConfigError(HwdError):
    """Input of an operator that cannot be accepted: a file, an argument, a name."""

    exit_status = 2
    title = "bad input"


class UnknownError(ConfigError):
    """A name of something that is not there, and may have been."""


class RefusedError(HwdError):
    """A rule forbids it: somebody's lease, an interlock, a stale plan."""

    exit_status = 3
    title = "refused"


class DeviceError(HwdError):
    """The device understood and said no; `code` and `text` are its own words."""

    title = "device error"

    def __init__(self, message: str, *, device: str, command: str, code: str, text: str) -> None:
        super().__init__(message)
        self.device = device
        self.command = command
        self.code = code
        self.text = text


class LoginError(DeviceError):
    """The device does not take our user or password; trying again soon is of no use."""

    title = "login refused"


class LinkError(HwdError):
    """No way to the other side, or the way broke."""

    exit_status = 4
    title = "unreachable"


class StartingError(LinkError):
    """The other side is being started, and will be there soon; nothing is wrong."""

    title = "starting"


class DeadlineError(LinkError):
    """The other side was reached and did not answer in time."""

    title = "no answer in time"


class ProtocolError(HwdError):
    """Bytes from outside that do not follow the protocol."""

    title = "protocol error"


class FailedError(HwdError):
    """It was tried and did not come out, read-back differed, an action had no effect."""

    title = "failed"


class NotReadyError(HwdError):
    """Links did not become ready within the stated time."""

    exit_status = 5
    title = "not ready in time"


class NotRolledBackError(NotReadyError):
    """Links did not become ready within the stated time, and `switches` could not be brought back; the journal holds them until they are."""

    exit_status = 6
    title = "not ready and not rolled back"

    def __init__(self, message: str, *, switches: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.switches = tuple(switches)


class BugError(HwdError):
    """An assumption of ours does not hold."""

    title = "bug"
