"""The safe state of a run: where it left the switches, by the outcome of the last apply of each branch."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from hwd.playbook.lane import Lane
from hwd.reconfigure.apply.reconfiguration import Outcome, Reconfiguration


class SafeState(StrEnum):
    """Where the switches are when a run has ended."""

    UNTOUCHED = "untouched"
    """The run applied nothing, or never began: it drove no switch."""
    AS_APPLIED = "as-applied"
    """The state of the last confirm. The reason of the end names switches that could not be read at the end."""
    BEFORE_APPLY = "before-apply"
    """The state read before the last apply, and read back; with parallel branches, before the last apply of each."""
    MIXED = "mixed"
    """Some parallel branches are as applied, and some as before their last apply; the reason of the end names them."""
    UNKNOWN = "unknown"
    """A switch could not be brought back; the journal holds it open and the daemon brings it back when it answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """The safe state of the whole run, and of each branch that applied anything."""

    state: SafeState
    by_branch: Mapping[str, SafeState]

    def __str__(self) -> str:
        """`left as-applied, right before-apply`."""
        return ", ".join(f"{branch} {state}" for branch, state in self.by_branch.items())


def left_by(lanes: Sequence[Lane], last: Mapping[str, Reconfiguration]) -> Left:
    """`lanes`: those open at the end, the run's own first. `last`: the last reconfiguration of each, by its name."""

    def state_of(lane: Lane) -> SafeState | None:
        """None where it applied nothing."""
        if inner := [state for one in lanes if one.outer is lane and (state := state_of(one)) is not None]:
            return _together(inner)
        if (applied := last.get(lane.name)) is not None:
            return _state_after(applied)
        return SafeState.AS_APPLIED if lane.has_applied else None

    def branches() -> Iterator[tuple[str, SafeState]]:
        for lane in lanes:
            is_innermost = not any(one.outer is lane for one in lanes)
            if is_innermost and (state := state_of(lane)) is not None:
                yield lane.name, state

    return Left(state=(lanes and state_of(lanes[0])) or SafeState.UNTOUCHED, by_branch=dict(branches()))


def _state_after(applied: Reconfiguration) -> SafeState:
    match applied.outcome:
        case Outcome.CONFIRMED:
            return SafeState.AS_APPLIED
        case Outcome.ROLLED_BACK:
            return SafeState.BEFORE_APPLY
        case _:
            return SafeState.UNKNOWN


def _together(states: Sequence[SafeState]) -> SafeState:
    if SafeState.UNKNOWN in states:
        return SafeState.UNKNOWN
    return states[0] if len({*states}) == 1 else SafeState.MIXED
