"""A request: the wanted state of the switches, and how to apply it."""

import dataclasses
from dataclasses import dataclass, field
from typing import Self

from msgspec.structs import replace

from hwd.model.bodies import PlanBody
from hwd.model.link import Link, SwitchCrossconnect, SwitchEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedState:
    """Links, or crossconnects where the text names these. `name` is the text.

    Switches in `emptied`, and ends in `freed`, shall have no other crossconnects.
    """

    name: str
    links: tuple[Link, ...] = ()
    crossconnects: tuple[SwitchCrossconnect, ...] = ()
    emptied: tuple[str, ...] = ()
    freed: tuple[SwitchEnd, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.links or self.crossconnects or self.emptied or self.freed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks. `is_verified`: by a token of that name; else it is what the caller stated, which nobody has checked."""

    name: str
    is_verified: bool = False

    def __str__(self) -> str:
        return self.name if self.is_verified else f"{self.name} (unverified)"

    @classmethod
    def of(cls, verified: "Caller | None", stated: str | None) -> "Caller | None":
        """Who asks: as a token says, else as they state; None where neither does."""
        return cls(name=stated) if verified is None and stated is not None else verified


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request for light, from the API or from a step of a playbook to the planner.

    `body`: as the caller sent it, with the mode, the lease and the limits. `wanted`: its meaning on the testbed.
    """

    wanted: WantedState
    body: PlanBody = field(default_factory=PlanBody)
    away: tuple[str, ...] = ()
    """Switches that it would concern, left out since they cannot be reached: each with the reason."""
    warnings: tuple[str, ...] = ()
    """What the plan is to warn of."""
    is_way_back: bool = False
    """Whether hwd itself brings back what was there before, or is desired: no interlock refuses that."""

    def waiting_as(self, body: PlanBody) -> Self:
        """See `PlanBody.waiting_as`."""
        return dataclasses.replace(self, body=self.body.waiting_as(body))

    def under(self, lease: str | None, epoch: int | None = None) -> Self:
        """Make the same request as the holder of this lease."""
        body = replace(self.body, lease=lease, epoch=epoch)
        return dataclasses.replace(self, body=body)
