"""What the records keep for long: moves, what is desired, runs that wait, leases; and what they have of documents."""

import dataclasses

from msgspec.structs import replace

from hwd.model.documents.reconfigurations import ReconfigurationEnded, WantedSwitch
from hwd.model.documents.switches import SwitchAdopted
from hwd.model.recorded_run import Run
from hwd.model.trial import TrialRun
from hwd.ports import claim
from hwd.ports.lease_record import LeaseRecord
from hwd.ports.lease_request import LeaseRequest
from hwd.records import Records
from hwd.records.entry import entry
from hwd.records.queued_run import QueuedRun
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.devices.facts import SwitchCommand

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
    wanted = [WantedSwitch(switch=switch, crossconnects=crossconnects.split(), free=free.split())]
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
    await add(again, SwitchAdopted(switch="ocs1", crossconnects=["5A-6B"], free=[], by="found at the switch"))
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
    await second.start_run(replace(started, id=FIRST_RUN.id))
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
        baseline={"ocs1.3": ("ocs1:3A-4B",), "ocs1.4": ()},
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
