"""Where runs say that they left the switches whose light their jobs moved."""

import asyncio
from collections.abc import Callable

from hwd.model.documents.reconfigurations import ReconfigurationEnded
from hwd.model.recorded_run import Run
from hwd.sim.world import DAEMON

from .job_lab import STATIC, Alternates, Lab, Work, of_job, of_jobs

JOB = "  - job: {name: go}\n"
APPLY = "  - apply: {pairs: 'ocs1:1A-4B,4A-1B'}\n"


async def begin(lab: Lab, steps: str) -> str:
    text = f"playbook: test\nsteps:\n{steps}"
    starting = lab.service.start_run(text=text, file="test.yaml", parameters={})
    return (await lab.world.nodes.run_in_node(DAEMON, starting)).run


async def until(is_so: Callable[[], bool]) -> None:
    while True:
        if is_so():
            return
        await asyncio.sleep(0.1)


async def done(lab: Lab, steps: str) -> Run:
    run = await begin(lab, steps)
    await lab.service.wait_run(run)
    return await lab.service.run(run)


async def test_run_whose_job_moved_light_does_not_say_that_its_switches_are_untouched(lab: Lab) -> None:
    run = await done(lab, JOB)
    assert (run.outcome, run.safe_state, lab.light() != "") == ("succeeded", "as-applied", True)
    again = await done(lab, JOB)
    assert (again.outcome, again.safe_state) == ("succeeded", "untouched"), "its light was there before"


@of_job(entry="plane: own", plane=Alternates())
async def test_run_whose_job_plans_each_move_says_so_too(lab: Lab) -> None:
    assert (await done(lab, APPLY + JOB)).safe_state == "as-applied"


@of_jobs(soon=Work(entry=f"{STATIC}, ready_within_s: 3"), late=Work(entry=f"{STATIC}, ready_within_s: 120"))
async def test_run_whose_job_was_moving_light_when_it_was_aborted_says_where_that_is(lab: Lab, work: Work) -> None:
    lab.set_fault({"port": "h1.eth0", "fault": "unplug"})
    run = await begin(lab, JOB)
    await until(lambda: lab.light() != "")
    [job] = [one.id for one in await lab.service.jobs()]
    began_s = asyncio.get_running_loop().time()
    await lab.service.abort_run(run, by="ada")
    assert asyncio.get_running_loop().time() - began_s < 5
    record = await lab.service.run(run)
    is_late = work.entry.endswith("120")
    assert (record.outcome, record.safe_state) == ("aborted", "unknown" if is_late else "before-apply")
    assert record.why.startswith(f"by ada; job {job}: it still moves light" if is_late else "by ada")
    await until(lambda: bool(lab.emitted(ReconfigurationEnded)))
    assert lab.light() == ""


async def test_apply_after_a_job_decides_where_its_switches_are(lab: Lab) -> None:
    dark = "  - fault: {port: h1.eth1, fault: unplug}\n"
    run = await done(lab, JOB + dark + APPLY + "  - wait: {for: ready, within_s: 1}\n")
    assert (run.outcome, run.safe_state) == ("failed", "before-apply")
    rolled_back = await done(lab, "  - apply: {pairs: 'ocs1:1A-2B'}\n" + JOB)
    assert (rolled_back.outcome, rolled_back.safe_state) == ("succeeded", "as-applied")
