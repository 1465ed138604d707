"""way_back, way_on: from any point on the way of some moves to what was there before them, or to their end."""

from collections.abc import Callable, Sequence

from hwd_drivers.core.errors import FailedError
from hwd_drivers.core.values import CrossconnectReading, CrossconnectState
from hwd_drivers.switching.drive import SwitchDriver, change
from hwd_drivers.switching.moves import SwitchMoves
from hwd_drivers.switching.overrun import OverrunWatch
from hwd_drivers.switching.read_back import read_back

Way = Callable[[SwitchMoves, Sequence[CrossconnectReading]], SwitchMoves]
"""From some moves and the readings now to the moves that lead back, or on."""


def way_back(move: SwitchMoves, now: Sequence[CrossconnectReading]) -> SwitchMoves:
    """The moves from the readings now to what was there before `move`; they touch nothing else.

    A crossconnect to keep that is gone or failed does not stop the way back: somebody else took it. Those in
    `move.lasting` stay, since the earlier state of their elements is unknown.
    """
    there = {reading.crossconnect: reading.state for reading in now}
    had_failed, lasting = frozenset(move.failed), frozenset(move.lasting)
    missing = tuple(
        one
        for one in move.remove
        if one not in lasting
        and (one not in there or (there[one] is CrossconnectState.FAILED and one not in had_failed))
    )
    to_remove = frozenset(move.add) - frozenset(move.before) - lasting | frozenset(missing)
    return SwitchMoves(
        switch=move.switch,
        remove=tuple(one for one in there if one in to_remove),
        add=missing,
        keep=tuple(
            one for one in move.keep if there.get(one, CrossconnectState.FAILED) is not CrossconnectState.FAILED
        ),
        before=tuple(there),
        failed=move.failed,
    )


def way_on(move: SwitchMoves, now: Sequence[CrossconnectReading]) -> SwitchMoves:
    """The moves from the readings now to what `move` leads to; they touch nothing else."""
    there = {reading.crossconnect: reading.state for reading in now}
    missing = tuple(
        one for one in (*move.add, *move.keep) if there.get(one, CrossconnectState.FAILED) is CrossconnectState.FAILED
    )
    to_remove = (frozenset(move.remove) - frozenset(move.add)) | frozenset(missing)
    return SwitchMoves(
        switch=move.switch,
        remove=tuple(one for one in there if one in to_remove),
        add=missing,
        keep=tuple(one for one in (*move.add, *move.keep) if one not in missing),
        before=tuple(there),
    )


def is_untouched(move: SwitchMoves, now: Sequence[CrossconnectReading]) -> bool:
    """Whether a switch is as it was before `move`, at the crossconnects of `move`."""
    there = {reading.crossconnect for reading in now}
    return there.issuperset(move.remove) and there.isdisjoint(frozenset(move.add) - frozenset(move.before))


async def bring_back(
    driver: SwitchDriver,
    move: SwitchMoves,
    way: Way,
    *,
    now_ns: Callable[[], int],
    watch: OverrunWatch,
) -> None:
    """Read a switch, send it the moves of `way`, and read it back. `now_ns` is the clock of the driver.

    A crossconnect that is held dark counts as brought, since it may have been dark before. Raises what the driver
    raises, and FailedError where a crossconnect of somebody else has an end, or the read-back differs.
    """
    now = await driver.read()
    read_ns = now_ns()
    moves = way(move, now)
    if moves.add:
        _check_free(moves, now)
    if not moves.is_empty:
        watch.changed(moves, await change(driver, moves), read_ns=read_ns)
    await read_back(
        driver, moves, allowed=[CrossconnectState.BLOCKED], may_fail=moves.failed, on_settled=watch.read_back
    )


def _check_free(moves: SwitchMoves, now: Sequence[CrossconnectReading]) -> None:
    """Raise FailedError where a crossconnect that is not among `moves` has an end that they need."""
    to_remove = frozenset(moves.remove)
    used = {
        end: reading.crossconnect
        for reading in now
        for end in reading.crossconnect.ends
        if reading.crossconnect not in to_remove
    }
    for one in moves.add:
        for end in one.ends:
            if (other := used.get(end)) is not None:
                raise FailedError(
                    f"{moves.switch}: cannot restore {one}: {end} meanwhile carries {other}, which is not ours. "
                    "Remove it by hand"
                )
