"""Leases: one holder a port, until a time, over the death of the daemon where they shall last."""

import asyncio
from dataclasses import replace

import pytest

from hwd.model.lease import LeaseDelayed, LeaseQueued, LeaseReleased, LeaseTaken, LeaseWithdrawn
from hwd.ports.claim import Claim
from hwd.ports.ledger import Asker, Ledger
from hwd.ports.rules import PortAction, Reason
from hwd.reconfigure.leases.leases import LONGEST_S
from hwd.reconfigure.leases.requests import CLAIM_WITHIN_S, WAITER_SILENT_S
from hwd_drivers.core.errors import ConfigError, RefusedError

from .conftest import Desk


async def test_a_lease_ends_at_its_time_or_that_of_its_renewal_and_its_ports_are_free(desk: Desk) -> None:
    leases = desk.leases
    mine = await leases.take(holder="ada", ports=["ocs1.1"], for_s=60)
    await leases.take(holder="ben", ports=["ocs1.2"], for_s=5)
    await asyncio.sleep(5.1)
    assert [fact.holder for fact in desk.facts(LeaseReleased)] == ["ben"], "whichever was taken first"
    renewed = await leases.renew(mine.id, for_s=60)
    assert (renewed.id, renewed.since_wall_ns) == (mine.id, mine.since_wall_ns)
    await asyncio.sleep(59.9)
    assert leases.get(mine.id) == renewed
    await asyncio.sleep(0.2)
    with pytest.raises(RefusedError, match=r"not in force; it expired at 2027-01-15 08:01:05 UTC\. .*`hwd lease list`"):
        leases.get(mine.id)
    with pytest.raises(RefusedError):
        desk.check("ocs1.1", lease=mine.id)
    with pytest.raises(RefusedError):
        await leases.renew(mine.id, for_s=60)
    await leases.take(holder="bob", ports=["ocs1.1"], for_s=60)
    assert [kind for kind, _ in desk.kinds()[2:]] == [
        *("lease.released", "lease.renewed"),
        *("lease.released", "lease.taken"),
    ]
    assert {fact.why for fact in desk.facts(LeaseReleased)} == {"expired"}
    assert tuple(stored.claim for stored in await desk.records.leases.all()) == leases.all()


@pytest.mark.parametrize("end", ["released", "renewed"])
async def test_lease_that_ends_or_is_renewed_while_another_is_deleted_does_not_end_the_daemon_or_that_lease(
    end: str, desk: Desk
) -> None:
    leases = desk.leases
    await leases.take(holder="ada", ports=["ocs1.1"], for_s=10)
    bobs = await leases.take(holder="bob", ports=["ocs1.2"], for_s=10.05)
    desk.disk.delay_s = lambda: 0.1
    await asyncio.sleep(10.02)  # ada's is being deleted
    if end == "released":
        await leases.release(bobs.id)
    else:
        await leases.renew(bobs.id, for_s=600)
    await asyncio.sleep(1)
    assert desk.running
    assert [held.owner for held in leases.all()] == ([] if end == "released" else ["bob"])
    assert [why for kind, why in desk.kinds() if kind == "lease.released"][1:] in ([], ["released"])


async def test_renewal_beside_a_kick_is_refused(desk: Desk) -> None:
    leases = desk.leases
    mine = await leases.take(holder="ada", ports=["ocs1.1"], for_s=60)
    desk.disk.delay_s = lambda: 0.1
    renewal = asyncio.create_task(leases.renew(mine.id, for_s=3600))
    await asyncio.sleep(0.05)
    await leases.release(mine.id, why="kicked", by="eve")
    with pytest.raises(RefusedError, match=f"lease {mine.id}: not in force; it was kicked"):
        await renewal
    assert [kind for kind, _ in desk.kinds()] == ["lease.taken", "lease.released"]
    assert await desk.records.leases.all() == ()


