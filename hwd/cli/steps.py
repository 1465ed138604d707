"""What `hwd show` says of a run's way: its steps, those that repeat folded together, and where the switches were left."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

from hwd_drivers.core.documents import Document

NOT_ENDED = "not ended"
"""A step in which the run ended: nothing tells how far it came."""
LONGEST_ROUND = 12
"""Steps that repeat together; longer rounds are written out."""
FOLDED_FROM = 3
"""Rounds; two are as well written out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step as its run left it. `state`: started, done, failed, or `NOT_ENDED`."""

    number: int
    what: str
    state: str


def steps_of(documents: Iterable[Document], *, ended: bool) -> list[Step]:
    """In the order in which they began. `ended`: the run has, so that no step goes on."""
    found: dict[int, Step] = {}
    for document in documents:
        if document.kind == "run.step":
            data: dict[str, Any] = dict(document.data)
            state = NOT_ENDED if ended and data["state"] == "started" else str(data["state"])
            found[data["step"]] = Step(number=data["step"], what=data["what"], state=state)
    return list(found.values())


def folded(steps: Sequence[Step]) -> list[tuple[str, str, str, str]]:
    """Rows of number, what, state and how often; of rounds that repeat, each step once."""
    rows: list[tuple[str, str, str, str]] = []
    at = 0
    while at < len(steps):
        length, rounds = _rounds(steps, at)
        span = f"{steps[at].number} to {steps[at + length * rounds - 1].number}"
        for step in steps[at : at + length]:
            if rounds == 1:
                rows.append((str(step.number), step.what, step.state, ""))
            else:
                rows.append((span, step.what, step.state, f"{rounds} times"))
        at += length * rounds
    return rows


def switches_left(safe_state: str | None, documents: Iterable[Document]) -> str:
    """Where the switches were at the end of a run; where that was not known, what the journal made of it afterwards. Empty while it goes on."""
    if not safe_state:
        return ""
    if safe_state != "unknown":  # or it was, and is known since
        documents = [*documents]
        ended = next((at for at, one in enumerate(documents) if one.kind == "run.ended"), len(documents))
        documents = documents[ended:]
    left: dict[str, str] = {}
    back: Document | None = None
    given_up: list[str] = []
    for document in documents:
        match document.kind:
            case "journal.open":
                left[str(document.data["reconfiguration"])] = str(document.data["why"])
            case "daemon.recovered":
                left.pop(str(document.data["reconfiguration"]), None)
                back = document
            case "journal.given-up":
                left.pop(str(document.data["reconfiguration"]), None)
                given_up += cast(Sequence[str], document.data["left"])
    if left:
        return f"unknown at its end; not brought back yet: {'; '.join(left.values())}"
    if given_up:
        return f"unknown at its end; given up, and left as they were: {'; '.join(given_up)}"
    if back is None:
        return safe_state
    way = "brought back" if back.data["outcome"] == "rolled-back" else "brought on"
    return f"unknown at its end; {way} at {datetime.fromtimestamp(back.wall_ns / 1e9, UTC).astimezone():%H:%M:%S}"


def _rounds(steps: Sequence[Step], at: int) -> tuple[int, int]:
    """Length and number of the rounds from here on that take in the most steps; (1, 1) where none repeat often enough."""
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
