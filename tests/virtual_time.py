"""Tests in virtual time: those that ask for `virtual_loop`, by themselves or by a fixture.

    from ..virtual_time import pytest_asyncio_loop_factories, virtual_loop

in the conftest of a folder gives it to the folder's tests.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from hwd_drivers.twins.virtual_time import VirtualLoop

Make = Callable[[], asyncio.AbstractEventLoop]


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Make]:
    assert isinstance(item, pytest.Function)
    return {"virtual": VirtualLoop} if "virtual_loop" in item.fixturenames else {"real": asyncio.new_event_loop}


@pytest.fixture
async def virtual_loop() -> AsyncIterator[VirtualLoop]:
    """The loop of the test; libraries that draw from the global generator draw the same in every run."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    before = random.getstate()
    random.seed(0)  # noqa: TID251 - libraries do not use Draws
    yield loop
    random.setstate(before)
