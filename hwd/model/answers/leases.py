"""Leases, and settings of ended runs that are still in force, in the answers of the API."""

import math
from typing import Final

from msgspec import UNSET, UnsetType, field
from typing_extensions import override

from hwd.model.answers.answer import Answer
from hwd.model.plural import plural

WAITING: Final = "waiting"
RESERVED: Final = "reserved"


class SwitchLease(Answer, frozen=True, kw_only=True):
    """The lease under which a host drives its switch. `epoch`: counts the grants; an agent refuses commands of an older
    one. `why`: why it is not granted, or empty.
    """

    host: str
    epoch: int
    state: str
    why: str = ""


class HeldLease(Answer, frozen=True, kw_only=True):
    """A lease of ports (`kind` claim), of a switch that is delegated to its host (`kind` delegated), or one that is not
    granted yet (`kind` waiting: in the queue; `kind` reserved: from a time on).

    `expires_in_s` is `left_s` in the JSON, None for a delegated switch, whose lease lasts until it is revoked, and for
    one that waits. `epoch` counts the grants. `host`, `state` and `why` are those of a delegated switch. `told`:
    whether its agent knows of the change.

    `heard_within_s`: it ends where no heartbeat comes for so long. `for_s`, `priority`, `place` and `waits_for` are
    those of one that waits; place 1 is next among those that wait for its ports. `at_wall_ns` and `until_wall_ns`: the
    time that is reserved; from `at_wall_ns` on `waits_for` says who has its ports, so that it has not begun.
    `ended_sets`: the prepared sets that ended with it.
    """

    lease: str
    kind: str | UnsetType = UNSET
    holder: str
    ports: list[str]
    expires_in_s: float | None = field(name="left_s")
    host: str | UnsetType = UNSET
    epoch: int | UnsetType = UNSET
    state: str | UnsetType = UNSET
    why: str | UnsetType = UNSET
    told: bool | UnsetType = UNSET
    heard_within_s: float | UnsetType = UNSET
    for_s: float | UnsetType = UNSET
    priority: int | UnsetType = UNSET
    place: int | UnsetType = UNSET
    waits_for: list[str] | UnsetType = UNSET
    at_wall_ns: int | UnsetType = UNSET
    until_wall_ns: int | UnsetType = UNSET
    ended_sets: list[str] | UnsetType = UNSET

    @property
    def is_in_force(self) -> bool:
        """Whether it is granted."""
        return self.kind not in (WAITING, RESERVED)

    @property
    def id(self) -> str:
        return self.lease

    @property
    def left_s(self) -> float:
        """Seconds until it expires. Infinite for the lease of a switch that belongs to a host: that one lasts until it
        is revoked.
        """
        return math.inf if self.expires_in_s is None else self.expires_in_s

    @override
    def __str__(self) -> str:
        if self.kind == "delegated":
            return f"lease {self.id} of {self.holder}, epoch {self.epoch}, {self.state}"
        if self.kind == WAITING:
            return f"lease {self.id} of {self.holder} on {plural(len(self.ports), 'port')}, waits, place {self.place}"
        if self.kind == RESERVED:
            return f"lease {self.id} of {self.holder} on {plural(len(self.ports), 'port')}, reserved"
        return f"lease {self.id} of {self.holder} on {plural(len(self.ports), 'port')}, {self.left_s:.0f} s left"


class HeldSettings(Answer, frozen=True, kw_only=True):
    """Settings of an ended run that are still in force; a kick of the hold frees the ports."""

    hold: str
    run: str
    ports: list[str]
    why: str
