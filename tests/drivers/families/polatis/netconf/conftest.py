"""A Polatis unit behind SSH for the tests in this folder."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document
from hwd_drivers.core.ids import Draws
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.families.polatis.models import MODELS_REPORTING_BEFORE
from hwd_drivers.families.polatis.netconf.driver import NetconfOptions
from hwd_drivers.families.polatis.twin import PolatisTwin
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.timing import find_timing

MakeUnit = Callable[..., AbstractAsyncContextManager[tuple[PolatisTwin, OpenContext]]]


@pytest.fixture
def unit() -> "MakeUnit":
    """A twin that answers NETCONF, and what a driver needs to open it."""
    return _unit


@asynccontextmanager
async def _unit(
    *,
    dialer: Dialer | None = None,
    address: str = "mem:ocs1",
    model: str = "polatis-6000",
    size: str = "8x8",
    timing: str = "ideal",
    **options: Any,
) -> AsyncIterator[tuple[PolatisTwin, OpenContext]]:
    dialer = dialer or MemoryDialer(MemoryNet())
    capabilities = MODELS_REPORTING_BEFORE[model](size)
    twin = PolatisTwin(
        "netconf",
        name="ocs1",
        capabilities=capabilities,
        timing=find_timing(timing),
        draws=Draws(1),
        clock=SystemClock(),
        dialer=dialer,
        address=address,
        options={"user": "admin", "password": "root"} | options,
    )
    context = OpenContext(
        name="ocs1",
        address=await twin.start(),
        dialer=dialer,
        clock=SystemClock(),
        sink=_nothing,
        user="admin",
        password="root",
        options=NetconfOptions(),
        capabilities=capabilities,
    )
    try:
        yield twin, context
    finally:
        await twin.close()


def _nothing(document: Document) -> None:
    """No sink is looked at here."""
