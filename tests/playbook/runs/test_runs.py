"""Runs from asking to end: in the queue, at once, paused, over the daemon's death; in virtual time."""

import asyncio
import itertools
import json
from pathlib import Path

import pytest

from hwd.config.playbook.playbook import load_playbook_text
from hwd.config.playbook.steps import ApplyStep, SweepStep
from hwd.daemon.installed_drivers import load
from hwd.fabric.fabric import Fabric
from hwd.fabric.in_use import InUse
from hwd.model.bodies import ActBody, ByBody
from hwd.model.daemon import DaemonRecovered
from hwd.model.demand import DemandKey, DemandMatrix
from hwd.model.fault import Clear, Fault, Unplug
from hwd.model.lease import LeaseReleased, LeaseRenewed
from hwd.model.run import RunStatus
from hwd.model.run_facts import RunEnded, RunFault, RunHost, RunPaused, RunResumed, RunStarted, RunStep
from hwd.model.testbed import Testbed
from hwd.playbook.playbook_reader import PlaybookReader
from hwd.playbook.queue import NAMED, QUEUED_MAX
from hwd.playbook.twin_faults import NoRackError
from hwd.sim.world import DAEMON
from hwd_drivers.core.errors import ConfigError, HwdError, LinkError, RefusedError, UnknownError
from hwd_drivers.core.offload import InlineOffload, ThreadOffload
from hwd_drivers.core.structs import from_plain

from ...sim.lab import Lab
from .conftest import FIRST, SECOND, TESTBED

ON_FIRST = (f"apply: {{pairs: {FIRST}}}", "wait: {for: ready, within_s: 20}", "wait: {for_s: 5}")
ON_SECOND = (f"apply: {{pairs: {SECOND}}}", "wait: {for: ready, within_s: 20}", "wait: {for_s: 5}")
ALL = ("lease: {ports: all, for_s: 300}", *ON_FIRST)
WORDS = {"run", "playbook", "state", "step", "steps", "what", "stage", "fault_class", "why", "by", "rolled_back"}


async def test_runs_with_ports_in_common_start_one_after_the_other(lab: Lab) -> None:
    first, second, third = [await lab.start(*ALL) for _ in range(3)]
    assert [one.run for one in lab.service.runs.queue()] == [second, third]
    waits = [(await lab.state(run))["waits_for"] for run in (second, third)]
    assert waits == [[f"run {first}"], [f"run {first}", f"run {second}"]]
    with pytest.raises(UnknownError, match="is in the queue"):
        await lab.in_daemon(lab.service.runs.run(second))
    assert [run.id for run in await lab.in_daemon(lab.service.runs.runs())] == [first], "no record yet"
    assert [(await lab.ended(run))["state"] for run in (first, second, third)] == ["succeeded"] * 3
    facts = [one.fact for one in lab.world.documents]
    order = [(type(one), one.run) for one in facts if isinstance(one, RunStarted | RunEnded)]
    assert order == [(fact, run) for run in (first, second, third) for fact in (RunStarted, RunEnded)]


async def test_due_time_is_the_earliest_start_and_runs_on_other_ports_start_at_once(lab: Lab) -> None:
    run = await lab.start(*ON_FIRST, due_in_s=90.0)
    asked_ns = lab.world.clock.wall_ns()
    now, beside = await lab.start(*ON_FIRST), await lab.start(*ON_SECOND)
    assert (await lab.state(run))["waits_for"] == ["its due time"]
    assert [(await lab.state(one))["state"] for one in (now, beside)] == ["running"] * 2, "on other ports, at once"
    assert [(await lab.ended(one))["state"] for one in (now, beside)] == ["succeeded"] * 2
    end = await lab.ended(run)
    assert end["state"] == "succeeded"
    assert 0 <= end["started_wall_ns"] - end["due_wall_ns"] < 1e9
    assert abs(end["due_wall_ns"] - asked_ns - 90e9) < 1e9


