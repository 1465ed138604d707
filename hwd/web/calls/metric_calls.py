"""MetricCalls: metrics for Prometheus."""

from collections.abc import Callable
from typing import Annotated, Final

from fastapi import Header
from starlette.responses import Response, StreamingResponse

from hwd.telemetry import Exposition
from hwd.web.calls.call import Call, Calls
from hwd_agents.wire.access import ANYONE


class MetricCalls:
    """The scrape of Prometheus. `render(accept)`: the values of this moment."""

    def __init__(self, render: Callable[[str], Exposition]) -> None:
        self._render = render

    async def render(self, accept: Annotated[str, Header()] = "") -> Response:
        """Metrics for Prometheus: the text format, or OpenMetrics with exemplars where `Accept` asks for it."""
        exposition = self._render(accept)
        return StreamingResponse(exposition, headers={"Content-Type": exposition.content_type})


METRICS: Final = Calls(
    part="metrics",
    tag="probes",
    prefix="",
    rows=(
        Call(
            method="GET",
            path="/metrics",
            handler=MetricCalls.render,
            access=ANYONE,
            response_class=StreamingResponse,
        ),
    ),
)
