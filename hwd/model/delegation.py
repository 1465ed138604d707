"""Delegations: leases of whole switches to the hosts that they belong to. Such a host is the only writer of its switch."""

from dataclasses import dataclass
from enum import StrEnum


class DelegationState(StrEnum):
    """Whether the host may set its switch."""

    GRANTED = "granted"
    """It may, under the epoch, with nobody in between."""
    TAKEN_BACK = "taken-back"
    """It may not, until an operator grants it again. Nobody sets the switch meanwhile: only its host has a line to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """The lease of one switch, which lasts until it is taken back. `epoch` counts the grants of this switch; what names another one is not in force.

    `boot`: the life of the host's agent that it was granted to; empty where none has it yet. `why`: who took it back, in words.
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
