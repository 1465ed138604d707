"""Jobs in a small world, in virtual time: their ranks ask, their plane answers, and the light goes where it says."""

import asyncio
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest
from msgspec import UNSET

from hwd.jobs.job_failures import AWAY_S
from hwd.jobs.job_moves import PACE_S
from hwd.model.bodies import ActBody, ReconfigurationBody
from hwd.model.job import JobFailure, JobMoved, JobSwitched
from hwd.model.plane import (
    MOST_PREPARED,
    Action,
    Applied,
    Event,
    Failure,
    Grant,
    Intent,
    Job,
    NotReady,
    Prepare,
    Refuse,
    Switch,
    Target,
    Tick,
    View,
)
from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationStarted
from hwd.planes import Gathering
from hwd.sim.world import agent_node
from hwd_drivers.core.errors import RefusedError

from .job_lab import STATIC, Alternates, Lab, Routes, Work, asked, ended, of_job, of_jobs, start, when


async def test_job_ends_over_the_light_of_its_plane_and_holds_nothing(lab: Lab) -> None:
    job = await start(lab)
    with pytest.raises(RefusedError, match=f"`hwd job stop {job}`"):
        await lab.service.runs.abort(job, ActBody(by="ada"))
    status = await ended(lab, job)
    assert (status.state, status.why) == ("succeeded", "")
    assert [one.why for one in lab.emitted(JobSwitched)] == [""]
    assert (await lab.service.rack.status()).leases == []
    assert lab.service.sets.sets() == []
    assert lab.world.processes.running == []
    with pytest.raises(RefusedError, match=f"^job {job}: none of this id is under way$"):
        lab.service.jobs.stop(job, ActBody(by="ada"), None)


async def test_output_from_far_behind_its_end_is_empty_wherever_that_is(lab: Lab, tmp_path: Path) -> None:
    job = await start(lab)
    log = tmp_path / "jobs" / job / "rank0.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_bytes(b"step 1\n")
    for first in (0, 5, 7, 8, 1 << 31, 1 << 53, (1 << 63) - 1):
        found = await lab.service.jobs.output(job, 0, first)
        data = b"step 1\n"[first:]
        assert (found.data, found.first, found.next) == (data, first, first + len(data))
    await ended(lab, job)


@of_job(within_s=0.1)
async def test_rank_whose_program_has_a_fault_ends_and_its_job_fails(lab: Lab) -> None:
    status = await ended(lab, await start(lab))
    assert (status.state, "ended with status 1: FailedError" in status.why) == ("failed", True)


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


@of_jobs(
    switch=Work(entry=f"{STATIC}, ready_within_s: 120"),
    and_prepare=Work(entry="plane: own, ready_within_s: 120", plane=Prepares()),
)
async def test_stop_does_not_wait_for_a_switch_whose_links_do_not_come(lab: Lab) -> None:
    lab.set_fault({"port": "h1.eth0", "fault": "unplug"})
    job = await start(lab, lambda status: status.moving)
    await asyncio.sleep(3)
    assert lab.light() != []
    lab.service.jobs.stop(job, ActBody(by="ada"), None)
    began_s = asyncio.get_running_loop().time()
    assert (await ended(lab, job)).state == "stopped"
    assert asyncio.get_running_loop().time() - began_s < 12
    [end] = lab.emitted(ReconfigurationEnded)
    assert (end.outcome, end.why) == ("rolled-back", "stopped")
    assert lab.emitted(JobSwitched) == []  # whose failures raise an alert: this was asked for
    assert lab.light() == []
    assert (await lab.service.rack.status()).leases == []


class Refuses(Prepares):
    def on(self, event: Event) -> Iterator[Action]:
        for action in super().on(event):
            yield action
            if isinstance(action, Prepare):
                yield Refuse(ranks=(0,), why="enough")


@of_job(entry="plane: own, ready_within_s: 120", plane=Refuses())
async def test_target_that_is_prepared_behind_a_switch_holds_up_no_answer(lab: Lab) -> None:
    lab.set_fault({"port": "h1.eth0", "fault": "unplug"})
    began_s = asyncio.get_running_loop().time()
    status = await ended(lab, await start(lab))
    assert "It had been refused: enough" in status.why
    assert asyncio.get_running_loop().time() - began_s < 12
    assert lab.service.sets.sets() == []


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


