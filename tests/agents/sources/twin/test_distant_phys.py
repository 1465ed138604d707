"""PHYs told by a twin on another machine: its clock is off by hours, and no bound is wrong for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hwd_agents.sources.twin.distant_phys import ASK_EVERY_S
from hwd_agents.sources.twin.hostwire_server import HostWireServer
from hwd_agents.sources.twin.played import PlayedHost
from hwd_agents.sources.twin.twin_sources import TwinSources
from hwd_drivers.core.clock import ShiftedClock
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop

from ...conftest import staged

LATENCY_S = 0.003
OFF_S = -7200.0
SLACK_NS = 2_000


class World:
    """A played host, and the sources of its agent, whose clock is 2 h behind that of the twin."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.machine = VirtualClock(loop, wall_start_ns=1_800_000_000 * 10**9)
        self.clock = ShiftedClock(self.machine, offset_s=OFF_S, drift_ppm=0)
        self.dialer = MemoryDialer(MemoryNet(latency_s=LATENCY_S))
        self.host = PlayedHost("h0")
        self.host.plug("eth0", ip="10.0.0.1", rdma="mlx5_0", ifindex=100)
        self.twin = TwinSources(self.dialer, "mem:h0", self.clock, host="h0", same_clock=False)
        self.told: list[tuple[bool, int, int]] = []

    def take(self, interface: str, up: bool, earliest_ns: int, at_ns: int) -> None:
        self.told.append((up, earliest_ns, at_ns))


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    one = World()
    listener = await one.dialer.listen(lambda: HostWireServer(one.host, one.machine), "mem:h0")
    tasks = [
        asyncio.create_task(one.twin.run(lambda: None)),
        asyncio.create_task(one.twin.phys.open_phy(one.take, lambda: None)),
    ]
    await asyncio.sleep(1)
    yield one
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await listener.close()


@staged(world)
async def test_a_change_lies_between_the_last_answer_and_our_receipt(one: World) -> None:
    one.twin.phys.observe("eth0", True)
    for up in (True, False, True):
        await asyncio.sleep(0.777)
        changed_ns = one.clock.monotonic_ns()
        one.host.phy("eth0", up=up)
        await asyncio.sleep(0.1)
        now, earliest_ns, at_ns = one.told[-1]
        assert now is up
        assert earliest_ns <= changed_ns <= at_ns
        assert at_ns - earliest_ns <= (ASK_EVERY_S + 4 * LATENCY_S) * 1e9 + SLACK_NS


@staged(world)
async def test_the_interval_of_a_late_report_contains_the_change(one: World) -> None:
    one.twin.phys.observe("eth0", True)
    await asyncio.sleep(0.5)
    changed_ns, stamp_ns = one.clock.monotonic_ns(), one.machine.wall_ns()
    await asyncio.sleep(0.25)
    one.host.phy("eth0", up=True, stamp_ns=stamp_ns)
    await asyncio.sleep(0.1)
    _, earliest_ns, at_ns = one.told[-1]
    assert earliest_ns <= changed_ns <= at_ns


@staged(world)
async def test_what_is_told_again_is_no_change_and_an_unobserved_one_is_known_since_the_last_answer(one: World) -> None:
    assert one.told == [(False, *one.told[0][1:])]
    one.twin.phys.observe("eth0", True)
    await asyncio.sleep(1)
    one.twin.phys.observe("eth0", False)
    await asyncio.sleep(1)
    assert len(one.told) == 1
    left_ns = one.clock.monotonic_ns()
    await asyncio.sleep(60)
    one.host.phy("eth0", up=True)
    await asyncio.sleep(1)
    assert len(one.told) == 2
    _, earliest_ns, at_ns = one.told[-1]
    assert earliest_ns <= left_ns
    assert at_ns > left_ns + 59 * 10**9
