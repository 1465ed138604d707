"""A small world: one twin switch, two twin hosts with two ports each, and the daemon."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typing_extensions import override

from hwd.config.testbed.wanted_state import parse_what
from hwd.model.bodies import LeaseBody, PrepareBody, ReconfigurationBody, RunBody, SwitchBody
from hwd.model.daemon import DaemonRecovered
from hwd.model.desired_state import wanted_of
from hwd.model.plan import Plan
from hwd.model.plan_summary import PlanSummary
from hwd.model.prepared_set import PreparedSetStatus
from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationState, ReconfigurationStatus
from hwd.model.request import Caller, Request
from hwd.reconfigure.apply.reconfiguration import Reconfiguration
from hwd.reconfigure.journal.entries import OpenEntry
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd.sim.world import DAEMON, World, agent_node
from hwd_drivers.core.documents import Document
from hwd_drivers.core.structs import from_plain
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.devices.facts import SwitchRead
from hwd_drivers.switching.moves import ApplyMode, SwitchMoves
from hwd_drivers.twins.faults import Faults
from hwd_drivers.twins.virtual_time import VirtualLoop

from ..sim.lab import WorldLab, opened

EXAMPLE = (Path(__file__).parents[2] / "examples" / "two-hosts.yaml").read_text()
SEED = 7
STRAIGHT, CROSSED = "ocs1:1A-3B,3A-1B,2A-4B,4A-2B", "ocs1:1A-4B,4A-1B,2A-3B,3A-2B"
"""Both ways to join its four ports in two links between the hosts."""
TARGETS = {"straight": {"what": STRAIGHT}, "crossed": {"what": CROSSED}}


def pytest_asyncio_loop_factories() -> Mapping[str, type[VirtualLoop]]:
    return {"virtual": VirtualLoop}


def of_testbed(text: str) -> pytest.MarkDecorator:
    """The lab of this test, or of all tests of a file, has this testbed file."""
    return pytest.mark.parametrize("testbed_text", [text], ids=[pytest.HIDDEN_PARAM])


def wanted(what: str) -> set[str]:
    """The crossconnects of `ocs1:1A-3B,3A-1B`."""
    return set(filter(None, what.removeprefix("ocs1:").split(",")))


def plan_of(*moves: SwitchMoves, what: str = "ring") -> Plan:
    """A plan of these moves alone."""
    return Plan(
        what=what,
        mode=ApplyMode.UPDATE,
        moves=moves,
        links=(),
        dark=(),
        touches=frozenset(),
        expected_s=0.0,
        expected_from="nothing",
        warnings=(),
        lease=None,
        ready_within_s=None,
        confirm_within_s=None,
    )


def entry_of(plan: Plan, id: str, *, run: str | None = None, **more: Any) -> OpenEntry:
    """What the journal holds of a plan that has begun."""
    wanted = tuple(more.pop("wanted", None) or wanted_of(plan.moves))
    return OpenEntry(
        reconfiguration=id, run=run, what=plan.what, hash=plan.hash, moves=plan.moves, wanted=wanted, **more
    )


class Lab(WorldLab):
    """And what users do."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.meanwhile: Callable[[], None] | None = None
        """What somebody does, once, between the reading of the switches and their driving."""

    @override
    def hear(self, document: Document) -> None:
        super().hear(document)
        match document.fact:
            case ReconfigurationState(state="driving") if self.meanwhile is not None:
                self.meanwhile()
                self.meanwhile = None

    @property
    def reconfigurer(self) -> Reconfigurer:
        assert self.world.daemon is not None
        return self.world.daemon.reconfigurer

    # --- what users do

    def request(self, what: str, **more: Any) -> ReconfigurationBody:
        """What the API decodes of such a body."""
        return from_plain({"what": what, **more}, ReconfigurationBody)

    async def apply(self, what: str, caller: Caller | None = None, **more: Any) -> ReconfigurationStatus:
        return await self.in_daemon(self.service.light.apply(self.request(what, **more), caller))

    async def plan(self, what: str, **more: Any) -> PlanSummary:
        return await self.service.light.plan(self.request(what, **more))

    async def begin(self, what: str, *, run: str | None = None, **more: Any) -> Reconfiguration:
        """Drive the switches, and leave the rest of the way to the test."""
        request = Request(wanted=parse_what(what, self.world.testbed), body=self.request(what, **more))
        return await self.in_daemon(self.reconfigurer.begin(request, run=run))

    async def start_run(self, *steps: str) -> str:
        text = "\n  - ".join(["playbook: one\nshows: what is tested\nsteps:", *steps])
        return (await self.service.runs.start(RunBody(text=f"{text}\n", file="one.yaml", parameters={}))).run

    async def lease(self, *ports: str, holder: str = "ada", for_s: float = 600.0, **more: Any) -> str:
        """Take a lease of these ports; returns its id."""
        return (
            await self.in_daemon(
                self.service.leases.take(LeaseBody(holder=holder, ports=[*ports], for_s=for_s, **more))
            )
        ).lease

    async def prepare(self, targets: Mapping[str, Any] = TARGETS, **more: Any) -> PreparedSetStatus:
        """A prepared set, under a new lease of all ports where none is named."""
        caller = more.pop("caller", None)
        body = {"lease": more.pop("lease", None) or await self.lease("all", for_s=3600.0), **more, "targets": targets}
        return await self.in_daemon(self.service.sets.prepare(from_plain(body, PrepareBody), caller))

    async def switch(self, prepared: PreparedSetStatus, target: str, **more: Any) -> ReconfigurationStatus:
        return await self.in_daemon(self.service.sets.switch(prepared.id, SwitchBody(target=target, **more)))

    # --- what happens to it

    @property
    def faults(self) -> Faults:
        return self.world.rack.switches["ocs1"].faults

    def cut_switch(self) -> None:
        """Its connections are reset, and it takes none until `faults.refusing` is false, or faults are cleared."""
        for fault in ("refuse", "reset"):
            self.set_fault({"switch": "ocs1", "fault": fault})

    async def panel(self, **change: list[str]) -> None:
        """Somebody changes crossconnects at the front panel, and the daemon sees it."""
        self.set_fault({"switch": "ocs1", "fault": "panel", **change})
        await self.until(SwitchRead, ours=False)

    def carry(self, what: str) -> None:
        """As `connect`, and nothing else is there then."""
        mirror = self.world.rack.switches["ocs1"].mirror
        mirror.change(mirror.crossconnects(), [*map(Crossconnect.parse, wanted(what))], self.world.clock.monotonic_ns())

    def connect(self, what: str) -> None:
        """The mirrors move, by no command of the daemon, which may be away."""
        pairs = [*map(Crossconnect.parse, wanted(what))]
        self.world.rack.switches["ocs1"].mirror.connect(pairs, self.world.clock.monotonic_ns(), move=True)

    async def die(self, *asked: asyncio.Future[Any]) -> None:
        """Kill the daemon, and whatever was asked of it."""
        self.world.kill(DAEMON)
        await asyncio.gather(*asked, return_exceptions=True)

    async def start(self) -> None:
        """Start the daemon that was stopped or killed."""
        self.world.start_daemon()
        await self.world.settled()

    async def restart(self, *, after_s: float = 5.0) -> None:
        """Kill the daemon, or bury what is left of one that was killed, and start it `after_s` later."""
        self.world.kill(DAEMON)
        await asyncio.sleep(after_s)
        await self.start()

    def without_agents(self) -> None:
        """They have no part in what comes, and would sample all the while."""
        for host in ("h0", "h1"):
            self.world.kill(agent_node(host))

    # --- what is seen of it

    def light(self) -> set[str]:
        """The crossconnects that the mirrors of ocs1 really have."""
        return {*self.mirrors()["ocs1"]}

    def mirrors(self) -> dict[str, list[str]]:
        """Those of all switches."""
        now_ns = self.world.clock.monotonic_ns()
        twins = self.world.rack.switches.items()
        return {name: [str(one.crossconnect) for one in twin.mirror.readings(now_ns)] for name, twin in twins}

    async def one_under_way(self) -> ReconfigurationStatus:
        (one,) = (await self.service.rack.status()).reconfigurations
        return one

    def the_set(self) -> PreparedSetStatus:
        (one,) = self.service.sets.sets()
        return one

    def ends(self, id: str) -> list[tuple[str, str]]:
        """The outcomes that documents say of a reconfiguration, with the reason."""
        facts = [document.fact for document in self.world.documents]
        return [
            (str(fact.outcome), fact.why)
            for fact in facts
            if isinstance(fact, ReconfigurationEnded | DaemonRecovered) and fact.reconfiguration == id
        ]

    def metrics(self, name: str) -> dict[tuple[str, ...], float]:
        """Values of a metric by those of its labels."""
        assert self.world.daemon is not None
        text = bytes(self.world.daemon.metrics.render()).decode()
        families = text_string_to_metric_families(text)
        return {
            tuple(sample.labels.values()): sample.value
            for family in families
            for sample in family.samples
            if sample.name == name
        }


@pytest.fixture
def testbed_text() -> str:
    return EXAMPLE


@pytest.fixture
async def lab(tmp_path: Path, testbed_text: str) -> AsyncIterator[Lab]:
    """A settled world, in virtual time."""
    before = random.getstate()
    random.seed(SEED)  # noqa: TID251 - libraries do not use Draws
    async with opened(tmp_path, testbed_text) as bare:
        lab = Lab(bare.world)
        bare.watchers.append(lab.hear)
        yield lab
    random.setstate(before)