@of_jobs(
    first=Work(entry="plane: own", plane=Adds(is_moving=False), steps=2),
    meanwhile=Work(entry="plane: own", plane=Adds(is_moving=True), steps=2),
)
async def test_set_serves_until_the_switch_to_a_target_that_it_does_not_have(lab: Lab) -> None:
    job = await start(lab, asked(1))
    assert lab.service.sets.sets() != []
    assert (await ended(lab, job)).state == "succeeded"
    first, second = lab.emitted(ReconfigurationStarted)
    assert (first.target, second.prepared_set) == ("ring", UNSET)
    assert lab.service.sets.sets() == []
    [found] = await lab.service.jobs.verification(job)
    assert found.breaches == []


class Regions:
    """One link, one region. All go when they ask for the first time, and ranks when all have arrived."""

    def targets(self, job: Job, view: View) -> dict[str, Target]:
        self._gathering, self._there, self._ready = Gathering(job.groups), set[str](), tuple[int, ...]()
        self.heard: list[Event] = []
        self._regions = {
            f"region{n}": Target(links=(link,), ports=link.ends) for n, link in enumerate(view.topology("ring"))
        }
        return self._regions

    def on(self, event: Event) -> Iterator[Action]:
        match event:
            case Intent():
                self._ready = self._gathering.come(event)
                if self._ready and event.operation.index == 0:
                    yield from (Switch(target=id) for id in self._regions)
            case Applied(target=target):
                self.heard.append(event)
                self._there.add(target)
            case NotReady(target=target):
                self.heard.append(event)
                yield Switch(target=target)
        if self._ready and self._there == {*self._regions}:
            yield Grant(ranks=self._ready)
            self._ready = ()


@of_job(entry="plane: own, ready_within_s: 3", plane=Regions())
@pytest.mark.parametrize("killed", [False, True])
async def test_region_whose_links_do_not_come_holds_up_no_other(lab: Lab, killed: bool) -> None:
    lab.set_fault({"port": "h1.eth0", "fault": "unplug"})
    job = await start(lab)
    status = await when(lab, job, lambda status: status.at)
    (there,), (stuck,) = [status.at], [status.moving]
    assert {there, stuck} == {"region0", "region1"}
    both = lab.emitted(ReconfigurationStarted)
    assert len({port for one in both for link in one.links for port in link.link.split("<->")}) == 4
    assert len(lab.emitted(JobSwitched)) == 1
    status = await when(lab, job, lambda status: status.not_ready)
    assert status.not_ready.startswith(f"{stuck}: ")
    assert (status.at, "h1.eth0" in status.not_ready) == (there, True)
    if killed:
        lab.kill_daemon()
    lab.set_fault({"port": "h1.eth0", "fault": "clear"})
    if killed:
        lab.world.start_daemon()
        await lab.world.settled()
    assert (await ended(lab, job)).state == "succeeded"
    assert lab.service.sets.sets() == []
    assert [one.target for one in lab.emitted(JobSwitched) if one.target == there] == [there], "it moved once"
    [found] = await lab.service.jobs.verification(job)
    assert (found.breaches, found.operations) == ([], 6)
    assert not [one for one in found.unshown if "is not in the records" in one], "the light of both regions is"


@of_job(entry="plane: own, ready_within_s: 120", plane=Regions())
@pytest.mark.parametrize(
    ("after_s", "is_power"),
    [(0.05, False), (2.0, True), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((2.0, False), (0.05, True)))],
)
async def test_regions_wait_for_what_a_killed_daemon_has_left_of_their_moves(
    lab: Lab, is_power: bool, after_s: float
) -> None:
    plane = lab.plane(Regions)
    for port in ("h1.eth0", "h1.eth1"):
        lab.set_fault({"port": port, "fault": "unplug"})
    job = await start(lab, lambda status: status.moving)
    await asyncio.sleep(after_s)
    (lab.cut_power if is_power else lab.kill_daemon)()
    for port in ("h1.eth0", "h1.eth1"):
        lab.set_fault({"port": port, "fault": "clear"})
    lab.world.start_daemon()
    await lab.world.settled()
    assert (await ended(lab, job)).state == "succeeded"
    assert {one.target for one in plane.heard if isinstance(one, Applied)} == {"region0", "region1"}
    assert not [one.why for one in plane.heard if isinstance(one, NotReady)]
    [found] = await lab.service.jobs.verification(job)
    assert found.breaches == []


