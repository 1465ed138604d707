"""EventCalls: documents as they come."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Final

from fastapi import Header, Query
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from hwd.model.document_list import DocumentList
from hwd.web.calls.call import Call, Calls
from hwd.web.stream import EventStream
from hwd_agents.wire.access import ANYONE

Kinds = Annotated[list[str] | None, Query(description="only these; `run.` is all that begin so")]


class EventCalls:
    """The calls about the event stream of this process."""

    def __init__(self, events: EventStream) -> None:
        self._events = events

    async def follow(
        self,
        last_event_id: Annotated[str | None, Header()] = None,
        after: Annotated[str | None, Query(description="the same as Last-Event-ID, for whom a header is hard")] = None,
        kind: Kinds = None,
    ) -> Response:
        """Documents as server-sent events, from now on or from after an id."""
        start = self._events.after(last_event_id or after)
        return EventResponse(self._events.follow(start, tuple(kind or ())))

    def documents(
        self,
        after: Annotated[str | None, Query(description="an event id; without one, only `last` is told")] = None,
        kind: Kinds = None,
    ) -> DocumentList:
        """What the event stream keeps, at once. `last` is the id to go on after."""
        return self._events.snapshot(self._events.after(after), tuple(kind or ()))


class EventResponse(StreamingResponse):
    """Closes its stream when the listener disconnects, not when the garbage collector runs."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None], status_code: int = 200) -> None:
        super().__init__(events, status_code, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._events):
            await super().__call__(scope, receive, send)


EVENTS: Final = Calls(
    part="events",
    tag="events",
    rows=(
        Call(method="GET", path="/events", handler=EventCalls.follow, access=ANYONE, response_class=EventResponse),
        Call(method="GET", path="/documents", handler=EventCalls.documents, access=ANYONE),
    ),
)
