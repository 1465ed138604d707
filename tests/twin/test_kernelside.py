"""A rack of kernel hosts: what its real interfaces show, driven through the real driver."""

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hwd.model.fault import Clear, Cut
from hwd.model.nic_port import NicPortId
from hwd.twin.kernel import SWITCH, Keeper
from hwd.twin.kernel.crossbar import FIBRE_INDEX
from hwd.twin.kernel.messages import delete_interface, requests_to
from hwd.twin.kernelside import KernelNetwork
from hwd.twin.nic import What
from hwd_agents.sources.kernel.ip_counters import KernelIpCounters
from hwd_agents.sources.kernel.rtnetlink import RtnetlinkLinks
from hwd_agents.sources.kernel.udp import InterfaceDatagrams
from hwd_agents.sources.link_source import LinkReading, OperState
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.transports.dial import TcpDialer

from .conftest import MakeTestbed, Scene, on_stage, rack_with

pytestmark = pytest.mark.kernel

WITHIN_S = 20.0


class World(Scene):
    """A rack whose hosts are networks of the kernel."""

    keeper: Keeper

    async def until(self, host: str, interface: str, *, up: bool) -> LinkReading:
        """Wait until the kernel said that an interface passes packets, or does not."""
        seen: asyncio.Future[LinkReading] = asyncio.get_running_loop().create_future()

        def take(reading: LinkReading) -> None:
            if reading.interface == interface and (reading.operstate is OperState.UP) is up and not seen.done():
                seen.set_result(reading)

        links = RtnetlinkLinks(self.keeper.sockets(host), self.clock)
        await links.open(take)
        try:
            async with asyncio.timeout(WITHIN_S):
                return await seen
        finally:
            await links.close()


@pytest.fixture
async def world(make_testbed: MakeTestbed, testbed_of: dict[str, Any], tmp_path: Path) -> AsyncIterator[World]:
    clock, testbed = SystemClock(), make_testbed(kernel=True, **testbed_of)
    places = {name: f"unix:{tmp_path}/{name}" for name in testbed.hosts}
    async with Keeper() as keeper:
        await keeper.start(list(testbed.hosts), tmp_path / "run")
        kernel = KernelNetwork(testbed, keeper, clock, monitors={})
        stage = on_stage(
            testbed, TcpDialer(), clock, places=lambda name: places.get(name, "127.0.0.1:0"), kernel=kernel
        )
        async with stage as scene:
            world = World(scene.rack, scene.switch, scene.dialer, clock, scene.truths)
            world.keeper = keeper
            yield world
        kernel.close()


async def test_packets_pass_after_the_crossconnect_and_not_before(world: World) -> None:
    arrived: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
    ports = {}
    for host, interface, ip in (("h0", "eth1", "10.1.0.2"), ("h1", "eth0", "10.1.1.1"), ("h2", "eth0", "10.1.2.1")):
        source = InterfaceDatagrams(world.keeper.sockets(host), world.clock)
        ports[host] = await source.open(
            interface, ip, 7000, lambda payload, *_, host=host: arrived.put_nowait((host, payload))
        )
    ports["h0"].send(b"dark", ("10.1.1.1", 7000))
    for peer, port, ip in (("h1", 3, "10.1.1.1"), ("h2", 5, "10.1.2.1")):
        await world.change(f"2A-{port}B", f"{port}A-2B")
        await world.until("h0", "eth1", up=True)
        await world.until(peer, "eth0", up=True)
        for wrong in {"10.1.1.1", "10.1.2.1"} - {ip}:
            ports["h0"].send(b"for another", (wrong, 7000))
        assert ports["h0"].send(b"there", (ip, 7000)), ports["h0"].last_failure
        assert ports[peer].send(b"back", ("10.1.0.2", 7000)), ports[peer].last_failure
        async with asyncio.timeout(WITHIN_S):
            assert sorted([await arrived.get(), await arrived.get()]) == [("h0", b"back"), (peer, b"there")]
    for opened in ports.values():
        opened.close()
    assert arrived.empty()


@rack_with(switch="lowradix-8ms")
async def test_carrier_follows_the_firmware_and_falls_with_the_light(world: World) -> None:
    exchange = await world.change("1A-3B", "3A-1B")
    up = await world.until("h0", "eth0", up=True)
    for host in ("h0", "h1"):
        came = {one.what: one for one in world.truths if one.port == NicPortId(host=host, port="eth0")}
        assert exchange.commanded_ns + 8_000_000 <= came[What.LIGHT].before_ns <= came[What.PHY].before_ns
        assert came[What.PHY].after_ns <= came[What.CARRIER].before_ns < came[What.CARRIER].after_ns
    carrier = world.happened("h0.eth0", What.CARRIER, up=True)[-1]
    assert carrier.before_ns <= up.at_ns
    await world.change(remove=("3A-1B",))
    down = await world.until("h0", "eth0", up=False)
    assert down.carrier_changes - up.carrier_changes == 1
    gone = world.happened("h0.eth0", What.CARRIER, up=False)[-1]
    assert gone.before_ns <= down.at_ns
    assert not (await world.until("h1", "eth0", up=False)).carrier, "remote fault"