@of_job(entry="plane: own, ready_within_s: 3", plane=Regions())
async def test_regions_whose_ports_light_of_before_joins_wait_for_each_other(lab: Lab) -> None:
    """Nobody knows of it before the switch is read, so both are let go."""
    plane = lab.plane(Regions)
    straight = "h0.eth0<->h1.eth0, h0.eth1<->h1.eth1"
    await lab.service.light.apply(ReconfigurationBody(what=straight, by="ada"))
    status = await ended(lab, await start(lab))
    assert (status.state, status.why) == ("succeeded", "")
    assert {one.target for one in plane.heard if isinstance(one, Applied)} == {"region0", "region1"}
    assert len(plane.heard) == 2
    assert [one.why for one in lab.emitted(JobSwitched)] == ["", ""]


class TriesAgain:
    """Goes to a target that nobody reaches, each time with its ports in another order."""

    def targets(self, job: Job, view: View) -> dict[str, Target]:
        self._links, self._orders, self.tries = view.topology("ring"), permutations(view.ports), 0
        return {}

    def on(self, event: Event) -> Iterator[Action]:
        if (isinstance(event, Intent) and event.rank == 0) or isinstance(event, NotReady):
            self.tries += 1
            yield Prepare(id=f"t{self.tries}", target=Target(links=self._links, ports=next(self._orders)))
            yield Switch(target=f"t{self.tries}")


@of_job(entry="plane: own, ready_within_s: 3, answer_within_s: 60", plane=TriesAgain())
async def test_plane_that_tries_again_and_again_is_paced_by_port(lab: Lab) -> None:
    plane = lab.plane(TriesAgain)
    lab.set_fault({"switch": "ocs1", "fault": "stick", "ends": ["1A", "2A", "3A", "4A"]})
    job = await start(lab, lambda status: status.moving)
    await asyncio.sleep(10)
    assert 10 < plane.tries <= 10 / PACE_S + 2
    status = await lab.service.jobs.job(job)
    assert status.not_ready.startswith(f"t{plane.tries - 1}: "), "of one region the last one is said"
    assert ";" not in status.not_ready.split(": ")[0]
    lab.service.jobs.stop(job, ActBody(by="ada"), None)
    assert (await ended(lab, job)).state == "stopped"


class Sixteen:
    """Comes back to the oldest of its targets, and prepares one more when that is not there."""

    def targets(self, job: Job, view: View) -> dict[str, Target]:
        self._links, self._has_failed = view.topology("ring"), False
        return {}

    def on(self, event: Event) -> Iterator[Action]:
        if isinstance(event, Intent) and event.rank == 0:
            for n in range(MOST_PREPARED):
                yield Prepare(id=f"t{n}", target=Target(links=self._links))
            yield Switch(target="t0")
        if isinstance(event, NotReady) and not self._has_failed:
            self._has_failed = True
            yield Prepare(id="further", target=Target(links=self._links))
            yield Refuse(ranks=(0,), why="enough")


@of_job(entry="plane: own, ready_within_s: 3", plane=Sixteen())
async def test_target_that_was_not_reached_may_go_at_once(lab: Lab) -> None:
    lab.set_fault({"port": "h1.eth0", "fault": "unplug"})
    job = await start(lab)
    status = await ended(lab, job)
    assert "It had been refused: enough" in status.why


@of_job(entry="plane: own", plane=Adds(is_moving=True), steps=2)
async def test_set_is_not_released_before_it_is_known_where_a_killed_daemon_has_left_it(lab: Lab) -> None:
    plane = lab.plane(Adds)
    lab.set_fault({"port": "h1.eth0", "fault": "unplug"})
    job = await start(lab, lambda status: status.moving)
    await asyncio.sleep(1)
    lab.kill_daemon()
    lab.set_fault({"port": "h1.eth0", "fault": "clear"})
    lab.world.start_daemon()
    await lab.world.settled()
    assert (await ended(lab, job)).state == "succeeded"
    assert [one for one in plane.heard if isinstance(one, NotReady)] == []
    [found] = await lab.service.jobs.verification(job)
    assert found.breaches == []