async def test_state_is_one_document_at_every_change_and_one_retained_topic(lab: Lab) -> None:
    run = await lab.start(*ON_FIRST)
    end = await lab.ended(run)
    told = lab.emitted(RunStatus, run=run)
    assert from_plain(end, RunStatus) == told[-1]
    assert end.keys() >= WORDS
    assert (end["state"], end["safe_state"], end["rolled_back"]) == ("succeeded", "as-applied", False)
    stages = [one.stage for one in told]
    assert [stage for stage in stages if stage] == ["journaled", "driving", "read-back", "waiting"]
    assert all(one != other for one, other in itertools.pairwise(told)), "a change that is none"
    await asyncio.sleep(1.0)
    assert json.loads(lab.retained()[run]) == end
    lab.world.faults.set(Unplug(port="h2.eth0"))
    end = await lab.ended(await lab.start(f"apply: {{pairs: {SECOND}}}", "wait: {for: ready, within_s: 3}"))
    assert (end["state"], end["fault_class"], end["rolled_back"]) == ("failed", "not ready in time", True)
    assert end["why"].startswith("not ready in time: ")


async def test_aborted_run_says_by_whom_and_a_queued_one_is_just_taken_out(lab: Lab) -> None:
    first, second, third = [await lab.start(*ALL) for _ in range(3)]
    out = await lab.in_daemon(lab.service.runs.abort(second, ActBody(by="ada")))
    assert (out.outcome, out.why) == ("aborted", "by ada, before it began")
    assert [one.run for one in lab.service.runs.queue()] == [third]
    await lab.in_daemon(lab.service.runs.abort(first, ActBody(by="bob")))
    ends = [await lab.ended(run) for run in (first, second, third)]
    assert [end["state"] for end in ends] == ["aborted", "aborted", "succeeded"]
    assert [end["by"] for end in ends] == ["bob", "ada", None]
    assert ends[1]["started_wall_ns"] is None
    assert [run.outcome for run in await lab.service.runs.runs() if run.id == second] == ["aborted"]


async def test_paused_run_stands_between_two_steps_with_its_lease_until_it_is_resumed(lab: Lab) -> None:
    run = await lab.start("lease: {ports: all, for_s: 30}", *ON_FIRST, "wait: {for_s: 5}")
    await asyncio.sleep(0.01)
    assert lab.service.runs.pause(run, ByBody(by="ada")).state == "running"
    await asyncio.sleep(70.0)
    paused = await lab.state(run)
    assert (paused["state"], paused["by"], paused["stage"]) == ("paused", "ada", None)
    assert [step.step for step in lab.emitted(RunStep, state="done")] == [1, 2], "it stands at a border"
    (lease,) = lab.service.leases.leases()
    assert 29 < float(str(lease.left_s)) < 61, "it is held a minute at a time, however long"
    other = await lab.start(*ON_FIRST)
    assert (await lab.state(other))["waits_for"] == [f"run {run}"]
    lab.service.runs.resume(run, ByBody(by="bob"))
    assert [(await lab.ended(one))["state"] for one in (run, other)] == ["succeeded"] * 2
    assert not lab.service.leases.leases()
    assert [(one.by, one.branch) for one in lab.emitted(RunPaused)] == [("ada", "")]
    assert [one.branch for one in lab.emitted(RunResumed)] == [""]


async def test_pause_with_little_lease_left_renews_it_now_and_then_and_gives_back_what_was_left(lab: Lab) -> None:
    steps = "wait: {for_s: 0.9995}", "wait: {for_s: 0.0001}", "wait: {for_s: 5}"
    run = await lab.start("lease: {ports: all, for_s: 1}", *steps)
    await asyncio.sleep(0.5)
    lab.service.runs.pause(run, ByBody(by="ada"))
    await asyncio.sleep(70.5)
    assert (await lab.state(run))["state"] == "paused"
    assert len(lab.service.leases.leases()) == 1
    assert 1 <= len(lab.emitted(LeaseRenewed)) <= 5
    lab.service.runs.resume(run, ByBody(by="ada"))
    resumed_ns = lab.world.clock.wall_ns()
    await asyncio.sleep(0.1)
    assert lab.emitted(LeaseRenewed)[-1].expires_wall_ns - resumed_ns < 2e6
    assert lab.emitted(LeaseReleased)[-1].why == "expired"
    assert (await lab.ended(run))["state"] == "succeeded"


