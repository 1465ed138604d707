"""Leases: one holder a port, until a time, over the death of the daemon where they shall last."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hwd.model.documents.leases import LeaseReleased, LeaseTaken
from hwd.ports.lease_record import LeaseRecord
from hwd.ports.lease_request import LeaseRequest
from hwd.ports.ledger import Asker, Ledger
from hwd.ports.rules import PortAction
from hwd.reconfigure.leases.ends import LeaseEnds
from hwd.reconfigure.leases.leases import LONGEST_S, Leases
from hwd.records.records import Records
from hwd.sim.records_disk import RecordsDisk
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import ConfigError, FailedError, RefusedError
from hwd_drivers.core.ids import SeededIds
from hwd_drivers.core.offload import InlineOffload, Offload
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual


class FullStore:
    """A `LeaseStore` on a disk that is full."""

    async def all(self) -> tuple[LeaseRecord, ...]:
        return ()

    async def requests(self) -> tuple[LeaseRequest, ...]:
        return ()

    async def epoch(self) -> int:
        return 0

    async def save(self, record: LeaseRecord, *, follows: str | None = None) -> None:
        raise FailedError(f"records: cannot save {record.claim}: the disk is full")

    async def raise_epoch(self, epoch: int) -> None:
        raise FailedError("records: cannot save an epoch: the disk is full")

    async def save_request(self, request: LeaseRequest) -> None:
        raise FailedError("records: cannot save a request: the disk is full")

    async def delete(self, id: str) -> None:
        raise FailedError(f"records: cannot delete lease {id}: the disk is full")


class Desk:
    """Leases over records in memory; `restart` is the daemon's next life."""

    def __init__(self, offload: Offload) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock = VirtualClock(loop, wall_start_ns=1_800_000_000 * 10**9)
        self.records = Records("sqlite://", offload)
        self.told: list[Document] = []
        self._ids = SeededIds(3)
        self._running: asyncio.Task[None] | None = None

    async def restart(self) -> Leases:
        await self.stop()
        ledger = Ledger()
        self.ends = LeaseEnds(ledger)
        leases = Leases(ledger, store=self.records.leases, clock=self.clock, ids=self._ids, sink=self.tell)
        await leases.load()
        self._running = asyncio.create_task(leases.run())
        return leases

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    @property
    def running(self) -> bool:
        return self._running is not None and not self._running.done()

    def tell(self, document: Document) -> None:
        self.told.append(document)
        self.ends(document)

    def kinds(self) -> list[tuple[str, object]]:
        return [(one.kind, getattr(one.fact, "why", "")) for one in self.told]


@asynccontextmanager
async def desk(offload: Offload | None = None) -> AsyncIterator[Desk]:
    one = Desk(offload or InlineOffload())
    await one.records.open()
    yield one
    await one.stop()
    one.records.close()


def check(leases: Leases, ports: list[str], clock: Clock, *, lease: str | None = None) -> None:
    leases.ledger.check(Asker(lease=lease), ports, PortAction.CHANGE, now_wall_ns=clock.wall_ns())


def test_a_port_that_is_leased_refuses_all_but_its_lease() -> None:
    async def main() -> None:
        async with desk() as one:
            leases = await one.restart()
            mine = await leases.take(holder="ada", ports=["ocs1.1", "ocs1.2"], for_s=60)
            with pytest.raises(RefusedError, match=rf"ocs1\.2: leased to ada \({mine.id}\) for another 60 s"):
                await leases.take(holder="bob", ports=["ocs1.2", "ocs1.3"], for_s=60)
            with pytest.raises(RefusedError):
                check(leases, ["ocs1.1"], one.clock)
            check(leases, ["ocs1.1", "ocs1.9"], one.clock, lease=mine.id)
            check(leases, ["ocs1.3"], one.clock)
            await leases.take(holder="bob", ports=["ocs1.3"], for_s=60)
            assert [lease.owner for lease in leases.all()] == ["ada", "bob"]

    run_virtual(main())


