"""Racks of process twins in virtual time, driven through the real driver."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Testbed
from hwd.twin.nic import What
from hwd.twin.rack import TwinRack
from hwd.twin.truth import Truth
from hwd_agents.sources.link_source import LinkReading
from hwd_agents.sources.modules.sff8636 import parse_memory
from hwd_agents.sources.twin.twin_sources import TwinSources
from hwd_drivers.core.clock import Clock, ShiftedClock
from hwd_drivers.core.ids import SeededIds
from hwd_drivers.core.values import Crossconnect, Exchange, PortSide, sum_dbm
from hwd_drivers.devices.abilities import Device, PowerReadings
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual

S = 1_000_000_000
WALL_START_NS = 1_700_000_000 * S

MakeTestbed = Callable[..., Testbed]
OpenSwitch = Callable[[Testbed, str, Dialer, Clock], Awaitable[Device]]
Change = Callable[..., Awaitable[Exchange]]


@dataclass
class World:
    """A rack and a session with its switch."""

    rack: TwinRack
    addresses: dict[str, str]
    switch: Device
    dialer: Dialer
    clock: Clock
    change_switch: Change
    truths: list[Truth] = field(default_factory=list)

    async def change(self, *add: str, remove: tuple[str, ...] = ()) -> Exchange:
        return await self.change_switch(self.switch, add, remove)

    async def power(self, *ends: str) -> list[float | None]:
        assert isinstance(self.switch, PowerReadings)
        deadline_s = asyncio.get_running_loop().time() + 5
        readings = await self.switch.read_power([PortSide.parse(end) for end in ends], deadline_s=deadline_s)
        return [reading.power_dbm for reading in readings]

    def at(self, port: str, what: What, *, up: bool = True) -> list[int]:
        """When something came, or went, at a port."""
        id = NicPortId.parse(port)
        return [one.after_ns for one in self.truths if (one.port, one.what, one.up) == (id, what, up)]

    def up(self, what: What) -> list[str]:
        return [str(id) for id, nic in self.rack.nics.items() if nic.is_up(what)]


Play = Callable[[Testbed, Callable[[World], Awaitable[None]]], list[Truth]]


@pytest.fixture
def play(open_switch: OpenSwitch, change: Change) -> Play:
    """Runs a scene with a world of its own in virtual time; returns what was true."""

    def play(testbed: Testbed, scene: Callable[[World], Awaitable[None]]) -> list[Truth]:
        async def run() -> list[Truth]:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop)
            clock = VirtualClock(loop, wall_start_ns=WALL_START_NS)
            dialer = MemoryDialer(MemoryNet())
            truths: list[Truth] = []
            rack = TwinRack(
                testbed,
                dialer=dialer,
                clock=clock,
                ids=SeededIds(1),
                places=lambda name: f"mem:{name}",
                truth=truths.append,
            )
            addresses = await rack.start()
            switch = await open_switch(testbed, addresses["ocs1"], dialer, clock)
            await scene(World(rack, addresses, switch, dialer, clock, change, truths))
            await switch.close()
            await rack.close()
            return truths

        return run_virtual(run())

    return play


def link(a: int, b: int) -> tuple[str, str]:
    """The two crossconnects of a link between two ports of the switch."""
    return f"{a}A-{b}B", f"{b}A-{a}B"


def test_ideal_link_is_up_when_the_switch_answers(play: Play, make_testbed: MakeTestbed) -> None:
    async def scene(world: World) -> None:
        assert world.up(What.LIGHT) == []
        await world.change(*link(1, 3))
        for what in What:
            assert world.up(what) == ["h0.eth0", "h1.eth0"]
        await world.change(remove=link(1, 3))
        for what in What:
            assert world.up(what) == []

    play(make_testbed(), scene)


def test_opus_link_comes_up_stage_by_stage_at_the_papers_times(play: Play, make_testbed: MakeTestbed) -> None:
    async def scene(world: World) -> None:
        exchange = await world.change(*link(1, 3))
        assert world.up(What.LIGHT) == ["h0.eth0", "h1.eth0"], "light is back before the switch answers"
        assert 0.19 < (exchange.acknowledged_ns - exchange.commanded_ns) / S < 0.22
        await asyncio.sleep(20)
        lit_ns = []
        for port in ("h0.eth0", "h1.eth0"):
            light_ns, phy_ns, carrier_ns, rdma_ns = (world.at(port, what)[0] for what in What)
            assert 20_000_000 <= light_ns - exchange.commanded_ns <= 95_100_000
            assert 70_000 <= carrier_ns - phy_ns <= 80_001
            assert 100_000_000 <= rdma_ns - carrier_ns <= 200_000_001
            lit_ns.append(light_ns)
        for port in ("h0.eth0", "h1.eth0"):
            after_both_ns = world.at(port, What.PHY)[0] - max(lit_ns)
            assert 2.4 * S < after_both_ns < 3.6 * S

    play(make_testbed(nic="opus-cx6dx", switch="polatis-opus"), scene)


def test_one_way_light_is_remote_fault(play: Play, make_testbed: MakeTestbed) -> None:
    async def scene(world: World) -> None:
        await world.change("1A-3B")
        assert world.up(What.LIGHT) == ["h1.eth0"]
        assert world.up(What.PHY) == []
        await world.change("3A-1B")
        assert world.up(What.CARRIER) == ["h0.eth0", "h1.eth0"]
        await world.change(remove=("1A-3B",))
        assert world.up(What.LIGHT) == ["h0.eth0"]
        assert world.up(What.CARRIER) == []

    play(make_testbed(), scene)


def test_three_one_way_circuits_in_a_ring_come_up(play: Play, make_testbed: MakeTestbed) -> None:
    """A wrong patch that no NIC can tell from a right one. In a chain the last one is up already: who gets remote fault
    sends idle (802.3, 46.3.4).
    """

    async def scene(world: World) -> None:
        await world.change("1A-3B", "3A-5B")
        assert world.up(What.CARRIER) == ["h2.eth0"]
        await world.change("5A-1B")
        assert world.up(What.CARRIER) == ["h0.eth0", "h1.eth0", "h2.eth0"]

    play(make_testbed(), scene)


def test_port_in_loopback_comes_up(play: Play, make_testbed: MakeTestbed) -> None:
    async def scene(world: World) -> None:
        await world.change("1A-1B")
        assert world.up(What.CARRIER) == ["h0.eth0"]

    play(make_testbed(), scene)


def test_moved_port_flaps_and_its_old_peer_goes_down(play: Play, make_testbed: MakeTestbed) -> None:
    async def scene(world: World) -> None:
        await world.change(*link(1, 3))
        world.truths.clear()
        await world.change(*link(1, 5), remove=link(1, 3))
        assert world.up(What.CARRIER) == ["h0.eth0", "h2.eth0"]
        assert len(world.at("h0.eth0", What.CARRIER, up=False)) == len(world.at("h0.eth0", What.CARRIER)) == 1
        assert world.at("h1.eth0", What.LIGHT, up=False)

    play(make_testbed(), scene)


def test_other_links_notice_nothing(play: Play, make_testbed: MakeTestbed) -> None:
    async def scene(world: World) -> None:
        await world.change(*link(1, 3))
        await asyncio.sleep(10)
        world.truths.clear()
        await world.change(*link(5, 7))
        await asyncio.sleep(10)
        await world.change(*link(5, 8), remove=link(5, 7))
        await asyncio.sleep(10)
        assert {str(one.port) for one in world.truths} == {"h2.eth0", "h3.eth0", "h3.eth1"}

    play(make_testbed(nic="opus-cx6dx", switch="polatis-opus"), scene)


def test_monitors_see_the_sum_of_the_lanes(play: Play, make_testbed: MakeTestbed) -> None:
    async def scene(world: World) -> None:
        memory = parse_memory(world.rack.hosts["h0"].module("eth0"))
        sent_dbm = [power for power in memory.tx_power_dbm if power is not None]
        assert len(sent_dbm) == 4
        assert await world.power("3B") == [None]
        await world.change("1A-3B")
        await asyncio.sleep(0.1)  # monitors of the unit average over so long
        (leaving,) = await world.power("3B")
        loss_db = world.rack.switches["ocs1"].mirror.loss_db(Crossconnect.parse("1A-3B"))
        assert leaving == pytest.approx(sum_dbm(*sent_dbm) - loss_db, abs=0.1)
        (power_dbm, *_) = parse_memory(world.rack.hosts["h1"].module("eth0")).rx_power_dbm
        assert power_dbm == pytest.approx(sent_dbm[0] - loss_db, abs=0.1), "of one lane"

    play(make_testbed(), scene)


def test_module_tells_power_and_latched_loss_of_signal(play: Play, make_testbed: MakeTestbed) -> None:
    async def scene(world: World) -> None:
        host = world.rack.hosts["h1"]
        assert parse_memory(host.module("eth0")).rx_power_dbm == (None,) * 4
        await world.change(*link(1, 3))
        lit = parse_memory(host.module("eth0"))
        assert lit.rx_los == (True,) * 4, "latched while it was dark"
        assert all(power is not None and -1 < power < 3.5 for power in lit.rx_power_dbm)
        assert parse_memory(host.module("eth0")).rx_los == (False,) * 4

    play(make_testbed(), scene)


def test_agent_is_told_at_the_drawn_times_on_its_own_clock(play: Play, make_testbed: MakeTestbed) -> None:
    async def scene(world: World) -> None:
        shifted = ShiftedClock(world.clock, offset_s=5.0, drift_ppm=0.0)
        sources = TwinSources(world.dialer, world.addresses["h0"], shifted, host="h0")
        running = asyncio.create_task(sources.run(lambda: None))
        readings: list[LinkReading] = []
        phys: list[tuple[str, bool, int]] = []
        await sources.links.open(readings.append)
        await sources.phys.open_phy(lambda port, up, earliest_ns, at_ns: phys.append((port, up, at_ns)), lambda: None)
        await asyncio.sleep(1)
        await world.change(*link(1, 3))
        await asyncio.sleep(20)
        carriers = [(one.interface, one.at_ns - 5 * S) for one in readings if one.carrier]
        (came_ns,) = world.at("h0.eth0", What.CARRIER)
        assert len(carriers) == 1
        assert carriers[0][0] == "eth0"
        assert abs(carriers[0][1] - came_ns) <= 2
        ups = [(port, at_ns - 5 * S) for port, up, at_ns in phys if up]
        (came_ns,) = world.at("h0.eth0", What.PHY)
        assert len(ups) == 1
        assert ups[0][0] == "eth0"
        assert abs(ups[0][1] - came_ns) <= 2
        assert readings[-1].carrier_changes == 1
        state = await sources.files.read_file("class/infiniband/mlx5_0/ports/1/state")
        assert state.text == "4: ACTIVE\n"
        gid = await sources.files.read_file("class/infiniband/mlx5_0/ports/1/gids/0")
        assert gid.text == "0000:0000:0000:0000:0000:ffff:0a01:0001\n"
        assert (await sources.files.read_file("class/infiniband/mlx5_7/ports/1/state")).text is None
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    play(make_testbed(nic="opus-cx6dx", switch="polatis-opus"), scene)


def test_datagrams_go_where_the_light_goes(play: Play, make_testbed: MakeTestbed) -> None:
    async def scene(world: World) -> None:
        arrived: list[tuple[str, bytes]] = []
        hosts = {}
        tasks = []
        for name in ("h0", "h1", "h2"):
            sources = TwinSources(world.dialer, world.addresses[name], world.clock, host=name)
            tasks.append(asyncio.create_task(sources.run(lambda: None)))
            await asyncio.sleep(0.1)
            ip = f"10.1.{name[1]}.1"
            hosts[name] = await sources.datagrams.open(
                "eth0", ip, 7000, lambda payload, *_, name=name: arrived.append((name, payload))
            )
        hosts["h0"].send(b"dark", ("10.1.1.1", 7000))
        await world.change("1A-3B", "3A-5B", "5A-1B")
        hosts["h0"].send(b"lit", ("10.1.1.1", 7000))
        hosts["h0"].send(b"for another", ("10.1.2.1", 7000))
        hosts["h1"].send(b"back, by a wrong patch", ("10.1.0.1", 7000))
        await asyncio.sleep(1)
        assert arrived == [("h1", b"lit")]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    play(make_testbed(), scene)


def test_light_origin_is_that_of_the_switches(make_testbed: MakeTestbed, play: Play) -> None:
    async def fitted(world: World) -> None:
        notes = world.rack.hosts["h0"].notes
        assert (notes["module"].origin, notes["phy"].origin) == ("fitted", "twin")

    play(make_testbed(switch="polatis-opus"), fitted)

    async def drawn(world: World) -> None:
        notes = world.rack.hosts["h0"].notes
        assert (notes["module"].origin, notes["phy"].origin) == ("twin", "fitted")

    play(make_testbed(nic="opus-cx6dx"), drawn)


def test_port_of_a_packet_switch_is_always_ready(play: Play, make_testbed: MakeTestbed) -> None:
    testbed = make_testbed(
        extra="""
  - h4.eth0 <-> sn1.1