async def test_branches_paused_under_one_lease_go_on_with_what_it_had_left(lab: Lab) -> None:
    branch = "[{wait: {for_s: %g}}, {wait: {for_s: 1}}]"
    both = f"parallel: {{left: {branch % 1}, right: {branch % 5}}}"
    run = await lab.start("lease: {ports: all, for_s: 30}", both)
    await asyncio.sleep(0.5)
    lab.service.runs.pause(run, ByBody(by="ada"))
    await asyncio.sleep(70.0)
    assert len(lab.service.leases.leases()) == 1
    assert sorted(one.branch for one in lab.emitted(RunPaused)) == ["left", "right"]
    lab.service.runs.resume(run, ByBody(by="ada"))
    resumed_ns = lab.world.clock.wall_ns()
    await asyncio.sleep(0.1)
    left_s = (lab.emitted(LeaseRenewed)[-1].expires_wall_ns - resumed_ns) / 1e9
    assert left_s == pytest.approx(29.0, abs=0.1), "as when the first of them stood"
    assert (await lab.ended(run))["state"] == "succeeded"


async def test_what_does_not_go_on_cannot_be_paused_or_resumed(lab: Lab) -> None:
    run, waits = await lab.start(*ALL), await lab.start(*ALL)
    with pytest.raises(RefusedError, match="is queued, and does not go on"):
        lab.service.runs.pause(waits, ByBody(by="ada"))
    with pytest.raises(RefusedError, match="is not paused"):
        lab.service.runs.resume(run, ByBody(by="ada"))
    await lab.ended(run)
    for name in ("zzzz", run):
        with pytest.raises(RefusedError, match="not under way"):
            lab.service.runs.pause(name, ByBody(by="ada"))


async def test_queue_and_due_times_survive_a_daemon_that_is_killed(lab: Lab) -> None:
    first = await lab.start(*ALL)
    second, late = await lab.start(*ALL), await lab.start(*ON_SECOND, due_in_s=60.0)
    await asyncio.sleep(0.2)
    await lab.next_life()
    service = lab.service
    crashed = await lab.state(first)
    assert (crashed["state"], crashed["safe_state"]) == ("crashed", "unknown")
    assert crashed["step"] is not None, "how far it came is known"
    assert late in [one.run for one in service.runs.queue()]
    assert [(await lab.ended(run))["state"] for run in (second, late)] == ["succeeded"] * 2
    rows = {run.id: run.state for run in await lab.in_daemon(lab.service.runs.runs())}
    assert rows == {first: "crashed", second: "succeeded", late: "succeeded"}
    (recovered,) = lab.emitted(DaemonRecovered)
    facts = [type(one.fact) for one in lab.world.documents]
    assert recovered.outcome == "rolled-back"
    began = facts.index(RunStarted, facts.index(RunStarted) + 1)
    assert facts.index(DaemonRecovered) < began, "the queue goes on when the switches are back"


async def test_queue_waits_for_the_lab_after_a_restart_but_not_for_ever(lab: Lab) -> None:
    await lab.start(*ALL)
    waits = await lab.start(*ON_SECOND[:1], due_in_s=10.0)
    lab.world.rack.switches["ocs1"].faults.refusing = True
    lab.world.kill(DAEMON)
    lab.world.start_daemon()
    await asyncio.sleep(20.0)
    assert (await lab.state(waits))["waits_for"] == ["the switches and hosts to be there"]
    await asyncio.sleep(15.0)
    assert (await lab.ended(waits))["state"] == "succeeded", "its own switch is there"


async def test_what_is_queued_stays_when_the_daemon_ends_in_order(lab: Lab) -> None:
    first, second = await lab.start(*ALL), await lab.start(*ALL)
    await asyncio.sleep(0.02)
    await lab.world.stop(DAEMON)
    assert json.loads(lab.retained()[first])["state"] == "aborted"
    assert json.loads(lab.retained()[second])["state"] == "queued"
    lab.world.start_daemon()
    await lab.world.settled()
    assert (await lab.ended(second))["state"] == "succeeded"
    aborted = await lab.state(first)
    assert (aborted["state"], aborted["by"]) == ("aborted", "the end of the daemon")


async def test_faults_and_settings_of_a_crashed_run_are_undone(lab: Lab) -> None:
    await lab.start(
        "lease: {ports: all, for_s: 300}",
        "fault: {switch: ocs1, fault: slow, seconds: 0.5}",
        "host: {ports: [h0.eth0], set: {mtu: 4200}}",
        "wait: {for_s: 100}",
    )
    lab.world.rack.switches["ocs2"].faults.slow_s = 0.25
    await asyncio.sleep(5.0)
    assert lab.world.rack.switches["ocs1"].faults.slow_s == 0.5
    assert lab.emitted(RunHost, action="mtu")
    await lab.next_life()
    await asyncio.sleep(10.0)
    slow_s = [lab.world.rack.switches[name].faults.slow_s for name in ("ocs1", "ocs2")]
    assert slow_s == [0.0, 0.25], "what others set stays"
    assert lab.emitted(RunHost, action="put-back", port="h0.eth0")


