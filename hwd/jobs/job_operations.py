"""JobOperations: the operations of the ranks of one job. Each waits for its plane, sends under a transfer, and ends."""

import asyncio
import hmac
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, NoReturn

from hwd.bus.asks import AskedBy
from hwd.jobs.agreement import Agreement, DisagreeError
from hwd.jobs.job_status import named
from hwd.jobs.live_job import LiveJob
from hwd.jobs.operation_sent import sent_of
from hwd.jobs.replayed_plane import PlaneInput
from hwd.jobs.verification.recorded_operations import in_time
from hwd.model.job import JobGranted, JobRankRefused, OperationSent
from hwd.model.link import Link
from hwd.model.nic_port import NicPortId
from hwd.model.plane import Done, Intent, View
from hwd.reconfigure.transfers import Transfers
from hwd_agents.wire import (
    ClaimOperation,
    ClaimTransfer,
    EndedOperation,
    EndOperation,
    EndTransfers,
    Operation,
    OperationGranted,
)
from hwd_drivers.core.errors import DeadlineError, RefusedError
from hwd_drivers.core.reason import reason_of

REFUSALS_RECORDED: Final = 100
"""Refusals of one job that are recorded: a stranger may ask in a loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _FirstAsk:
    """The first ask of a boot of an agent for an operation, and when the daemon had it: it had counted before."""

    boot: str
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _SendingRank:
    """A rank that was let go for an operation, over these `links` of its group where it says its parts. `by` and
    `transfer` None: it did not get the answer yet. `asked`: before it was let go; None: of an earlier process of the
    daemon.
    """

    operation: Operation
    links: tuple[str, ...] = ()
    by: AskedBy | None = None
    transfer: str | None = None
    asked: _FirstAsk | None = None
    let_go_ns: int | None = None


@dataclass(slots=True, kw_only=True)
class _WaitingRank:
    """A rank that waits for its plane, since `since_s` of the loop's clock."""

    operation: Operation
    since_s: float
    asked: _FirstAsk | None
    answered: "asyncio.Future[str]"
    """Empty: it may go; else why not."""


