"""Leases that are not granted yet: the queue, and reservations of a time to come."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeVar

import pytest

from hwd.model.documents.leases import LeaseDelayed, LeaseQueued, LeaseReleased, LeaseTaken, LeaseWithdrawn
from hwd.ports.claim import Claim
from hwd.ports.ledger import Asker, Ledger
from hwd.ports.rules import PortAction, Reason
from hwd.reconfigure.leases.leases import Leases
from hwd.reconfigure.leases.requests import CLAIM_WITHIN_S, WAITER_SILENT_S, LeaseRequests
from hwd.records.records import Records
from hwd.sim.records_disk import RecordsDisk
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.ids import SeededIds
from hwd_drivers.core.offload import InlineOffload, Offload
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual

F = TypeVar("F")

S = 10**9


class Desk:
    """Leases and requests over records in memory; `restart` is the daemon's next life."""

    def __init__(self, offload: Offload) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock: Clock = VirtualClock(loop, wall_start_ns=1_800_000_000 * S)
        self.records = Records("sqlite://", offload)
        self.told: list[Document] = []
        self._ids = SeededIds(3)
        self._running: list[asyncio.Task[None]] = []

    async def restart(self) -> None:
        await self.stop()
        ledger, store = Ledger(), self.records.leases
        self.leases = Leases(ledger, store=store, clock=self.clock, ids=self._ids, sink=self.told.append)
        self.requests = LeaseRequests(self.leases, store=store, clock=self.clock, sink=self.told.append)
        await self.leases.load()
        await self.requests.load()
        self._running = [asyncio.create_task(work()) for work in (self.leases.run, self.requests.run)]

    async def stop(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def live(self, seconds: float, *clients: str) -> None:
        """Let time pass, while these clients ask every second."""
        for _ in range(round(seconds)):
            for id in clients:
                self.requests.hear(id)
                if self.leases.record(id) is not None:
                    await self.leases.hear(id)
            await asyncio.sleep(1)

    @property
    def running(self) -> bool:
        return not any(task.done() for task in self._running)

    def holders(self) -> list[str]:
        return [one.owner for one in self.leases.all()]

    def in_s(self, seconds: float) -> int:
        return self.clock.wall_ns() + round(seconds * S)


@asynccontextmanager
async def desk(offload: Offload | None = None) -> AsyncIterator[Desk]:
    one = Desk(offload or InlineOffload())
    await one.records.open()
    await one.restart()
    yield one
    await one.stop()
    one.records.close()


def test_waiter_that_leaves_while_a_dead_one_is_withdrawn_does_not_end_the_daemon() -> None:
    async def main() -> None:
        disk = RecordsDisk()
        async with desk(disk) as one:
            await one.leases.take(holder="ada", ports=["ocs1.1"], for_s=600)
            await one.requests.enqueue(holder="ben", ports=["ocs1.1"], for_s=30)
            eva = await one.requests.enqueue(holder="eva", ports=["ocs1.1"], for_s=30)
            await one.live(WAITER_SILENT_S - 1, eva.id)
            disk.delay_s = lambda: 0.5
            await asyncio.sleep(1.2)  # ben is being withdrawn
            await one.requests.withdraw(eva.id)
            await asyncio.sleep(5)
            assert one.running
            assert one.requests.waiting == ()

    run_virtual(main())


def test_waiter_is_granted_when_its_ports_are_free_and_is_told_its_place_before() -> None:
    async def main() -> None:
        async with desk() as one:
            await one.leases.take(holder="ada", ports=["ocs1.1"], for_s=60)
            ben = await one.requests.enqueue(holder="ben", ports=["ocs1.1", "ocs1.2"], for_s=30)
            eva = await one.requests.enqueue(holder="eva", ports=["ocs1.2"], for_s=30)
            assert [fact.place for fact in facts(one, LeaseQueued)] == [1, 2]
            places = one.requests.places()
            assert "leased to ada" in places[ben.id].waits_for[0]
            assert places[eva.id].waits_for == (f"ocs1.2: ben ({ben.id}) is before it in the queue",)
            with pytest.raises(RefusedError, match=r"ocs1\.2: ben \(\w+\) waits for it in the queue"):
                await one.leases.take(holder="kim", ports=["ocs1.2"], for_s=1)
            await one.live(61, ben.id, eva.id)
            assert one.holders() == ["ben"]
            assert one.leases.get(ben.id).left_s(one.clock.wall_ns()) == pytest.approx(29, abs=0.1), "from its grant on"
            await one.live(30, ben.id, eva.id)
            assert one.holders() == ["eva"]
            epochs = [fact.epoch for fact in facts(one, LeaseTaken)]
            assert epochs == [1, 2, 3]

    run_virtual(main())


def test_queue_is_granted_by_priority_then_arrival() -> None:
    async def main() -> None:
        async with desk() as one:
            await one.leases.take(holder="ada", ports=["ocs1.1"], for_s=10)
            ids = [
                (await one.requests.enqueue(holder=holder, ports=["ocs1.1"], for_s=10, priority=priority)).id
                for holder, priority in (("first", 0), ("second", 0), ("urgent", 5))
            ]
            await one.live(45, *ids)
            assert [fact.holder for fact in facts(one, LeaseTaken)] == ["ada", "urgent", "first", "second"]

    run_virtual(main())


def test_client_that_dies_leaves_the_queue_and_the_next_one_moves_up() -> None:
    async def main() -> None:
        async with desk() as one:
            await one.leases.take(holder="ada", ports=["ocs1.1"], for_s=100)
            dead = await one.requests.enqueue(holder="ben", ports=["ocs1.1"], for_s=10)
            alive = await one.requests.enqueue(holder="eva", ports=["ocs1.1"], for_s=10)
            await one.live(WAITER_SILENT_S + 1, alive.id)
            assert [request.id for request in one.requests.waiting] == [alive.id]
            assert [(fact.lease, fact.why) for fact in facts(one, LeaseWithdrawn)] == [(dead.id, "silent")]
            assert await one.records.leases.requests() == one.requests.waiting

    run_virtual(main())


def test_lease_that_was_granted_to_a_dead_client_ends_by_itself() -> None:
    async def main() -> None:
        async with desk() as one:
            ada = await one.leases.take(holder="ada", ports=["ocs1.1"], for_s=100)
            await one.requests.enqueue(holder="ben", ports=["ocs1.1"], for_s=1000)
            await one.leases.release(ada.id)
            await asyncio.sleep(1)
            assert one.holders() == ["ben"]
            await asyncio.sleep(WAITER_SILENT_S)
            assert one.holders() == []
            assert facts(one, LeaseReleased)[-1].why == "unclaimed"

    run_virtual(main())


def test_who_leaves_or_is_kicked_is_gone_from_the_queue() -> None:
    async def main() -> None:
        async with desk() as one:
            await one.leases.take(holder="ada", ports=["ocs1.1"], for_s=20)
            leaves = await one.requests.enqueue(holder="ben", ports=["ocs1.1"], for_s=10)
            kicked = await one.requests.enqueue(holder="eva", ports=["ocs1.1"], for_s=10)
            await one.requests.withdraw(leaves.id)
            await one.requests.withdraw(kicked.id, why="kicked", by="kim", reason="enough")
            assert await one.requests.withdraw(kicked.id) is None
            found = [(fact.lease, fact.why, fact.by, fact.reason) for fact in facts(one, LeaseWithdrawn)]
            assert found[1] == (kicked.id, "kicked", "kim", "enough")
            assert found[0][:2] == (leaves.id, "released")
            await one.live(21)
            assert one.holders() == []

    run_virtual(main())


def test_queue_and_reservations_outlive_the_daemon() -> None:
    async def main() -> None:
        async with desk() as one:
            await one.leases.take(holder="ada", ports=["ocs1.1"], for_s=20)
            ben = await one.requests.enqueue(holder="ben", ports=["ocs1.1"], for_s=10)
            eva = await one.requests.reserve(holder="eva", ports=["ocs1.1"], for_s=10, at_wall_ns=one.in_s(40))
            await one.restart()
            assert (one.requests.waiting, one.requests.reserved) == ((ben,), (eva,))
            kim = await one.requests.enqueue(holder="kim", ports=["ocs1.1"], for_s=10)
            assert kim.number > eva.number
            await one.live(41, ben.id, kim.id)
            taken = facts(one, LeaseTaken)
            assert [fact.holder for fact in taken] == ["ada", "ben", "kim", "eva"]
            assert [fact.epoch for fact in taken] == [1, 2, 3, 4]

    run_virtual(main())


def test_reservation_refuses_what_overlaps_it_and_says_who_and_when() -> None:
    async def main() -> None:
        async with desk() as one:
            eva = await one.requests.reserve(holder="eva", ports=["ocs1.1"], for_s=100, at_wall_ns=one.in_s(50))
            said = rf"ocs1\.1: reserved by eva \({eva.id}\) from 2027-01-15 08:00:50 UTC to 2027-01-15 08:02:30 UTC"
            with pytest.raises(RefusedError, match=said):
                await one.leases.take(holder="ada", ports=["ocs1.1"], for_s=51)
            with pytest.raises(RefusedError, match=said):
                await one.requests.reserve(holder="ada", ports=["ocs1.1"], for_s=10, at_wall_ns=one.in_s(149))
            short = await one.leases.take(holder="ada", ports=["ocs1.1"], for_s=40)
            with pytest.raises(RefusedError, match=f"lease {short.id}: cannot last until then: {said}"):
                await one.leases.renew(short.id, for_s=60)
            with pytest.raises(RefusedError, match="leased to ada"):
                await one.requests.reserve(holder="kim", ports=["ocs1.1"], for_s=5, at_wall_ns=one.in_s(35))
            await one.requests.reserve(holder="kim", ports=["ocs1.1"], for_s=5, at_wall_ns=one.in_s(150))
            long = await one.requests.enqueue(holder="ben", ports=["ocs1.1"], for_s=60)
            await one.live(48, long.id)
            assert "reserved by eva" in one.requests.places()[long.id].waits_for[0], "it would not be done in time"

    run_virtual(main())


def test_reservation_becomes_a_lease_at_its_time_and_ends_where_nobody_claims_it() -> None:
    async def main() -> None:
        async with desk() as one:
            for holder, port in (("eva", "ocs1.1"), ("ben", "ocs1.2")):
                await one.requests.reserve(holder=holder, ports=[port], for_s=1000, at_wall_ns=one.in_s(50))
            eva, ben = one.requests.reserved
            with pytest.raises(RefusedError, match=rf"lease {eva.id}: is not granted yet, it begins 2027"):
                one.leases.get(eva.id)
            await asyncio.sleep(50.5)
            assert one.requests.reserved == ()
            assert one.leases.get(eva.id).expires_wall_ns == eva.ends_wall_ns
            await one.leases.hear(eva.id)
            await one.restart()
            await asyncio.sleep(CLAIM_WITHIN_S + 1)
            assert one.holders() == ["eva"]
            assert [(fact.lease, fact.why) for fact in facts(one, LeaseReleased)] == [(ben.id, "unclaimed")]
            await asyncio.sleep(1000)
            assert one.holders() == []

    run_virtual(main())


def test_reservation_waits_for_a_reconfiguration_and_nobody_overtakes_it() -> None:
    async def main() -> None:
        async with desk() as one:
            ledger = one.leases.ledger
            ledger.report_why(Reason.RECONFIGURATION, lambda claim: "about another 3.2 s")
            ledger.report_why(Reason.PREPARED_SET, lambda claim: "for another 60 s")
            under_way = Claim(
                id="x1", reason=Reason.RECONFIGURATION, owner="ada", ports=frozenset({"ocs1.1"}), what="one pair"
            )
            ledger.claim(under_way)
            eva = await one.requests.reserve(holder="eva", ports=["ocs1.1"], for_s=100, at_wall_ns=one.in_s(10))
            ben = await one.requests.enqueue(holder="ben", ports=["ocs1.1"], for_s=5)
            await one.live(20, ben.id)
            assert (one.requests.reserved, one.requests.waiting) == ((eva,), (ben,))
            with pytest.raises(RefusedError, match="reserved by eva"):
                ledger.release(Reason.RECONFIGURATION, "x1")
                ledger.check(Asker(), ["ocs1.1"], PortAction.CHANGE, now_wall_ns=one.clock.wall_ns())
            await one.live(1, ben.id)
            assert one.holders() == ["eva"]

    run_virtual(main())


def test_reservation_whose_ports_are_not_free_before_its_end_is_missed() -> None:
    async def main() -> None:
        async with desk() as one:
            ledger = one.leases.ledger
            ledger.claim(Claim(id="x1", reason=Reason.CUT_OFF, owner="an apply", ports=frozenset({"ocs1.1"})))
            await one.requests.reserve(holder="eva", ports=["ocs1.1"], for_s=100, at_wall_ns=one.in_s(10))
            await asyncio.sleep(111)
            assert one.requests.reserved == ()
            (withdrawn,) = facts(one, LeaseWithdrawn)
            assert withdrawn.why == "missed"
            assert str(withdrawn.waits_for).startswith("['ocs1.1: reconfiguration x1 () was cut off")

    run_virtual(main())


def test_reservation_that_cannot_begin_says_who_has_its_ports_and_is_told_anew_for_somebody_else() -> None:
    async def main() -> None:
        async with desk() as one:
            ledger = one.leases.ledger
            ledger.report_why(Reason.RECONFIGURATION, lambda claim: "about another 3.2 s")
            ledger.report_why(Reason.PREPARED_SET, lambda claim: "for another 60 s")
            under_way = Claim(
                id="x1", reason=Reason.RECONFIGURATION, owner="ada", ports=frozenset({"ocs1.1"}), what="one pair"
            )
            ledger.claim(under_way)
            eva = await one.requests.reserve(
                holder="eva", ports=["ocs1.1", "ocs1.2"], for_s=900, at_wall_ns=one.in_s(10)
            )
            await one.live(9)
            assert (one.requests.delay(eva), facts(one, LeaseDelayed)) == (None, [])
            await one.live(2)
            why = replace(under_way, why="about another 3.2 s").text(one.clock.wall_ns())
            assert "reconfiguration x1 is under way on it: one pair, asked for by ada; about another 3.2 s" in why
            assert one.requests.delay(eva) == (why,)
            await one.live(60)
            (told,) = facts(one, LeaseDelayed)
            assert (told.lease, told.waits_for, told.at_wall_ns) == (eva.id, [why], eva.at_wall_ns)
            ledger.claim(Claim(id="s1", reason=Reason.PREPARED_SET, owner="ada", ports=frozenset({"ocs1.2"})))
            ledger.release(Reason.RECONFIGURATION, "x1")
            await one.live(1)
            assert facts(one, LeaseDelayed)[1].waits_for[0].startswith("ocs1.2: held by prepared set s1 of ada")
            ledger.release(Reason.PREPARED_SET, "s1")
            await one.live(1)
            assert one.holders() == ["eva"]

    run_virtual(main())


def test_what_makes_no_sense_is_refused() -> None:
    async def main() -> None:
        async with desk() as one:
            with pytest.raises(ConfigError, match="is over; it is 2027"):
                await one.requests.reserve(holder="eva", ports=["a"], for_s=1, at_wall_ns=one.clock.wall_ns())
            one.leases.ledger.claim(Claim(id="sel", reason=Reason.DELEGATION, owner="h0", ports=frozenset("a")))
            with pytest.raises(RefusedError, match="belongs to host h0"):
                await one.requests.enqueue(holder="eva", ports=["a"], for_s=1)
            with pytest.raises(ConfigError, match=r"a heartbeat every 0\.1 s is not between 1"):
                await one.requests.enqueue(holder="eva", ports=["b"], for_s=1, heartbeat_s=0.1)
            assert await one.records.leases.requests() == ()

    run_virtual(main())


def facts(one: Desk, kind: type[F]) -> list[F]:
    return [document.fact for document in one.told if isinstance(document.fact, kind)]
