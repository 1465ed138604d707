"""Intake: the events of one boot of an agent, each once and in order, whatever the bus repeated, lost or overtook."""

from collections.abc import Mapping, Sequence
from typing import Any

from hwd_agents.spool.ranges import Ranges
from hwd_agents.wire import Event
from hwd_drivers.core.errors import ProtocolError

HELD_MOST = 10_000
"""Events of one boot that wait for earlier ones, or for the clock to be aligned. The agent keeps what does not fit and
sends it again."""


class Intake:
    """`since_s`: when it was made; `clock`: which clock stamps its events, where that is known.

    Where it does not `begin` at a known event, it begins at the earliest one held when it is first read.
    """

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self.clock = ""
        self._next_seq: int | None = None
        self._held: dict[int, Event] = {}
        self._owed_upto = 0
        self._again = False
        self._as_of_then: int | None = None

    def begin(self, next_seq: int, *, as_of_then: bool = False) -> None:
        """`next_seq` is the first event that is wanted; only the first call counts.

        `as_of_then`: it was the oldest of the agent once, and may be long gone.
        """
        if self._next_seq is None:
            self._next_seq = min([next_seq, *self._held])
            self._as_of_then = next_seq if as_of_then else None

    def was_gone(self, gap: tuple[int, int]) -> bool:
        """Whether what the agent says is gone was so before this began: acknowledged to other records than these, or
        else it tells of its loss itself.
        """
        return gap[0] == self._as_of_then

    @property
    def upto(self) -> int:
        """All events up to and with this one were passed on; 0 for none."""
        return 0 if self._next_seq is None else self._next_seq - 1

    @property
    def held(self) -> int:
        return len(self._held)

    @property
    def gap(self) -> tuple[int, int] | None:
        """The first and the last sequence number that are missing before the earliest event that waits."""
        if not self._held or self._next_seq is None or self._next_seq in self._held:
            return None
        return self._next_seq, min(self._held) - 1

    def take(self, events: Sequence[Event]) -> None:
        """Hold what is new. `events` are ascending without gaps."""
        for event in events:
            if event.seq <= self.upto:
                self._again = True
                continue
            self._held[event.seq] = event
        if len(self._held) > HELD_MOST:  # the earlier ones are what the others wait for
            for seq in sorted(self._held)[HELD_MOST:]:
                del self._held[seq]

    def ready(self) -> list[Event]:
        """Give out what follows without gap; it is then up to the caller."""
        events: list[Event] = []
        if self._next_seq is None:
            if not self._held:
                return events
            self._next_seq = min(self._held)
        while (event := self._held.pop(self._next_seq, None)) is not None:
            events.append(event)
            self._next_seq += 1
        return events

    def skip_gap(self) -> tuple[int, int] | None:
        """Give up what is missing; return the first and the last of it."""
        if (gap := self.gap) is not None:
            self._next_seq = gap[1] + 1
        return gap

    def drop(self) -> tuple[int, int] | None:
        """Give up all that waits, and what it waits for; return the first and the last of it."""
        if not self._held:
            return None
        last = max(self._held)
        first = min(self._held) if self._next_seq is None else self._next_seq
        self._next_seq = last + 1
        self._held.clear()
        return first, last

    def owed(self) -> int | None:
        """Up to where to acknowledge, each once: None where it was asked before, unless the agent sent again what it
        need not keep.
        """
        if not self.upto or (self.upto == self._owed_upto and not self._again):
            return None
        self._owed_upto, self._again = self.upto, False
        return self.upto


def check_events(events: list[Event]) -> None:
    """Raises ProtocolError where their numbers or times contradict each other."""
    for seq, event in enumerate(events, start=events[0].seq):
        if event.seq != seq:
            raise ProtocolError(f"event {event.seq} where {seq} follows")
        if event.earliest_ns > event.at_ns:
            raise ProtocolError(
                f"event {event.seq} ends at {event.at_ns} ns, before it begins at {event.earliest_ns} ns"
            )


class Losses:
    """Which events of one host are gone.

    The agent tells of those that its spool dropped, and the same are missing here: by its number, each counts once.

    What an earlier life of the daemon was given or missed is not known here: where the agent tells of it, it counts.
    """

    def __init__(self) -> None:
        self._accounted = Ranges()

    def passed(self, boot: str, first: int, last: int) -> None:
        """These are here, whatever the agent tells of them: it could not know."""
        self._accounted.add(boot, first, last)

    def missed(self, boot: str, first: int, last: int) -> int:
        """They did not come and will not. Returns how many of them are news."""
        return self._accounted.add(boot, first, last)

    def told(self, data: Mapping[str, Any]) -> int:
        """The agent says so, in a `lost` event.

        Returns how many are news, those included that it counts and does not name.
        """
        named = news = 0
        for boot, first, last in data.get("ranges", ()):
            named += last - first + 1
            news += self._accounted.add(boot, first, last)
        return news + max(0, int(data["count"]) - named)
