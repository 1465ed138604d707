"""What the daemon tells of switches beside their supervisors: overruns, and switches that hosts drive."""

from typing import ClassVar

from msgspec import field

from hwd_drivers.core.values import Crossconnect, PortSide
from hwd_drivers.devices.facts import SwitchFact


class SwitchOverrun(SwitchFact, frozen=True, kw_only=True):
    """`lost`: crossconnects that another client made between our read and our write, and that our write removed."""

    KIND: ClassVar = "switch.overrun"
    reconfiguration: str
    lost: list[Crossconnect]
    window_s: float


class SwitchDrift(SwitchFact, frozen=True, kw_only=True):
    """How a switch differs from the desired state, after each change of that.

    `missing`: wanted crossconnects that it lacks; `stale`: crossconnects at ends of which something else is wanted.
    Ports of reconfigurations in progress do not count. `given_up`: fibre ends that the drift policy restores no more,
    `3A`, since it has tried in vain or was undone again.
    """

    KIND: ClassVar = "switch.drift"
    missing: list[Crossconnect]
    stale: list[Crossconnect]
    given_up: list[PortSide] = field(default_factory=list)


class SwitchAdopted(SwitchFact, frozen=True, kw_only=True):
    """What was found at a switch is desired from here on: crossconnects, and fibre ends that shall have none."""

    KIND: ClassVar = "switch.adopted"
    crossconnects: list[Crossconnect]
    free: list[PortSide]
    by: str


class SwitchUnknown(SwitchFact, frozen=True, kw_only=True):
    """A host drives this switch, and its state is unknown now."""

    KIND: ClassVar = "switch.unknown"
    cause: str
    host: str


class SwitchRefused(SwitchFact, frozen=True, kw_only=True):
    """A host claims a switch that it does not own."""

    KIND: ClassVar = "switch.refused"
    host: str
    why: str
