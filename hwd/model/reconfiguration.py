"""Reconfigurations: documents, what callers see of those under way, and the history of those that ended."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, ClassVar, Literal, Self

import msgspec
from msgspec import UNSET, UnsetType, field
from typing_extensions import override

from hwd.model.api_value import ApiValue
from hwd.model.daemon import DaemonRecovered, JournalGivenUp
from hwd.model.hang import Hang
from hwd.model.interlock import Interlock
from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.plan_summary import PlanSummary
from hwd.model.plural import plural
from hwd.model.prediction import PlanPrediction
from hwd_drivers.core.documents import Fact
from hwd_drivers.core.values import Crossconnect, PortSide, natural_key


class ReconfigurationFact(Fact, frozen=True, kw_only=True):
    """A fact of one reconfiguration; `reconfiguration` is its id."""

    reconfiguration: str


class StartedLink(msgspec.Struct, frozen=True, kw_only=True):
    """A link that is wanted. `kept`: none of its crossconnects moves. `crossconnects`: `ocs1:1A-2B`. `step`: the one
    that makes it, from 1 on, where the plan has steps.
    """

    link: Link
    kept: bool
    switches: list[str] | UnsetType = UNSET
    crossconnects: list[SwitchCrossconnect] | UnsetType = UNSET
    step: int | UnsetType = UNSET

    @classmethod
    def of(cls, link: Link, crossconnects: Iterable[SwitchCrossconnect], *, kept: bool) -> Self:
        used = sorted(crossconnects, key=natural_key)
        switches = sorted({one.switch for one in used}, key=natural_key)
        return cls(link=link, kept=kept, switches=switches, crossconnects=used)


class StartedMove(msgspec.Struct, frozen=True, kw_only=True):
    """The moves of one switch: crossconnects such as `1A-2B`. `lasting`: those whose earlier state it does not say."""

    switch: str
    remove: list[Crossconnect]
    add: list[Crossconnect]
    lasting: list[Crossconnect] | UnsetType = UNSET


class WantedSwitch(msgspec.Struct, frozen=True, kw_only=True):
    """The wanted state of one switch: crossconnects such as `1A-2B`, and fibre ends that shall have none."""

    switch: str
    crossconnects: list[Crossconnect]
    free: list[PortSide]


class ReconfigurationStarted(ReconfigurationFact, frozen=True, kw_only=True):
    """The first command is next.

    `sweep`: {variable: value} of its run; `settings`: {NIC port: {setting: value}} that runs have in force. `lease`:
    the one under which it was asked for, None without one; `holder` and `lease_epoch`: of that lease. `overridden`:
    interlocks that somebody overrode, with the reason. `by`: who asked for it; `verified`: by a token of that name,
    else it is what the caller stated. `dark_at_once`: of a plan with steps, the most links dark in one of them.
    `prepared_set`, `target`: of one that brings a prepared set to a target. `override_of`: whose right the caller
    overrode for it, and why: `job k3v9a1xx (train): WHY`.
    `from_journal`: see `reconfiguration.ended`.
    """

    KIND: ClassVar = "reconfiguration.started"
    run: str | None
    hash: str
    what: str
    sweep: dict[str, Any] = msgspec.field(default_factory=dict)
    settings: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    links: list[StartedLink]
    moves: list[StartedMove]
    lease: str | UnsetType | None = UNSET
    lease_epoch: int | UnsetType = UNSET
    holder: str | UnsetType = UNSET
    overridden: list[Interlock] | UnsetType = UNSET
    by: str | UnsetType = UNSET
    verified: bool | UnsetType = UNSET
    prepared_set: str | UnsetType = UNSET
    target: str | UnsetType = UNSET
    override_of: str | UnsetType = UNSET
    source: str | UnsetType = UNSET
    host: str | UnsetType = UNSET
    epochs: dict[str, int] | UnsetType = UNSET
    dark_at_once: int | UnsetType = UNSET
    from_journal: bool | UnsetType = UNSET


class ReconfigurationCommanded(ReconfigurationFact, frozen=True, kw_only=True):
    """One switch was commanded.

    `window_s`: from the end of our last read to the first byte; None for a host's own switch. `asked_s`: from the call
    to the first byte, of a prepared set alone: a read that goes before the change is in it. `error_ns`: of the host's
    clock. `source`: `host h0` where that drove it. `step`: of the plan, where that has steps; `made` and `removed` are
    then its crossconnects.
    """

    KIND: ClassVar = "reconfiguration.commanded"
    switch: str
    commanded_ns: int | None
    acknowledged_ns: int | None
    commands: int
    window_s: float | None = None
    asked_s: float | UnsetType = UNSET
    error_ns: int | UnsetType = UNSET
    source: str | UnsetType = UNSET
    step: int | UnsetType = UNSET
    made: int | UnsetType = UNSET
    removed: int | UnsetType = UNSET


class ReconfigurationStep(ReconfigurationFact, frozen=True, kw_only=True):
    """A step of a plan with steps. `state`: begun, or done once it was read back and, where asked for, is ready.

    `made`: the wanted links that it makes; `dark`: links that are dark meanwhile.
    """

    KIND: ClassVar = "reconfiguration.step"
    step: int
    steps: int
    state: str
    made: list[Link]
    dark: list[Link]


class ReconfigurationState(ReconfigurationFact, frozen=True, kw_only=True):
    """The reconfiguration is in this `state`: journaled, driving, read-back, driven, waiting, awaiting-confirm,
    confirming, rolling-back.

    `awaiting-confirm` comes again at each start of the daemon that goes on waiting.
    """

    KIND: ClassVar = "reconfiguration.state"
    state: str


class ReconfigurationEnded(ReconfigurationFact, frozen=True, kw_only=True):
    """The reconfiguration has ended, with the `outcome` confirmed, rolled-back or failed. `hangs`: where its links hung
    when the wait for them ended.

    `wanted`: the desired state from here on, of the fibre ends that it names; only of a confirmed one. `stale`:
    crossconnects of its switches, `ocs1:1A-2B`, at an end of which something else is desired; `unasked`: those that
    nobody ever asked for. `prediction`: of its time, with what it was. `from_journal`: an earlier process of the daemon
    died before its records had this. The next one tells it, with the time of the journal's entry; `at_ns` is made of
    that, a long `why` may be cut, and there is no `prediction`.
    """

    KIND: ClassVar = "reconfiguration.ended"
    run: str | None
    what: str | UnsetType = UNSET
    outcome: str
    why: str
    seconds: float
    remarks: list[str] | UnsetType = UNSET
    hangs: list[Hang] | UnsetType = UNSET
    wanted: list[WantedSwitch] | UnsetType = UNSET
    stale: list[SwitchCrossconnect] | UnsetType = UNSET
    unasked: list[SwitchCrossconnect] | UnsetType = UNSET
    prediction: PlanPrediction | UnsetType = UNSET
    source: str | UnsetType = UNSET
    host: str | UnsetType = UNSET
    from_journal: bool | UnsetType = UNSET


EndFact = ReconfigurationEnded | DaemonRecovered | JournalGivenUp
"""With the outcome `failed` it is none yet: the journal keeps that reconfiguration open."""


def outcome_of(fact: EndFact) -> str:
    """The outcome as the journal has it: confirmed, rolled-back, given-up."""
    return "given-up" if isinstance(fact, JournalGivenUp) else fact.outcome


class ReconfigurationStatus(ApiValue, frozen=True, kw_only=True):
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


class LeftOpen(ApiValue, frozen=True, kw_only=True):
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


class HistoryEntry(ApiValue, frozen=True, kw_only=True):
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
