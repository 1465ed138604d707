"""A small rack: four hosts of two ports on one Polatis, and sessions of its real driver."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hwd.config.testbed.testbed import load_testbed
from hwd.model.fault import parse_fault
from hwd.model.nic_port import NicPortId
from hwd.model.testbed import Testbed
from hwd.twin.faults.rack_faults import RackFaults
from hwd.twin.nic import What
from hwd.twin.rack import KernelSide, TwinRack
from hwd.twin.truth import Truth
from hwd_agents.sources.modules.sff8636 import parse_memory
from hwd_agents.sources.twin.twin_sources import TwinSources
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.ids import SeededIds
from hwd_drivers.core.values import Exchange, PortSide
from hwd_drivers.devices import registry
from hwd_drivers.devices.abilities import CrossConnects, Device, PowerReadings
from hwd_drivers.transports.dial import Dialer
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop

from ..drivers.parts import context, pairs
from ..virtual_time import clock, loop

__all__ = ["clock", "loop"]

S = 1_000_000_000
WALL_START_NS = 1_700_000_000 * S
AVERAGING_S = 0.1
"""Of the monitors of a Polatis unit, as they come."""


HOSTS, PORTS = 4, 2

MakeTestbed = Callable[..., Testbed]


@pytest.fixture
def run_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Run directories are below it; its path is short, since those of Unix sockets must be."""
    with tempfile.TemporaryDirectory(prefix="hwd-") as folder:
        monkeypatch.setenv("HWD_RUN_DIR", folder)
        yield Path(folder)


class Scene:
    """A rack, its faults, and a session with its switch."""

    def __init__(self, rack: TwinRack, switch: Device, dialer: Dialer, clock: Clock, truths: list[Truth]) -> None:
        self.rack = rack
        self.switch = switch
        self.dialer = dialer
        self.clock = clock
        self.truths = truths
        self.killed: list[str] = []
        self.faults = RackFaults(rack, kill_agent=self.killed.append)

    def fault(self, **data: Any) -> None:
        self.faults.set(parse_fault(data))

    def said(self) -> list[str]:
        return [str(fault) for fault in self.faults.present()]

    async def change(self, *add: str, remove: Iterable[str] = ()) -> Exchange:
        return await change(self.switch, add, remove)

    def up(self, what: What) -> list[str]:
        return [str(id) for id, nic in self.rack.nics.items() if nic.is_up(what)]

    def happened(self, port: str, what: What, *, up: bool = True) -> list[Truth]:
        """Each time that something came, or went, at a port."""
        id = NicPortId.parse(port)
        return [one for one in self.truths if (one.port, one.what, one.up) == (id, what, up)]

    def at_ns(self, port: str, what: What, *, up: bool = True) -> list[int]:
        return [one.after_ns for one in self.happened(port, what, up=up)]

    def at_s(self, port: str, what: What, *, up: bool = True) -> list[float]:
        return [at_ns / S for at_ns in self.at_ns(port, what, up=up)]

    def now_s(self) -> float:
        return self.clock.monotonic_ns() / S

    async def power(self, end: str) -> float | None:
        """When the monitor has averaged over what is there now."""
        assert isinstance(self.switch, PowerReadings)
        await asyncio.sleep(AVERAGING_S)
        (reading,) = await self.switch.read_power([PortSide.parse(end)], deadline_s=soon())
        return reading.power_dbm

    def lanes(self, port: str) -> tuple[float | None, ...]:
        """As the module of the port has it."""
        id = NicPortId.parse(port)
        return parse_memory(self.rack.hosts[id.host].module(id.port)).rx_power_dbm

    @asynccontextmanager
    async def agent(self, host: str, clock: Clock | None = None) -> AsyncIterator[TwinSources]:
        """The sources of an agent of a host."""
        sources = TwinSources(self.dialer, f"mem:{host}", clock or self.clock, host=host)
        running = asyncio.create_task(sources.run(lambda: None))
        await asyncio.sleep(0.1)
        try:
            yield sources
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def on_stage(
    testbed: Testbed,
    dialer: Dialer,
    clock: Clock,
    *,
    places: Callable[[str], str] = lambda name: f"mem:{name}",
    kernel: KernelSide | None = None,
) -> AsyncIterator[Scene]:
    """The rack of a testbed, with all of its switches and hosts."""
    truths: list[Truth] = []
    rack = TwinRack(
        testbed, dialer=dialer, clock=clock, ids=SeededIds(1), places=places, truth=truths.append, kernel=kernel
    )
    addresses = await rack.start()
    switch = await open_switch(addresses["ocs1"], dialer, clock)
    scene = Scene(rack, switch, dialer, clock, truths)
    try:
        yield scene
    finally:
        scene.faults.close()
        await switch.close()
        await rack.close()


