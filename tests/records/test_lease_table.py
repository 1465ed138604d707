"""The leases that the records keep."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from hwd.ports import claim
from hwd.ports.lease_record import LeaseRecord
from hwd.ports.lease_request import LeaseRequest
from hwd.records import Records

Restart = Callable[..., Awaitable[Records]]


def record(id: str, *, epoch: int) -> LeaseRecord:
    ports = frozenset({"ocs1.3", "h0.eth0"})
    return LeaseRecord(
        claim=claim.lease(id=id, holder="ada", ports=ports, taken_wall_ns=1, expires_wall_ns=2_000, epoch=epoch)
    )


async def test_lease_outlives_the_daemon(restart: Restart) -> None:
    lease = record("l1", epoch=4)
    longer = replace(
        lease,
        claim=replace(lease.claim, expires_wall_ns=9_000),
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
    await first.leases.save(record("l1", epoch=7))
    await first.leases.save(record("l2", epoch=3))
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
    await second.leases.save(record("l1", epoch=1))
    assert await second.leases.requests() == (waits,)
    await second.leases.delete("l2")
    assert await second.leases.requests() == ()
