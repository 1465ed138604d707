"""Two hosts on one switch and two on another, with a daemon that queues runs, in virtual time."""

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from hwd.daemon.installed_drivers import load
from hwd.sim.world import DAEMON, World
from hwd.web.service import Service
from hwd_drivers.core.documents import Fact
from hwd_drivers.twins.virtual_time import run_virtual

from ..conftest import of_type

TESTBED = """\
testbed: two
host_actions: [mtu, autoneg]
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: polatis-opus, seed: 7}}
  ocs2: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: polatis-opus, seed: 8}}
hosts:
  h0: {twin: {timing: ideal, seed: 1}, nics: {eth0: {ip: 10.1.0.1/32, module: 100g-lr4}}}
  h1: {twin: {timing: ideal, seed: 2}, nics: {eth0: {ip: 10.1.1.1/32, module: 100g-lr4}}}
  h2: {twin: {timing: ideal, seed: 3}, nics: {eth0: {ip: 10.1.2.1/32, module: 100g-lr4}}}
  h3: {twin: {timing: ideal, seed: 4}, nics: {eth0: {ip: 10.1.3.1/32, module: 100g-lr4}}}
fibres:
  - h0.eth0 <-> ocs1.1
  - h1.eth0 <-> ocs1.3
  - h2.eth0 <-> ocs2.1
  - h3.eth0 <-> ocs2.3
"""
FIRST, SECOND = "'ocs1:1A-3B,3A-1B'", "'ocs2:1A-3B,3A-1B'"
F = TypeVar("F", bound=Fact)


class Lab:
    """The world, and what an operator asks of its daemon."""

    def __init__(self, world: World) -> None:
        self.world = world

    @property
    def service(self) -> Service:
        assert self.world.daemon is not None
        return self.world.daemon.service

    async def in_daemon(self, work: Coroutine[Any, Any, Any]) -> Any:
        """As a call that comes in over HTTP: what it starts is the daemon's."""
        return await self.world.nodes.run_in_node(DAEMON, work)

    async def start(self, *steps: str, due_in_s: float | None = None) -> str:
        text = "\n".join(["playbook: test", "steps:", *(f"  - {step}" for step in steps)])
        due_ns = None if due_in_s is None else self.world.clock.wall_ns() + round(due_in_s * 1e9)
        starting = self.service.start_run(text=text, file="test.yaml", parameters={}, due_wall_ns=due_ns)
        return str((await self.in_daemon(starting)).run)

    async def state(self, run: str) -> dict[str, Any]:
        """As it goes over HTTP."""
        state: dict[str, Any] = msgspec.json.decode(
            msgspec.json.encode(await self.in_daemon(self.service.run_state(run)))
        )
        return state

    async def ended(self, run: str) -> dict[str, Any]:
        await self.in_daemon(self.service.wait_run(run))
        return await self.state(run)

    def emitted(self, fact: type[F], **fields: Any) -> list[F]:
        return of_type(self.world.documents, fact, **fields)

    async def next_life(self) -> None:
        """The daemon dies without a last word, and another starts."""
        self.world.kill(DAEMON)
        self.world.start_daemon()

    def retained(self) -> dict[str, bytes]:
        """What the broker keeps of runs."""
        found = self.world.broker.retained(f"hwd/1/{self.world.testbed.name}/runs/+")
        return {topic.rpartition("/")[2]: payload for topic, payload in found}


Test = Callable[[Lab], Coroutine[Any, Any, None]]
InLab = Callable[[Test], None]


@pytest.fixture
def in_lab(tmp_path: Path) -> InLab:
    path = tmp_path / "two.yaml"
    path.write_text(TESTBED)
    testbed = load(path).require()

    async def main(test: Test) -> None:
        records_url = f"sqlite:///{tmp_path / 'records.db'}"
        async with World(testbed, TESTBED, seed=7, records_url=records_url, light_every_s=0.05) as world:
            await world.settled()
            await test(Lab(world))

    return lambda test: run_virtual(main(test), seed=7)
