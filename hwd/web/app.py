"""The HTTP API: a `Service` behind paths. Reads and writes JSON; errors are problem documents.

app = make_app(service, version=..., tokens=..., session=...)
"""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from typing_extensions import override

from hwd.config.json_schema import struct_schemas
from hwd.model.demand import FILE_BYTES_MAX
from hwd.model.limit import Reached
from hwd.model.status import Problem
from hwd.web.access import ANSWERS, BODIES, TABLES
from hwd.web.bodies import REFERENCE, content_of
from hwd.web.bounds import Bounds
from hwd.web.calls.call import API
from hwd.web.calls.demand_calls import PATH
from hwd.web.door import Door
from hwd.web.problem import MEDIA_TYPE, on_bug, on_http_exception, on_hwd_error, on_invalid_request
from hwd.web.service import Service
from hwd_drivers.core.errors import BugError, HwdError

PROBLEMS: dict[int | str, dict[str, Any]] = {
    "default": {"description": "A problem document (RFC 9457)", "content": content_of(Problem, MEDIA_TYPE)}
}
"""What any call may answer with, for the OpenAPI document."""


class Api(FastAPI):
    """FastAPI describes the calls; the schemas of their bodies and answers are ours."""

    @override
    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            components = super().openapi().setdefault("components", {}).setdefault("schemas", {})
            components |= struct_schemas((*BODIES, *ANSWERS), ref_template=REFERENCE)[1]
        return super().openapi()


def make_app(
    service: Service,
    *,
    version: str,
    tokens: frozenset[str] = frozenset(),
    names: Mapping[str, str] = MappingProxyType({}),
    session: str = "",
    local: bool = True,
    reached: Reached = lambda limit, detail: None,
) -> FastAPI:
    """The ASGI application.

    Without `tokens` it refuses every request; `names`, `session` and `local` are those of the `Door`.
    """
    if tokens and not session:
        raise BugError("an app with tokens needs a session, which browsers get for one of them")
    app = Api(
        title="hwd",
        version=version,
        openapi_url=f"{API}/openapi.json",
        docs_url=None,
        redoc_url=None,
        description="Runs a rack of hosts and optical circuit switches. Errors are problem documents (RFC 9457).",
    )
    app.add_exception_handler(HwdError, on_hwd_error)
    app.add_exception_handler(RequestValidationError, on_invalid_request)
    app.add_exception_handler(HTTPException, on_http_exception)
    app.add_exception_handler(Exception, on_bug)
    app.add_middleware(Bounds, reached=reached, files={f"{API}{PATH}": FILE_BYTES_MAX})
    app.add_middleware(Door, tokens=tokens, names=names, session=session, local=local)  # the first that a request meets
    for table in TABLES:
        part = partial(getattr, service, table.part)
        app.include_router(table.router(part), prefix=table.prefix, responses=PROBLEMS if table.prefix else None)
    return app
