"""Turns a problem document (RFC 9457) into the error that caused it."""

import httpx2
from msgspec import UNSET

from hwd.model.status import Problem
from hwd_drivers.core.errors import (
    BugError,
    ConfigError,
    DeadlineError,
    DeviceError,
    FailedError,
    HwdError,
    LinkError,
    LoginError,
    NotReadyError,
    NotRolledBackError,
    ProtocolError,
    RefusedError,
    StalePlanError,
    UnknownError,
)
from hwd_drivers.core.structs import from_json

_BY_TITLE: dict[str, type[HwdError]] = {
    kind.title: kind
    for kind in (
        ConfigError,
        RefusedError,
        StalePlanError,
        LinkError,
        DeadlineError,
        ProtocolError,
        FailedError,
        NotReadyError,
        NotRolledBackError,
        BugError,
    )
}
_BY_EXIT_STATUS: dict[int, type[HwdError]] = {
    2: ConfigError,
    3: RefusedError,
    4: LinkError,
    5: NotReadyError,
    6: NotRolledBackError,
}
"""The error for a title that only a newer daemon knows."""
NOT_FOUND = 404


def raise_for_problem(response: httpx2.Response) -> None:
    """Return where the answer is a success; else raise the daemon's error."""
    if response.is_success:
        return
    try:
        problem = from_json(response.content, Problem)
    except ValueError as error:
        raise ProtocolError(
            f"{response.request.url}: status {response.status_code} without a problem document. "
            "Is that a daemon of hwd?"
        ) from error
    raise error_of(problem)


def error_of(problem: Problem) -> HwdError:
    """Make the error from its problem document."""
    title, detail = problem.title, problem.detail
    device = {kind.title: kind for kind in (DeviceError, LoginError)}.get(title)
    if device is not None and problem.device is not UNSET:
        words = {"device": problem.device, "command": problem.command, "code": problem.code, "text": problem.text}
        return device(detail, **{key: word or "" for key, word in words.items()})
    if title == NotRolledBackError.title and problem.switches is not UNSET:
        return NotRolledBackError(detail, switches=problem.switches)
    if title == UnknownError.title and problem.status == NOT_FOUND:
        return UnknownError(detail)
    kind = _BY_TITLE.get(title) or _BY_EXIT_STATUS.get(problem.exit_status, FailedError)
    return kind(detail)


def exit_status_of(title: str) -> int:
    """The exit status of a command that failed with an error of this title; 1 for an unknown title."""
    return _BY_TITLE.get(title, FailedError).exit_status
