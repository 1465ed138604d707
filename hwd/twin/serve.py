"""The twin rack as a process: keeper, twins, one agent a host, its announcement, and its end.

await serve_rack(testbed, run_dir=run_dir(testbed.name))    # until SIGTERM, SIGINT or SIGHUP
"""

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from hwd.config.run_files.announcement import Announcement
from hwd.config.run_files.places import RackPlace
from hwd.config.scenario import Scenario
from hwd.fabric.graph import Graph
from hwd.model.testbed import Testbed
from hwd.twin.agent_config import agent_config
from hwd.twin.control import ControlSession
from hwd.twin.faults.rack_faults import RackFaults
from hwd.twin.faults.scenario_player import play
from hwd.twin.kernel import Keeper, NamespacesUnavailableError
from hwd.twin.kernel_hosts import kernel_hosts, machine_hosts
from hwd.twin.kernelside import KernelNetwork
from hwd.twin.processes import AgentProcess
from hwd.twin.rack import TwinRack
from hwd.twin.rack_sockets import (
    check_sockets,
    control_socket,
    host_socket,
    monitor_socket,
    select_socket,
    transfer_socket,
)
from hwd.twin.run_files import RunFiles
from hwd.twin.truth import TruthFile
from hwd_agents.process.config import (
    BrokerFrom,
    KernelConfig,
    SelectionConfig,
    SourcesConfig,
    SpoolConfig,
    TransfersConfig,
    TwinConfig,
)
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import LinkError, RefusedError
from hwd_drivers.core.ids import RandomIds
from hwd_drivers.core.structs import to_plain
from hwd_drivers.twins.terminal import TerminalDialer

AGENTS_AT_ONCE_PER_CORE = 2
"""So many start at a time."""
PROGRESS_FROM_AGENTS = 20
"""From so many agents on, their progress is logged."""
ANNOUNCE_AGAIN_S = 0.5

_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

log = logging.getLogger(__name__)


async def serve_rack(
    testbed: Testbed,
    *,
    run_dir: Path,
    process_hosts: bool = False,
    with_agents: bool = True,
    mqtt_from: Path | None = None,
    scenario: Scenario | None = None,
) -> None:
    """Run the twins of a testbed until cancelled; all is stopped in order then, within 3 s.

    `run_dir` is created where it does not exist, and others must not be able to enter it. Kernel hosts become process
    hosts with `process_hosts`, and, with one warning, where this machine has no namespaces. Agents find the broker
    under `mqtt` in the JSON file `mqtt_from`, by default the daemon's. A `scenario` begins when all is up. Raises
    RefusedError, naming the pid, where a rack runs in this `run_dir`.
    """
    run_dir = run_dir.absolute()
    run_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_sockets(testbed, run_dir)
    with Announcement(run_dir / "rack.json") as announcement:
        async with AsyncExitStack() as stack:
            rack = await _Rack.open(testbed, run_dir, stack, process_hosts=process_hosts, announcement=announcement)
            try:
                await rack.live(mqtt_from or run_dir / "daemon.json", with_agents=with_agents, scenario=scenario)
            finally:
                log.info("twin rack %s: ending", testbed.name)


class _Announcer:
    """Writes the rack's announcement: the first change at once, later ones soon after together, since the file names
    all hosts.
    """

    def __init__(self, write: Callable[[RackPlace], None]) -> None:
        self._write = write
        self._place: RackPlace | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def __call__(self, place: RackPlace) -> None:
        self._place = place
        if self._timer is None and not self._closed:
            self._say()

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _say(self) -> None:
        self._timer = None
        if self._place is not None:
            self._write(self._place)
            self._place = None
            self._timer = asyncio.get_running_loop().call_later(ANNOUNCE_AGAIN_S, self._say)