TWO_SLOW = ("fault: {switch: ocs1, fault: slow, seconds: 0.5}", "fault: {switch: ocs2, fault: slow, seconds: 0.5}")


class Rack:
    """The daemon's way to the rack's control socket; to clear a switch fails as long as it is in `failing`."""

    def __init__(self, lab: Lab, **failing: HwdError) -> None:
        self._set_fault = lab.world.set_fault
        self.failing = failing
        lab.world.set_fault = self

    async def __call__(self, fault: Fault) -> None:
        if isinstance(fault, Clear) and (error := self.failing.get(str(fault.switch))) is not None:
            raise error
        await self._set_fault(fault)


def slow_s(lab: Lab) -> list[float]:
    return [lab.world.rack.switches[name].faults.slow_s for name in ("ocs1", "ocs2")]


@pytest.mark.parametrize("error", [LinkError("rack: timed out"), ConfigError("ocs1: cannot")])
async def test_fault_that_the_rack_does_not_clear_is_said_to_stay_and_is_cleared_when_it_can_be(
    lab: Lab, error: HwdError
) -> None:
    rack = Rack(lab, ocs1=error)
    end = await lab.ended(await lab.start(*TWO_SLOW))
    assert slow_s(lab) == [0.5, 0.0], "the other is cleared"
    assert end["state"] == "failed"
    assert f"faults of twins: not undone: run {end['run']}: not all faults of twins are cleared: {error}" in end["why"]
    assert Clear() not in [one.fault for one in lab.emitted(RunFault)]
    await asyncio.sleep(30)
    assert slow_s(lab) == [0.5, 0.0]
    rack.failing.clear()
    await asyncio.sleep(10)
    assert slow_s(lab) == [0.0, 0.0]


async def test_fault_that_stays_outlives_the_daemon_and_is_cleared_by_a_later_one_while_its_rack_is_up(
    lab: Lab,
) -> None:
    rack = Rack(lab, ocs1=LinkError("rack: timed out"))
    await lab.ended(await lab.start(*TWO_SLOW))
    await lab.next_life()
    await asyncio.sleep(10)
    assert slow_s(lab) == [0.5, 0.0]
    rack.failing.clear()
    await lab.next_life()
    assert slow_s(lab) == [0.0, 0.0]
    rack = Rack(lab, ocs1=NoRackError("the twin rack is not up"))
    end = await lab.ended(await lab.start(*TWO_SLOW))
    assert end["state"] == "succeeded"
    rack.failing.clear()
    await lab.next_life()
    assert slow_s(lab) == [0.5, 0.0], "of a rack that is not up any more it is forgotten: nobody asks the next for it"


async def test_run_does_not_begin_a_fault_where_one_of_another_run_stays(lab: Lab) -> None:
    rack = Rack(lab, ocs1=LinkError("rack: timed out"))
    await lab.ended(await lab.start(*TWO_SLOW))
    silent = "fault: {switch: ocs1, fault: half}"
    end = await lab.ended(await lab.start(silent))
    assert (end["state"], end["fault_class"]) == ("failed", "failed")
    assert not lab.world.rack.switches["ocs1"].faults.half_next
    rack.failing.clear()
    assert (await lab.ended(await lab.start(silent, "note: set")))["state"] == "succeeded"
    assert slow_s(lab) == [0.0, 0.0]


async def test_end_of_a_run_is_told_again_by_the_next_daemon_and_topics_of_old_runs_are_cleared(lab: Lab) -> None:
    end = await lab.ended(await lab.start("note: one"))
    told = len(lab.emitted(RunStatus))
    await lab.next_life()
    again = [from_plain(end, RunStatus)]
    assert lab.emitted(RunStatus)[told:] == again, "who followed it may not have heard of its end"
    stranger = f"hwd/1/{lab.world.testbed.name}/runs/of-an-old-daemon"
    lab.world.broker.take(stranger, b'{"run": "of-an-old-daemon"}', 1, retain=True)
    runs = []
    for _ in range(35):
        runs.append(await lab.start("note: here"))
        await lab.ended(runs[-1])
        await asyncio.sleep(0.01)
    await lab.next_life()
    await asyncio.sleep(1.0)
    assert sorted(lab.retained()) == sorted(runs[-32:])


