"""Two hosts on one switch, at need two more on another, with a daemon that runs playbooks, in virtual time."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hwd.daemon.installed_drivers import load
from hwd.model.recorded_run import Run
from hwd.sim.world import World
from hwd.web.service import Service
from hwd_drivers.core.documents import Document, Fact, Sink
from hwd_drivers.twins.server import Faults
from hwd_drivers.twins.virtual_time import run_virtual

STRAIGHT, CROSSED = "ocs1:1A-3B,3A-1B,2A-4B,4A-2B", "ocs1:1A-4B,4A-1B,2A-3B,3A-2B"
OTHER = "ocs2:1A-2B,2A-1B"
EXAMPLE = Path(__file__).parents[2] / "examples" / "two-hosts.yaml"
SECOND = """\
switches:
  ocs2: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: polatis-opus, seed: 8}}"""
SECOND_HOSTS = """\
hosts:
  h2: {twin: {seed: 3}, nics: {eth0: {ip: 10.1.2.1/32, module: 100g-lr4}}}
  h3: {twin: {seed: 4}, nics: {eth0: {ip: 10.1.3.1/32, module: 100g-lr4}}}"""
FOR_EVER_S = 60.0
"""Virtual: a document that did not come by then never comes."""
F = TypeVar("F", bound=Fact)


class Lab:
    """What a test does to the world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.watchers: list[Callable[[Document], None]] = []
        self._changed = asyncio.Event()

    def hear(self, document: Document) -> None:
        self._changed.set()
        for watcher in list(self.watchers):
            watcher(document)

    @property
    def service(self) -> Service:
        assert self.world.daemon is not None
        return self.world.daemon.service

    def faults(self, switch: str = "ocs1") -> Faults:
        return self.world.rack.switches[switch].faults

    def now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def light(self, switch: str = "ocs1") -> list[str]:
        """The crossconnects that the mirrors really have."""
        mirror = self.world.rack.switches[switch].mirror
        return sorted(str(one.crossconnect) for one in mirror.readings(self.world.clock.monotonic_ns()))

    async def start(self, *steps: str, parameters: str = "{}") -> str:
        """Start a run of steps, each in YAML's flow style; returns its id."""
        text = "\n".join(["playbook: test", f"parameters: {parameters}", "steps:", *(f"  - {step}" for step in steps)])
        return (await self.service.start_run(text=text, file="test.yaml", parameters={})).run

    async def do(self, *steps: str) -> Run:
        """Run steps to their end; returns the run as it is in the records."""
        run = await self.start(*steps)
        await self.service.wait_run(run)
        return await self.service.run(run)

    async def until(self, fact: type[Fact], **fields: Any) -> None:
        """Until such a document comes, from now on."""
        since = len(self.world.documents)
        async with asyncio.timeout(FOR_EVER_S):
            while not of_type(self.world.documents[since:], fact, **fields):
                self._changed.clear()
                await self._changed.wait()

    def emitted(self, fact: type[F], **fields: Any) -> list[F]:
        return of_type(self.world.documents, fact, **fields)


def of_type(documents: Iterable[Document], fact: type[F], **fields: Any) -> list[F]:
    """The facts of this type that have these fields."""
    facts = [document.fact for document in documents if isinstance(document.fact, fact)]
    return [one for one in facts if all(getattr(one, name) == value for name, value in fields.items())]


def ends(what: str) -> list[str]:
    """The crossconnects of a text, as `Lab.light` gives them."""
    return sorted(what.partition(":")[2].split(","))


RunLab = Callable[[Callable[[Lab], Coroutine[Any, Any, None]]], None]


def _runner(text: str, folder: Path) -> RunLab:
    path = folder / "testbed.yaml"
    path.write_text(text)
    testbed = load(path).require()

    async def main(test: Callable[[Lab], Coroutine[Any, Any, None]]) -> None:
        heard: list[Sink] = []

        def hear(document: Document) -> None:
            for sink in heard:
                sink(document)

        records_url = f"sqlite:///{folder / 'records.db'}"
        async with World(testbed, text, seed=7, records_url=records_url, sinks=[hear], light_every_s=0.05) as world:
            lab = Lab(world)
            heard.append(lab.hear)
            await world.settled()
            await test(lab)

    def run(test: Callable[[Lab], Coroutine[Any, Any, None]]) -> None:
        run_virtual(main(test), seed=7)

    return run


@pytest.fixture
def run_lab(tmp_path: Path) -> RunLab:
    """Runs a coroutine function in a settled world of two hosts on one switch."""
    return _runner(EXAMPLE.read_text(), tmp_path)


@pytest.fixture
def run_wide_lab(tmp_path: Path) -> RunLab:
    """The same, with two more hosts on a switch of their own."""
    text = EXAMPLE.read_text().replace("switches:", SECOND).replace("hosts:\n", SECOND_HOSTS + "\n", 1)
    return _runner(text + "  - h2.eth0 <-> ocs2.1\n  - h3.eth0 <-> ocs2.2\n", tmp_path)
