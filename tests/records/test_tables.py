"""What the records keep for long: moves, what is desired, runs that wait, leases, demands, jobs."""

import dataclasses
import struct
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from hwd.model.demand import DemandKey, NewDemand
from hwd.model.job import JobEvent, JobRank, JobRecord, JobState
from hwd.model.plane import Applied, Done, Failure, Grant, Switch
from hwd.model.program import ProgramEnd
from hwd.model.reconfiguration import ReconfigurationEnded, WantedSwitch
from hwd.model.recorded_run import Run
from hwd.model.run import TrialRun
from hwd.model.switch import SwitchAdopted
from hwd.ports import claim
from hwd.ports.lease_record import LeaseRecord
from hwd.ports.lease_request import LeaseRequest
from hwd.records import Records, demand_table, job_table
from hwd.records.entry import entry
from hwd.records.queue_table import QueuedRun
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.errors import ConfigError, RefusedError, UnknownError
from hwd_drivers.devices.facts import SwitchCommand

from ..jobs.job_record import job_record
from ..texts import ends_of, pairs_of, switch_pairs_of
from .conftest import Restart
from .facts import document


def command(*moved: str, switch: str = "ocs1") -> Document:
    return document(
        SwitchCommand(switch=switch, verb="connect", outcome="done", seconds=0.1, code="", text="", moved=[*moved])
    )


async def test_moves_add_up_over_documents_batches_and_restarts(restart: Restart) -> None:
    records = await restart()
    await records.add([entry(one, run=None) for one in (command("1A", "2B"), command("1A"), command("1A", switch="x"))])
    await records.add([entry(command("2B", "3A"), run=None)])
    again = await restart()
    assert await again.moves.all() == {("ocs1", "1A"): 2, ("ocs1", "2B"): 2, ("ocs1", "3A"): 1, ("x", "1A"): 1}


def confirmed(id: str, crossconnects: str, free: str = "", *, switch: str = "ocs1") -> Fact:
    wanted = [WantedSwitch(switch=switch, crossconnects=pairs_of(*crossconnects.split()), free=ends_of(*free.split()))]
    return ReconfigurationEnded(reconfiguration=id, run=None, outcome="confirmed", why="", seconds=1.0, wanted=wanted)


async def add(records: Records, *facts: Fact) -> None:
    await records.add([entry(document(fact), run=None) for fact in facts])


async def desired(records: Records) -> dict[str, dict[str, str]]:
    return {
        switch: {str(end): f"{one.crossconnect or 'free'} {one.by}" for end, one in ends.items()}
        for switch, ends in (await records.desired.all()).items()
    }


async def test_last_document_of_an_end_counts_over_batches_and_restarts(restart: Restart) -> None:
    records = await restart()
    await add(records, confirmed("a", "1A-2B"), confirmed("b", "1A-4B", "5A"), confirmed("c", "1A-1B", switch="x"))
    again = await restart()
    await add(again, SwitchAdopted(switch="ocs1", crossconnects=pairs_of("5A-6B"), free=[], by="found at the switch"))
    assert await desired(again) == {
        "ocs1": {
            "1A": "1A-4B b",
            "4B": "1A-4B b",
            "2B": "free b",
            "5A": "5A-6B found at the switch",
            "6B": "5A-6B found at the switch",
        },
        "x": {"1A": "1A-1B c", "1B": "1A-1B c"},
    }


async def test_moves_and_desired_state_stay_when_their_documents_are_pruned(restart: Restart) -> None:
    records = await restart(unowned_kept=5)
    await add(records, confirmed("a", "1A-2B"))
    for _ in range(50):
        await records.add([entry(command("1A"), run=None)])
        await add(records, ended_as("b", "failed"))
    assert len(await records.documents()) < 10
    assert await records.moves.all() == {("ocs1", "1A"): 50}
    assert await desired(records) == {"ocs1": {"1A": "1A-2B a", "2B": "1A-2B a"}}


def ended_as(id: str, outcome: str, what: str = "ring") -> ReconfigurationEnded:
    return ReconfigurationEnded(reconfiguration=id, run=None, what=what, outcome=outcome, why="", seconds=0.1)


