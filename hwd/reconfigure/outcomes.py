"""What became of the last reconfigurations, for who comes too late to confirm one or to roll it back. A `Sink`; an earlier life of the daemon counts too."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import ClassVar

from hwd.reconfigure.reconfiguration import Outcome
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.documents import Document

REMEMBERED = 256
"""Reconfigurations; of older ones the records tell."""
OPEN = "neither confirmed nor rolled back yet"
GIVEN_UP = "given up, with its switches left as they were"
WORDS = {  # of `Outcome`
    Outcome.CONFIRMED.value: "confirmed",
    Outcome.ROLLED_BACK.value: "rolled back",
    Outcome.FAILED.value: OPEN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """The last word on one reconfiguration."""

    what: str
    outcome: str
    why: str
    wall_ns: int


class Outcomes:
    """Of the last `REMEMBERED`, in the order in which they ended."""

    TAKES: ClassVar = ("reconfiguration.ended", "daemon.recovered", "journal.open", "journal.given-up")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ends: dict[str, _End] = {}

    def __call__(self, document: Document) -> None:
        data = document.data
        outcome = {"journal.open": OPEN, "journal.given-up": GIVEN_UP}.get(document.kind, str(data.get("outcome")))
        end = _End(
            what=str(data.get("what") or ""),
            outcome=WORDS.get(outcome, outcome),
            why=str(data["why"]),
            wall_ns=document.wall_ns,
        )
        id = str(data["reconfiguration"])
        before = self._ends.pop(id, None)
        self._ends[id] = replace(end, what=before.what) if before is not None and not end.what else end
        while len(self._ends) > REMEMBERED:
            del self._ends[next(iter(self._ends))]

    def text(self, id: str) -> str | None:
        """`k3v9a1xx (pairs rail=0): rolled back 12 s ago (03:12:05 UTC): not confirmed within 30 s`; None for one that is not known."""
        if (end := self._ends.get(id)) is None:
            return None
        at = datetime.fromtimestamp(end.wall_ns / 1e9, UTC)
        ago = _ago((self._clock.wall_ns() - end.wall_ns) / 1e9)
        named = f"{id} ({end.what})" if end.what else id
        return f"{named}: {end.outcome} {ago} ({at:%H:%M:%S} UTC){f': {end.why}' if end.why else ''}"

    @property
    def last(self) -> str | None:
        """`text` of the one that ended last."""
        return self.text(next(reversed(self._ends))) if self._ends else None


def _ago(seconds: float) -> str:
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s ago"
    return f"{seconds / 60:.0f} min ago" if seconds < 7200 else f"{seconds / 3600:.0f} h ago"
