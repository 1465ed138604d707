"""A restart of a switch between two sessions is not taken for a foreign change: real sockets, several families."""

import asyncio
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hwd_drivers.conformance.bench import Bench, twin_bench
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document
from hwd_drivers.core.ids import Draws
from hwd_drivers.devices.registry import find
from hwd_drivers.devices.supervisor import Supervisor
from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.transports.rough import Way
from hwd_drivers.twins.timing import find_timing

OFF_S = 0.3
"""How long the unit is without power."""


class Watched:
    """A supervisor of a twin, and its documents."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.documents: list[Document] = []
        self._came = asyncio.Event()
        self.supervisor = Supervisor(
            name="sw",
            open=bench.open,
            clock=bench.clock,
            sink=self._take,
            draws=Draws(7),
            poll_s=0.1,
            longest_retry_s=0.2,
        )

    def _take(self, document: Document) -> None:
        self.documents.append(document)
        self._came.set()

    def told(self, kind: str) -> list[dict[str, Any]]:
        return [document.fact.to_data() for document in self.documents if document.kind == kind]

    async def until(self, what: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not what():
                self._came.clear()
                await self._came.wait()

    async def restart(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Make a crossconnect and cut the power; returns the reported restarts, and the first reading after it."""
        arranged = self.bench.arrangements
        deadline_s = asyncio.get_running_loop().time() + 10
        await self.supervisor.change(
            remove=[*arranged.rest - arranged.one], add=[*arranged.one - arranged.rest], deadline_s=deadline_s
        )
        await self.until(lambda: bool(self.told("switch.read")[-1]["added"]))
        assert self.bench.twin is not None
        self.bench.twin.faults.reboot(OFF_S)
        await self.until(lambda: len(self.told("switch.up")) == 2)
        reads = len(self.told("switch.read"))
        await self.until(lambda: len(self.told("switch.read")) > reads)
        return self.told("switch.restarted"), self.told("switch.read")[reads]


@asynccontextmanager
async def watched(driver: str, model: str, size: str | None, **options: Any) -> Any:
    async with twin_bench(
        find(driver),
        model=model,
        size=size,
        way=Way.WHOLE,
        dialer=TcpDialer(),
        clock=SystemClock(),
        draws=Draws(7),
        timing=find_timing("ideal"),
        address="127.0.0.1:0",
        options=options,
    ) as bench:
        one = Watched(bench)
        running = asyncio.create_task(one.supervisor.run(), name="test:supervisor")
        try:
            await asyncio.wait_for(one.supervisor.wait_up(), 30)
            yield one
        finally:
            running.cancel()
            await asyncio.wait([running])


@pytest.mark.parametrize(
    ("driver", "model", "size"),
    [
        ("polatis-tl1", "polatis-6000", "8x8"),
        ("polatis-scpi", "polatis-6000", "8x8"),
        ("polatis-restconf", "polatis-6000", "8x8"),
        ("polatis-netconf", "polatis-6000", "8x8"),
        ("osw", "osw", "4x6"),
        ("dicon-mxs", "mxs-9100", "8x8"),
    ],
)
async def test_non_latching_unit_without_uptime_seems_to_have_restarted(driver: str, model: str, size: str) -> None:
    async with watched(driver, model, size) as one:
        (restart,), read = await one.restart()
        assert (restart["sign"], restart["uptime_s"]) == ("at-rest", None)
        assert restart["lost"] == read["removed"] != []
        assert read["ours"] is True
        assert restart["unheard_s"] >= OFF_S


async def test_calient_that_comes_back_empty_seems_to_have_restarted() -> None:
    async with watched("calient-tl1", "calient-s160", None, power_up="empty") as one:
        (restart,), read = await one.restart()
        assert (restart["sign"], read["ours"]) == ("at-rest", True)


@pytest.mark.parametrize(("startup", "gone"), [("config", False), ("dark", True)])
async def test_unit_with_uptime_has_restarted_for_certain(startup: str, gone: bool) -> None:
    async with watched("sonic-ocs", "sonic-ocs", "8x8", startup=startup) as one:
        (restart,), read = await one.restart()
        assert (restart["sign"], restart["uptime_s"]) == ("uptime", 0.0)
        assert bool(restart["lost"]) is gone
        assert read["ours"] is True


async def test_latching_unit_has_lost_nothing_and_no_change_is_foreign() -> None:
    async with watched("ttl", "latching-1x2", None) as one:
        restarts, read = await one.restart()
        assert restarts == []
        assert (read["removed"], read["ours"]) == ([], True)
