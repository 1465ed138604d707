"""Jobs in a small world, in virtual time: their ranks ask, their plane answers, and the light goes where it says."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec import UNSET

from hwd.config import planes
from hwd.daemon.installed_drivers import load
from hwd.jobs import job_run
from hwd.jobs.job_failures import AWAY_S
from hwd.model.answers import JobStatus
from hwd.model.bodies import ByBody, JobBody
from hwd.model.documents.jobs import JobSwitched
from hwd.model.documents.reconfigurations import ReconfigurationEnded, ReconfigurationStarted
from hwd.model.fault import parse_fault
from hwd.model.plane import (
    Action,
    Applied,
    Event,
    Failure,
    Grant,
    Intent,
    Job,
    NotReady,
    Plane,
    PlaneKind,
    Prepare,
    Refuse,
    Route,
    StaticRoute,
    Switch,
    Target,
    Tick,
    View,
)
from hwd.planes import Gathering
from hwd.sim.job_rank import JobRank
from hwd.sim.world import DAEMON, World, agent_node
from hwd.web.service import Service
from hwd_drivers.core.documents import Fact
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.twins.virtual_time import run_virtual

F = TypeVar("F", bound=Fact)
EXAMPLE = Path(__file__).parents[2] / "examples" / "two-hosts.yaml"
STATIC = "plane: static topology=ring"


class Lab:
    """What a test does to the world."""

    def __init__(self, world: World) -> None:
        self.world = world

    @property
    def service(self) -> Service:
        assert self.world.daemon is not None
        return self.world.daemon.service

    def emitted(self, fact: type[F]) -> list[F]:
        return [document.fact for document in self.world.documents if isinstance(document.fact, fact)]

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

    def light(self) -> str:
        mirror = self.world.rack.switches["ocs1"].mirror
        return ",".join(str(one.crossconnect) for one in mirror.readings(self.world.clock.monotonic_ns()))


async def trains(world: World, host: str, environment: Mapping[str, str], *, steps: int, within_s: float) -> int:
    """A rank that makes so many collectives with all others; the one of h1 comes late to each."""
    rank = JobRank(world, host, environment)
    await rank.join()
    try:
        for _ in range(steps):
            await asyncio.sleep(0.3 if host == "h1" else 0)
            await rank.collective("world", "all-reduce", seconds=0.2, within_s=within_s)
    except RefusedError:
        return 1
    return 0


class Routes:
    """Before it lets anybody go for the second time it sets a route of h0."""

    def targets(self, job: Job, view: View) -> dict[str, Target]:
        self.heard: list[Event] = []
        self._gathering, self._ports = Gathering(job.groups), {str(one): one for one in view.ports}
        return {"ring": Target(links=view.topology("ring"))}

    def on(self, event: Event) -> Iterator[Action]:
        self.heard.append(event)
        if isinstance(event, Intent) and self._gathering.come(event):
            if event.operation.index == 0:
                yield Switch(target="ring")
                return
            to, port = self._ports["h1.eth0"], self._ports["h0.eth0"]
            yield Route(routes=(StaticRoute(host="h0", to=to, port=port),))
            yield Grant(ranks=(0, 1))
        if isinstance(event, Applied):
            yield Grant(ranks=(0, 1))


class Alternates:
    """Goes from one target to the other for each operation."""

    def targets(self, job: Job, view: View) -> dict[str, Target]:
        self._gathering = Gathering(job.groups)
        return dict.fromkeys("ab", Target(links=view.topology("ring")))

    def on(self, event: Event) -> Iterator[Action]:
        if isinstance(event, Intent) and self._gathering.come(event):
            yield Switch(target="ab"[event.operation.index % 2])
        if isinstance(event, Applied):
            yield Grant(ranks=(0, 1))


Test = Callable[[Lab], Coroutine[Any, Any, None]]
RunLab = Callable[..., None]


@pytest.fixture
def run_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunLab:
    """Runs a coroutine function in a settled world whose testbed file allows the job `go`, of a rank a host.

    `entry`: more keys of that job; `plane`: the plane `own`; `steps`: operations of each rank, each of `within_s` at
    most; `actions`: more of its host_actions.
    """
    find = planes.find

    async def main(test: Test, entry: str, steps: int, within_s: float, actions: str) -> None:
        text = EXAMPLE.read_text().replace("host_actions: [", f"host_actions: [{actions}")
        text = text.replace("timing: polatis-opus", "timing: ideal").replace("timing: opus-cx6dx", "timing: ideal")
        text += f"\njobs:\n  go: {{command: [/bin/train], user: lab, hosts: [h0, h1], {entry}}}\n"
        path = tmp_path / "testbed.yaml"
        path.write_text(text)
        testbed = load(path).require()

        async def train(host: str, command: Sequence[str], environment: Mapping[str, str]) -> int:
            return await trains(world, host, environment, steps=steps, within_s=within_s)

        programs = {"/bin/train": train}
        records_url = f"sqlite:///{tmp_path / 'records.db'}"
        world = World(
            testbed,
            text,
            seed=7,
            records_url=records_url,
            programs=programs,
            data_dir=str(tmp_path),
            light_every_s=0.05,
        )
        async with world:
            await world.settled()
            await test(Lab(world))

    def run(
        test: Test,
        *,
        entry: str = STATIC,
        plane: Plane | None = None,
        steps: int = 3,
        within_s: float = 60.0,
        actions: str = "route, ",
    ) -> None:
        own = None if plane is None else PlaneKind(make=lambda arguments: plane)
        for module in (planes, job_run):
            monkeypatch.setattr(module, "find", lambda name: find(name) if own is None else own)
        run_virtual(main(test, entry, steps, within_s, actions), seed=7)

    return run


async def start(lab: Lab) -> str:
    """In the daemon's process: what it starts dies with that."""
    return (await lab.world.nodes.run_in_node(DAEMON, lab.service.start_job(JobBody(name="go"), None))).id


