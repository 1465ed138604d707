"""Racks of process twins in virtual time, driven through the real driver."""

import asyncio
import contextlib

import pytest

from hwd.twin.nic import What
from hwd.twin.truth import Truth
from hwd_agents.sources.link_source import LinkReading
from hwd_agents.sources.modules.sff8636 import parse_memory
from hwd_drivers.core.clock import ShiftedClock
from hwd_drivers.core.values import Crossconnect, sum_dbm
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.virtual_time import VirtualClock, run_virtual

from ..virtual_time import running_loop
from .conftest import WALL_START_NS, MakeTestbed, S, Scene, on_stage, rack_with

H4 = "  h4: {twin: {timing: ideal}, nics: {eth0: {module: 100g-lr4}}}"
PACKET_SWITCH = """
  - h4.eth0 <-> sn1.1
packet_switches: {sn1: {ports: 4}}
"""


def link(a: int, b: int) -> tuple[str, str]:
    """The two crossconnects of a link between two ports of the switch."""
    return f"{a}A-{b}B", f"{b}A-{a}B"


@rack_with(extra=PACKET_SWITCH, hosts=H4)
async def test_ideal_link_is_up_when_the_switch_answers_and_a_port_of_a_packet_switch_always(scene: Scene) -> None:
    assert scene.up(What.CARRIER) == ["h4.eth0"]
    await scene.change(*link(1, 3))
    for what in What:
        assert scene.up(what) == ["h0.eth0", "h1.eth0", "h4.eth0"]
    await scene.change(remove=link(1, 3))
    for what in What:
        assert scene.up(what) == ["h4.eth0"]


@rack_with(nic="opus-cx6dx", switch="polatis-opus")
async def test_opus_link_comes_up_stage_by_stage_at_the_papers_times(scene: Scene) -> None:
    exchange = await scene.change(*link(1, 3))
    assert scene.up(What.LIGHT) == ["h0.eth0", "h1.eth0"], "light is back before the switch answers"
    assert 0.19 < (exchange.acknowledged_ns - exchange.commanded_ns) / S < 0.22
    await asyncio.sleep(20)
    lit_ns = []
    for port in ("h0.eth0", "h1.eth0"):
        light_ns, phy_ns, carrier_ns, rdma_ns = (scene.at_ns(port, what)[0] for what in What)
        assert 20_000_000 <= light_ns - exchange.commanded_ns <= 95_100_000
        assert 70_000 <= carrier_ns - phy_ns <= 80_001
        assert 100_000_000 <= rdma_ns - carrier_ns <= 200_000_001
        lit_ns.append(light_ns)
    for port in ("h0.eth0", "h1.eth0"):
        after_both_ns = scene.at_ns(port, What.PHY)[0] - max(lit_ns)
        assert 2.4 * S < after_both_ns < 3.6 * S


async def test_one_way_light_is_remote_fault_and_a_ring_or_a_loop_of_it_comes_up(scene: Scene) -> None:
    """A ring of three is a wrong patch that no NIC can tell from a right one. In a chain the last one is up already:
    who gets remote fault sends idle (802.3, 46.3.4).
    """
    await scene.change("1A-3B")
    assert scene.up(What.LIGHT) == ["h1.eth0"]
    assert scene.up(What.PHY) == []
    await scene.change("3A-1B")
    assert scene.up(What.CARRIER) == ["h0.eth0", "h1.eth0"]
    await scene.change(remove=("1A-3B",))
    assert scene.up(What.LIGHT) == ["h0.eth0"]
    assert scene.up(What.CARRIER) == []
    await scene.change("1A-3B", "3A-5B", remove=("3A-1B",))
    assert scene.up(What.CARRIER) == ["h2.eth0"]
    await scene.change("5A-1B")
    assert scene.up(What.CARRIER) == ["h0.eth0", "h1.eth0", "h2.eth0"]
    await scene.change("1A-1B", remove=("1A-3B", "3A-5B", "5A-1B"))
    assert scene.up(What.CARRIER) == ["h0.eth0"]


async def test_moved_port_flaps_and_its_old_peer_goes_down(scene: Scene) -> None:
    await scene.change(*link(1, 3))
    scene.truths.clear()
    await scene.change(*link(1, 5), remove=link(1, 3))
    assert scene.up(What.CARRIER) == ["h0.eth0", "h2.eth0"]
    assert len(scene.at_ns("h0.eth0", What.CARRIER, up=False)) == len(scene.at_ns("h0.eth0", What.CARRIER)) == 1
    assert scene.at_ns("h1.eth0", What.LIGHT, up=False)


@rack_with(nic="opus-cx6dx", switch="polatis-opus")
async def test_other_links_notice_nothing(scene: Scene) -> None:
    await scene.change(*link(1, 3))
    await asyncio.sleep(10)
    scene.truths.clear()
    await scene.change(*link(5, 7))
    await asyncio.sleep(10)
    await scene.change(*link(5, 8), remove=link(5, 7))
    await asyncio.sleep(10)
    assert {str(one.port) for one in scene.truths} == {"h2.eth0", "h3.eth0", "h3.eth1"}


