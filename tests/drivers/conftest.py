"""The stage of each file of tests of drivers: that of its `make_stage`."""

from collections.abc import AsyncIterator

import pytest

from hwd_drivers.transports.dial import TcpDialer

from .stage import Stage


@pytest.fixture
async def stage(request: pytest.FixtureRequest, virtual_time: None) -> AsyncIterator[Stage]:
    """In virtual time."""
    async with request.module.make_stage() as stage:
        yield stage


@pytest.fixture
async def on_tcp(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    """On sockets, in real time."""
    async with request.module.make_stage(TcpDialer()) as stage:
        yield stage