@of_job(entry="plane: own, ready_within_s: 120", plane=Alternates())
async def test_switch_that_has_not_begun_does_not_hold_up_the_end_of_its_job(lab: Lab) -> None:
    job = await start(lab, asked(1))
    lab.set_fault({"port": "h1.eth0", "fault": "unplug"})
    await when(lab, job, lambda status: status.moving == "b")
    lab.kill_daemon()
    lab.world.kill(agent_node("h0"))  # which may be sending, for all that the next daemon knows
    lab.world.start_daemon()
    await asyncio.sleep(10)
    assert (await lab.service.jobs.job(job)).moving == "b"
    lab.service.jobs.stop(job, ActBody(by="ada"), None)
    began_s = asyncio.get_running_loop().time()
    assert (await ended(lab, job)).state == "stopped"
    assert asyncio.get_running_loop().time() - began_s < 5
    assert [one.why for one in lab.emitted(JobSwitched)] == [""]
    assert lab.service.sets.sets() == []


@of_job(entry="plane: own, answer_within_s: 3", plane=Prepares())
@pytest.mark.parametrize("after_s", [0.1, 0.3, 0.5])
async def test_set_that_a_job_has_outgrown_is_not_left_over_a_killed_daemon(lab: Lab, after_s: float) -> None:
    job = await start(lab)
    await asyncio.sleep(after_s)
    lab.kill_daemon()
    lab.world.start_daemon()
    await lab.world.settled()
    await ended(lab, job)
    assert lab.service.sets.sets() == []
    assert (await lab.service.rack.status()).leases == []


class Waits:
    """Lets nobody go."""

    def targets(self, job: Job, view: View) -> dict[str, Target]:
        return {"ring": Target(links=view.topology("ring"))}

    def on(self, event: Event) -> tuple[Action, ...]:
        return (Switch(target="ring"),) if isinstance(event, Intent) and event.rank == 0 else ()


@of_job(entry="plane: own, ready_within_s: 2, answer_within_s: 60", plane=Waits())
async def test_what_is_not_ready_and_what_has_failed_is_said(lab: Lab) -> None:
    lab.set_fault({"port": "h1.eth0", "fault": "unplug"})
    job = await start(lab)
    status = await when(lab, job, lambda status: status.not_ready)
    assert status.not_ready.startswith("ring: ")
    assert "h1.eth0" in status.not_ready
    assert status.failed == []
    lab.world.kill(agent_node("h1"))
    await asyncio.sleep(AWAY_S + 3)
    assert (await lab.service.jobs.job(job)).failed == ["h1"]


@of_job(steps=100)
async def test_light_that_a_restart_of_its_switch_took_is_brought_back(lab: Lab) -> None:
    job = await start(lab)
    assert (await when(lab, job, lambda status: status.at)).at == "static"
    lit = lab.light()
    lab.set_fault({"switch": "ocs1", "fault": "reboot", "seconds": 8.0})
    back = await when(lab, job, lambda status: status.moves_of_others)
    assert "from static by a restart of ocs1" in back.moves_of_others[0]
    assert (back.state, back.at, lab.light()) == ("running", "static", lit)
    assert [one.is_over for one in lab.emitted(JobMoved)] == [False, True]


@of_job(steps=100)
async def test_port_without_a_carrier_is_not_said_to_have_its_light(lab: Lab) -> None:
    job = await start(lab, lambda status: status.at)
    lab.set_fault({"port": "h1.eth0", "fault": "unplug"})
    status = await when(lab, job, lambda status: status.failed)
    assert ("h1.eth0" in status.failed, status.moved) == (True, ""), "its switches have the light"
    assert {one.why for one in lab.emitted(JobFailure)} == {
        "it has no carrier, though the target of its plane lights it"
    }


@of_job(entry="plane: own, answer_within_s: 10", plane=Routes(), steps=2)
async def test_plane_hears_of_a_failure_while_its_route_waits_for_a_host_that_is_away(lab: Lab) -> None:
    plane = lab.plane(Routes)
    job = await start(lab, asked(1))
    lab.world.kill(agent_node("h0"))
    await asyncio.sleep(AWAY_S + 10)
    assert [one.hosts for one in plane.heard if isinstance(one, Failure)] == [("h0",)]
    assert [one.state for one in (await lab.service.jobs.job(job)).ranks] == ["waiting", "waiting"]
    lab.service.jobs.stop(job, ActBody(by="ada"), None)
    assert (await ended(lab, job)).state == "stopped"


