"""The safe state of a run: where it left the switches, by the outcome of the last apply of each branch, or of what its
jobs moved after that.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from hwd.playbook.lane import Lane
from hwd.playbook.light_of_jobs import JobMove, LightOfJobs
from hwd.reconfigure.apply.reconfiguration import Outcome, Reconfiguration


class SafeState(StrEnum):
    """Where the switches are when a run has ended."""

    UNTOUCHED = "untouched"
    """The run applied nothing and its jobs moved no light, or it never began: it drove no switch."""
    AS_APPLIED = "as-applied"
    """The state of the last confirm, be it of an apply or of a job's light. The reason of the end names switches that
    could not be read at the end.
    """
    BEFORE_APPLY = "before-apply"
    """The state read before the last apply, or the last move of a job's light, and read back; with parallel branches,
    before the last one of each.
    """
    MIXED = "mixed"
    """Some parallel branches or jobs are as applied, and some as before their last apply; the reason of the end names
    them.
    """
    UNKNOWN = "unknown"
    """A switch could not be brought back; the journal holds it open and the daemon brings it back when it answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SafeStates:
    """The safe state of the whole run, and of each branch or job that moved anything."""

    state: SafeState
    by_branch: Mapping[str, SafeState]

    def __str__(self) -> str:
        """`left as-applied, right before-apply, job k3v9m2p0 as-applied`."""
        return ", ".join(f"{branch} {state}" for branch, state in self.by_branch.items())


def left_by(lanes: Sequence[Lane], last: Mapping[str, Reconfiguration], light: LightOfJobs) -> SafeStates:
    """`lanes`: those open at the end, the run's own first. `last`: the last reconfiguration of each, by its name.
    `light`: that of their jobs.
    """

    def moved_since(lane: Lane) -> list[JobMove]:
        """The moves of a lane by its jobs, after its last apply."""
        applied = last.get(lane.name)
        return [move for move in light.last_moves(lane.jobs) if applied is None or move.began_ns > applied.started_ns]

    def state_of(lane: Lane) -> SafeState | None:
        """The state that a lane left; None where nothing of it moved."""
        if inner := [state for one in lanes if one.outer is lane and (state := state_of(one)) is not None]:
            return _together(inner)
        if moves := moved_since(lane):
            return _together([_state_after(move.outcome) for move in moves])
        if (applied := last.get(lane.name)) is not None:
            return _state_after(applied.outcome)
        return SafeState.AS_APPLIED if lane.has_applied else None

    def branches() -> Iterator[tuple[str, SafeState]]:
        for lane in lanes:
            is_innermost = not any(one.outer is lane for one in lanes)
            if not is_innermost or (state := state_of(lane)) is None:
                continue
            moves = moved_since(lane)
            for job in dict.fromkeys(move.job for move in moves):
                yield f"job {job}", _together([_state_after(move.outcome) for move in moves if move.job == job])
            if not moves:
                yield lane.name, state

    return SafeStates(state=(lanes and state_of(lanes[0])) or SafeState.UNTOUCHED, by_branch=dict(branches()))


def _state_after(outcome: str | None) -> SafeState:
    match outcome:
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