@dataclass(slots=True, kw_only=True)
class _Rack:
    """The running parts of a rack, and its announcement."""

    testbed: Testbed
    run_dir: Path
    keeper: Keeper | None
    kernel: KernelNetwork | None
    place: RackPlace
    hosts: dict[str, dict[str, Json]]
    """The entries of `place`, which change while it runs."""
    announce: _Announcer
    agents: dict[str, AgentProcess]
    faults: RackFaults
    rack: TwinRack
    graph: Graph
    files: RunFiles
    up: set[str] = field(default_factory=set)
    """Hosts whose agent was up once."""

    @classmethod
    async def open(
        cls,
        testbed: Testbed,
        run_dir: Path,
        stack: AsyncExitStack,
        *,
        process_hosts: bool,
        announcement: Announcement,
    ) -> "_Rack":
        """Start keeper, twins and control socket; `stack` closes them, last first."""
        announce = _Announcer(announcement.write)
        stack.callback(announce.close)
        clock, dialer = SystemClock(), TerminalDialer()
        if process_hosts and (machines := machine_hosts(testbed)):
            raise RefusedError(
                f"{machines[0].name}: is a virtual machine: omit --process-hosts, or make it a twin of another kind"
            )
        keeper = None if process_hosts else await _open_keeper(testbed, run_dir, stack)
        if keeper is None:
            testbed = without_kernel(testbed)
        kernel = None
        if keeper is not None:
            monitors = {host.name: monitor_socket(run_dir, host.name) for host in machine_hosts(testbed)}
            kernel = KernelNetwork(testbed, keeper, clock, monitors=monitors)
            stack.callback(kernel.close)
        local = {host.name for host in testbed.hosts.values() if host not in machine_hosts(testbed)}
        truths = stack.enter_context(TruthFile(run_dir / "truth.jsonl"))
        rack = TwinRack(
            testbed,
            dialer=dialer,
            clock=clock,
            ids=RandomIds(),
            places=lambda name: f"unix:{host_socket(run_dir, name)}" if name in local else "127.0.0.1:0",
            truth=truths,
            kernel=kernel,
        )
        stack.push_async_callback(rack.close)
        addresses = await rack.start()
        agents: dict[str, AgentProcess] = {}
        faults = RackFaults(rack, kill_agent=partial(_kill, agents))
        stack.callback(faults.close)
        control = await dialer.listen(partial(ControlSession, faults), f"unix:{control_socket(run_dir)}")
        stack.push_async_callback(control.close)
        kept = {host.name for host in kernel_hosts(testbed)}
        path = None if keeper is None else str(keeper.path)
        hosts: dict[str, dict[str, Json]] = {
            name: {
                "kernel": name in kept,
                "keeper": path if name in kept or name not in local else None,
                "agent": None,
                "sockets": {
                    "transfers": str(transfer_socket(run_dir, name)),
                    "select": str(select_socket(run_dir, name)),
                },
                "machine": None if name in local or kernel is None else _machine(run_dir, name, kernel),
            }
            for name in rack.hosts
        }
        place = RackPlace(
            testbed=testbed.name,
            pid=os.getpid(),
            addresses=addresses,
            hosts=hosts,
            control=str(control_socket(run_dir)),
            truth=str(run_dir / "truth.jsonl"),
            protocols={name: dict(twin.addresses) for name, twin in rack.switches.items()},
        )
        return cls(
            testbed=testbed,
            run_dir=run_dir,
            keeper=keeper,
            kernel=kernel,
            place=place,
            hosts=hosts,
            announce=announce,
            agents=agents,
            faults=faults,
            rack=rack,
            graph=Graph(testbed),
            files=RunFiles(announcement, [*rack.listeners, control], truths),
        )

    async def live(self, mqtt_from: Path, *, with_agents: bool, scenario: Scenario | None) -> None:
        """Run agents until cancelled; raises LinkError when the keeper ends, and its namespaces with it."""
        tasks: list[asyncio.Task[None]] = []
        turns = asyncio.Semaphore(AGENTS_AT_ONCE_PER_CORE * (os.cpu_count() or 1))
        async with asyncio.TaskGroup() as group:
            if self.kernel is not None:
                tasks.append(group.create_task(self.kernel.run(), name="hwd:machines"))
            for host, entry in self.place.hosts.items() if with_agents else ():
                if entry["machine"]:
                    continue  # its agent runs inside
                agent = self.agents[host] = AgentProcess(
                    host,
                    config=partial(self._write_config, host, mqtt_from),
                    log_file=self.run_dir / f"agent-{host}.log",
                    on_pid=partial(self._agent_is, host),
                    turns=turns,
                    up=partial(self._agent_up, host),
                )
                tasks.append(group.create_task(agent.run(), name=f"hwd:{host}/agent"))
            self._announce()
            tasks.append(group.create_task(self.files.watch(), name="hwd:run-files"))
            if scenario is not None:
                tasks.append(group.create_task(play(scenario, self.faults), name="hwd:scenario"))
            kernel = sum(bool(entry["kernel"]) for entry in self.place.hosts.values())
            log.info(
                "twin rack %s: %d switches, %d hosts, %d of them in the kernel; %s",
                self.testbed.name,
                len(self.place.addresses) - len(self.place.hosts),
                len(self.place.hosts),
                kernel,
                ", ".join(
                    f"{name} at {_places(address, self.place.protocols.get(name, {}))}"
                    for name, address in self.place.addresses.items()
                ),
            )
            never: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            status = await (never if self.keeper is None else self.keeper.died())
            for task in tasks:
                task.cancel()
        raise LinkError(
            f"twin rack {self.testbed.name}: the keeper of its namespaces ended with status {status}. Restart the rack"
        )

    def _announce(self) -> None:
        self.announce(self.place)

    def _agent_is(self, host: str, pid: int | None) -> None:
        self.hosts[host]["agent"] = pid
        self._announce()

    async def _agent_up(self, host: str) -> None:
        """Wait until the agent is connected with its host; logs the progress of many."""
        await self.rack.hosts[host].until_attached()
        if host in self.up:
            return  # it was started anew
        self.up.add(host)
        if is_progress_logged(up := len(self.up), total := len(self.agents)):
            log.info("twin rack %s: %d of %d agents are up", self.testbed.name, up, total)

    def _write_config(self, host: str, mqtt_from: Path) -> Path:
        entry = self.place.hosts[host]
        kernel = KernelConfig(keeper=str(entry["keeper"]), namespace=host) if entry["kernel"] else None
        config = agent_config(
            self.testbed,
            host,
            broker=BrokerFrom(path=str(mqtt_from)),
            sources=SourcesConfig(kernel=kernel, twin=TwinConfig(address=self.place.addresses[host])),
            spool=SpoolConfig(directory=str(self.run_dir / "spool" / host)),
            addresses=self.place.addresses,
            selection=SelectionConfig(socket=f"unix:{select_socket(self.run_dir, host)}"),
            transfers=TransfersConfig(socket=f"unix:{transfer_socket(self.run_dir, host)}"),
            graph=self.graph,
        )
        path = self.run_dir / f"agent-{host}.yaml"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # a clean-up may have removed it
        path.write_text(yaml.dump(to_plain(config), Dumper=_DUMPER, sort_keys=False))
        return path


