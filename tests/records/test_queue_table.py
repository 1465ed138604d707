"""What the records keep for runs that have not begun, and for twins that a dead daemon told to misbehave."""

import dataclasses
from collections.abc import Awaitable, Callable

from msgspec import UNSET
from msgspec.structs import replace

from hwd.model.recorded_run import Run
from hwd.model.trial import TrialRun
from hwd.records import Records
from hwd.records.queued_run import QueuedRun

Restart = Callable[..., Awaitable[Records]]

FIRST = QueuedRun(
    id="zz",
    playbook="smoke",
    playbook_text="playbook: smoke\n",
    file="/a/smoke.yaml",
    parameters={"repeats": "3"},
    queued_wall_ns=5,
)
PLACE = TrialRun(trial="k3v9a1b2", treatment="b", pair=3, metric="control")
SECOND = dataclasses.replace(FIRST, id="aa", queued_wall_ns=5, due_wall_ns=99, trial=PLACE)


async def test_queue_outlives_its_daemon_in_order_of_arrival(restart: Restart) -> None:
    first = await restart()
    await first.queue.add(FIRST)
    await first.queue.add(SECOND)
    second = await restart()
    assert await second.queue.all() == (FIRST, SECOND)


async def test_place_in_a_trial_is_in_the_run(restart: Restart, started: Run) -> None:
    records = await restart()
    await records.start_run(replace(started, id="aa", trial=PLACE))
    await records.start_run(replace(started, id="bb"))
    assert {run.id: run.trial for run in await records.runs()} == {"aa": PLACE, "bb": UNSET}
    assert (await records.run("aa")).trial == PLACE


async def test_run_that_begins_leaves_the_queue(memory: Records, started: Run) -> None:
    await memory.queue.add(FIRST)
    await memory.queue.add(SECOND)
    await memory.start_run(replace(started, id=FIRST.id))
    assert await memory.queue.all() == (SECOND,)


async def test_faults_of_a_run_are_kept_once_until_they_are_cleared(memory: Records) -> None:
    for run, subject in (("a", "x"), ("a", "x"), ("a", "y"), ("b", "x")):
        await memory.twin_faults.add(run, subject)
    assert await memory.twin_faults.all() == {"a": {"x", "y"}, "b": {"x"}}
    await memory.twin_faults.remove("a", "x")
    await memory.twin_faults.remove("a", "none")
    assert await memory.twin_faults.all() == {"a": {"y"}, "b": {"x"}}