async def test_moved_link_drops_its_carrier_once(world: World) -> None:
    await world.change("1A-3B", "3A-1B")
    before = await world.until("h0", "eth0", up=True)
    await world.change("1A-5B", "5A-1B", remove=("1A-3B", "3A-1B"))
    assert not (await world.until("h1", "eth0", up=False)).carrier
    after = await world.until("h0", "eth0", up=True)
    assert after.carrier_changes - before.carrier_changes == 2


@rack_with(nic="opus-cx6dx")
async def test_carrier_comes_on_time_after_the_phy(world: World) -> None:
    """Not at the next tick of a millisecond: the papers' 70 to 80 us would drown in it."""
    joined = ("1A-3B", "3A-1B", "2A-4B", "4A-2B")
    late_ns: list[int] = []
    async with asyncio.timeout(WITHIN_S):
        while min(late_ns, default=800_000) >= 800_000:  # a busy machine may hold up one or the other
            world.truths.clear()
            for up in (True, False):
                await (world.change(*joined) if up else world.change(remove=joined))
                for host, interface in itertools.product(("h0", "h1"), ("eth0", "eth1")):
                    await world.until(host, interface, up=up)
            ups = [one for one in world.truths if one.up]
            phys = {one.port: one.after_ns for one in ups if one.what is What.PHY}
            late_ns += [one.before_ns - phys[one.port] for one in ups if one.what is What.CARRIER]
    assert min(late_ns) >= 70_000


