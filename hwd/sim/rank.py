"""A rank of a training job in a simulated world: connected to the agent of its host, it says what it is sending, and
switches prepared sets.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from typing_extensions import override

from hwd.sim.world import World, transfer_address
from hwd_drivers.core.structs import to_json

ANSWER_WITHIN_S: Final = 70.0
"""The agent answers within 2.5 s beside the wait, of 60 s at most."""


class Rank(asyncio.Protocol):
    """One connection. `over`: what the agent said of transfers that it has not ended, by transfer."""

    def __init__(self) -> None:
        self.over: dict[str, str] = {}
        self.gone = asyncio.Event()
        self._transport: asyncio.Transport | None = None
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._buffer = b""
        self._number = 0

    @classmethod
    async def connect(cls, world: World, host: str) -> "Rank":
        """Raises OSError where its agent is down."""
        _, rank = await world.net.connect(cls, transfer_address(host))
        return rank

    async def claim(self, *links: str, within_s: float, phase: str = "-", wait_s: float = 0.0) -> dict[str, Any]:
        """The answer of the agent; `outcome` is `gone` where it died before."""
        claim = {"links": links, "within_s": within_s, "phase": phase, "wait_s": wait_s, "process": "rank"}
        return await self._ask(claim=claim)

    async def end(self, transfer: str) -> dict[str, Any]:
        return await self._ask(end=transfer)

    async def switch_set(self, prepared_set: str, target: str, **more: Any) -> dict[str, Any]:
        """Ask the agent for a switch of a prepared set; `outcome` is `gone` where it died before."""
        return await self._ask(switch={"prepared_set": prepared_set, "target": target, "process": "rank", **more})

    async def join(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """Come to a job. `job`: its id, the number of the rank and its key, here and below."""
        return await self._ask(join=job)

    async def ask(
        self, job: Mapping[str, Any], operation: Mapping[str, Any], *, within_s: float, wait_s: float
    ) -> dict[str, Any]:
        """The plane's answer: `go` with the transfer that is to be ended, or else."""
        return await self._ask(ask={**job, "operation": operation, "within_s": within_s, "wait_s": wait_s})

    async def done(self, job: Mapping[str, Any], operation: Mapping[str, Any]) -> dict[str, Any]:
        """An operation has ended whose agent was started anew meanwhile."""
        return await self._ask(done={**job, "operation": operation})

    def leave(self) -> None:
        """Die: the connection ends."""
        if self._transport is not None:
            self._transport.abort()

    async def _ask(self, **fields: Any) -> dict[str, Any]:
        if self._transport is None:
            return {"outcome": "gone", "why": "its agent is gone"}
        self._number += 1
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[self._number] = answer
        self._transport.write(to_json({**fields, "id": self._number}) + b"\n")
        async with asyncio.timeout(ANSWER_WITHIN_S):
            return await answer

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            found = msgspec.json.decode(line)
            if "over" in found:
                self.over[found["over"]] = found["why"]
            elif (waiting := self._answers.pop(found["id"], None)) is not None and not waiting.done():
                waiting.set_result(found)

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.gone.set()
        for waiting in self._answers.values():
            if not waiting.done():
                waiting.set_result({"outcome": "gone", "why": "its agent is gone"})
        self._answers.clear()
