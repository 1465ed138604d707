"""Problem documents (RFC 9457): the form of an error over HTTP.

`exit_status` is what the command line ends with. A refused file has `problems`, one text each; a device that said no
has `device`, `command`, `code`, `text`; what could not be rolled back has `switches`, those that differ from before.
"""

import logging
from collections.abc import Mapping
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from hwd_drivers.core.errors import (
    BugError,
    ConfigError,
    DeadlineError,
    DeviceError,
    HwdError,
    LinkError,
    NotReadyError,
    NotRolledBackError,
    ProtocolError,
    RefusedError,
    UnknownError,
)
from hwd_drivers.core.reason import finding_of

MEDIA_TYPE = "application/problem+json"

_STATUS: tuple[tuple[type[HwdError], int], ...] = (
    (UnknownError, 404),
    (ConfigError, 422),
    (RefusedError, 409),
    (DeadlineError, 504),
    (LinkError, 503),
    (NotReadyError, 504),
    (DeviceError, 502),
    (ProtocolError, 502),
    (BugError, 500),
)
"""The first match counts, so subclasses come before their bases. All other errors are failures: 500."""

_log = logging.getLogger(__name__)


def problem_data(error: HwdError) -> dict[str, Any]:
    """The problem document of an error."""
    data: dict[str, Any] = {
        "type": type_of(error.title),
        "title": error.title,
        "status": next((status for kind, status in _STATUS if isinstance(error, kind)), 500),
        "detail": str(error),
        "exit_status": error.exit_status,
    }
    if isinstance(error, ConfigError):
        data["problems"] = str(error).splitlines()
    if isinstance(error, DeviceError):
        data |= {"device": error.device, "command": error.command, "code": error.code, "text": error.text}
    if isinstance(error, NotRolledBackError):
        data["switches"] = [*error.switches]
    return data


def type_of(title: str) -> str:
    """A tag URI (RFC 4151): it names the kind of error, and there is nothing to fetch."""
    return f"tag:hwd,2026:{title.replace(' ', '-')}"


def problem_response(error: HwdError, headers: Mapping[str, str] | None = None) -> JSONResponse:
    data = problem_data(error)
    return JSONResponse(data, data["status"], headers, MEDIA_TYPE)


async def on_hwd_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HwdError)
    return problem_response(error)


async def on_invalid_request(request: Request, error: Exception) -> JSONResponse:
    """A body or an argument that is not what the call takes: bad input, every finding at once."""
    assert isinstance(error, RequestValidationError)
    return problem_response(ConfigError("\n".join(finding_of(found) for found in error.errors())))


async def on_http_exception(request: Request, error: Exception) -> JSONResponse:
    """No such path, no such method."""
    assert isinstance(error, HTTPException)
    data = {
        "type": "about:blank",
        "title": str(error.detail),
        "status": error.status_code,
        "detail": f"{request.method} {request.url.path}: {error.detail}. /api/v1/openapi.json says what there is",
        "exit_status": ConfigError.exit_status,
    }
    return JSONResponse(data, error.status_code, error.headers, MEDIA_TYPE)


async def on_bug(request: Request, error: Exception) -> JSONResponse:
    """Anything that was not raised on purpose. The server logs its trace; the client gets the error without it."""
    _log.error("%s %s: %s: %s", request.method, request.url.path, type(error).__name__, error)
    return problem_response(BugError(f"{type(error).__name__}: {error}. The daemon's log has the trace"))
