"""What a plane is told of its job's part of a rack, from what the daemon knows of it."""

import asyncio
from collections.abc import Collection, Iterator, Mapping

import pytest

from hwd.daemon.installed_drivers import load_text
from hwd.fabric.fabric import Fabric
from hwd.fabric.in_use import InUse
from hwd.hosts.run_settings import HostSettings
from hwd.jobs.job_failures import AWAY_S, DARK_S, LOST, JobFailures
from hwd.jobs.job_run import AGAIN_S
from hwd.jobs.view import view_of
from hwd.model.action import Action as HostAction
from hwd.model.job import JobSwitched
from hwd.model.job_status import JobStatus
from hwd.model.nic_port import NicPortId
from hwd.model.plane import Action, CommunicationGroup, Event, Failure, Intent, Job, Rank, Recovery, Route
from hwd.model.reconfiguration import ReconfigurationStarted
from hwd.rack.health import RackHealth
from hwd_drivers.core.documents import Json

from .job_lab import STATIC, Alternates, Lab, Routes, asked, ended, of_job, start, when

RACK = """
testbed: lab
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: ideal, seed: 7}}
hosts:
  h0: {nics: {eth0: {module: 100g-lr4}, eth1: {module: 100g-lr4}}}
  h1: {nics: {eth0: {module: 100g-lr4}, eth1: {module: 100g-lr4}}}
fibres: [h0.eth0 <-> ocs1.1, h0.eth1 <-> ocs1.2, h1.eth0 <-> ocs1.3, h1.eth1 <-> ocs1.4]
"""
JOB = Job(
    id="k3v9a1xx",
    ranks=(Rank(number=0, host="h0"), Rank(number=1, host="h1")),
    groups={"world": CommunicationGroup(name="world", ranks=(0, 1))},
)
H0, H1 = NicPortId(host="h0", port="eth0"), NicPortId(host="h1", port="eth0")
LIT = frozenset({H0, H1})
NONE: frozenset[NicPortId] = frozenset()


def fabric(notes: str = "") -> Fabric:
    return Fabric(load_text(RACK + notes, file="lab.yaml").require())


class Rack:
    """What the daemon knows: carriers by port, agents that are away, and why the switch cannot be reached."""

    def __init__(self) -> None:
        self.carriers: dict[NicPortId, bool | None] = dict.fromkeys(view_of(fabric().testbed, JOB).ports, True)
        self.away: set[str] = set()
        self.cause: str | None = None
        self.in_use = InUse(fabric())
        self.health = RackHealth(
            self.in_use,
            carrier=lambda port: self.carriers.get(port),
            is_there=lambda host: host not in self.away,
            cause=lambda switch: self.cause,
        )

    def failures(self, *told: NicPortId | str) -> JobFailures:
        return JobFailures(JOB, view_of(fabric().testbed, JOB), self.health, told)


@pytest.fixture
def rack() -> Rack:
    return Rack()


def test_carrier_that_is_lost_is_told_once_and_told_again_when_it_is_back(rack: Rack) -> None:
    failures = rack.failures()
    assert failures.look(LIT, 0.0) == []
    rack.carriers[H0] = False
    assert failures.look(LIT, 1.0) == []
    assert failures.look(LIT, 1.0 + DARK_S) == [Failure(why=LOST, ports=(H0,))]
    assert failures.look(LIT, 60.0) == []
    rack.carriers[H0] = True
    assert failures.look(LIT, 61.0) == []
    assert failures.look(LIT, 61.0 + DARK_S) == [Recovery(ports=(H0,))]
    assert failures.look(LIT, 120.0) == []


def test_flap_is_no_failure_and_light_that_flaps_is_not_back(rack: Rack) -> None:
    failures = rack.failures()
    for at, carrier in enumerate([False, True, False, True]):
        rack.carriers[H0] = carrier
        assert failures.look(LIT, at * DARK_S) == []
    failures = rack.failures(H0)
    for at, carrier in enumerate([True, False, True, False]):
        rack.carriers[H0] = carrier
        assert failures.look(LIT, at * DARK_S) == []


