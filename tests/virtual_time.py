"""Tests in virtual time: those that ask for `virtual_time`, by themselves or by a fixture, and all their fixtures.

`tests/conftest.py` gives the hook and what asks for it to all folders; `loop` and `clock` are imported where they are
used.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop

SELDOM_S = 0.25
"""Between two looks at light, for tests that do not measure when it comes: looks would take half of their time."""
Loops = Mapping[str, Callable[[], asyncio.AbstractEventLoop]]


def pytest_asyncio_loop_factories(item: pytest.Item) -> Loops:
    names = getattr(item, "fixturenames", ())
    if "both_times" in names:
        return {"real": asyncio.new_event_loop, "virtual": VirtualLoop}
    return {"virtual": VirtualLoop} if "virtual_time" in names else {"real": asyncio.new_event_loop}


@pytest.fixture
def virtual_time() -> None:
    """The coroutine of the test runs on a VirtualLoop; `pytest.mark.usefixtures` takes it for a whole file."""


@pytest.fixture
def both_times() -> None:
    """The coroutine of the test runs twice: in real and in virtual time."""


@pytest.fixture
async def virtual_loop(virtual_time: None) -> AsyncIterator[VirtualLoop]:
    """The loop of the test; libraries that draw from the global generator draw the same in every run."""
    before = random.getstate()
    random.seed(0)  # noqa: TID251 - libraries do not use Draws
    yield running_loop()
    random.setstate(before)


@pytest.fixture
async def loop(virtual_time: None) -> VirtualLoop:
    return running_loop()


@pytest.fixture
def clock(loop: VirtualLoop) -> VirtualClock:
    return VirtualClock(loop, wall_start_ns=0)


def running_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop
