"""What goes wrong at one port of a real kernel: said with its remedy, while all watchers go on at the other."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hwd.twin.kernel import Crossbar, Keeper
from hwd_agents.process.config import AgentConfig, PortConfig, SamplingConfig
from hwd_agents.sources.kernel.interface_drivers import KernelDrivers
from hwd_agents.sources.kernel.mlxlink import ToolPhys
from hwd_agents.sources.kernel.nic_link_details import KernelLinkDetails
from hwd_agents.sources.kernel.port_counters import KernelCounters
from hwd_agents.sources.kernel.rtnetlink import RtnetlinkLinks
from hwd_agents.sources.kernel.udp import InterfaceDatagrams
from hwd_agents.sources.modules.kernel_modules import KernelModules
from hwd_agents.sources.modules.sff8636 import build_memory
from hwd_agents.sources.sources import Sources
from hwd_agents.spool.lost_events import StoredEvent
from hwd_agents.spool.outbox import Outbox
from hwd_agents.spool.spool import Spool
from hwd_agents.watchers.watchers import Watchers
from hwd_agents.wire import Event, SourceNote
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.disk import MemoryDisk
from hwd_drivers.core.offload import InlineOffload, ThreadOffload

from ..namespace_ip import run_ip
from ..sources.played_ethtool import PlayedEthtool, PlayedModule, pages_of

pytestmark = pytest.mark.kernel

WITHIN_S = 20.0
SAMPLING = SamplingConfig(light_slow_s=0.02, counters_s=0.02, links_slow_s=0.2)
MEASURED = SourceNote(sees=["carrier", "interface"], origin="kernel")


@pytest.fixture
async def keeper(tmp_path: Path) -> AsyncIterator[Keeper]:
    async with Keeper() as keeper:
        await keeper.start(["h0"], tmp_path / "run")
        yield keeper


@pytest.fixture
def crossbar(keeper: Keeper) -> Iterator[Crossbar]:
    crossbar = Crossbar(keeper, SystemClock())
    for number in range(2):
        crossbar.plug(f"p{number}", host="h0", interface=f"eth{number}")
    yield crossbar
    crossbar.close()


def module(serial: str) -> PlayedModule:
    memory = build_memory(
        vendor="ACME",
        part="QSFP28-LR4",
        serial=serial,
        rx_power_dbm=(-2.0,) * 4,
        tx_power_dbm=(1.0,) * 4,
        rx_los=(False,) * 4,
    )
    return PlayedModule(pages=pages_of(memory))


class Host:
    """The watchers of `eth0` and `eth1` of a kernel, whose modules are played."""

    def __init__(self, keeper: Keeper, ethtool: PlayedEthtool, i2c: ThreadOffload) -> None:
        self._keeper = keeper
        self._moved = asyncio.Event()
        self.events: list[Event] = []
        clock, sockets, inline = SystemClock(), keeper.sockets("h0"), InlineOffload()
        config = AgentConfig(
            testbed="lab",
            host="h0",
            broker="memory:",
            ports={name: PortConfig(interface=name) for name in ("eth0", "eth1")},
            sampling=SAMPLING,
        )
        spool = Spool(MemoryDisk(), boot="b", clock=clock, limit_bytes=1 << 20)
        self.outbox = Outbox(spool, is_up=lambda: True, publish=self._publish)
        drivers = KernelDrivers(sockets, inline)
        sources = Sources(
            link=RtnetlinkLinks(sockets, clock),
            link_note=lambda: MEASURED,
            datagrams=InterfaceDatagrams(sockets, clock),
            datagrams_note=lambda: MEASURED,
            life=lambda: "1",
            modules=KernelModules(ethtool, clock, i2c),
            details=KernelLinkDetails(sockets, inline),
            counters=KernelCounters(sockets, inline, snmp=None),
            phy=ToolPhys(["eth0", "eth1"], drivers, clock, SAMPLING, tool=None, origin="kernel"),
        )
        self.watchers = Watchers(
            config, sources, clock, self.outbox, spool, phase=random.Random(1), on_change=self._moved.set
        )

    def why_not(self, port: str, source: str) -> str:
        return self.watchers.note(port).sources[source].why_not

    def well(self, port: str, *but: str) -> bool:
        """Whether all that can be seen of a port is, but for these."""
        seen = [name for name, note in self.watchers.note(port).sources.items() if note.sees]
        return {"link", "ethtool", "module", "counters"} - set(but) <= set(seen)

    def told(self, kind: str, port: str) -> int:
        return sum(event.kind == kind and event.port == port for event in self.events)

    async def until(self, what: Callable[[], bool]) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not what():
                self._moved.clear()
                await self._moved.wait()

    def ip(self, *arguments: str) -> None:
        run_ip(self._keeper, *arguments)

    async def _publish(self, boot: str, events: list[StoredEvent]) -> None:
        self.events += [stored.event for stored in events]
        self._moved.set()


@asynccontextmanager
async def watched(keeper: Keeper, ethtool: PlayedEthtool) -> AsyncIterator[Host]:
    i2c = ThreadOffload(2)
    host = Host(keeper, ethtool, i2c)
    tasks = [asyncio.create_task(run(), name=what) for what, run in host.watchers.runs()]
    tasks.append(asyncio.create_task(host.outbox.run()))
    try:
        yield host
        assert [task.get_name() for task in tasks if task.done()] == [], "no watcher ended"
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        i2c.close()


async def goes_on(host: Host, crossbar: Crossbar, ethtool: PlayedEthtool) -> None:
    """All means see what now happens at eth1, whose light is known to be there."""
    await host.until(lambda: host.watchers.states("eth1")["light"] is True)
    before = {kind: host.told(kind, "eth1") for kind in ("carrier", "dark", "light", "counters", "link-state")}
    flags = ethtool.modules["eth1"].pages[0x50, 0]
    crossbar.carrier("p1", up=not host.watchers.link.carrier("eth1"))
    flags[3], flags[34:42] = 0x0F, bytes(8)
    await host.until(lambda: host.told("dark", "eth1") > before["dark"])
    flags[3], flags[34:42] = 0x00, bytes([0x13, 0x88] * 4)
    await host.until(lambda: host.told("light", "eth1") > before["light"])
    await host.until(lambda: host.told("carrier", "eth1") > before["carrier"])
    await host.until(lambda: host.told("link-state", "eth1") > before["link-state"])
    assert host.well("eth1")


async def test_an_interface_that_is_renamed_while_it_is_watched_is_said_and_well_when_it_is_named_back(
    keeper: Keeper, crossbar: Crossbar, ethtool: PlayedEthtool
) -> None:
    ethtool.modules |= {"eth0": module("A"), "eth1": module("B")}
    async with watched(keeper, ethtool) as host:
        await host.until(lambda: host.well("eth0") and host.well("eth1"))
        assert "Install" in host.why_not("eth0", "phy"), "only the firmware is unknown without its tool"
        host.ip("link", "set", "eth0", "down")
        host.ip("link", "set", "eth0", "name", "lan7")
        words = (
            "there is no interface eth0: it is now called lan7. "
            "Use that name in the agent's file, or rename the interface"
        )
        await host.until(lambda: host.why_not("eth0", "link") == words)
        await host.until(lambda: "Name it in the agent's file as `ip link`" in host.why_not("eth0", "counters"))
        await host.until(lambda: "Name it in the agent's file as `ip link`" in host.why_not("eth0", "ethtool"))
        assert host.watchers.link.carrier("eth0") is None
        await goes_on(host, crossbar, ethtool)
        host.ip("link", "set", "lan7", "name", "eth0")
        await host.until(lambda: host.well("eth0"))
        presences = [event.data["present"] for event in host.events if event.kind == "interface"]
        assert presences == [False, True]


async def test_memory_that_makes_no_sense_is_said_and_well_with_a_sound_module(
    keeper: Keeper, crossbar: Crossbar, ethtool: PlayedEthtool
) -> None:
    ethtool.modules |= {"eth0": module("A"), "eth1": module("B")}
    ethtool.modules["eth0"].pages[0x50, 0][150] ^= 0xFF
    async with watched(keeper, ethtool) as host:
        await host.until(lambda: "or the memory was never written correctly" in host.why_not("eth0", "module"))
        assert host.watchers.states("eth0")["light"] is None
        await goes_on(host, crossbar, ethtool)
        ethtool.modules["eth0"] = module("C")
        await host.until(lambda: host.well("eth0"))
        assert [event.kind for event in host.events if event.port == "eth0" and event.source == "module"] == []
