"""The drive: the moves of a plan are journaled, sent to the switches and read back."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec import UNSET
from msgspec.structs import replace

from hwd.model.reconfiguration import ReconfigurationCommanded, ReconfigurationState, ReconfigurationStep
from hwd.ports.ledger import Asker, Ledger
from hwd.ports.rules import PortAction
from hwd.reconfigure.apply.agent_watch import AgentWatch
from hwd.reconfigure.apply.journal_writer import JournalWriter
from hwd.reconfigure.apply.ready_wait import ReadyWait
from hwd.reconfigure.apply.reconfiguration import Emitter, Reconfiguration, State
from hwd.reconfigure.apply.remarks import overrun_report, read_back_remarks, uses
from hwd.reconfigure.apply.switches import Switches, raise_joined
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document, Fact, Sink
from hwd_drivers.core.errors import FailedError, NotReadyError, RefusedError
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.switching.drive import at_once, change, drive
from hwd_drivers.switching.moves import ApplyMode, SwitchMoves
from hwd_drivers.switching.overrun import OverrunWatch
from hwd_drivers.switching.read_back import read_back


class Drive:
    """Brings the switches to what a plan wants."""

    def __init__(
        self,
        *,
        switches: Switches,
        agent_watch: AgentWatch,
        writer: JournalWriter,
        ready_wait: ReadyWait,
        ledger: Ledger,
        emitter: Emitter,
        clock: Clock,
        sink: Sink,
    ) -> None:
        self._switches = switches
        self._agent_watch = agent_watch
        self._writer = writer
        self._ready_wait = ready_wait
        self._ledger = ledger
        self._emitter = emitter
        self._clock = clock
        self._sink = sink

    async def run(self, reconfiguration: Reconfiguration) -> None:
        """Drive and read back all steps of the plan: one, unless it has an order.

        A step holds before the next begins: its switches report it and, where the plan asks for that, its links are
        ready. No step begins once the lease of the plan is over. Raises HwdError; a switch may have moved if
        `reconfiguration.journaled` is set.
        """
        plan = reconfiguration.plan
        moving = [move for move in plan.moves if not move.is_empty]
        steps = [tuple(moving)] if plan.order is None else plan.step_moves
        if reconfiguration.is_watched:
            await self._agent_watch.begin(reconfiguration)
            await self._check_unchanged(reconfiguration, moving)  # the start of the watch took time
        for number, moves in enumerate(steps, 1):
            if number > 1:
                await self._check_step(reconfiguration, moves, number)
            is_last = number == len(steps)
            await self._step(reconfiguration, moves, number, moving if is_last else ())
            if not is_last and plan.ready_within_s is not None:
                await self._wait_ready(reconfiguration, number, within_s=plan.ready_within_s)
            if plan.order is not None:
                self._tell_step(reconfiguration, number, "done")
        self._emitter.change_state(reconfiguration, State.DRIVEN)

    async def _step(
        self, reconfiguration: Reconfiguration, moves: Sequence[SwitchMoves], number: int, whole: Sequence[SwitchMoves]
    ) -> None:
        """Drive one step and read it back. `whole`: in the last one, the moves of all steps by switch."""
        plan = reconfiguration.plan
        relied = [move for move in plan.moves if move.keep and move.is_empty] if whole else []
        read = [*(whole or moves), *relied]

        def begin() -> None:
            self._check_lease(reconfiguration)
            if number == 1:
                if moves or plan.confirm_within_s is not None:
                    self._writer.begin(reconfiguration)
                    reconfiguration.journaled = True
                    self._emitter.change_state(reconfiguration, State.JOURNALED)
                self._emitter(reconfiguration.started)
            self._emitter.change_state(reconfiguration, State.DRIVING)
            if plan.order is not None:
                reconfiguration.step = number
                self._tell_step(reconfiguration, number, "begun")

        with self._watched(reconfiguration, [*moves, *read]) as watches:
            raise_joined(
                await drive(
                    moves,
                    lambda move: self._command(reconfiguration, move, watches[move.switch], self._emitter),
                    begin=begin,
                )
            )
            alone = bool(whole) and plan.mode is ApplyMode.OVERWRITE
            await self._read(reconfiguration, read, watches, alone=alone)

    async def _check_step(self, reconfiguration: Reconfiguration, moves: Sequence[SwitchMoves], number: int) -> None:
        """Check the reconfiguration before a later step: raises FailedError where it was ended meanwhile, or its
        switches are not as they were left.
        """
        if reconfiguration.ending is None:
            await self._check_unchanged(reconfiguration, moves, sent=f"step {number} was not begun")
        if reconfiguration.ending is not None:
            raise FailedError(f"reconfiguration {reconfiguration.id}: ended by somebody before its step {number}")

    def _check_lease(self, reconfiguration: Reconfiguration) -> None:
        """Raises RefusedError where the lease that it acts under is over. It is asked as the bytes leave: the claim of
        its ports was seconds ago.

        A prepared set that goes by its rule after a restart holds its ports itself, also past the end of its lease.
        """
        plan = reconfiguration.plan
        if plan.lease is not None and plan.of_set is None:
            asker = Asker(lease=plan.lease, epoch=plan.lease_epoch)
            self._ledger.check(asker, (), PortAction.CHANGE, now_wall_ns=self._clock.wall_ns())

    async def _wait_ready(self, reconfiguration: Reconfiguration, number: int, *, within_s: float) -> None:
        """Wait until the links that the steps so far have made are ready. Raises NotReadyError where they are late."""
        order = reconfiguration.plan.order
        if order is None:
            return
        to_come = {link for step in order.steps[number:] for link in step.made}
        reconfiguration.awaited = frozenset(reconfiguration.links) - to_come
        self._emitter.change_state(reconfiguration, State.WAITING)
        try:
            why = await self._ready_wait.wait(reconfiguration, within_s=within_s)
        finally:
            reconfiguration.awaited = None
        if why is not None:
            raise NotReadyError(why)

    def _tell_step(self, reconfiguration: Reconfiguration, number: int, state: str) -> None:
        if (order := reconfiguration.plan.order) is None:
            return
        step = order.steps[number - 1]
        self._emitter(
            ReconfigurationStep(
                reconfiguration=reconfiguration.id,
                step=number,
                steps=len(order.steps),
                state=state,
                made=[*step.made],
                dark=[*step.dark],
            )
        )

    async def switch(self, reconfiguration: Reconfiguration, *, origin: str) -> None:
        """Drive the switch of a prepared set from its target `origin`. Nothing is read and synced before it.

        Its entry is synced once the switches have answered, and only then something is told of it.
        """
        moves = reconfiguration.plan.moves
        moving = [move for move in moves if not move.is_empty]
        began, commanded = (self._clock.monotonic_ns(), self._clock.wall_ns()), list[Fact]()

        def begin() -> None:
            if moving:
                self._writer.switch(reconfiguration, origin)
                reconfiguration.journaled = True

        with self._watched(reconfiguration, moves) as watches:
            try:
                errors = await drive(
                    moving,
                    lambda move: self._command(reconfiguration, move, watches[move.switch], commanded.append),
                    begin=begin,
                )
            finally:
                why = self._writer.sync()
                if reconfiguration.journaled or not moving:
                    self._tell(reconfiguration, began, commanded)
            raise_joined(errors)
            if why:
                raise FailedError(
                    f"journal: the switch cannot be synced: {why}. Look at the disk of the data directory"
                )
            await self._read(reconfiguration, moves, watches, alone=False)
        self._emitter.change_state(reconfiguration, State.DRIVEN)

    @contextmanager
    def _watched(
        self, reconfiguration: Reconfiguration, moves: Sequence[SwitchMoves]
    ) -> Iterator[Mapping[str, OverrunWatch]]:
        on_overrun = overrun_report(self._emitter, reconfiguration.id, reconfiguration.remarks)
        watches = {move.switch: OverrunWatch(move.switch, on_overrun) for move in moves}
        try:
            yield watches
        finally:
            for watch in watches.values():
                watch.close()

    async def _read(
        self,
        reconfiguration: Reconfiguration,
        moves: Sequence[SwitchMoves],
        watches: Mapping[str, OverrunWatch],
        *,
        alone: bool,
    ) -> None:
        self._emitter.change_state(reconfiguration, State.READ_BACK)
        raise_joined(
            await at_once(moves, lambda move: self._read_back(reconfiguration, move, watches[move.switch], alone=alone))
        )

    def _tell(self, reconfiguration: Reconfiguration, began: tuple[int, int], commanded: Sequence[Fact]) -> None:
        """What has been done of a switch of a prepared set, with the time of its begin, in the order of any other."""
        states = [State.JOURNALED] if reconfiguration.journaled else []
        facts: list[Fact] = [ReconfigurationState(reconfiguration=reconfiguration.id, state=one) for one in states]
        facts.append(reconfiguration.started)
        facts.append(ReconfigurationState(reconfiguration=reconfiguration.id, state=State.DRIVING))
        for fact in facts:
            self._sink(Document(at_ns=began[0], wall_ns=began[1], fact=fact))
        for fact in commanded:
            self._emitter(fact)

    async def _check_unchanged(
        self, reconfiguration: Reconfiguration, moving: Sequence[SwitchMoves], *, sent: str = "nothing was sent"
    ) -> None:
        """Raises RefusedError where a switch has changed since the plan, on ports that no other reconfiguration has."""
        if not moving:
            return
        theirs, of_set = reconfiguration.ports_of_others, reconfiguration.plan.of_set is not None
        look = await self._switches.read_unmoved([move.switch for move in moving])
        reconfiguration.read_ns.update(look.ended_ns)
        for move in moving:
            there = {reading.crossconnect for reading in look.observed[move.switch]}
            changed = [one for one in there.symmetric_difference(move.before) if not uses(move.switch, one, theirs)]
            if of_set:  # its plan says nothing of other ends
                changed = [one for one in changed if uses(move.switch, one, reconfiguration.plan.touches)]
            if changed:
                other = ", ".join(map(str, sorted(changed, key=Crossconnect.sort_key)))
                raise RefusedError(
                    f"{move.switch}: changed meanwhile, and not by this daemon ({other}); {sent}. Plan again"
                )

    async def _command(
        self,
        reconfiguration: Reconfiguration,
        move: SwitchMoves,
        watch: OverrunWatch,
        tell: Callable[[ReconfigurationCommanded], None],
    ) -> None:
        read_ns = reconfiguration.read_ns[move.switch]
        fact = ReconfigurationCommanded(
            reconfiguration=reconfiguration.id,
            switch=move.switch,
            commanded_ns=None,
            acknowledged_ns=None,
            commands=1,
        )
        if reconfiguration.plan.order is not None:
            fact = replace(fact, step=reconfiguration.step, made=len(move.add), removed=len(move.remove))

        def sent(commanded_ns: int) -> None:
            nonlocal fact
            asked_ns = reconfiguration.asked_ns
            fact = replace(
                fact,
                commanded_ns=commanded_ns,
                window_s=(commanded_ns - read_ns) / 1e9,
                asked_s=UNSET if asked_ns is None else (commanded_ns - asked_ns) / 1e9,
            )

        try:
            exchange = await change(self._switches.driver(move.switch), move, sent)
            watch.changed(move, exchange, read_ns=read_ns)
            fact = replace(
                fact,
                commanded_ns=exchange.commanded_ns,
                acknowledged_ns=exchange.acknowledged_ns,
                commands=exchange.commands,
            )
        except BaseException:
            if fact.window_s is not None:
                reconfiguration.unanswered_s[move.switch] = fact.window_s
            raise
        finally:
            if fact.commanded_ns is not None:
                reconfiguration.commanded.append(fact)
                tell(fact)

    async def _read_back(
        self, reconfiguration: Reconfiguration, move: SwitchMoves, watch: OverrunWatch, *, alone: bool
    ) -> None:
        """Read back and compare. Under `safe` a crossconnect that the change took from another client is a failure."""
        driver, mode = self._switches.driver(move.switch), reconfiguration.plan.mode
        states = await read_back(driver, move, alone=alone, on_settled=watch.read_back)
        reconfiguration.remarks += read_back_remarks(move, states, mode, others=reconfiguration.ports_of_others)
        if watch.lost and mode is ApplyMode.SAFE:
            lost = ", ".join(watch.lost)
            raise FailedError(
                f"{move.switch}: {lost} came between our read and our write and is lost to it, "
                "which --mode safe does not allow. Tell its owner, then plan again"
            )
