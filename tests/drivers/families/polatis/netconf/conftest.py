"""A Polatis unit behind SSH for the tests in this folder, in real time."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from hwd_drivers.core.offload import ThreadOffload
from hwd_drivers.transports.dial import Dialer, TcpDialer

from ....stage import Stage

Judge = Callable[..., Awaitable[Any]]


def polatis(dialer: Dialer | None = None) -> Stage:
    login = {"user": "admin", "password": "root"}
    return Stage("polatis-netconf", "polatis-6000", "8x8", options={**login}, within_s=3.0, dialer=dialer)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    async with polatis() as stage:
        yield stage


@pytest.fixture
async def on_tcp() -> AsyncIterator[Stage]:
    async with polatis(TcpDialer()) as stage:
        yield stage


@pytest.fixture
def judge() -> Judge:
    """Run a function with a twin in a thread, as foreign clients block: `judge(work, size="8", in_use="deny")`."""

    async def run(work: Callable[[Any], Any], *, model: str = "polatis-6000", size: str = "8x8", **options: Any) -> Any:
        offload = ThreadOffload(1)
        try:
            async with polatis(TcpDialer()) as stage:
                stage.model, stage.size = model, size
                return await offload(work, await stage.start(**options))
        finally:
            offload.close()

    return run
