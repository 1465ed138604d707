"""Counters of the loopback, told while they move; a port that is missing is said so and the other goes on."""

import asyncio
import socket
from typing import Any

import pytest

from hwd_agents.process.config import PortConfig
from hwd_agents.sources.kernel.port_counters import KernelCounters
from hwd_agents.sources.kernel.sockets import HostSockets
from hwd_agents.watchers.counter_watcher import CounterWatcher
from hwd_agents.wire.events import CounterData
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


class Counters:
    """A CounterSource whose interface `odd` counts what `wrong` says, and `well` as a kernel does."""

    def __init__(self, *, again: int | None = 7, **wrong: int) -> None:
        self.again = again
        self.wrong = wrong
        self.count = 0

    async def read_counters(self, interface: str) -> CounterData:
        self.count += 1
        fields = dict.fromkeys(CounterData.__struct_fields__[:-1], self.count)
        return CounterData(**(fields | self.wrong if interface == "odd" else fields))

    async def read_retransmissions(self) -> int | None:
        return self.again


async def events_of(source: Counters) -> tuple[Ear, CounterWatcher]:
    """What a watcher of both interfaces reports in a second, in which it reads each many times."""
    ear = Ear()
    ports = {"odd": PortConfig(interface="odd"), "well": PortConfig(interface="well")}
    watcher = CounterWatcher(ports, source, SystemClock(), ear, every_s=0.1, origin="measured")
    with pytest.raises(TimeoutError):  # nothing else ends it
        async with asyncio.timeout(1):
            await watcher.run()
    return ear, watcher


@pytest.mark.parametrize("count", [-1, 1 << 64])
async def test_what_no_counter_has_ends_no_watcher_and_costs_no_other_counter(virtual_time: None, count: int) -> None:
    ear, watcher = await events_of(Counters(tx_bytes=count))
    assert {event.port for event in ear.told} == {"well"}
    assert len(ear.told) > 5
    assert watcher.why_not("odd") == "tx_bytes is no counter of 64 bits"
    ear, watcher = await events_of(Counters(tx_bytes=(1 << 64) - 1, rx_bytes=0))
    assert {event.port for event in ear.told} == {"odd", "well"}
    assert watcher.why_not("odd") == ""
    ear, watcher = await events_of(Counters(again=count))
    assert {event.port for event in ear.told} == {"odd", "well"}
    assert all(event.data["tcp_retransmissions"] is None for event in ear.told)
    assert watcher.why_not("retransmissions") == f"{count} retransmissions are no counter of 64 bits"
