"""Delegations: which host may set its own switches, and under which epoch; stored across restarts."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from hwd.bus.gateway import Gateway
from hwd.fabric.in_use import InUse
from hwd.model.host import ClockAligned, HostDown, HostUp
from hwd.model.lease import LeaseDelegated, LeaseTakenBack
from hwd.model.switch import SwitchRefused
from hwd.ports.claim import Claim
from hwd.ports.delegation import Delegation, DelegationState
from hwd.ports.ledger import Ledger
from hwd.ports.rules import Reason
from hwd.records.delegation_table import DelegationTable
from hwd_agents.wire import Birth, Delegate, SwitchNote, SwitchState, TakeBack
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document, Sink
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import FailedError, HwdError, RefusedError

WITHIN_S: Final = 5.0
"""The time limit for an agent's answer. To accept a grant it writes one frame to its disk; before it answers a
take-back it completes the command that is under way."""
AGAIN_S: Final = 5.0
"""Between attempts while an agent does not answer."""

log = logging.getLogger(__name__)

OnAnswer = Callable[[str, str, Mapping[str, SwitchState], int], None]
"""`on_answer(host, boot, switches, at_ns)`: the state of its switches in an answer of a boot of its agent, and the
agent's time.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KickResult:
    """A lease that was taken back. `why`: why its host could not be informed; empty where it was."""

    delegation: Delegation
    why: str = ""


