"""The way there: let the agents watch, journal, drive every switch at once, read back."""

from collections.abc import Callable, Sequence
from typing import Protocol

from hwd.model.plan import ApplyMode, SwitchMoves
from hwd.reconfigure import switching
from hwd.reconfigure.observing import Observing
from hwd.reconfigure.overrun import Watch, teller
from hwd.reconfigure.reconfiguration import Reconfiguration, State
from hwd.reconfigure.recovery import Recovery
from hwd.reconfigure.switches import Switches
from hwd.reconfigure.switching import uses
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import FailedError, RefusedError
from hwd_drivers.core.reason import reason_of


class Tell(Protocol):
    """Emits a document."""

    def __call__(self, kind: str, **data: Json) -> None: ...


class Driving:
    """What is sent to the switches on the way to what is wanted. `to` sets the state of a reconfiguration and tells it."""

    def __init__(
        self,
        *,
        switches: Switches,
        observing: Observing,
        recovery: Recovery,
        tell: Tell,
        to: Callable[[Reconfiguration, State], None],
    ) -> None:
        self._switches = switches
        self._observing = observing
        self._recovery = recovery
        self._tell = tell
        self._to = to

    async def drive(self, reconfiguration: Reconfiguration) -> None:
        """Raises HwdError; where `journaled` is set by then, something may have moved."""
        plan = reconfiguration.plan
        moving = [move for move in plan.moves if move.remove or move.add]
        relied = [move for move in plan.moves if move.keep and not (move.remove or move.add)] if moving else []
        reconfiguration.started = reconfiguration.to_data()
        if reconfiguration.hosts:
            await self._observing.begin(reconfiguration)
            await self._check_unchanged(reconfiguration, moving)  # that took its time
        if moving:
            try:
                self._recovery.begin(plan, reconfiguration=reconfiguration.id, run=reconfiguration.run)
            except OSError as error:
                raise FailedError(
                    f"journal: cannot write the plan: {reason_of(error)}. Nothing was sent. Make room on the disk of the data directory and ask again; the daemon goes on as it is"
                ) from error
            reconfiguration.journaled = True
            self._to(reconfiguration, State.JOURNALED)
        self._tell("reconfiguration.started", **reconfiguration.started)
        self._to(reconfiguration, State.DRIVING)
        on_overrun = teller(self._tell, reconfiguration.id, reconfiguration.remarks)
        watches = {move.switch: Watch(move.switch, on_overrun) for move in (*moving, *relied)}
        try:
            await self._switches.all(moving, lambda move: self._command(reconfiguration, move, watches[move.switch]))
            self._to(reconfiguration, State.READ_BACK)
            read = [*moving, *relied]
            await self._switches.all(read, lambda move: self._read_back(reconfiguration, move, watches[move.switch]))
        finally:
            for watch in watches.values():
                watch.close()
        self._to(reconfiguration, State.DRIVEN)

    async def _check_unchanged(self, reconfiguration: Reconfiguration, moving: Sequence[SwitchMoves]) -> None:
        """What is on ports of others is theirs to change."""
        if not moving:
            return
        theirs = reconfiguration.ports_of_others
        look = await self._switches.read([move.switch for move in moving])
        reconfiguration.read_ns.update(look.ended_ns)
        for move in moving:
            there = {reading.crossconnect for reading in look.observed[move.switch]}
            changed = [one for one in there.symmetric_difference(move.before) if not uses(move.switch, one, theirs)]
            if changed:
                other = ", ".join(sorted(map(str, changed)))
                raise RefusedError(
                    f"{move.switch}: changed meanwhile, and not by this daemon ({other}); nothing was sent. Plan again"
                )

    async def _command(self, reconfiguration: Reconfiguration, move: SwitchMoves, watch: Watch) -> None:
        read_ns = reconfiguration.read_ns[move.switch]
        data: dict[str, Json] = {
            "reconfiguration": reconfiguration.id,
            "switch": move.switch,
            "commanded_ns": None,
            "acknowledged_ns": None,
            "commands": 1,
            "window_s": None,
        }

        def sent(commanded_ns: int) -> None:
            data.update(commanded_ns=commanded_ns, window_s=(commanded_ns - read_ns) / 1e9)

        try:
            exchange = await switching.change(self._switches.driver(move.switch), move, sent)
            watch.changed(move, exchange, read_ns=read_ns)
            data |= {
                "commanded_ns": exchange.commanded_ns,
                "acknowledged_ns": exchange.acknowledged_ns,
                "commands": exchange.commands,
            }
        except BaseException:
            if isinstance(window_s := data["window_s"], float):
                reconfiguration.unanswered_s[move.switch] = window_s
            raise
        finally:
            if data["commanded_ns"] is not None:
                reconfiguration.commanded.append(data)
                self._tell("reconfiguration.commanded", **data)

    async def _read_back(self, reconfiguration: Reconfiguration, move: SwitchMoves, watch: Watch) -> None:
        """Under `safe` nothing of anybody may go: what a switch that moves took in spite of it ends in a failure, as a switch that refuses would have had it."""
        reconfiguration.remarks += await switching.read_back(
            self._switches.driver(move.switch),
            move,
            reconfiguration.plan.mode,
            others=reconfiguration.ports_of_others,
            on_read=watch.read_back,
        )
        if watch.lost and reconfiguration.plan.mode is ApplyMode.SAFE:
            lost = ", ".join(map(str, watch.lost))
            raise FailedError(
                f"{move.switch}: {lost} came between our read and our write and is lost to it, which --mode safe does not allow. Tell its owner, then plan again"
            )
