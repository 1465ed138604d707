"""Reconfigurations in the answers of the API."""

from typing import Literal

from msgspec import UNSET, UnsetType, field
from typing_extensions import override

from hwd.model.answers.answer import Answer
from hwd.model.documents.plans import PlanSummary
from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.plural import plural


class ReconfigurationStatus(Answer, frozen=True, kw_only=True):
    """A reconfiguration: its outcome, or its progress.

    `outcome` is None while it is under way or awaits a confirm. `not_ready`: links that were not measured ready within
    the time allowed. `confirm_in_s`: seconds until it is rolled back, where it awaits a confirm; that goes on over a
    restart of the daemon. `applied` is `plan` in the JSON, only of an answer to an apply. `remarks`: findings that are
    no failures. `stale`: crossconnects that its switches carry, `ocs1:1A-2B`, though something else is desired of one
    of their ends; `unasked`: those that nobody ever asked for; both are known when it is confirmed.
    """

    reconfiguration: str
    run: str | None
    what: str
    hash: str
    lease: str | None
    state: str
    outcome: str | None
    why: str
    confirm_in_s: float | None
    links: list[Link]
    not_ready: list[Link]
    remarks: list[str] = field(default_factory=list)
    stale: list[SwitchCrossconnect] = field(default_factory=list)
    unasked: list[SwitchCrossconnect] = field(default_factory=list)
    applied: PlanSummary | UnsetType = field(name="plan", default=UNSET)

    @property
    def id(self) -> str:
        return self.reconfiguration

    @property
    def plan(self) -> PlanSummary | None:
        """What was applied; None where the answer is not that of an apply."""
        return None if self.applied is UNSET else self.applied

    @override
    def __str__(self) -> str:
        why = f": {self.why}" if self.why else ""
        return f"{self.id} ({self.what}) {self.outcome or self.state}{why}, {plural(len(self.links), 'link')}"


class LeftOpen(Answer, frozen=True, kw_only=True):
    """A reconfiguration that a crash or a failure cut off, and that is not undone yet.

    `why`: the obstacle; `tried_wall_ns`: the end of the last try, None before the first. `ports` are held until it is
    closed. `goes`: forward where the rule of a prepared set says so; nowhere where a damaged journal does not tell
    whether it had ended, and an operator has to decide.
    """

    reconfiguration: str
    run: str | None
    what: str
    why: str
    tried_wall_ns: int | None
    goes: Literal["back", "forward", "nowhere"]
    ports: list[str]

    @property
    def id(self) -> str:
        return self.reconfiguration

    @property
    def is_held(self) -> bool:
        return self.goes == "nowhere"

    @override
    def __str__(self) -> str:
        return f"{self.id} ({self.what}) left open: {self.why}, {plural(len(self.ports), 'port')} held"
