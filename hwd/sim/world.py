"""A world: one testbed with all its twins, agents and its daemon, in one event loop.

    async def main() -> None:
        async with World(testbed, text, seed=7) as world:
            await world.settled()
            run = await world.run_playbook(playbook_text)
    run_virtual(main())

Every part is a node that can be killed (`world.nodes.kill("daemon")`) and started again with its disks.
"""

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Self

from hwd.daemon.daemon import Daemon
from hwd.daemon.seams import Machine, Process, RackAccess, Storage
from hwd.daemon.switch_opener import opener
from hwd.model.bodies import RunBody
from hwd.model.fault import Fault
from hwd.model.testbed import Testbed
from hwd.playbook.twin_faults import SetFault
from hwd.records.journal_id import MemoryJournalId
from hwd.records.records import Records
from hwd.records.records_file import DatabaseUrl
from hwd.sim.planes import SimPlanes
from hwd.sim.programs import Program, SimProcesses
from hwd.sim.records_disk import RecordsDisk
from hwd.twin.agent_config import agent_config
from hwd.twin.faults.rack_faults import RackFaults
from hwd.twin.rack import TwinRack
from hwd.twin.truth import Truth
from hwd.web.service import Service
from hwd_agents.bus.memory import MemoryBroker, MemoryBus
from hwd_agents.bus.protocol import Bus
from hwd_agents.process.agent import Agent
from hwd_agents.process.config import (
    AgentConfig,
    SamplingConfig,
    SelectionConfig,
    SourcesConfig,
    TransfersConfig,
    TwinConfig,
)
from hwd_agents.process.seams import Seams
from hwd_agents.process.seams import Storage as AgentStorage
from hwd_agents.sources.twin.twin_sources import TwinSources
from hwd_drivers.core.clock import Clock, ShiftedClock
from hwd_drivers.core.disk import MemoryDisk
from hwd_drivers.core.documents import Document, Sink
from hwd_drivers.core.errors import BugError, HwdError
from hwd_drivers.core.ids import Draws, SeededIds
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.nodes import Nodes
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop

START_WALL_NS = 1_700_000_000_000_000_000
"""Unix time at which a world begins, where nothing else is asked for."""
SIMULATED = Process(version="sim", data_dir="memory", pid=1)
DAEMON, RACK = "daemon", "rack"
"""Names of nodes; those of the agents come from `agent_node`."""
LIGHT_EVERY_S = SamplingConfig().light_fast_s
"""As agents do by themselves."""
BUS_LEAST_S, BUS_MEAN_S, BUS_MOST_S = 0.000_08, 0.000_13, 0.000_3
"""One way to or from a broker on the same machine: most messages take little more than the quickest ones. Measured with
Mosquitto: at least 84 us, half within 130 us, 99 % within 280 us."""