class Delegations:
    """One lease for each switch that a host owns.

    Each boot of that host's agent gets a new lease with the next epoch. Only an operator takes a lease back.

    A lease is granted when the agent is up and its clock is aligned. `on_answer` then gets the state of its switches,
    which is read again after each disconnect. A host that claims a switch of somebody else is refused, with a reason
    that its jobs get too.
    """

    TAKES: ClassVar = (HostUp, ClockAligned, HostDown)

    def __init__(
        self,
        gateway: Gateway,
        in_use: InUse,
        *,
        store: DelegationTable,
        ledger: Ledger,
        clock: Clock,
        sink: Sink,
        on_answer: OnAnswer,
    ) -> None:
        self._gateway = gateway
        self._owners = {name: one.owner for name, one in in_use.testbed.switches.items() if one.owner is not None}
        self._in_use = in_use
        self._store = store
        self._ledger = ledger
        self._clock = clock
        self._emit = Emitter(clock, sink)
        self._on_answer = on_answer
        self._leases: dict[str, Delegation] = {}
        self._answered: dict[
            str, str
        ] = {}  # by host: the boot that has reported the state of its switches since its last disconnect
        self._refused: dict[tuple[str, str], str] = {}
        self._changing = asyncio.Lock()
        self._news = asyncio.Event()
        self._due: dict[str, None] = dict.fromkeys(gateway.hosts())
        """Hosts to update: those with news, and those whose agent could not be asked."""
        gateway.on_birth(self._has_news)

    async def load(self) -> None:
        """Read the stored leases, and claim the ports of all switches of hosts, so that nobody can lease them."""
        self._leases = {one.switch: one for one in await self._store.all() if one.switch in self._owners}
        for name in self._owners:
            self._claim(name)

    def get(self, switch: str) -> Delegation | None:
        """The last lease of a switch, in force or taken back; None where there was none, or it is no host's."""
        return self._leases.get(switch)

    def all(self) -> tuple[Delegation, ...]:
        """The leases in force and those that were taken back, in the order of the testbed file."""
        return tuple(self._leases[name] for name in self._owners if name in self._leases)

    def has(self, lease: Delegation) -> bool:
        """Whether the host's agent has accepted this lease, and is up."""
        return bool(lease.boot) and self._answered.get(lease.host) == lease.boot

    def __call__(self, document: Document) -> None:
        """A sink: note the agents that connect and disconnect."""
        match document.fact:
            case HostDown(host=host):
                self._answered.pop(host, None)
                self._has_news(host)
            case HostUp(host=host) | ClockAligned(host=host):
                self._has_news(host)

    async def run(self) -> None:
        """Grant leases and take them back as agents can be reached, until cancelled."""
        while True:
            self._news.clear()
            due, self._due = self._due, {}
            for host in due:
                async with self._changing:
                    is_done = False
                    with self._gateway.containment.of(host, "its switches"):
                        try:
                            await self._update(host)
                            is_done = True
                        except HwdError as error:
                            log.debug("%s: its switches: %s", host, error)
                    if not is_done:
                        self._due[host] = None
            try:
                async with asyncio.timeout(AGAIN_S if self._due else None):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def kick(self, switch: str, *, by: str) -> KickResult | None:
        """Take a lease back: its host may not set the switch any more, and nobody does, until it is granted again.

        None where there is no such lease.

        Raises RefusedError where it was taken back already.
        """
        async with self._changing:
            lease = self._leases.get(switch)
            if lease is None:
                return None
            if lease.state is DelegationState.TAKEN_BACK:
                raise RefusedError(f"lease {switch}: it is taken back already: {lease.why}")
            why = f"{by} has taken it back. The daemon grants it again with `hwd lease grant {switch}`"
            lease = replace(lease, state=DelegationState.TAKEN_BACK, since_wall_ns=self._clock.wall_ns(), why=why)
            await self._save(lease)
            self._emit(LeaseTakenBack(**_of(lease), by=by))
            log.warning("%s: taken back from host %s by %s", switch, lease.host, by)
            try:
                await self._take_back(lease.host, switch, lease.epoch, why)
            except HwdError as error:
                self._answered.pop(lease.host, None)
                self._has_news(lease.host)
                return KickResult(
                    delegation=lease, why=f"{error}. Until its agent hears of it, host {lease.host} may still set it"
                )
            return KickResult(delegation=lease)

    async def grant(self, switch: str, *, by: str) -> Delegation:
        """Give a lease that was taken back to its host again, with the next epoch.

        `has` says whether its agent has accepted it.

        Raises RefusedError where it was not taken back.
        """
        async with self._changing:
            lease = self._leases.get(switch)
            if lease is None or lease.state is not DelegationState.TAKEN_BACK:
                state = (
                    "it is in force"
                    if lease
                    else "no agent has claimed it yet"
                    if switch in self._owners
                    else "no host owns it"
                )
                raise RefusedError(f"lease {switch}: it was not taken back: {state}")
            again = replace(lease, boot="", state=DelegationState.GRANTED, since_wall_ns=self._clock.wall_ns(), why="")
            await self._save(again)
            log.info("%s: granted to host %s again by %s", switch, lease.host, by)
            self._answered.pop(lease.host, None)
            try:
                await self._update(lease.host)
            except HwdError as error:
                self._has_news(lease.host)
                log.info("%s: host %s gets it when it is there: %s", switch, lease.host, error)
            return self._leases[switch]

    # --- one host

    def _has_news(self, host: str) -> None:
        self._due[host] = None
        self._news.set()

    async def _update(self, host: str) -> None:
        """Send an agent its leases and refusals, and read the state of its switches.

        Raises HwdError where it cannot be asked.
        """
        agent = self._gateway.hosts()[host]
        boot, birth = agent.boot, agent.birth
        if not agent.up or birth is None or boot is None or agent.alignment is None or not birth.switches:
            return
        grants: dict[str, int] = {}
        for name, note in birth.switches.items():
            if (why := self._why_refused(host, name)) is not None:
                await self._refuse(host, name, note, why)
            elif (epoch := await self._owed(host, birth, name, note)) is not None:
                grants[name] = epoch
        if not grants and self._answered.get(host) == boot:
            return
        reply, answer = await self._gateway.command(host, Delegate(grants=grants), within_s=WITHIN_S)
        if answer is None:
            raise FailedError(f"{host}: delegate: {reply.outcome}: {reply.why}")
        for name in grants:
            if name in answer.refused:  # it knows a later epoch, which its next birth contains
                self._leases[name] = replace(self._leases[name], boot="")
                raise FailedError(f"{name}: host {host} does not take epoch {grants[name]}: {answer.refused[name]}")
            self._emit(LeaseDelegated(**_of(self._leases[name])))
        self._answered[host] = boot
        self._on_answer(host, reply.boot, answer.switches, reply.at_ns)

    async def _owed(self, host: str, birth: Birth, name: str, note: SwitchNote) -> int | None:
        """The epoch to grant; None where the agent has it, or where its lease was taken back (it is informed)."""
        lease = self._leases.get(name)
        if lease is not None and lease.state is DelegationState.TAKEN_BACK:
            if note.why_not != lease.why:
                await self._take_back(host, name, max(lease.epoch, note.last_epoch), lease.why)
            return None
        if lease is not None and (lease.boot, lease.host) == (birth.boot, host):
            answered = self._answered.get(host) == birth.boot
            return None if note.epoch == lease.epoch or answered else lease.epoch
        last = max(0 if lease is None else lease.epoch, note.last_epoch)
        fresh = Delegation(
            switch=name,
            host=host,
            boot=birth.boot,
            epoch=last + 1,
            state=DelegationState.GRANTED,
            since_wall_ns=self._clock.wall_ns(),
        )
        await self._save(fresh)
        return fresh.epoch

    def _why_refused(self, host: str, name: str) -> str | None:
        owner = self._owners.get(name)
        if owner == host:
            return None
        if owner is not None:
            return f"it belongs to host {owner}, by the testbed file. Take it out of the file of the agent of {host}"
        if name in self._in_use.testbed.switches:
            return (
                f"the daemon drives it, by the testbed file. Write owner: {host} there, "
                f"or take it out of the file of the agent of {host}"
            )
        return f"testbed {self._in_use.testbed.name} has no switch {name}. Add it there with owner: {host}"

    async def _refuse(self, host: str, name: str, note: SwitchNote, why: str) -> None:
        if self._refused.get((host, name)) != why:
            self._refused[host, name] = why
            log.warning("%s: host %s claims it, and is refused: %s", name, host, why)
            self._emit(SwitchRefused(switch=name, host=host, why=why))
        if note.why_not != why:
            await self._take_back(host, name, note.last_epoch, why)

    async def _take_back(self, host: str, switch: str, epoch: int, why: str) -> None:
        asked = TakeBack(switch=switch, epoch=epoch, why=why)
        reply, _ = await self._gateway.command(host, asked, within_s=WITHIN_S)
        if reply.outcome != "done":
            raise FailedError(f"{host}: take-back {switch}: {reply.outcome}: {reply.why}")

    async def _save(self, lease: Delegation) -> None:
        """Store a lease before anybody is informed of it, so that no epoch is granted twice."""
        await self._store.save(lease)
        self._leases[lease.switch] = lease
        self._claim(lease.switch)

    def _claim(self, switch: str) -> None:
        """Claim the ports of a switch for its host, under the present epoch; also before the first."""
        lease = self._leases.get(switch)
        self._ledger.claim(
            Claim(
                id=switch,
                reason=Reason.DELEGATION,
                owner=self._owners[switch],
                ports=frozenset(f"{switch}.{end.port}" for end in self._in_use.testbed.ends_of(switch)),
                epoch=None if lease is None else lease.epoch,
                why="" if lease is None else lease.why,
            )
        )


def _of(lease: Delegation) -> dict[str, Any]:
    """The fields that both documents of a delegation have."""
    return {
        "lease": lease.switch,
        "switch": lease.switch,
        "host": lease.host,
        "holder": f"host {lease.host}",
        "epoch": lease.epoch,
        "boot": lease.boot,
        "why": lease.why,
    }
