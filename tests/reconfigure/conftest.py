"""A small world: one twin switch, two twin hosts with two ports each, and the daemon."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from hwd.config.testbed.wanted_state import parse_what
from hwd.daemon.installed_drivers import load
from hwd.model.bodies import ReconfigurationBody
from hwd.model.fault import parse_fault
from hwd.model.request import Request
from hwd.reconfigure.apply.reconfiguration import Reconfiguration
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd.sim.world import World
from hwd.web.service import Service
from hwd_drivers.core.documents import Fact
from hwd_drivers.twins.virtual_time import run_virtual

F = TypeVar("F", bound=Fact)

EXAMPLE = Path(__file__).parents[2] / "examples" / "two-hosts.yaml"
SELDOM_S = 0.05
"""Between two looks at light. These tests do not measure when it comes, and looks would take half of their time."""
STRAIGHT, CROSSED = "ocs1:1A-3B,3A-1B,2A-4B,4A-2B", "ocs1:1A-4B,4A-1B,2A-3B,3A-2B"
"""Both ways to join its four ports in two links between the hosts."""


class Lab:
    """What a test does to the world."""

    def __init__(self, world: World, changed: asyncio.Event) -> None:
        self.world = world
        self._changed = changed

    @property
    def service(self) -> Service:
        assert self.world.daemon is not None
        return self.world.daemon.service

    @property
    def reconfigurer(self) -> Reconfigurer:
        assert self.world.daemon is not None
        return self.world.daemon.reconfigurer

    def request(self, what: str, **more: Any) -> ReconfigurationBody:
        """What the API decodes of such a body."""
        return msgspec.convert({"what": what, **more}, ReconfigurationBody)

    async def begin(self, what: str, *, run: str | None = None, **more: Any) -> Reconfiguration:
        """Drive the switches, and leave the rest of the way to the test."""
        wanted = parse_what(what, self.world.testbed)
        return await self.reconfigurer.begin(Request(wanted=wanted, body=self.request(what, **more)), run=run)

    def set_fault(self, data: dict[str, Any]) -> None:
        """What the rack's control socket does."""
        self.world.faults.set(parse_fault(data))

    def light(self) -> str:
        """The crossconnects that the mirrors really have."""
        mirror = self.world.rack.switches["ocs1"].mirror
        return "ocs1:" + ",".join(str(one.crossconnect) for one in mirror.readings(self.world.clock.monotonic_ns()))

    async def until(self, fact: type[Fact], **fields: Any) -> None:
        """Until such a document comes, from now on."""
        since = len(self.world.documents)
        while not any(
            isinstance(document.fact, fact)
            and all(getattr(document.fact, name) == value for name, value in fields.items())
            for document in self.world.documents[since:]
        ):
            self._changed.clear()
            await self._changed.wait()

    def emitted(self, fact: type[F]) -> list[F]:
        return [document.fact for document in self.world.documents if isinstance(document.fact, fact)]


Test = Callable[[Lab], Coroutine[Any, Any, None]]
RunLab = Callable[..., None]


@pytest.fixture
def run_lab(tmp_path: Path) -> RunLab:
    """Runs a coroutine function in a settled world, in virtual time; `text`: of another testbed file."""

    async def main(test: Test, text: str) -> None:
        changed = asyncio.Event()
        records_url = f"sqlite:///{tmp_path / 'records.db'}"
        path = tmp_path / "testbed.yaml"
        path.write_text(text)
        testbed = load(path).require()
        async with World(
            testbed,
            text,
            seed=7,
            records_url=records_url,
            sinks=[lambda document: changed.set()],
            light_every_s=SELDOM_S,
        ) as world:
            await world.settled()
            await test(Lab(world, changed))

    def run(test: Test, *, text: str = EXAMPLE.read_text()) -> None:
        run_virtual(main(test, text), seed=7)

    return run
