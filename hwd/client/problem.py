"""Turns a problem document (RFC 9457) into the error that caused it."""

from typing import Any

import httpx

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
    UnknownError,
)

_BY_TITLE: dict[str, type[HwdError]] = {
    kind.title: kind
    for kind in (
        ConfigError,
        RefusedError,
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


def raise_for_problem(response: httpx.Response) -> None:
    """Return where the answer is a success; else raise the daemon's error."""
    if response.is_success:
        return
    data = _document(response)
    if data is None:
        raise ProtocolError(
            f"{response.request.url}: status {response.status_code} without a problem document. "
            "Is that a daemon of hwd?"
        )
    raise error_of(data)


def error_of(data: dict[str, Any]) -> HwdError:
    """Make the error from its problem document."""
    title, detail = str(data.get("title", "")), str(data.get("detail", ""))
    device = {kind.title: kind for kind in (DeviceError, LoginError)}.get(title)
    if device is not None and {"device", "command", "code", "text"} <= data.keys():
        return device(
            detail,
            device=str(data["device"]),
            command=str(data["command"]),
            code=str(data["code"]),
            text=str(data["text"]),
        )
    if title == NotRolledBackError.title and isinstance(switches := data.get("switches"), list):
        return NotRolledBackError(detail, switches=map(str, switches))
    if title == UnknownError.title and data.get("status") == NOT_FOUND:
        return UnknownError(detail)
    kind = _BY_TITLE.get(title) or _BY_EXIT_STATUS.get(data.get("exit_status", 1), FailedError)
    return kind(detail)


def exit_status_of(title: str) -> int:
    """The exit status of a command that failed with an error of this title; 1 for an unknown title."""
    return _BY_TITLE.get(title, FailedError).exit_status


def _document(response: httpx.Response) -> dict[str, Any] | None:
    if "json" not in response.headers.get("content-type", ""):
        return None
    try:
        data = response.json()
    except ValueError:
        return None
    return data if isinstance(data, dict) and "detail" in data else None
