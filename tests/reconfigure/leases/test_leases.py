"""Leases: one holder a port, until a time, over the death of the daemon where they shall last."""

import asyncio

import pytest

from hwd.model.documents.leases import LeaseReleased
from hwd.reconfigure.leases.leases import LONGEST_S
from hwd_drivers.core.errors import ConfigError, FailedError, RefusedError

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
        await leases.hear(mine.id)
    leases = await desk.restart()
    await asyncio.sleep(9.9)
    assert leases.get(mine.id).epoch == mine.epoch, "silence counts from the start of the daemon"
    await asyncio.sleep(0.2)
    assert leases.all() == ()
    with pytest.raises(RefusedError, match="its holder was not heard in time, and it ended at 2027"):
        await leases.hear(mine.id)
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


async def test_what_the_records_did_not_take_changes_nothing(desk: Desk) -> None:
    mine = await desk.leases.take(holder="ada", ports=["ocs1.1"], for_s=60)
    desk.disk.refuse("the disk is full")
    with pytest.raises(FailedError, match="disk"):
        await desk.leases.renew(mine.id, for_s=600)
    for lasting in (True, False):
        with pytest.raises(FailedError, match="disk"):
            await desk.leases.take(holder="ada", ports=["ocs1.2"], for_s=60, lasting=lasting)
    desk.check("ocs1.2")
    assert (desk.leases.all(), len(desk.told)) == ((mine,), 1)
