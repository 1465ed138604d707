"""A world of the gateway and its peers for each test, in virtual time."""

from collections.abc import AsyncIterator

import pytest

from ..agents.bus.conftest import url
from ..virtual_time import clock, loop
from .world import Peer, World

__all__ = ["clock", "loop", "url"]


@pytest.fixture
async def world(request: pytest.FixtureRequest, virtual_time: None) -> AsyncIterator[World]:
    """Its parameter: what is set otherwise than usual."""
    async with World(**getattr(request, "param", {})) as world:
        yield world


@pytest.fixture
async def peer(world: World) -> Peer:
    """The agent of h0, whose clock is aligned."""
    return await world.aligned_peer()
