"""A real daemon with one twin switch behind HTTP, in the test's event loop; blocking clients run in threads."""

import asyncio
import functools
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest

from hwd.client import AsyncClient
from hwd.daemon.daemon import Daemon
from hwd.daemon.installed_drivers import load
from hwd.daemon.seams import Machine, Process, RackAccess, Storage
from hwd.daemon.switch_opener import opener
from hwd.model.fault import Fault
from hwd.playbook.twin_faults import NoRackError
from hwd.records.records import Records
from hwd.sim.planes import SimPlanes
from hwd.web.app import make_app
from hwd.web.server import HttpServer, listen
from hwd.web.stream import EventStream
from hwd_agents.bus.memory import MemoryBroker, MemoryBus
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.disk import MemoryDisk
from hwd_drivers.core.documents import Fact
from hwd_drivers.core.ids import Draws, RandomIds
from hwd_drivers.core.offload import InlineOffload, ThreadOffload
from hwd_drivers.devices import registry
from hwd_drivers.devices.facts import SwitchUp
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.registry import Twin, twin_of
from hwd_drivers.twins.timing import find_timing

from ..daemon.conftest import DESK

T = TypeVar("T")
F = TypeVar("F", bound=Fact)

TOKEN, SESSION = "the-token-of-the-desk", "a-session-of-the-desk"

TESTBED = f"{DESK}interlocks: {{forbidden-pair: {{pairs: {{'ocs1:1A-8B': bad mirror}}, override: allowed}}}}\n"
HOSTS = "".join(
    f"  h{n}:\n    twin: {{timing: opus-cx6dx, seed: {n}}}\n"
    f"    nics: {{eth0: {{rdma: mlx5_0, ip: 10.1.{n}.1/32, module: 100g-lr4}}}}\n"
    for n in range(4)
)
FIBRES = "".join(f"  - h{n}.eth0 <-> ocs1.{n + 1}\n" for n in range(4))
FOUR_HOSTS = TESTBED.replace("hosts: {}\nfibres: []\n", f"hosts:\n{HOSTS}fibres:\n{FIBRES}")


class Desk:
    """The daemon, its switch twin, and the way in."""

    def __init__(self, daemon: Daemon, twin: Twin, url: str, events: EventStream) -> None:
        self.daemon = daemon
        self.twin = twin
        self.url = url
        self.events = events
        self.by = {"Authorization": f"Bearer {TOKEN}"}
        self._threads = ThreadOffload(4)

    async def call(self, method: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call what blocks."""
        return await self._threads(functools.partial(method, *args, **kwargs))

    async def ask(self, method: str, path: str, body: object = None, **headers: str) -> httpx2.Response:
        """With the token; a body is sent as JSON, bytes as they are."""
        content = body if isinstance(body, bytes | None) else json.dumps(body, ensure_ascii=False).encode()
        async with httpx2.AsyncClient(base_url=self.url, headers=self.by, trust_env=False, verify=False) as http:
            json_type = {"Content-Type": "application/json"}
            return await http.request(method, path, content=content, headers=json_type | headers, timeout=30)

    async def told(self, type: type[F], after: int = 0) -> F:
        """The first fact of a type after a number."""
        async for _, document in self.daemon.hub.follow(after):
            if isinstance(document.fact, type):
                return document.fact
        raise AssertionError("the hub ended")

    def close(self) -> None:
        self._threads.close()


async def set_fault(fault: Fault) -> None:
    """What the daemon finds where a twin stands alone, with no rack around it."""
    raise NoRackError(f"fault: {fault}: the twin rack is not up")


@pytest.fixture
def tokens() -> frozenset[str]:
    return frozenset({TOKEN})


@pytest.fixture
def testbed_text() -> str:
    return TESTBED


@pytest.fixture
async def desk(tmp_path: Path, tokens: frozenset[str], testbed_text: str) -> AsyncIterator[Desk]:
    (tmp_path / "desk.yaml").write_text(testbed_text)
    testbed = load(tmp_path / "desk.yaml").require()
    clock, dialer, draws = SystemClock(), MemoryDialer(MemoryNet()), Draws(1)
    switch = testbed.switches["ocs1"]
    twin = twin_of(registry.find(switch.driver)).make(
        name="ocs1",
        capabilities=switch.capabilities,
        timing=find_timing("ideal"),
        draws=draws,
        clock=clock,
        dialer=dialer,
        address="mem:ocs1",
        options={},
    )
    address = await twin.start()
    daemon = Daemon(
        testbed=testbed,
        testbed_text=testbed_text,
        machine=Machine(
            clock=clock,
            ids=RandomIds(),
            draws=draws,
            offload=InlineOffload(),
            plane=SimPlanes(),
        ),
        storage=Storage(records=Records("sqlite://", InlineOffload()), journal=MemoryDisk(), job_events=MemoryDisk()),
        rack=RackAccess(
            bus=MemoryBus(MemoryBroker(), "daemon", clock),
            open_switch=opener(dialer=dialer, clock=clock, twin_address=lambda name: address, environment={}),
            set_fault=set_fault,
        ),
        process=Process(version="test", data_dir=str(tmp_path), pid=1, boot="boot1"),
    )
    await daemon.open()
    app = make_app(daemon.service, version="test", tokens=tokens, session=SESSION)
    server = HttpServer(app, listen("127.0.0.1", 0), before_stop=daemon.events.stop)
    running = asyncio.create_task(daemon.run())
    made = Desk(daemon, twin, await server.start(), daemon.events)
    await made.told(SwitchUp)
    try:
        yield made
    finally:
        running.cancel()
        await asyncio.wait([running])
        await server.stop()
        await twin.close()
        made.close()


async def ended_run(desk: Desk, text: str, file: str) -> str:
    """A run that has ended."""
    run = str((await desk.ask("POST", "/api/v1/runs", {"text": text, "file": file})).json()["run"])
    await desk.daemon.service.runs.wait(run)
    return run


@pytest.fixture
async def client(desk: Desk) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(desk.url, token=TOKEN) as client:
        yield client