packet_switches: {sn1: {ports: 4}}
""",
        hosts="  h4: {twin: {timing: ideal}, nics: {eth0: {module: 100g-lr4}}}",
    )

    async def scene(world: World) -> None:
        assert world.up(What.CARRIER) == ["h4.eth0"]

    play(testbed, scene)


def test_same_seeds_give_the_same_world(play: Play, make_testbed: MakeTestbed) -> None:
    async def scene(world: World) -> None:
        for peer in (3, 5, 7):
            await world.change(*link(1, peer), *link(2, 4))
            await asyncio.sleep(7)

    testbed = make_testbed(nic="opus-cx6dx", switch="polatis-opus")
    first = play(testbed, scene)
    assert len(first) > 20
    assert play(testbed, scene) == first


def test_thousand_reconfigurations_take_seconds(play: Play, make_testbed: MakeTestbed) -> None:
    async def scene(world: World) -> None:
        rings = [(1, 3), (5, 7), (2, 4), (6, 8)], [(3, 5), (7, 1), (4, 6), (8, 2)]
        for turn in range(1000):
            await world.change(*(crossconnect for pair in rings[turn % 2] for crossconnect in link(*pair)))
            await asyncio.sleep(10)
            assert len(world.up(What.RDMA)) == 8
            world.truths.clear()

    play(make_testbed(nic="opus-cx6dx", switch="polatis-opus"), scene)