async def test_one_that_expired_while_no_daemon_ran_is_told_at_the_next_start(desk: Desk) -> None:
    leases = desk.leases
    await leases.take(holder="ada", ports=["ocs1.1"], for_s=60)
    await desk.stop()
    await asyncio.sleep(100)
    leases = await desk.restart()
    desk.check("ocs1.1")  # free at once, told or not
    await asyncio.sleep(0.1)
    assert desk.kinds()[-1] == ("lease.released", "expired")


async def test_a_length_or_an_epoch_that_makes_no_sense_is_refused(desk: Desk) -> None:
    for for_s in (0, -1, LONGEST_S + 1, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match=r"is not between 0 and 604800 s"):
            await desk.leases.take(holder="ada", ports=["ocs1.1"], for_s=for_s)
    with pytest.raises(ConfigError, match="no port named"):
        await desk.leases.take(holder="ada", ports=[], for_s=60)
    mine = await desk.leases.take(holder="ada", ports=["ocs1.1"], for_s=60)
    with pytest.raises(RefusedError, match=rf"lease {mine.id}: epoch 3 is not in force, epoch 1 is"):
        await desk.leases.renew(mine.id, for_s=60, epoch=3)


async def test_lease_and_its_epoch_are_durable_before_anybody_hears_of_them(desk: Desk) -> None:
    leases = desk.leases
    desk.disk.delay_s = lambda: 0.5  # before the work and after it
    asking = asyncio.create_task(leases.take(holder="ada", ports=["ocs1.1"], for_s=60))
    of_a_run = asyncio.create_task(leases.take(holder="run 1", ports=["ocs1.2"], for_s=60, lasting=False))
    await asyncio.sleep(0.9)
    assert not asking.done()
    assert not of_a_run.done()
    assert leases.all() == ()
    assert desk.told == []
    with pytest.raises(RefusedError, match=r"ocs1\.1: "):
        await leases.take(holder="ben", ports=["ocs1.1"], for_s=60)
    mine, other = await asking, await of_a_run
    assert [record.claim for record in await desk.records.leases.all()] == [mine]
    assert await desk.records.leases.epoch() == max(epoch for epoch in (mine.epoch, other.epoch) if epoch is not None)
    assert set(leases.all()) == {mine, other}


async def test_lease_with_a_heartbeat_ends_when_its_holder_falls_silent(desk: Desk) -> None:
    leases = desk.leases
    mine = await leases.take(holder="ada", ports=["ocs1.1"], for_s=600, heartbeat_s=10)
    for _ in range(3):
        await asyncio.sleep(9)
        await leases.heartbeat(mine.id)
    leases = await desk.restart()
    await asyncio.sleep(9.9)
    assert leases.get(mine.id).epoch == mine.epoch, "silence counts from the start of the daemon"
    await asyncio.sleep(0.2)
    assert leases.all() == ()
    with pytest.raises(RefusedError, match="its holder was not heard in time, and it ended at 2027"):
        await leases.heartbeat(mine.id)
    assert desk.kinds()[-1] == ("lease.released", "silent")


async def test_holder_of_a_kicked_lease_is_told_by_whom_and_why_once_and_after_a_restart_too(desk: Desk) -> None:
    leases = desk.leases
    mine = await leases.take(holder="ada", ports=["ocs1.1"], for_s=600)
    await leases.release(mine.id, why="kicked", by="ben@lab", reason="the night run begins")
    await leases.release(mine.id)
    (kicked,) = desk.facts(LeaseReleased)
    assert (kicked.holder, kicked.by, kicked.reason) == ("ada", "ben@lab", "the night run begins")
    said = rf'lease {mine.id}: not in force; it was kicked by ben@lab at .* UTC: "the night run begins"\. '
    with pytest.raises(RefusedError, match=said):
        desk.check("ocs1.1", lease=mine.id)
    await desk.records.add_documents(desk.told)
    leases = await desk.restart()
    await desk.ends.load(desk.records)
    with pytest.raises(RefusedError, match=said):
        desk.check("ocs1.1", lease=mine.id)


# --- leases that are not granted yet: the queue, and reservations of a time to come


