"""DemandCalls: stored demands. A demand comes as the bytes of a file, not as JSON."""

from typing import Annotated, Final

from fastapi import Query, Request

from hwd.model.demand import NUMBER_MAX, DemandKey, DemandMatrix, DemandSummary
from hwd.model.request import Caller
from hwd.reconfigure.demands import AddDemand, Demands
from hwd.web.calls.call import Call, Calls
from hwd_agents.wire.access import ANYONE, OPERATOR
from hwd_drivers.core.errors import ConfigError

PATH: Final = "/demands"
MEDIA_TYPES: Final = ("application/octet-stream", "application/x-npz", "text/csv")
FILE: Final = {
    "required": True,
    "content": {name: {"schema": {"type": "string", "format": "binary"}} for name in MEDIA_TYPES},
}
"""The body, for the OpenAPI document."""
Number = Annotated[int, Query(ge=0, le=NUMBER_MAX)]


class DemandCalls:
    """The calls about stored demands: see `Demands`."""

    def __init__(self, demands: Demands) -> None:
        self._demands = demands

    async def demands(self) -> list[DemandSummary]:
        """Stored demands, in the order of their names, without their matrices."""
        return [*await self._demands.all()]

    async def add(
        self,
        request: Request,
        name: Annotated[str, Query(description="what it is stored under")],
        hosts: Annotated[str, Query(description="the servers of its rows, in their order: `h0,h1`")] = "",
        experts_per_gpu: Annotated[int | None, Query(description="where its rows are experts")] = None,
        gpus_per_server: Annotated[int | None, Query(description="where its rows are experts")] = None,
        replace: Annotated[bool, Query(description="also where there is one of that name")] = False,
        by: Annotated[str | None, Query(max_length=200, description="who adds it, where no token says so")] = None,
        caller: Caller | None = None,
    ) -> DemandSummary:
        """Store a demand, of which the body is the CSV or NPZ file as it is; none of it where a part is wrong."""
        asked = AddDemand(
            name=name,
            hosts=tuple(host.strip() for host in hosts.split(",")) if hosts else (),
            experts_per_gpu=experts_per_gpu,
            gpus_per_server=gpus_per_server,
            replace=replace,
            by=by,
        )
        return await self._demands.add(asked, await _file(request), caller)

    async def demand(self, name: str, layer: Number = 0, microbatch: Number = 0) -> DemandMatrix:
        """One matrix of a stored demand."""
        return await self._demands.matrix(DemandKey(name=name, layer=layer, microbatch=microbatch))

    async def remove(self, name: str) -> DemandSummary:
        """Remove a stored demand; answers what it was. Plans that were made of it stay as they are."""
        return await self._demands.remove(name)


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


DEMANDS: Final = Calls(
    part="demands",
    tag="demands",
    rows=(
        Call(method="GET", path=PATH, handler=DemandCalls.demands, access=ANYONE),
        Call(method="POST", path=PATH, handler=DemandCalls.add, access=OPERATOR, status=201, request_body=FILE),
        Call(method="GET", path=f"{PATH}/{{name}}", handler=DemandCalls.demand, access=ANYONE),
        Call(method="DELETE", path=f"{PATH}/{{name}}", handler=DemandCalls.remove, access=OPERATOR),
    ),
)
