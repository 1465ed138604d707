"""Reload: takes a changed testbed file while the daemon runs, whole or not at all."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Protocol

from hwd.config.yaml.file_problem import Loaded
from hwd.config.yaml.tree import Reading, parse_tree, uncollected
from hwd.daemon.driven_switches import DrivenSwitches
from hwd.fabric.fabric import Fabric
from hwd.fabric.in_use import InUse
from hwd.fabric.state import State
from hwd.model.bodies import ReloadBody
from hwd.model.daemon import TestbedReloaded
from hwd.model.reload import ReloadReport, TestbedChangeReport
from hwd.model.request import Caller
from hwd.model.testbed import Testbed
from hwd.model.testbed_diff import ChangeKind, TestbedChange, in_order, testbed_diff
from hwd.playbook.runs import Runs
from hwd.ports.claim import Claim
from hwd.ports.ledger import Ledger
from hwd.ports.rules import Reason
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import ConfigError, HwdError, RefusedError
from hwd_drivers.core.offload import Offload

LOOK_S: Final = 0.1
"""Between two looks at who holds the ports."""
HELD: Final = tuple(reason for reason in Reason if reason not in (Reason.DELEGATION, Reason.RELOAD))
"""A host holds its own switches always, and no reload changes these. The last is the reload itself."""
CLAIM: Final = "reload"
"""The id of its claim in the ledger: there is one at a time."""
HASH_CHARS: Final = 12
READ_S: Final = 20.0
"""The longest that the file is read and checked: that of the largest allowed takes some seconds."""

log = logging.getLogger(__name__)


class UsesTestbed(Protocol):
    """A part of the daemon that holds what it made of the testbed in use."""

    def use_testbed(self, fabric: Fabric) -> None:
        """Go on with the testbed of this fabric. Changes nothing where it raises."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TestbedFile:
    """The testbed file of the daemon, and how it is read. `name`: for messages. `read`: its bytes now. `load`: the
    testbed of its tree, and all that is wrong in it.

    `offload`: where both are done. It may raise TimeoutError: what is at that path can be of a dead file server.
    """

    __test__ = False

    name: str
    read: Callable[[], bytes]
    load: Callable[[Reading], Loaded[Testbed]]
    offload: Offload


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proposal:
    text: str
    hash: str
    fabric: Fabric
    changes: tuple[TestbedChange, ...]

    @property
    def ports(self) -> frozenset[str]:
        return frozenset(port for change in self.changes for port in change.ports)

    @property
    def switches(self) -> frozenset[str]:
        return frozenset(name for change in self.changes for name in change.switches)


