"""Problem documents: an error over HTTP. See `hwd.model.status.Problem`."""

import logging
from collections.abc import Mapping

from fastapi.exceptions import RequestValidationError
from msgspec.structs import replace
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from hwd.model.status import Problem
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
from hwd_drivers.core.structs import to_json

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


def problem_of(error: HwdError) -> Problem:
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    problem = problem_of_kind(type(error), status, str(error))
    if isinstance(error, ConfigError):
        return replace(problem, problems=str(error).splitlines())
    if isinstance(error, DeviceError):
        return replace(problem, device=error.device, command=error.command, code=error.code, text=error.text)
    if isinstance(error, NotRolledBackError):
        return replace(problem, switches=[*error.switches])
    return problem


def problem_of_kind(kind: type[HwdError], status: int, detail: str) -> Problem:
    """A problem that is answered with this status, whatever the status of its kind is."""
    # A tag URI (RFC 4151): it names the kind of error, and there is nothing to fetch.
    type = f"tag:hwd,2026:{kind.title.replace(' ', '-')}"
    return Problem(type=type, title=kind.title, status=status, detail=detail, exit_status=kind.exit_status)


def problem_response(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    return Response(to_json(problem), problem.status, headers, MEDIA_TYPE)


async def on_hwd_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HwdError)
    return problem_response(problem_of(error))


async def on_invalid_request(request: Request, error: Exception) -> Response:
    """A body or an argument that is not what the call takes: bad input, every finding at once."""
    assert isinstance(error, RequestValidationError)
    findings = "\n".join(finding_of(found) for found in error.errors())
    return problem_response(problem_of(ConfigError(findings)))


async def on_http_exception(request: Request, error: Exception) -> Response:
    """No such path, no such method."""
    assert isinstance(error, HTTPException)
    problem = Problem(
        type="about:blank",
        title=str(error.detail),
        status=error.status_code,
        detail=f"{request.method} {request.url.path}: {error.detail}. /api/v1/openapi.json says what there is",
        exit_status=ConfigError.exit_status,
    )
    return problem_response(problem, error.headers)


async def on_bug(request: Request, error: Exception) -> Response:
    """Anything that was not raised on purpose. The server logs its trace; the client gets the error without it."""
    _log.error("%s %s: %s: %s", request.method, request.url.path, type(error).__name__, error)
    bug = BugError(f"{type(error).__name__}: {error}. The daemon's log has the trace")
    return problem_response(problem_of(bug))
