"""The events `lost` of a spool, which report events that were dropped or found damaged."""

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from hwd_agents.spool.ranges import Ranges
from hwd_agents.wire import Event
from hwd_drivers.core.structs import encoder, from_json

encode_event: Final = encoder().encode


class StoredEvent(NamedTuple):
    """An event in a spool; `raw` is its JSON."""

    seq: int
    kind: str
    raw: bytes

    @property
    def event(self) -> Event:
        """Decode the event."""
        return from_json(self.raw, Event)


@dataclass(slots=True, kw_only=True)
class Loss:
    """Dropped events that are not reported yet. `ranges` is bounded, so it may hold fewer than `count`."""

    count: int = 0
    ranges: Ranges = field(default_factory=Ranges)

    def add(self, boot: str, stored: StoredEvent) -> None:
        """Count one more; for a `lost` event also those that it counted, unless it replaced a single event."""
        self.count += 1
        self.ranges.add(boot, stored.seq, stored.seq)
        if stored.kind == "lost":
            data = stored.event.data
            if "ranges" not in data:
                return
            self.count += int(data["count"])
            for each, first, last in data["ranges"]:
                self.ranges.add(each, first, last)


def lost(seq: int, at_ns: int, data: dict[str, Any]) -> Event:
    """Make the event that tells that events are gone."""
    return Event(
        seq=seq,
        at_ns=at_ns,
        earliest_ns=at_ns,
        kind="lost",
        port=None,
        source="spool",
        origin="measured",
        data=data,
    )


def damaged(seq: int, at_ns: int) -> StoredEvent:
    """The `lost` event that replaces one that damage removed from the file."""
    event = lost(seq, at_ns, {"count": 1, "why": "the file of the spool was damaged"})
    return StoredEvent(seq=seq, kind=event.kind, raw=encode_event(event))
