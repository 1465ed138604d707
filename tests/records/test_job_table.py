"""Jobs in the records: those under way, the newest, the events of each, and a file of before there were any."""

import pytest
from msgspec.structs import replace

from hwd.model.job import JobEvent, JobRank, JobRecord, JobState
from hwd.model.plane import Applied, Done, Failure, Grant, Switch
from hwd.model.program import ProgramEnd
from hwd.records import Records, job_table

from .conftest import Restart

JOB = JobRecord(
    id="j1",
    entry="train",
    command=["/usr/bin/true"],
    user="lab",
    ranks=[JobRank(host="h0"), JobRank(host="h1", gpu=3)],
    groups={"world": [0, 1]},
    dimensions={"world": "dp"},
    plane="static",
    plane_arguments={"topology": "ring"},
    shim="ask",
    fallback=False,
    within_s=60.0,
    arrive_within_s=60.0,
    answer_within_s=60.0,
    ready_within_s=30.0,
    key="secret",
    by="ada",
    started_wall_ns=10,
)
ENDED = replace(JOB, state=JobState.SUCCEEDED, ended_wall_ns=99, ends={0: ProgramEnd(status=0)}, joined=[0, 1])


def events(*ranks: int) -> list[JobEvent]:
    return [
        JobEvent.of(Done(rank=rank), (Grant(ranks=(rank,)), Switch(target="a")), at_ns=rank, wall_ns=rank, ticked_s=0.5)
        for rank in ranks
    ]


def ids(records: tuple[JobRecord, ...]) -> list[str]:
    return [record.id for record in records]


async def test_job_and_its_events_outlive_the_daemon(restart: Restart) -> None:
    first = await restart()
    failure = JobEvent.of(Failure(why="x", hosts=("h0",)), (), at_ns=5, wall_ns=6, ticked_s=None)
    await first.jobs.save(replace(JOB, state=JobState.RUNNING, joined=[1], lease="l1", prepared_set="p1"))
    await first.jobs.put("j1", 0, [*events(1), failure])
    second = await restart()
    (found,) = await second.jobs.under_way()
    assert found == replace(JOB, state=JobState.RUNNING, joined=[1], lease="l1", prepared_set="p1")
    assert await second.jobs.events("j1") == (*events(1), failure)


async def test_job_that_is_saved_again_replaces_the_stored_one(memory: Records) -> None:
    await memory.jobs.save(JOB)
    await memory.jobs.put("j1", 0, events(0))
    await memory.jobs.save(ENDED)
    assert await memory.jobs.get("j1") == ENDED
    assert await memory.jobs.latest(9) == (ENDED,)
    assert await memory.jobs.events("j1") == tuple(events(0))
    assert (await memory.jobs.get("j2"), await memory.jobs.events("j2")) == (None, ())


async def test_jobs_under_way_are_read_oldest_first_and_the_latest_newest_first(memory: Records) -> None:
    for id, started in (("a", 20), ("b", 30), ("c", 10), ("e", 40), ("d", 40)):
        await memory.jobs.save(replace(JOB, id=id, started_wall_ns=started))
    assert ids(await memory.jobs.under_way()) == ["c", "a", "b", "d", "e"]
    assert ids(await memory.jobs.latest(3)) == ["e", "d", "b"]
    await memory.jobs.save(replace(ENDED, id="a", started_wall_ns=20))
    assert ids(await memory.jobs.under_way()) == ["c", "b", "d", "e"]
    assert ids(await memory.jobs.latest(9)) == ["e", "d", "b", "a", "c"]
    for state in JobState:
        await memory.jobs.save(replace(JOB, id="c", state=state))
        assert ("c" in ids(await memory.jobs.under_way())) is not state.ended, state


async def test_events_are_read_in_the_order_of_their_numbers(memory: Records) -> None:
    await memory.jobs.put("j1", 0, events(8, 1))
    await memory.jobs.put("j2", 0, events(7))
    await memory.jobs.put("j1", 1, events(9, 2, 5))
    await memory.jobs.put("j1", 4, [JobEvent.of(Applied(target="a"), (), at_ns=3, wall_ns=9, ticked_s=None)])
    assert [event.at_ns for event in await memory.jobs.events("j1")] == [8, 1, 2, 5, 3]
    assert await memory.jobs.events("j2") == tuple(events(7))


async def test_oldest_jobs_that_have_ended_go_with_their_events_and_none_that_is_under_way(
    memory: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_table, "KEPT", 2)
    await memory.jobs.save(replace(JOB, id="long", started_wall_ns=1))
    await memory.jobs.put("long", 0, events(0))
    for number in (3, 2, 4, 5):
        await memory.jobs.save(replace(JOB, id=f"j{number}", started_wall_ns=number))
        await memory.jobs.put(f"j{number}", 0, events(number))
    assert len(await memory.jobs.latest(9)) == 5
    for number in (3, 2, 4, 5):
        await memory.jobs.save(replace(ENDED, id=f"j{number}", started_wall_ns=number))
    assert ids(await memory.jobs.latest(9)) == ["j5", "j4", "long"]
    kept = {id for id in ("long", "j2", "j3", "j4", "j5") if await memory.jobs.events(id)}
    assert kept == {"long", "j4", "j5"}


async def test_jobs_of_a_run_are_found_by_it_oldest_first(restart: Restart) -> None:
    records = await restart()
    for number, run in enumerate(["k3v9a1xx", "", "k3v9a1xx"]):
        await records.jobs.save(replace(JOB, id=f"j{number}", run=run, started_wall_ns=number))
    assert ids(await records.jobs.of_run("k3v9a1xx")) == ["j0", "j2"]
    assert ids(await records.jobs.of_run("k3v9a1zz")) == ids(await records.jobs.of_run("")) == []
