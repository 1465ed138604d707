"""Driving switches: one change, its read-back, and the way back. What is done here is under a lease and in the journal."""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Protocol

from hwd.model.plan import ApplyMode, SwitchMoves
from hwd.model.state import Observed
from hwd.reconfigure.overrun import Watch
from hwd_drivers.core.errors import FailedError, HwdError
from hwd_drivers.core.values import (
    Crossconnect,
    CrossconnectReading,
    CrossconnectState,
    Exchange,
    PortOverride,
    PortSide,
)

COMMAND_WITHIN_S = 10.0
"""For a switch to answer a command: the slowest matrix on record needs 0.5 s a bulk set; a client of one allows 10 s."""
TUNED_WITHIN_S = 10.0
"""For reported crossconnects to leave `tuning`."""
REREAD_S = 0.02
"""Between two reads of a switch that is tuning."""


class SwitchDriver(Protocol):
    """A supervised switch; both calls raise LinkError while it is away."""

    @property
    def latest(self) -> tuple[CrossconnectReading, ...] | None:
        """What it last reported; None before the first report."""
        ...

    @property
    def cause(self) -> str | None:
        """Why it cannot be reached; None while it can."""
        ...

    @property
    def blocked(self) -> frozenset[PortSide]:
        """Ends that an override held dark when it was last asked."""
        ...

    async def read(self) -> tuple[CrossconnectReading, ...]: ...

    async def change(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None,
    ) -> Exchange: ...

    async def override(self, ends: Sequence[PortSide], to: PortOverride, *, by: str, deadline_s: float) -> None:
        """Hold ends dark, or let them go, and read that back."""
        ...


async def change(
    driver: SwitchDriver, move: SwitchMoves, on_commanded: Callable[[int], None] | None = None
) -> Exchange:
    """Send one switch its moves; the answer is not yet proof."""
    deadline_s = asyncio.get_running_loop().time() + COMMAND_WITHIN_S
    return await driver.change(remove=move.remove, add=move.add, deadline_s=deadline_s, on_commanded=on_commanded)