def test_a_lease_ends_at_its_time_and_its_ports_are_free() -> None:
    async def main() -> None:
        async with desk() as one:
            leases = await one.restart()
            mine = await leases.take(holder="ada", ports=["ocs1.1"], for_s=60)
            await asyncio.sleep(59.9)
            assert leases.get(mine.id) == mine
            await asyncio.sleep(0.2)
            with pytest.raises(
                RefusedError, match=r"not in force; it expired at 2027-01-15 08:01:00 UTC\. .*`hwd lease list`"
            ):
                leases.get(mine.id)
            with pytest.raises(RefusedError):
                check(leases, ["ocs1.1"], one.clock, lease=mine.id)
            await leases.take(holder="bob", ports=["ocs1.1"], for_s=60)
            assert one.kinds() == [("lease.taken", ""), ("lease.released", "expired"), ("lease.taken", "")]
            assert tuple(stored.claim for stored in await one.records.leases.all()) == leases.all()

    run_virtual(main())


def test_the_shorter_of_two_ends_first_whichever_was_taken_first() -> None:
    async def main() -> None:
        async with desk() as one:
            leases = await one.restart()
            await leases.take(holder="ada", ports=["ocs1.1"], for_s=600)
            await asyncio.sleep(1)
            await leases.take(holder="bob", ports=["ocs1.2"], for_s=5)
            await asyncio.sleep(5.1)
            assert [one.fact.holder for one in one.told if isinstance(one.fact, LeaseReleased)] == ["bob"]

    run_virtual(main())


def test_a_renewed_lease_lasts_from_now() -> None:
    async def main() -> None:
        async with desk() as one:
            leases = await one.restart()
            mine = await leases.take(holder="ada", ports=["ocs1.1"], for_s=60)
            await asyncio.sleep(30)
            renewed = await leases.renew(mine.id, for_s=60)
            assert (renewed.id, renewed.since_wall_ns) == (mine.id, mine.since_wall_ns)
            await asyncio.sleep(59)
            assert leases.all() == (renewed,)
            await asyncio.sleep(2)
            with pytest.raises(RefusedError):
                await leases.renew(mine.id, for_s=60)

    run_virtual(main())


def test_leases_outlive_the_daemon_and_those_of_runs_do_not_even_when_renewed() -> None:
    async def main() -> None:
        async with desk() as one:
            leases = await one.restart()
            mine = await leases.take(holder="ada", ports=["ocs1.1"], for_s=60)
            runs = await leases.take(holder="run 1", ports=["ocs1.2"], for_s=60, lasting=False)
            await leases.renew(runs.id, for_s=600)
            leases = await one.restart()
            assert leases.all() == (mine,)
            await asyncio.sleep(61)
            assert leases.all() == ()
            assert await one.records.leases.all() == ()

    run_virtual(main())


@pytest.mark.parametrize("end", ["released", "renewed"])
def test_lease_that_ends_or_is_renewed_while_another_is_deleted_does_not_end_the_daemon_or_that_lease(end: str) -> None:
    async def main() -> None:
        disk = RecordsDisk()
        async with desk(disk) as one:
            leases = await one.restart()
            await leases.take(holder="ada", ports=["ocs1.1"], for_s=10)
            bobs = await leases.take(holder="bob", ports=["ocs1.2"], for_s=10.05)
            disk.delay_s = lambda: 0.1
            await asyncio.sleep(10.02)  # ada's is being deleted
            if end == "released":
                await leases.release(bobs.id)
            else:
                await leases.renew(bobs.id, for_s=600)
            await asyncio.sleep(1)
            assert one.running
            assert [held.owner for held in leases.all()] == ([] if end == "released" else ["bob"])
            assert [why for kind, why in one.kinds() if kind == "lease.released"][1:] in ([], ["released"])

    run_virtual(main())


def test_renewal_beside_a_kick_is_refused() -> None:
    async def main() -> None:
        disk = RecordsDisk()
        async with desk(disk) as one:
            leases = await one.restart()
            mine = await leases.take(holder="ada", ports=["ocs1.1"], for_s=60)
            disk.delay_s = lambda: 0.1
            renewal = asyncio.create_task(leases.renew(mine.id, for_s=3600))
            await asyncio.sleep(0.05)
            await leases.release(mine.id, why="kicked", by="eve")
            with pytest.raises(RefusedError, match=f"lease {mine.id}: not in force; it was kicked"):
                await renewal
            assert [kind for kind, _ in one.kinds()] == ["lease.taken", "lease.released"]
            assert await one.records.leases.all() == ()

    run_virtual(main())


