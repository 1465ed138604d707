"""Prepared sets in the answers of the API."""

from typing_extensions import override

from hwd.model.answers.answer import Answer
from hwd.model.link import Link, SwitchCrossconnect


class SetTarget(Answer, frozen=True, kw_only=True):
    """One target of a set: what was asked for, all that its switches carry then at the set's ends, and its links."""

    target: str
    what: str
    crossconnects: list[SwitchCrossconnect]
    links: list[Link]

    @property
    def id(self) -> str:
        return self.target


class PreparedSetStatus(Answer, frozen=True, kw_only=True):
    """A prepared set that has not ended. `targets`: `before`, which every set has, is the first.

    `at`: the target that its switches have; None while a restart has not found that yet, or where they have left it by
    their last reports, and `why` says what is in the way, what differs, or why it ends. `switching`: the
    reconfiguration that switches it now. `rule`: what becomes of a switch that a crash cuts off: `finish`, or the
    target to go to. `expires_in_s`: None where it lasts as long as its lease.
    """

    prepared_set: str
    lease: str
    holder: str
    rule: str
    at: str | None
    why: str
    switching: str | None
    targets: list[SetTarget]
    ports: list[str]
    expires_in_s: float | None

    @property
    def id(self) -> str:
        return self.prepared_set

    @override
    def __str__(self) -> str:
        names = ", ".join(one.target for one in self.targets)
        why = f" ({self.why})" if self.why else ""
        return f"set {self.id} of {self.holder}: {names}; at {self.at or 'no known target'}{why}"


class EndedSet(Answer, frozen=True, kw_only=True):
    """A prepared set that is over. `at`: the target that its switches had last."""

    prepared_set: str
    lease: str
    holder: str
    at: str
    why: str
    ended_wall_ns: int

    @override
    def __str__(self) -> str:
        return f"set {self.prepared_set} of {self.holder} is over: {self.why}; its last target was {self.at}"
