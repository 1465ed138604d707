"""Counters of the loopback, told while they move; a port that is missing is said so and the other goes on."""

import asyncio
import socket
from typing import Any

from hwd_agents.process.config import PortConfig
from hwd_agents.sources.kernel.port_counters import KernelCounters
from hwd_agents.sources.kernel.sockets import HostSockets
from hwd_agents.watchers.counter_watcher import CounterWatcher
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.offload import InlineOffload

from ..conftest import Ear


async def test_counters_that_moved_are_told_and_a_missing_port_is_said_so() -> None:
    ear, told = Ear(), asyncio.Event()

    def emit(kind: str, port: str | None, **more: Any) -> None:
        ear(kind, port, **more)
        told.set()

    watcher = CounterWatcher(
        {"up": PortConfig(interface="lo"), "away": PortConfig(interface="nic9")},
        KernelCounters(HostSockets(), InlineOffload()),
        SystemClock(),
        emit,
        every_s=0.01,
        origin="measured",
    )
    task = asyncio.create_task(watcher.run())
    async with asyncio.timeout(20):
        await told.wait()
        told.clear()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(bytes(500), ("127.0.0.1", 9))
        await told.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    first, second = ear.told[:2]
    assert (first.kind, first.port, first.source) == ("counters", "up", "counters")
    assert first.earliest_ns < first.at_ns <= second.earliest_ns
    assert second.data["tx_bytes"] - first.data["tx_bytes"] >= 528
    assert isinstance(second.data["tcp_retransmissions"], int)
    assert watcher.why_not("up") == ""
    assert "cannot read the counters of nic9: No such device" in watcher.why_not("away")
