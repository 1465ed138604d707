"""One connection of the HTTP server: uvicorn's own protocol, with a time limit for each step of the client."""

import asyncio
from collections.abc import Callable
from typing import Final

import h11
import uvicorn
from typing_extensions import override
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from hwd.model.limit import Limit, Reached
from hwd.web.door import STRANGER
from hwd.web.problem import MEDIA_TYPE, problem_of_kind
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.structs import to_json

HEAD_BYTES_MAX: Final = 16 * 1024
"""Request line and header fields."""
HEAD_WITHIN_S: Final = 10.0
"""From the connection, or from the first byte of a further request, to the end of the head."""
BODY_WITHIN_S: Final = 30.0
"""From the end of the head to the end of the body; the largest takes 3 s at 10 Mbit/s."""
IDLE_S: Final = 15
"""The time limit between an answer and the next request."""
TAKE_WITHIN_S: Final = 60.0
"""The time limit for the client to read some of an answer once the buffers are full."""


class Connection(H11Protocol):
    """A connection of an HTTP client; `lost` is called when it has ended. `waits`: no request with a token is in
    progress, so it may be closed.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        *,
        reached: Reached,
        lost: Callable[["Connection"], None],
        scale: float = 1.0,
    ) -> None:
        super().__init__(config, server_state, {})
        self._reached = reached
        self._lost = lost
        self._scale = scale
        self._due: asyncio.TimerHandle | None = None
        self._due_for = ""
        self._stuck: asyncio.TimerHandle | None = None
        self._begun = False

    @property
    def waits(self) -> bool:
        if not self._begun or self.cycle is None:  # uvicorn has no cycle before the first request
            return True
        return self.cycle.response_complete or STRANGER in self.scope.get("state", {})

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look()

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._stuck = self.loop.call_later(TAKE_WITHIN_S * self._scale, self._late, "reads nothing of its answer")

    @override
    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._due, self._stuck):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)
        self._lost(self)

    @override
    def send_400_response(self, msg: str) -> None:
        """The answer to bytes that are no HTTP, and to an endless head."""
        size = len(self.conn.trailing_data[0])
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # an answer is on its way: nothing fits behind it
            self.transport.close()
        elif size > HEAD_BYTES_MAX:
            self._reached(Limit.HTTP_HEAD, f"{self.peer}: {size} bytes and no end, at most {HEAD_BYTES_MAX}")
            self._refuse(431, f"the head of the request is over {HEAD_BYTES_MAX} bytes")
        else:
            self._refuse(400, "this is no HTTP request")

    @property
    def peer(self) -> str:
        return self.client[0] if self.client else "?"

    def cut(self) -> None:
        self.transport.abort()

    def _look(self) -> None:
        """The next step of the client and its deadline; uvicorn itself closes connections between requests."""
        state = self.conn.their_state
        due_for, within_s = "", 0.0
        if state is h11.SEND_BODY:
            self._begun = True
            due_for, within_s = "the body", BODY_WITHIN_S
        elif state is not h11.IDLE:
            self._begun = True
        elif not self._begun or self.conn.trailing_data[0]:
            due_for, within_s = "the head", HEAD_WITHIN_S
        if due_for == self._due_for:
            return
        self._due_for = due_for
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if due_for:
            self._due = self.loop.call_later(within_s * self._scale, self._late, f"{due_for} of a request is not whole")

    def _late(self, what: str) -> None:
        if not self.transport.is_closing():
            self._reached(Limit.HTTP_LATE, f"{self.peer}: {what} in time")
            self.transport.abort()

    def _refuse(self, status: int, detail: str) -> None:
        body = to_json(problem_of_kind(ConfigError, status, detail))
        headers = [("Content-Type", MEDIA_TYPE), ("Content-Length", str(len(body))), ("Connection", "close")]
        for event in (h11.Response(status_code=status, headers=headers), h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
