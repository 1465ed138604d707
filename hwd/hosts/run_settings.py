"""HostSettings: changes settings of NIC ports for a run, by their agents, and restores them however the run ends."""

import asyncio
import contextlib
import logging
from collections.abc import Collection, Mapping
from typing import Final, TypeVar

from hwd.bus.gateway import Gateway
from hwd.fabric.in_use import InUse
from hwd.hosts.setting_claims import SettingClaims
from hwd.model.action import Action
from hwd.model.lease import LeaseReleased
from hwd.model.run_facts import RunHost, RunNote
from hwd.ports.claim import Claim
from hwd.ports.ledger import Ledger
from hwd.ports.rules import Reason
from hwd_agents.wire import Back, HoldSettings, PutBack, Reply, SetPort
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Json, Sink
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import DeadlineError, FailedError, HwdError, LinkError, RefusedError
from hwd_drivers.core.values import natural_key

WITHIN_S: Final = 20.0
"""The time limit for an agent's answer. A NIC's firmware may take seconds; one port of a twin takes a millisecond."""
HOLD_S: Final = 300.0
"""An agent that gets no `hold` restores the settings of a run after this time; a restart of the daemon is shorter."""
RENEW_S: Final = 60.0
"""The period of `hold`: some of them may get lost."""
AGAIN_S: Final = 5.0
"""The pause before a failed put-back is tried again; a birth of its agent ends it early."""

T = TypeVar("T")

log = logging.getLogger(__name__)


