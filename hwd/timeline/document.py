"""The `timeline` document: a Timeline as JSON and back."""

from collections.abc import Mapping
from typing import Any

from hwd.model.instant import Instant, InstantName, Knowledge, Origin
from hwd.model.link import Link
from hwd.model.testbed import NicPortId
from hwd.timeline.stage import Stage, StageName
from hwd.timeline.timeline import EndTimeline, LinkTimeline, SwitchCommand, Timeline
from hwd_drivers.kit.documents import Json


def to_data(timeline: Timeline) -> dict[str, Json]:
    """Data of a `timeline` document."""
    return {
        "reconfiguration": timeline.reconfiguration,
        "run": timeline.run,
        "what": timeline.what,
        "commands": [
            {
                "switch": command.switch,
                "commands": command.commands,
                "instants": [_from_instant(command.commanded), _from_instant(command.acknowledged)],
            }
            for command in timeline.commands
        ],
        "ends": [
            {
                "link": str(end.link),
                "end": str(end.end),
                "instants": [_from_instant(instant) for instant in end.instants],
                "observations": [_from_instant(instant) for instant in end.observations],
            }
            for end in timeline.ends
        ],
        "links": [
            {
                "link": str(link.link),
                "kept": link.kept,
                "instants": [_from_instant(instant) for instant in link.instants],
                "stages": [_from_stage(stage) for stage in link.stages],
                "dwell_s": link.dwell_s,
            }
            for link in timeline.links
        ],
        "breaches": list(timeline.breaches),
    }


def from_data(data: Mapping[str, Any]) -> Timeline:
    """Raises KeyError or ValueError on what `to_data` did not make."""
    return Timeline(
        reconfiguration=data["reconfiguration"],
        run=data["run"],
        what=data["what"],
        commands=tuple(
            SwitchCommand(
                switch=command["switch"],
                commands=command["commands"],
                commanded=_to_instant(command["instants"][0]),
                acknowledged=_to_instant(command["instants"][1]),
            )
            for command in data["commands"]
        ),
        ends=tuple(
            EndTimeline(
                link=Link.parse(end["link"]),
                end=NicPortId.parse(end["end"]),
                instants=tuple(map(_to_instant, end["instants"])),
                observations=tuple(map(_to_instant, end["observations"])),
            )
            for end in data["ends"]
        ),
        links=tuple(
            LinkTimeline(
                link=Link.parse(link["link"]),
                kept=link["kept"],
                instants=tuple(map(_to_instant, link["instants"])),
                stages=tuple(map(_to_stage, link["stages"])),
                dwell_s=link["dwell_s"],
            )
            for link in data["links"]
        ),
        breaches=tuple(data["breaches"]),
    )


def _from_instant(instant: Instant) -> dict[str, Json]:
    if instant.knowledge is not Knowledge.SEEN:
        return {"name": str(instant.name), "knowledge": str(instant.knowledge), "why": instant.why}
    return {
        "name": str(instant.name),
        "knowledge": str(instant.knowledge),
        "earliest_ns": instant.earliest_ns,
        "latest_ns": instant.latest_ns,
        "source": instant.source,
        "origin": str(instant.origin),
        "sampling_ns": instant.sampling_ns,
        "why": instant.why,
    }


def _to_instant(data: Mapping[str, Any]) -> Instant:
    name, knowledge = InstantName(data["name"]), Knowledge(data["knowledge"])
    if knowledge is not Knowledge.SEEN:
        return Instant(name=name, knowledge=knowledge, why=data["why"])
    return Instant(
        name=name,
        knowledge=knowledge,
        earliest_ns=data["earliest_ns"],
        latest_ns=data["latest_ns"],
        source=data["source"],
        origin=Origin(data["origin"]),
        sampling_ns=data["sampling_ns"],
        why=data["why"],
    )


def _from_stage(stage: Stage) -> dict[str, Json]:
    return {
        "stage": str(stage.name),
        "knowledge": str(stage.knowledge),
        "seconds": stage.seconds,
        "error_s": stage.error_s,
        "origin": None if stage.origin is None else str(stage.origin),
        "why": stage.why,
    }


def _to_stage(data: Mapping[str, Any]) -> Stage:
    return Stage(
        name=StageName(data["stage"]),
        knowledge=Knowledge(data["knowledge"]),
        seconds=data["seconds"],
        error_s=data["error_s"],
        origin=None if data["origin"] is None else Origin(data["origin"]),
        why=data["why"],
    )
