"""Alerts about past events: each counts for some minutes after the last of its events, or until it is mended."""

from dataclasses import dataclass, replace

from hwd.model.status import Alert
from hwd.telemetry.alert_rules import RULES, alert_of

PAST_MOST = 256
"""Past events that are remembered; beyond it those that count no more are deleted."""

Key = tuple[str, str]
"""An alert and its subject."""
Times = tuple[int, int]
"""The times of one document: the daemon's clock, and unix time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Past:
    """Some events of one kind: when the first of them and the last came, and what the last one says.

    `what`: what had been tried, empty where nothing is to be tried again.
    """

    first: Times
    last: Times
    summary: str
    what: str


class PastEvents:
    """The events that alerts are about, by alert and subject."""

    def __init__(self) -> None:
        self._events: dict[Key, _Past] = {}

    def note(self, name: str, subject: str, summary: str, at: Times, *, what: str = "") -> None:
        """An event came; one that came while the last counted continues with it."""
        key = name, subject
        before = self._events.get(key)
        if before is not None and self._counts(key, before, at[0]):
            self._events[key] = replace(before, last=at, summary=summary)
            return
        if len(self._events) >= PAST_MOST:
            self._events = {key: one for key, one in self._events.items() if self._counts(key, one, at[0])}
        self._events[key] = _Past(first=at, last=at, summary=summary, what=what)

    def mend(self, name: str, subject: str) -> None:
        """What the event broke is well again: it is no alert any more."""
        self._events.pop((name, subject), None)

    def succeed(self, name: str, what: str) -> None:
        """What had failed was tried again, and succeeded: that it failed is no alert any more."""
        for key in [key for key, one in self._events.items() if what and key[0] == name and one.what == what]:
            del self._events[key]

    def forget(self, prefix: str, subjects: frozenset[str]) -> None:
        """Forget the events of some subjects, of the alerts whose names begin so."""
        for key in [key for key in self._events if key[0].startswith(prefix) and key[1] in subjects]:
            del self._events[key]

    def in_force(self, now_ns: int) -> list[Alert]:
        return [
            alert_of(key, one.summary, since_wall_ns=one.first[1], last_wall_ns=one.last[1])
            for key, one in self._events.items()
            if self._counts(key, one, now_ns)
        ]

    def _counts(self, key: Key, one: _Past, now_ns: int) -> bool:
        return now_ns - one.last[0] <= (RULES[key[0]].within_s or 0.0) * 1e9
