"""Virtual time for the tests that ask for it, and a device whose every answer the test sends."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop

from ...virtual_time import clock, loop
from ..parts import Recorder

__all__ = ["clock", "loop"]

T = TypeVar("T")


class Line:
    """The way to a device at mem:device, 10 ms away; `peer` is its end."""

    def __init__(self, clock: VirtualClock, loop: VirtualLoop) -> None:
        self.loop, self.clock = loop, clock
        self.net = MemoryNet(latency_s=0.01)
        self.dialer = MemoryDialer(self.net)
        self.peer = Recorder()

    async def listen(self) -> None:
        await self.dialer.listen(lambda: self.peer, "mem:device")

    def send(self, data: bytes) -> None:
        self.peer.transport.write(data)

    async def begun(self, request: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A request that has arrived at the device."""
        task = asyncio.create_task(request)
        await asyncio.sleep(0.1)
        return task

    def within(self, seconds: float = 1.0) -> float:
        """The deadline so long from now."""
        return self.loop.time() + seconds


@pytest.fixture
def line(clock: VirtualClock, loop: VirtualLoop) -> Line:
    return Line(clock, loop)