class JobOperations:
    """The operations of a job: ranks are served from `open` until the job is over; before and after that they are to
    ask again.

    `tell` tells the plane; `links`: those that its light is at. `took` is told how each operation went.
    """

    def __init__(
        self,
        job: LiveJob,
        *,
        transfers: Transfers,
        tell: Callable[[PlaneInput], None],
        links: Callable[[], Iterable[Link]],
        took: Callable[[int, Operation, OperationSent], None],
    ) -> None:
        self.refused: dict[int, str] = {}
        """Why each rank was refused last."""
        self._live = job
        self._record = job.record
        self._job = job.record.job
        self._clock = job.clock
        self._transfers = transfers
        self._tell = tell
        self._lit_links = links
        self._took = took
        self._view: View | None = None
        self._waiting: dict[int, _WaitingRank] = {}
        self._sending: dict[int, _SendingRank] = {}
        self._all_ended = asyncio.Event()
        self._turns: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._refusals = 0
        self._held, self._held_s = "", 0.0
        """Why nobody is let go now, empty where that is not so; and since when."""
        self._free = asyncio.Event()
        self._free.set()
        self._agreement = Agreement(self._job.groups)
        job.on_over.append(self._close)

    # --- what the job says

    def stand(
        self,
        view: View,
        *,
        sending: Mapping[int, Operation],
        over: Mapping[int, Iterable[Link]],
        waiting: Mapping[int, Operation],
    ) -> None:
        """What its ranks do, as it was recorded by an earlier process of the daemon. `over`: the light over which each
        one sends.
        """
        self._sending = {
            rank: _SendingRank(operation=operation, links=self._links(view, operation, over.get(rank, ())))
            for rank, operation in sending.items()
        }
        for rank, operation in waiting.items():
            self._wait(rank, operation)

    def open(self, view: View) -> None:
        self._view = view

    def hold(self, why: str) -> None:
        """Let nobody go, and tell the plane of no rank, until `go_on`."""
        if not self._held:
            self._held_s = asyncio.get_running_loop().time()
        self._held = why
        self._free.clear()

    def go_on(self) -> None:
        """No error where it was not held. Its plane has had no time meanwhile to answer those who wait."""
        if self._held:
            held_s = asyncio.get_running_loop().time() - self._held_s
            for one in self._waiting.values():
                one.since_s += held_s
        self._held = ""
        self._free.set()

    def answer(self, ranks: Iterable[int], why: str) -> None:
        """Their plane lets these go, or (`why`) refuses them."""
        now_ns = self._clock.monotonic_ns()
        for rank in ranks:
            waiting = self._waiting.pop(rank)
            if not why:
                operation = waiting.operation
                links = self._links(self._view, operation, self._lit_links()) if self._view is not None else ()
                self._sending[rank] = _SendingRank(
                    operation=operation, links=links, asked=waiting.asked, let_go_ns=now_ns
                )
            waiting.answered.set_result(why)

    async def all_ended(self, *, within_s: float) -> None:
        """Return when no rank sends any more as far as agents have told, when the job is ending, or after so long."""
        if self._sending and not self._live.is_over:
            self._all_ended.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self._all_ended.wait()

    async def finish(self, *, may_send: bool) -> None:
        """All ranks have ended. `may_send`: but for some, which may send until their longest time is over."""
        for rank in [*self._waiting]:
            self._waiting.pop(rank).answered.set_result(f"{self._record}: {self._why_over or 'it has ended'}")
        if not may_send:
            for rank in [*self._sending]:
                await self._end_transfer(rank)

    # --- what it is asked

    @property
    def states(self) -> dict[int, tuple[str, str]]:
        """What each rank does that is in an operation, and which one."""
        return {
            **{rank: ("sending", str(one.operation)) for rank, one in self._sending.items()},
            **{rank: ("waiting", str(one.operation)) for rank, one in self._waiting.items()},
        }

    def late(self, unanswered: Collection[int]) -> Iterator[str]:
        """Who has waited too long for the plane, and for whom that waits. `unanswered`: whom it has not answered."""
        if self._held:
            return
        within_s, now_s = self._record.answer_within_s, asyncio.get_running_loop().time()
        for number, one in self._waiting.items():
            if number not in unanswered or now_s - one.since_s < within_s:
                continue
            needed = one.operation.ranks(number, self._job.groups[one.operation.group].ranks)
            same = one.operation.shared(number)
            there = {n for n, other in self._waiting.items() if other.operation.shared(n) == same}
            absent = [n for n in needed if n not in there and n not in self._sending]
            who = f"{named(self._record, absent)} did not come to it" if absent else "all its ranks came to it"
            yield f"rank {number} waited {within_s:g} s for plane {self._record.plane} to answer {one.operation}; {who}"

    # --- what ranks ask

    def knows(self, key: str) -> bool:
        """Whether this is the key of the job, which its ranks have."""
        return hmac.compare_digest(key.encode(), self._record.key.encode())

    def check_rank(self, by: AskedBy, rank: int, key: str) -> None:
        """Raises RefusedError for who is no rank of the job, DeadlineError while the job starts and while it ends."""
        if not self.knows(key):
            self._refuse(by, rank, "it does not know the key of the job", is_own=False)
        if rank >= len(self._record.ranks) or self._record.ranks[rank].host != by.host:
            self._refuse(by, rank, f"the job has no rank {rank} on {by.host}", is_own=False)
        self._check_running()

    async def claim(self, by: AskedBy, asked: ClaimOperation) -> OperationGranted:
        """Let a rank send, as soon as its plane lets it. Raises RefusedError where it may not, and DeadlineError where
        there is no answer before the ask expires: then the rank asks again.
        """
        self.check_rank(by, asked.rank, asked.key)
        self._check_operation(by, asked)
        began_s = asyncio.get_running_loop().time()
        await self._until_free(by)
        async with self._turns[asked.rank]:  # two processes may say that they are one rank
            return await self._granted(by, asked, began_s)

    @property
    def is_held(self) -> bool:
        """Whether its ranks are held, and what they say waits."""
        return bool(self._held) and not self._live.is_over

    async def ended(self, by: AskedBy, ended: EndedOperation) -> None:
        """An operation has ended. Raises DeadlineError where its plane cannot hear of it yet: tell it again."""
        if not self._live.is_over and self._view is None:
            raise DeadlineError(f"{self._record}: it is not running yet. Tell it again")
        await self._until_free(by)
        one = self._sending.get(ended.rank)
        if one is not None and one.operation == ended.operation and self._record.ranks[ended.rank].host == by.host:
            self._done(ended.rank, self._sent(by, ended))

    async def end(self, by: AskedBy, asked: EndOperation) -> None:
        """A rank whose agent was started anew has ended its operation."""
        rank = asked.rank
        self.check_rank(by, rank, asked.key)
        await self._until_free(by)
        if (one := self._sending.get(rank)) is not None and one.operation == asked.operation:
            await self._end_transfer(rank)
            self._done(rank, sent_of(by, asked, now_ns=self._clock.monotonic_ns()))

    # --- inside

    def _close(self) -> None:
        self._free.set()
        self._all_ended.set()

    async def _granted(self, by: AskedBy, asked: ClaimOperation, began_s: float) -> OperationGranted:
        rank = asked.rank
        if (sending := self._sending.get(rank)) is None or sending.operation != asked.operation:
            await self._answered(by, asked)
        view = self._check_running()
        ports = sorted(port.port for port in view.ports_of(self._job.ranks[rank]))
        await self._end_transfer(rank)
        claim = ClaimTransfer(
            transfer=asked.transfer,
            ports=ports,
            phase=str(asked.operation),
            process=asked.process,
            within_s=asked.within_s,
        )
        try:
            if ports:
                await self._transfers.claim(by, claim)
        except RefusedError as error:  # its plane has let it go; what is in the way of that passes
            raise DeadlineError(f"{self._record}: {reason_of(error)}. Ask again") from error
        if self._held:
            await self._transfers.end(by, EndTransfers(transfers=[asked.transfer]))
            raise DeadlineError(f"{self._record}: {self._held}. Ask again")
        links = self._sending[rank].links
        self._sending[rank] = replace(self._sending[rank], by=by, transfer=asked.transfer)
        waited_s = asyncio.get_running_loop().time() - began_s
        self._live.announce(JobGranted, rank=rank, operation=str(asked.operation), stall_s=waited_s)
        return OperationGranted(within_s=asked.within_s, waited_s=waited_s, ports=ports, links=[*links])

    @property
    def _why_over(self) -> str:
        return "" if self._live.outcome is None else self._live.outcome[1]

    async def _until_free(self, by: AskedBy) -> None:
        """Raises DeadlineError where ranks are held until the ask expires: its agent or its rank tells it again."""
        while self.is_held:
            try:
                async with asyncio.timeout_at(by.by_s):
                    await self._free.wait()
            except TimeoutError:
                raise DeadlineError(f"{self._record}: {self._held}. Ask again") from None

    async def _answered(self, by: AskedBy, asked: ClaimOperation) -> None:
        rank = asked.rank
        waiting = self._waiting.get(rank)
        if waiting is None:
            if (sending := self._sending.get(rank)) is not None:  # who asks for the next one has ended the one before
                await self._end_transfer(rank)
                before = asked.ended
                is_known = before is not None and before.operation == sending.operation
                self._done(rank, self._sent(by, before) if before and is_known else None)
            waiting = self._wait(rank, asked.operation, by)
            self._tell(PlaneInput(event=Intent(rank=rank, operation=asked.operation)))
        elif waiting.operation != asked.operation:
            why = (
                f"it asks for {asked.operation}, and its plane was told last that it waits for {waiting.operation}: "
                "two programs say that they are this rank, or the daemon's machine lost its power, and what the plane "
                "was told since then. Start the job again"
            )
            self._refuse(by, rank, why)
        elif waiting.asked is None or waiting.asked.boot != by.boot:
            waiting.asked = _FirstAsk(boot=by.boot, at_ns=self._clock.monotonic_ns())
        if not waiting.answered.done():
            with suppress(TimeoutError):
                async with asyncio.timeout_at(by.by_s):
                    await asyncio.wait((waiting.answered,))
        if not waiting.answered.done():
            raise DeadlineError(f"{self._record}: plane {self._record.plane} has not answered yet. Ask again")
        if why := waiting.answered.result():
            self.refused[rank] = why
            raise RefusedError(f"{asked.operation}: {why}")

    def _wait(self, rank: int, operation: Operation, by: AskedBy | None = None) -> _WaitingRank:
        loop = asyncio.get_running_loop()
        asked = None if by is None else _FirstAsk(boot=by.boot, at_ns=self._clock.monotonic_ns())
        waiting = _WaitingRank(operation=operation, since_s=loop.time(), asked=asked, answered=loop.create_future())
        self._waiting[rank] = waiting
        return waiting

    def _check_running(self) -> View:
        """Raises DeadlineError while it starts and while it ends: who asks again meets it running, or finds it gone."""
        if self._live.is_over:
            raise DeadlineError(f"{self._record}: it is ending: {self._why_over or 'it is done'}. Ask again")
        if self._view is None:
            raise DeadlineError(f"{self._record}: it is not running yet. Ask again")
        return self._view

    def _check_operation(self, by: AskedBy, asked: ClaimOperation) -> None:
        """Ranks that disagree would wait for each other for ever: the job fails, and says who."""
        if not 0 < asked.within_s <= self._transfers.rules.longest_s:
            why = f"{asked.operation}: it may take up to {self._transfers.rules.longest_s:g} s, not {asked.within_s:g}"
            self._refuse(by, asked.rank, why)
        try:
            self._agreement.check(asked.rank, asked.operation)
        except DisagreeError as error:
            self._live.fail(f"rank {asked.rank} on {by.host}: {error}")
            self._refuse(by, asked.rank, str(error))

    def _refuse(self, by: AskedBy, rank: int, why: str, *, is_own: bool = True) -> NoReturn:
        if is_own:
            self.refused[rank] = why
        self._refusals += 1
        if self._refusals <= REFUSALS_RECORDED:
            self._live.emit(JobRankRefused, rank=rank, host=by.host, why=why)
        job = f"{self._record}: rank {rank}" if is_own else f"job {self._record.id}"
        raise RefusedError(f"{job}: {why}")

    async def _end_transfer(self, rank: int) -> None:
        if (one := self._sending.get(rank)) is not None and one.by is not None and one.transfer is not None:
            self._sending[rank] = replace(one, by=None, transfer=None)
            await self._transfers.end(one.by, EndTransfers(transfers=[one.transfer]))

    def _links(self, view: View, operation: Operation, lit: Iterable[Link]) -> tuple[str, ...]:
        """Those between NIC ports of the ranks of its group, for one that says its parts: all of them send by these."""
        if not operation.parts:
            return ()
        ranks = [self._job.ranks[rank] for rank in self._job.groups[operation.group].ranks]
        own = frozenset[NicPortId]().union(*map(view.ports_of, ranks))
        return tuple(link for link in lit if own.issuperset(link.ends))

    def _sent(self, by: AskedBy, ended: EndedOperation) -> OperationSent | None:
        asked = self._sending[ended.rank].asked
        asked_ns = asked.at_ns if asked is not None and asked.boot == by.boot else None
        return sent_of(by, ended, now_ns=self._clock.monotonic_ns(), asked_ns=asked_ns)

    def _done(self, rank: int, sent: OperationSent | None) -> None:
        if (one := self._sending.pop(rank, None)) is None:
            return  # it was said twice
        if sent is not None:
            self._took(rank, one.operation, sent if one.let_go_ns is None else in_time(sent, one.let_go_ns))
        self._tell(PlaneInput(event=Done(rank=rank), sent=sent))
        if not self._sending:
            self._all_ended.set()