def test_one_that_expired_while_no_daemon_ran_is_told_at_the_next_start() -> None:
    async def main() -> None:
        async with desk() as one:
            leases = await one.restart()
            await leases.take(holder="ada", ports=["ocs1.1"], for_s=60)
            await one.stop()
            await asyncio.sleep(100)
            leases = await one.restart()
            check(leases, ["ocs1.1"], one.clock)  # free at once, told or not
            await asyncio.sleep(0.1)
            assert one.kinds()[-1] == ("lease.released", "expired")

    run_virtual(main())


def test_released_twice_is_told_once() -> None:
    async def main() -> None:
        async with desk() as one:
            leases = await one.restart()
            mine = await leases.take(holder="ada", ports=["ocs1.1"], for_s=60)
            await leases.release(mine.id, why="kicked")
            await leases.release(mine.id)
            assert one.kinds() == [("lease.taken", ""), ("lease.released", "kicked")]

    run_virtual(main())


def test_a_lease_that_the_records_did_not_take_blocks_nobody() -> None:
    async def main() -> None:
        async with desk() as one:
            leases = Leases(Ledger(), store=FullStore(), clock=one.clock, ids=SeededIds(4), sink=one.told.append)
            with pytest.raises(FailedError, match="disk"):
                await leases.take(holder="ada", ports=["ocs1.1"], for_s=60)
            check(leases, ["ocs1.1"], one.clock)
            assert leases.all() == ()
            assert one.told == []

    run_virtual(main())


@pytest.mark.parametrize("for_s", [0, -1, LONGEST_S + 1, float("nan"), float("inf")])
def test_a_length_that_makes_no_sense_is_refused(for_s: float) -> None:
    async def main() -> None:
        async with desk() as one:
            leases = await one.restart()
            with pytest.raises(ConfigError, match=r"is not between 0 and 604800 s"):
                await leases.take(holder="ada", ports=["ocs1.1"], for_s=for_s)
            with pytest.raises(ConfigError, match="no port named"):
                await leases.take(holder="ada", ports=[], for_s=60)

    run_virtual(main())


def test_each_grant_has_a_higher_epoch_over_restarts_and_deleted_leases() -> None:
    async def main() -> None:
        async with desk() as one:
            leases = await one.restart()
            first = await leases.take(holder="ada", ports=["ocs1.1"], for_s=60)
            await leases.release(first.id)
            leases = await one.restart()
            of_a_run = await leases.take(holder="run 1", ports=["ocs1.1"], for_s=60, lasting=False)
            leases = await one.restart()
            last = await leases.take(holder="ben", ports=["ocs1.1"], for_s=60)
            assert [first.epoch, of_a_run.epoch, last.epoch] == [1, 2, 3]
            assert [one.fact.epoch for one in one.told if isinstance(one.fact, LeaseTaken)] == [1, 2, 3]
            with pytest.raises(RefusedError, match=rf"lease {last.id}: epoch 1 is not in force, epoch 3 is"):
                await leases.renew(last.id, for_s=60, epoch=1)

    run_virtual(main())


class SlowStore(FullStore):
    """A `LeaseStore` whose disk takes a second."""

    def __init__(self) -> None:
        self.saved: list[LeaseRecord] = []
        self.epochs: list[int] = []

    async def save(self, record: LeaseRecord, *, follows: str | None = None) -> None:
        await asyncio.sleep(1)
        self.saved.append(record)

    async def raise_epoch(self, epoch: int) -> None:
        await asyncio.sleep(1)
        self.epochs.append(epoch)


