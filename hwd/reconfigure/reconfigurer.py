"""The way of a reconfiguration: claim, read, plan, journal, drive, read back, wait for ready, confirm or roll back.

reconfiguration = await reconfigurer.begin(request)          # switches driven and read back
await reconfigurer.wait_ready(reconfiguration, within_s=15)  # links ready, else it is rolled back
await reconfigurer.confirm(reconfiguration)
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Protocol

from hwd.model.instant import Origin
from hwd.model.plan import CrashRule, Plan, SwitchMoves
from hwd.model.state import Observed
from hwd.model.testbed import NicPortId
from hwd.reconfigure import switching
from hwd.reconfigure.journal import Journal, OpenEntry
from hwd.reconfigure.leases import Leases
from hwd.reconfigure.planner import Planner, Request, touched_ports
from hwd.reconfigure.reconfiguration import Outcome, Reconfiguration, State
from hwd.reconfigure.switching import SwitchDriver
from hwd.timeline.build import build_timeline
from hwd.timeline.timeline import Timeline
from hwd_drivers.kit.clock import Clock
from hwd_drivers.kit.documents import Document, Json, Sink
from hwd_drivers.kit.errors import (
    DeadlineError,
    DeviceError,
    FailedError,
    HwdError,
    LinkError,
    NotReadyError,
    RefusedError,
)
from hwd_drivers.kit.ids import Ids
from hwd_drivers.kit.values import CrossconnectReading

OBSERVE_WITHIN_S = 1.0
"""For agents to say that they watch; one that does not answer is not waited for, its instants stay unknown."""
OWN_LEASE_S = 600.0
"""Length of the lease that an apply without a lease takes for itself; it is released when the apply ends."""
ROLL_BACK_WITHIN_S = 3.5
"""For the switches to be back; after it the journal keeps the reconfiguration open. With `OBSERVE_WITHIN_S` an abort ends within 5 s."""
GRACE_NS = 1_000_000
"""Events that ended this long before `started` still belong to it: the agents' stamps carry an alignment error."""

log = logging.getLogger(__name__)


class Agents(Protocol):
    """What the reconfiguration asks of the agents."""

    def address(self, port: NicPortId) -> tuple[str, int] | None:
        """IP address and probe port of a NIC port, None where its agent has not said."""
        ...

    def boot(self, host: str) -> str | None:
        """The boot of an agent that can be asked now; None where it is down or its clock is not aligned."""
        ...

    async def command(
        self, host: str, verb: str, arguments: Mapping[str, Json], *, within_s: float
    ) -> Mapping[str, Json]:
        """The data of the agent's answer; raises LinkError or DeadlineError."""
        ...