@pytest.mark.parametrize(
    "after_s", [0.05, 0.4, 0.9, *(pytest.param(one, marks=pytest.mark.slow) for one in (0.2, 0.6, 1.2))]
)
@pytest.mark.parametrize(
    ("killed", "away_s", "work"),
    [("daemon", 4, Work(within_s=1.0)), ("agent", 1, Work()), ("both", 1, Work())],
    ids=["daemon", "agent", "both"],
)
async def test_job_holds_what_it_promises_over_a_killed_daemon_and_a_killed_agent(
    lab: Lab, killed: str, away_s: float, after_s: float
) -> None:
    """What was let go before an absence that is longer than its time, or after it, has all its time."""
    job = await start(lab)
    await asyncio.sleep(after_s)
    if killed in ("daemon", "both"):
        lab.kill_daemon()
    if killed in ("agent", "both"):
        lab.world.kill(agent_node("h0"))
    await asyncio.sleep(away_s)
    if killed in ("daemon", "both"):
        lab.world.start_daemon()
    if killed in ("agent", "both"):
        lab.world.start_agent("h0")
    await lab.world.settled()
    again_s = asyncio.get_running_loop().time()
    status = await ended(lab, job)
    assert (status.state, status.why) == ("succeeded", "")
    assert asyncio.get_running_loop().time() - again_s < 12
    [found] = await lab.service.jobs.verification(job)
    assert found.breaches == [], [str(one) for one in found.breaches]
    assert found.operations == 6
    assert (await lab.service.rack.status()).leases == []


@of_job(steps=1)
async def test_end_that_an_agent_tells_later_than_its_program_ends_is_measured(lab: Lab) -> None:
    job = await start(lab, lambda status: status.ranks[0].state == "sending")
    lab.world.bus_delay_s = 0.8  # programs end over another way
    assert (await ended(lab, job)).state == "succeeded"
    assert await lab.unmeasured(job) == []


async def test_end_that_a_killed_agent_took_with_it_is_told_by_its_rank(lab: Lab) -> None:
    job = await start(lab, asked(1))
    await when(lab, job, lambda status: status.ranks[0].state == "sending")
    lab.world.broker.stop()
    await asyncio.sleep(0.5)  # the rank has ended it, and its agent cannot tell the daemon
    lab.world.kill(agent_node("h0"))
    lab.world.broker.start()
    lab.world.start_agent("h0")
    assert (await ended(lab, job)).state == "succeeded"
    assert await lab.unmeasured(job) == []


class Targetless:
    """Raises where it is asked for its targets."""

    def targets(self, job: Job, view: View) -> dict[str, Target]:
        raise ValueError("no targets")

    def on(self, event: Event) -> list[Action]:
        return []


@of_job(entry="plane: own", plane=Targetless())
async def test_job_whose_plane_breaks_before_it_begins_names_it(lab: Lab) -> None:
    status = await ended(lab, await start(lab))
    assert status.why == "plane own: raises: ValueError('no targets') at its targets"
    assert await lab.holds_nothing()


@of_job(entry="plane: own", plane=Routes(), steps=2, actions="")
async def test_job_whose_plane_sets_routes_that_the_testbed_does_not_allow_does_not_go_on(lab: Lab) -> None:
    status = await ended(lab, await start(lab))
    assert status.state == "failed"
    assert "route is not among the host_actions of testbed two-hosts" in status.why


@of_job(entry=f"{STATIC}, answer_within_s: 2, ready_within_s: 20")
async def test_rank_that_waited_too_long_for_light_that_is_on_its_way_says_so(lab: Lab) -> None:
    lab.set_fault({"port": "h1.eth0", "fault": "unplug"})
    status = await ended(lab, await start(lab))
    assert "waited 2 s for plane static to answer all-reduce 0 of world" in status.why
    assert "all its ranks came to it; its light is on the way to static" in status.why


@of_job(entry=f"{STATIC}, within_s: 5, answer_within_s: 100")
async def test_job_whose_ranks_were_lost_has_failed_a_minute_after_its_longest_time(lab: Lab) -> None:
    job = await start(lab, lambda status: status.ranks[0].operation)
    for program in lab.world.processes.running:
        lab.world.nodes.kill(f"program {program}")  # nobody hears how it ends
    status = await ended(lab, job)
    assert (status.state, status.why) == ("failed", "its longest time of 5 s is over")
    assert lab.world.clock.wall_ns() - status.started_wall_ns == pytest.approx(65e9, abs=2e8)