async def open_switch(address: str, dialer: Dialer, clock: Clock) -> Device:
    """A session with the switch of the rack, by its driver."""
    return await registry.find("polatis-tl1").open(
        context("polatis-tl1", "polatis-6000", "16x16", dialer, clock, address=address)
    )


async def change(switch: Device, add: Iterable[str], remove: Iterable[str] = ()) -> Exchange:
    assert isinstance(switch, CrossConnects)
    return await switch.change_crossconnects(
        remove=pairs(" ".join(remove)), add=pairs(" ".join(add)), deadline_s=soon()
    )


def soon() -> float:
    return asyncio.get_running_loop().time() + 5


def rack_with(**what: Any) -> pytest.MarkDecorator:
    """The test has a rack of such a testbed."""
    return pytest.mark.parametrize("testbed_of", [pytest.param(what, id=pytest.HIDDEN_PARAM)])


@pytest.fixture
def testbed_of() -> dict[str, Any]:
    """How the testbed of the scene differs from the usual one."""
    return {}


@pytest.fixture
async def scene(make_testbed: MakeTestbed, testbed_of: dict[str, Any], loop: VirtualLoop) -> AsyncIterator[Scene]:
    """A rack in virtual time."""
    clock = VirtualClock(loop, wall_start_ns=WALL_START_NS)
    async with on_stage(make_testbed(**testbed_of), MemoryDialer(MemoryNet()), clock) as scene:
        yield scene


@pytest.fixture
def make_testbed(tmp_path: Path) -> MakeTestbed:
    """Testbed of h0..h3, each with eth0 and eth1, on ports 1 to 8 of ocs1."""

    def make(
        *, nic: str = "ideal", switch: str = "ideal", kernel: bool = False, hosts: str = "", extra: str = ""
    ) -> Testbed:
        path = write(tmp_path, nic=nic, switch=switch, kernel=kernel, hosts=hosts, extra=extra)
        return load_testbed(path, specs()).require()

    return make


def specs() -> dict[str, registry.DriverSpec]:
    return {name: registry.find(name) for name in registry.names()}


def write(
    folder: Path, *, nic: str, switch: str, kernel: bool, hosts: str = "", extra: str = "", count: int = HOSTS
) -> Path:
    """The testbed file, as text."""
    lines = ["testbed: small", "switches:"]
    twin = f"{{timing: {switch}, seed: 7}}"
    lines.append(f"  ocs1: {{driver: polatis-tl1, model: polatis-6000, size: 16x16, twin: {twin}}}")
    lines.append("hosts:")
    for host in range(count):
        twin = f"{{kernel: {str(kernel).lower()}, timing: {nic}, seed: {host}, clock: {{offset_s: {host}}}}}"
        lines += [f"  h{host}:", f"    twin: {twin}", "    nics:"]
        lines += [
            f"      eth{port}: {{rdma: mlx5_{port}, ip: 10.1.{host}.{port + 1}/32, module: 100g-lr4}}"
            for port in range(PORTS)
        ]
    lines += [hosts, "fibres:"]
    lines += [
        f"  - h{host}.eth{port} <-> ocs1.{PORTS * host + port + 1}" for host in range(count) for port in range(PORTS)
    ]
    path = folder / "testbed.yaml"
    path.write_text("\n".join([*lines, extra, ""]))
    return path


@pytest.fixture
def write_testbed(tmp_path: Path) -> Callable[..., Path]:
    """The testbed's file, for a rack whose agents are processes: it has two hosts."""

    def write_it(**what: str) -> Path:
        return write(tmp_path, **{"nic": "ideal", "switch": "ideal", "kernel": False, "count": 2, **what})  # type: ignore[arg-type]

    return write_it