class Reconfigurer:
    """Owns every write to the switches of one testbed. Also a `Sink`: it listens to what the agents report."""

    def __init__(
        self,
        *,
        planner: Planner,
        switches: Mapping[str, SwitchDriver],
        agents: Agents,
        journal: Journal,
        leases: Leases,
        clock: Clock,
        ids: Ids,
        sink: Sink,
        switch_origins: Mapping[str, Origin],
    ) -> None:
        self._planner = planner
        self._switches = switches
        self._agents = agents
        self._journal = journal
        self._leases = leases
        self._clock = clock
        self._ids = ids
        self._sink = sink
        self._switch_origins = switch_origins
        self._moved_ns: dict[str, int] = {}
        self._under_way: dict[str, Reconfiguration] = {}
        self._last_of_run: dict[str, Reconfiguration] = {}
        self._claimed: dict[str, str] = {}
        self._recovering = asyncio.Lock()
        self._confirm_timers: dict[str, asyncio.Task[None]] = {}

    # --- reading and planning: nothing is touched

    @property
    def under_way(self) -> tuple[Reconfiguration, ...]:
        return tuple(self._under_way.values())

    def last_of(self, run: str) -> Reconfiguration | None:
        """The last one that this run began, ended or not."""
        return self._last_of_run.get(run)

    def get(self, id: str | None) -> Reconfiguration:
        """The one with this id, or the only one under way; raises RefusedError where there is none."""
        if id is None and len(self._under_way) == 1:
            return next(iter(self._under_way.values()))
        if id is not None and id in self._under_way:
            return self._under_way[id]
        names = ", ".join(self._under_way) or "none"
        if id is None:
            raise RefusedError(
                f"which reconfiguration? Under way: {names}" if self._under_way else "no reconfiguration is under way"
            )
        raise RefusedError(f"reconfiguration {id}: not under way. Under way: {names}")

    async def plan(self, request: Request) -> Plan:
        """Read the switches and plan; emits `plan.made`."""
        routed = self._planner.route(request)
        plan = self._planner.plan(routed, await self._read(routed.switches))
        self._leases.check(touched_ports(plan), lease=plan.lease)
        self._tell("plan.made", plan=plan.to_data(), what=plan.what, hash=plan.hash)
        return plan

    # --- the way

    async def begin(
        self, request: Request, *, run: str | None = None, expect_hash: str | None = None, id: str | None = None
    ) -> Reconfiguration:
        """Drive the switches to what is wanted and read them back. `id` names it where the caller has named it already.

        Raises RefusedError (lease, under way elsewhere, `expect_hash` differs), LinkError, ConfigError before anything moved; FailedError or LinkError
        after the switches were rolled back.
        """
        routed = self._planner.route(request)
        id = id or self._ids.token(length=8)
        self._claim(routed.switches, id)
        try:
            plan = self._planner.plan(routed, await self._read(routed.switches))
            if expect_hash not in (None, plan.hash):
                raise RefusedError(
                    f"plan {expect_hash}: the switches differ from what it was made for; the plan now is {plan.hash}. Look at it and apply that"
                )
            ports = touched_ports(plan)
            self._leases.check(ports, lease=plan.lease)
            reconfiguration = Reconfiguration(
                id=id, plan=plan, run=run, started_ns=self._clock.monotonic_ns(), lease=plan.lease
            )
            if plan.lease is None and ports:
                own = await self._leases.take(holder=f"apply {id}", ports=ports, for_s=OWN_LEASE_S, lasting=False)
                reconfiguration.lease, reconfiguration.own_lease = own.id, True
        except BaseException:
            self._release(id)
            raise
        self._under_way[id] = reconfiguration
        if run is not None:
            self._last_of_run = {run: reconfiguration}
        try:
            await self._drive(reconfiguration)
        except asyncio.CancelledError:
            await asyncio.shield(self.roll_back(reconfiguration, "aborted"))
            raise
        except HwdError as error:
            await self.roll_back(reconfiguration, str(error))
            after = reconfiguration.outcome or Outcome.FAILED
            raise _same_fault(
                error, f"{error}. Outcome: {after}{'' if after is Outcome.ROLLED_BACK else f' ({reconfiguration.why})'}"
            ) from error
        except OSError as error:
            await self.roll_back(reconfiguration, f"journal: {error}")
            raise FailedError(
                f"journal: cannot write the plan: {error}. Nothing was sent; free the disk of the data directory"
            ) from error
        return reconfiguration

    async def wait_ready(self, reconfiguration: Reconfiguration, *, within_s: float) -> None:
        """Until all links are ready. Raises NotReadyError, after the roll-back, when they are not in time."""
        self._to(reconfiguration, State.WAITING)
        try:
            async with asyncio.timeout(within_s), asyncio.TaskGroup() as group:
                keeping = group.create_task(
                    self._keep_observed(reconfiguration), name=f"hwd:reconfigure/observe-{reconfiguration.id}"
                )
                await reconfiguration.all_ready()
                keeping.cancel()
        except TimeoutError:
            late = ", ".join(map(str, reconfiguration.not_ready))
            why = f"not ready within {within_s:g} s: {late}"
            await self.roll_back(reconfiguration, why)
            raise NotReadyError(
                f"{reconfiguration.plan.what}: {why}. Outcome: {reconfiguration.outcome}. `hwd watch --after 0 --kind timeline` says which stage was not reached"
            ) from None

    async def await_confirm(self, reconfiguration: Reconfiguration, *, within_s: float) -> None:
        """From here it goes back by itself after `within_s` seconds, unless `confirm` comes first; returns at once."""

        async def expire() -> None:
            await asyncio.sleep(within_s)
            self._confirm_timers.pop(reconfiguration.id, None)
            await self.roll_back(reconfiguration, f"not confirmed within {within_s:g} s")

        reconfiguration.confirm_by_s = asyncio.get_running_loop().time() + within_s
        self._to(reconfiguration, State.AWAITING_CONFIRM)
        self._confirm_timers[reconfiguration.id] = asyncio.create_task(
            expire(), name=f"hwd:reconfigure/confirm-{reconfiguration.id}"
        )

    async def confirm(self, reconfiguration: Reconfiguration) -> None:
        """The wanted state stays."""
        self._stop_timer(reconfiguration)
        if reconfiguration.state is State.ROLLING_BACK:
            raise RefusedError(f"reconfiguration {reconfiguration.id}: too late, it is being rolled back")
        await self._end(reconfiguration, Outcome.CONFIRMED, "")

    async def roll_back(self, reconfiguration: Reconfiguration, why: str) -> None:
        """Back to the state read at the start. Does not raise for switches that cannot be driven: then the outcome is `failed`, and the journal keeps it."""
        self._stop_timer(reconfiguration)
        if reconfiguration.state in (State.ENDED, State.ROLLING_BACK):
            return
        self._to(reconfiguration, State.ROLLING_BACK)
        errors: list[BaseException] = []
        if reconfiguration.journaled:
            try:
                async with asyncio.timeout(ROLL_BACK_WITHIN_S):
                    errors = await self._bring(reconfiguration.plan.moves, switching.way_back)
            except TimeoutError:
                errors = [DeadlineError(f"the switches were not back within {ROLL_BACK_WITHIN_S:g} s")]
        if errors:
            await self._end(reconfiguration, Outcome.FAILED, f"{why}; roll-back failed: {switching.joined(errors)}")
        else:
            await self._end(reconfiguration, Outcome.ROLLED_BACK, why)

    # --- after a crash, or when a switch comes back

    async def recover(self) -> None:
        """Finish or undo, by its rule, what the journal holds open and nobody is at work on. What cannot be reached stays open."""
        async with self._recovering:
            for entry in self._journal.open:
                if entry.reconfiguration not in self._under_way:
                    await self._recover(entry)

    async def close(self) -> None:
        """Roll back what is under way; for an orderly end of the daemon."""
        for reconfiguration in self.under_way:
            await self.roll_back(reconfiguration, "the daemon ends")

    def __call__(self, document: Document) -> None:
        """Sink: takes the agents' events."""
        match document.kind:
            case "host.event":
                for reconfiguration in self._under_way.values():
                    if _int(document.data["latest_ns"]) >= reconfiguration.started_ns - GRACE_NS:
                        reconfiguration.see(document.data)
            case "host.up" | "host.birth" | "clock.aligned":
                for reconfiguration in self._under_way.values():
                    reconfiguration.agents_changed.set()

    # --- steps

    async def _drive(self, reconfiguration: Reconfiguration) -> None:
        plan = reconfiguration.plan
        moving = [move for move in plan.moves if move.remove or move.add]
        if moving:
            self._journal.begin(plan, reconfiguration=reconfiguration.id, run=reconfiguration.run)
            reconfiguration.journaled = True
            self._to(reconfiguration, State.JOURNALED)
        reconfiguration.started = {
            "reconfiguration": reconfiguration.id,
            "run": reconfiguration.run,
            "hash": plan.hash,
            "what": plan.what,
            "links": [
                {
                    "link": str(planned.routed.link),
                    "kept": planned.kept,
                    "switches": sorted({one.switch for one in planned.routed.crossconnects}),
                }
                for planned in plan.links
            ],
            "moves": [
                {"switch": move.switch, "remove": [*map(str, move.remove)], "add": [*map(str, move.add)]}
                for move in plan.moves
            ],
        }
        await self._observe(reconfiguration, reconfiguration.hosts)
        self._tell("reconfiguration.started", **reconfiguration.started)
        self._to(reconfiguration, State.DRIVING)
        _raise_first(await self._at_once(moving, lambda move: self._command(reconfiguration, move)))
        self._to(reconfiguration, State.READ_BACK)
        _raise_first(
            await self._at_once(moving, lambda move: switching.read_back(self._switches[move.switch], move, plan.mode))
        )
        self._to(reconfiguration, State.DRIVEN)

    async def _command(self, reconfiguration: Reconfiguration, move: SwitchMoves) -> None:
        exchange = await switching.change(self._switches[move.switch], move)
        data: dict[str, Json] = {
            "reconfiguration": reconfiguration.id,
            "switch": move.switch,
            "commanded_ns": exchange.commanded_ns,
            "acknowledged_ns": exchange.acknowledged_ns,
            "commands": exchange.commands,
        }
        reconfiguration.commanded.append(data)
        self._tell("reconfiguration.commanded", **data)

    async def _observe(self, reconfiguration: Reconfiguration, hosts: Iterable[str]) -> None:
        for_s = (reconfiguration.plan.ready_within_s or 0.0) + 60.0
        told = {host: self._to_tell(reconfiguration, host) for host in hosts}
        await self._ask_hosts(
            reconfiguration,
            "observe",
            told,
            lambda host: {"peers": told[host][1], "for_s": for_s},
            lambda host, data: reconfiguration.told.update({host: told[host]}),
        )

    async def _keep_observed(self, reconfiguration: Reconfiguration) -> None:
        """Tell agents that started anew or could not be told at first, and those that probe them, as soon as they can be told.

        They watch from then on only: that they saw nothing change says nothing of the time before.
        """
        while True:
            reconfiguration.agents_changed.clear()
            late = [
                host
                for host in sorted({end.host for link in reconfiguration.not_ready for end in link.ends})
                if self._agents.boot(host) is not None
                and reconfiguration.told.get(host) != self._to_tell(reconfiguration, host)
            ]
            reconfiguration.observed_late.update(late)
            await self._observe(reconfiguration, late)
            await reconfiguration.agents_changed.wait()

    def _to_tell(self, reconfiguration: Reconfiguration, host: str) -> tuple[str | None, list[Json]]:
        """For which boot of an agent it is, and its peers."""
        return self._agents.boot(host), self._peers(reconfiguration, host)

    def _peers(self, reconfiguration: Reconfiguration, host: str) -> list[Json]:
        peers: list[Json] = []
        for planned in reconfiguration.plan.links:
            for end in planned.routed.link.ends:
                peer = planned.routed.link.other(end)
                if end.host == host and (address := self._agents.address(peer)) is not None:
                    peers.append(
                        {
                            "port": str(end),
                            "peer": str(peer),
                            "peer_ip": address[0],
                            "peer_probe_port": address[1],
                            "kept": planned.kept,
                        }
                    )
        return peers

    async def _settle(self, reconfiguration: Reconfiguration) -> None:
        def keep(host: str, data: Mapping[str, Json]) -> None:
            ports = data.get("ports")
            if isinstance(ports, Mapping) and host not in reconfiguration.observed_late:
                for port, sampled in ports.items():
                    if isinstance(sampled, Mapping):
                        reconfiguration.sampled[f"{host}.{port}"] = sampled

        await self._ask_hosts(reconfiguration, "settle", reconfiguration.hosts, lambda _: {}, keep)

    async def _ask_hosts(
        self,
        reconfiguration: Reconfiguration,
        verb: str,
        hosts: Iterable[str],
        arguments: Callable[[str], Mapping[str, Json]],
        take: Callable[[str, Mapping[str, Json]], None],
    ) -> None:
        async def ask(host: str) -> None:
            try:
                asked = {"reconfiguration": reconfiguration.id, **arguments(host)}
                take(host, await self._agents.command(host, verb, asked, within_s=OBSERVE_WITHIN_S))
            except HwdError as error:
                log.warning(
                    "%s: agent of %s did not %s: %s. Its instants may stay unknown",
                    reconfiguration.id,
                    host,
                    verb,
                    error,
                )

        await asyncio.gather(*(ask(host) for host in hosts))

    async def _end(self, reconfiguration: Reconfiguration, outcome: Outcome, why: str) -> None:
        await self._settle(reconfiguration)
        reconfiguration.outcome, reconfiguration.why = outcome, why
        if reconfiguration.commanded or reconfiguration.events:
            self._tell("timeline", **self._timeline(reconfiguration).to_data())
        if reconfiguration.journaled and outcome is not Outcome.FAILED:
            self._journal.end(reconfiguration.id, outcome=outcome)
        reconfiguration.state = State.ENDED
        self._under_way.pop(reconfiguration.id, None)
        self._release(reconfiguration.id)
        if reconfiguration.own_lease and reconfiguration.lease is not None:
            await self._leases.release(reconfiguration.lease)
        seconds = (self._clock.monotonic_ns() - reconfiguration.started_ns) / 1e9
        self._tell(
            "reconfiguration.ended",
            reconfiguration=reconfiguration.id,
            run=reconfiguration.run,
            outcome=outcome,
            why=why,
            seconds=seconds,
        )

    def _timeline(self, reconfiguration: Reconfiguration) -> Timeline:
        moved = [str(planned.routed.link) for planned in reconfiguration.plan.links if not planned.kept]
        timeline = build_timeline(
            started=reconfiguration.started,
            commanded=reconfiguration.commanded,
            events=reconfiguration.events,
            sampled=reconfiguration.sampled,
            switch_origins=self._switch_origins,
            dwells_s={
                link: (reconfiguration.started_ns - self._moved_ns[link]) / 1e9
                for link in moved
                if link in self._moved_ns
            },
        )
        self._moved_ns |= dict.fromkeys(moved, reconfiguration.started_ns)
        return timeline

    async def _recover(self, entry: OpenEntry) -> None:
        finish = entry.crash_rule is CrashRule.FINISH
        errors = await self._bring(entry.moves, switching.way_on if finish else switching.way_back)
        if errors:
            log.warning("journal: %s (%s) stays open: %s", entry.reconfiguration, entry.what, switching.joined(errors))
            return
        outcome = Outcome.CONFIRMED if finish else Outcome.ROLLED_BACK
        self._journal.end(entry.reconfiguration, outcome=outcome)
        why = "the daemon ended before it did, or a switch could not be reached"
        self._tell("daemon.recovered", reconfiguration=entry.reconfiguration, outcome=outcome, why=why)
        log.info("journal: %s (%s) is %s: %s", entry.reconfiguration, entry.what, outcome, why)

    async def _bring(
        self, moves: Iterable[SwitchMoves], way: Callable[[SwitchMoves, Sequence[CrossconnectReading]], SwitchMoves]
    ) -> list[BaseException]:
        return await self._at_once(
            [move for move in moves if move.remove or move.add],
            lambda move: switching.bring(self._switches[move.switch], move, way),
        )

    async def _at_once(
        self, moves: Iterable[SwitchMoves], work: Callable[[SwitchMoves], Awaitable[None]]
    ) -> list[BaseException]:
        moves = list(moves)
        if len(moves) == 1:  # most racks have one switch, and it needs no task of its own
            try:
                await work(moves[0])
            except HwdError as only:
                return [only]
            return []
        results = await asyncio.gather(*(work(move) for move in moves), return_exceptions=True)
        errors = [result for result in results if isinstance(result, BaseException)]
        for error in errors:
            if not isinstance(error, HwdError):
                raise error
        return errors

    async def _read(self, names: Iterable[str]) -> Observed:
        wanted = list(names)
        reads = [self._switches[name].read() for name in wanted]
        readings = [await reads[0]] if len(reads) == 1 else await asyncio.gather(*reads)
        others = {name: driver.latest for name, driver in self._switches.items() if name not in wanted}
        return dict(zip(wanted, readings, strict=True)) | {
            name: latest for name, latest in others.items() if latest is not None
        }

    def _claim(self, names: Iterable[str], id: str) -> None:
        wanted = list(names)
        for name in wanted:
            if (other := self._claimed.get(name)) is not None:
                raise RefusedError(
                    f"{name}: reconfiguration {other} is under way on it. `hwd confirm {other}` or `hwd rollback {other}` ends it"
                )
            for entry in self._journal.open:
                if any(move.switch == name for move in entry.moves):
                    raise RefusedError(
                        f"{name}: reconfiguration {entry.reconfiguration} ({entry.what}) was cut off and is not undone yet; it is as soon as all its switches answer"
                    )
        for name in wanted:
            self._claimed[name] = id

    def _release(self, id: str) -> None:
        self._claimed = {name: holder for name, holder in self._claimed.items() if holder != id}

    def _stop_timer(self, reconfiguration: Reconfiguration) -> None:
        timer = self._confirm_timers.pop(reconfiguration.id, None)
        if timer is not None and timer is not asyncio.current_task():
            timer.cancel()

    def _to(self, reconfiguration: Reconfiguration, state: State) -> None:
        reconfiguration.state = state
        self._tell("reconfiguration.state", reconfiguration=reconfiguration.id, state=state)

    def _tell(self, kind: str, **data: Json) -> None:
        self._sink(Document(kind=kind, at_ns=self._clock.monotonic_ns(), wall_ns=self._clock.wall_ns(), data=data))


def _raise_first(errors: list[BaseException]) -> None:
    if not errors:
        return
    first = errors[0]
    if len(errors) == 1 or not isinstance(first, HwdError):
        raise first
    raise _same_fault(first, switching.joined(errors))


def _same_fault(error: HwdError, message: str) -> HwdError:
    match error:
        case DeviceError():
            return DeviceError(message, device=error.device, command=error.command, code=error.code, text=error.text)
        case LinkError() | RefusedError() | NotReadyError():
            return type(error)(message)
        case _:
            return FailedError(message)


def _int(value: Json) -> int:
    assert isinstance(value, int)
    return value
