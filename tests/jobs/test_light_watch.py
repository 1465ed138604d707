"""The light of a job that somebody else moves: no rank is let go until it is back, or the job fails and says who."""

import asyncio
from collections.abc import Callable

from hwd.jobs.light_watch import BACK_WITHIN_S, MOVED_MOST
from hwd.model.bodies import ActBody, KickBody, RunBody, SwitchBody
from hwd.model.job import JobEnded, JobGranted, JobMoved, JobOverridden, JobSwitched
from hwd.model.job_status import JobStatus
from hwd.model.lease import LeaseReleased
from hwd.model.reconfiguration import ReconfigurationEnded
from hwd.model.recorded_run import Run
from hwd.sim.rank import Rank
from hwd.sim.world import DAEMON
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.values import Crossconnect

from .job_lab import STATIC, Alternates, Lab, Work, asked, ended, of_job, of_jobs, start, when
from .test_job_run import Regions

POLL_S = 6.0
"""The daemon has read a switch within so long."""


def take(lab: Lab, *texts: str) -> None:
    """At the front panel, or by a program beside hwd."""
    mirror, now_ns = lab.world.rack.switches["ocs1"].mirror, lab.world.clock.monotonic_ns()
    mirror.disconnect([Crossconnect.parse(text) for text in texts], now_ns)


async def at_rest(lab: Lab, job: str) -> JobStatus:
    """Until no rank sends."""
    while True:
        status = await lab.service.jobs.job(job)
        if status.at and all(rank.state != "sending" for rank in status.ranks):
            return status
        await asyncio.sleep(0.01)


async def until_moves(lab: Lab, count: int) -> int:
    """Until so much was said of light that others moved; returns how many ranks were let go by then."""
    while len(lab.emitted(JobMoved)) < count:  # noqa: ASYNC110 - nothing is to be waited for but time
        await asyncio.sleep(0.01)
    return len(lab.emitted(JobGranted))


async def stop(lab: Lab, job: str) -> None:
    lab.service.jobs.stop(job, ActBody(by="ada"), None)


async def operate(lab: Lab, job: str, target: str, why: str) -> None:
    """An operator switches the set of a job by override, as soon as no rank sends."""
    await at_rest(lab, job)
    (held,) = lab.service.sets.sets()
    switch = lab.service.sets.switch(held.id, SwitchBody(target=target, by="ben", override={"job": why}))
    await lab.world.nodes.run_in_node(DAEMON, switch)


@of_jobs(set=Work(steps=60), regions=Work(entry="plane: own", plane=Regions(), steps=60))
async def test_light_that_is_taken_at_a_front_panel_is_brought_back_and_who_is_said(lab: Lab, work: Work) -> None:
    job = await start(lab, asked(1))
    taken, *_ = lit = lab.light()
    take(lab, taken)
    moved = await when(lab, job, lambda status: status.moved or status.moves_of_others)
    assert "another client of ocs1, or at its front panel" in (moved.moved or moved.moves_of_others[0])
    back = await when(lab, job, lambda status: status.moves_of_others)
    assert (lab.light(), back.state, back.moved) == (lit, "running", "")
    gone, over = lab.emitted(JobMoved)
    assert (taken in gone.what, gone.is_over, over.is_over) == (True, False, True)
    assert len(lab.emitted(JobSwitched)) == (1 if work.plane is None else 2), "its plane hears nothing of it"
    granted = len(lab.emitted(JobGranted))
    assert (await ended(lab, job)).state == "succeeded"
    assert len(lab.emitted(JobGranted)) > granted
    (found,) = await lab.service.jobs.verification(job)
    assert {one.kind for one in found.breaches} <= {"dark"}, "of what was under way before the daemon could see it"


@of_job(entry="plane: static topology=ring, ready_within_s: 2", steps=40)
async def test_nobody_is_let_go_while_the_light_is_away(lab: Lab) -> None:
    job = await start(lab, asked(1))
    await at_rest(lab, job)
    lab.set_fault({"port": "h1.eth0", "fault": "unplug"})  # what is taken cannot be brought back
    take(lab, lab.light()[0])
    status = await when(lab, job, lambda status: status.moved)
    granted = len(lab.emitted(JobGranted))
    await asyncio.sleep(BACK_WITHIN_S / 2)
    status = await lab.service.jobs.job(job)
    assert (status.state, status.at, len(lab.emitted(JobGranted))) == ("running", "", granted)
    lab.set_fault({"port": "h1.eth0", "fault": "clear"})
    back = await when(lab, job, lambda status: not status.moved)
    assert back.at == "static"
    status = await ended(lab, job)
    assert (status.state, status.why) == ("succeeded", "")


