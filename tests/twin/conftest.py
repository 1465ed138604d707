"""A small rack: four hosts of two ports on one Polatis, and sessions of its real driver."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path

import pytest

from hwd.config.testbed.testbed import load_testbed
from hwd.model.testbed import Testbed
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.values import Crossconnect, Exchange
from hwd_drivers.devices import registry
from hwd_drivers.devices.abilities import CrossConnects, Device
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.transports.dial import Dialer

HOSTS, PORTS = 4, 2

MakeTestbed = Callable[..., Testbed]
OpenSwitch = Callable[[Testbed, str, Dialer, Clock], Awaitable[Device]]
Change = Callable[..., Awaitable[Exchange]]


@pytest.fixture
def run_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Run directories are below it; its path is short, since those of Unix sockets must be."""
    with tempfile.TemporaryDirectory(prefix="hwd-") as folder:
        monkeypatch.setenv("HWD_RUN_DIR", folder)
        yield Path(folder)


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


def write(folder: Path, *, nic: str, switch: str, kernel: bool, hosts: str = "", extra: str = "") -> Path:
    """The testbed file, as text."""
    lines = ["testbed: small", "switches:"]
    twin = f"{{timing: {switch}, seed: 7}}"
    lines.append(f"  ocs1: {{driver: polatis-tl1, model: polatis-6000, size: 16x16, twin: {twin}}}")
    lines.append("hosts:")
    for host in range(HOSTS):
        twin = f"{{kernel: {str(kernel).lower()}, timing: {nic}, seed: {host}, clock: {{offset_s: {host}}}}}"
        lines += [f"  h{host}:", f"    twin: {twin}", "    nics:"]
        lines += [
            f"      eth{port}: {{rdma: mlx5_{port}, ip: 10.1.{host}.{port + 1}/32, module: 100g-lr4}}"
            for port in range(PORTS)
        ]
    lines += [hosts, "fibres:"]
    lines += [
        f"  - h{host}.eth{port} <-> ocs1.{PORTS * host + port + 1}" for host in range(HOSTS) for port in range(PORTS)
    ]
    path = folder / "testbed.yaml"
    path.write_text("\n".join([*lines, extra, ""]))
    return path


@pytest.fixture
def open_switch() -> OpenSwitch:
    """Opens a session with a switch of a testbed, by its driver."""

    async def open(testbed: Testbed, address: str, dialer: Dialer, clock: Clock) -> Device:
        spec = registry.find("polatis-tl1")
        context = OpenContext(
            name="ocs1",
            address=address,
            dialer=dialer,
            clock=clock,
            sink=lambda document: None,
            user="admin",
            password="root",
            options=spec.options(),
            capabilities=testbed.switches["ocs1"].capabilities,
        )
        return await spec.open(context)

    return open


@pytest.fixture
def write_testbed(tmp_path: Path) -> Callable[..., Path]:
    """The testbed's file."""

    def write_it(**what: str) -> Path:
        return write(tmp_path, **{"nic": "ideal", "switch": "ideal", "kernel": False, **what})  # type: ignore[arg-type]

    return write_it


@pytest.fixture
def change() -> Change:
    """Changes crossconnects over a session: change(switch, add, remove)."""

    async def change(switch: Device, add: Iterable[str], remove: Iterable[str] = ()) -> Exchange:
        assert isinstance(switch, CrossConnects)
        return await switch.change_crossconnects(
            remove=[Crossconnect.parse(text) for text in remove],
            add=[Crossconnect.parse(text) for text in add],
            deadline_s=asyncio.get_running_loop().time() + 5,
        )

    return change