async def test_waiter_that_leaves_while_a_dead_one_is_withdrawn_does_not_end_the_daemon(desk: Desk) -> None:
    await desk.leases.take(holder="ada", ports=["ocs1.1"], for_s=600)
    await desk.requests.enqueue(holder="ben", ports=["ocs1.1"], for_s=30)
    eva = await desk.requests.enqueue(holder="eva", ports=["ocs1.1"], for_s=30)
    await desk.live(WAITER_SILENT_S - 1, eva.id)
    desk.disk.delay_s = lambda: 0.5
    await asyncio.sleep(1.2)  # ben is being withdrawn
    await desk.requests.withdraw(eva.id)
    await asyncio.sleep(5)
    assert desk.running
    assert desk.requests.waiting == ()


async def test_waiter_is_granted_when_its_ports_are_free_and_is_told_its_place_before(desk: Desk) -> None:
    await desk.leases.take(holder="ada", ports=["ocs1.1"], for_s=60)
    ben = await desk.requests.enqueue(holder="ben", ports=["ocs1.1", "ocs1.2"], for_s=30)
    eva = await desk.requests.enqueue(holder="eva", ports=["ocs1.2"], for_s=30)
    assert [fact.place for fact in desk.facts(LeaseQueued)] == [1, 2]
    places = desk.requests.places()
    assert "leased to ada" in places[ben.id].waits_for[0]
    assert places[eva.id].waits_for == (f"ocs1.2: ben ({ben.id}) is before it in the queue",)
    with pytest.raises(RefusedError, match=r"ocs1\.2: ben \(\w+\) waits for it in the queue"):
        await desk.leases.take(holder="kim", ports=["ocs1.2"], for_s=1)
    await desk.live(61, ben.id, eva.id)
    assert desk.holders() == ["ben"]
    assert desk.leases.get(ben.id).left_s(desk.clock.wall_ns()) == pytest.approx(29, abs=0.1), "from its grant on"
    await desk.live(30, ben.id, eva.id)
    assert desk.holders() == ["eva"]
    epochs = [fact.epoch for fact in desk.facts(LeaseTaken)]
    assert epochs == [1, 2, 3]


async def test_client_that_dies_leaves_the_queue_or_loses_what_it_was_granted(desk: Desk) -> None:
    ada = await desk.leases.take(holder="ada", ports=["ocs1.1"], for_s=1000)
    dead = await desk.requests.enqueue(holder="ben", ports=["ocs1.1"], for_s=10)
    alive = await desk.requests.enqueue(holder="eva", ports=["ocs1.1"], for_s=1000)
    await desk.live(WAITER_SILENT_S + 1, alive.id)
    assert [request.id for request in desk.requests.waiting] == [alive.id]
    assert [(fact.lease, fact.why) for fact in desk.facts(LeaseWithdrawn)] == [(dead.id, "silent")]
    assert await desk.records.leases.requests() == desk.requests.waiting
    await desk.leases.release(ada.id)
    await asyncio.sleep(1)
    assert desk.holders() == ["eva"]
    await asyncio.sleep(WAITER_SILENT_S)
    assert desk.holders() == []
    assert desk.facts(LeaseReleased)[-1].why == "unclaimed"


async def test_who_leaves_or_is_kicked_is_gone_from_the_queue(desk: Desk) -> None:
    await desk.leases.take(holder="ada", ports=["ocs1.1"], for_s=20)
    leaves = await desk.requests.enqueue(holder="ben", ports=["ocs1.1"], for_s=10)
    kicked = await desk.requests.enqueue(holder="eva", ports=["ocs1.1"], for_s=10)
    await desk.requests.withdraw(leaves.id)
    await desk.requests.withdraw(kicked.id, why="kicked", by="kim", reason="enough")
    assert await desk.requests.withdraw(kicked.id) is None
    found = [(fact.lease, fact.why, fact.by, fact.reason) for fact in desk.facts(LeaseWithdrawn)]
    assert found[1] == (kicked.id, "kicked", "kim", "enough")
    assert found[0][:2] == (leaves.id, "released")
    await desk.live(21)
    assert desk.holders() == []