def test_ports_that_the_plane_itself_moves_or_leaves_dark_have_not_failed(rack: Rack) -> None:
    failures = rack.failures()
    rack.carriers |= dict.fromkeys(rack.carriers, False)
    for at in range(3):
        assert failures.look(NONE, at * 60.0) == []
    assert failures.look(LIT, 200.0) == [], "the move has just ended: the last events of it may still come"
    rack.carriers |= dict.fromkeys(rack.carriers, True)
    assert failures.look(LIT, 200.0 + DARK_S) == []


def test_port_that_failed_and_was_left_is_not_back_before_it_has_a_carrier(rack: Rack) -> None:
    for failures in (rack.failures(), rack.failures(H0)):  # the second one: of a daemon that was started anew
        rack.carriers[H0] = False
        failures.look(LIT, 0.0)
        failures.look(LIT, DARK_S)
        for carrier in (False, None):
            rack.carriers[H0] = carrier
            assert failures.look(NONE, 60.0) == []
            assert failures.look(NONE, 120.0) == []
        rack.carriers[H0] = True
        failures.look(LIT, 180.0)
        assert failures.look(LIT, 180.0 + DARK_S) == [Recovery(ports=(H0,))]


def test_host_whose_agent_is_away_has_failed_and_its_ports_are_unknown(rack: Rack) -> None:
    failures = rack.failures()
    rack.away.add("h1")
    rack.carriers[H1] = None
    assert failures.look(LIT, 0.0) == []
    assert failures.look(LIT, AWAY_S) == [Failure(why="its agent is away", hosts=("h1",))]
    rack.away.clear()
    failures.look(LIT, 60.0)
    assert failures.look(LIT, 60.0 + AWAY_S) == [Recovery(hosts=("h1",))]


def test_switch_that_cannot_be_reached_takes_the_ports_that_lead_to_it(rack: Rack) -> None:
    failures = rack.failures()
    for at in range(int(AWAY_S)):
        rack.cause = f"attempt {at} failed"  # for a new reason each time
        assert failures.look(LIT, float(at)) == []
    (failure,) = failures.look(LIT, AWAY_S)
    assert failure == Failure(
        why=f"its light cannot be moved: ocs1: attempt {int(AWAY_S) - 1} failed",
        ports=tuple(sorted(rack.carriers, key=NicPortId.sort_key)),
    )
    rack.cause = None
    rack.carriers |= {id: id in LIT for id in rack.carriers}  # those without light have no carrier, and were not dark
    failures.look(LIT, 60.0)
    (recovery,) = failures.look(LIT, 60.0 + DARK_S)
    assert recovery == Recovery(ports=failure.ports)


def test_port_that_the_testbed_file_sets_aside_has_failed_until_it_is_normal_again(rack: Rack) -> None:
    failures = rack.failures()
    rack.in_use.fabric = fabric("ports: {ocs1.1: {state: maintenance, why: dirty}}")
    assert failures.look(LIT, 0.0) == [Failure(why="the end of its fibre is maintenance: dirty", ports=(H0,))]
    rack.in_use.fabric = fabric()
    failures.look(LIT, 1.0)
    assert failures.look(LIT, 1.0 + DARK_S) == [Recovery(ports=(H0,))]


# --- jobs whose daemon's machine loses its power, and records that refuse or take their time


@of_job(entry=f"{STATIC}, answer_within_s: 10", steps=5)
@pytest.mark.parametrize("lost_s", [0.05, 0.15, 0.45, 0.85])
async def test_job_that_lost_what_its_plane_was_told_last_with_the_power_ends_and_says_so(
    lab: Lab, lost_s: float
) -> None:
    job = await start(lab, asked(1))
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
    [found] = await lab.service.jobs.verification(job)
    assert found.breaches == [], [str(one) for one in found.breaches]
    assert (await lab.service.rack.status()).leases == []
    assert lab.service.sets.sets() == []


@of_job(entry="plane: own, answer_within_s: 20", plane=Alternates())
async def test_no_light_moves_before_why_is_in_the_records(lab: Lab) -> None:
    job = await start(lab, lambda status: status.ranks[1].state == "sending")
    lab.world.records_disk.hang()
    await when(lab, job, lambda status: status.moving == "b")
    await asyncio.sleep(5)
    assert len(lab.emitted(ReconfigurationStarted)) == 1
    lab.world.records_disk.mend()
    await ended(lab, job)
    assert [one.target for one in lab.emitted(JobSwitched)] == ["a", "b", "a"]