class World:
    """Owns all nodes of one simulated rack. `documents`: all documents of the daemon, in order.

    `programs`: what the commands of jobs do, by their first words; the data folder of `process` gets what they write.
    `light_every_s`: between two looks of an agent at the light of a port that is watched.
    `patched`: the rack as it is really patched, where that differs from the testbed file.
    `make_daemon` takes the arguments of `Daemon`. `tap_bus` gets the bus of each node with its clock, and returns what
    the node is to use.
    """

    def __init__(
        self,
        testbed: Testbed,
        testbed_text: str,
        *,
        seed: int,
        records_url: DatabaseUrl = "sqlite://",
        start_wall_ns: int = START_WALL_NS,
        sinks: Sequence[Sink] = (),
        patched: Testbed | None = None,
        make_daemon: Callable[..., Daemon] = Daemon,
        tap_bus: Callable[[Bus, str, Clock], Bus] = lambda bus, node, clock: bus,
        programs: Mapping[str, Program] = MappingProxyType({}),
        process: Process = SIMULATED,
        light_every_s: float = LIGHT_EVERY_S,
    ) -> None:
        loop = asyncio.get_running_loop()
        if not isinstance(loop, VirtualLoop):
            raise BugError("a world needs a virtual loop; start it with run_virtual")
        self.testbed = testbed
        self.documents: list[Document] = []
        self.nodes = Nodes()
        self.clock = VirtualClock(loop, wall_start_ns=start_wall_ns)
        self.draws = Draws(seed)
        self.net = MemoryNet(nodes=self.nodes)
        latency = self.draws.stream("bus")
        self.bus_delay_s = 0.0
        """What the broker takes longer for each message each way."""
        self.broker = MemoryBroker(latency_s=lambda: self.bus_delay_s + _bus_latency_s(latency), nodes=self.nodes)
        self.daemon: Daemon | None = None
        self.boots: list[str] = []
        """The boots of the agents, in the order in which they were started."""
        self.on_no_start: Callable[[HwdError], None] | None = None
        """Called where the daemon cannot start, to kill it and start it again; without it the error is raised."""
        self._testbed_text = testbed_text
        self._seed = seed
        self._records_url = records_url
        self._sinks = (self.documents.append, *sinks)
        self._addresses: Mapping[str, str] = {}
        self.journal_disk = MemoryDisk()
        self.job_events = MemoryDisk()
        self.records_disk = RecordsDisk()
        self.journal_id = MemoryJournalId()
        self.spools = {name: MemoryDisk() for name in testbed.hosts}
        self.settings = {name: MemoryDisk() for name in testbed.hosts}
        self._starts: dict[str, int] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._make_daemon = make_daemon
        self._tap_bus = tap_bus
        self._process = process
        self._sampling = SamplingConfig(light_fast_s=light_every_s)
        self.processes = SimProcesses(self.nodes, programs)
        self.planes = SimPlanes()
        self._records: Records | None = None
        self._cuts = self.draws.stream("power cuts")
        self._cuts_of_jobs = self.draws.stream("power cuts of job events")
        self.truths: list[Truth] = []
        """All true changes of NIC ports, in order."""
        self.nodes.on_kill(self._cut_power)
        self.rack = TwinRack(
            patched or testbed,
            dialer=self._dialer(RACK),
            clock=self.clock,
            ids=self._ids(RACK),
            places=lambda name: f"mem:{name}",
            truth=self.truths.append,
        )
        self.faults = RackFaults(self.rack, kill_agent=self._replace_agent)
        self.set_fault: SetFault = self._set_fault
        """The daemon's way to the rack's control socket; what comes over it may be made late, or be lost."""

    async def __aenter__(self) -> Self:
        with self.nodes.node(RACK):
            started = asyncio.create_task(self.rack.start(), name="hwd:rack/start")
        self._addresses = await started
        for host in self.testbed.hosts:
            self.start_agent(host)
        self.start_daemon()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in [*self._tasks]:
            await self.stop(name)
        self.faults.close()
        await self.rack.close()

    # --- nodes

    def start_agent(self, host: str) -> None:
        """Start the agent of a host, with the spool that its last process left."""
        twin = self.testbed.hosts[host].twin
        assert twin is not None
        clock = ShiftedClock(self.clock, offset_s=twin.clock_offset_s, drift_ppm=twin.clock_drift_ppm)
        name = agent_node(host)
        with self.nodes.node(name):
            sources = TwinSources(self._dialer(name), self._addresses[host], clock, host=host)
            agent = Agent(
                self._config(host),
                Seams(clock=clock, ids=self._ids(name), draws=self.draws, dialer=self._dialer(name)),
                AgentStorage(events=self.spools[host], settings=self.settings[host]),
                sources.sources(),
                bus=lambda will: self._tap_bus(MemoryBus(self.broker, name, clock, will), name, clock),
            )
        self.boots.append(agent.boot)
        self._start(name, agent.run())

    def start_daemon(self) -> None:
        """Start the daemon, with the records and the journal that its last process left."""
        self._start(DAEMON, self._run_daemon())

    def kill(self, node: str) -> None:
        """End a node as a crash does: nothing of it runs any more, and a part or all of what was not synced is lost.

        `nodes.kill_at` kills a node at one of its callbacks; call this after it, before the node starts again.
        """
        self.nodes.kill(node)
        if (task := self._tasks.pop(node, None)) is not None:
            task.cancel()

    def ended(self) -> dict[str, BaseException | None]:
        """The nodes that ended though nobody stopped or killed them, each with its error."""
        return {name: task.exception() for name, task in self._tasks.items() if task.done() and not task.cancelled()}

    async def stop(self, node: str) -> None:
        """End a node in order, as SIGTERM does."""
        task = self._tasks.pop(node)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    # --- what an operator does

    async def settled(self) -> Service:
        """Wait until every switch and every agent is up and all clocks are aligned."""
        while True:
            for task in self._tasks.values():
                if task.done():
                    await task
            service = self.daemon.service if self.daemon is not None else None
            is_ready = service is not None and service.rack.ready().ready
            if (
                service is not None
                and is_ready
                and all(host.up and host.aligned for host in await service.rack.hosts())
            ):
                return service
            await asyncio.sleep(0.1)

    async def run_playbook(self, text: str, *, file: str, parameters: Mapping[str, str] | None = None) -> str:
        """One run from start to end; returns its id. Raises NodeKilled when the daemon is killed meanwhile."""
        service = await self.settled()
        starting = service.runs.start(RunBody(text=text, file=file, parameters=dict(parameters or {})))
        run = (await self.nodes.run_in_node(DAEMON, starting)).run
        await self.nodes.run_in_node(DAEMON, service.runs.wait(run))
        return run

    # --- parts

    async def _run_daemon(self) -> None:
        self._records = Records(self._records_url, self.records_disk)
        daemon = self._make_daemon(
            testbed=self.testbed,
            testbed_text=self._testbed_text,
            machine=Machine(
                clock=self.clock,
                ids=self._ids(DAEMON),
                draws=self.draws,
                offload=InlineOffload(),
                plane=self.planes,
                virtual_time=True,
            ),
            storage=Storage(
                records=self._records,
                journal=self.journal_disk,
                job_events=self.job_events,
                journal_id=self.journal_id,
            ),
            rack=RackAccess(
                bus=self._tap_bus(MemoryBus(self.broker, DAEMON, self.clock), DAEMON, self.clock),
                open_switch=opener(
                    dialer=self._dialer(DAEMON), clock=self.clock, twin_address=self._addresses.get, environment={}
                ),
                set_fault=lambda fault: self.set_fault(fault),
                processes=self.processes,
            ),
            process=self._process,
            sinks=self._sinks,
        )
        try:
            await daemon.open()
        except HwdError as error:
            if self.on_no_start is None:
                raise
            self.on_no_start(error)
            await asyncio.Event().wait()  # its process has ended
        self.daemon = daemon
        await daemon.run()

    async def _set_fault(self, fault: Fault) -> None:

        async def set_it() -> None:
            self.faults.set(fault)

        await self.nodes.run_in_node(RACK, set_it())

    def _replace_agent(self, host: str) -> None:
        """Restart an agent, as a service manager does."""
        self.kill(agent_node(host))
        self.start_agent(host)

    def _cut_power(self, node: str) -> None:
        """The end of a killed node. The operating system closes the files of its database: what was committed stays.

        The daemon's machine loses its power: of what its files had not synced, the first bytes may reach the disk. An
        agent dies alone: a host without power would begin its counters and its clock anew, and its twin does not. A
        program has no disk.
        """
        if node == DAEMON:
            for disk, cuts in ((self.journal_disk, self._cuts), (self.job_events, self._cuts_of_jobs)):
                disk.crash(keep_unsynced=cuts.randint(0, disk.unsynced()))
        elif host_of(node) in self.spools:
            for disk in (self.spools[host_of(node)], self.settings[host_of(node)]):
                disk.crash(keep_unsynced=disk.unsynced())
        if node == DAEMON:
            self.daemon = None
            if self._records is not None:
                self._records.close()

    def _start(self, node: str, main: Coroutine[object, object, None]) -> None:
        self._tasks[node] = asyncio.create_task(self.nodes.run_in_node(node, main), name=f"hwd:{node}/main")

    def _dialer(self, node: str) -> MemoryDialer:
        return MemoryDialer(self.net, node=node)

    def _ids(self, node: str) -> SeededIds:
        self._starts[node] = self._starts.get(node, 0) + 1
        return SeededIds(self.draws.stream(f"ids {node} {self._starts[node]}").getrandbits(64))

    def _config(self, host: str) -> AgentConfig:
        return agent_config(
            self.testbed,
            host,
            broker="memory",
            sources=SourcesConfig(twin=TwinConfig(address=self._addresses[host])),
            addresses=self._addresses,
            selection=SelectionConfig(socket=select_address(host)),
            transfers=TransfersConfig(socket=transfer_address(host)),
            sampling=self._sampling,
        )


def _bus_latency_s(draws: random.Random) -> float:
    return min(BUS_MOST_S, BUS_LEAST_S + draws.expovariate(1 / (BUS_MEAN_S - BUS_LEAST_S)))


def select_address(host: str) -> str:
    """Where the jobs of a host set its own switches."""
    return f"mem:select-{host}"


def transfer_address(host: str) -> str:
    """Where the processes of a host say what they are sending."""
    return f"mem:transfers-{host}"


def agent_node(host: str) -> str:
    return f"agent {host}"


def host_of(node: str) -> str:
    """The host of an agent's node."""
    return node.removeprefix("agent ")
