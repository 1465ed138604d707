"""The steps of a run for `hwd show`, with repeated rounds folded, the reason of a pause, and the final
state of the switches.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hwd.model.daemon import DaemonRecovered, JournalGivenUp, JournalOpen
from hwd.model.local_time import time_of_day
from hwd.model.plural import plural
from hwd.model.run_facts import RunEnded, RunStep
from hwd_drivers.core.documents import Document

NOT_ENDED = "not ended"
"""The step in which the run ended: its progress is unknown."""
LONGEST_ROUND = 12
"""Steps that repeat together; longer rounds are written out."""
FOLDED_FROM = 3
"""Rounds; two are written out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step in its final state. `state`: started, done, failed, or `NOT_ENDED`."""

    number: int
    what: str
    state: str


def steps_of(documents: Iterable[Document], *, ended: bool) -> list[Step]:
    """The steps of a run in the order in which they began. `ended`: whether the run has ended, so that no step is under
    way.
    """
    found: dict[int, Step] = {}
    for document in documents:
        match document.fact:
            case RunStep(step=number, what=what, state=state):
                now = NOT_ENDED if ended and state == "started" else state
                found[number] = Step(number=number, what=what, state=now)
    return list(found.values())


def folded(steps: Sequence[Step]) -> list[tuple[str, str, str, str]]:
    """Rows of number, step, state and count; of rounds that repeat, each step once."""
    rows: list[tuple[str, str, str, str]] = []
    at = 0
    while at < len(steps):
        length, rounds = _rounds(steps, at)
        span = f"{steps[at].number} to {steps[at + length * rounds - 1].number}"
        for step in steps[at : at + length]:
            if rounds == 1:
                rows.append((str(step.number), step.what, step.state, ""))
            else:
                rows.append((span, step.what, step.state, plural(rounds, "time")))
        at += length * rounds
    return rows


def switches_left(safe_state: str | None, documents: Iterable[Document]) -> str:
    """The state of the switches at the end of a run; where it was unknown then, what the journal did later. Empty while
    it is under way.
    """
    if not safe_state:
        return ""
    if safe_state != "unknown":  # or it was unknown, and is known now
        documents = [*documents]
        ended = next((at for at, one in enumerate(documents) if isinstance(one.fact, RunEnded)), len(documents))
        documents = documents[ended:]
    left: dict[str, str] = {}
    back = ""
    given_up: list[str] = []
    for document in documents:
        match document.fact:
            case JournalOpen(reconfiguration=id, why=why):
                left[id] = why
            case DaemonRecovered(outcome="crashed"):
                pass
            case DaemonRecovered(reconfiguration=id, outcome=outcome):
                left.pop(id, None)
                way = "brought back" if outcome == "rolled-back" else "brought on"
                back = f"{way} at {time_of_day(document.wall_ns)}"
            case JournalGivenUp(reconfiguration=id, left=as_they_were):
                left.pop(id, None)
                given_up += as_they_were
    if left:
        return f"unknown at its end; not restored yet: {'; '.join(left.values())}"
    if given_up:
        return f"unknown at its end; given up, and left as they were: {'; '.join(given_up)}"
    return f"unknown at its end; {back}" if back else safe_state


def _rounds(steps: Sequence[Step], at: int) -> tuple[int, int]:
    """Length and number of the rounds from here on that cover the most steps; (1, 1) where none repeat often enough."""
    best = (1, 1)
    for length in range(1, LONGEST_ROUND + 1):
        rounds = 1
        while _alike(steps, at, at + rounds * length, length):
            rounds += 1
        if rounds >= FOLDED_FROM and length * rounds > best[0] * best[1]:
            best = length, rounds
    return best


def _alike(steps: Sequence[Step], one: int, other: int, length: int) -> bool:
    if other + length > len(steps):
        return False
    return all(
        (steps[one + index].what, steps[one + index].state) == (steps[other + index].what, steps[other + index].state)
        for index in range(length)
    )


def pause_reason(run: str, state: str, *, waits_for: Sequence[str], by: str | None) -> str:
    """Why a run is not running: it waits, or somebody paused it; empty where it runs or has ended."""
    if state == "queued":
        return f"waits for {', '.join(waits_for)}" if waits_for else "waits"
    if state == "paused":
        return f"paused by {by}; hwd resume {run}"
    return ""
