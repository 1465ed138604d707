"""A plan: the moves from the state that the switches report to the wanted one. A value: print it, store it, apply it by
its hash.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from msgspec import UNSET

from hwd.model.circuit import RoutedLink
from hwd.model.interlock import Interlock, InterlockState
from hwd.model.link import Link, SwitchEnd
from hwd.model.plan_summary import (
    PlanCircuit,
    PlanComposite,
    PlanIsolation,
    PlanLink,
    PlanMoves,
    PlanOrder,
    PlanSummary,
)
from hwd.model.prediction import PlanPrediction
from hwd.model.prepared_set import SetSwitch
from hwd.model.reconfiguration import StartedLink
from hwd_drivers.core.errors import BugError
from hwd_drivers.switching.moves import ApplyMode, SwitchMoves

DIGITS = 6
"""The digits of a sum of losses or times: what is behind them is a rounding of the machine, such as 3.5999999999999996.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLink:
    """A wanted link. `kept`: none of its crossconnects moves."""

    routed: RoutedLink
    kept: bool

    @property
    def started(self) -> StartedLink:
        """The link as `reconfiguration.started` has it, whoever drove its switches."""
        return StartedLink.of(self.routed.link, self.routed.crossconnects, kept=self.kept)

    @property
    def summary(self) -> PlanLink:
        circuits = [
            PlanCircuit(
                source=circuit.source,
                target=circuit.target,
                through=[*circuit.crossconnects],
                loss_db_typical=round(circuit.loss_db_typical, DIGITS),
                loss_db_max=round(circuit.loss_db_max, DIGITS),
                margin_db=round(circuit.margin_db, DIGITS),
            )
            for circuit in self.routed.circuits
        ]
        return PlanLink(link=self.routed.link, kept=self.kept, circuits=circuits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan: all that is known before the first command. `hash` covers moves, their steps, state before, links, rules,
    and interlocks that refuse or are overridden.

    `dark`: links that lose their light and are not wanted. `touches`: ports, such as `ocs1.3` and `h0.eth0`, whose
    light it changes or may change; it follows from the rest and from the known state of other switches, and is not in
    `hash`. `expected_s`: from command to ready, by the records, else by the devices' data (`expected_from` says which).
    `ready_within_s` None: ready is not asked for. `confirm_within_s` None: confirmed as soon as ready.
    """

    what: str
    mode: ApplyMode
    moves: tuple[SwitchMoves, ...]
    links: tuple[PlannedLink, ...]
    dark: tuple[Link, ...]
    touches: frozenset[str]
    expected_s: float
    expected_from: str
    warnings: tuple[str, ...]
    lease: str | None
    ready_within_s: float | None
    confirm_within_s: float | None
    composites: tuple[PlanComposite, ...] = ()
    """What composites are asked to do. It follows from `moves`, and is not in `hash`."""
    interlocks: tuple[Interlock, ...] = ()
    """The interlocks that were checked, those that do not hold first."""
    freed: tuple[SwitchEnd, ...] = ()
    """Ends that shall have no crossconnect, whether or not they have one now. It is not in `hash`."""
    is_restore: bool = False
    """The plan brings back what is desired, and so wants nothing new. Not in `hash`."""
    away: tuple[str, ...] = ()
    """Switches that it would concern, left out since they cannot be reached: each with the reason. Not in `hash`."""
    lease_epoch: int | None = None
    """The epoch of `lease`. It follows from the ledger, as does `isolation`; both are not in `hash`."""
    isolation: PlanIsolation | None = None
    of_set: SetSwitch | None = None
    """The plan brings a prepared set to a target. Not in `hash`."""
    crash_rule: ClassVar[str] = "roll-back"
    """After a crash the next start brings back the state that was read at the start of the apply."""
    order: PlanOrder | None = None
    """Its moves in steps; None where all switches are driven at once."""
    step_moves: tuple[tuple[SwitchMoves, ...], ...] = ()
    """The moves of each step of `order`, from what the steps before it left."""
    prediction: PlanPrediction | None = None
    """The prediction of the plan's time; None where nothing moves. It follows from the records, and is not in `hash`.
    """
    hash: str = field(default="", compare=False)
    """12 hexadecimal digits, the same on every machine for the same moves from the same state. Leave it out, but for a
    plan that the journal holds without its paths.
    """

    def __post_init__(self) -> None:
        if self.hash:
            return
        if len(self.step_moves) != (0 if self.order is None else len(self.order.steps)):
            raise BugError("a plan has the moves of each step of its order")
        digest = hashlib.sha256(json.dumps(self._hashed(), sort_keys=True).encode()).hexdigest()
        object.__setattr__(self, "hash", digest[:12])

    @property
    def empty(self) -> bool:
        return all(move.is_empty for move in self.moves)

    @property
    def step_of(self) -> Mapping[Link, int]:
        """The number of the step that makes a link, from 1 on; empty without an order."""
        steps = () if self.order is None else self.order.steps
        return {link: number for number, step in enumerate(steps, 1) for link in step.made}

    @property
    def overridden(self) -> tuple[Interlock, ...]:
        """Interlocks that would refuse, and were overridden."""
        return tuple(one for one in self.interlocks if one.state is InterlockState.OVERRIDDEN)

    @property
    def summary(self) -> PlanSummary:
        """The summary for other programs: what moves, what goes dark, where the light goes."""
        return PlanSummary(
            hash=self.hash,
            what=self.what,
            mode=self.mode,
            empty=self.empty,
            moves=[*map(PlanMoves.of, self.moves)],
            composites=[*self.composites],
            links=[planned.summary for planned in self.links],
            dark=[*self.dark],
            expected_s=round(self.expected_s, DIGITS),
            expected_from=self.expected_from,
            warnings=[*self.warnings],
            lease=self.lease,
            lease_epoch=self.lease_epoch,
            crash_rule="finish" if self.of_set is not None and self.of_set.forward else self.crash_rule,
            ready_within_s=self.ready_within_s,
            confirm_within_s=self.confirm_within_s,
            interlocks=[*self.interlocks],
            away=[*self.away],
            isolation=self.isolation,
            order=self.order,
            prediction=self.prediction,
            prepared_set=UNSET if self.of_set is None else self.of_set.id,
            target=UNSET if self.of_set is None else self.of_set.target,
        )

    def _hashed(self) -> dict[str, Any]:
        judged = [
            [one.name, one.subject, one.state, one.reason]
            for one in self.interlocks
            if one.state in (InterlockState.REFUSED, InterlockState.OVERRIDDEN)
        ]
        return {
            "what": self.what,
            "mode": self.mode,
            "moves": [*map(_hashed_moves, self.moves)],
            "links": [
                [planned.routed.link, planned.kept, sorted(planned.routed.crossconnects)] for planned in self.links
            ],
            "dark": sorted(self.dark),
            "lease": self.lease,
            "rules": [self.crash_rule, self.ready_within_s, self.confirm_within_s],
            **({"interlocks": judged} if judged else {}),
            **({"steps": [[*map(_hashed_moves, moves)] for moves in self.step_moves]} if self.order else {}),
        }


def _hashed_moves(move: SwitchMoves) -> list[Any]:
    return [move.switch, *(sorted(part) for part in (move.remove, move.add, move.keep, move.before))]
