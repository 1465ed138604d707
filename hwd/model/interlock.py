"""Interlocks: named limits that a plan is checked against, what each check found, and the limits of one testbed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

import msgspec

from hwd.model.nic_port import NicPortId
from hwd_drivers.core.values import Crossconnect

REASON_LENGTH_MAX = 500
REFUSALS_NAMED = 4
"""Refusals in one error; the plan lists all."""

Reason = Annotated[str, msgspec.Meta(min_length=1, max_length=REASON_LENGTH_MAX, pattern=r"\S")]
"""Why somebody overrides an interlock, in words."""


class InterlockName(StrEnum):
    """An interlock, a check of a plan. The names are those of the testbed file, of overrides and of the metric."""

    INPUT_POWER = "input-power"
    """The light that enters a switch is not stronger than the switch bears."""
    LOSS_BUDGET = "loss-budget"
    """The weakest lane of each circuit still reaches its receiver with the power that it needs."""
    OVERLOAD = "overload"
    """The strongest lane of each circuit does not bring its receiver more than it bears."""
    PORT_STATE = "port-state"
    """No circuit uses a switch port that is spare, reserved, in maintenance or failed."""
    WEAR = "wear"
    """No element of a switch moves more often than allowed, in its life or in an hour."""
    RATE = "rate"
    """No switch is changed more often than allowed, in a time of the testbed file."""
    FORBIDDEN_PAIR = "forbidden-pair"
    """No pair of ports, and no crossconnect, that the testbed file forbids is joined."""
    TRANSFER_IN_FLIGHT = "transfer-in-flight"
    """No process of a host has said that it is sending over a port that the plan moves."""


class InterlockState(StrEnum):
    """The result of a check."""

    HOLDS = "holds"
    """The figure is within the limit."""
    UNKNOWN = "unknown"
    """A figure or a limit is not known. It does not refuse."""
    OVERRIDDEN = "overridden"
    """The interlock would refuse, and somebody has overridden it for the stated reason."""
    REFUSED = "refused"
    """The figure is over the limit: the plan is not applied."""


_ORDER = {state: place for place, state in enumerate(reversed(InterlockState))}


class Interlock(msgspec.Struct, frozen=True, kw_only=True):
    """One check of a plan: `subject` has `figure`, and `limit` is allowed, both in `unit`; null where not known.

    `why`: the finding, and for a refusal the remedy. `reason`: of whoever has overridden it.
    """

    name: InterlockName
    subject: str
    figure: float | None
    limit: float | None
    unit: str
    state: InterlockState
    why: str = ""
    reason: str = ""

    def __str__(self) -> str:
        return f"interlock {self.name} {self.state}: {self.subject}: {self.finding}"

    @property
    def finding(self) -> str:
        """`why` and the reason of an override; of one that holds, the figure and the limit."""
        if self.state is InterlockState.OVERRIDDEN:
            return f"{self.why}. Overridden: {self.reason}"
        return self.why or f"{number(self.figure)} {self.unit}, limit {number(self.limit)} {self.unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InterlockRules:
    """The key `interlocks` of a testbed file.

    `overridable`: interlocks that may be overridden. `input_max_dbm`: by switch, in place of what its model states.
    `moves_max` and `moves_per_hour_max`: of each element, by switch. `changes_max`: by switch, in `rate_s` seconds.
    `forbidden_ports`: pairs of NIC ports; `forbidden_crossconnects`: by switch; both with the reason.
    """

    overridable: frozenset[InterlockName] = frozenset()
    input_max_dbm: Mapping[str, float] = field(default_factory=dict)
    moves_max: Mapping[str, int] = field(default_factory=dict)
    moves_per_hour_max: Mapping[str, int] = field(default_factory=dict)
    changes_max: Mapping[str, int] = field(default_factory=dict)
    rate_s: float = 60.0
    forbidden_ports: Mapping[frozenset[NicPortId], str] = field(default_factory=dict)
    forbidden_crossconnects: Mapping[tuple[str, Crossconnect], str] = field(default_factory=dict)


def in_order(interlocks: Iterable[Interlock]) -> tuple[Interlock, ...]:
    """Refused, overridden and unknown ones first."""
    return tuple(sorted(interlocks, key=lambda one: _ORDER[one.state]))


def refused(interlocks: Iterable[Interlock]) -> tuple[Interlock, ...]:
    return tuple(one for one in interlocks if one.state is InterlockState.REFUSED)


def refusal(interlocks: Iterable[Interlock]) -> str:
    """One text for all that refuse; empty where none does."""
    found = refused(interlocks)
    more = f". {len(found) - REFUSALS_NAMED} more refuse; `hwd plan` lists all" if len(found) > REFUSALS_NAMED else ""
    return "; ".join(map(str, found[:REFUSALS_NAMED])) + more


def number(value: float | None) -> str:
    """`-3.5`, `1200`; `unknown` for None."""
    return "unknown" if value is None else f"{value:.1f}".removesuffix(".0")
