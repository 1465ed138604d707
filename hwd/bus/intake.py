"""Intake: the events of one boot of an agent, each once and in order, whatever the bus repeated, lost or overtook."""

from collections.abc import Sequence

from hwd.model.instant import Origin
from hwd_agents.wire import EVENTS_MAX, Event
from hwd_drivers.kit.errors import ProtocolError

NUMBER_MOST = (1 << 62) - 1
HELD_MOST = 10_000
"""Events of one boot that wait for earlier ones, or for the clock to be aligned. The agent keeps what does not fit and sends it again."""


class Intake:
    """`since_s`: when it was made. Where it does not `begin` at a known event, it begins at the earliest one held when it is first read."""

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self._next_seq: int | None = None
        self._held: dict[int, Event] = {}

    def begin(self, next_seq: int) -> None:
        """`next_seq` is the first event that is wanted; only the first call counts."""
        if self._next_seq is None:
            self._next_seq = min([next_seq, *self._held])

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
                continue
            if len(self._held) >= HELD_MOST:  # the earlier ones are what the others wait for
                if event.seq >= (last := max(self._held)):
                    continue
                del self._held[last]
            self._held[event.seq] = event

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

    def skip_gap(self) -> int:
        """Give up what is missing; return how many events that is."""
        if (gap := self.gap) is None:
            return 0
        self._next_seq = gap[1] + 1
        return gap[1] - gap[0] + 1

    def drop(self) -> int:
        """Give up all that waits, up to the last; return how many events that is."""
        count = len(self._held)
        if self._held:
            self._next_seq = max(self._held) + 1
        self._held.clear()
        return count


def check_times(*numbers: int) -> None:
    """Raises ProtocolError for what no clock and no counter shows; JSON knows no limit."""
    if any(abs(number) > NUMBER_MOST for number in numbers):
        raise ProtocolError("a number that does not fit into 63 bits")


def check_events(events: list[Event]) -> None:
    """Raises ProtocolError where a document of one of them could not be believed."""
    if not 1 <= len(events) <= EVENTS_MAX:
        raise ProtocolError(f"{len(events)} events in one message, where 1 to {EVENTS_MAX} are allowed")
    for seq, event in enumerate(events, start=max(1, events[0].seq)):
        check_times(event.seq, event.at_ns, event.earliest_ns, event.sampling_ns)
        if event.seq != seq:
            raise ProtocolError(f"event {event.seq} where {seq} follows")
        if event.earliest_ns > event.at_ns:
            raise ProtocolError(
                f"event {event.seq} ends at {event.at_ns} ns, before it begins at {event.earliest_ns} ns"
            )
        if event.origin not in set(Origin):
            raise ProtocolError(f"event {event.seq} has the origin {event.origin!r}; there are {', '.join(Origin)}")


class Losses:
    """Events of one host that are gone: the agent tells of those that its spool dropped, and the same are missing here. Each counts once."""

    def __init__(self) -> None:
        self._told = 0
        self._missed = 0
        self._reported = 0

    def told(self, count: int) -> int:
        """The agent says so. Returns how many of them are news."""
        self._told += count
        return self._news()

    def missed(self, count: int) -> int:
        """They were asked for and did not come. Returns how many of them are news."""
        self._missed += count
        return self._news()

    def _news(self) -> int:
        news = max(self._told, self._missed) - self._reported
        self._reported += news
        return news
