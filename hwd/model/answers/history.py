"""The history of reconfigurations in the answers of the API."""

from datetime import UTC, datetime

from msgspec import field
from typing_extensions import override

from hwd.model.answers.answer import Answer
from hwd.model.documents.reconfigurations import StartedMove
from hwd.model.link import Link


class HistoryEntry(Answer, frozen=True, kw_only=True):
    """One reconfiguration, or with `reconfiguration` None what was found at a switch and adopted as desired, a reload
    of the testbed file, the place from which on only those of runs are left, as older ones were deleted, or the place
    up to which the records have all, while they take no more.

    `by`: who asked for it; empty where nobody said. `verified`: by a token of that name; else it is what the command
    line or a client stated, which nobody has checked. `run`: the run that it belongs to. `host`: the host that set its
    own switches. `lease`, `holder`: those that it acted under. `outcome`: confirmed, rolled-back, failed, given-up,
    adopted, reloaded, deleted or unrecorded; None where no end is known: it is under way, in `state`, or was cut off
    and is open. `ended_wall_ns`: when that was. `prepared_set`, `target`: of one that brought a prepared set to a
    target. `override_of`: whose right was overridden for it, and why.
    """

    reconfiguration: str | None
    wall_ns: int
    what: str
    by: str = ""
    verified: bool = False
    run: str | None = None
    host: str | None = None
    lease: str | None = None
    holder: str | None = None
    outcome: str | None = None
    state: str | None = None
    why: str = ""
    ended_wall_ns: int | None = None
    moves: list[StartedMove] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    prepared_set: str | None = None
    target: str | None = None
    override_of: str = ""

    @property
    def id(self) -> str | None:
        return self.reconfiguration

    @property
    def who(self) -> str:
        """`ada`, `ada@lab (unverified)`, `run k3v9`, `host h0`: whoever is known to have asked for it."""
        named = f"{self.by}{'' if self.verified else ' (unverified)'}" if self.by else ""
        under = f"run {self.run}" if self.run else f"host {self.host}" if self.host else ""
        who = ", ".join(filter(None, (under, named))) or (f"lease of {self.holder}" if self.holder else "not stated")
        return f"{who}, by override of {self.override_of}" if self.override_of else who

    @property
    def outcome_or_state(self) -> str:
        """`confirmed`, `awaiting-confirm`, `open`: how it ended, else where it is."""
        return self.outcome or self.state or "open"

    @override
    def __str__(self) -> str:
        at = datetime.fromtimestamp(self.wall_ns / 1e9, UTC)
        why = f": {self.why}" if self.why else ""
        return f"{at:%Y-%m-%d %H:%M:%S} UTC {self.id or '-'} ({self.what}) by {self.who}: {self.outcome_or_state}{why}"