async def test_documents_of_one_reconfiguration_are_found_by_its_id_and_kind(restart: Restart) -> None:
    records = await restart()
    facts = [
        ended_as("r1", "failed"),
        ended_as("r_", "confirmed"),
        ended_as("R1", "confirmed"),
        ended_as("r2", "confirmed", what='"reconfiguration":"r1"'),
        ended_as("r1", "rolled-back"),
    ]
    await records.add_documents([document(at_ns=1, fact=fact) for fact in facts])
    assert await records.reconfigurations.of("r1", ReconfigurationEnded.KIND) == (facts[4], facts[0])
    assert await records.reconfigurations.of("r_", ReconfigurationEnded.KIND) == (facts[1],)
    assert await records.reconfigurations.of("r1", "reconfiguration.started") == ()
    assert await records.reconfigurations.of("r%", ReconfigurationEnded.KIND) == ()


FIRST_RUN = QueuedRun(
    id="zz",
    playbook="smoke",
    playbook_text="playbook: smoke\n",
    file="/a/smoke.yaml",
    parameters={"repeats": "3"},
    queued_wall_ns=5,
)
PLACE = TrialRun(trial="k3v9a1b2", treatment="b", pair=3, metric="control")
SECOND_RUN = dataclasses.replace(FIRST_RUN, id="aa", queued_wall_ns=5, due_wall_ns=99, trial=PLACE)


async def test_queue_outlives_its_daemon_in_order_of_arrival_and_a_run_that_begins_leaves_it(
    restart: Restart, started: Run
) -> None:
    first = await restart()
    await first.queue.add(FIRST_RUN)
    await first.queue.add(SECOND_RUN)
    second = await restart()
    assert await second.queue.all() == (FIRST_RUN, SECOND_RUN)
    await second.runs.start(replace(started, id=FIRST_RUN.id))
    assert await second.queue.all() == (SECOND_RUN,)


async def test_faults_of_a_run_are_kept_once_until_they_are_cleared(memory: Records) -> None:
    for run, subject in (("a", "x"), ("a", "x"), ("a", "y"), ("b", "x")):
        await memory.twin_faults.add(run, subject)
    assert await memory.twin_faults.all() == {"a": {"x", "y"}, "b": {"x"}}
    await memory.twin_faults.remove("a", "x")
    await memory.twin_faults.remove("a", "none")
    assert await memory.twin_faults.all() == {"a": {"y"}, "b": {"x"}}


def lease_record(id: str, *, epoch: int) -> LeaseRecord:
    ports = frozenset({"ocs1.3", "h0.eth0"})
    return LeaseRecord(
        claim=claim.lease(id=id, holder="ada", ports=ports, taken_wall_ns=1, expires_wall_ns=2_000, epoch=epoch)
    )


async def test_lease_outlives_the_daemon(restart: Restart) -> None:
    lease = lease_record("l1", epoch=4)
    longer = dataclasses.replace(
        lease,
        claim=dataclasses.replace(lease.claim, expires_wall_ns=9_000),
        heartbeat_s=30.0,
        claim_within_s=300.0,
        baseline={"ocs1.3": tuple(switch_pairs_of("ocs1:3A-4B")), "ocs1.4": ()},
    )
    first = await restart()
    await first.leases.save(lease)
    await first.leases.save(longer)
    second = await restart()
    assert await second.leases.all() == (longer,)
    await second.leases.delete("l1")
    await second.leases.delete("l1")
    assert await second.leases.all() == ()


async def test_highest_epoch_outlives_the_lease_that_had_it(restart: Restart) -> None:
    first = await restart()
    assert await first.leases.epoch() == 0
    await first.leases.save(lease_record("l1", epoch=7))
    await first.leases.save(lease_record("l2", epoch=3))
    await first.leases.delete("l1")
    second = await restart()
    assert await second.leases.epoch() == 7
    await second.leases.raise_epoch(9)
    await second.leases.raise_epoch(8)
    assert await second.leases.epoch() == 9


async def test_request_outlives_the_daemon_and_is_gone_when_its_lease_is_saved(restart: Restart) -> None:
    waits = LeaseRequest(
        id="l2", number=2, holder="ben", ports=frozenset({"ocs1.3"}), for_s=60.0, arrived_wall_ns=5, priority=3
    )
    reserved = LeaseRequest(
        id="l1",
        number=1,
        holder="ada",
        ports=frozenset({"ocs1.4", "h0.eth0"}),
        for_s=90.5,
        arrived_wall_ns=4,
        at_wall_ns=1_000,
        heartbeat_s=10.0,
    )
    first = await restart()
    await first.leases.save_request(waits)
    await first.leases.save_request(reserved)
    second = await restart()
    assert await second.leases.requests() == (reserved, waits)
    await second.leases.save(lease_record("l1", epoch=1))
    assert await second.leases.requests() == (waits,)
    await second.leases.delete("l2")
    assert await second.leases.requests() == ()


# --- stored demands: their matrices, and the bounds of their number and size


