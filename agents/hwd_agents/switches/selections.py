"""Selections: sets the host's own switches for its jobs, and answers each when the links behind them are up."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from hwd_agents.process.config import SelectionConfig
from hwd_agents.spool.outbox import Emit
from hwd_agents.switches.epochs import Epochs
from hwd_agents.switches.host_switches import SOURCE, Switches
from hwd_agents.switches.intents import Intents
from hwd_agents.switches.link_up import LinkUp
from hwd_agents.switches.request import Request
from hwd_agents.switches.target import DARK, parse_target
from hwd_agents.watchers.link_watcher import LinkWatcher
from hwd_agents.wire import Selected, SwitchSet
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import ConfigError, FailedError, HwdError, LinkError, RefusedError
from hwd_drivers.core.structs import from_plain, to_plain
from hwd_drivers.core.values import Crossconnect, CrossconnectState
from hwd_drivers.devices.supervisor import Supervisor
from hwd_drivers.switching.demand import SwitchDemand, moves_of
from hwd_drivers.switching.drive import change as send
from hwd_drivers.switching.drive import drive
from hwd_drivers.switching.moves import SwitchMoves
from hwd_drivers.switching.read_back import read_back
from hwd_drivers.switching.turns import SwitchTurns

WITHIN_MOST_S: Final = 3600.0
LOOK_WITHIN_S: Final = 10.0
"""Longest wait for switches after a start, when the agent before was killed during a selection. After it the selection
is reported without their state.
"""
WITHOUT_LIGHT: Final = (CrossconnectState.BLOCKED, CrossconnectState.TUNING)
"""What a crossconnect may be that is set. Its links have no carrier then, which the answer reports."""

log = logging.getLogger(__name__)


class _BegunSelection(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a selection before its first command. `clock` names the clock of its times; empty when unnamed."""

    clock: str
    what: Selected

    @classmethod
    def of(cls, data: object) -> "_BegunSelection | None":
        """Parse a selection; None when this agent cannot parse it."""
        try:
            return from_plain(data, cls)
        except msgspec.ValidationError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    name: str
    supervisor: Supervisor
    moves: SwitchMoves
    answer: SwitchSet