@of_job(entry="plane: static topology=ring, ready_within_s: 2", steps=400)
async def test_light_that_cannot_be_brought_back_fails_its_job_which_names_who_moved_it(lab: Lab) -> None:
    job = await start(lab, lambda status: status.at)
    await at_rest(lab, job)
    lab.set_fault({"port": "h1.eth0", "fault": "unplug"})
    taken, *_ = lab.light()
    take(lab, taken)
    began_s = asyncio.get_running_loop().time()
    status = await ended(lab, job)
    assert BACK_WITHIN_S <= asyncio.get_running_loop().time() - began_s < BACK_WITHIN_S + POLL_S + 30
    assert status.state == "failed"
    assert f"another client of ocs1, or at its front panel: -{taken}" in status.why
    assert f"could not be brought back within {BACK_WITHIN_S:g} s" in status.why
    assert (await lab.service.rack.status()).leases == []


@of_job(entry="plane: static topology=ring", steps=60)
async def test_light_that_is_taken_again_while_its_way_back_is_recorded_is_brought_back_again(lab: Lab) -> None:
    job = await start(lab, lambda status: status.at)
    await at_rest(lab, job)
    taken, *_ = lit = lab.light()
    take(lab, taken)
    await when(lab, job, lambda status: status.moved)
    lab.world.records_disk.delay_s = lambda: POLL_S  # before what it writes, and after it
    granted = await until_moves(lab, 2)
    assert lab.light() == lit
    take(lab, taken)
    assert await until_moves(lab, 3) == granted
    lab.world.records_disk.delay_s = lambda: 0.0
    assert await until_moves(lab, 4) == granted, "nobody was let go in the dark"
    assert lab.light() == lit
    status = await ended(lab, job)
    assert (status.state, len(status.moves_of_others)) == ("succeeded", 2)


@of_job(entry="plane: static topology=ring, ready_within_s: 2", steps=400)
async def test_job_that_ends_while_its_light_is_away_says_so_and_who_moved_it(lab: Lab) -> None:
    job = await start(lab, lambda status: status.at)
    await at_rest(lab, job)
    lab.set_fault({"port": "h1.eth0", "fault": "unplug"})  # what is taken cannot be brought back
    taken, *_ = lab.light()
    take(lab, taken)
    await when(lab, job, lambda status: status.moved)
    await lab.world.nodes.run_in_node(DAEMON, stop(lab, job))
    status = await ended(lab, job)
    words = f"moved from static by another client of ocs1, or at its front panel: -{taken}"
    assert (status.state, f"its light had been {words}" in status.why) == ("stopped", True)
    assert status.why.endswith("and was not back")
    (line,) = status.moves_of_others
    assert line.endswith("not back at its end")


@of_job(steps=400)
async def test_light_that_is_moved_again_and_again_fails_its_job(lab: Lab) -> None:
    job = await start(lab, lambda status: status.at)
    for number in range(MOVED_MOST + 1):
        await operate(lab, job, "before", f"look {number}")
    status = await ended(lab, job)
    assert status.state == "failed"
    assert "its light was moved 4 times within 60 s, the last time from static by ben (unverified): look 3" in (
        status.why
    )
    (end,) = lab.emitted(JobEnded)
    assert end.why == status.why
    assert {one.verified for one in lab.emitted(JobOverridden)} == {False}


@of_job(steps=12)
async def test_rank_of_a_job_switches_its_set_by_its_key_and_its_plane_has_the_last_word(lab: Lab) -> None:
    job = await start(lab)
    await at_rest(lab, job)
    (held,), lit = lab.service.sets.sets(), lab.light()
    assert lab.world.daemon is not None
    key = lab.world.daemon.service.jobs._jobs.runs[job].job.record.key
    rank = await Rank.connect(lab.world, "h0")
    answer = await rank.switch_set(held.id, "before", key=key)
    while answer["outcome"] == "refused" and "in flight" in answer["why"]:
        await at_rest(lab, job)
        answer = await rank.switch_set(held.id, "before", key=key)
    assert answer["outcome"] == "switched", answer
    back = await when(lab, job, lambda status: status.moves_of_others)
    assert "rank on h0 (unverified)" in back.moves_of_others[0]
    assert (await ended(lab, job)).state == "succeeded"
    (found,) = await lab.service.jobs.verification(job)
    assert found.breaches == []
    assert lab.light() == lit


@of_jobs(set=Work(steps=5), regions=Work(entry="plane: own", plane=Regions(), steps=5))
async def test_light_that_was_taken_while_the_daemon_was_away_is_back_before_anybody_is_let_go(
    lab: Lab, work: Work
) -> None:
    job = await start(lab, asked(2))
    lit = lab.light()
    lab.kill_daemon()
    await asyncio.sleep(2)  # what was let go has ended
    take(lab, lab.light()[0])
    granted = len(lab.emitted(JobGranted))
    lab.world.start_daemon()
    await lab.world.settled()
    await when(lab, job, lambda status: len(lab.emitted(JobGranted)) > granted)
    assert lab.light() == lit
    status = await ended(lab, job)
    assert (status.state, status.why) == ("succeeded", "")
    (found,) = await lab.service.jobs.verification(job)
    assert found.breaches == []
    if work.plane is not None:
        assert "while the daemon was away" in lab.emitted(JobMoved)[0].by