async def when(lab: Lab, job: str, is_so: Callable[[JobStatus], object]) -> JobStatus:
    while True:
        if is_so(status := await lab.service.job(job)):
            return status
        await asyncio.sleep(0.1)


async def ended(lab: Lab, job: str) -> JobStatus:
    return await when(lab, job, lambda status: status.ended)


def test_job_ends_over_the_light_of_its_plane_and_holds_nothing(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        status = await ended(lab, await start(lab))
        assert (status.state, status.why) == ("succeeded", "")
        assert [one.why for one in lab.emitted(JobSwitched)] == [""]
        assert lab.service.status().leases == []
        assert lab.service.sets() == []
        assert lab.world.processes.running == []

    run_lab(test)


def test_rank_whose_program_has_a_fault_ends_and_its_job_fails(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        status = await ended(lab, await start(lab))
        assert (status.state, "ended with status 1: FailedError" in status.why) == ("failed", True)

    run_lab(test, within_s=0.1)  # each collective takes longer


class Prepares:
    """Prepares a further target while the first one is on its way."""

    def targets(self, job: Job, view: View) -> dict[str, Target]:
        self._ring, self._is_moving = Target(links=view.topology("ring")), False
        return {"ring": self._ring}

    def on(self, event: Event) -> Iterator[Action]:
        if isinstance(event, Intent) and event.rank == 0:
            self._is_moving = True
            yield Switch(target="ring")
        if isinstance(event, Tick) and self._is_moving:
            self._is_moving = False
            yield Prepare(id="further", target=self._ring)


@pytest.mark.parametrize(("kind", "plane"), [(STATIC, None), ("plane: own", Prepares())], ids=["switch", "and prepare"])
def test_stop_does_not_wait_for_a_switch_whose_links_do_not_come(
    run_lab: RunLab, kind: str, plane: Plane | None
) -> None:
    async def test(lab: Lab) -> None:
        lab.set_fault({"port": "h1.eth0", "fault": "unplug"})
        job = await start(lab)
        await when(lab, job, lambda status: status.moving)
        await asyncio.sleep(3)
        assert lab.light() != ""
        lab.service.stop_job(job, ByBody(by="ada"), None)
        began_s = asyncio.get_running_loop().time()
        assert (await ended(lab, job)).state == "stopped"
        assert asyncio.get_running_loop().time() - began_s < 12
        [end] = lab.emitted(ReconfigurationEnded)
        assert (end.outcome, end.why) == ("rolled-back", "stopped")
        assert lab.emitted(JobSwitched) == []  # whose failures raise an alert: this was asked for
        assert lab.light() == ""
        assert lab.service.status().leases == []

    run_lab(test, entry=f"{kind}, ready_within_s: 120", plane=plane)


def test_target_that_is_prepared_behind_a_switch_holds_up_no_answer(run_lab: RunLab) -> None:
    class Refuses(Prepares):
        def on(self, event: Event) -> Iterator[Action]:
            for action in super().on(event):
                yield action
                if isinstance(action, Prepare):
                    yield Refuse(ranks=(0,), why="enough")

    async def test(lab: Lab) -> None:
        lab.set_fault({"port": "h1.eth0", "fault": "unplug"})
        began_s = asyncio.get_running_loop().time()
        status = await ended(lab, await start(lab))
        assert "It had been refused: enough" in status.why
        assert asyncio.get_running_loop().time() - began_s < 12
        assert lab.service.sets() == []

    run_lab(test, entry="plane: own, ready_within_s: 120", plane=Refuses())


class Adds:
    """Lets the first operation go over a target of its set, and the next one over a further one, with one link less.
    `is_moving`: it prepares that while the first switch is under way.
    """

    def __init__(self, *, is_moving: bool) -> None:
        self._is_moving = is_moving

    def targets(self, job: Job, view: View) -> dict[str, Target]:
        self._gathering, links = Gathering(job.groups), view.topology("ring")
        self._further = Target(links=links[:1])
        self._is_prepared = False
        self.heard: list[Event] = []
        return {"ring": Target(links=links)}

    def on(self, event: Event) -> Iterator[Action]:
        if not isinstance(event, Tick):
            self.heard.append(event)
        match event:
            case Intent() if self._gathering.come(event):
                yield Switch(target="further" if event.operation.index else "ring")
                if self._is_moving and not self._is_prepared:
                    yield from self._prepared()
            case Applied():
                if not self._is_prepared:
                    yield from self._prepared()
                yield Grant(ranks=(0, 1))

    def _prepared(self) -> Iterator[Action]:
        self._is_prepared = True
        yield Prepare(id="further", target=self._further)


@pytest.mark.parametrize("is_moving", [False, True])
def test_set_serves_until_the_switch_to_a_target_that_it_does_not_have(run_lab: RunLab, is_moving: bool) -> None:
    plane = Adds(is_moving=is_moving)

    async def test(lab: Lab) -> None:
        job = await start(lab)
        await when(lab, job, lambda status: status.ranks[0].operation.startswith("all-reduce 1 of"))
        assert lab.service.sets() != []
        assert (await ended(lab, job)).state == "succeeded"
        first, second = lab.emitted(ReconfigurationStarted)
        assert (first.target, second.prepared_set) == ("ring", UNSET)
        assert lab.service.sets() == []
        [found] = await lab.service.verify_job(job)
        assert found.breaches == []

    run_lab(test, entry="plane: own", plane=plane, steps=2)


def test_set_is_not_released_before_it_is_known_where_a_killed_daemon_has_left_it(run_lab: RunLab) -> None:
    plane = Adds(is_moving=True)

    async def test(lab: Lab) -> None:
        lab.set_fault({"port": "h1.eth0", "fault": "unplug"})
        job = await start(lab)
        await when(lab, job, lambda status: status.moving)
        await asyncio.sleep(1)
        lab.kill_daemon()
        lab.set_fault({"port": "h1.eth0", "fault": "clear"})
        lab.world.start_daemon()
        await lab.world.settled()
        assert (await ended(lab, job)).state == "succeeded"
        assert [one for one in plane.heard if isinstance(one, NotReady)] == []
        [found] = await lab.service.verify_job(job)
        assert found.breaches == []

    run_lab(test, entry="plane: own", plane=plane, steps=2)


def test_switch_that_has_not_begun_does_not_hold_up_the_end_of_its_job(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        job = await start(lab)
        await when(lab, job, lambda status: status.ranks[0].operation.startswith("all-reduce 1 of"))
        lab.set_fault({"port": "h1.eth0", "fault": "unplug"})
        await when(lab, job, lambda status: status.moving == "b")
        lab.kill_daemon()
        lab.world.kill(agent_node("h0"))  # which may be sending, for all that the next daemon knows
        lab.world.start_daemon()
        await asyncio.sleep(10)
        assert (await lab.service.job(job)).moving == "b"
        lab.service.stop_job(job, ByBody(by="ada"), None)
        began_s = asyncio.get_running_loop().time()
        assert (await ended(lab, job)).state == "stopped"
        assert asyncio.get_running_loop().time() - began_s < 5
        assert [one.why for one in lab.emitted(JobSwitched)] == [""]
        assert lab.service.sets() == []

    run_lab(test, entry="plane: own, ready_within_s: 120", plane=Alternates())


@pytest.mark.parametrize("after_s", [0.05, 0.2, 0.4, 0.6, 0.9, 1.2])
def test_operation_that_a_daemon_let_go_after_its_absence_has_all_its_time(run_lab: RunLab, after_s: float) -> None:
    async def test(lab: Lab) -> None:
        job = await start(lab)
        await asyncio.sleep(after_s)
        lab.kill_daemon()
        await asyncio.sleep(4)
        lab.world.start_daemon()
        await lab.world.settled()
        status = await ended(lab, job)
        assert (status.state, status.why) == ("succeeded", "")

    run_lab(test, within_s=1.0)


@pytest.mark.parametrize("after_s", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
def test_set_that_a_job_has_outgrown_is_not_left_over_a_killed_daemon(run_lab: RunLab, after_s: float) -> None:
    async def test(lab: Lab) -> None:
        job = await start(lab)
        await asyncio.sleep(after_s)
        lab.kill_daemon()
        lab.world.start_daemon()
        await lab.world.settled()
        await ended(lab, job)
        assert lab.service.sets() == []
        assert lab.service.status().leases == []

    run_lab(test, entry="plane: own, answer_within_s: 3", plane=Prepares())


def test_what_is_not_ready_and_what_has_failed_is_said(run_lab: RunLab) -> None:
    class Waits:
        """Lets nobody go."""

        def targets(self, job: Job, view: View) -> dict[str, Target]:
            return {"ring": Target(links=view.topology("ring"))}

        def on(self, event: Event) -> tuple[Action, ...]:
            return (Switch(target="ring"),) if isinstance(event, Intent) and event.rank == 0 else ()

    async def test(lab: Lab) -> None:
        lab.set_fault({"port": "h1.eth0", "fault": "unplug"})
        job = await start(lab)
        status = await when(lab, job, lambda status: status.not_ready)
        assert status.not_ready.startswith("ring: ")
        assert "h1.eth0" in status.not_ready
        assert status.failed == []
        lab.world.kill(agent_node("h1"))
        await asyncio.sleep(AWAY_S + 3)
        assert (await lab.service.job(job)).failed == ["h1"]

    run_lab(test, entry="plane: own, ready_within_s: 2, answer_within_s: 60", plane=Waits())


def test_plane_hears_of_a_failure_while_its_route_waits_for_a_host_that_is_away(run_lab: RunLab) -> None:
    plane = Routes()

    async def test(lab: Lab) -> None:
        job = await start(lab)
        await when(lab, job, lambda status: status.ranks[0].operation.startswith("all-reduce 1 of"))
        lab.world.kill(agent_node("h0"))
        await asyncio.sleep(AWAY_S + 10)
        assert [one.hosts for one in plane.heard if isinstance(one, Failure)] == [("h0",)]
        assert [one.state for one in (await lab.service.job(job)).ranks] == ["waiting", "waiting"]
        lab.service.stop_job(job, ByBody(by="ada"), None)
        assert (await ended(lab, job)).state == "stopped"

    run_lab(test, entry="plane: own, answer_within_s: 10", plane=plane, steps=2)


@pytest.mark.parametrize("after_s", [0.05, 0.2, 0.4, 0.6, 0.9, 1.2])
@pytest.mark.parametrize("killed", ["daemon", "agent", "both"])
def test_job_holds_what_it_promises_over_a_killed_daemon_and_a_killed_agent(
    run_lab: RunLab, killed: str, after_s: float
) -> None:
    async def test(lab: Lab) -> None:
        job = await start(lab)
        await asyncio.sleep(after_s)
        if killed in ("daemon", "both"):
            lab.kill_daemon()
        if killed in ("agent", "both"):
            lab.world.kill(agent_node("h0"))
        await asyncio.sleep(1)
        if killed in ("daemon", "both"):
            lab.world.start_daemon()
        if killed in ("agent", "both"):
            lab.world.start_agent("h0")
        await lab.world.settled()
        again_s = asyncio.get_running_loop().time()
        status = await ended(lab, job)
        assert (status.state, status.why) == ("succeeded", "")
        assert asyncio.get_running_loop().time() - again_s < 12
        [found] = await lab.service.verify_job(job)
        assert found.breaches == [], [str(one) for one in found.breaches]
        assert found.operations == 6
        assert lab.service.status().leases == []

    run_lab(test)


@pytest.mark.parametrize("lost_s", [0.05, 0.15, 0.25, 0.45, 0.65, 0.85, 1.05])
def test_job_that_lost_what_its_plane_was_told_last_with_the_power_ends_and_says_so(
    run_lab: RunLab, lost_s: float
) -> None:
    async def test(lab: Lab) -> None:
        job = await start(lab)
        await when(lab, job, lambda status: status.ranks[0].operation.startswith("all-reduce 1 of"))
        await asyncio.sleep(0.1)
        lab.world.records_disk.hang()
        await asyncio.sleep(lost_s)
        lab.cut_power()
        lab.world.records_disk.mend()
        await asyncio.sleep(1)
        lab.world.start_daemon()
        await lab.world.settled()
        status = await ended(lab, job)
        if lost_s < 0.1:  # nothing has happened
            assert (status.state, status.why) == ("succeeded", "")
        else:
            assert status.state == "failed"
            assert "the daemon's machine lost its power" in status.why
        [found] = await lab.service.verify_job(job)
        assert found.breaches == [], [str(one) for one in found.breaches]
        assert lab.service.status().leases == []
        assert lab.service.sets() == []

    run_lab(test, entry=f"{STATIC}, answer_within_s: 10", steps=5)


def test_no_light_moves_before_why_is_in_the_records(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        job = await start(lab)
        await when(lab, job, lambda status: status.ranks[1].state == "sending")
        [before] = lab.emitted(JobSwitched)
        lab.world.records_disk.hang()
        await when(lab, job, lambda status: status.moving == "b")
        await asyncio.sleep(5)
        assert lab.emitted(ReconfigurationStarted)[1:] == []
        lab.world.records_disk.mend()
        await ended(lab, job)
        assert [one.target for one in lab.emitted(JobSwitched)] == [before.target, "b", "a"]

    run_lab(test, entry="plane: own, answer_within_s: 20", plane=Alternates())


def test_who_aborts_a_job_is_told_how_to_stop_it(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        job = await start(lab)
        with pytest.raises(RefusedError, match=f"`hwd job stop {job}`"):
            await lab.service.abort_run(job, by="ada")
        await ended(lab, job)

    run_lab(test)


def test_job_whose_lease_is_taken_from_it_fails_and_says_so(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        job = await start(lab)
        await when(lab, job, lambda status: status.ranks[0].operation.startswith("all-reduce 1 of"))
        [lease] = lab.service.leases()
        await lab.world.nodes.run_in_node(DAEMON, lab.service.release_lease(lease.lease, kick=True, by="ada"))
        status = await ended(lab, job)
        assert status.state == "failed"
        assert "its lease has ended, so others may take its light: " in status.why
        assert lease.lease in status.why
        assert lab.service.leases() == []
        assert lab.world.processes.running == []

    run_lab(test, steps=50)


def test_job_whose_plane_sets_routes_that_the_testbed_does_not_allow_does_not_go_on(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        status = await ended(lab, await start(lab))
        assert status.state == "failed"
        assert "route is not among the host_actions of testbed two-hosts" in status.why

    run_lab(test, entry="plane: own", plane=Routes(), steps=2, actions="")


def test_rank_that_waited_too_long_for_light_that_is_on_its_way_says_so(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        lab.set_fault({"port": "h1.eth0", "fault": "unplug"})
        status = await ended(lab, await start(lab))
        assert "waited 2 s for plane static to answer all-reduce 0 of world" in status.why
        assert "all its ranks came to it; its light is on the way to static" in status.why

    run_lab(test, entry=f"{STATIC}, answer_within_s: 2, ready_within_s: 20")