def demand(name: str = "moe", *, amount: float = 5.0, layers: Sequence[int] = (0, 1)) -> NewDemand:
    matrix = struct.pack("<4d", 0.0, amount, 7.0, 0.0)
    return NewDemand(
        name=name,
        by="ada",
        added_wall_ns=10,
        hosts=("h0", "h1"),
        experts=16,
        matrices={(layer, 1): matrix for layer in layers},
        total_bytes=len(layers) * (amount + 7.0),
    )


async def names(records: Records) -> list[str]:
    return [one.name for one in await records.demands.all()]


async def test_demand_outlives_the_daemon(restart: Restart) -> None:
    first = await restart()
    added = await first.demands.add(demand())
    second = await restart()
    assert await second.demands.all() == (added,)
    assert (added.layers, added.microbatches, added.matrices, added.stored_bytes) == ([0, 1], [1], 2, 64)
    assert str(added) == "demand moe of ada: 2 matrices of 2 x 2 hosts of 16 experts, 24 bytes"
    found = await second.demands.matrix(DemandKey(name="moe", layer=1, microbatch=1))
    assert (found.hosts, found.bytes, found.total_bytes) == (["h0", "h1"], [[0.0, 5.0], [7.0, 0.0]], 12.0)
    assert found.between == {("h0", "h1"): 12.0}


async def test_name_that_is_taken_is_refused_and_replaced_where_that_is_asked_for(memory: Records) -> None:
    await memory.demands.add(demand(layers=(0, 1, 2)))
    with pytest.raises(RefusedError, match=r"demand moe: there is one of that name\. .* --replace"):
        await memory.demands.add(demand(amount=6.0))
    key = DemandKey(name="moe", layer=0, microbatch=1)
    assert (await memory.demands.matrix(key)).bytes[0][1] == 5.0
    await memory.demands.add(demand(amount=6.0, layers=[0]), replace=True)
    assert (await memory.demands.matrix(key)).bytes[0][1] == 6.0
    with pytest.raises(UnknownError, match="layer 2, micro-batch 1: not stored; it has layers 0 and micro-batches 1"):
        await memory.demands.matrix(DemandKey(name="moe", layer=2, microbatch=1))


async def test_what_is_removed_is_not_there_any_more(memory: Records) -> None:
    added = await memory.demands.add(demand())
    await memory.demands.add(demand("other"))
    assert await memory.demands.remove("moe") == added
    for call in (memory.demands.remove("moe"), memory.demands.matrix(DemandKey(name="moe"))):
        with pytest.raises(UnknownError, match=r"demand 'moe': not stored\. `hwd demand list` says which are"):
            await call
    assert await names(memory) == ["other"]
    assert (await memory.demands.matrix(DemandKey(name="other", microbatch=1))).name == "other"


async def test_layers_that_are_there_are_named_where_one_is_not(memory: Records) -> None:
    await memory.demands.add(demand(layers=[0, 2, 5]))
    with pytest.raises(UnknownError, match="it has layers 0, 2, 5 and micro-batches 1"):
        await memory.demands.matrix(DemandKey(name="moe", layer=1, microbatch=1))
    await memory.demands.add(demand(layers=[3, 4, 5]), replace=True)
    with pytest.raises(UnknownError, match="it has layers 3 to 5 and"):
        await memory.demands.matrix(DemandKey(name="moe", layer=1, microbatch=1))
    with pytest.raises(ConfigError, match="layer 1024, micro-batch 0: layers and micro-batches are numbered from 0"):
        DemandKey(name="moe", layer=1024)


async def test_number_and_size_of_all_are_bounded(memory: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demand_table, "DEMANDS_MAX", 3)
    monkeypatch.setattr(demand_table, "ALL_BYTES_MAX", 200)
    for name in ("a", "b"):
        await memory.demands.add(demand(name))
    with pytest.raises(RefusedError, match=r"demand c: 2 others have 0\.0 MB, .*`hwd demand remove` makes room"):
        await memory.demands.add(demand("c", layers=(0, 1, 2)))
    await memory.demands.add(demand("c"))
    with pytest.raises(RefusedError, match="3 others"):
        await memory.demands.add(demand("d", layers=()))
    await memory.demands.add(demand("c", amount=1.0), replace=True)
    await memory.demands.remove("a")
    await memory.demands.add(demand("d"))
    assert await names(memory) == ["b", "c", "d"]


# --- jobs: those under way, the newest, and the events of each


JOB = job_record(id="j1", ranks=[JobRank(host="h0"), JobRank(host="h1", gpu=3)], dimensions={"world": "dp"})
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
