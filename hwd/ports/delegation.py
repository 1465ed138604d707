"""Delegations: leases of whole switches to the hosts that own them. Such a host is the only writer of its switch."""

from dataclasses import dataclass
from enum import StrEnum


class DelegationState(StrEnum):
    """Whether the host may set its switch."""

    GRANTED = "granted"
    """The host may set the switch, under this epoch, without asking the daemon."""
    TAKEN_BACK = "taken-back"
    """The host may not set the switch until an operator grants it again. Meanwhile nobody sets the switch: only its
    host is connected to it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """The lease of one switch, in force until it is revoked. `epoch` counts the grants of this switch; another epoch is
    not in force.

    `boot`: the boot of the host's agent that it was granted to; empty before the first. `why`: who revoked it, in
    words.
    """

    switch: str
    host: str
    boot: str
    epoch: int
    state: DelegationState
    since_wall_ns: int
    why: str = ""

    def __str__(self) -> str:
        return f"{self.switch} of host {self.host}, epoch {self.epoch}, {self.state}"
