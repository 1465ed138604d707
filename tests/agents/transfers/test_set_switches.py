"""The blocking client and the agent's socket: what a process hears of a switch that the daemon is not asked for."""

import asyncio
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hwd_agents.process.config import TransfersConfig
from hwd_agents.process.daemon_asks import DaemonAsks
from hwd_agents.transfers import Transfers, switch_set
from hwd_agents.transfers.host_transfers import HostTransfers
from hwd_agents.wire import CountedBytes
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import FailedError, RefusedError
from hwd_drivers.core.ids import SeededIds
from hwd_drivers.core.offload import ThreadOffload
from hwd_drivers.transports.memory import MemoryNet


class HostWithoutBroker:
    """The transfers of an agent whose broker is away, at a Unix socket."""

    def __init__(self, place: Path) -> None:
        self.path = str(place / "transfers.sock")
        self.tasks: set[asyncio.Task[None]] = set()
        self.offload = ThreadOffload(1)
        asks = DaemonAsks(
            host="h0", boot="b1", clock=SystemClock(), is_up=lambda: False, publish=self.publish, spawn=self.spawn
        )
        self.transfers = HostTransfers(
            TransfersConfig(socket=f"unix:{self.path}"),
            asks,
            host="h0",
            boot="b1",
            clock=SystemClock(),
            ports={"eth0": None},
            counted=lambda: CountedBytes(at_ns=0),
            acceptor=MemoryNet(),
            ids=SeededIds(1),
            spawn=self.spawn,
        )

    async def publish(self, payload: bytes) -> None:
        raise AssertionError("nothing is asked for without a broker")

    def spawn(self, work: Coroutine[Any, Any, None], what: str) -> None:
        task = asyncio.create_task(work, name=what)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def listening(self) -> None:
        for name, run in self.transfers.runs():
            self.spawn(run(), name)
        async with asyncio.timeout(10):
            while not Path(self.path).is_socket():  # noqa: ASYNC110 - nothing tells that it listens
                await asyncio.sleep(0.01)

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.offload.close()


async def test_switch_without_a_broker_fails_at_once_with_the_remedy(tmp_path: Path) -> None:
    host = HostWithoutBroker(tmp_path)
    await host.listening()
    with pytest.raises(FailedError, match=r"the broker is not connected\. Try again"):
        await host.offload(partial(switch_set, "p7x2a1b9", "crossed", path=host.path))
    await host.close()


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("within_s", {"within_s": 61.0}), ("reconfiguration", {"reconfiguration": "no id!"}), ("epoch", {"epoch": -1})],
)
async def test_wrong_field_is_refused_at_once_and_named(tmp_path: Path, field: str, wrong: dict[str, Any]) -> None:
    """The agent cannot parse the line, so its answer has no id."""
    host = HostWithoutBroker(tmp_path)
    await host.listening()
    with Transfers(host.path) as transfers, pytest.raises(RefusedError, match=field):
        async with asyncio.timeout(4):
            await host.offload(partial(transfers.switch_set, "p7x2a1b9", "crossed", **wrong))
    await host.close()
