"""The leases that the records keep."""

from dataclasses import replace

from hwd.ports import claim
from hwd.records import Records
from hwd_drivers.core.offload import InlineOffload


async def test_lease_outlives_the_daemon(url: str) -> None:
    lease = claim.lease(
        id="l1", holder="ada", ports=frozenset({"ocs1.3", "h0.eth0"}), taken_wall_ns=1, expires_wall_ns=2_000
    )
    longer = replace(lease, expires_wall_ns=9_000)
    first = Records(url, InlineOffload())
    await first.open()
    await first.leases.save(lease)
    await first.leases.save(longer)
    first.close()
    second = Records(url, InlineOffload())
    await second.open()
    assert await second.leases.all() == (longer,)
    await second.leases.delete("l1")
    await second.leases.delete("l1")
    assert await second.leases.all() == ()
    second.close()