class Selections:
    """One selection at a time on each switch: others wait in order, until their own limit, then are refused.

    It needs no daemon except for the lease that was granted (`Epochs`). A selection that has begun goes on to its end,
    even if its client disconnects.
    """

    def __init__(
        self,
        switches: Switches,
        epochs: Epochs,
        link: LinkWatcher,
        config: SelectionConfig,
        *,
        clock: Clock,
        emit: Emit,
        origin: str,
        name: Callable[[], str],
        intents: Intents,
        clock_name: str = "",
    ) -> None:
        self._switches = switches
        self._epochs = epochs
        self._link = link
        self._config = config
        self._clock = clock
        self._emit = emit
        self._origin = origin
        self._name = name
        self._intents = intents
        self._clock_name = clock_name
        self._turns = SwitchTurns("selection")
        self._driving: dict[str, asyncio.Event] = {}

    async def select(self, request: Request, *, requested_ns: int) -> Selected:
        """Set the switches and wait for the links. It does not raise for failures: the answer reports them."""
        until_s = asyncio.get_running_loop().time() + request.within_s
        if request.by_s is not None:
            until_s = min(until_s, request.by_s)
        try:
            self._check(request)
            async with self._turns.take(request.set, until_s=until_s):
                watch = LinkUp(self._link, self._clock, self._ports(request))
                try:
                    await watch.look()
                    changes = self._plan(request)
                    if still := [change for change in changes if change.moves.is_empty]:
                        await asyncio.gather(*(self._look(change) for change in still))
                        changes = self._plan(request)
                    return await self._do(changes, watch, request, requested_ns=requested_ns, until_s=until_s)
                finally:
                    watch.close()
        except (ConfigError, RefusedError, LinkError) as error:
            log.info("selection refused: %s", error)
            return self.refusal(str(error), requested_ns=requested_ns, id=request.id)

    def refusal(self, why: str, *, requested_ns: int, id: str | int | None = None) -> Selected:
        now_ns = self._clock.monotonic_ns()
        return Selected(outcome="refused", why=why, requested_ns=requested_ns, answered_ns=now_ns, id=id)

    async def run(self) -> None:
        """Report the selections during which an earlier agent was killed, and the present state of their switches.

        Afterwards it does nothing until it is cancelled.
        """
        left = {selection: _BegunSelection.of(data) for selection, data in self._intents.unreported_selections.items()}
        names = {name for begun in left.values() if begun is not None for name in begun.what.switches}
        names.intersection_update(self._switches.names)
        async with self._turns.take(names):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_WITHIN_S):
                    await asyncio.gather(*map(self._switches.wait_up, sorted(names)))
            for selection, begun in left.items():
                if begun is None:
                    log.warning("selection %s was begun, but its record cannot be parsed", selection)
                    self._intents.end(selection)
                else:
                    self._tell(self._unknown(begun))
        await asyncio.Event().wait()

    async def until_idle(self, switch: str) -> None:
        """Wait until no command to this switch is in progress."""
        while (under_way := self._driving.get(switch)) is not None:
            await under_way.wait()

    # --- before any command

    def _check(self, request: Request) -> None:
        if not request.set:
            raise ConfigError("set: names no switch")
        if not 0 < request.within_s <= WITHIN_MOST_S:
            raise ConfigError(f"within_s: {request.within_s:g} s is not above 0 and up to {WITHIN_MOST_S:g} s")
        for name in request.set:
            if name not in self._switches.names:
                raise ConfigError(
                    f"{name}: this host drives no such switch; it has {', '.join(self._switches.names) or 'none'}"
                )
            self._epochs.check(name, _epoch_of(request, name))

    def _ports(self, request: Request) -> Iterable[str]:
        """The ports that shall have light."""
        lit = [name for name, text in request.set.items() if text.strip() != DARK]
        return (port for name in lit for port in self._switches.ports(name))

    async def _look(self, change: _Change) -> None:
        """Read a switch that needs no change by its last report: somebody may have changed it. Raises LinkError."""
        try:
            await change.supervisor.read()
        except Exception as error:
            raise LinkError(_cause(change.name, error)) from error

    def _plan(self, request: Request) -> list[_Change]:
        """Check it again, now that its turn has come."""
        changes = []
        for name, text in request.set.items():
            epoch = self._epochs.check(name, _epoch_of(request, name))
            supervisor = self._switches.get(name)
            capabilities = supervisor.capabilities
            if capabilities is None or supervisor.latest is None:
                raise LinkError(f"{name}: it has not reported anything yet")
            wanted = parse_target(name, text, capabilities)
            demand = SwitchDemand(switch=name, wanted=wanted, emptied=not wanted)
            moves = moves_of(demand, capabilities, supervisor.latest)
            before: list[str] = [*moves.before]
            answer = SwitchSet(
                epoch=epoch,
                wanted=sorted(wanted),
                before=before,
                now=before,
                removed=[*moves.remove],
                added=[*moves.add],
            )
            changes.append(_Change(name=name, supervisor=supervisor, moves=moves, answer=answer))
        return changes

    # --- the switches, then the links

    async def _do(
        self, changes: list[_Change], watch: LinkUp, request: Request, *, requested_ns: int, until_s: float
    ) -> Selected:
        begun = Selected(
            outcome="unknown",
            selection=self._name(),
            switches={change.name: change.answer for change in changes},
            requested_ns=requested_ns,
            answered_ns=requested_ns,
            id=request.id,
        )
        try:
            failure = await self._drive(changes, watch, until_s, begun)
            outcome, why = ("failed", failure) if failure else await self._wait(changes, watch, until_s)
        except asyncio.CancelledError:
            self._ended(begun, watch, "failed", "the agent ended before it was done")
            raise
        except Exception as error:
            self._ended(begun, watch, "failed", _cause(", ".join(begun.switches), error))
            raise
        return self._ended(begun, watch, outcome, why)

    def _ended(self, begun: Selected, watch: LinkUp, outcome: str, why: str) -> Selected:
        """The end of a selection; it is reported after the answer to the job, which waits."""
        done = msgspec.structs.replace(
            begun,
            outcome=outcome,
            why=why,
            ports=watch.result(fall_s=self._config.fall_s),
            answered_ns=self._clock.monotonic_ns(),
        )
        asyncio.get_running_loop().call_soon(self._tell, done)
        return done

    async def _drive(self, changes: list[_Change], watch: LinkUp, until_s: float, begun: Selected) -> str:
        """Set all switches at once; returns what went wrong, in words."""
        moving = [change for change in changes if not change.moves.is_empty]
        if not moving:
            return ""
        under_way = asyncio.Event()
        self._driving |= {change.name: under_way for change in moving}
        try:
            await drive(
                moving,
                lambda change: self._command(change, watch, until_s),
                begin=lambda: self._intents.begin(
                    begun.selection, to_plain(_BegunSelection(clock=self._clock_name, what=begun))
                ),
            )
        finally:
            for change in moving:
                del self._driving[change.name]
            under_way.set()
        whys = [change.answer.why for change in moving if change.answer.why]
        if whys:
            await asyncio.gather(*(self._read_after_failure(change) for change in moving if not change.answer.why))
        return "; ".join(whys)

    async def _command(self, change: _Change, watch: LinkUp, until_s: float) -> None:
        answer, ports = change.answer, self._switches.ports(change.name)

        def commanded(at_ns: int) -> None:
            if answer.commanded_ns is None:
                answer.commanded_ns = at_ns
                watch.moved(ports)

        answer.now = None
        try:
            exchange = await send(change.supervisor, change.moves, commanded, until_s=until_s)
        except Exception as error:  # noqa: BLE001 - a bug in a driver must not end the agent or the other switches
            answer.why = _cause(change.name, error)
            await self._read_after_failure(change)
            return
        answer.commanded_ns, answer.acknowledged_ns = exchange.commanded_ns, exchange.acknowledged_ns
        answer.commands = exchange.commands
        watch.acknowledged(ports)

    async def _wait(self, changes: list[_Change], watch: LinkUp, until_s: float) -> tuple[str, str]:
        """Outcome and reason. The switches are read back while the links come up."""
        up = asyncio.create_task(watch.wait(fall_s=self._config.fall_s, until_s=until_s), name="hwd:selection/links")
        try:
            try:
                await asyncio.gather(*(self._read_back(change, until_s) for change in changes))
            except Exception as error:  # noqa: BLE001 - as above
                return "failed", _cause(", ".join(change.name for change in changes), error)
            while await up:
                if watch.all_up(fall_s=self._config.fall_s):  # and did not fall while a switch was read
                    return "up", ""
                up = asyncio.create_task(watch.wait(fall_s=self._config.fall_s, until_s=until_s))
        finally:
            up.cancel()
            await asyncio.wait([up])
        down = [f"{port}: {one.why}" for port, one in watch.result(fall_s=self._config.fall_s).items() if not one.up]
        stand = ", ".join(f"{change.name} is set to {' '.join(change.answer.wanted) or 'dark'}" for change in changes)
        return "not-up", f"not in time: {'; '.join(down)}. {stand}, and is not rolled back"

    async def _read_back(self, change: _Change, until_s: float) -> None:
        """Raises FailedError when it does not have what it was set to. Whether light comes is for the links to say."""

        def on_read(there: Iterable[Crossconnect]) -> None:
            change.answer.now = [*there]

        try:
            await read_back(change.supervisor, change.moves, allowed=WITHOUT_LIGHT, until_s=until_s, on_read=on_read)
        except FailedError as error:
            change.answer.why = str(error)
            raise

    async def _read_after_failure(self, change: _Change) -> None:
        """Read its present state; it stays unknown if that fails."""
        try:
            readings = await change.supervisor.read()
        except Exception as error:  # noqa: BLE001 - as above
            cannot = f"Its present state cannot be read: {_cause(change.name, error)}"
            change.answer.why = f"{change.answer.why}. {cannot}" if change.answer.why else cannot
        else:
            change.answer.now = [one.crossconnect for one in readings]

    def _unknown(self, begun: "_BegunSelection") -> Selected:
        """The outcome of a selection whose agent was killed, from the present reports of its switches."""
        now_ns, stands = self._clock.monotonic_ns(), []
        for name, one in begun.what.switches.items():
            found = self._switches.crossconnects(name) if name in self._switches.names else None
            one.now = None if found is None else [each["id"] for each in found]
            state_text = "unknown now" if one.now is None else " ".join(one.now) or "dark"
            stands.append(f"{name}: {state_text}, where {' '.join(one.wanted) or 'dark'} was asked for")
        why = f"the agent was killed in the middle of it, and how far it came is not known. {'; '.join(stands)}"
        requested_ns = begun.what.requested_ns
        if not self._clock_name or begun.clock != self._clock_name or requested_ns > now_ns:
            requested_ns, why = now_ns, f"{why}. The time of its request is unknown: it is of another clock"
        return msgspec.structs.replace(begun.what, why=why, requested_ns=requested_ns, answered_ns=now_ns)

    def _tell(self, done: Selected) -> None:
        words = ", ".join(f"{name}:{' '.join(one.wanted) or 'dark'}" for name, one in done.switches.items())
        took_s = (done.answered_ns - done.requested_ns) / 1e9
        log.info("selection %s: %s: %s after %.3f s%s", done.selection, words, done.outcome, took_s, _colon(done.why))
        self._emit(
            "selection",
            None,
            earliest_ns=done.requested_ns,
            at_ns=done.answered_ns,
            source=SOURCE,
            origin=self._origin,
            data=done,
            marks=self._intents.end(done.selection),
        )


def _epoch_of(request: Request, switch: str) -> int | None:
    return request.epoch.get(switch) if isinstance(request.epoch, Mapping) else request.epoch


def _cause(name: str, error: Exception) -> str:
    """The cause of an error as text."""
    if isinstance(error, HwdError | OSError):
        return str(error)
    log.error("%s: bug in its driver", name, exc_info=error)
    return f"{name}: bug in its driver: {type(error).__name__}: {error}"


def _colon(why: str) -> str:
    return f": {why}" if why else ""
