"""Many real agents in one process, whose links flap on command: `python -m bench.processes.agents PORT FOLDER HOSTS`.

Each agent is real from the link watcher to the spool's file and its own connection to the broker. Only its link source
is simulated; modules, PHYs and datagrams come over the wire of a twin host in memory. The input is lines of
`RATE SECONDS BATCH`: RATE carrier events a second of all agents together, BATCH at a time of one agent. When all are
acknowledged it prints the number of events, the seconds from the first to the last, and the seconds until the last was
acknowledged.
"""

import asyncio
import itertools
import signal
import sys
from collections.abc import Callable, Collection
from pathlib import Path

from bench.lab import NAME
from hwd_agents.bus.mqtt import MqttBus
from hwd_agents.process.agent import Agent
from hwd_agents.process.config import AgentConfig, PortConfig, SourcesConfig, SpoolConfig, TwinConfig
from hwd_agents.process.seams import Seams, Storage
from hwd_agents.sources.link_source import LinkReading, OperState, Origin
from hwd_agents.sources.twin.hostwire_server import HostWireServer
from hwd_agents.sources.twin.manual_host import ManualHost
from hwd_agents.sources.twin.twin_sources import TwinSources
from hwd_agents.wire import SourceNote
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.disk import FileDisk, MemoryDisk
from hwd_drivers.core.ids import Draws, RandomIds
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet

PORTS = 4
NOTE = SourceNote(sees=["carrier", "interface"], origin="twin")


class PlayedLinks:
    """A LinkSource: `flap` changes the carrier of the next port."""

    def __init__(self, clock: SystemClock) -> None:
        self._clock = clock
        self._readings = {index: self._reading(index, False, 0) for index in range(PORTS)}
        self._next = itertools.cycle(range(PORTS))
        self._on_reading: Callable[[LinkReading], None] | None = None

    async def open(self, on_reading: Callable[[LinkReading], None]) -> None:
        self._on_reading = on_reading
        await self.refresh()

    async def refresh(self, interfaces: Collection[str] | None = None) -> None:
        for reading in self._readings.values():
            self._tell(reading)

    async def close(self) -> None:
        self._on_reading = None

    def flap(self) -> None:
        index = next(self._next)
        before = self._readings[index]
        self._readings[index] = self._reading(index, not before.carrier, before.carrier_changes + 1)
        self._tell(self._readings[index])

    def _tell(self, reading: LinkReading) -> None:
        if self._on_reading is not None:
            self._on_reading(reading)

    def _reading(self, index: int, carrier: bool, changes: int) -> LinkReading:
        at_ns = self._clock.monotonic_ns()
        return LinkReading(
            interface=f"eth{index}",
            ifindex=index + 2,
            present=True,
            admin_up=True,
            carrier=carrier,
            operstate=OperState.UP if carrier else OperState.DOWN,
            carrier_changes=changes,
            carrier_ups=(changes + carrier) // 2,
            carrier_downs=changes // 2,
            mtu=1500,
            origin=Origin.NOTICE,
            at_ns=at_ns,
            earliest_ns=at_ns,
        )


class Fleet:
    """All agents."""

    def __init__(self, port: int, folder: Path, hosts: int) -> None:
        self._clock, self._draws, self._ids = SystemClock(), Draws(None), RandomIds()
        self._dialer = MemoryDialer(MemoryNet())
        self._port = port
        self._folder = folder
        self._links = [PlayedLinks(self._clock) for _ in range(hosts)]
        self._agents: list[Agent] = []

    async def live(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for number, links in enumerate(self._links):
                agent = await self._agent(f"h{number}", links)
                self._agents.append(agent)
                tasks.create_task(agent.run())

    async def _agent(self, host: str, links: PlayedLinks) -> Agent:
        played, clock = ManualHost(host), self._clock
        for index in range(PORTS):
            played.plug(f"eth{index}", ifindex=index + 2)
        await self._dialer.listen(lambda: HostWireServer(played, clock), f"mem:{host}")
        (self._folder / host).mkdir()
        config = AgentConfig(
            testbed=NAME,
            host=host,
            broker=f"mqtt://127.0.0.1:{self._port}",
            ports={f"eth{index}": PortConfig(interface=f"eth{index}") for index in range(PORTS)},
            sources=SourcesConfig(twin=TwinConfig(address=f"mem:{host}")),
            spool=SpoolConfig(directory=str(self._folder / host)),
        )
        return Agent(
            config,
            Seams(clock=clock, ids=self._ids, draws=self._draws),
            Storage(events=FileDisk(self._folder / host / "events"), settings=MemoryDisk()),
            TwinSources(self._dialer, f"mem:{host}", clock, host=host).sources(link=(links, NOTE)),
            bus=lambda will: MqttBus(str(config.broker), f"bench-{host}", clock, self._draws, will),
        )

    async def flap(self, rate: float, seconds: float, batch: int) -> tuple[int, float, float]:
        """Events; seconds from the first to the last, and until all were acknowledged."""
        loop = asyncio.get_running_loop()
        began_s, told = loop.time(), 0
        turns = itertools.cycle(self._links)
        while told < rate * seconds:
            links = next(turns)
            for _ in range(batch):
                links.flap()
            told += batch
            if (wait_s := began_s + told / rate - loop.time()) > 0:
                await asyncio.sleep(wait_s)
            elif told // batch % len(self._links) == 0:
                await asyncio.sleep(0)
        took_s = loop.time() - began_s
        while any(agent.waiting for agent in self._agents):  # noqa: ASYNC110 - an agent has nobody to tell
            await asyncio.sleep(0.01)
        return told, took_s, loop.time() - began_s


async def main(port: str, folder: str, hosts: str) -> None:
    fleet = Fleet(int(port), Path(folder), int(hosts))
    lines = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    life = asyncio.create_task(fleet.live())
    loop.add_signal_handler(signal.SIGTERM, life.cancel)
    print("ready", flush=True)
    talking = asyncio.create_task(_talk(fleet, lines))
    await asyncio.wait([life, talking], return_when=asyncio.FIRST_COMPLETED)
    for task in (life, talking):
        task.cancel()
    await asyncio.wait([life, talking])


async def _talk(fleet: Fleet, lines: asyncio.StreamReader) -> None:
    while line := (await lines.readline()).decode():
        rate, seconds, batch = line.split()
        print(*await fleet.flap(float(rate), float(seconds), int(batch)), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
