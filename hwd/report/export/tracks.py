"""Writes a Perfetto trace: tracks by their path, events in the order of their time, their clock."""

import hashlib
import heapq
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

from hwd.report.optional_import import import_optional

SEQUENCE = 1
"""All packets are from one writer."""
NOTE_MAX = 2000
"""Characters of a note; the JSON lines have the full text."""
_WHAT = "Perfetto"
_HUGE_NS = 1 << 63

Notes = Mapping[str, object]
"""The details of an event."""


def id_of(*words: str) -> int:
    """64 bits, never 0, the same for the same words: ids of tracks and flows, so that traces of several
    runs can be joined.
    """
    digest = hashlib.blake2b("\0".join(words).encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest) or 1


class Tracks:
    """Events may come in any order, but not earlier than the last `write_until`; in the file they are sorted.

    Times are nanoseconds of CLOCK_MONOTONIC_RAW, as in documents; a negative time becomes zero. Raises ConfigError
    without the extra `export`.
    """

    def __init__(self, to: BinaryIO, *, root: str) -> None:
        self._pb = import_optional("perfetto.protos.perfetto.trace.perfetto_trace_pb2", _WHAT)
        self._builder = import_optional("perfetto.trace_builder.proto_builder", _WHAT).StreamingTraceProtoBuilder(to)
        self._root = root
        self._made: set[int] = set()
        self._waiting: list[tuple[int, int, Any]] = []
        self._count = 0
        self._offset_ns: int | None = None

    def clock(self, at_ns: int, wall_ns: int, *, within_ns: int) -> None:
        """Write the time of the wall clock; again only where it was stepped by more than `within_ns`."""
        offset_ns = wall_ns - at_ns
        if self._offset_ns is not None and abs(offset_ns - self._offset_ns) <= within_ns:
            return
        first, self._offset_ns = self._offset_ns is None, offset_ns
        clocks = self._pb.BuiltinClock
        packet = self._packet(at_ns)
        packet.clock_snapshot.primary_trace_clock = clocks.BUILTIN_CLOCK_MONOTONIC_RAW
        for clock, ns in (
            (clocks.BUILTIN_CLOCK_MONOTONIC_RAW, at_ns),
            (clocks.BUILTIN_CLOCK_BOOTTIME, at_ns),
            (clocks.BUILTIN_CLOCK_REALTIME, wall_ns),
        ):
            packet.clock_snapshot.clocks.add(clock_id=clock, timestamp=max(0, ns))
        if first:
            packet.sequence_flags = self._pb.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
            self._builder.write_packet(packet)
        else:
            self._put(at_ns, packet)

    def track(self, *path: str, rank: int = 0, unit: str = "", says: str = "") -> int:
        """The id of a track at this path below the root; `unit` makes it a counter."""
        uuid = id_of(self._root, *path)
        if uuid in self._made:
            return uuid
        parent = self.track(*path[:-1]) if path else None
        self._made.add(uuid)
        packet = self._builder.create_packet()
        packet.trusted_packet_sequence_id = SEQUENCE
        descriptor = packet.track_descriptor
        descriptor.uuid = uuid
        descriptor.name = _text(path[-1] if path else self._root)
        descriptor.child_ordering = self._pb.TrackDescriptor.EXPLICIT
        descriptor.sibling_order_rank = rank
        if says:
            descriptor.description = _text(says)
        if parent is not None:
            descriptor.parent_uuid = parent
        if unit:
            descriptor.counter.unit_name = unit
        self._builder.write_packet(packet)
        return uuid

    def begin(self, track: int, name: str, at_ns: int, notes: Notes | None = None, flows: Iterable[int] = ()) -> None:
        event = self._event(track, at_ns, self._pb.TrackEvent.TYPE_SLICE_BEGIN)
        event.name = _text(name)
        event.flow_ids.extend(flows)
        self._note(event, notes)

    def end(self, track: int, at_ns: int) -> None:
        self._event(track, at_ns, self._pb.TrackEvent.TYPE_SLICE_END)

    def slice(
        self, track: int, name: str, start_ns: int, end_ns: int, notes: Notes | None = None, flows: Iterable[int] = ()
    ) -> None:
        self.begin(track, name, start_ns, notes, flows)
        self.end(track, max(start_ns, end_ns))

    def instant(
        self,
        track: int,
        name: str,
        at_ns: int,
        notes: Notes | None = None,
        flows: Iterable[int] = (),
        ends: Iterable[int] = (),
    ) -> None:
        """`flows` pass through it, `ends` end in it."""
        event = self._event(track, at_ns, self._pb.TrackEvent.TYPE_INSTANT)
        event.name = _text(name)
        event.flow_ids.extend(flows)
        event.terminating_flow_ids.extend(ends)
        self._note(event, notes)

    def value(self, track: int, at_ns: int, value: float) -> None:
        self._event(track, at_ns, self._pb.TrackEvent.TYPE_COUNTER).double_counter_value = value

    def write_until(self, ns: int) -> None:
        """Write all events before this time: no earlier one will come."""
        while self._waiting and self._waiting[0][0] < ns:
            self._builder.write_packet(heapq.heappop(self._waiting)[2])

    def close(self) -> None:
        self.write_until(_HUGE_NS)

    def _packet(self, at_ns: int) -> Any:
        packet = self._builder.create_packet()
        packet.timestamp = max(0, at_ns)
        packet.timestamp_clock_id = self._pb.BuiltinClock.BUILTIN_CLOCK_MONOTONIC_RAW
        packet.trusted_packet_sequence_id = SEQUENCE
        return packet

    def _event(self, track: int, at_ns: int, type: int) -> Any:
        packet = self._packet(at_ns)
        packet.track_event.type = type
        packet.track_event.track_uuid = track
        self._put(at_ns, packet)
        return packet.track_event

    def _put(self, at_ns: int, packet: Any) -> None:
        """Events of one time keep their order: an end before the next begin."""
        self._count += 1
        heapq.heappush(self._waiting, (max(0, at_ns), self._count, packet))

    @staticmethod
    def _note(event: Any, notes: Notes | None) -> None:
        for name, value in (notes or {}).items():
            if value is None:
                continue
            note = event.debug_annotations.add()
            note.name = name
            match value:
                case bool():
                    note.bool_value = value
                case int() if -_HUGE_NS <= value < _HUGE_NS:
                    note.int_value = value
                case float():
                    note.double_value = value
                case _:
                    note.string_value = _text(str(value)[:NOTE_MAX])


def _text(words: str) -> str:
    return words.encode("utf-8", "replace").decode()
