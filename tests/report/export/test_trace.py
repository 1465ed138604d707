"""The Perfetto trace, parsed back with Perfetto's own protos."""

import io
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import BuiltinClock, Trace, TrackEvent

from hwd.model.documents.reconfigurations import ReconfigurationFact
from hwd.model.recorded_run import Run
from hwd.model.timeline import Timeline
from hwd.report.export import perfetto
from hwd.report.export.trace import SLACK_NS
from hwd_drivers.core.documents import Document
from hwd_drivers.devices.facts import SwitchPower

Recorded = tuple[Run, tuple[Document, ...]]
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


def flows(found: Read) -> dict[int, list[Any]]:
    through: dict[int, list[Any]] = defaultdict(list)
    for one in found.events:
        for flow in (*one.track_event.flow_ids, *one.track_event.terminating_flow_ids):
            through[flow].append(one)
    return through


def test_each_link_has_a_track_under_its_switch_and_each_port_under_its_host(recorded: Recorded) -> None:
    found = read(recorded)
    paths = {found.path(uuid)[1:] for uuid in found.tracks}
    for link in ("h0.eth0<->h1.eth0", "h0.eth1<->h1.eth1", "h0.eth0<->h1.eth1", "h0.eth1<->h1.eth0"):
        assert ("switch ocs1", link) in paths
    for port in ("h0.eth0", "h0.eth1", "h1.eth0", "h1.eth1"):
        assert (f"host {port[:2]}", port) in paths


def test_stages_of_a_link_lie_in_its_turnaround_one_after_the_other(recorded: Recorded) -> None:
    found = read(recorded)
    (timeline, _) = (one.fact for one in recorded[1] if isinstance(one.fact, Timeline))
    link = timeline.links[0]
    events = found.on("switch ocs1", link.link)
    names = [one.track_event.name for one in events if one.track_event.type == TrackEvent.TYPE_SLICE_BEGIN]
    assert names[0] == timeline.what
    assert names[1:] == [name for name in ("optical", "firmware", "carrier", "rdma", "ready") if name in names[1:]]
    instants = {str(instant.name): instant.best_ns or instant.earliest_ns for instant in link.instants}
    assert events[0].timestamp == instants["commanded"]
    assert events[-1].timestamp == pytest.approx(instants["ready"], abs=1)


def test_flows_go_from_a_command_to_the_last_of_what_it_did(recorded: Recorded) -> None:
    found = read(recorded)
    through = flows(found)
    assert len(through) == 2 * 2 * 2, "each end of each link of each reconfiguration"
    for flow, events in through.items():
        first, *_, last = events
        assert len(events) >= 3
        assert found.path(first.track_event.track_uuid)[-1] == "switch ocs1"
        assert first.track_event.name.startswith("command ")
        assert [flow in one.track_event.terminating_flow_ids for one in events] == [False] * (len(events) - 1) + [True]
        assert last.track_event.name == "ready"
        ends = {found.path(one.track_event.track_uuid)[-1] for one in events[1:]}
        assert len(ends) == 1, "one port"


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
        fact = SwitchPower(switch="ocs1", power_dbm={"1B": power_dbm, "8B": None})
        return Document(at_ns=at_ns + after_ns, wall_ns=at_ns + after_ns + START_NS, fact=fact)

    found = read((run, (*documents, power(1, -3.5), power(2, None), power(3, None), power(4, -4.0))))
    (track,) = (one for one in found.tracks.values() if one.name == "power 1B")
    assert track.counter.unit_name == "dBm"
    values = [one.track_event.double_counter_value for one in found.on("switch ocs1", "power 1B")]
    assert values[-2:] == [-3.5, -4.0]
    dark = [one.timestamp - at_ns for one in found.on("switch ocs1", "power 1B, dark")]
    assert dark == [2, 4]
    assert not found.on("switch ocs1", "power 8B, dark"), "never had light"


def test_run_that_broke_off_is_told_as_far_as_it_came(broken_off: Recorded) -> None:
    found = read(broken_off)
    names = [one.track_event.name for one in found.on("reconfigurations")]
    assert "ocs1:1A-4B,4A-1B,2A-3B,3A-2B" in names
    notes = {
        note.name: note.string_value
        for one in found.on("reconfigurations")
        for note in one.track_event.debug_annotations
        if one.track_event.name == "ocs1:1A-4B,4A-1B,2A-3B,3A-2B"
    }
    assert notes["outcome"] == "its end is not recorded"
    assert len([one for one in found.on("switch ocs1") if one.track_event.name.startswith("command ")]) == 2


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


def test_same_run_gives_the_same_bytes(recorded: Recorded) -> None:
    first, second = io.BytesIO(), io.BytesIO()
    perfetto(*recorded, first)
    perfetto(*recorded, second)
    assert first.getvalue() == second.getvalue()


class Nowhere(io.BytesIO):
    """Counts bytes and keeps none."""

    size = 0

    def write(self, data: Any) -> int:
        self.size += len(data)
        return len(data)


@pytest.mark.slow
def test_hundred_thousand_documents_need_no_more_memory_than_some(recorded: Recorded) -> None:
    run, documents = recorded
    times = 100_000 // len(documents) + 1
    lasts_ns = documents[-1].at_ns + 10 * SLACK_NS

    def many() -> Iterator[Document]:
        for repeat in range(times):
            later_ns = repeat * lasts_ns
            for one in documents:
                fact = one.fact
                if isinstance(fact, ReconfigurationFact):
                    fact = msgspec.structs.replace(fact, reconfiguration=f"{fact.reconfiguration}-{repeat}")
                yield replace(one, at_ns=one.at_ns + later_ns, wall_ns=one.wall_ns + later_ns, fact=fact)

    to = Nowhere()
    tracemalloc.start()
    perfetto(run, many(), to)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert to.size > 10_000_000
    assert most < 10_000_000