@of_job(entry="plane: own, answer_within_s: 10", plane=Alternates())
async def test_light_waits_for_records_that_refuse_and_who_waits_for_it_hears_why(lab: Lab) -> None:
    job = await start(lab, lambda status: status.ranks[1].state == "sending")
    lab.world.records_disk.refuse("disk I/O error")
    await when(lab, job, lambda status: status.moving == "b")
    await asyncio.sleep(12)
    assert [one.target for one in lab.emitted(JobSwitched)] == ["a"], "it is no failure of the target"
    lab.world.records_disk.mend()
    assert "; what it was told cannot be recorded: records: disk I/O error" in (await ended(lab, job)).why


@pytest.fixture
def settings_done(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What agents were asked to set and to put back, by host: those of twins without a kernel have no routes."""
    done: list[tuple[str, str]] = []

    async def do(self: HostSettings, run: str, action: HostAction, *, lease: str | None = None) -> Mapping[str, Json]:
        done.append((action.port.host, "set"))
        return {}

    async def put_back(
        self: HostSettings, run: str, *, hosts: Collection[str] | None = None, lease: str | None = None
    ) -> None:
        done.extend((host, "put back") for host in hosts or ())

    monkeypatch.setattr(HostSettings, "do", do)
    monkeypatch.setattr(HostSettings, "put_back", put_back)
    return done


class RoutesOnce(Routes):
    """Sets the route before the second operation alone."""

    def on(self, event: Event) -> Iterator[Action]:
        for action in super().on(event):
            if not (isinstance(action, Route) and isinstance(event, Intent) and event.operation.index > 1):
                yield action


@of_job(entry="plane: own, answer_within_s: 20", plane=RoutesOnce(), steps=2)
async def test_routes_are_not_set_before_why_is_in_the_records(lab: Lab, settings_done: list[tuple[str, str]]) -> None:
    job = await start(lab, lambda status: status.ranks[1].state == "sending")
    lab.world.records_disk.hang()
    second = await when(lab, job, lambda status: status.ranks[1].operation.startswith("all-reduce 1 of"))
    assert second.ranks[0].state == "waiting"
    await asyncio.sleep(3)
    assert settings_done == []
    lab.world.records_disk.mend()
    assert (await ended(lab, job)).state == "succeeded"
    assert ("h0", "set") in settings_done


@of_job(entry="plane: own, answer_within_s: 10", plane=RoutesOnce(), steps=3, seconds=8.0)
async def test_routes_of_a_host_that_sends_are_left_alone_after_a_power_cut(
    lab: Lab, settings_done: list[tuple[str, str]]
) -> None:
    def is_third(status: JobStatus) -> bool:
        return status.ranks[0].operation.startswith("all-reduce 2 of")

    job = await start(lab, is_third)
    await asyncio.sleep(0.1)  # that rank 0 has come is in the records; rank 1 comes 0.3 s after it
    lab.world.records_disk.hang()
    await asyncio.sleep(1)
    sending = {one.host for one in (await lab.service.jobs.job(job)).ranks if one.state == "sending"}
    settings_done.clear()
    lab.cut_power()
    lab.world.records_disk.mend()
    lab.world.start_daemon()
    await lab.world.settled()
    await asyncio.sleep(3)
    assert not sending & {host for host, what in settings_done if what == "put back"}
    assert (await ended(lab, job)).state == "succeeded"


async def test_daemon_whose_records_fail_as_it_starts_goes_on_with_its_jobs_later(lab: Lab) -> None:
    """Seed 9551: it ended."""

    async def started() -> None:
        while True:
            if lab.world.daemon is not None:
                return
            await asyncio.sleep(0.01)

    job = await start(lab, lambda status: status.ranks[1].state == "sending")
    lab.kill_daemon()
    lab.world.records_disk.delay_s = lambda: 0.2
    lab.world.start_daemon()
    await started()
    lab.world.records_disk.refuse("database or disk is full")
    await asyncio.sleep(3)
    lab.world.records_disk.mend()
    lab.world.records_disk.delay_s = lambda: 0.0
    await asyncio.sleep(AGAIN_S)
    assert (await ended(lab, job)).state == "succeeded"