async def test_an_interface_that_somebody_removes_leaves_the_switch_and_the_other_ports_alone(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.change("1A-3B", "3A-1B")
    gone = await world.until("h1", "eth0", up=True)
    with requests_to(world.keeper, "h1") as kernel:
        kernel.do([delete_interface(gone.ifindex, says="remove h1.eth0")])
    await world.change("2A-3B", "3A-2B", "1A-5B", "5A-1B", remove=("1A-3B", "3A-1B"))
    assert (await world.until("h2", "eth0", up=True)).carrier
    assert (await world.until("h0", "eth0", up=True)).carrier
    await world.change(remove=("2A-3B", "3A-2B"))
    assert "it was removed" in caplog.text


ELECTRICAL = """
  e0: {twin: {kernel: true, timing: ideal, seed: 10}, nics: {eth0: {ip: 10.5.0.1/32, module: 100g-lr4}}}
  e1: {twin: {kernel: true, timing: ideal, seed: 11}, nics: {eth0: {ip: 10.5.0.2/32, module: 100g-lr4}}}
"""
LIMITED = ELECTRICAL.replace("{ip: 10.5.0.1/32", "{rate_mbit_s: 16, ip: 10.5.0.1/32").replace(
    "{ip: 10.5.0.2/32", "{rate_mbit_s: 400000, ip: 10.5.0.2/32"
)
ON_ONE_SWITCH = """
  - e0.eth0 <-> eps1.1
  - e1.eth0 <-> eps1.2
  - ocs1.9 <-> eps1.9
packet_switches: {eps1: {ports: 16%s}}
"""
RING = ("2A-3B", "3A-2B", "4A-5B", "5A-4B", "6A-7B", "7A-6B", "8A-1B", "1A-8B")


async def until_both_up(world: World) -> None:
    for host in ("e0", "e1"):
        await world.until(host, "eth0", up=True)


async def say(world: World, near: str, far: str, ip: str, size: int = 5) -> int:
    """Send `size` bytes over TCP from one host to an address of another, once it has a route. Returns how many came."""
    await until_routed(world, near, ip)
    loop = asyncio.get_running_loop()
    with (
        world.keeper.socket(far, socket.AF_INET, socket.SOCK_STREAM) as listener,
        world.keeper.socket(near, socket.AF_INET, socket.SOCK_STREAM) as ours,
    ):
        listener.bind((ip, 0))
        listener.listen()
        async with asyncio.timeout(WITHIN_S):
            await loop.sock_connect(ours, listener.getsockname())
            theirs, _ = await loop.sock_accept(listener)
            with theirs:
                sending = asyncio.create_task(loop.sock_sendall(ours, bytes(size)))
                came = 0
                while came < size and (data := await loop.sock_recv(theirs, 65_536)):
                    came += len(data)
                await sending
                return came


@rack_with(hosts=ELECTRICAL, extra=ON_ONE_SWITCH % "")
async def test_packet_switch_passes_packets_also_from_an_optical_one_a_cut_fibre_none_and_a_removed_port_is_let_be(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await until_both_up(world)
    assert await say(world, "e0", "e1", "10.5.0.2") == 5
    assert await say(world, "e1", "e0", "10.5.0.1") == 5
    faults = world.faults
    with (
        world.keeper.socket("e0", socket.AF_INET, socket.SOCK_DGRAM) as ours,
        world.keeper.socket("e1", socket.AF_INET, socket.SOCK_DGRAM) as theirs,
    ):
        theirs.bind(("10.5.0.2", 0))
        faults.set(Cut(port="e1.eth0", strand="rx"))
        assert not (await world.until("e1", "eth0", up=False)).carrier
        ours.sendto(b"cut", theirs.getsockname())
        faults.set(Clear())
        await world.until("e1", "eth0", up=True)
        ours.sendto(b"whole", theirs.getsockname())
        async with asyncio.timeout(WITHIN_S):
            assert await asyncio.get_running_loop().sock_recv(theirs, 64) == b"whole"
    await world.change("8A-9B", "9A-8B")
    await world.until("h3", "eth1", up=True)
    assert await say(world, "e0", "h3", "10.1.3.2") == 5
    assert await say(world, "h3", "e0", "10.5.0.1") == 5
    first = FIBRE_INDEX + len([*world.rack.testbed.ports()]) + 1
    with requests_to(world.keeper, SWITCH) as kernel:
        kernel.do([delete_interface(first, says="remove the fibre of eps1.1")])
    faults.set(Cut(port="e0.eth0", strand="both"))
    faults.set(Clear())
    await world.until("e1", "eth0", up=True)
    assert "it was removed" in caplog.text


async def seconds_of_a_megabyte(world: World) -> list[float]:
    """From e0 to e1, and back."""
    loop, seconds = asyncio.get_running_loop(), []
    await until_both_up(world)
    for near, far, ip in (("e0", "e1", "10.5.0.2"), ("e1", "e0", "10.5.0.1")):
        await say(world, near, far, ip)
        began = loop.time()
        await say(world, near, far, ip, size=1_000_000)
        seconds.append(loop.time() - began)
    return seconds


@rack_with(hosts=ELECTRICAL, extra=ON_ONE_SWITCH % ", rate_mbit_s: 16")
async def test_port_of_a_packet_switch_passes_its_rate_each_way(world: World) -> None:
    # 0.5 s at 2 MB/s, but for what a port lets through at once and what is in the sockets' buffers
    assert min(await seconds_of_a_megabyte(world)) > 0.4


@rack_with(hosts=LIMITED, extra=ON_ONE_SWITCH % "")
async def test_host_sends_no_more_than_the_rate_of_its_port_and_receives_as_much_as_comes(world: World) -> None:
    there_s, back_s = await seconds_of_a_megabyte(world)
    assert there_s > 0.4
    assert back_s < there_s / 2


async def test_host_that_passes_packets_on_counts_them_and_its_neighbours_do_not(world: World) -> None:
    await world.change(*RING)
    counters = {f"h{n}": KernelIpCounters(world.keeper.sockets(f"h{n}")) for n in range(4)}
    await until_routed(world, "h0", "10.1.2.1")
    before = {host: one.read_ip()[1] for host, one in counters.items()}
    await say(world, "h0", "h2", "10.1.2.1", size=100_000)
    forwarded = {host: one.read_ip()[1] - before[host] for host, one in counters.items()}
    assert (forwarded["h0"], forwarded["h2"]) == (0, 0)
    assert forwarded["h1"] + forwarded["h3"] > 3  # a frame has up to 64 kB
    for one in counters.values():
        one.close()


async def test_every_host_of_a_ring_reaches_every_other_one_also_after_the_ring_has_moved(world: World) -> None:
    moved = ("2A-5B", "5A-2B", "6A-3B", "3A-6B", "4A-7B", "7A-4B", "8A-1B", "1A-8B")  # h0, h2, h1, h3
    for add, remove in ((RING, ()), (moved, RING)):
        await world.change(*(one for one in add if one not in remove), remove=[one for one in remove if one not in add])
        for host, port in itertools.product(range(4), range(2)):
            await world.until(f"h{host}", f"eth{port}", up=True)
        for near, far in itertools.permutations(range(4), 2):
            for ip in (f"10.1.{far}.1", f"10.1.{far}.2"):
                assert await say(world, f"h{near}", f"h{far}", ip) == 5


async def until_routed(world: World, host: str, ip: str) -> None:
    """Wait until a host has a route to an address."""
    async with asyncio.timeout(WITHIN_S):
        with world.keeper.socket(host, socket.AF_INET, socket.SOCK_DGRAM) as one:
            while True:
                try:
                    one.connect((ip, 7))
                except OSError:
                    await asyncio.sleep(0.005)
                else:
                    return
