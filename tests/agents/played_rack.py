"""Two hosts that are joined, each a node with an agent of its own, on a memory bus, in virtual time."""

import asyncio
from typing import Any

from hwd_agents.bus.memory import MemoryBroker, MemoryBus
from hwd_agents.process.agent import Agent
from hwd_agents.process.config import AgentConfig, make_config
from hwd_agents.process.seams import Seams, Storage
from hwd_agents.sources.twin.hostwire_server import HostWireServer
from hwd_agents.sources.twin.manual_host import ManualHost
from hwd_agents.sources.twin.twin_sources import TwinSources
from hwd_drivers.core.clock import ShiftedClock
from hwd_drivers.core.disk import MemoryDisk
from hwd_drivers.core.ids import Draws, SeededIds
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.nodes import Nodes
from hwd_drivers.twins.virtual_time import VirtualClock

from ..virtual_time import running_loop

LATENCY_S = 0.0001


def config(host: str, **more: Any) -> AgentConfig:
    data = {
        "testbed": "tb",
        "host": host,
        "broker": "memory:",
        "ports": {"eth0": {"interface": "eth0", "ip": f"10.0.0.{host[1:]}", "rdma": "mlx5_0"}},
        "sources": {"twin": {"address": f"mem:{host}"}},
        "modules": {"QSFP28-LR4": {"los_s": 0.0, "monitor_s": 0.0}},
    }
    return make_config({**data, **more}, where="test")


class PlayedRack:
    """Clocks of agents are 5 s off; their disks outlive them."""

    def __init__(self) -> None:
        self.nodes = Nodes()
        self.clock = VirtualClock(running_loop(), wall_start_ns=1_800_000_000 * 10**9)
        self.broker = MemoryBroker(latency_s=lambda: LATENCY_S, nodes=self.nodes)
        self.dialer = MemoryDialer(MemoryNet(latency_s=LATENCY_S, nodes=self.nodes))
        self.hosts = {name: ManualHost(name) for name in ("h0", "h1")}
        self.disks = {name: (MemoryDisk(), MemoryDisk()) for name in self.hosts}
        self.agents: dict[str, Agent] = {}
        self.lives: dict[str, asyncio.Task[None]] = {}
        self.ids = SeededIds(7)
        for number, host in enumerate(self.hosts.values()):
            host.plug("eth0", ip=f"10.0.0.{number}", rdma="mlx5_0", ifindex=100)
        self.hosts["h0"].join("eth0", self.hosts["h1"], "eth0")

    async def rack_up(self) -> None:
        for name, host in self.hosts.items():
            await self.dialer.listen(lambda host=host: HostWireServer(host, self.clock), f"mem:{name}")  # type: ignore[misc]

    def start(self, name: str, **more: Any) -> None:
        """Start, or start again, the agent of a host."""

        async def live() -> None:
            clock = ShiftedClock(self.clock, offset_s=5, drift_ppm=0)
            events, settings = self.disks[name]
            agent = self.agents[name] = Agent(
                config(name, **more),
                Seams(clock=clock, ids=self.ids, draws=Draws(1)),
                Storage(events=events, settings=settings),
                TwinSources(self.dialer, f"mem:{name}", clock, host=name).sources(),
                bus=lambda will: MemoryBus(self.broker, name, clock, will),
            )
            await agent.run()

        self.lives[name] = asyncio.create_task(self.nodes.run_in_node(name, live()))

    async def close(self) -> None:
        for life in self.lives.values():
            life.cancel()
        await asyncio.gather(*self.lives.values(), return_exceptions=True)
