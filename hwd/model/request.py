"""A request: the wanted state of the switches, and how to apply it."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What someone wants, from the API or from a step of a playbook to the planner.

    `body`: as the caller sent it, with the mode, the lease and the limits. `wanted`: its meaning on the testbed.
    """

    wanted: WantedState
    body: PlanBody = field(default_factory=PlanBody)

    def under(self, lease: str | None, epoch: int | None = None) -> Self:
        """The same request by the holder of this lease."""
        return type(self)(wanted=self.wanted, body=replace(self.body, lease=lease, epoch=epoch))
