"""The Perfetto trace, parsed back with Perfetto's own protos."""

import io
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import BuiltinClock, Trace, TrackEvent

from hwd.model.reconfiguration import ReconfigurationFact
from hwd.report.export import perfetto
from hwd_drivers.core.documents import Document
from hwd_drivers.devices.facts import SwitchPower

from ...answers import check_golden
from ...texts import by_end
from ..conftest import HERE, Recorded

START_NS = 1_700_000_000_000_000_000


@dataclass
class Read:
    """A trace as a reader sees it."""

    tracks: dict[int, Any] = field(default_factory=dict)
    events: list[Any] = field(default_factory=list)
    clocks: list[Any] = field(default_factory=list)

    def path(self, uuid: int) -> tuple[str, ...]:
        track = self.tracks[uuid]
        return (*(self.path(track.parent_uuid) if track.parent_uuid else ()), track.name)

    def on(self, *path: str) -> list[Any]:
        return [one for one in self.events if self.path(one.track_event.track_uuid)[1:] == path]


def read(recorded: Recorded) -> Read:
    """Holds it to what any trace must keep."""
    to = io.BytesIO()
    perfetto(*recorded, to)
    trace = Trace()
    assert trace.ParseFromString(to.getvalue()) == len(to.getvalue())
    found = Read()
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == 1
        if packet.HasField("track_descriptor"):
            assert packet.track_descriptor.uuid not in found.tracks
            assert packet.track_descriptor.parent_uuid in found.tracks or not packet.track_descriptor.parent_uuid
            found.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        elif packet.HasField("clock_snapshot"):
            found.clocks.append(packet)
        else:
            assert packet.track_event.track_uuid in found.tracks
            assert packet.timestamp_clock_id == BuiltinClock.BUILTIN_CLOCK_MONOTONIC_RAW
            found.events.append(packet)
    stamps = [one.timestamp for one in found.events]
    assert stamps == sorted(stamps)
    assert len({found.path(uuid) for uuid in found.tracks}) == len(found.tracks)
    open_slices: dict[int, int] = defaultdict(int)
    for one in found.events:
        event = one.track_event
        counter = found.tracks[event.track_uuid].HasField("counter")
        assert counter is (event.type == TrackEvent.TYPE_COUNTER)
        open_slices[event.track_uuid] += {TrackEvent.TYPE_SLICE_BEGIN: 1, TrackEvent.TYPE_SLICE_END: -1}.get(
            event.type, 0
        )
        assert open_slices[event.track_uuid] >= 0
    assert not any(open_slices.values())
    return found


def told(found: Read) -> Iterator[str]:
    """Each event as a line: when, in ms after the first; on which track; what begins or ends, and which flows go on or
    end in it; and what else is noted of it.
    """
    kinds = {TrackEvent.TYPE_SLICE_BEGIN: "begins", TrackEvent.TYPE_SLICE_END: "ends", TrackEvent.TYPE_INSTANT: "is"}
    flows: list[int] = []
    for one in found.events:
        event = one.track_event
        words = [
            f"{(one.timestamp - found.events[0].timestamp) / 1e6:9.3f}",
            " / ".join(found.path(event.track_uuid)[1:]),
        ]
        words.append(f"{kinds.get(event.type, event.double_counter_value)} {event.name}".rstrip())
        for way, ids in (("flow", event.flow_ids), ("last of flow", event.terminating_flow_ids)):
            flows += [flow for flow in ids if flow not in flows]
            words += [f"{way} {flows.index(flow)}" for flow in ids]
        notes = {note.name: note.string_value or note.double_value for note in event.debug_annotations}
        yield " | ".join([*words, *(f"{name}: {value}" for name, value in notes.items())]) + "\n"


@pytest.mark.parametrize("run", ["recorded", "broken_off"])
def test_trace_is_as_it_was_agreed(request: pytest.FixtureRequest, run: str) -> None:
    """A track for each link under its switch and each port under its host; stages lie in their turnaround; a flow goes
    from a command to the last of what it did; what broke off is told as far as it came.
    """
    check_golden(HERE / f"trace_{run}.txt", "".join(told(read(request.getfixturevalue(run)))))


def test_wall_time_of_any_event_follows_from_the_clocks(recorded: Recorded) -> None:
    found = read(recorded)
    (packet,) = found.clocks
    clocks = {clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks}
    raw, wall = BuiltinClock.BUILTIN_CLOCK_MONOTONIC_RAW, BuiltinClock.BUILTIN_CLOCK_REALTIME
    assert packet.clock_snapshot.primary_trace_clock == raw
    assert clocks[wall] - clocks[raw] == START_NS
    assert recorded[1][0].wall_ns - recorded[1][0].at_ns == START_NS


def test_step_of_the_wall_clock_is_told(recorded: Recorded) -> None:
    run, documents = recorded
    half = len(documents) // 2
    stepped = [replace(one, wall_ns=one.wall_ns + 3_600_000_000_000) for one in documents[half:]]
    assert len(read((run, (*documents[:half], *stepped))).clocks) == 2
    slewed = [replace(one, wall_ns=one.wall_ns + 100_000) for one in documents[half:]]
    assert len(read((run, (*documents[:half], *slewed))).clocks) == 1


def test_power_is_a_counter_in_dbm_and_darkness_a_slice(recorded: Recorded) -> None:
    run, documents = recorded
    at_ns = documents[-1].at_ns

    def power(after_ns: int, power_dbm: float | None) -> Document:
        fact = SwitchPower(switch="ocs1", power_dbm=by_end({"1B": power_dbm, "8B": None}))
        return Document(at_ns=at_ns + after_ns, wall_ns=at_ns + after_ns + START_NS, fact=fact)

    found = read((run, (*documents, power(1, -3.5), power(2, None), power(3, None), power(4, -4.0))))
    (track,) = (one for one in found.tracks.values() if one.name == "power 1B")
    assert track.counter.unit_name == "dBm"
    values = [one.track_event.double_counter_value for one in found.on("switch ocs1", "power 1B")]
    assert values[-2:] == [-3.5, -4.0]
    dark = [one.timestamp - at_ns for one in found.on("switch ocs1", "power 1B, dark")]
    assert dark == [2, 4]
    assert not found.on("switch ocs1", "power 8B, dark"), "never had light"


def test_reconfigurations_that_go_on_at_once_have_lanes_of_their_own(recorded: Recorded) -> None:
    run, documents = recorded
    twin: list[Document] = []
    for one in documents:
        twin.append(one)
        if isinstance(fact := one.fact, ReconfigurationFact):
            other = msgspec.structs.replace(fact, reconfiguration=f"{fact.reconfiguration}-b")
            twin.append(replace(one, fact=other))
    found = read((run, tuple(twin)))
    assert found.on("reconfigurations")
    assert found.on("reconfigurations 2")
    assert found.on("switch ocs1", "commands 2")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=30))
def test_no_text_breaks_the_trace(changed: Callable[[str, str], Recorded], text: str) -> None:
    read(changed("ocs1:1A-3B,3A-1B,2A-4B,4A-2B", text))
