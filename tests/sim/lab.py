"""A lab in a simulated world, in virtual time: the stage of tests that do something to a rack and its daemon."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from typing_extensions import override

from hwd.daemon.installed_drivers import load
from hwd.model.bodies import ActBody, RunBody
from hwd.model.fault import parse_fault
from hwd.model.recorded_run import Run
from hwd.model.run import AbortedRun
from hwd.sim.world import DAEMON, SIMULATED, World
from hwd.web.service import Service
from hwd_drivers.core.documents import Document, Fact, Sink
from hwd_drivers.core.structs import from_json, to_json
from hwd_drivers.twins.server import Faults

from ..virtual_time import SELDOM_S

EXAMPLE = Path(__file__).parents[2] / "examples" / "two-hosts.yaml"
STRAIGHT, CROSSED = "ocs1:1A-3B,3A-1B,2A-4B,4A-2B", "ocs1:1A-4B,4A-1B,2A-3B,3A-2B"
"""Both ways to join its four ports in two links between the hosts."""
ABORT_WITHIN_S = 5.0
FOR_EVER_S = 3600.0
"""Virtual: a document that did not come by then never comes."""
F = TypeVar("F", bound=Fact)
T = TypeVar("T")


class WorldLab:
    """What tests do to a world, and see of it. Its `hear` is a sink of that world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._changed = asyncio.Event()

    def hear(self, document: Document) -> None:
        self._changed.set()

    @property
    def service(self) -> Service:
        assert self.world.daemon is not None
        return self.world.daemon.service

    def set_fault(self, data: dict[str, Any]) -> None:
        """What the rack's control socket does."""
        self.world.faults.set(parse_fault(data))

    def kill_daemon(self) -> None:
        """The process alone: the kernel has what it wrote."""
        self.world.job_events.sync()
        self.world.kill(DAEMON)

    def cut_power(self) -> None:
        """Of the daemon's machine: what was not synced is gone."""
        self.world.job_events.crash()
        self.world.kill(DAEMON)

    async def in_daemon(self, work: Coroutine[Any, Any, T]) -> T:
        """As a call that comes in over HTTP: what it starts is the daemon's, and dies with it."""
        return await self.world.nodes.run_in_node(DAEMON, work)

    def emitted(self, fact: type[F], **fields: Any) -> list[F]:
        return of_type(self.world.documents, fact, **fields)

    async def until(self, fact: type[Fact], *, since: int | None = None, **fields: Any) -> None:
        """Until such a document comes, from now on, or behind the first `since`."""
        since = len(self.world.documents) if since is None else since
        async with asyncio.timeout(FOR_EVER_S):
            while not of_type(self.world.documents[since:], fact, **fields):
                self._changed.clear()
                await self._changed.wait()


class Lab(WorldLab):
    """And what an operator asks of its daemon."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.watchers: list[Callable[[Document], None]] = []

    @override
    def hear(self, document: Document) -> None:
        super().hear(document)
        for watcher in list(self.watchers):
            watcher(document)

    # --- what befalls it

    def faults(self, switch: str = "ocs1") -> Faults:
        return self.world.rack.switches[switch].faults

    async def next_life(self) -> None:
        """The daemon dies without a last word, and another starts and has settled."""
        self.world.kill(DAEMON)
        self.world.start_daemon()
        await self.world.settled()

    # --- what is seen of it

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def light(self, switch: str = "ocs1") -> list[str]:
        """The crossconnects that the mirrors really have."""
        mirror = self.world.rack.switches[switch].mirror
        return sorted(str(one.crossconnect) for one in mirror.readings(self.world.clock.monotonic_ns()))

    async def holds_nothing(self) -> bool:
        """No lease, no reconfiguration, no run."""
        status = await self.service.rack.status()
        return not (status.leases or status.reconfigurations or status.runs)

    def retained(self) -> dict[str, bytes]:
        """What the broker keeps of runs."""
        found = self.world.broker.retained(f"hwd/1/{self.world.testbed.name}/runs/+")
        return {topic.rpartition("/")[2]: payload for topic, payload in found}

    # --- what an operator asks

    async def start(self, *steps: str, parameters: str = "{}", due_in_s: float | None = None) -> str:
        """Start a run of steps, each in YAML's flow style; returns its id."""
        text = "\n".join(["playbook: test", f"parameters: {parameters}", "steps:", *(f"  - {step}" for step in steps)])
        due_ns = None if due_in_s is None else self.world.clock.wall_ns() + round(due_in_s * 1e9)
        starting = self.service.runs.start(RunBody(text=text, file="test.yaml", parameters={}, due_wall_ns=due_ns))
        return (await self.in_daemon(starting)).run

    async def record(self, run: str) -> Run:
        """Of a run, when it has ended."""
        await self.in_daemon(self.service.runs.wait(run))
        return await self.in_daemon(self.service.runs.run(run))

    async def do(self, *steps: str) -> Run:
        """Run steps to their end; returns the run as it is in the records."""
        return await self.record(await self.start(*steps))

    async def state(self, run: str) -> dict[str, Any]:
        """As it goes over HTTP."""
        state = await self.in_daemon(self.service.runs.state(run))
        return from_json(to_json(state), dict[str, Any])

    async def ended(self, run: str) -> dict[str, Any]:
        await self.in_daemon(self.service.runs.wait(run))
        return await self.state(run)

    async def abort(self, run: str) -> AbortedRun:
        """Abort and check that it took no longer than it may."""
        began_s = self.now_s()
        end = await self.service.runs.abort(run, ActBody(by="ada"))
        assert self.now_s() - began_s <= ABORT_WITHIN_S
        return end


def of_type(documents: Iterable[Document], fact: type[F], **fields: Any) -> list[F]:
    """The facts of this type that have these fields."""
    facts = [document.fact for document in documents if isinstance(document.fact, fact)]
    return [one for one in facts if all(getattr(one, name) == value for name, value in fields.items())]


OpenLab = Callable[..., AbstractAsyncContextManager[Lab]]


@asynccontextmanager
async def opened(folder: Path, text: str, **more: Any) -> AsyncIterator[Lab]:
    """A settled world of a testbed file, with its records in `folder`; `more`: of the constructor of World."""
    path = folder / "testbed.yaml"
    path.write_text(text)
    heard: list[Sink] = []

    def hear(document: Document) -> None:
        for sink in heard:
            sink(document)

    async with World(
        load(path).require(),
        text,
        seed=7,
        records_url=f"sqlite:///{folder / 'records.db'}",
        sinks=[hear],
        process=replace(SIMULATED, data_dir=str(folder)),
        light_every_s=SELDOM_S,
        **more,
    ) as world:
        lab = Lab(world)
        heard.append(lab.hear)
        await world.settled()
        yield lab


@pytest.fixture
def open_lab(tmp_path: Path, virtual_time: None) -> OpenLab:
    """Opens a lab of two hosts on one switch, or of a testbed file's `text`."""

    def open_lab(*, text: str = EXAMPLE.read_text()) -> AbstractAsyncContextManager[Lab]:
        return opened(tmp_path, text)

    return open_lab


@pytest.fixture
async def lab(open_lab: OpenLab) -> AsyncIterator[Lab]:
    async with open_lab() as lab:
        yield lab
