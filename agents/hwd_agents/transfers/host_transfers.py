"""HostTransfers: the transfers of one host, each of a process that is connected to the agent.

The daemon decides whether one may go. What ended is told to it until it has answered.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec import UNSET, structs

from hwd_agents.process.config import TransfersConfig
from hwd_agents.process.daemon_asks import DaemonAsks
from hwd_agents.process.line_socket import Client, LineSocket, Spawn
from hwd_agents.transfers.lines import (
    AnswerLine,
    AskOperation,
    Claim,
    DoneOperation,
    JoinAnswerLine,
    Line,
    OverLine,
    Rank,
    Switch,
    SwitchAnswerLine,
)
from hwd_agents.transfers.rank_operations import RankOperations
from hwd_agents.transfers.set_switches import SetSwitches
from hwd_agents.wire import (
    ClaimOperation,
    ClaimTransfer,
    CountedBytes,
    CutTransfers,
    EndedOperation,
    EndOperation,
    EndTransfers,
    JoinJob,
    OperationGranted,
    StandingTransfer,
    StandingTransfers,
    TransferGranted,
    TransfersCut,
    clipped,
)
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import DeadlineError, HwdError, RefusedError
from hwd_drivers.core.ids import Ids
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import from_json, from_plain, to_json, to_plain
from hwd_drivers.transports.dial import Acceptor

ANSWER_WITHIN_S: Final = 2.0
"""For the daemon's answer, beside the wait that the process allows."""
AGAIN_S: Final = 1.0
"""Between attempts to tell the daemon what has ended."""
EXPIRED_AFTER_S: Final = 5.0
"""So long after its longest time the daemon has ended a transfer by itself, whether or not it was told."""
OF_A_CLIENT_MOST: Final = 64
LINES_PER_S: Final = 200.0
ENDS: Final = "transfers"
SOCKET: Final = "transfer socket"
_ARROW: Final = "<->"

log = logging.getLogger(__name__)

Verb = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _GrantedTransfer:
    """A transfer that was granted. `until_s`: the end of its longest time, `loop.time()`; the daemon's is later."""

    client: Client
    asked: ClaimTransfer | ClaimOperation
    ports: list[str]
    phase: str
    until_s: float
    ask: AskOperation | None = None
    """The ask of a rank that the transfer is."""
    operation: EndedOperation | None = None
    """The operation of a job that it is then, with what was counted before it."""