async def test_queue_and_reservations_outlive_the_daemon(desk: Desk) -> None:
    await desk.leases.take(holder="ada", ports=["ocs1.1"], for_s=20)
    ben = await desk.requests.enqueue(holder="ben", ports=["ocs1.1"], for_s=10)
    eva = await desk.requests.reserve(holder="eva", ports=["ocs1.1"], for_s=10, at_wall_ns=desk.in_s(40))
    await desk.restart()
    assert (desk.requests.waiting, desk.requests.reserved) == ((ben,), (eva,))
    kim = await desk.requests.enqueue(holder="kim", ports=["ocs1.1"], for_s=10)
    assert kim.number > eva.number
    await desk.live(41, ben.id, kim.id)
    taken = desk.facts(LeaseTaken)
    assert [fact.holder for fact in taken] == ["ada", "ben", "kim", "eva"]
    assert [fact.epoch for fact in taken] == [1, 2, 3, 4]


async def test_reservation_refuses_what_overlaps_it_and_says_who_and_when(desk: Desk) -> None:
    eva = await desk.requests.reserve(holder="eva", ports=["ocs1.1"], for_s=100, at_wall_ns=desk.in_s(50))
    said = rf"ocs1\.1: reserved by eva \({eva.id}\) from 2027-01-15 08:00:50 UTC to 2027-01-15 08:02:30 UTC"
    with pytest.raises(RefusedError, match=said):
        await desk.leases.take(holder="ada", ports=["ocs1.1"], for_s=51)
    with pytest.raises(RefusedError, match=said):
        await desk.requests.reserve(holder="ada", ports=["ocs1.1"], for_s=10, at_wall_ns=desk.in_s(149))
    short = await desk.leases.take(holder="ada", ports=["ocs1.1"], for_s=40)
    with pytest.raises(RefusedError, match=f"lease {short.id}: cannot last until then: {said}"):
        await desk.leases.renew(short.id, for_s=60)
    with pytest.raises(RefusedError, match="leased to ada"):
        await desk.requests.reserve(holder="kim", ports=["ocs1.1"], for_s=5, at_wall_ns=desk.in_s(35))
    await desk.requests.reserve(holder="kim", ports=["ocs1.1"], for_s=5, at_wall_ns=desk.in_s(150))
    long = await desk.requests.enqueue(holder="ben", ports=["ocs1.1"], for_s=60)
    await desk.live(48, long.id)
    assert "reserved by eva" in desk.requests.places()[long.id].waits_for[0], "it would not be done in time"


async def test_reservation_becomes_a_lease_at_its_time_and_ends_where_nobody_claims_it(desk: Desk) -> None:
    for holder, port in (("eva", "ocs1.1"), ("ben", "ocs1.2")):
        await desk.requests.reserve(holder=holder, ports=[port], for_s=1000, at_wall_ns=desk.in_s(50))
    eva, ben = desk.requests.reserved
    with pytest.raises(RefusedError, match=rf"lease {eva.id}: is not granted yet, it begins 2027"):
        desk.leases.get(eva.id)
    await asyncio.sleep(50.5)
    assert desk.requests.reserved == ()
    assert desk.leases.get(eva.id).expires_wall_ns == eva.ends_wall_ns
    await desk.leases.heartbeat(eva.id)
    await desk.restart()
    await asyncio.sleep(CLAIM_WITHIN_S + 1)
    assert desk.holders() == ["eva"]
    assert [(fact.lease, fact.why) for fact in desk.facts(LeaseReleased)] == [(ben.id, "unclaimed")]
    await asyncio.sleep(1000)
    assert desk.holders() == []


def claim_one_pair(ledger: Ledger) -> Claim:
    """A reconfiguration is under way on ocs1.1."""
    ledger.report_why(Reason.RECONFIGURATION, lambda claim: "about another 3.2 s")
    ledger.report_why(Reason.PREPARED_SET, lambda claim: "for another 60 s")
    claim = Claim(id="x1", reason=Reason.RECONFIGURATION, owner="ada", ports=frozenset({"ocs1.1"}), what="one pair")
    ledger.claim(claim)
    return claim


