"""What a spool had to drop, or found damaged, and the events `lost` that tell it."""

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from hwd_agents.spool.ranges import Ranges
from hwd_agents.wire import Event

encode_event: Final = msgspec.json.Encoder().encode


class Stored(NamedTuple):
    """An event that a spool holds."""

    seq: int
    kind: str
    raw: bytes


@dataclass(slots=True, kw_only=True)
class Loss:
    """What had to be dropped and was not told yet. `ranges` may know of fewer than `count`: it is bounded."""

    count: int = 0
    ranges: Ranges = field(default_factory=Ranges)

    def add(self, boot: str, stored: Stored) -> None:
        """One more; a `lost` event stands for those that it counted, too, but for one in the place of another."""
        self.count += 1
        self.ranges.add(boot, stored.seq, stored.seq)
        if stored.kind == "lost":
            told = msgspec.json.decode(stored.raw, type=Event).data
            if "ranges" not in told:
                return
            self.count += int(told["count"])
            for each, first, last in told["ranges"]:
                self.ranges.add(each, first, last)


def lost(seq: int, at_ns: int, data: dict[str, Any]) -> Event:
    """That events are gone."""
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


def damaged(seq: int, at_ns: int) -> Stored:
    """In the place of an event that damage took out of the file."""
    event = lost(seq, at_ns, {"count": 1, "why": "the file of the spool was damaged"})
    return Stored(seq=seq, kind=event.kind, raw=encode_event(event))
