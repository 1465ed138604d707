"""ProgramCalls: programs of the testbed file on single hosts."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from hwd.jobs.programs import ProgramRun, Programs
from hwd.model.bodies import ProgramBody, SignalBody
from hwd.model.program import ProgramStatus
from hwd.model.request import Caller
from hwd.web.calls.call import Call, Calls
from hwd_agents.wire.access import ANYONE, OPERATOR
from hwd_drivers.core.structs import to_json


class ProgramCalls:
    """The calls about programs on hosts."""

    def __init__(self, programs: Programs) -> None:
        self._programs = programs

    def programs(self) -> list[ProgramStatus]:
        """Programs that run on hosts now."""
        return self._programs.status()

    async def start(self, host: str, body: ProgramBody, caller: Caller | None = None) -> Response:
        """Start a program of the testbed file on a host: JSON lines of what it says, until it has ended.

        A first one `{"is": "started"}`, then `{"is": "output"}`, at last `{"is": "end"}`; an empty line after 10 s of
        silence. It is ended when its caller goes away.
        """
        return ProgramResponse(await self._programs.start(host, body.words, Caller.of(caller, body.by)))

    async def send_signal(self, id: str, body: SignalBody) -> ProgramStatus:
        """Send a signal to a program and its process group."""
        return await self._programs.signal(id, body.signal)


class ProgramResponse(StreamingResponse):
    """The output of a program, one JSON document a line; the program is ended when the caller disconnects."""

    media_type = "application/jsonl"

    def __init__(self, run: ProgramRun, status_code: int = 200) -> None:
        super().__init__(_lines(run), status_code, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._run = run

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await asyncio.shield(self._run.close())


async def _lines(run: ProgramRun) -> AsyncGenerator[bytes, None]:
    async with aclosing(run.news()) as found:
        async for news in found:
            yield (b"" if news is None else to_json(news)) + b"\n"


PROGRAMS: Final = Calls(
    part="programs",
    tag="programs on hosts",
    rows=(
        Call(method="GET", path="/programs", handler=ProgramCalls.programs, access=ANYONE),
        Call(
            method="POST",
            path="/hosts/{host}/programs",
            handler=ProgramCalls.start,
            access=OPERATOR,
            response_class=ProgramResponse,
        ),
        Call(method="POST", path="/programs/{id}/signal", handler=ProgramCalls.send_signal, access=OPERATOR),
    ),
)