async def read_back(
    driver: SwitchDriver,
    move: SwitchMoves,
    mode: ApplyMode = ApplyMode.UPDATE,
    *,
    lit: bool = True,
    others: frozenset[str] = frozenset(),
    on_read: Callable[[Collection[Crossconnect]], None] | None = None,
) -> tuple[str, ...]:
    """Compare what the switch reports with what it was asked for; waits while it is tuning.

    Raises FailedError naming every difference, with `lit` also where something new is held dark. Returns a remark for each thing that we did not ask
    for and that is not as it was: crossconnects of others that are gone, and those that were to stay and are held dark. On the ports of `others` they
    are at work at the same time. `on_read` gets what is there, before it is compared.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + TUNED_WITHIN_S
    wanted = frozenset(move.add) | frozenset(move.keep)
    while True:
        states = {reading.crossconnect: reading.state for reading in await driver.read()}
        tuning = [one for one in wanted if states.get(one) is CrossconnectState.TUNING]
        if not tuning or loop.time() >= deadline_s:
            break
        await asyncio.sleep(REREAD_S)
    if on_read is not None:
        on_read(states.keys())
    missing = sorted(wanted - states.keys(), key=Crossconnect.sort_key)
    going = states.keys() if mode is ApplyMode.OVERWRITE else frozenset(move.remove) & states.keys()
    unwanted = going - wanted  # one that had failed is removed and made anew
    differences = [f"{one} is not there" for one in missing]
    differences += [f"{one} is still there" for one in sorted(unwanted, key=Crossconnect.sort_key)]
    differences += [
        f"{one} is still tuning after {TUNED_WITHIN_S:.0f} s" for one in sorted(tuning, key=Crossconnect.sort_key)
    ]
    may_fail = () if lit else move.failed  # what had failed before may do so again
    failed = [one for one in wanted if states.get(one) is CrossconnectState.FAILED and one not in may_fail]
    differences += [f"{one} is reported as failed" for one in sorted(failed, key=Crossconnect.sort_key)]
    blocked = [one for one in move.add if lit and states.get(one) is CrossconnectState.BLOCKED]
    differences += [
        f"{one} is set, and held dark by a shutter or an override (`hwd unblock {move.switch}:{one.a},{one.b}`)"
        for one in blocked
    ]
    if differences:
        raise FailedError(
            f"{move.switch}: it answered, but does not report what was asked for: {'; '.join(differences)}"
        )
    gone = move.after - wanted - states.keys() if mode is not ApplyMode.OVERWRITE else frozenset[Crossconnect]()
    remarks = [
        f"{move.switch}: {one} was there before and is gone; it was not to be touched"
        for one in sorted(gone, key=Crossconnect.sort_key)
        if not uses(move.switch, one, others)
    ]
    remarks += [
        f"{move.switch}: {one} stayed, and is held dark by a shutter or an override"
        for one in move.keep
        if states.get(one) is CrossconnectState.BLOCKED
    ]
    return tuple(remarks)


def way_back(move: SwitchMoves, now: Sequence[CrossconnectReading]) -> SwitchMoves:
    """The moves from what is reported now to what was there before `move`, touching nothing that `move` did not touch.

    What was to stay and is gone was taken by somebody else, who had a reason: it does not hold up the way back, nor does what has failed meanwhile. What
    `move.lasting` names stays: where its elements were before nobody knows.
    """
    there = {reading.crossconnect: reading.state for reading in now}
    had_failed, lasting = frozenset(move.failed), frozenset(move.lasting)
    missing = tuple(
        one
        for one in move.remove
        if one not in lasting
        and (one not in there or (there[one] is CrossconnectState.FAILED and one not in had_failed))
    )
    going = frozenset(move.add) - frozenset(move.before) - lasting | frozenset(missing)
    return SwitchMoves(
        switch=move.switch,
        remove=tuple(one for one in there if one in going),
        add=missing,
        keep=tuple(
            one for one in move.keep if there.get(one, CrossconnectState.FAILED) is not CrossconnectState.FAILED
        ),
        before=tuple(sorted(there, key=Crossconnect.sort_key)),
        failed=move.failed,
    )


def lasting_remarks(moves: Iterable[SwitchMoves]) -> tuple[str, ...]:
    """Of each switch that a way back leaves elsewhere than it was."""
    return tuple(
        f"{move.switch}: {', '.join(map(str, move.lasting))}: what it joined before could not be told, so that it was not brought back"
        for move in moves
        if move.lasting
    )


def gone_remarks(moves: Iterable[SwitchMoves], observed: Observed) -> tuple[str, ...]:
    """Of each switch on which something is not there any more that was to stay: a way back leaves that to whoever took it."""
    remarks: list[str] = []
    for move in moves:
        if (readings := observed.get(move.switch)) is None:
            continue
        states = {reading.crossconnect: reading.state for reading in readings}
        had_failed = frozenset(move.failed)
        gone = [
            str(one)
            for one in move.keep
            if one not in states or (states[one] is CrossconnectState.FAILED and one not in had_failed)
        ]
        if gone:
            remarks.append(f"{move.switch}: {', '.join(gone)}: was to stay and is gone; it was not ours to bring back")
    return tuple(remarks)


def is_untouched(move: SwitchMoves, now: Sequence[CrossconnectReading]) -> bool:
    """Whether all stands as it was before `move`, as far as it is about that."""
    there = {reading.crossconnect for reading in now}
    return there.issuperset(move.remove) and there.isdisjoint(frozenset(move.add) - frozenset(move.before))


def way_on(move: SwitchMoves, now: Sequence[CrossconnectReading]) -> SwitchMoves:
    """The moves from what is reported now to what `move` wanted."""
    there = {reading.crossconnect: reading.state for reading in now}
    wanted = (*move.add, *move.keep)
    missing = tuple(one for one in wanted if there.get(one, CrossconnectState.FAILED) is CrossconnectState.FAILED)
    going = frozenset(move.remove) - frozenset(move.add) | frozenset(missing)
    return SwitchMoves(
        switch=move.switch,
        remove=tuple(one for one in there if one in going),
        add=missing,
        keep=move.keep,
        before=tuple(sorted(there, key=Crossconnect.sort_key)),
    )


async def bring(
    driver: SwitchDriver,
    move: SwitchMoves,
    way: Callable[[SwitchMoves, Sequence[CrossconnectReading]], SwitchMoves],
    *,
    now_ns: Callable[[], int],
    watch: Watch,
) -> None:
    """Read a switch, send it `way` (back or on), and read it back. `now_ns` is the clock of the driver; `watch` is told what the change took from others.

    Whether it was lit before is not known, so that a crossconnect that is held dark is taken for brought.
    Raises what the driver raises, and FailedError where an end is taken by a crossconnect that is not ours, or the read-back differs.
    """
    now = await driver.read()
    read_ns = now_ns()
    moves = way(move, now)
    going = frozenset(moves.remove)
    used = {
        end: reading.crossconnect
        for reading in now
        for end in reading.crossconnect.ends
        if reading.crossconnect not in going
    }
    for one in moves.add:
        for end in one.ends:
            if (other := used.get(end)) is not None:
                raise FailedError(
                    f"{move.switch}: cannot restore {one}: {end} meanwhile carries {other}, which is not ours. Remove it by hand"
                )
    if moves.remove or moves.add:
        watch.changed(moves, await change(driver, moves), read_ns=read_ns)
    await read_back(driver, moves, lit=False, on_read=watch.read_back)


def uses(switch: str, crossconnect: Crossconnect, ports: frozenset[str]) -> bool:
    """Whether a crossconnect has an end on one of the ports, `ocs1.3`."""
    return any(f"{switch}.{end.port}" in ports for end in crossconnect.ends)


def joined(errors: Sequence[BaseException]) -> str:
    """One line for several failures."""
    return "; ".join(
        str(error) if isinstance(error, HwdError) else f"{type(error).__name__}: {error}" for error in errors
    )