async def test_queue_has_a_length_and_names_a_few_of_those_before(lab: Lab) -> None:
    first = await lab.start(*ALL)
    waiting = [await lab.start(*ALL) for _ in range(QUEUED_MAX)]
    last = (await lab.state(waiting[-1]))["waits_for"]
    assert last == [f"run {run}" for run in (first, *waiting[: NAMED - 1])] + [f"{QUEUED_MAX - NAMED} more"]
    with pytest.raises(RefusedError, match=f"{QUEUED_MAX} runs wait already"):
        await lab.start(*ALL)
    assert [one.run for one in lab.service.runs.queue()] == waiting
    await lab.in_daemon(lab.service.runs.abort(waiting[0], ActBody(by="ada")))
    await lab.start(*ALL)
    assert len(lab.service.runs.queue()) == QUEUED_MAX


# --- playbooks that take long to read


LONG = f"""\
playbook: long
steps:
  - sweep: {{i: {{from: 1, to: 100}}}}
    steps:
      - note: '{"{{i}}" * 390}'
"""


DEMAND = """\
playbook: two-layers
shows: nothing
steps:
  - sweep: {layer: [0, 1, 0]}
    steps:
      - apply: {topology: matching, demand: moe, layer: "{{ layer }}"}
"""


async def no_demand(key: DemandKey) -> DemandMatrix:
    raise UnknownError(f"{key}: not stored")


@pytest.fixture
def testbed(tmp_path: Path) -> Testbed:
    (tmp_path / "two.yaml").write_text(TESTBED)
    return load(tmp_path / "two.yaml").require()


async def test_loop_turns_while_a_playbook_is_read(testbed: Testbed) -> None:
    offload = ThreadOffload(1)
    reader = PlaybookReader(InUse(Fabric(testbed)), offload, no_demand)
    reading = asyncio.create_task(reader.read(LONG, file="long.yaml", parameters={}))
    turns = 0
    while not reading.done():
        turns += 1
        await asyncio.wait([reading], timeout=0.01)
    assert reading.result().total_steps == 100
    assert turns > 5
    offload.close()


async def test_stored_demands_are_looked_up_once_each(testbed: Testbed) -> None:
    asked: list[DemandKey] = []

    async def find(key: DemandKey) -> DemandMatrix:
        asked.append(key)
        return DemandMatrix(name="moe", layer=key.layer, microbatch=0, hosts=["h0", "h1"], bytes=[[0, 5], [5, 0]])

    playbook = await PlaybookReader(InUse(Fabric(testbed)), InlineOffload(), find).read(
        DEMAND, file="p.yaml", parameters={}
    )
    assert asked == [DemandKey(name="moe", layer=0), DemandKey(name="moe", layer=1)]
    (sweep,) = playbook.steps
    assert isinstance(sweep, SweepStep)
    wanted = [step.request.wanted for one in sweep.rounds for step in one.steps if isinstance(step, ApplyStep)]
    assert [one.name for one in wanted] == [f"matching demand=moe layer={layer}" for layer in (0, 1, 0)]
    assert all(one.links for one in wanted)
    assert playbook.ports >= {"h0.eth0", "h1.eth0"}


async def test_playbook_names_the_place_of_a_demand_that_is_not_stored_or_finds_no_room_for(testbed: Testbed) -> None:
    reader = PlaybookReader(InUse(Fabric(testbed)), InlineOffload(), no_demand)
    with pytest.raises(ConfigError) as raised:
        await reader.read(DEMAND, file="p.yaml", parameters={})
    assert "p.yaml:6: " in str(raised.value)
    assert "demand moe, layer 0, micro-batch 0: not stored (with layer=0)" in str(raised.value)
    many = DEMAND.replace("[0, 1, 0]", "{from: 0, to: 300}")
    with pytest.raises(ConfigError, match="a playbook reads at most 256 layers and micro-batches of stored demands"):
        await reader.read(many, file="p.yaml", parameters={})
    # A check without a daemon takes a stored demand as it is.
    assert load_playbook_text(DEMAND, file="p.yaml", testbed=testbed).name == "two-layers"
    with pytest.raises(ConfigError, match="'a/b': is no name of a demand"):
        load_playbook_text(DEMAND.replace("moe", "a/b"), file="p.yaml", testbed=testbed)
