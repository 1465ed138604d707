"""For the tests of drivers of low-radix switches: a twin in virtual time, reached by its driver and by bytes."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from hwd_drivers.conformance.bench import Bench, twin_bench
from hwd_drivers.core.documents import Json
from hwd_drivers.core.ids import Draws
from hwd_drivers.devices.registry import find
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.transports.rough import Way
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop

from .stage import Client, in_virtual_time

Say = Callable[[bytes], Awaitable[bytes | None]]
Story = Callable[[Bench, Say], Awaitable[None]]

HEARD_S = 0.001
"""Virtual time that an answer gets; selectors move in 8 ms."""


@pytest.fixture
def on_twin() -> Callable[..., None]:
    """Run a test with the twin of a driver: `on_twin(story, "leoni", "eol", "1x8", channel="moved")`; options last.

    The coroutine gets a bench, and `say`: it sends bytes as another client, and returns the answer within `HEARD_S`, or
    None where the twin ended that session.
    """

    def run(story: Story, driver: str, model: str, size: str | None = None, **options: Json) -> None:
        @in_virtual_time
        async def main() -> None:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop)
            dialer = MemoryDialer(MemoryNet())
            async with twin_bench(
                find(driver),
                model=model,
                size=size,
                way=Way.WHOLE,
                dialer=dialer,
                clock=VirtualClock(loop, wall_start_ns=0),
                draws=Draws(7),
                timing=find_timing("lowradix-8ms"),
                address="mem:twin",
                options=options,
            ) as bench:
                transport, client = await dialer.connect(lambda: Client(HEARD_S), "mem:twin")

                async def say(data: bytes) -> bytes | None:
                    heard = await client.say(data)
                    return None if client.ended else heard

                await story(bench, say)
                transport.abort()

        main()

    return run