def test_lease_and_its_epoch_are_durable_before_anybody_hears_of_them() -> None:
    async def main() -> None:
        async with desk() as one:
            store = SlowStore()
            leases = Leases(Ledger(), store=store, clock=one.clock, ids=SeededIds(4), sink=one.told.append)
            asking = asyncio.create_task(leases.take(holder="ada", ports=["ocs1.1"], for_s=60))
            of_a_run = asyncio.create_task(leases.take(holder="run 1", ports=["ocs1.2"], for_s=60, lasting=False))
            await asyncio.sleep(0.9)
            assert not asking.done()
            assert not of_a_run.done()
            assert leases.all() == ()
            assert one.told == []
            with pytest.raises(RefusedError, match=r"ocs1\.1: "):
                await leases.take(holder="ben", ports=["ocs1.1"], for_s=60)
            assert [record.claim for record in store.saved] == []
            mine, other = await asking, await of_a_run
            assert ([record.claim for record in store.saved], store.epochs) == ([mine], [other.epoch])
            assert set(leases.all()) == {mine, other}

    run_virtual(main())


def test_lease_is_on_the_disk_when_it_is_answered(tmp_path: Path) -> None:
    async def main() -> None:
        url = f"sqlite:///{tmp_path / 'records.db'}"
        records = Records(url, InlineOffload())
        await records.open()
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        clock = VirtualClock(loop, wall_start_ns=1_800_000_000 * 10**9)
        leases = Leases(Ledger(), store=records.leases, clock=clock, ids=SeededIds(5), sink=lambda _: None)
        mine = await leases.take(holder="ada", ports=["ocs1.1"], for_s=60)
        other = Records(url, InlineOffload())  # as a crash leaves the file: the first is not closed
        await other.open()
        assert [stored.claim for stored in await other.leases.all()] == [mine]
        assert await other.leases.epoch() == mine.epoch
        other.close()
        records.close()

    run_virtual(main())


def test_lease_with_a_heartbeat_ends_when_its_holder_falls_silent() -> None:
    async def main() -> None:
        async with desk() as one:
            leases = await one.restart()
            mine = await leases.take(holder="ada", ports=["ocs1.1"], for_s=600, heartbeat_s=10)
            for _ in range(3):
                await asyncio.sleep(9)
                await leases.hear(mine.id)
            leases = await one.restart()
            await asyncio.sleep(9.9)
            assert leases.get(mine.id).epoch == mine.epoch, "silence counts from the start of the daemon"
            await asyncio.sleep(0.2)
            assert leases.all() == ()
            with pytest.raises(RefusedError, match="its holder was not heard in time, and it ended at 2027"):
                await leases.hear(mine.id)
            assert one.kinds()[-1] == ("lease.released", "silent")

    run_virtual(main())


def test_holder_of_a_kicked_lease_is_told_by_whom_and_why_after_a_restart_too() -> None:
    async def main() -> None:
        async with desk() as one:
            leases = await one.restart()
            mine = await leases.take(holder="ada", ports=["ocs1.1"], for_s=600)
            await leases.release(mine.id, why="kicked", by="ben@lab", reason="the night run begins")
            kicked = one.told[-1].fact
            assert isinstance(kicked, LeaseReleased)
            assert (kicked.holder, kicked.by, kicked.reason) == ("ada", "ben@lab", "the night run begins")
            said = rf'lease {mine.id}: not in force; it was kicked by ben@lab at .* UTC: "the night run begins"\. '
            with pytest.raises(RefusedError, match=said):
                check(leases, ["ocs1.1"], one.clock, lease=mine.id)
            await one.records.add_documents(one.told)
            leases = await one.restart()
            await one.ends.load(one.records)
            with pytest.raises(RefusedError, match=said):
                check(leases, ["ocs1.1"], one.clock, lease=mine.id)

    run_virtual(main())


def test_renewal_that_the_records_did_not_take_changes_nothing() -> None:
    class FullLater(SlowStore):
        async def save(self, record: LeaseRecord, *, follows: str | None = None) -> None:
            if self.saved:
                raise FailedError("records: cannot save a lease: the disk is full")
            self.saved.append(record)

    async def main() -> None:
        async with desk() as one:
            leases = Leases(Ledger(), store=FullLater(), clock=one.clock, ids=SeededIds(4), sink=one.told.append)
            mine = await leases.take(holder="ada", ports=["ocs1.1"], for_s=60)
            with pytest.raises(FailedError, match="disk"):
                await leases.renew(mine.id, for_s=600)
            assert leases.all() == (mine,)

    run_virtual(main())