def _machine(run_dir: Path, host: str, kernel: KernelNetwork) -> Json:
    """The data for starting a virtual machine: the path of its monitor, and the tap and hardware
    address of each NIC.
    """
    plugs = kernel.taps(host)
    taps: dict[str, Json] = {port: {"tap": plug.tap, "address": plug.address} for port, plug in plugs.items()}
    return {"monitor": str(monitor_socket(run_dir, host)), "nics": taps}


def _kill(agents: Mapping[str, AgentProcess], host: str) -> None:
    if (agent := agents.get(host)) is None:
        raise RefusedError(f"{host}: this rack was started without agents")
    agent.kill()


def _places(address: str, protocols: Mapping[str, str]) -> str:
    """The addresses of a twin, by protocol."""
    return ", ".join([address, *(f"{name} {place}" for name, place in protocols.items() if place != address)])


def is_progress_logged(up: int, agents: int) -> bool:
    """Whether the log says that so many agents are up: with each tenth of many."""
    return agents >= PROGRESS_FROM_AGENTS and up * 10 // agents > (up - 1) * 10 // agents


def without_kernel(testbed: Testbed) -> Testbed:
    """Put all twin hosts of a testbed into the rack's process."""
    hosts = {
        name: host if host.twin is None else replace(host, twin=replace(host.twin, kernel=False))
        for name, host in testbed.hosts.items()
    }
    return replace(testbed, hosts=hosts)


async def _open_keeper(testbed: Testbed, run_dir: Path, stack: AsyncExitStack) -> Keeper | None:
    """A keeper of the namespaces of the testbed; None where it needs none, or this machine has none."""
    hosts, machines = kernel_hosts(testbed), machine_hosts(testbed)
    if not hosts and not machines:
        return None
    keeper = await stack.enter_async_context(Keeper())
    try:
        await keeper.start([host.name for host in hosts], run_dir)
    except NamespacesUnavailableError as error:
        if machines:
            raise RefusedError(
                f"{machines[0].name}: a virtual machine cannot be joined to this rack: {error}"
            ) from error
        log.warning("twin rack %s: its %d kernel hosts run as process hosts: %s", testbed.name, len(hosts), error)
        return None
    return keeper
