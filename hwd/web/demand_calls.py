"""The calls of the HTTP API for stored demands. A demand comes as the bytes of a file, not as JSON."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from hwd.model.demand import NUMBER_MAX, DemandKey, DemandMatrix, DemandSummary
from hwd.web.bodies import described, encoded
from hwd.web.demands import AddDemand
from hwd.web.door import caller_of
from hwd.web.service import Service
from hwd_drivers.core.errors import ConfigError

PATH: Final = "/demands"
MEDIA_TYPES: Final = ("application/octet-stream", "application/x-npz", "text/csv")
FILE: Final = {
    "required": True,
    "content": {name: {"schema": {"type": "string", "format": "binary"}} for name in MEDIA_TYPES},
}
"""The body, for the OpenAPI document."""


def demands_router(service: Service) -> APIRouter:
    router = APIRouter(tags=["demands"])

    @router.get(PATH, openapi_extra=described(answer=list[DemandSummary]))
    async def demands() -> Response:
        """Stored demands, in the order of their names, without their matrices."""
        return encoded(await service.demands())

    @router.post(
        PATH, status_code=201, openapi_extra={"requestBody": FILE, **described(answer=DemandSummary, status=201)}
    )
    async def add(
        request: Request,
        name: Annotated[str, Query(description="what it is stored under")],
        hosts: Annotated[str, Query(description="the servers of its rows, in their order: `h0,h1`")] = "",
        experts_per_gpu: Annotated[int | None, Query(description="where its rows are experts")] = None,
        gpus_per_server: Annotated[int | None, Query(description="where its rows are experts")] = None,
        replace: Annotated[bool, Query(description="also where there is one of that name")] = False,
        by: Annotated[str | None, Query(max_length=200, description="who adds it, where no token says so")] = None,
    ) -> Response:
        """Store a demand, of which the body is the CSV or NPZ file as it is; none of it where a part is wrong."""
        asked = AddDemand(
            name=name,
            hosts=tuple(host.strip() for host in hosts.split(",")) if hosts else (),
            experts_per_gpu=experts_per_gpu,
            gpus_per_server=gpus_per_server,
            replace=replace,
            by=by,
        )
        return encoded(await service.add_demand(asked, await _file(request), caller_of(request)), 201)

    @router.get(f"{PATH}/{{name}}", openapi_extra=described(answer=DemandMatrix))
    async def demand(
        name: str,
        layer: Annotated[int, Query(ge=0, le=NUMBER_MAX)] = 0,
        microbatch: Annotated[int, Query(ge=0, le=NUMBER_MAX)] = 0,
    ) -> Response:
        """One matrix of a stored demand."""
        return encoded(await service.demand(DemandKey(name=name, layer=layer, microbatch=microbatch)))

    @router.delete(f"{PATH}/{{name}}", openapi_extra=described(answer=DemandSummary))
    async def remove(name: str) -> Response:
        """Remove a stored demand; answers what it was. Plans that were made of it stay as they are."""
        return encoded(await service.remove_demand(name))

    return router


async def _file(request: Request) -> bytes:
    """Raises ConfigError where the body is none of `MEDIA_TYPES`, or missing."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in MEDIA_TYPES:
        raise ConfigError(
            f"the body: must be a CSV or NPZ file as it is, with the header Content-Type: {', or '.join(MEDIA_TYPES)}"
        )
    if not (data := await request.body()):
        raise ConfigError("the body: is missing")
    return data
