"""Whole worlds in virtual time: a part dies or is cut off at every point of a run; what must hold after its return."""

import asyncio
import functools
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hwd.config.testbed.testbed import load_testbed
from hwd.model.fault import parse_fault
from hwd.model.reconfiguration import ReconfigurationCommanded, ReconfigurationState
from hwd.model.recorded_run import RunOutcome
from hwd.model.testbed import Testbed
from hwd.records.records import Records
from hwd.report.run_report import of_documents
from hwd.sim.world import DAEMON, World, agent_node
from hwd_drivers.core.documents import Fact
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.devices import registry
from hwd_drivers.twins.nodes import NodeKilled
from hwd_drivers.twins.virtual_time import VirtualLoop, run_virtual

from ..virtual_time import SELDOM_S
from .conftest import CROSSED, STRAIGHT, TESTBED

POINTS = 30
"""At which the daemon dies, evenly over the callbacks of a run."""
MOMENTS = 12
"""At which something else happens, evenly over the time of a run."""
QUICK = 4
"""So many points are tested always, those between only with the slow tests."""
AWAY_S = 2.0
RESTED_S = 15.0
"""After this in virtual time all that was spooled has come, and all roll-backs are done."""


def playbook(crossconnects: frozenset[str]) -> str:
    pairs = ",".join(sorted(crossconnects))
    return f"""
playbook: once
shows: one apply
steps:
  - lease: {{ports: all, for_s: 300}}
  - apply: {{pairs: "ocs1:{pairs}"}}
  - wait: {{for: ready, within_s: 20}}
"""


class Scene:
    """A world whose links are straight, and in which a run is to cross them."""

    def __init__(self, world: World, records_url: str) -> None:
        self.world = world
        self._records_url = records_url

    async def cross(self) -> str:
        return await self.world.run_playbook(playbook(CROSSED), file="playbook.yaml")

    def light(self) -> frozenset[str]:
        readings = self.world.rack.switches["ocs1"].mirror.readings(self.world.clock.monotonic_ns())
        ends = [str(end) for one in readings for end in one.crossconnect.ends]
        assert len(ends) == len(set(ends)), f"an end is in two crossconnects: {ends}"
        return frozenset(str(one.crossconnect) for one in readings)

    async def told(self, what: Callable[[Fact], bool], *, after: int) -> None:
        """Wait until the daemon has told of this, behind so many documents."""
        while not any(what(one.fact) for one in self.world.documents[after:]):  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.001)

    async def rest(self) -> None:
        await self.world.settled()
        await asyncio.sleep(RESTED_S)
        await self.world.settled()

    async def outcomes(self) -> list[RunOutcome | None]:
        """Of the runs, oldest first."""
        return [run.outcome for run in reversed(await self.ask(lambda records: records.runs.newest()))]

    async def recorded(self, *kinds: str) -> list[dict[str, Any]]:
        stored = await self.ask(lambda records: records.documents(kinds=kinds))
        return [one.document.fact.to_data() for one in stored]

    async def check(self) -> None:
        """In any case the light is one of the two, and as documented; nothing is open; no event is lost."""
        light = self.light()
        assert light in (STRAIGHT, CROSSED), light
        *_, read = await self.recorded("switch.read")
        assert frozenset(one["id"] for one in read["crossconnects"]) == light
        ended = await self.recorded("reconfiguration.ended", "daemon.recovered")
        if ended[-1]["outcome"] == "rolled-back":
            assert light == STRAIGHT
        await self._check_events()
        assert self.world.daemon is not None
        service = self.world.daemon.service
        now = await service.rack.status()
        assert (now.runs, now.reconfigurations, now.leases) == ([], [], [])
        run = await self.world.run_playbook(
            playbook(CROSSED), file="playbook.yaml"
        )  # refused where the journal is open
        assert (await self.outcomes())[-1] is RunOutcome.SUCCEEDED, await self.ask(
            lambda records: records.runs.get(run)
        )
        assert self.light() == CROSSED

    async def _check_events(self) -> None:
        numbers: dict[tuple[str, str], list[int]] = {}
        changes: dict[str, int] = {}
        carrier: dict[str, bool] = {}
        counted: dict[str, int] = {}
        events = await self.recorded("host.event")
        for event in sorted(events, key=lambda one: one["agent_ns"]):  # those of a dead agent may come behind
            numbers.setdefault((event["host"], event["boot"]), []).append(event["seq"])
            if event["type"] == "carrier":
                port, now = f"{event['host']}.{event['port']}", event["data"]["carrier"]
                changes[port] = changes.get(port, 0) + event["data"]["unseen"] + (now != carrier.get(port, False))
                carrier[port], counted[port] = now, event["data"]["carrier_changes"]
        for boot, seqs in numbers.items():
            assert sorted(seqs) == list(range(1, len(seqs) + 1)), f"events of {boot}: {seqs}"
        assert changes == counted
        assert len(changes) == 4

    async def ask(self, question: Callable[[Records], Awaitable[Any]]) -> Any:
        records = Records(self._records_url, InlineOffload())
        await records.open()
        try:
            return await question(records)
        finally:
            records.close()