@of_job(entry="plane: own", plane=Alternates(links=1), steps=10)
async def test_light_that_is_moved_under_a_plane_that_moves_it_holds_what_it_promises(lab: Lab) -> None:
    job = await start(lab, lambda status: status.at)
    refused = 0
    for number in range(3):
        await asyncio.sleep(0.07 * number)
        try:
            await operate(lab, job, "before", f"look {number}")
        except RefusedError as error:  # its own move is under way, or a rank sends
            refused += "reconfiguration" in str(error) or "in flight" in str(error)
    status = await ended(lab, job)
    assert (status.state, status.why) == ("succeeded", "")
    (found,) = await lab.service.jobs.verification(job)
    assert found.breaches == []
    assert refused + len([one for one in lab.emitted(JobMoved) if not one.is_over]) >= 1


@of_job(steps=50)
async def test_job_whose_lease_is_kicked_lets_nobody_go_from_that_moment_on(lab: Lab) -> None:
    job = await start(lab, lambda status: status.at)
    (lease,) = lab.service.leases.leases()
    kick = lab.service.leases.kick(lease.lease, KickBody(by="ada", why="the night run"))
    await lab.world.nodes.run_in_node(DAEMON, kick)
    assert lab.emitted(LeaseReleased)
    assert (await lab.service.rack.status()).jobs[0].state == "stopping", "it did not wait for its next tick"
    status = await ended(lab, job)
    assert status.state == "failed"
    assert "its lease has ended, so others may take its light: " in status.why
    assert lease.lease in status.why
    assert (lab.service.leases.leases(), lab.world.processes.running) == ([], [])


# --- where runs say that they left the switches whose light their jobs moved


JOB = "  - job: {name: go}\n"
APPLY = "  - apply: {pairs: 'ocs1:1A-4B,4A-1B'}\n"


async def begin(lab: Lab, steps: str) -> str:
    text = f"playbook: test\nsteps:\n{steps}"
    starting = lab.service.runs.start(RunBody(text=text, file="test.yaml", parameters={}))
    return (await lab.world.nodes.run_in_node(DAEMON, starting)).run


async def until(is_so: Callable[[], bool]) -> None:
    while True:
        if is_so():
            return
        await asyncio.sleep(0.1)


async def done(lab: Lab, steps: str) -> Run:
    run = await begin(lab, steps)
    await lab.service.runs.wait(run)
    return await lab.service.runs.run(run)


async def test_run_whose_job_moved_light_does_not_say_that_its_switches_are_untouched(lab: Lab) -> None:
    run = await done(lab, JOB)
    assert (run.outcome, run.safe_state, lab.light() != []) == ("succeeded", "as-applied", True)
    again = await done(lab, JOB)
    assert (again.outcome, again.safe_state) == ("succeeded", "untouched"), "its light was there before"


@of_job(entry="plane: own", plane=Alternates())
async def test_run_whose_job_plans_each_move_says_so_too(lab: Lab) -> None:
    assert (await done(lab, APPLY + JOB)).safe_state == "as-applied"


@of_jobs(soon=Work(entry=f"{STATIC}, ready_within_s: 3"), late=Work(entry=f"{STATIC}, ready_within_s: 120"))
async def test_run_whose_job_was_moving_light_when_it_was_aborted_says_where_that_is(lab: Lab, work: Work) -> None:
    lab.set_fault({"port": "h1.eth0", "fault": "unplug"})
    run = await begin(lab, JOB)
    await until(lambda: lab.light() != [])
    [job] = [one.id for one in await lab.service.jobs.jobs()]
    began_s = asyncio.get_running_loop().time()
    await lab.service.runs.abort(run, ActBody(by="ada"))
    assert asyncio.get_running_loop().time() - began_s < 5
    record = await lab.service.runs.run(run)
    is_late = work.entry.endswith("120")
    assert (record.outcome, record.safe_state) == ("aborted", "unknown" if is_late else "before-apply")
    assert record.why.startswith(f"by ada; job {job}: it still moves light" if is_late else "by ada")
    await until(lambda: bool(lab.emitted(ReconfigurationEnded)))
    assert lab.light() == []


async def test_apply_after_a_job_decides_where_its_switches_are(lab: Lab) -> None:
    dark = "  - fault: {port: h1.eth1, fault: unplug}\n"
    run = await done(lab, JOB + dark + APPLY + "  - wait: {for: ready, within_s: 1}\n")
    assert (run.outcome, run.safe_state) == ("failed", "before-apply")
    rolled_back = await done(lab, "  - apply: {pairs: 'ocs1:1A-2B'}\n" + JOB)
    assert (rolled_back.outcome, rolled_back.safe_state) == ("succeeded", "as-applied")