class HostSettings:
    """Settings of NIC ports, each with its earlier value, until the end of the run.

    `run` restores the settings of all runs that are not active in the ledger.

    From the first `set` until all is restored the ports are claimed in the ledger, so that nobody else can lease them.
    A put-back waits while somebody else has one of its ports. Each restored setting is reported as `run.host` with the
    action `put-back`.

    While a run is under way, `run` sends `hold` to its agents; an agent that gets none for `hold_s` restores the
    settings by itself.

    ```
    settings = HostSettings(gateway, testbed, ledger, clock=clock, sink=sink)
    tasks.create_task(settings.run())
    await settings.do("k3v9", Action(port=..., setting=Setting.MTU, value=4200))
    await settings.put_back("k3v9")
    ```
    """

    def __init__(
        self,
        gateway: Gateway,
        in_use: InUse,
        ledger: Ledger,
        *,
        clock: Clock,
        sink: Sink,
        hold_s: float = HOLD_S,
    ) -> None:
        self._gateway = gateway
        self._in_use = in_use
        self._ledger = ledger
        self._clock = clock
        self._emit = Emitter(clock, sink)
        self._hold_s = hold_s
        self._renewed_ns: dict[tuple[str, str], int] = {}
        self._set_by_run: set[tuple[str, str]] = (
            set()
        )  # (host, run) where something was set, and it was not reported as restored or lost
        self._failures: dict[tuple[str, str], str] = {}
        self._birth_came = asyncio.Event()
        self._claims = SettingClaims(ledger, clock, why=self._why)
        gateway.on_birth(self._take_birth)

    @property
    def claims_of_ended_runs(self) -> tuple[Claim, ...]:
        return tuple(claim for claim in self._ledger.all(Reason.SETTINGS) if not self._ledger.is_active(claim.run))

    def kick(self, id: str) -> Claim | None:
        """Release the ports although something is still set there; None where there is no such claim.

        Raises RefusedError while its run is under way.

        The settings are restored all the same when the host is connected and nobody else has reserved the ports.
        """
        claim = self._claims.get(id)
        if claim is None:
            return None
        if self._ledger.is_active(claim.run):
            raise RefusedError(
                f"{id}: run {claim.run} is under way, and puts them back at its end. Wait for that. To end it before "
                f"is up to who started it: `hwd abort {claim.run}`"
            )
        log.warning("%s; kicked, so others can take them", claim.text(self._clock.wall_ns()))
        self._claims.kick(id)
        holder, ports = f"settings of run {claim.run}", sorted(claim.ports, key=natural_key)
        self._emit(LeaseReleased(lease=id, holder=holder, ports=ports, why="kicked"))
        return claim

    async def run(self) -> None:
        """Restore the settings of runs that are over, at each birth of an agent and every few seconds."""
        while True:
            self._birth_came.clear()
            await asyncio.gather(*(self._renew(host, run) for host, run in self._due_for_hold()))
            for host, run in self._orphans():
                with self._gateway.containment.of(host, "its settings"), contextlib.suppress(HwdError):
                    await self._put_back_at(host, run)  # a failure is in the log, and is tried again below
            try:
                async with asyncio.timeout(AGAIN_S):
                    await self._birth_came.wait()
            except TimeoutError:
                continue

    async def do(self, run: str, action: Action, *, lease: str | None = None) -> Mapping[str, Json]:
        """Set one setting, under a lease where there is one; return {before, after}, the states as the host read them.

        Raises RefusedError where the testbed file does not allow it, somebody else has reserved the port, or host or
        NIC refuse; LinkError where the agent is not connected; FailedError where the setting failed; ProtocolError
        where the answer is malformed: what may be set then is restored with all the rest.
        """
        if action.setting not in self._in_use.testbed.host_actions:
            raise RefusedError(
                f"{action}: {action.setting} is not among the host_actions of testbed {self._in_use.testbed.name}"
            )
        host = action.port.host
        if self._can_be_asked(host):  # else nothing is sent, and nothing has to be restored
            self._claims.begin(host, run, action.port, lease)
        asked = SetPort(run=run, port=action.port, setting=action.setting, value=action.value, for_s=self._hold_s)
        changed = _done(host, str(action), *await self._gateway.command(host, asked, within_s=WITHIN_S))
        self._renewed_ns[host, run] = self._clock.monotonic_ns()
        self._set_by_run.add((host, run))
        return {"before": changed.before, "after": changed.after}

    async def put_back(self, run: str, *, hosts: Collection[str] | None = None, lease: str | None = None) -> None:
        """Restore all settings of the run. Raises HwdError, which says what is not restored and why.

        That is tried again when the host is connected. `hosts`: of these alone, which have to be connected. The run
        goes on then, so nobody tries it again, and what the first of them raises is raised as it is.
        """
        for host in hosts if hosts is not None else ():
            if not self._can_be_asked(host):
                raise LinkError(f"{host}: its agent is not connected")
        wanted = [host for host, other in self._claims.keys if other == run and (hosts is None or host in hosts)]
        done = await asyncio.gather(*(self._put_back_at(host, run, lease) for host in wanted), return_exceptions=True)
        failures = [result for result in done if isinstance(result, BaseException)]
        for failure in failures:
            if not isinstance(failure, HwdError):
                raise failure
        if failures and hosts is not None:
            raise failures[0]
        if failures:
            raise FailedError(
                f"run {run}: not all settings of hosts are put back: {'; '.join(map(str, failures))}. "
                "It is tried again while the daemon runs, and the ports are held until then"
            )

    async def _put_back_at(self, host: str, run: str, lease: str | None = None) -> None:
        try:
            with self._claims.putting_back(host, run, lease):
                began_ns = self._clock.monotonic_ns()
                reply, restored = await self._gateway.command(host, PutBack(run=run), within_s=WITHIN_S)
                took_s = (self._clock.monotonic_ns() - began_ns) / 1e9
                answer = _done(host, f"put back what run {run} set", reply, restored)
                for back in answer.back:
                    self._emit_restored(run, host, back, took_s)
                self._claims.set_remaining(host, run, [f"{host}.{one.port}" for one in answer.left])
                self._set_by_run.discard((host, run))
            if answer.left:
                words = "; ".join(f"{one.port} {one.setting}: {one.why}" for one in answer.left)
                raise FailedError(f"{host}: {words}")
        except HwdError as error:
            self._log_failure(host, run, str(error))
            raise
        if self._failures.pop((host, run), None) is not None:
            log.info("%s: what run %s set is put back", host, run)

    def _due_for_hold(self) -> list[tuple[str, str]]:
        """(host, run) of runs under way for which a `hold` is due, where the agent can be asked."""
        now_ns = self._clock.monotonic_ns()
        for key in [key for key in self._renewed_ns if key not in self._claims.keys]:
            del self._renewed_ns[key]
        every_ns = round(min(RENEW_S, self._hold_s / 5) * 1e9)
        return [
            (host, run)
            for host, run in self._claims.keys
            if self._ledger.is_active(run)
            and self._can_be_asked(host)
            and now_ns - self._renewed_ns.get((host, run), 0) >= every_ns
        ]

    async def _renew(self, host: str, run: str) -> None:
        with self._gateway.containment.of(host, "its settings"):
            await self._hold(host, run)

    async def _hold(self, host: str, run: str) -> None:
        """Send `hold`, so that the settings of a run under way stay for longer.

        Settings that the agent has restored by itself meanwhile are reported, once.
        """
        self._renewed_ns[host, run] = self._clock.monotonic_ns()
        try:
            asked = HoldSettings(run=run, for_s=self._hold_s)
            reply, held = await self._gateway.command(host, asked, within_s=AGAIN_S)
            answer = _done(host, f"hold what run {run} set", reply, held)
        except RefusedError as error:
            log.debug("%s", error)  # an older agent has no time limit: its settings stay until a put-back
            return
        except HwdError as error:
            log.info("%s: what run %s set is not held for longer yet: %s", host, run, error)
            del self._renewed_ns[host, run]
            return
        for back in answer.back:
            self._emit_restored(run, host, back, 0.0)
        if answer.back:
            names = ", ".join(f"{host}.{back.port} {back.setting}" for back in answer.back)
            words = (
                f"{host}: its agent has put back {names} of this run by itself: it had not heard of us "
                f"for {self._hold_s:g} s. What was measured after that "
                "was measured without it"
            )
        elif not answer.held and (host, run) in self._set_by_run:
            words = (
                f"{host}: nothing of what this run set stands there any more: the host was started anew, "
                f"or its agent, which had put it back. What was measured "
                "after that was measured without it"
            )
        else:
            return
        if not answer.held:
            self._set_by_run.discard((host, run))
        log.warning("run %s: %s", run, words)
        self._emit(RunNote(run=run, text=words))

    def _orphans(self) -> list[tuple[str, str]]:
        """(host, run) of runs that are over, where the host's agent can be asked."""
        over = (key for key in self._claims.keys if not self._ledger.is_active(key[1]))
        return [(host, run) for host, run in over if self._can_be_asked(host)]

    def _can_be_asked(self, host: str) -> bool:
        agent = self._gateway.hosts().get(host)
        return agent is not None and agent.up and agent.alignment is not None

    def _take_birth(self, host: str) -> None:
        birth = self._gateway.hosts()[host].birth
        found: dict[str, set[str]] = {}
        for held in birth.settings if birth is not None else ():
            found.setdefault(held.run, set()).add(f"{host}.{held.port}")
        self._claims.take_birth(host, found)
        self._birth_came.set()

    def _why(self, host: str, run: str) -> str:
        """Why its settings are not restored yet."""
        if self._ledger.is_active(run):
            return f"run {run} is under way"
        agent = self._gateway.hosts()[host]
        if not self._gateway.connected:
            return "the broker is not connected"
        if not agent.up:
            return f"its agent is down: {agent.cause}"
        return self._failures.get((host, run), "it is about to be asked")

    def _log_failure(self, host: str, run: str, why: str) -> None:
        if self._failures.get((host, run)) != why:
            self._failures[host, run] = why
            log.warning("%s: what run %s set is not put back yet: %s", host, run, why)

    def _emit_restored(self, run: str, host: str, back: Back, took_s: float) -> None:
        self._emit(
            RunHost(
                run=run,
                host=host,
                port=f"{host}.{back.port}",
                action="put-back",
                setting=back.setting,
                before=None,
                after=back.state,
                seconds=took_s,
            )
        )


def _done(host: str, what: str, reply: Reply, answer: T | None) -> T:
    """The answer of a reply `done`; raises the error of any other outcome."""
    if answer is not None:
        return answer
    match reply.outcome:
        case "refused":
            raise RefusedError(f"{host}: {what}: {reply.why}")
        case "expired":
            raise DeadlineError(f"{host}: {what}: {reply.why}")
        case _:
            raise FailedError(f"{host}: {what}: {reply.why}")