def loaded(folder: Path) -> tuple[Testbed, str, str]:
    """The testbed with its text, and where to record."""
    file = folder / "testbed.yaml"
    text = TESTBED.format(nic="opus-cx6dx", switch="polatis-opus").replace("kernel: true", "kernel: false")
    file.write_text(text)
    testbed = load_testbed(file, {name: registry.find(name) for name in registry.names()}).require()
    return testbed, text, f"sqlite:///{folder / 'records.db'}"


@asynccontextmanager
async def playing(folder: Path) -> AsyncIterator[Scene]:
    """A scene, from the same seed."""
    testbed, text, records_url = loaded(folder)
    async with World(testbed, text, seed=7, records_url=records_url, light_every_s=SELDOM_S) as world:
        await world.run_playbook(playbook(STRAIGHT), file="playbook.yaml")
        scene = Scene(world, records_url)
        assert scene.light() == STRAIGHT
        yield scene


@pytest.fixture
async def scene(virtual_loop: VirtualLoop, tmp_path: Path) -> AsyncIterator[Scene]:
    async with playing(tmp_path) as scene:
        yield scene


@pytest.fixture(scope="module")
def span(tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """How many callbacks of each node, and how many seconds, a run takes that nothing befalls."""

    async def measure() -> dict[str, float]:
        found: dict[str, float] = {}
        async with playing(tmp_path_factory.mktemp("span")) as scene:
            nodes = (DAEMON, agent_node("h0"))
            since_s, before = asyncio.get_running_loop().time(), [scene.world.nodes.callbacks(node) for node in nodes]
            await scene.cross()
            found["seconds"] = asyncio.get_running_loop().time() - since_s
            for node, count in zip(nodes, before, strict=True):
                found[node] = scene.world.nodes.callbacks(node) - count
            assert await scene.outcomes() == [RunOutcome.SUCCEEDED, RunOutcome.SUCCEEDED]
            await scene.rest()
            await scene.check()
        return found

    return run_virtual(measure(), seed=7)


def points(count: int) -> Sequence[Any]:
    """Fractions of a run."""
    every = max(2, count // QUICK)
    return [
        pytest.param((point + 0.5) / count, marks=[] if point % every == every // 2 else pytest.mark.slow)
        for point in range(count)
    ]


@pytest.mark.parametrize("fraction", points(POINTS))
async def test_daemon_that_dies_at_any_point_finishes_or_undoes(
    scene: Scene, span: dict[str, float], fraction: float
) -> None:
    nodes = scene.world.nodes
    nodes.kill_at(DAEMON, nodes.callbacks(DAEMON) + 1 + round(span[DAEMON] * fraction))
    with pytest.raises(NodeKilled):
        await scene.cross()
    scene.world.kill(DAEMON)
    await asyncio.sleep(AWAY_S)
    scene.world.start_daemon()
    await scene.rest()
    first, *others = await scene.outcomes()
    assert first is RunOutcome.SUCCEEDED
    assert others in ([], [RunOutcome.CRASHED], [RunOutcome.SUCCEEDED])
    if others == [RunOutcome.SUCCEEDED]:
        assert scene.light() == CROSSED
    await scene.check()


@pytest.mark.parametrize("fraction", points(MOMENTS))
async def test_agent_that_dies_at_any_point_is_replaced_in_the_run(
    scene: Scene, span: dict[str, float], fraction: float
) -> None:
    node = agent_node("h0")
    nodes = scene.world.nodes
    nodes.kill_at(node, nodes.callbacks(node) + 1 + round(span[node] * fraction))

    async def replace() -> None:
        while nodes.alive(node):  # noqa: ASYNC110 - virtual time, and the dead tell nothing
            await asyncio.sleep(0.001)
        scene.world.kill(node)
        await asyncio.sleep(1.0)
        scene.world.start_agent("h0")

    replacing = asyncio.create_task(replace())
    await scene.cross()
    await replacing
    assert (await scene.outcomes())[-1] is RunOutcome.SUCCEEDED
    assert scene.light() == CROSSED
    *_, timeline = await scene.recorded("timeline")
    told = {stage["knowledge"] for link in timeline["links"] for stage in link["stages"]}
    assert told <= {"seen", "unknown"}  # never that a link that moved was never dark
    await scene.rest()
    await scene.check()


async def stop_broker(scene: Scene) -> None:
    scene.world.broker.stop()
    await asyncio.sleep(AWAY_S)
    scene.world.broker.start()


async def cut_client(scene: Scene, *, client: str) -> None:
    assert client in scene.world.broker.clients()
    scene.world.broker.cut(client)


@pytest.mark.parametrize("fraction", points(MOMENTS))
@pytest.mark.parametrize(
    "befall",
    [
        pytest.param(stop_broker, id="broker"),
        pytest.param(functools.partial(cut_client, client=DAEMON), id="daemon-of-broker"),
        pytest.param(functools.partial(cut_client, client=agent_node("h1")), id="agent-of-broker"),
    ],
)
async def test_broker_that_is_lost_at_any_moment_loses_no_event_and_no_run(
    scene: Scene, span: dict[str, float], befall: Callable[[Scene], Awaitable[None]], fraction: float
) -> None:
    async def later() -> None:
        await asyncio.sleep(span["seconds"] * fraction)
        await befall(scene)

    befalling = asyncio.create_task(later())
    await scene.cross()
    await befalling
    assert (await scene.outcomes())[-1] is RunOutcome.SUCCEEDED, await scene.recorded("run.ended")
    await scene.rest()
    await scene.check()


@pytest.mark.parametrize("fraction", points(MOMENTS))
async def test_switch_that_is_cut_in_a_command_is_where_the_outcome_says(scene: Scene, fraction: float) -> None:
    """The twin answers after 0.2 s; the fraction is of 0.3 s from the first byte's way on."""

    async def later() -> None:
        await scene.told(lambda fact: isinstance(fact, ReconfigurationState) and fact.state == "driving", after=told)
        await asyncio.sleep(0.3 * fraction)
        scene.world.rack.switches["ocs1"].faults.reset()

    told = len(scene.world.documents)
    befalling = asyncio.create_task(later())
    await scene.cross()
    await befalling
    outcome = (await scene.outcomes())[-1]
    ended = (await scene.recorded("run.ended"))[-1]
    if outcome is RunOutcome.FAILED:
        assert ended["exit_status"] == 4, json.dumps(ended)
    await scene.rest()
    assert scene.light() == (CROSSED if outcome is RunOutcome.SUCCEEDED else STRAIGHT)
    await scene.check()


@pytest.mark.parametrize(
    ("by_s", "after_s"),
    [
        (-3.05, 2.7),
        *(pytest.param(by_s, 2.7, marks=pytest.mark.slow) for by_s in (3600.0, -3600.0, 0.2)),
        pytest.param(3600.0, 0.05, marks=pytest.mark.slow),
    ],
)
async def test_clock_that_is_set_in_a_reconfiguration_is_a_breach_of_it_and_stands_in_the_report(
    scene: Scene, by_s: float, after_s: float
) -> None:
    """Back by 3.05 s between light and firmware is 0.4 s before firmware, and long before the next clock request: the
    last answer of the agent tells of it.
    """
    told = len(scene.world.documents)
    crossing = asyncio.create_task(scene.cross())
    await scene.told(lambda fact: isinstance(fact, ReconfigurationCommanded), after=told)
    await asyncio.sleep(after_s)
    await scene.world.set_fault(parse_fault({"host": "h0", "fault": "clock-step", "seconds": by_s}))
    run = await crossing
    stored = await scene.ask(lambda records: records.documents(run=run))
    report = of_documents(await scene.ask(lambda records: records.runs.get(run)), [one.document for one in stored])
    (step,) = report.clock_steps
    found = re.fullmatch(
        r"h0: its clock was stepped by ([-+][0-9.]+) s \+- (\d+) us, found [0-9.]+ s into the run", step
    )
    assert found is not None, step
    assert abs(float(found[1]) - by_s) <= int(found[2]) / 1e6 + 1e-6
    (timeline,) = report.timelines
    assert len([one for one in timeline.breaches if one.startswith("h0: its clock was stepped by")]) == 1
    if by_s == -3.05:
        assert any("light at" in breach and "should not be after firmware" in breach for breach in timeline.breaches)
        (firmware,) = (one for end in timeline.ends if str(end.end) == "h0.eth0" for one in end.instants[2:3])
        assert firmware.error_ns < 2_000_000, "nothing is widened to hide it"
