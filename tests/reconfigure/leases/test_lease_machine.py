"""The leases of the ledger against a simple model: whatever people ask for, in whatever order, over restarts of the
daemon and full disks, no port has two holders, epochs only grow, nobody who waits is forgotten, and the calendar never
overlaps.
"""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, precondition, rule

from hwd.model.lease import LeaseReleased, LeaseTaken, LeaseWithdrawn
from hwd.ports.claim import Claim
from hwd.ports.lease_request import PATIENCE_S
from hwd.ports.rules import Reason
from hwd.reconfigure.leases.requests import WAITER_SILENT_S
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import HwdError, RefusedError
from hwd_drivers.twins.virtual_time import VirtualLoop

from .conftest import Desk

T = TypeVar("T")

S: Final = 10**9
BEAT_S: Final = WAITER_SILENT_S - 5

ports = st.frozensets(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=3)
lengths = st.sampled_from([5.0, 40.0, 300.0, 4000.0])
priorities = st.integers(-1, 2)


@dataclass(frozen=True, kw_only=True)
class Waiter:
    """What a client that waits knows of itself."""

    number: int
    ports: frozenset[str]
    priority: int
    arrived_s: float


def in_its_time(method: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    @functools.wraps(method)
    def run(self: "LeaseMachine", **drawn: Any) -> Any:
        done = self.do(method(self, **drawn))
        self.do(asyncio.sleep(0.01))  # a grant may be under way
        return done

    return run


class LeaseMachine(RuleBasedStateMachine):
    """`asked`: the ids of all that was granted, queued or reserved."""

    asked: Bundle[str] = Bundle("asked")

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=VirtualLoop)
        self.desk = self.do(self.make_desk())
        self.is_full = False
        self.last_epoch = 0
        self.number = 0
        self.alive: set[str] = set()
        self.waiters: dict[str, Waiter] = {}
        self.undeleted: set[str] = set()
        """What ended while the disk was full."""
        self.known: dict[str, Waiter] = {}
        self.in_force: dict[str, int] = {}
        """The end of each lease that was granted and did not end, by id."""

    def teardown(self) -> None:
        self.do(self.desk.stop())
        self.desk.records.close()
        self.runner.close()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    async def make_desk(self) -> Desk:
        desk = Desk(self.hear)
        await desk.records.open()
        await desk.restart()
        return desk

    def now_s(self) -> float:
        return self.runner.get_loop().time()

    def hear(self, document: Document) -> None:
        match document.fact:
            case LeaseTaken(lease=id, epoch=epoch, expires_wall_ns=expires_ns):
                assert isinstance(epoch, int)
                assert epoch > self.last_epoch, "epochs only grow"
                self.last_epoch = epoch
                self.in_force[id] = expires_ns
                if (granted := self.waiters.pop(id, None)) is not None:
                    self.check_turn(granted)
            case LeaseReleased(lease=id):
                self.in_force.pop(id, None)
                self.undeleted |= {id} if self.is_full else set()
            case LeaseWithdrawn(lease=id, why=why):
                assert why in ("released", "kicked") or id not in self.alive or why == "missed", f"{id} was forgotten"
                self.waiters.pop(id, None)
                self.undeleted |= {id} if self.is_full else set()
            case _:
                pass

    def check_turn(self, granted: Waiter) -> None:
        """Nobody who was before it waits for one of its ports."""
        now_s = self.now_s()

        def turn(one: Waiter) -> tuple[int, int, int]:
            is_old = now_s - one.arrived_s >= PATIENCE_S
            return (0, 0, one.number) if is_old else (1, -one.priority, one.number)

        before = [one for one in self.waiters.values() if turn(one) < turn(granted) and one.ports & granted.ports]
        assert before == [], "overtaken"

    # --- what people do

    @rule(target=asked, ports=ports, for_s=lengths, lasting=st.booleans())
    @in_its_time
    async def take(self, ports: frozenset[str], for_s: float, lasting: bool) -> Any:
        try:
            holder = "ada" if lasting else "run r1"
            lease = await self.desk.leases.take(holder=holder, ports=ports, for_s=for_s, lasting=lasting)
        except HwdError:
            return multiple()
        if lasting:
            assert lease in [stored.claim for stored in await self.desk.records.leases.all()], (
                "durable before it is answered"
            )
        assert await self.desk.records.leases.epoch() == lease.epoch
        self.alive.add(lease.id)
        return lease.id

    @rule(target=asked, ports=ports, for_s=lengths, priority=priorities)
    @in_its_time
    async def enqueue(self, ports: frozenset[str], for_s: float, priority: int) -> Any:
        try:
            request = await self.desk.requests.enqueue(holder="ben", ports=ports, for_s=for_s, priority=priority)
        except HwdError:
            return multiple()
        assert request in await self.desk.records.leases.requests(), "durable before it is answered"
        self.number += 1
        self.alive.add(request.id)
        arrived_s = self.now_s()
        self.known[request.id] = Waiter(number=self.number, ports=ports, priority=priority, arrived_s=arrived_s)
        self.waiters[request.id] = self.known[request.id]
        return request.id

    @rule(target=asked, ports=ports, for_s=lengths, in_s=st.sampled_from([1.0, 50.0, 400.0]))
    @in_its_time
    async def reserve(self, ports: frozenset[str], for_s: float, in_s: float) -> Any:
        at_ns = self.desk.clock.wall_ns() + round(in_s * S)
        try:
            request = await self.desk.requests.reserve(holder="eva", ports=ports, for_s=for_s, at_wall_ns=at_ns)
        except HwdError:
            return multiple()
        self.alive.add(request.id)
        return request.id

    @rule(id=asked, for_s=lengths)
    @in_its_time
    async def renew(self, id: str, for_s: float) -> None:
        try:
            self.in_force[id] = (await self.desk.leases.renew(id, for_s=for_s)).expires_wall_ns or 0
        except HwdError:
            return

    @rule(id=consumes(asked), kick=st.booleans())
    @in_its_time
    async def release(self, id: str, kick: bool) -> None:
        end = {"why": "kicked", "by": "kim", "reason": "enough"} if kick else {"why": "released"}
        was_there = await self.desk.requests.withdraw(id, **end) is not None or self.desk.leases.record(id) is not None
        await self.desk.leases.release(id, **end)
        await asyncio.sleep(0.01)  # a grant may be under way
        with pytest.raises(
            RefusedError, match="kicked by kim" if kick and was_there else "not in force|none is in force"
        ):
            self.desk.leases.get(id)

    @rule(id=asked)
    def client_dies(self, id: str) -> None:
        self.alive.discard(id)

    @rule(seconds=st.sampled_from([1.0, 30.0, 200.0, 400.0]))
    @in_its_time
    async def time_passes(self, seconds: float) -> None:
        for _ in range(round(max(1.0, seconds / BEAT_S))):
            await asyncio.sleep(min(BEAT_S, seconds))
            await self.beat()

    @rule()
    @in_its_time
    async def daemon_dies(self) -> None:
        await self.desk.stop()
        of_runs = {one.id for one in self.desk.leases.all() if one.run is not None}
        for id in of_runs:
            del self.in_force[id]
        before = {one.id: one for one in self.desk.leases.all() if one.run is None}
        waiting, reserved = set(self.waiters), {one.id for one in self.desk.requests.reserved}
        self.desk.disk.mend()  # it is read all the same
        await self.desk.restart()
        if self.is_full:
            self.desk.disk.refuse("the disk is full")
        await asyncio.sleep(0.01)
        after = {one.id: one for one in self.desk.leases.all()}
        assert {id: after.get(id) for id in before} == before, "durable"
        now_waiting = {one.id for one in self.desk.requests.waiting}
        now_reserved = {one.id for one in self.desk.requests.reserved}
        assert waiting <= now_waiting | after.keys(), "nobody is forgotten"
        assert now_waiting - waiting | now_reserved - reserved <= self.undeleted, "nobody comes back"
        assert after.keys() - self.in_force.keys() <= self.undeleted | waiting | reserved, "nobody comes back"
        self.waiters = {id: self.known[id] for id in now_waiting}
        self.in_force |= {id: one.expires_wall_ns or 0 for id, one in after.items()}

    @rule()
    def disk_fills_up(self) -> None:
        self.is_full = True
        self.desk.disk.refuse("the disk is full")

    @precondition(lambda self: self.is_full)
    @rule()
    @in_its_time
    async def disk_is_freed(self) -> None:
        self.is_full = False
        self.desk.disk.mend()
        for _ in range(3):
            await asyncio.sleep(BEAT_S)
            await self.beat()
        self.undeleted.clear()

    async def beat(self) -> None:
        """What clients that live do."""
        for id in sorted(self.alive):
            self.desk.requests.heartbeat(id)
            if id in self.in_force:
                try:
                    await self.desk.leases.heartbeat(id)
                except HwdError:
                    continue

    # --- what always holds

    @invariant()
    def no_port_has_two_leases(self) -> None:
        for one, other in combinations(self.desk.leases.all(), 2):
            assert not one.ports & other.ports, f"{one} and {other}"

    @invariant()
    def leases_in_force_are_those_that_were_granted_and_did_not_end(self) -> None:
        now = self.desk.clock.wall_ns()
        granted = {id: expires_ns for id, expires_ns in self.in_force.items() if expires_ns > now}
        assert {one.id: one.expires_wall_ns for one in self.desk.leases.all()} == granted

    @invariant()
    def calendar_never_overlaps(self) -> None:
        reserved = [one.claim for one in self.desk.requests.reserved]
        for one, other in combinations([*reserved, *self.desk.leases.all()], 2):
            assert not one.ports & other.ports or not overlap(one, other), f"{one} and {other}"

    @invariant()
    def who_waits_is_in_the_queue_and_has_something_to_wait_for(self) -> None:
        assert {one.id for one in self.desk.requests.waiting} == set(self.waiters)
        if not self.is_full:
            assert all(place.waits_for for place in self.desk.requests.places().values())

    @invariant()
    def nothing_is_left_in_the_ledger_that_nobody_knows(self) -> None:
        ledger = self.desk.leases.ledger
        assert {one.id for one in ledger.all(Reason.WAIT)} == set(self.waiters)
        assert {one.id for one in ledger.all(Reason.RESERVATION)} == {one.id for one in self.desk.requests.reserved}


def overlap(one: Claim, other: Claim) -> bool:
    assert one.expires_wall_ns is not None
    assert other.expires_wall_ns is not None
    return one.since_wall_ns < other.expires_wall_ns and other.since_wall_ns < one.expires_wall_ns


TestLeases = LeaseMachine.TestCase
TestLeases.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
