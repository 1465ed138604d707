"""What the records keep for runs that have not begun, and for twins that a dead daemon told to misbehave."""

import dataclasses

from msgspec.structs import replace

from hwd.model.recorded_run import Run
from hwd.records import Records
from hwd.records.queued_run import QueuedRun
from hwd_drivers.core.offload import InlineOffload

FIRST = QueuedRun(
    id="zz",
    playbook="smoke",
    playbook_text="playbook: smoke\n",
    file="/a/smoke.yaml",
    parameters={"repeats": "3"},
    queued_wall_ns=5,
)
SECOND = dataclasses.replace(FIRST, id="aa", queued_wall_ns=5, due_wall_ns=99)


async def test_queue_outlives_its_daemon_in_order_of_arrival(url: str) -> None:
    first = Records(url, InlineOffload())
    await first.open()
    await first.queue.add(FIRST)
    await first.queue.add(SECOND)
    first.close()
    second = Records(url, InlineOffload())
    await second.open()
    assert await second.queue.all() == (FIRST, SECOND)
    second.close()


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
