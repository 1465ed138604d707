"""Remarks of a reconfiguration: findings at its switches that are no failures."""

import logging
from collections.abc import Callable, Iterable, Mapping

from hwd.model.circuit import Observed
from hwd.model.switch import SwitchOverrun
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.values import Crossconnect, CrossconnectState
from hwd_drivers.switching.moves import ApplyMode, SwitchMoves
from hwd_drivers.switching.overrun import Overrun

log = logging.getLogger(__name__)


def read_back_remarks(
    moves: SwitchMoves,
    states: Mapping[Crossconnect, CrossconnectState],
    mode: ApplyMode,
    *,
    others: frozenset[str] = frozenset(),
) -> tuple[str, ...]:
    """Remarks on crossconnects of others that are gone, and on those to keep that are held dark.

    On the ports of `others` changes are not remarked.
    """
    wanted = frozenset(moves.add).union(moves.keep)
    gone = moves.after - wanted - states.keys() if mode is not ApplyMode.OVERWRITE else frozenset[Crossconnect]()
    remarks = [
        f"{moves.switch}: {one} was there before and is gone; it was not to be touched"
        for one in sorted(gone, key=Crossconnect.sort_key)
        if not uses(moves.switch, one, others)
    ]
    remarks += [
        f"{moves.switch}: {one} stayed, and is held dark by a shutter or an override"
        for one in moves.keep
        if states.get(one) is CrossconnectState.BLOCKED
    ]
    return tuple(remarks)


def lasting_remarks(moves: Iterable[SwitchMoves]) -> tuple[str, ...]:
    """Remarks on each switch that a way back does not bring to its earlier state."""
    return tuple(
        f"{move.switch}: {', '.join(move.lasting)}: what it joined before could not be told, "
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
            one
            for one in move.keep
            if one not in states or (states[one] is CrossconnectState.FAILED and one not in had_failed)
        ]
        if gone:
            remarks.append(f"{move.switch}: {', '.join(gone)}: was to stay and is gone; it was not ours to bring back")
    return tuple(remarks)


def uses(switch: str, crossconnect: Crossconnect, ports: frozenset[str]) -> bool:
    """Whether a crossconnect has an end on one of the ports, `ocs1.3`."""
    return any(f"{switch}.{end.port}" in ports for end in crossconnect.ends)


def unknown_overrun(switch: str, window_s: float) -> str:
    """The remark on a change that was sent and failed, so that its overrun is unknown."""
    return (
        f"{switch}: its change went out {window_s * 1e3:.1f} ms after our read, moved something and failed: "
        "whether it took what another client made in between is not known"
    )


def overrun_report(emit: Emitter, reconfiguration: str, remarks: list[str] | None = None) -> Callable[[Overrun], None]:
    """A function that reports an overrun as a document of `reconfiguration`, in the log and in its `remarks`."""

    def report(overrun: Overrun) -> None:
        log.warning("%s: %s", reconfiguration, overrun)
        if remarks is not None:
            remarks.append(str(overrun))
        emit(
            SwitchOverrun(
                switch=overrun.switch,
                reconfiguration=reconfiguration,
                lost=[*overrun.lost],
                window_s=overrun.window_s,
            )
        )

    return report
