"""The JSON of a plan: what the document `plan.made`, the HTTP API and `hwd plan --json` have of it."""

from typing import ClassVar, Final, Self

import msgspec
from msgspec import UNSET, UnsetType
from typing_extensions import override

from hwd.model.html_table import table
from hwd.model.interlock import Interlock, InterlockName, InterlockState
from hwd.model.link import Link, SwitchCrossconnect
from hwd.model.plural import plural
from hwd.model.prediction import PlanPrediction
from hwd_drivers.core.documents import Fact
from hwd_drivers.core.values import Crossconnect, FibreEnd
from hwd_drivers.switching.moves import ApplyMode, SwitchMoves

DARK_NAMED: Final = 4
"""Links that are named in the reason why they are dark together; the rest is a number."""


class PlanMoves(msgspec.Struct, frozen=True, kw_only=True):
    """The moves of one switch: crossconnects such as `1A-2B`."""

    switch: str
    remove: list[Crossconnect]
    add: list[Crossconnect]
    keep: list[Crossconnect]

    @classmethod
    def of(cls, moves: SwitchMoves) -> Self:
        return cls(switch=moves.switch, remove=[*moves.remove], add=[*moves.add], keep=[*moves.keep])


class PlanComposite(msgspec.Struct, frozen=True, kw_only=True):
    """The moves of one composite, in its own crossconnects; the moves of its elements are those of their switches.

    `through`: the crossconnects of elements that each wanted one uses, such as `x1:1A-2B`. `moves`: elements that
    change for it; that number is minimal where it equals `moves_at_least`. `darkened`: other elements that lose what
    they join.
    """

    composite: str
    remove: list[Crossconnect]
    add: list[Crossconnect]
    keep: list[Crossconnect]
    through: dict[Crossconnect, list[SwitchCrossconnect]]
    moves: int
    moves_at_least: int
    darkened: int = 0

    @override
    def __str__(self) -> str:
        words = [f"-{one}" for one in self.remove] + [f"+{one}" for one in self.add]
        dark = f", {self.darkened} go{'es' if self.darkened == 1 else ''} dark" if self.darkened else ""
        work = " ".join(words) or "nothing to do"
        return f"{self.composite}: {work} ({len(self.keep)} kept), {plural(self.moves, 'element move')}{dark}"


class PlanCircuit(msgspec.Struct, frozen=True, kw_only=True, rename={"source": "from", "target": "to"}):
    """One one-way light path. `margin_db`: received minus needed power of the weakest lane."""

    source: FibreEnd
    target: FibreEnd
    through: list[SwitchCrossconnect]
    loss_db_typical: float
    loss_db_max: float
    margin_db: float


class PlanLink(msgspec.Struct, frozen=True, kw_only=True):
    """A wanted link. `kept`: none of its crossconnects moves."""

    link: Link
    kept: bool
    circuits: list[PlanCircuit]


class PlanIsolatedCircuit(msgspec.Struct, frozen=True, kw_only=True):
    """One one-way light path on which somebody else holds a lease. `touched`: what of it the plan touches, empty for
    nothing.
    """

    lease: str
    holder: str
    circuit: str
    through: list[SwitchCrossconnect]
    touched: list[str]


class PlanIsolation(msgspec.Struct, frozen=True, kw_only=True):
    """Every circuit on which somebody else holds a lease. `unknown`: switches that are not read, whose light nobody
    can follow.
    """

    circuits: list[PlanIsolatedCircuit]
    unknown: list[str]

    @override
    def __str__(self) -> str:
        """`no move touches the 4 circuits of ada (k3v9)`."""
        counts: dict[str, int] = {}
        for one in self.circuits:
            holder = f"{one.holder} ({one.lease})"
            counts[holder] = counts.get(holder, 0) + 1
        of = ", ".join(f"the {plural(count, 'circuit')} of {who}" for who, count in counts.items())
        missing = f"; unknown on {', '.join(self.unknown)}, not read now" if self.unknown else ""
        return f"{f'no move touches {of}' if of else 'nobody else holds a lease of lit ports'}{missing}"


class PlanStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step: what it moves, the wanted links that it makes, and the links that are dark while it is made."""

    moves: list[PlanMoves]
    made: list[Link]
    dark: list[Link]


class PlanOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The order of the moves, in steps that each hold by themselves.

    `dark_at_once`: the most links that are dark in one step; no order has fewer than `dark_at_least`, and with as few
    none has fewer steps than `steps_at_least`. `dark_all_at_once`: how many are dark where all switches are driven at
    once. `why`: why several links are dark at once, empty where at most one is.
    """

    steps: list[PlanStep]
    dark_at_once: int
    dark_at_least: int
    steps_at_least: int
    dark_all_at_once: int
    why: str = ""

    @classmethod
    def of(cls, steps: list[PlanStep], *, dark_at_least: int, steps_at_least: int, dark_all_at_once: int) -> Self:
        worst = max((step.dark for step in steps), key=len, default=[])
        return cls(
            steps=steps,
            dark_at_once=len(worst),
            dark_at_least=dark_at_least,
            steps_at_least=steps_at_least,
            dark_all_at_once=dark_all_at_once,
            why=_why_dark(worst),
        )

    @override
    def __str__(self) -> str:
        """`3 steps, at most 2 links dark at once (no order has fewer); all at once 6`."""
        count, most, least = len(self.steps), self.dark_at_once, self.dark_at_least
        proof = "no order has fewer" if most == least else f"none has fewer than {least}"
        return (
            f"{plural(count, 'step')}, at most {plural(most, 'link')} dark at once "
            f"({proof}); all at once {self.dark_all_at_once}"
        )


def _why_dark(links: list[Link]) -> str:
    if len(links) < 2:
        return ""
    more = f" and {len(links) - DARK_NAMED} more" if len(links) > DARK_NAMED else ""
    return (
        f"{', '.join(links[:DARK_NAMED])}{more} hold ends that the new links of each other need, so that none can go "
        "first; a way around over spare ports is not looked for"
    )


class PlanSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The summary of a plan: what moves, what goes dark, where the light goes.

    `empty`: nothing moves. `dark`: links that lose their light and are not wanted. `expected_s`: from command to ready;
    `expected_from` says how that is known. `ready_within_s` null: ready is not asked for. `confirm_within_s` null:
    confirmed as soon as ready. `interlocks`: all that were checked, those that do not hold first; one that is `refused`
    keeps it from being applied. `away`: switches of a restore that cannot be reached, each with the reason; it leaves
    them out. `isolation`: that it touches no circuit of somebody else's lease; null where that was not asked.
    `lease_epoch`: of `lease`. `order`: its steps; null where all switches are driven at once.
    `prediction`: of its time, by the records of its devices; null where nothing moves.
    `lease_epoch`: of `lease`. `prepared_set`, `target`: of one that was not planned, but goes from one target of a
    prepared set to another.
    """

    hash: str
    what: str
    mode: ApplyMode
    empty: bool
    moves: list[PlanMoves]
    composites: list[PlanComposite] = []
    links: list[PlanLink]
    dark: list[Link]
    expected_s: float
    expected_from: str
    warnings: list[str]
    lease: str | None
    lease_epoch: int | None = None
    crash_rule: str
    ready_within_s: float | None
    confirm_within_s: float | None
    interlocks: list[Interlock] = []
    away: list[str] = []
    isolation: PlanIsolation | None = None
    order: PlanOrder | None = None
    prediction: PlanPrediction | None = None
    prepared_set: str | UnsetType = UNSET
    target: str | UnsetType = UNSET

    @property
    def refused(self) -> list[Interlock]:
        return [one for one in self.interlocks if one.state is InterlockState.REFUSED]

    @override
    def __str__(self) -> str:
        moved = sum(not link.kept for link in self.links)
        dark = len(self.dark)
        moves = f"{plural(moved, 'link')} move{'s' if moved == 1 else ''}, {dark} go{'es' if dark == 1 else ''} dark"
        does = "nothing moves" if self.empty else moves
        names = ", ".join(dict.fromkeys(one.name for one in self.refused))
        return f"plan {self.hash} ({self.what}): {does}{f'; refused by {names}' if names else ''}"

    @override
    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self}>"

    def _repr_html_(self) -> str:
        moves = [(move.switch, " ".join(move.remove), " ".join(move.add)) for move in self.moves]
        links = [(link.link, "stays" if link.kept else "moves") for link in self.links]
        findings = [
            (one.name, one.state, one.subject, one.finding)
            for one in self.interlocks
            if one.state is not InterlockState.HOLDS
        ]
        made = table(("switch", "removes", "adds"), moves, caption=str(self)) + table(("link", ""), links)
        return made + (table(("interlock", "", "", ""), findings) if findings else "")


class PlanMade(Fact, frozen=True, kw_only=True):
    """A plan was made, and nothing was touched. `hash` applies it."""

    KIND: ClassVar = "plan.made"
    plan: PlanSummary
    what: str
    hash: str


class InterlockRefused(Fact, frozen=True, kw_only=True):
    """An interlock refuses a plan, or an apply of it: nothing was touched.

    `subject`, `figure`, `limit`, `unit`: of the first of `subjects` findings; `why`: that finding with its remedy.
    """

    KIND: ClassVar = "interlock.refused"
    interlock: InterlockName
    subject: str
    figure: float | None
    limit: float | None
    unit: str
    why: str
    subjects: int
    what: str
    hash: str
    run: str | None