async def test_monitors_see_the_sum_of_the_lanes_and_a_module_its_own_and_latched_loss_of_signal(scene: Scene) -> None:
    memory = parse_memory(scene.rack.hosts["h0"].module("eth0"))
    sent_dbm = [power for power in memory.tx_power_dbm if power is not None]
    assert len(sent_dbm) == 4
    assert await scene.power("3B") is None
    assert scene.lanes("h1.eth0") == (None,) * 4
    await scene.change("1A-3B")
    leaving = await scene.power("3B")
    loss_db = scene.rack.switches["ocs1"].mirror.loss_db(Crossconnect.parse("1A-3B"))
    assert leaving == pytest.approx(sum_dbm(*sent_dbm) - loss_db, abs=0.1)
    lit = parse_memory(scene.rack.hosts["h1"].module("eth0"))
    assert lit.rx_power_dbm[0] == pytest.approx(sent_dbm[0] - loss_db, abs=0.1), "of one lane"
    assert lit.rx_los == (True,) * 4, "latched while it was dark"
    assert all(power is not None and -1 < power < 3.5 for power in lit.rx_power_dbm)
    assert parse_memory(scene.rack.hosts["h1"].module("eth0")).rx_los == (False,) * 4


@rack_with(nic="opus-cx6dx", switch="polatis-opus")
async def test_agent_is_told_at_the_drawn_times_on_its_own_clock(scene: Scene) -> None:
    shifted = ShiftedClock(scene.clock, offset_s=5.0, drift_ppm=0.0)
    readings: list[LinkReading] = []
    phys: list[tuple[str, bool, int]] = []
    async with scene.agent("h0", shifted) as sources:
        await sources.links.open(readings.append)
        await sources.phys.open_phy(lambda port, up, earliest_ns, at_ns: phys.append((port, up, at_ns)), lambda: None)
        await asyncio.sleep(1)
        await scene.change(*link(1, 3))
        await asyncio.sleep(20)
        carriers = [(one.interface, one.at_ns - 5 * S) for one in readings if one.carrier]
        ups = [(port, at_ns - 5 * S) for port, up, at_ns in phys if up]
        for what, told in ((What.CARRIER, carriers), (What.PHY, ups)):
            (came_ns,) = scene.at_ns("h0.eth0", what)
            assert [port for port, _ in told] == ["eth0"]
            assert told[0][1] == pytest.approx(came_ns, abs=2)
        assert readings[-1].carrier_changes == 1
        files = {
            "mlx5_0/ports/1/state": "4: ACTIVE\n",
            "mlx5_0/ports/1/gids/0": "0000:0000:0000:0000:0000:ffff:0a01:0001\n",
            "mlx5_7/ports/1/state": None,
        }
        for name, text in files.items():
            assert (await sources.files.read_file(f"class/infiniband/{name}")).text == text


async def test_datagrams_go_where_the_light_goes(scene: Scene) -> None:
    arrived: list[tuple[str, bytes]] = []
    hosts = {}
    async with contextlib.AsyncExitStack() as agents:
        for name in ("h0", "h1", "h2"):
            sources = await agents.enter_async_context(scene.agent(name))
            hosts[name] = await sources.datagrams.open(
                "eth0", f"10.1.{name[1]}.1", 7000, lambda payload, *_, name=name: arrived.append((name, payload))
            )
        hosts["h0"].send(b"dark", ("10.1.1.1", 7000))
        await scene.change("1A-3B", "3A-5B", "5A-1B")
        hosts["h0"].send(b"lit", ("10.1.1.1", 7000))
        hosts["h0"].send(b"for another", ("10.1.2.1", 7000))
        hosts["h1"].send(b"back, by a wrong patch", ("10.1.0.1", 7000))
        await asyncio.sleep(1)
        assert arrived == [("h1", b"lit")]


@pytest.mark.parametrize(
    ("testbed_of", "module", "phy"),
    [({"switch": "polatis-opus"}, "fitted", "twin"), ({"nic": "opus-cx6dx"}, "twin", "fitted")],
    ids=["switch", "nic"],
)
async def test_light_origin_is_that_of_the_switches(scene: Scene, module: str, phy: str) -> None:
    notes = scene.rack.hosts["h0"].notes
    assert (notes["module"].origin, notes["phy"].origin) == (module, phy)


def test_same_seeds_give_the_same_world(make_testbed: MakeTestbed) -> None:
    testbed = make_testbed(nic="opus-cx6dx", switch="polatis-opus")

    async def world() -> list[Truth]:
        clock = VirtualClock(running_loop(), wall_start_ns=WALL_START_NS)
        async with on_stage(testbed, MemoryDialer(MemoryNet()), clock) as scene:
            for peer in (3, 5, 7):
                await scene.change(*link(1, peer), *link(2, 4))
                await asyncio.sleep(7)
        return scene.truths

    first = run_virtual(world())
    assert len(first) > 20
    assert run_virtual(world()) == first
