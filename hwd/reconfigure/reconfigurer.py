"""The way of a reconfiguration: claim, read, plan, journal, drive, read back, wait for ready, confirm or roll back.

reconfiguration = await reconfigurer.begin(request)          # switches driven and read back
await reconfigurer.wait_ready(reconfiguration, within_s=15)  # links ready, else it is rolled back
await reconfigurer.confirm(reconfiguration)
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence

from hwd.model.instant import Origin
from hwd.model.plan import CrashRule, Plan, SwitchMoves
from hwd.model.state import Observed
from hwd.reconfigure import switching
from hwd.reconfigure.journal import Journal, OpenEntry
from hwd.reconfigure.leases import Leases
from hwd.reconfigure.observing import Agents, Observing
from hwd.reconfigure.planner import Planner, Request, moved_ports, touched_ports
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

ROLL_BACK_WITHIN_S = 3.5
"""For the switches to be back; after it the journal keeps the reconfiguration open. With the time that agents are waited for an abort ends within 5 s."""
RECOVER_WITHIN_S = 30.0
"""For the switches to be back when nobody waits; then it is tried again."""
GRACE_NS = 1_000_000
"""Events that ended this long before `started` still belong to it: the agents' stamps carry an alignment error."""

log = logging.getLogger(__name__)


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
        self._observing = Observing(agents)
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
        self._unwritten: dict[str, Outcome] = {}
        self._left_open: dict[str, str] = {}
        self._recovering = asyncio.Lock()
        self._confirm_timers: dict[str, asyncio.Task[None]] = {}
        for entry in journal.open:
            leases.hold(entry.reconfiguration, moved_ports(entry.moves))

    # --- reading and planning: nothing is touched

    @property
    def under_way(self) -> tuple[Reconfiguration, ...]:
        return tuple(self._under_way.values())

    def last_of(self, run: str) -> Reconfiguration | None:
        """The last one that this run began, ended or not."""
        return self._last_of_run.get(run)

    def forget(self, run: str) -> None:
        """The run has ended."""
        self._last_of_run.pop(run, None)

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
            self._leases.check(touched_ports(plan), lease=plan.lease)
        except BaseException:
            self._release(id)
            raise
        self._leases.hold(id, touched_ports(plan))
        reconfiguration = Reconfiguration(id=id, plan=plan, run=run, started_ns=self._clock.monotonic_ns())
        self._under_way[id] = reconfiguration
        if run is not None:
            self._last_of_run[run] = reconfiguration
        try:
            await self._drive(reconfiguration)
        except HwdError as error:
            await self.roll_back(reconfiguration, str(error))
            after = reconfiguration.outcome or Outcome.FAILED
            raise _same_fault(
                error, f"{error}. Outcome: {after}{'' if after is Outcome.ROLLED_BACK else f' ({reconfiguration.why})'}"
            ) from error
        except BaseException as error:
            await self.roll_back(
                reconfiguration, "aborted" if isinstance(error, asyncio.CancelledError) else repr(error)
            )
            raise
        return reconfiguration

    async def wait_ready(self, reconfiguration: Reconfiguration, *, within_s: float) -> None:
        """Until all links are ready. Raises NotReadyError, after the roll-back, when they are not in time."""
        self._to(reconfiguration, State.WAITING)
        keeping = asyncio.create_task(
            self._observing.keep(reconfiguration), name=f"hwd:reconfigure/observe-{reconfiguration.id}"
        )
        try:
            async with asyncio.timeout(within_s):
                await reconfiguration.all_ready()
        except TimeoutError:
            late = ", ".join(map(str, reconfiguration.not_ready))
            why = f"not ready within {within_s:g} s: {late}"
            await self.roll_back(reconfiguration, why)
            raise NotReadyError(
                f"{reconfiguration.plan.what}: {why}. Outcome: {reconfiguration.outcome}. `hwd watch --after 0 --kind timeline` says which stage was not reached"
            ) from None
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)

    async def await_confirm(self, reconfiguration: Reconfiguration, *, within_s: float) -> None:
        """From here it goes back by itself after `within_s` seconds, unless `confirm` comes first; returns at once."""

        async def expire() -> None:
            await asyncio.sleep(within_s)
            await self.roll_back(reconfiguration, f"not confirmed within {within_s:g} s")

        reconfiguration.confirm_by_s = asyncio.get_running_loop().time() + within_s
        self._to(reconfiguration, State.AWAITING_CONFIRM)
        self._confirm_timers[reconfiguration.id] = asyncio.create_task(
            expire(), name=f"hwd:reconfigure/confirm-{reconfiguration.id}"
        )

    async def confirm(self, reconfiguration: Reconfiguration) -> None:
        """The wanted state stays. Raises RefusedError where it is on its way back already."""
        if reconfiguration.outcome is not None:
            raise RefusedError(f"reconfiguration {reconfiguration.id}: has ended already, {reconfiguration.outcome}")
        if reconfiguration.ending is None and not reconfiguration.hosts:
            self._stop_timer(reconfiguration)
            self._finish(reconfiguration, Outcome.CONFIRMED, "")  # nobody is to be asked: nothing can come between
            return
        if reconfiguration.ending is None:
            self._begin_end(reconfiguration, State.CONFIRMING, self._end(reconfiguration, Outcome.CONFIRMED, ""))
        elif reconfiguration.back_since_ns is not None:
            raise RefusedError(f"reconfiguration {reconfiguration.id}: too late, it is being rolled back")
        await self._ended(reconfiguration)

    async def roll_back(self, reconfiguration: Reconfiguration, why: str) -> None:
        """Back to the state read at the start; where it is being confirmed already, that stands.

        Does not raise for switches that cannot be driven: then the outcome is `failed`, and the journal keeps it. Who is cancelled here only waits no more.
        """
        if reconfiguration.ending is None and reconfiguration.state is not State.ENDED:
            reconfiguration.back_since_ns = self._clock.monotonic_ns()
            self._begin_end(reconfiguration, State.ROLLING_BACK, self._go_back(reconfiguration, why))
        await self._ended(reconfiguration)

    # --- after a crash, or when a switch comes back

    async def recover(self) -> None:
        """Finish or undo, by its rule, what the journal holds open and nobody is at work on. What cannot be reached stays open."""
        async with self._recovering:
            for id, outcome in list(self._unwritten.items()):
                self._write_end(id, outcome)
            for entry in self._journal.open:
                if self._is_left_open(entry):
                    await self._recover(entry)

    async def close(self) -> None:
        """Roll back what is under way, all at once; for an orderly end of the daemon."""
        await asyncio.gather(*(self.roll_back(one, "the daemon ends") for one in self.under_way))

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
        reconfiguration.started = _started(reconfiguration)
        if reconfiguration.hosts:
            await self._observing.begin(reconfiguration)
            await self._check_unchanged(moving)  # that took its time
        if moving:
            try:
                self._journal.begin(plan, reconfiguration=reconfiguration.id, run=reconfiguration.run)
            except OSError as error:
                raise FailedError(
                    f"journal: cannot write the plan: {error}. Nothing was sent; free the disk of the data directory, then start the daemon anew"
                ) from error
            reconfiguration.journaled = True
            self._to(reconfiguration, State.JOURNALED)
        self._tell("reconfiguration.started", **reconfiguration.started)
        self._to(reconfiguration, State.DRIVING)
        _raise_first(await self._at_once(moving, lambda move: self._command(reconfiguration, move)))
        self._to(reconfiguration, State.READ_BACK)
        _raise_first(await self._at_once(moving, lambda move: self._read_back(reconfiguration, move)))
        self._to(reconfiguration, State.DRIVEN)

    async def _check_unchanged(self, moving: Sequence[SwitchMoves]) -> None:
        if not moving:
            return
        observed = await self._read([move.switch for move in moving])
        for move in moving:
            there = {reading.crossconnect for reading in observed[move.switch]}
            if there != set(move.before):
                other = ", ".join(sorted(map(str, there.symmetric_difference(move.before))))
                raise RefusedError(
                    f"{move.switch}: changed meanwhile by somebody else ({other}); nothing was sent. Plan again"
                )

    async def _command(self, reconfiguration: Reconfiguration, move: SwitchMoves) -> None:
        data: dict[str, Json] = {
            "reconfiguration": reconfiguration.id,
            "switch": move.switch,
            "commanded_ns": None,
            "acknowledged_ns": None,
            "commands": 1,
        }
        try:
            exchange = await switching.change(
                self._switch(move.switch), move, lambda commanded_ns: data.update(commanded_ns=commanded_ns)
            )
            data |= {
                "commanded_ns": exchange.commanded_ns,
                "acknowledged_ns": exchange.acknowledged_ns,
                "commands": exchange.commands,
            }
        finally:
            if data["commanded_ns"] is not None:
                reconfiguration.commanded.append(data)
                self._tell("reconfiguration.commanded", **data)

    async def _read_back(self, reconfiguration: Reconfiguration, move: SwitchMoves) -> None:
        reconfiguration.remarks += await switching.read_back(self._switch(move.switch), move, reconfiguration.plan.mode)

    def _begin_end(self, reconfiguration: Reconfiguration, state: State, end: Coroutine[None, None, None]) -> None:
        """From here there is one end, and nobody's cancelling reaches it."""
        self._stop_timer(reconfiguration)
        self._to(reconfiguration, state)
        reconfiguration.ending = asyncio.create_task(end, name=f"hwd:reconfigure/end-{reconfiguration.id}")

    def _stop_timer(self, reconfiguration: Reconfiguration) -> None:
        timer = self._confirm_timers.pop(reconfiguration.id, None)
        if timer is not None and timer is not asyncio.current_task():
            timer.cancel()

    async def _ended(self, reconfiguration: Reconfiguration) -> None:
        if reconfiguration.ending is not None:
            await asyncio.shield(reconfiguration.ending)

    async def _go_back(self, reconfiguration: Reconfiguration, why: str) -> None:
        outcome, said = Outcome.FAILED, f"{why}; the roll-back broke off"
        try:
            errors: list[BaseException] = []
            if reconfiguration.journaled:
                errors = await self._bring(reconfiguration.plan.moves, switching.way_back, within_s=ROLL_BACK_WITHIN_S)
            if errors:
                said = f"{why}; roll-back failed: {switching.joined(errors)}"
            else:
                outcome, said = Outcome.ROLLED_BACK, why
        finally:
            await self._end(reconfiguration, outcome, said)

    async def _end(self, reconfiguration: Reconfiguration, outcome: Outcome, why: str) -> None:
        try:
            await self._observing.settle(reconfiguration)
        finally:
            self._finish(reconfiguration, outcome, why)

    def _finish(self, reconfiguration: Reconfiguration, outcome: Outcome, why: str) -> None:
        try:
            if reconfiguration.commanded or reconfiguration.events:
                self._tell("timeline", **self._timeline(reconfiguration).to_data())
        finally:
            reconfiguration.outcome, reconfiguration.why = outcome, why
            stays_open = reconfiguration.journaled and outcome is Outcome.FAILED
            if reconfiguration.journaled and not stays_open:
                self._write_end(reconfiguration.id, outcome)
            if not stays_open:
                self._leases.let_go(reconfiguration.id)
            reconfiguration.state = State.ENDED
            self._under_way.pop(reconfiguration.id, None)
            self._release(reconfiguration.id)
            self._tell(
                "reconfiguration.ended",
                reconfiguration=reconfiguration.id,
                run=reconfiguration.run,
                outcome=outcome,
                why=why,
                seconds=(self._clock.monotonic_ns() - reconfiguration.started_ns) / 1e9,
                remarks=[*reconfiguration.remarks],
            )

    def _write_end(self, id: str, outcome: Outcome) -> None:
        """What cannot be written now is tried again by `recover`, and until then nobody takes it for left open."""
        try:
            self._journal.end(id, outcome=outcome)
            self._unwritten.pop(id, None)
        except OSError as error:
            self._unwritten[id] = outcome
            log.warning(
                "journal: %s is %s, and that cannot be written: %s. A crash now would roll it back", id, outcome, error
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

    def _is_left_open(self, entry: OpenEntry) -> bool:
        return (
            entry in self._journal.open
            and entry.reconfiguration not in self._under_way
            and entry.reconfiguration not in self._unwritten
        )

    async def _recover(self, entry: OpenEntry) -> None:
        finish = entry.crash_rule is CrashRule.FINISH
        way = switching.way_on if finish else switching.way_back
        errors = await self._bring(entry.moves, way, within_s=RECOVER_WITHIN_S)
        if errors:
            why = switching.joined(errors)
            if self._left_open.get(entry.reconfiguration) != why:
                log.warning("journal: %s (%s) stays open: %s", entry.reconfiguration, entry.what, why)
            self._left_open[entry.reconfiguration] = why
            return
        self._left_open.pop(entry.reconfiguration, None)
        outcome = Outcome.CONFIRMED if finish else Outcome.ROLLED_BACK
        self._write_end(entry.reconfiguration, outcome)
        self._leases.let_go(entry.reconfiguration)
        why = "the daemon ended before it did, or a switch could not be driven"
        self._tell("daemon.recovered", reconfiguration=entry.reconfiguration, outcome=outcome, why=why)
        log.info("journal: %s (%s) is %s: %s", entry.reconfiguration, entry.what, outcome, why)

    async def _bring(
        self,
        moves: Iterable[SwitchMoves],
        way: Callable[[SwitchMoves, Sequence[CrossconnectReading]], SwitchMoves],
        *,
        within_s: float,
    ) -> list[BaseException]:
        async def bring(move: SwitchMoves) -> None:
            try:
                async with asyncio.timeout(within_s):
                    await switching.bring(self._switch(move.switch), move, way)
            except TimeoutError:
                raise DeadlineError(f"{move.switch}: not where it shall be within {within_s:g} s") from None

        return await self._at_once([move for move in moves if move.remove or move.add], bring)

    def _switch(self, name: str) -> SwitchDriver:
        if (switch := self._switches.get(name)) is None:
            raise FailedError(
                f"{name}: no switch of this testbed file that the daemon drives. Put it back into the file, or bring its light in order by hand and move the journal away"
            )
        return switch

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
                if self._is_left_open(entry) and any(move.switch == name for move in entry.moves):
                    why = self._left_open.get(entry.reconfiguration, "not tried yet")
                    raise RefusedError(
                        f"{name}: reconfiguration {entry.reconfiguration} ({entry.what}) was cut off and is not undone yet: {why}. It is tried again and again"
                    )
        for name in wanted:
            self._claimed[name] = id

    def _release(self, id: str) -> None:
        self._claimed = {name: holder for name, holder in self._claimed.items() if holder != id}

    def _to(self, reconfiguration: Reconfiguration, state: State) -> None:
        reconfiguration.state = state
        self._tell("reconfiguration.state", reconfiguration=reconfiguration.id, state=state)

    def _tell(self, kind: str, **data: Json) -> None:
        self._sink(Document(kind=kind, at_ns=self._clock.monotonic_ns(), wall_ns=self._clock.wall_ns(), data=data))


def _started(reconfiguration: Reconfiguration) -> dict[str, Json]:
    plan = reconfiguration.plan
    return {
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
