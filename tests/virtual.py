"""Tests in virtual time: those that ask for `virtual_time`, themselves or by a fixture, and all their fixtures.

A folder's conftest imports the names of this module, the hook among them.
"""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop


def pytest_asyncio_loop_factories(item: pytest.Function) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if "both_times" in item.fixturenames:
        return {"real": asyncio.new_event_loop, "virtual": VirtualLoop}
    if "virtual_time" in item.fixturenames:
        return {"virtual": VirtualLoop}
    return {"real": asyncio.new_event_loop}


@pytest.fixture
def virtual_time() -> None:
    """The coroutine of the test runs on a VirtualLoop; `pytest.mark.usefixtures` takes it for a whole file."""


@pytest.fixture
def both_times() -> None:
    """The coroutine of the test runs twice: in real and in virtual time."""


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
