"""A host of a rack that is a virtual machine: what it is started with, and its cables by QEMU's monitor."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwd.config.run_files.places import DaemonPlace, RackPlace
from hwd.config.testbed.testbed import load_testbed
from hwd.model.testbed import Testbed
from hwd.twin.kernel import SWITCH, Keeper
from hwd.twin.monitor import MachineMonitor
from hwd.twin.virtual_machine import prepare_machine
from hwd_agents.process.config import load_config
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import HwdError

from .conftest import specs

FILE = """testbed: lab
switches: {ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: ideal}}}
hosts:
  h0: {twin: {machine: 10.0.2.2}, nics: {data0: {interface: eth0, rdma: rxe0, ip: 10.1.0.1/24, module: 100g-lr4}}}
  h1: {twin: {}, nics: {eth0: {module: 100g-lr4}}}
"""
DAEMON = DaemonPlace(testbed="lab", pid=1, http="http://127.0.0.1:1", mqtt="mqtt://u:p%40@127.0.0.1:1883", data_dir="d")


@pytest.fixture
def testbed(tmp_path: Path) -> Testbed:
    path = tmp_path / "testbed.yaml"
    path.write_text(FILE)
    return load_testbed(path, specs()).require()


@pytest.fixture
def rack(tmp_path: Path) -> RackPlace:
    nics: dict[str, Json] = {"data0": {"tap": "fibre1", "address": "02:00:00:00:00:01"}}
    entry: dict[str, Json] = {
        "keeper": str(tmp_path / "run/keeper"),
        "machine": {"monitor": str(tmp_path / "h0.monitor"), "nics": nics},
    }
    return RackPlace(testbed="lab", pid=7, addresses={"h0": "127.0.0.1:40001"}, hosts={"h0": entry})


@pytest.mark.kernel
@pytest.mark.skipif(not os.access("/dev/net/tun", os.R_OK | os.W_OK), reason="needs /dev/net/tun")
async def test_qemu_gets_taps_a_monitor_and_the_agents_configuration(
    testbed: Testbed, rack: RackPlace, tmp_path: Path
) -> None:
    async with Keeper() as keeper:
        await keeper.start([], tmp_path / "run")
        os.close(keeper.tap(SWITCH, "fibre1", 1_000_001))
        joining = prepare_machine(testbed, "h0", rack=rack, daemon=DAEMON, run_dir=tmp_path, nic="e1000e")
    (tap,) = joining.descriptors
    assert os.get_inheritable(tap)
    os.close(tap)
    config = tmp_path / "agent-h0.yaml"
    assert joining.arguments == (
        "-chardev",
        f"socket,id=hwd,path={tmp_path}/h0.monitor,server=on,wait=off",
        "-mon",
        "chardev=hwd,mode=control",
        "-fw_cfg",
        f"name=opt/hwd/agent.yaml,file={config}",
        "-netdev",
        f"tap,id=hwd-data0-tap,fd={tap}",
        "-device",
        "e1000e,id=hwd-data0,netdev=hwd-data0-tap,mac=02:00:00:00:00:01",
    )
    assert config.stat().st_mode & 0o077 == 0
    agent = load_config(config)
    assert agent.broker == "mqtt://u:p%40@10.0.2.2:1883"
    assert agent.sources.kernel is not None
    assert agent.sources.kernel.keeper is None
    assert agent.sources.twin is not None
    assert agent.sources.twin.address == "10.0.2.2:40001"
    assert agent.clock is None
    assert (agent.ports["data0"].interface, agent.ports["data0"].rdma) == ("eth0", "rxe0")


@pytest.mark.parametrize(
    ("host", "change", "words"),
    [
        ("h7", "", "h7: testbed lab has no such host. It has h0, h1"),
        ("h1", "", r"h1: is no virtual machine in testbed lab. Write twin: \{machine: ADDRESS\} there"),
        ("h0", "rack", "testbed lab: no twin rack of it is up. Start it with `hwd twin up TESTBED`"),
        ("h0", "daemon", "and the agent of h0 needs its broker. Start it with `hwd serve TESTBED`"),
        ("h0", "old", r"h0: is no virtual machine in the running rack \(pid 7\). Restart that"),
        ("h0", "unix", "broker unix:/run/b: a virtual machine cannot reach a Unix socket. Take mqtt://host:port"),
        ("h0", "remote", "h0: cannot get its tap device fibre1: "),
    ],
)
def test_what_is_missing_is_said(
    testbed: Testbed, rack: RackPlace, tmp_path: Path, host: str, change: str, words: str
) -> None:
    daemon: DaemonPlace | None = DAEMON
    up: RackPlace | None = rack
    match change:
        case "rack":
            up = None
        case "daemon":
            daemon = None
        case "old":
            up = replace(rack, hosts={"h0": {"kernel": True, "keeper": None, "machine": None}})
        case "remote":
            daemon = replace(DAEMON, mqtt="mqtts://broker.lab:8883")
        case "unix":
            daemon = replace(DAEMON, mqtt="unix:/run/b")
    with pytest.raises(HwdError, match=words):
        prepare_machine(testbed, host, rack=up, daemon=daemon, run_dir=tmp_path, nic="virtio-net-pci")
    if change == "remote":
        assert load_config(tmp_path / "agent-h0.yaml").broker == "mqtts://broker.lab:8883", "unchanged"


GREETING = {"QMP": {"version": {"qemu": {"major": 7, "minor": 2, "micro": 22}}, "capabilities": ["oob"]}}


Stamps = asyncio.Queue[tuple[int, int]]


class Qemu:
    """Takes commands, and keeps them; answers when it is told to."""

    def __init__(self, *, answers: bool = True, greeting: bytes = json.dumps(GREETING).encode()) -> None:
        self.answers = answers
        self.greeting = greeting
        self.cables: asyncio.Queue[tuple[str, bool]] = asyncio.Queue()
        self.writers: list[asyncio.StreamWriter] = []
        self.held: list[Any] = []
        self.met = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        self.met.set()
        writer.write(self.greeting + b"\r\n")
        while line := await reader.readline():
            asked = json.loads(line)
            self.held.append(asked["id"])
            writer.write(b'{"event": "NIC_RX_FILTER_CHANGED", "data": {}}\r\n')
            if self.answers:
                self.answer()
            if asked["execute"] == "set_link":
                self.cables.put_nowait((asked["arguments"]["name"], asked["arguments"]["up"]))
        writer.close()

    def answer(self, **what: object) -> None:
        for number in self.held:
            self.writers[-1].write(json.dumps({"id": number, **(what or {"return": {}})}).encode() + b"\r\n")
        self.held.clear()


@asynccontextmanager
async def running(qemu: Qemu, path: Path) -> AsyncIterator[None]:
    server = await asyncio.start_unix_server(qemu.serve, path)
    yield
    server.close()
    for writer in qemu.writers:
        writer.close()
    await server.wait_closed()
    path.unlink(missing_ok=True)


@pytest.fixture
async def monitor(tmp_path: Path) -> AsyncIterator[MachineMonitor]:
    made = MachineMonitor("h0", tmp_path / "monitor", SystemClock())
    task = asyncio.create_task(made.run())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def asked(monitor: MachineMonitor, folder: Path) -> AsyncIterator[tuple[Qemu, Stamps]]:
    """A machine whose cable is asked to be lit, and has not answered; with when the change was told to be."""
    told: Stamps = asyncio.Queue()
    monitor.set("hwd-eth0", up=False, on_set=lambda *_: None)
    qemu = Qemu()
    async with running(qemu, folder / "monitor"), asyncio.timeout(20):
        await qemu.cables.get()
        qemu.answers = False
        monitor.set("hwd-eth0", up=True, on_set=lambda *stamps: told.put_nowait(stamps))
        assert await qemu.cables.get() == ("hwd-eth0", True)
        yield qemu, told


async def test_a_change_is_told_between_question_and_answer_or_if_the_machine_ends_refuses_or_is_not_there(
    monitor: MachineMonitor, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock, stamps = SystemClock(), list[tuple[int, int]]()
    monitor.set("hwd-eth0", up=True, on_set=lambda *stamp: stamps.append(stamp))
    ((before_ns, after_ns),) = stamps
    assert before_ns == after_ns
    asked_ns = clock.monotonic_ns()
    async with asked(monitor, tmp_path) as (qemu, told):
        assert told.empty()
        answered_ns = clock.monotonic_ns()
        qemu.answer()
        before_ns, after_ns = await told.get()
    assert asked_ns <= before_ns < answered_ns <= after_ns
    async with asked(monitor, tmp_path) as (qemu, told):
        qemu.writers[-1].close()
        await told.get()
    async with asked(monitor, tmp_path) as (qemu, told):
        qemu.answer(error={"class": "DeviceNotFound", "desc": "Device 'hwd-eth0' not found"})
        await told.get()
    assert "h0: its machine refuses: Device 'hwd-eth0' not found" in caplog.text


async def test_a_machine_that_starts_is_told_of_its_cables_and_something_else_at_its_place_is_tried_again(
    monitor: MachineMonitor, tmp_path: Path
) -> None:
    monitor.set("hwd-eth0", up=False, on_set=lambda *_: None)
    for greeting in (b"not JSON", b"[]", b'{"hello": 1}'):
        other = Qemu(greeting=greeting)
        async with running(other, tmp_path / "monitor"), asyncio.timeout(20):
            await other.met.wait()
        qemu = Qemu()
        async with running(qemu, tmp_path / "monitor"), asyncio.timeout(20):
            assert await qemu.cables.get() == ("hwd-eth0", False)
