"""Sources over the wire of a twin host: stamps lie between the twin's change and our receipt; they reconnect."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from hwd_agents.sources.link_source import LinkReading
from hwd_agents.sources.twin.hostwire_server import HostWireServer
from hwd_agents.sources.twin.manual_host import ManualHost
from hwd_agents.sources.twin.twin_phys import ASK_EVERY_S
from hwd_agents.sources.twin.twin_sources import TwinSources
from hwd_drivers.core.clock import ShiftedClock
from hwd_drivers.core.errors import LinkError
from hwd_drivers.transports.dial import Listener
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.virtual_time import VirtualClock

from ....virtual_time import running_loop
from ...conftest import stop

OFFSET_NS = 5_000_000_000
LATENCY_S = 0.0001


class World:
    """One played host and the sources of its agent, whose clock is off."""

    def __init__(self, *, offset_s: float = 5, latency_s: float = LATENCY_S, same_clock: bool = True) -> None:
        self.machine = VirtualClock(running_loop(), wall_start_ns=1_800_000_000 * 10**9)
        self.clock = ShiftedClock(self.machine, offset_s=offset_s, drift_ppm=0)
        self.dialer = MemoryDialer(MemoryNet(latency_s=latency_s))
        self.host = ManualHost("h0")
        self.host.plug("eth0", ip="10.0.0.1", rdma="mlx5_0", ifindex=100)
        self.twin = TwinSources(self.dialer, "mem:h0", self.clock, host="h0", same_clock=same_clock)
        self.changes = 0
        self.readings: list[LinkReading] = []
        self.phys: list[tuple[bool, int, int]] = []

    async def listen(self) -> Listener:
        return await self.dialer.listen(lambda: HostWireServer(self.host, self.machine), "mem:h0")

    def changed(self) -> None:
        self.changes += 1

    def take_phy(self, interface: str, up: bool, earliest_ns: int, at_ns: int) -> None:
        self.phys.append((up, earliest_ns, at_ns))


@pytest.fixture
async def one(virtual_time: None) -> AsyncIterator[World]:
    one = World()
    listener = await one.listen()
    running = asyncio.create_task(one.twin.run(one.changed))
    await one.twin.links.open(one.readings.append)
    yield one
    await stop(running)
    await listener.close()


async def test_change_that_came_before_the_report_of_the_one_before_it_was_read_is_within_its_bounds(
    one: World,
) -> None:
    await one.twin.phys.open_phy(one.take_phy, lambda: None)
    changed_ns = []
    for up in (True, False, True):
        changed_ns.append(one.machine.monotonic_ns() + OFFSET_NS)
        one.host.carrier("eth0", up=up)
        one.host.phy("eth0", up=up)
        await asyncio.sleep(LATENCY_S / 10)
    await asyncio.sleep(1)
    links = [(one.carrier, one.earliest_ns, one.at_ns) for one in one.readings]
    for found in (links[1:], one.phys[1:]):
        assert [up for up, _, _ in found] == [True, False, True]
        for at_ns, (_, earliest_ns, latest_ns) in zip(changed_ns, found, strict=True):
            assert earliest_ns is not None
            assert earliest_ns <= at_ns <= latest_ns


async def test_while_the_rack_is_away_reads_fail_and_the_notes_say_why(one: World) -> None:
    assert one.twin.modules.note.why_not == ""
    changes = one.changes
    one.host.hang_up()
    await asyncio.sleep(0.01)
    with pytest.raises(LinkError, match="h0: its twin at mem:h0 is away"):
        await one.twin.modules.read_module("eth0")
    for facet in (one.twin.links, one.twin.modules, one.twin.files, one.twin.phys, one.twin.datagrams):
        assert facet.note.sees == []
        assert "is away" in facet.note.why_not
    assert one.changes == changes + 1
    await asyncio.sleep(2)
    assert one.twin.modules.note.why_not == ""
    await one.twin.modules.read_module("eth0")


async def test_what_happened_while_the_rack_was_away_began_after_we_knew_last(one: World) -> None:
    known_ns = one.readings[-1].at_ns
    one.host.hang_up()
    await asyncio.sleep(0.01)
    one.host.carrier("eth0", up=True, flaps=2)
    await asyncio.sleep(2)
    reading = one.readings[-1]
    assert reading.carrier
    assert reading.earliest_ns == known_ns - round(LATENCY_S * 1e9)  # when the twin stamped it


async def test_datagrams_pass_where_the_light_goes_and_ports_survive_the_rack(one: World) -> None:
    other = ManualHost("h1")
    other.plug("eth0", ip="10.0.0.2")
    one.host.join("eth0", other, "eth0")
    listener = await one.dialer.listen(lambda: HostWireServer(other, one.machine), "mem:h1")
    twin = TwinSources(one.dialer, "mem:h1", one.machine, host="h1")
    running = asyncio.create_task(twin.run(one.changed))
    await twin.links.open(lambda _reading: None)
    heard: list[tuple[bytes, tuple[str, int], int]] = []

    def hear(payload: bytes, address: tuple[str, int], at_ns: int) -> None:
        heard.append((payload, address, at_ns))

    here = await one.twin.datagrams.open("eth0", "10.0.0.1", 0, hear)
    there = await twin.datagrams.open("eth0", "10.0.0.2", 0, hear)
    assert here.send(b"dark", ("10.0.0.2", there.port))
    one.host.carrier("eth0", up=True)
    other.carrier("eth0", up=True)
    one.host.hang_up()
    await asyncio.sleep(0.01)
    assert not here.send(b"away", ("10.0.0.2", there.port))
    assert "is away" in here.last_failure
    await asyncio.sleep(2)
    sent_ns = one.machine.monotonic_ns()
    assert here.send(b"lit", ("10.0.0.2", there.port))
    assert there.send(b"back", ("10.0.0.1", here.port))
    await asyncio.sleep(0.1)
    latency_ns = round(LATENCY_S * 1e9)
    assert sorted(heard) == [
        (b"back", ("10.0.0.2", there.port), sent_ns + latency_ns + OFFSET_NS),
        (b"lit", ("10.0.0.1", here.port), sent_ns + latency_ns),
    ]
    here.close()
    assert not here.send(b"closed", ("10.0.0.2", there.port))
    await stop(running)
    await listener.close()


async def test_a_twin_that_does_not_answer_is_given_up_in_the_stated_time(virtual_time: None) -> None:
    dialer = MemoryDialer(MemoryNet())
    listener = await dialer.listen(asyncio.Protocol, "mem:h0")
    twin = TwinSources(dialer, "mem:h0", VirtualClock(running_loop(), wall_start_ns=0), host="h0", deadline_s=1)
    whys: list[str] = []
    running = asyncio.create_task(twin.run(lambda: whys.append(twin.why_not)))
    await asyncio.sleep(1.01)
    assert whys == ["h0: its twin at mem:h0 is away: h0: its twin at mem:h0 did not answer in 1 s"]
    await stop(running)
    await listener.close()


# --- PHYs told by a twin on another machine: its clock is off by hours, and no bound is wrong for it

FAR_S = 0.003
BEHIND_S = -7200.0
SLACK_NS = 2_000


@pytest.fixture
async def distant(virtual_time: None) -> AsyncIterator[World]:
    """A played host, and the sources of its agent, whose clock is 2 h behind that of the twin."""
    one = World(offset_s=BEHIND_S, latency_s=FAR_S, same_clock=False)
    listener = await one.listen()
    tasks = [
        asyncio.create_task(one.twin.run(one.changed)),
        asyncio.create_task(one.twin.phys.open_phy(one.take_phy, lambda: None)),
    ]
    await asyncio.sleep(1)
    yield one
    await stop(*tasks)
    await listener.close()


async def test_a_change_lies_between_the_last_answer_and_our_receipt(distant: World) -> None:
    distant.twin.phys.observe("eth0", True)
    for up in (True, False, True):
        await asyncio.sleep(0.777)
        changed_ns = distant.clock.monotonic_ns()
        distant.host.phy("eth0", up=up)
        await asyncio.sleep(0.1)
        now, earliest_ns, at_ns = distant.phys[-1]
        assert now is up
        assert earliest_ns <= changed_ns <= at_ns
        assert at_ns - earliest_ns <= (ASK_EVERY_S + 4 * FAR_S) * 1e9 + SLACK_NS


async def test_the_interval_of_a_late_report_contains_the_change(distant: World) -> None:
    distant.twin.phys.observe("eth0", True)
    await asyncio.sleep(0.5)
    changed_ns, stamp_ns = distant.clock.monotonic_ns(), distant.machine.wall_ns()
    await asyncio.sleep(0.25)
    distant.host.phy("eth0", up=True, stamp_ns=stamp_ns)
    await asyncio.sleep(0.1)
    _, earliest_ns, at_ns = distant.phys[-1]
    assert earliest_ns <= changed_ns <= at_ns


async def test_what_is_told_again_is_no_change_and_an_unobserved_one_is_known_since_the_last_answer(
    distant: World,
) -> None:
    assert distant.phys == [(False, *distant.phys[0][1:])]
    distant.twin.phys.observe("eth0", True)
    await asyncio.sleep(1)
    distant.twin.phys.observe("eth0", False)
    await asyncio.sleep(1)
    assert len(distant.phys) == 1
    left_ns = distant.clock.monotonic_ns()
    await asyncio.sleep(60)
    distant.host.phy("eth0", up=True)
    await asyncio.sleep(1)
    assert len(distant.phys) == 2
    _, earliest_ns, at_ns = distant.phys[-1]
    assert earliest_ns <= left_ns
    assert at_ns > left_ns + 59 * 10**9
