"""What the daemon tells of prepared sets. The switches between their targets are reconfigurations."""

from typing import ClassVar

from msgspec import UNSET, UnsetType

from hwd.model.interlock import Interlock
from hwd_drivers.core.documents import Fact


class SetFact(Fact, frozen=True, kw_only=True):
    """Of one prepared set; `prepared_set` is its id."""

    prepared_set: str


class SetPrepared(SetFact, frozen=True, kw_only=True):
    """A set is durable, and holds its ports under `lease`. `rule`: what becomes of a switch that a crash cuts off.
    `overridden`: interlocks that somebody overrode for a target, with the reason.
    """

    KIND: ClassVar = "set.prepared"
    lease: str
    holder: str
    targets: list[str]
    rule: str
    overridden: list[Interlock] | UnsetType = UNSET
    ports: list[str]
    expires_wall_ns: int | UnsetType = UNSET
    by: str | UnsetType = UNSET
    verified: bool | UnsetType = UNSET


class SetSettled(SetFact, frozen=True, kw_only=True):
    """A start of the daemon has read the switches of a set, and knows its target. `why`: how it came there."""

    KIND: ClassVar = "set.settled"
    target: str
    why: str


class SetReleased(SetFact, frozen=True, kw_only=True):
    """A set ended: its ports are free, and its switches stay as they are. `at`: the target that they had last. `why`:
    released, or what ended it without its holder, such as the end of its lease and how that came.
    """

    KIND: ClassVar = "set.released"
    at: str
    why: str
    lease: str
    holder: str
