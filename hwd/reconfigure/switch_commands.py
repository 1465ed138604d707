"""Commands to one switch: change it, read it back, bring it back, and notice what a change took from others.

The caller holds a lease and has journaled the change."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from hwd.model.state import Observed
from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import FailedError, HwdError
from hwd_drivers.core.values import (
    Crossconnect,
    CrossconnectReading,
    CrossconnectState,
    Exchange,
    PortOverride,
    PortSide,
)
from hwd_drivers.switching.moves import ApplyMode, SwitchMoves

log = logging.getLogger(__name__)

COMMAND_WITHIN_S = 10.0
"""For a switch to answer a command: the slowest known matrix needs 0.5 s for a bulk set; its client allows 10 s."""
TUNED_WITHIN_S = 10.0
"""For reported crossconnects to leave `tuning`."""
REREAD_S = 0.02
"""Between two reads of a switch that is tuning."""


class SwitchDriver(Protocol):
    """A supervised switch; every call raises LinkError while it cannot be reached."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrun:
    """What another client made on a switch between our last read and our write, and our write took away.

    `lost`: its crossconnects. `window_s`: from the end of our last read to the first byte of the change.

    No switch that moves ports in use can prevent it. A driver whose protocol can sends `read; change` in one write
    (`Exchange.before`), so that it is known afterwards what was lost; with other drivers it stays unknown.
    """

    switch: str
    lost: tuple[Crossconnect, ...]
    window_s: float

    def __str__(self) -> str:
        lost = ",".join(map(str, self.lost))
        return (
            f"{self.switch}: overrun: {lost} of another client came in the {self.window_s * 1e3:.1f} ms "
            "between our read and our write, and is lost to it. "
            f"Tell its owner; `hwd apply {self.switch}:{lost}` makes it anew once its ends are free"
        )

    def to_data(self) -> dict[str, Json]:
        return {"switch": self.switch, "lost": [*map(str, self.lost)], "window_s": self.window_s}


class OverrunWatch:
    """Watches one change of one switch, and calls `on_overrun` at most once. Close it after the last read."""

    def __init__(self, switch: str, on_overrun: Callable[[Overrun], None]) -> None:
        self.lost: tuple[Crossconnect, ...] = ()
        self._switch = switch
        self._on_overrun = on_overrun
        self._taken: tuple[Crossconnect, ...] = ()
        self._window_s = 0.0

    def changed(self, move: SwitchMoves, exchange: Exchange, *, read_ns: int) -> None:
        """`read_ns`: the end of the read on which `move` is based."""
        self._taken = taken_crossconnects(move, exchange)
        self._window_s = (exchange.commanded_ns - read_ns) / 1e9

    def read_back(self, there: Collection[Crossconnect]) -> None:
        """Crossconnects that were taken and are not there are lost."""
        self._tell(tuple(one for one in self._taken if one not in there))

    def close(self) -> None:
        """Crossconnects that were taken and never read back count as lost."""
        self._tell(self._taken)

    def _tell(self, lost: tuple[Crossconnect, ...]) -> None:
        self._taken = ()
        if lost:
            self.lost = lost
            self._on_overrun(Overrun(switch=self._switch, lost=lost, window_s=self._window_s))


async def change(
    driver: SwitchDriver, move: SwitchMoves, on_commanded: Callable[[int], None] | None = None
) -> Exchange:
    """Send one switch its moves. The answer is no proof; see `read_back`."""
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

    Raises FailedError naming every difference, with `lit` also where a new crossconnect is held dark. Returns a remark
    for each crossconnect of others that is gone, and for each one to keep that is held dark. On the ports of `others`
    changes are not remarked. `on_read` gets the crossconnects before they are compared.
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
    to_remove = states.keys() if mode is ApplyMode.OVERWRITE else frozenset(move.remove) & states.keys()
    unwanted = to_remove - wanted  # one that had failed is removed and made again
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
        before=tuple(sorted(there, key=Crossconnect.sort_key)),
        failed=move.failed,
    )


def lasting_remarks(moves: Iterable[SwitchMoves]) -> tuple[str, ...]:
    """Remarks on each switch that a way back does not bring to its earlier state."""
    return tuple(
        f"{move.switch}: {', '.join(map(str, move.lasting))}: what it joined before could not be told, "
        "so that it was not brought back"
        for move in moves
        if move.lasting
    )


def gone_remarks(moves: Iterable[SwitchMoves], observed: Observed) -> tuple[str, ...]:
    """Remarks on each switch that lost a crossconnect to keep: a way back leaves that to whoever took it."""
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
    """Whether a switch is as it was before `move`, at the crossconnects of `move`."""
    there = {reading.crossconnect for reading in now}
    return there.issuperset(move.remove) and there.isdisjoint(frozenset(move.add) - frozenset(move.before))


async def bring(
    driver: SwitchDriver,
    move: SwitchMoves,
    way: Callable[[SwitchMoves, Sequence[CrossconnectReading]], SwitchMoves],
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
                    f"{move.switch}: cannot restore {one}: {end} meanwhile carries {other}, which is not ours. "
                    "Remove it by hand"
                )
    if not moves.is_empty:
        watch.changed(moves, await change(driver, moves), read_ns=read_ns)
    await read_back(driver, moves, lit=False, on_read=watch.read_back)


def uses(switch: str, crossconnect: Crossconnect, ports: frozenset[str]) -> bool:
    """Whether a crossconnect has an end on one of the ports, `ocs1.3`."""
    return any(f"{switch}.{end.port}" in ports for end in crossconnect.ends)


def join_errors(errors: Sequence[BaseException]) -> str:
    """One line for several failures."""
    return "; ".join(
        str(error) if isinstance(error, HwdError) else f"{type(error).__name__}: {error}" for error in errors
    )


def taken_crossconnects(move: SwitchMoves, exchange: Exchange) -> tuple[Crossconnect, ...]:
    """Crossconnects at the ends of `move` when the switch took it that were neither planned for nor wanted.

    Other changes of ours are never among them: no two reconfigurations of ours have a port in common.
    """
    ends = {end for one in (*move.remove, *move.add) for end in one.ends}
    known = {*move.before, *move.add}
    return tuple(one for one in exchange.before or () if one not in known and not ends.isdisjoint(one.ends))


def unknown_overrun(switch: str, window_s: float) -> str:
    """The remark on a change that was sent and failed, so that its overrun is unknown."""
    return (
        f"{switch}: its change went out {window_s * 1e3:.1f} ms after our read, moved something and failed: "
        "whether it took what another client made in between is not known"
    )


def overrun_report(
    tell: Callable[..., None], reconfiguration: str, remarks: list[str] | None = None
) -> Callable[[Overrun], None]:
    """A function that reports an overrun as a document of `reconfiguration`, in the log and in its `remarks`."""

    def report(overrun: Overrun) -> None:
        log.warning("%s: %s", reconfiguration, overrun)
        if remarks is not None:
            remarks.append(str(overrun))
        tell("switch.overrun", reconfiguration=reconfiguration, **overrun.to_data())

    return report