async def test_reservation_waits_for_a_reconfiguration_and_nobody_overtakes_it(desk: Desk) -> None:
    ledger = desk.leases.ledger
    claim_one_pair(ledger)
    eva = await desk.requests.reserve(holder="eva", ports=["ocs1.1"], for_s=100, at_wall_ns=desk.in_s(10))
    ben = await desk.requests.enqueue(holder="ben", ports=["ocs1.1"], for_s=5)
    await desk.live(20, ben.id)
    assert (desk.requests.reserved, desk.requests.waiting) == ((eva,), (ben,))
    with pytest.raises(RefusedError, match="reserved by eva"):
        ledger.release(Reason.RECONFIGURATION, "x1")
        ledger.check(Asker(), ["ocs1.1"], PortAction.CHANGE, now_wall_ns=desk.clock.wall_ns())
    await desk.live(1, ben.id)
    assert desk.holders() == ["eva"]


async def test_reservation_whose_ports_are_not_free_before_its_end_is_missed(desk: Desk) -> None:
    ledger = desk.leases.ledger
    ledger.claim(Claim(id="x1", reason=Reason.CUT_OFF, owner="an apply", ports=frozenset({"ocs1.1"})))
    await desk.requests.reserve(holder="eva", ports=["ocs1.1"], for_s=100, at_wall_ns=desk.in_s(10))
    await asyncio.sleep(111)
    assert desk.requests.reserved == ()
    (withdrawn,) = desk.facts(LeaseWithdrawn)
    assert withdrawn.why == "missed"
    assert str(withdrawn.waits_for).startswith("['ocs1.1: reconfiguration x1 () was cut off")


async def test_reservation_that_cannot_begin_says_who_has_its_ports_and_is_told_anew_for_somebody_else(
    desk: Desk,
) -> None:
    ledger = desk.leases.ledger
    under_way = claim_one_pair(ledger)
    eva = await desk.requests.reserve(holder="eva", ports=["ocs1.1", "ocs1.2"], for_s=900, at_wall_ns=desk.in_s(10))
    await desk.live(9)
    assert (desk.requests.delay(eva), desk.facts(LeaseDelayed)) == (None, [])
    await desk.live(2)
    why = replace(under_way, why="about another 3.2 s").text(desk.clock.wall_ns())
    assert "reconfiguration x1 is under way on it: one pair, asked for by ada; about another 3.2 s" in why
    assert desk.requests.delay(eva) == (why,)
    await desk.live(60)
    (told,) = desk.facts(LeaseDelayed)
    assert (told.lease, told.waits_for, told.at_wall_ns) == (eva.id, [why], eva.at_wall_ns)
    ledger.claim(Claim(id="s1", reason=Reason.PREPARED_SET, owner="ada", ports=frozenset({"ocs1.2"})))
    ledger.release(Reason.RECONFIGURATION, "x1")
    await desk.live(1)
    assert desk.facts(LeaseDelayed)[1].waits_for[0].startswith("ocs1.2: held by prepared set s1 of ada")
    ledger.release(Reason.PREPARED_SET, "s1")
    await desk.live(1)
    assert desk.holders() == ["eva"]


async def test_what_makes_no_sense_is_refused(desk: Desk) -> None:
    with pytest.raises(ConfigError, match="is over; it is 2027"):
        await desk.requests.reserve(holder="eva", ports=["a"], for_s=1, at_wall_ns=desk.clock.wall_ns())
    desk.leases.ledger.claim(Claim(id="sel", reason=Reason.DELEGATION, owner="h0", ports=frozenset("a")))
    with pytest.raises(RefusedError, match="belongs to host h0"):
        await desk.requests.enqueue(holder="eva", ports=["a"], for_s=1)
    with pytest.raises(ConfigError, match=r"a heartbeat every 0\.1 s is not between 1"):
        await desk.requests.enqueue(holder="eva", ports=["b"], for_s=1, heartbeat_s=0.1)
    assert await desk.records.leases.requests() == ()
