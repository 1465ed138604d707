"""Virtual time for the tests that ask for it, and a device whose every answer the test sends."""

import pytest

from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop

from ...virtual_time import clock, loop
from ..parts import Recorder

__all__ = [
    "clock",
    "loop",
]


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

    def within(self, seconds: float = 1.0) -> float:
        """The deadline so long from now."""
        return self.loop.time() + seconds


@pytest.fixture
def line(clock: VirtualClock, loop: VirtualLoop) -> Line:
    return Line(clock, loop)
