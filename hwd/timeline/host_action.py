"""Intended settings of NIC ports while links were watched: a fall that one of them causes is no breach."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from hwd.model.link import Link
from hwd.model.run_facts import RunHost

TAKES_DOWN_WITHIN_NS: Final = 1_000_000_000
"""A setting takes effect within this time: sources look every 100 ms or more often, and stamps are milliseconds off. A
later fall has another cause.
"""
_NS_IN_S = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAction:
    """A setting of one NIC port that a run changed or restored: from the daemon's request to the answer
    that it is in effect.
    """

    port: str
    words: str
    from_ns: int
    to_ns: int

    @classmethod
    def of(cls, fact: RunHost, *, at_ns: int) -> Self:
        """Read the action of a document that was emitted at `at_ns`."""
        return cls(
            port=fact.port,
            words=f"{fact.setting or ''} {fact.action}".strip(),
            from_ns=at_ns - round((fact.seconds or 0.0) * _NS_IN_S),
            to_ns=at_ns,
        )


def taken_down_by(actions: Iterable[HostAction], link: Link, *, earliest_ns: int, latest_ns: int) -> HostAction | None:
    """The last action on either end of the link that explains a fall between these times; None where none does."""
    ends = set(link.ends)
    found = [
        action
        for action in actions
        if action.port in ends and latest_ns >= action.from_ns and earliest_ns <= action.to_ns + TAKES_DOWN_WITHIN_NS
    ]
    return max(found, key=lambda action: action.to_ns, default=None)