class HostTransfers:
    """A transfer ends with the connection that made it, when its process says so, and when its time is over.

    `counted`: reads the counters of the NIC ports.
    """

    def __init__(
        self,
        config: TransfersConfig,
        asks: DaemonAsks,
        *,
        host: str,
        boot: str,
        clock: Clock,
        ports: Mapping[str, object],
        counted: Callable[[], CountedBytes],
        acceptor: Acceptor,
        ids: Ids,
        spawn: Spawn,
    ) -> None:
        self._asks = asks
        self._set_switches = SetSwitches(asks, host=host, ids=ids)
        self._host = host
        self._boot = boot
        self._ports = ports
        self._clock = clock
        self._number = 0
        self._standing: dict[str, _GrantedTransfer] = {}
        self._clients: dict[Client, set[str]] = {}
        """By client: its transfers, asked for or granted."""
        self._gone: set[Client] = set()
        self._over: dict[str, str] = {}
        """Why transfers of connected clients are over that these have not ended."""
        self._ending: dict[str, float] = {}
        """What the daemon is to be told, each with the `loop.time()` from which on it knows without that."""
        self._operations = RankOperations(counted)
        self._changed = asyncio.Event()
        self._socket = None
        if config.socket is not None:
            self._socket = LineSocket(
                config.socket,
                what="transfers.socket",
                group=config.group,
                answer=self._answer,
                acceptor=acceptor,
                spawn=spawn,
                gone=self._lost,
                lines_per_s=LINES_PER_S,
            )

    def runs(self) -> list[tuple[str, Callable[[], Coroutine[None, None, None]]]]:
        """Name and body of each task."""
        return [] if self._socket is None else [(SOCKET, self._socket.run), (ENDS, self.run)]

    @property
    def verbs(self) -> Mapping[str, Verb]:
        """The handlers of the daemon's commands about them, by verb."""
        return {"report-transfers": self._report, "cut-transfers": self._cut}

    async def run(self) -> None:
        """End transfers whose time is over, and tell the daemon of ends, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._changed.clear()
            for id in [id for id, one in self._standing.items() if one.until_s <= loop.time()]:
                within_s = self._standing[id].asked.within_s
                self._end(id, f"its longest time of {within_s:g} s is over. Claim a longer one, or a phase at a time")
            is_answered = await self._tell() if self._ending or self._operations.to_report() else True
            ends_s = [one.until_s for one in self._standing.values()]
            if not is_answered:
                ends_s.append(loop.time() + AGAIN_S)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(ends_s, default=None)):
                    await self._changed.wait()

    # --- lines of processes

    async def _answer(self, client: Client, text: bytes) -> bytes:
        try:
            line = from_json(text, Line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:  # the last: nested too deeply
            why = f'not a request: {reason_of(error)}. Write {{"claim": {{"links": ["eth0"], "within_s": 5}}}}'
            return to_json(AnswerLine(outcome="refused", why=clipped(why)))
        failed = AnswerLine if line.join is None else JoinAnswerLine
        try:
            answer = await self._answered(client, line)
        except RefusedError as error:
            answer = failed(outcome="refused", why=clipped(str(error)))
        except HwdError as error:
            answer = failed(outcome="failed", why=clipped(str(error)))
        return to_json(structs.replace(answer, id=line.id))

    async def _answered(self, client: Client, line: Line) -> AnswerLine | JoinAnswerLine | SwitchAnswerLine:
        """Raises HwdError where the daemon does not do it."""
        match [one for one in (line.claim, line.end, line.switch, line.join, line.ask, line.done) if one is not None]:
            case [Claim() as claim]:
                return await self._claim(client, claim)
            case [str() as end]:
                return self._ended(client, end)
            case [Switch() as switch]:
                return await self._set_switches.switch(switch, _process(switch.process, client))
            case [AskOperation() as ask]:
                return await self._operation(client, ask)
            case [DoneOperation() as done]:
                return await self._done(done)
            case [Rank() as rank]:
                process = client.peer or "a process"
                join = JoinJob(job=rank.job, rank=rank.rank, key=rank.key, process=process)
                return JoinAnswerLine(outcome="joined", joined=await self._asks.ask(join, within_s=ANSWER_WITHIN_S))
        return AnswerLine(outcome="refused", why="a request has one of claim, end, switch, join, ask and done")

    async def _claim(self, client: Client, claim: Claim) -> AnswerLine:
        ports = [*dict.fromkeys(map(self._port, claim.links))]
        asked = ClaimTransfer(
            transfer=self._new_id(),
            ports=ports,
            phase=claim.phase,
            process=_process(claim.process, client),
            within_s=claim.within_s,
            wait_s=claim.wait_s,
            key=claim.key,
        )
        return await self._asked(client, asked, wait_s=claim.wait_s)

    async def _operation(self, client: Client, ask: AskOperation) -> AnswerLine:
        asked = ClaimOperation(
            transfer=self._new_id(),
            job=ask.job,
            rank=ask.rank,
            key=ask.key,
            operation=ask.operation,
            process=_process(f"rank {ask.rank} of job {ask.job}", client),
            within_s=ask.within_s,
            ended=self._operations.last_end(ask.job, ask.rank),
        )
        return await self._asked(client, asked, wait_s=ask.wait_s, ask=ask)

    async def _asked(
        self,
        client: Client,
        asked: ClaimTransfer | ClaimOperation,
        *,
        wait_s: float,
        ask: AskOperation | None = None,
    ) -> AnswerLine:
        """Ask the daemon, and let the transfer stand that it grants."""
        id = asked.transfer
        if client in self._gone:
            raise RefusedError("its process is gone")
        loop = asyncio.get_running_loop()
        own = self._clients.setdefault(client, set())
        if len(own) >= OF_A_CLIENT_MOST:
            raise RefusedError(f"this process has {OF_A_CLIENT_MOST} transfers already. End one before")
        own.add(id)
        asked_s = loop.time()
        limit_s = wait_s + ANSWER_WITHIN_S
        latest_s = asked_s + limit_s + asked.within_s + EXPIRED_AFTER_S
        granted: TransferGranted | OperationGranted
        operation: EndedOperation | None = None
        links: list[str] = []
        try:
            before = None if ask is None else self._operations.before(ask)
            if isinstance(asked, ClaimTransfer):
                granted = await self._asks.ask(asked, within_s=limit_s, again=True)
                ports, phase = asked.ports, asked.phase
            else:
                granted = await self._asks.ask(asked, within_s=limit_s, again=True)
                ports, phase, links = granted.ports, str(asked.operation), granted.links
                operation = EndedOperation(
                    job=asked.job,
                    rank=asked.rank,
                    operation=asked.operation,
                    before=before,
                    began_ns=self._clock.monotonic_ns(),
                )
            if (
                loop.time() - asked_s - granted.waited_s > ANSWER_WITHIN_S
            ):  # by a daemon that was started anew meanwhile
                raise DeadlineError(f"{phase}: when it was let go is not known here: the daemon was away. Ask again")
        except RefusedError as error:
            own.discard(id)
            if ask is not None:
                self._operations.forget_before(ask)
            return AnswerLine(outcome="refused", transfer=id, why=clipped(str(error)))
        except HwdError as error:  # the daemon may have granted it, and the answer is lost
            own.discard(id)
            if ask is None:  # a rank asks for its operation again, and goes on with that
                self._end_later(id, latest_s)
            return AnswerLine(outcome="failed", transfer=id, why=clipped(str(error)))
        except BaseException:
            self._end_later(id, latest_s)
            raise
        if client in self._gone:
            self._end_later(id, latest_s)
            return AnswerLine(outcome="refused", transfer=id, why="its process is gone")
        self._standing[id] = _GrantedTransfer(
            client=client,
            asked=asked,
            ports=ports,
            phase=phase,
            ask=ask,
            operation=operation,
            until_s=asked_s + granted.waited_s + granted.within_s,  # before the daemon's: that began later
        )
        self._changed.set()
        return AnswerLine(outcome="go", transfer=id, within_s=granted.within_s, links=links or UNSET)

    async def _done(self, done: DoneOperation) -> AnswerLine:
        after = self._operations.after(done)
        asked = EndOperation(job=done.job, rank=done.rank, key=done.key, operation=done.operation, after=after)
        try:
            await self._asks.ask(asked, within_s=ANSWER_WITHIN_S)
        except RefusedError:
            self._operations.forget_after(done)
            raise
        self._operations.forget_after(done)
        return AnswerLine(outcome="ended")

    def _ended(self, client: Client, id: str) -> AnswerLine:
        if (why := self._over.get(id)) is not None and id in self._clients.get(client, ()):
            del self._over[id]
            self._clients[client].discard(id)
            return AnswerLine(outcome="over", transfer=id, why=why)
        standing = self._standing.get(id)
        if standing is None or standing.client is not client:
            return AnswerLine(outcome="refused", transfer=id, why=f"{id}: this process has no such transfer")
        self._end(id)
        return AnswerLine(outcome="ended", transfer=id)

    def _lost(self, client: Client) -> None:
        """A process is gone: its transfers end with its connection."""
        self._gone.add(client)
        for id in self._clients.pop(client, set()):
            self._over.pop(id, None)
            if id in self._standing:
                self._end(id)
            else:  # asked for, or over: it waits no longer
                self._end_later(id, asyncio.get_running_loop().time() + EXPIRED_AFTER_S)
        asyncio.get_running_loop().call_later(2 * ANSWER_WITHIN_S + 60.0, self._gone.discard, client)

    # --- commands of the daemon

    async def _report(self, arguments: dict[str, Any]) -> dict[str, Any]:
        now_s = asyncio.get_running_loop().time()
        standing = [
            StandingTransfer(
                transfer=id,
                ports=one.ports,
                phase=one.phase,
                process=one.asked.process,
                left_s=max(0.0, one.until_s - now_s),
            )
            for id, one in self._standing.items()
            if one.ports  # a rank may send over packet switches alone
        ]
        answer: dict[str, Any] = to_plain(StandingTransfers(transfers=standing))
        return answer

    async def _cut(self, arguments: dict[str, Any]) -> dict[str, Any]:
        asked = from_plain(arguments, CutTransfers)
        ids = [id for id in asked.transfers if id in self._standing]
        for id in ids:
            self._end(id, asked.why)
        answer: dict[str, Any] = to_plain(TransfersCut(told=ids))
        return answer

    # --- ends

    def _end(self, id: str, why: str = "") -> None:
        """End one. `why`: its process did not; it is told at once."""
        one = self._standing.pop(id)
        if one.operation is not None:
            self._operations.end(one.operation)
        if one.ask is not None:
            self._operations.forget_before(one.ask)
        if why:
            self._over[id] = why
            one.client.send(to_json(OverLine(over=id, why=why)))
        elif one.client in self._clients:
            self._clients[one.client].discard(id)
        self._end_later(id, one.until_s + EXPIRED_AFTER_S)

    def _end_later(self, id: str, known_s: float) -> None:
        self._ending[id] = known_s
        self._changed.set()

    async def _tell(self) -> bool:
        """Tell the daemon what has ended; returns whether nothing is left to tell."""
        now_s = asyncio.get_running_loop().time()
        self._ending = {id: known_s for id, known_s in self._ending.items() if known_s > now_s}
        operations = self._operations.to_report()
        if not self._ending and not operations:
            return True
        ending, self._ending = self._ending, {}  # one that ends once more meanwhile is told once more
        try:
            ends = EndTransfers(transfers=[*ending], operations=operations)
            await self._asks.ask(ends, within_s=ANSWER_WITHIN_S)
        except RefusedError as error:
            log.warning("%s: the daemon does not take ends of transfers: %s", self._host, error)
        except HwdError as error:
            log.debug("%s: ends of transfers: %s", self._host, error)
            self._ending = {**ending, **self._ending}
            return False
        self._operations.forget(operations)
        return not self._ending and not self._operations.to_report()

    def _new_id(self) -> str:
        self._number += 1
        return f"{self._boot[:8]}-{self._number}"

    def _port(self, link: str) -> str:
        """The port of this host in `eth0`, `h0.eth0` or `h0.eth0<->h1.eth0`. Raises RefusedError where none is."""
        for end in map(str.strip, link.split(_ARROW)):
            host, dot, port = end.partition(".")
            name = port if dot and host == self._host else end
            if name in self._ports:
                return name
        raise RefusedError(f"{link}: is no port or link of host {self._host}; it has {', '.join(self._ports)}")


def _process(stated: str, client: Client) -> str:
    """`rank 3, pid 4711 of uid 1000`."""
    return ", ".join(part for part in (stated, client.peer) if part) or "a process"
