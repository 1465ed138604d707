"""Intake: puts the events of one boot of an agent into order, each once; the bus may repeat, lose and reorder them."""

from collections.abc import Sequence

from hwd_agents.spool.ranges import Ranges
from hwd_agents.wire import Event
from hwd_agents.wire.events import LostData
from hwd_drivers.core.errors import ProtocolError

HELD_MOST = 10_000
"""Events of one boot that wait for earlier ones, or for the alignment of its clock. The agent sends the others
again."""


class Intake:
    """The intake of one boot of an agent: it puts events in the order of their numbers. `since_s`: when it was created,
    on the loop's clock; `clock`: the name of the clock that stamps its events, or empty.

    Without a call of `begin` it begins at the earliest event that waits when it is first read.
    """

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self.clock = ""
        self.upto = 0
        """The last sequence number up to which all events were read; 0 for none."""
        self.held: dict[int, Event] = {}
        """The events that wait, by sequence number."""
        self._begun = False
        self._owed_upto = 0
        self._again = False
        self._as_of_then: int | None = None

    def begin(self, next_seq: int, *, as_of_then: bool = False) -> None:
        """Set the first event to expect; only the first call counts.

        `as_of_then`: `next_seq` is from an old birth, so that the agent may have deleted that event since.
        """
        if not self._begun:
            self._begun, self.upto = True, min([next_seq, *self.held]) - 1
            self._as_of_then = next_seq if as_of_then else None

    def was_gone(self, gap: tuple[int, int]) -> bool:
        """Whether the agent had deleted the events of a gap before this intake began.

        They were acknowledged by a daemon with other records, or the agent reports their loss itself.
        """
        return gap[0] == self._as_of_then

    @property
    def gap(self) -> tuple[int, int] | None:
        """The first and the last sequence number that are missing before the earliest event that waits."""
        if not self.held or not self._begun or self.upto + 1 in self.held:
            return None
        return self.upto + 1, min(self.held) - 1

    def take(self, events: Sequence[Event]) -> None:
        """Add new events. `events` are ascending without gaps."""
        for event in events:
            if event.seq <= self.upto:
                self._again = True
                continue
            self.held[event.seq] = event
        if len(self.held) > HELD_MOST:  # the earlier ones are what the others wait for
            for seq in sorted(self.held)[HELD_MOST:]:
                del self.held[seq]

    def ready(self) -> list[Event]:
        """Remove and return the events that follow without a gap."""
        events: list[Event] = []
        if not self._begun and self.held:
            self.begin(min(self.held))
        while (event := self.held.pop(self.upto + 1, None)) is not None:
            events.append(event)
            self.upto += 1
        return events

    def skip_gap(self) -> tuple[int, int] | None:
        """Skip the missing events; return the first and the last of them."""
        if (gap := self.gap) is not None:
            self.upto = gap[1]
        return gap

    def drop(self) -> tuple[int, int] | None:
        """Drop the events that wait and those that are missing before them; return the first and the last."""
        if not self.held:
            return None
        first = self.upto + 1 if self._begun else min(self.held)
        self._begun, self.upto = True, max(self.held)
        self.held.clear()
        return first, self.upto

    def next_ack(self) -> int | None:
        """The sequence number to acknowledge; None where it was returned before.

        It is returned again where the agent has repeated an event that was acknowledged.
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


class Losses(Ranges):
    """Counts the lost events of one host, each once: `add` those that came, and those that will not come.

    The agent reports the events that its spool dropped, and the same events are missing here.

    Events that came or were missed before the last start of the daemon are not stored: where the agent reports their
    loss, they count.
    """

    def reported(self, lost: LostData) -> int:
        """Return how many were not counted before, including those without a sequence number."""
        numbered = news = 0
        for boot, first, last in lost.ranges or ():
            numbered += last - first + 1
            news += self.add(boot, first, last)
        return news + max(0, lost.count - numbered)
