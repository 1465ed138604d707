"""A rack of two hosts in the kernel, as whoever runs the tests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from hwd.twin.kernel import Crossbar, Keeper
from hwd_agents.sources.kernel.rtnetlink import RtnetlinkLinks
from hwd_agents.sources.link_source import LinkReading, OperState
from hwd_drivers.core.clock import SystemClock


@pytest.fixture
async def keeper(tmp_path: Path) -> AsyncIterator[Keeper]:
    async with Keeper() as keeper:
        await keeper.start(["h0", "h1"], tmp_path / "run")
        yield keeper


@pytest.fixture
def clock() -> SystemClock:
    return SystemClock()


@pytest.fixture
async def crossbar(keeper: Keeper, clock: SystemClock) -> AsyncIterator[Crossbar]:
    crossbar = Crossbar(keeper, clock)
    yield crossbar
    crossbar.close()


@pytest.fixture
def until_up(keeper: Keeper, crossbar: Crossbar, clock: SystemClock) -> Callable[..., Awaitable[None]]:
    """Wait until the kernel told of all these ports that they pass packets; before that it drops what they send."""

    async def wait(*ports: str) -> None:
        for host in ("h0", "h1"):
            missing = {plug.interface for plug in crossbar.plugs.values() if plug.port in ports and plug.host == host}
            up: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def take(reading: LinkReading, missing: set[str] = missing, up: asyncio.Future[None] = up) -> None:
                if reading.operstate is OperState.UP:
                    missing.discard(reading.interface)
                if not missing and not up.done():
                    up.set_result(None)

            links = RtnetlinkLinks(keeper.sockets(host), clock)
            await links.open(take)
            async with asyncio.timeout(20):
                await up
            await links.close()

    return wait
