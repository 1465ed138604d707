"""Transfers in flight: claims of the ledger that processes of hosts make over their agents, and waits for their end.

The check of the ledger and the claim are one step without an await, here as in the reconfigurer: of a transfer and a
reconfiguration that want one port at the same moment, one is refused.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, Final

from hwd.bus.asks import AskedBy
from hwd.fabric.fabric import Fabric
from hwd.model.host import ClockAligned, HostBirth
from hwd.model.testbed import Testbed
from hwd.model.transfer import TransferClaimed, TransferCut, TransferEnded, TransferRefused, TransferStatus
from hwd.ports.claim import Claim, utc
from hwd.ports.ledger import Asker, Ledger
from hwd.ports.rules import PortAction, Reason
from hwd.ports.transfer import Transfer
from hwd.reconfigure.apply.agent_watch import Agents
from hwd.records.transfer_table import TransferTable
from hwd_agents.wire import (
    ClaimTransfer,
    CutTransfers,
    EndTransfers,
    ReportTransfers,
    StandingTransfers,
    TransferGranted,
    TransfersEnded,
)
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document, Sink
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import DeadlineError, HwdError, RefusedError
from hwd_drivers.core.values import natural_key

OF_A_HOST_MOST: Final = 256
"""Transfers of one host at a time."""
OVER_REMEMBERED: Final = 4096
"""Transfers that ended otherwise than by their process; it is told when it ends one of them."""
AGENT_WITHIN_S: Final = 2.0
"""For the answer of an agent about its transfers; it is asked again."""
AGAIN_S: Final = 1.0
_IN_FLIGHT: Final = (Reason.TRANSFER, Reason.UNREPORTED)

log = logging.getLogger(__name__)


class InFlightError(RefusedError):
    """Transfers are in flight on `ports`, and whoever moves these may still wait for their end."""

    def __init__(self, message: str, ports: frozenset[str]) -> None:
        super().__init__(message)
        self.ports = ports


class Transfers:
    """Owns the transfers of the ledger. Also a `Sink`, and a task: `run`.

    `ports`: of each host, `h0.eth0`. `sink` takes what is recorded, `announce` what comes by the hundred and is not.
    A transfer ends when its process or its agent says so, when its longest time is over by the daemon's monotonic
    clock, and when its agent starts anew. An agent that is away ends nothing: its processes may go on sending.
    """

    TAKES: ClassVar = (HostBirth, ClockAligned)

    def __init__(
        self,
        ledger: Ledger,
        testbed: Testbed,
        *,
        store: TransferTable,
        agents: Agents,
        clock: Clock,
        sink: Sink,
        announce: Sink,
    ) -> None:
        self.rules = testbed.transfers
        self._ledger = ledger
        self._ports = _ports_by_host(testbed)
        self._store = store
        self._agents = agents
        self._clock = clock
        self._emit = Emitter(clock, sink)
        self._announce = Emitter(clock, announce)
        self._transfers: dict[str, Transfer] = {}
        self._waiting: set[str] = set()
        """The transfers that wait for ports that are being moved, by name."""
        self._over: dict[str, str] = {}
        self._boots: dict[str, str] = {}
        self._noted: set[str] = set()
        """Hosts of which it is durable that they claim transfers."""
        self._unreported_until_ns: dict[str, int] = {}
        self._to_tell: list[tuple[str, CutTransfers]] = []
        self._changed = asyncio.Event()
        self._moved = asyncio.Event()
        self.light_of_ways_back: Callable[[], Collection[str]] = frozenset
        """The NIC ports whose light ways back may change that the journal has open."""
        ledger.on_release(self._wake)
        ledger.report_why(Reason.TRANSFER, self._why)
        ledger.report_why(Reason.UNREPORTED, self._why_unreported)

    def use_testbed(self, fabric: Fabric) -> None:
        """Go on with the testbed of this fabric. Phases that were claimed before keep their longest time."""
        self.rules = fabric.testbed.transfers
        self._ports = _ports_by_host(fabric.testbed)

    async def load(self) -> None:
        """Hosts that claimed transfers under an earlier process of the daemon may be sending, until they report."""
        self._noted = set(await self._store.hosts()) & self._ports.keys()
        until_ns = self._clock.monotonic_ns() + round(self.rules.longest_s * 1e9)
        for host in sorted(self._noted):
            self._unreported_until_ns[host] = until_ns
            self._ledger.claim(
                Claim(
                    id=host,
                    reason=Reason.UNREPORTED,
                    owner=host,
                    ports=self._ports[host],
                    since_wall_ns=self._clock.wall_ns(),
                )
            )

    @property
    def ports(self) -> frozenset[str]:
        """The NIC ports of all hosts."""
        return frozenset().union(*self._ports.values())

    def all(self) -> tuple[Transfer, ...]:
        """The transfers in flight, oldest first."""
        return tuple(self._transfers.values())

    @property
    def unreported(self) -> tuple[str, ...]:
        """Hosts that have not said since the start of the daemon whether they are sending."""
        return tuple(self._unreported_until_ns)

    def status(self) -> list[TransferStatus]:
        """The transfers in flight, then hosts that may be sending."""
        now_ns = self._clock.monotonic_ns()
        found = [
            TransferStatus(
                transfer=one.name,
                host=one.host,
                process=one.said.process,
                phase=one.said.phase,
                ports=sorted(one.ports, key=natural_key),
                since_s=(now_ns - one.since_ns) / 1e9,
                left_s=one.left_s(now_ns),
                drained_by=self.drained_by(one),
            )
            for one in self._transfers.values()
        ]
        for host, until_ns in self._unreported_until_ns.items():
            left_s = max(0.0, (until_ns - now_ns) / 1e9)
            found.append(
                TransferStatus(
                    transfer="",
                    host=host,
                    process="",
                    phase="",
                    ports=sorted(self._ports[host], key=natural_key),
                    since_s=self.rules.longest_s - left_s,
                    left_s=left_s,
                )
            )
        return found

    def drained_by(self, transfer: Transfer) -> str | None:
        """The reconfiguration that waits for its end."""
        waiting = self._ledger.all(Reason.DRAIN)
        return next((one.id for one in waiting if one.ports & transfer.ports), None)

    # --- what agents ask

    async def claim(self, by: AskedBy, asked: ClaimTransfer) -> TransferGranted:
        """Let a process send, at once or as soon as its ports are not moved any more, within `wait_s`.

        Raises RefusedError with the reason, and DeadlineError where its turn came after its expiry.
        """
        now_s = asyncio.get_running_loop().time()
        transfer = self._checked(by, asked)
        until_s = min(by.by_s, now_s + asked.wait_s)
        self._waiting.add(transfer.name)
        try:
            if by.host not in self._noted:
                await self._store.note(by.host)
                self._noted.add(by.host)
            while why := self._refusal(transfer, by):
                if asyncio.get_running_loop().time() >= until_s or self._boots.get(by.host) != by.boot:
                    raise RefusedError(why)
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(until_s):
                        await self._moved.wait()
                if transfer.name not in self._waiting:
                    break
            if transfer.name not in self._waiting:
                raise RefusedError(f"{transfer}: its process went away while it waited")
            if asyncio.get_running_loop().time() >= by.by_s:
                raise DeadlineError(f"{transfer}: its turn came after the expiry of the ask; nothing was claimed")
            self._put(transfer, within_s=asked.within_s)
        except RefusedError as error:
            self._announce(TransferRefused(**_fields(transfer), why=str(error)))
            raise
        finally:
            self._waiting.discard(transfer.name)
        return TransferGranted(within_s=asked.within_s, waited_s=asyncio.get_running_loop().time() - now_s)

    async def end(self, by: AskedBy, asked: EndTransfers) -> TransfersEnded:
        """End transfers, and those that still wait; says which were over before, and why."""
        over: dict[str, str] = {}
        for id in asked.transfers:
            name = f"{by.host}/{id}"
            self._waiting.discard(name)
            if (found := self._transfers.get(name)) is not None and found.boot == by.boot:
                self._end(found, "ended")
            elif (why := self._over.pop(name, None)) is not None:
                over[id] = why
        self._wake()
        return TransfersEnded(over=over)

    # --- what reconfigurations ask

    def on(self, ports: frozenset[str]) -> dict[str, str]:
        """The transfers on these ports, and hosts that may be sending there: by name, with the text of a refusal."""
        now, found = self._clock.wall_ns(), dict[str, str]()
        for claim in self._ledger.all(*_IN_FLIGHT):
            if shared := claim.ports & ports:
                found[claim.id] = claim.text(now, shared)
        return found

    def block(self, reconfiguration: str, ports: frozenset[str], what: str, *, by: str) -> None:
        """Let no new transfer onto these ports until `unblock`."""
        self._ledger.claim(Claim(id=reconfiguration, reason=Reason.DRAIN, owner=by, ports=ports, what=what))

    def unblock(self, reconfiguration: str) -> None:
        """The end of `block`; no error where there was none."""
        self._ledger.release(Reason.DRAIN, reconfiguration)

    async def ended(self, ports: frozenset[str], *, by_s: float) -> bool:
        """Wait until no transfer is on these ports, until `by_s` at the latest; returns whether it is so."""
        while self._any_on(ports):
            if asyncio.get_running_loop().time() >= by_s:
                return False
            with suppress(TimeoutError):
                async with asyncio.timeout_at(by_s):
                    await self._moved.wait()
        return True

    def cut(self, ports: frozenset[str], *, by: str, what: str, waited_s: float) -> list[str]:
        """End the transfers on these ports, whose light is taken now: a line on each, for the record of `by`."""
        lines: list[str] = []
        ids_by_host: dict[str, list[str]] = {}
        for one in [one for one in self._transfers.values() if one.ports & ports]:
            why = f"reconfiguration {by} ({what}) cut it"
            self._end(one, why)
            self._emit(TransferCut(**_fields(one), reconfiguration=by, what=what, waited_s=waited_s))
            ids_by_host.setdefault(one.host, []).append(one.said.transfer)
            lines.append(f"{one} was cut, after a wait of {waited_s:.1f} s for its end")
            log.warning("%s: %s", by, lines[-1])
        for claim in self._ledger.all(Reason.UNREPORTED):
            if shared := sorted(claim.ports & ports, key=natural_key):
                cut = TransferCut(
                    transfer="",
                    host=claim.owner,
                    process="",
                    phase="",
                    ports=shared,
                    reconfiguration=by,
                    what=what,
                    waited_s=waited_s,
                )
                self._emit(cut)
                lines.append(f"whether {claim.owner} was sending over {', '.join(shared)} is not known: {claim.why}")
                log.warning("%s: %s", by, lines[-1])
        self._to_tell += [
            (host, CutTransfers(transfers=ids, why=f"reconfiguration {by} ({what}) cut it"))
            for host, ids in ids_by_host.items()
        ]
        self._changed.set()
        return lines

    async def drain(self, ports: frozenset[str], *, by: str, what: str) -> list[str]:
        """Drain ports for a way back: wait `drain_s` for the end of the transfers on them, then cut what is left.

        The caller has a claim that lets no new one on. Returns a line on each that was cut.
        """
        if not self._any_on(ports):
            return []
        began_s = asyncio.get_running_loop().time()
        await self.ended(ports, by_s=began_s + self.rules.drain_s)
        return self.cut(ports, by=by, what=what, waited_s=asyncio.get_running_loop().time() - began_s)

    def set_at_rest(self, reconfiguration: str, at_rest: bool) -> None:
        """Whether a reconfiguration moves nothing now, so that transfers may go over its ports."""
        claim = self._ledger.get(Reason.RECONFIGURATION, reconfiguration)
        if claim is not None and claim.at_rest != at_rest:
            self._ledger.claim(replace(claim, at_rest=at_rest))
            self._wake()

    # --- the task, and the sink

    async def run(self) -> None:
        """End transfers whose time is over, ask hosts for their reports, and tell agents what was cut; until
        cancelled.
        """
        async with asyncio.TaskGroup() as group:
            asking: dict[str, asyncio.Task[None]] = {}
            while True:
                self._changed.clear()
                self._expire()
                while self._to_tell:
                    host, cut = self._to_tell.pop(0)
                    group.create_task(self._tell(host, cut), name=f"hwd:transfers/cut/{host}")
                for host in self._unreported_until_ns:
                    if self._agents.boot(host) is not None and (host not in asking or asking[host].done()):
                        asking[host] = group.create_task(self._ask(host), name=f"hwd:transfers/report/{host}")
                now_ns = self._clock.monotonic_ns()
                ends_ns = [*(one.until_ns for one in self._transfers.values()), *self._unreported_until_ns.values()]
                waits_s = [max(0.001, (one - now_ns) / 1e9) for one in ends_ns]
                if self._unreported_until_ns:
                    waits_s.append(AGAIN_S)
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(waits_s, default=None)):
                        await self._changed.wait()

    def __call__(self, document: Document) -> None:
        match document.fact:
            case HostBirth(host=host, boot=boot) if self._boots.get(host) != boot:
                self._boots[host] = boot
                for one in [one for one in self._transfers.values() if one.host == host and one.boot != boot]:
                    self._end(one, "its agent was started anew")
                self._wake()
            case ClockAligned(host=host) if host in self._unreported_until_ns:
                self._changed.set()

    # --- inside

    def _checked(self, by: AskedBy, asked: ClaimTransfer) -> Transfer:
        """Raises RefusedError where nobody can claim that."""
        own = self._ports.get(by.host, frozenset())
        ports = frozenset(f"{by.host}.{port}" for port in asked.ports)
        if strange := sorted(ports - own, key=natural_key):
            known = ", ".join(sorted(own, key=natural_key))
            raise RefusedError(f"transfer: {', '.join(strange)} is no port of host {by.host}; there are {known}")
        if not 0 < asked.within_s <= self.rules.longest_s:
            raise RefusedError(
                f"transfer: a phase of {asked.within_s:g} s is not above 0 and up to {self.rules.longest_s:g} s; "
                "claim a shorter one, or set `transfers: {longest_s: ...}` in the testbed file"
            )
        if sum(one.host == by.host for one in self._transfers.values()) >= OF_A_HOST_MOST:
            raise RefusedError(f"transfer: host {by.host} has {OF_A_HOST_MOST} in flight already. End one before")
        return Transfer(said=asked, host=by.host, boot=by.boot, ports=ports)

    def _refusal(self, transfer: Transfer, by: AskedBy) -> str:
        """Why the transfer may not go now, empty where it may."""
        if self._boots.get(by.host) != by.boot:
            return f"{transfer}: its agent was started anew"
        now = self._clock.wall_ns()
        refusal = self._ledger.may(Asker(), transfer.ports, PortAction.TRANSFER, now_wall_ns=now)
        if refusal is not None:
            return refusal.text
        for claim in self._ledger.all(Reason.CUT_OFF):  # the light at its switches may have changed since its claim
            if shared := sorted(transfer.ports.intersection(self.light_of_ways_back()), key=natural_key):
                return claim.text(now, shared)
        return ""

    def _put(self, transfer: Transfer, *, within_s: float) -> None:
        now_ns = self._clock.monotonic_ns()
        transfer = replace(transfer, since_ns=now_ns, until_ns=now_ns + round(within_s * 1e9))
        self._transfers[transfer.name] = transfer
        self._ledger.claim(
            Claim(
                id=transfer.name,
                reason=Reason.TRANSFER,
                owner=transfer.owner,
                ports=transfer.ports,
                since_wall_ns=self._clock.wall_ns(),
                what=transfer.said.phase,
            )
        )
        self._changed.set()
        self._announce(TransferClaimed(**_fields(transfer), within_s=within_s))

    def _end(self, transfer: Transfer, why: str) -> None:
        del self._transfers[transfer.name]
        self._ledger.release(Reason.TRANSFER, transfer.name)
        if why != "ended":
            self._over[transfer.name] = why
            while len(self._over) > OVER_REMEMBERED:
                del self._over[next(iter(self._over))]
        lasted_s = (self._clock.monotonic_ns() - transfer.since_ns) / 1e9
        self._announce(TransferEnded(**_fields(transfer), why=why, seconds=lasted_s))

    def _expire(self) -> None:
        now_ns = self._clock.monotonic_ns()
        for one in [one for one in self._transfers.values() if one.until_ns <= now_ns]:
            self._end(one, "its longest time was over")
        for host in [host for host, until_ns in self._unreported_until_ns.items() if until_ns <= now_ns]:
            log.info("%s: did not report its transfers; the longest time of each is over", host)
            self._reported(host)

    def _any_on(self, ports: frozenset[str]) -> bool:
        return any(claim.ports & ports for claim in self._ledger.all(*_IN_FLIGHT))

    def _wake(self, released: Claim | None = None) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    async def _tell(self, host: str, cut: CutTransfers) -> None:
        try:
            await self._agents.command(host, cut, within_s=AGENT_WITHIN_S)
        except HwdError as error:
            log.warning("%s: its agent does not know yet that transfers were cut: %s", host, error)

    async def _ask(self, host: str) -> None:
        try:
            report = await self._agents.command(host, ReportTransfers(), within_s=AGENT_WITHIN_S)
        except HwdError as error:
            log.debug("%s: its transfers: %s", host, error)
        else:
            self._take(host, report)

    def _take(self, host: str, report: StandingTransfers) -> None:
        """What an agent has in flight is a fact: nobody is asked whether it may be."""
        boot, own = self._boots.get(host), self._ports[host]
        if boot is None or host not in self._unreported_until_ns:
            return
        for one in report.transfers:
            ports = frozenset(f"{host}.{port}" for port in one.ports) & own
            standing = Transfer(said=one, host=host, boot=boot, ports=ports)
            if ports and standing.name not in self._transfers:
                self._put(standing, within_s=min(one.left_s, self.rules.longest_s))
        self._reported(host)

    def _reported(self, host: str) -> None:
        del self._unreported_until_ns[host]
        self._ledger.release(Reason.UNREPORTED, host)

    def _why(self, claim: Claim) -> str:
        found = self._transfers.get(claim.id)
        left_s = 0.0 if found is None else found.left_s(self._clock.monotonic_ns())
        return f"for another {left_s:.1f} s at most"

    def _why_unreported(self, claim: Claim) -> str:
        left_ns = max(0, self._unreported_until_ns.get(claim.id, 0) - self._clock.monotonic_ns())
        silent = self._agents.why_silent(claim.id) or "its agent is being asked"
        rests = utc(self._clock.wall_ns() + left_ns)
        return f"it has not said so since the daemon started, {silent}; at {rests} it counts as at rest"


def _fields(one: Transfer) -> dict[str, Any]:
    return {
        "transfer": one.name,
        "host": one.host,
        "process": one.said.process,
        "phase": one.said.phase,
        "ports": sorted(one.ports),
    }


def _ports_by_host(testbed: Testbed) -> dict[str, frozenset[str]]:
    """NIC ports `h0.eth0` by their hosts."""
    return {name: frozenset(port.id for port in host.ports) for name, host in testbed.hosts.items()}