class Reload:
    """Checks everything first, waits until nobody holds what changes, and then swaps without giving way to any task.

    `parts`: all that hold something that they made of the testbed in use; each is asked once. Should one raise, which
    is a bug, those before it go back to the former testbed, and the reload is refused. `switches` come last: their
    sessions follow the testbed of all else. `crossconnects()`: what each switch carries, as it was reported last.
    """

    def __init__(
        self,
        *,
        file: TestbedFile | None,
        in_use: InUse,
        text: str,
        parts: Sequence[UsesTestbed],
        switches: DrivenSwitches,
        ledger: Ledger,
        runs: Runs,
        crossconnects: Callable[[], State],
        clock: Clock,
        emit: Emitter,
        recorded: Callable[[], Awaitable[None]],
    ) -> None:
        self.text = text
        self._file = file
        self._in_use = in_use
        self._parts = (*parts, switches)
        self._switches = switches
        self._ledger = ledger
        self._runs = runs
        self._crossconnects = crossconnects
        self._clock = clock
        self._emit = emit
        self._recorded = recorded
        self._asker: str | None = None
        self._reading: asyncio.Future[_Proposal] | None = None
        self._is_stopped = False

    async def reload(self, body: ReloadBody, caller: Caller | None = None) -> ReloadReport:
        """Take the file, or with `dry_run` say what it would change.

        Raises ConfigError with every problem of the file, RefusedError where it differs from what `hash` was shown for,
        has a change that a running daemon cannot take, where ports that it touches are held for longer than `drain_s`,
        where another reload is under way, or where the daemon ends. Then nothing has changed. Records that do not take
        it are a remark: the testbed is in use then.
        """
        by = caller or (None if body.by is None else Caller(name=body.by))
        if self._asker is not None:
            raise RefusedError(
                f"{self._name}: a reload{self._asker} is under way, and this one changed nothing. "
                "Try again when it has ended"
            )
        self._asker = "" if by is None else f" by {by.name}"
        try:
            return await self._reload(body, by)
        finally:
            self._asker = None

    def stop(self) -> None:
        """Refuse what has changed nothing yet: neither a file that cannot be read nor a holder of ports delays the end
        of the daemon.
        """
        self._is_stopped = True
        if self._reading is not None:
            self._reading.cancel()

    async def _reload(self, body: ReloadBody, by: Caller | None) -> ReloadReport:
        proposal = await self._propose()
        hides = [*self._hidden(proposal)]
        if body.dry_run:
            return self._report(proposal, done=False, hides=hides)
        if body.hash is not None and body.hash != proposal.hash:
            raise RefusedError(f"{self._name}: it was changed after it was shown. Look at it again: hwd reload")
        self._check_obstacles(proposal)
        try:
            self._block_claims(proposal, body.drain_s, by)
            drained_s = await self._drain(proposal, body.drain_s)
            self._swap(proposal)
        finally:
            self._ledger.release(Reason.RELOAD, CLAIM)
        for hidden in hides:
            log.warning("%s: %s", self._name, hidden)
        remarks = await self._tell(proposal, by)
        return self._report(proposal, done=True, drained_s=drained_s, remarks=remarks, hides=hides)

    # --- before: nothing is changed

    @property
    def _name(self) -> str:
        return "reload" if self._file is None else self._file.name

    def _check_obstacles(self, proposal: _Proposal) -> None:
        if not (obstacles := [f"{change}: {change.obstacle}" for change in proposal.changes if change.obstacle]):
            return
        name, new = self._in_use.fabric.testbed.name, proposal.fabric.testbed.name
        restart = (
            f"Restart it, under systemd by `systemctl restart hwd-{name}`: waits for a confirm, leases and queue go on"
        )
        raise RefusedError(
            f"{self._name}: a running daemon cannot take this, and nothing was changed: {'; '.join(obstacles)}"
            f"{f'. {restart}' if name == new else ''}"
        )

    async def _propose(self) -> _Proposal:
        if (file := self._file) is None:
            raise RefusedError("reload: this daemon was not started from a testbed file")

        def propose(old: Fabric) -> _Proposal:
            data = file.read()
            with uncollected():
                reading = parse_tree(data, file=file.name)
                testbed, text = file.load(reading).require(), reading.text
                del reading
                changes = testbed_diff(old.testbed, testbed)
                hash = sha256(text.encode()).hexdigest()[:HASH_CHARS]
                return _Proposal(text=text, hash=hash, fabric=Fabric(testbed), changes=changes)

        self._check_stopped()
        self._reading = asyncio.ensure_future(file.offload(propose, self._in_use.fabric))
        try:
            return await self._reading
        except asyncio.CancelledError:
            self._check_stopped()
            raise
        except TimeoutError as error:
            raise ConfigError(
                f"{file.name}: cannot be read: not within {READ_S:g} s. Does its file system answer?"
            ) from error
        finally:
            self._reading = None

    def _check_stopped(self) -> None:
        if self._is_stopped:
            raise RefusedError(f"{self._name}: the daemon ends, and nothing was changed: its next start reads the file")

    def _block_claims(self, proposal: _Proposal, within_s: float, by: Caller | None) -> None:
        """Let nobody claim anew what changes, until this ends: new holders one after the other would starve it."""
        now_ns = self._clock.wall_ns()
        self._ledger.claim(
            Claim(
                id=CLAIM,
                reason=Reason.RELOAD,
                owner="SIGHUP" if by is None else by.name,
                ports=proposal.ports,
                since_wall_ns=now_ns,
                expires_wall_ns=now_ns + round(within_s * 1e9),
                what=self._name,
            )
        )

    async def _drain(self, proposal: _Proposal, within_s: float) -> float:
        """Wait until nobody holds what changes; returns how long that took. No other task runs after its last look."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while held := [*self._holders(proposal)]:
            left_s = began_s + within_s - loop.time()
            if left_s <= 0:
                raise RefusedError(
                    f"{self._name}: not taken within {within_s:g} s, and nothing was changed: {'; '.join(held)}. "
                    "Wait for longer: `hwd reload --drain-within S`. To end one of these is up to whose it is"
                )
            await asyncio.sleep(min(LOOK_S, left_s))
            self._check_stopped()
        return loop.time() - began_s

    def _holders(self, proposal: _Proposal) -> Iterator[str]:
        """Who holds ports or switches that change: which ports, whose they are, until when, and what to do."""
        ports, switches, now_ns = proposal.ports, proposal.switches, self._clock.wall_ns()
        if self._runs.is_starting and ports:
            yield "a run is about to start"
        for claim in self._ledger.all(*HELD):
            taken = (claim.ports | claim.relies_on) & ports
            if claim.is_in_force(now_ns) and (taken or claim.switches & switches):
                yield claim.text(now_ns, taken or claim.switches & switches, waits=True)
        for run in self._runs.waiting:
            if taken := run.ports & ports:
                named = in_order(taken)
                some = f"{', '.join(named[:4])}{', ...' if len(named) > 4 else ''}"
                yield (
                    f"{some}: queued run {run.id} ({run.queued.playbook}) wants them. It goes on once that is over; "
                    f"who queued it may take it out: `hwd abort {run.id}`"
                )

    def _hidden(self, proposal: _Proposal) -> Iterator[str]:
        """Links that are lit, and whose light nobody would see any more: a fibre or a switch of them goes. A reload
        moves no switch.
        """
        state = self._crossconnects()
        left = {name: state[name] for name in state if name in proposal.fabric.testbed.switches}
        links = {*proposal.fabric.links_of(left)}
        for routed in self._in_use.fabric.routed_of(state):
            if routed.link not in links:
                passed = ", ".join(in_order(routed.crossconnects))
                yield (
                    f"link {routed.link} is lit over {passed}, and the file has no fibres for it any more: these "
                    "crossconnects stay, and no link shows them. Dark first: `hwd apply` without that link"
                )

    # --- the swap

    def _swap(self, proposal: _Proposal) -> None:
        before, done = self._in_use.fabric, list[UsesTestbed]()
        self._in_use.fabric = proposal.fabric
        try:
            for part in self._parts:
                done.append(part)
                part.use_testbed(proposal.fabric)
        except Exception:
            self._in_use.fabric = before
            for part in done:
                part.use_testbed(before)
            raise
        self.text = proposal.text

    async def _tell(self, proposal: _Proposal, caller: Caller | None) -> list[str]:
        """Tell of the changes after the end of the former sessions: what these still told must not follow. Returns
        remarks.
        """
        await self._switches.settle()
        if not proposal.changes:
            log.info("%s: reloaded; it says what it said before", self._name)
            return []
        gone = [
            name
            for change in proposal.changes
            if change.kind is not ChangeKind.ADDED
            for name in change.switches
            if change.subject == f"switch {name}"
        ]
        log.info("%s: reloaded: %s", self._name, "; ".join(map(str, proposal.changes)))
        self._emit(
            TestbedReloaded(
                testbed=proposal.fabric.testbed.name,
                hash=proposal.hash,
                changes=[*map(str, proposal.changes)],
                former_switches=gone,
                by="" if caller is None else caller.name,
                verified=caller is not None and caller.is_verified,
            )
        )
        try:
            await self._recorded()
        except HwdError as error:
            remark = f"this reload is not in the records yet: {error}"
            log.warning("%s: %s", self._name, remark)
            return [remark]
        return []

    def _report(
        self,
        proposal: _Proposal,
        *,
        done: bool,
        drained_s: float = 0.0,
        remarks: Sequence[str] = (),
        hides: Sequence[str] = (),
    ) -> ReloadReport:
        return ReloadReport(
            testbed=proposal.fabric.testbed.name,
            hash=proposal.hash,
            done=done,
            drained_s=drained_s,
            changes=[
                TestbedChangeReport(
                    kind=change.kind,
                    subject=change.subject,
                    what=change.what,
                    ports=in_order(change.ports),
                    obstacle=change.obstacle,
                )
                for change in proposal.changes
            ],
            held=[] if done else [*self._holders(proposal)],
            remarks=[*remarks],
            hides=[*hides],
        )
