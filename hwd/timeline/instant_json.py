"""Instants and stages as JSON, and back: what the `timeline` document is made of."""

from collections.abc import Mapping
from typing import Any

from hwd.model.instant import Instant, InstantName, Knowledge, Origin
from hwd.timeline.stage import Stage, StageName
from hwd_drivers.core.documents import Json


def instant_data(instant: Instant) -> dict[str, Json]:
    if instant.knowledge is not Knowledge.SEEN:
        return {"name": str(instant.name), "knowledge": str(instant.knowledge), "why": instant.why}
    return {
        "name": str(instant.name),
        "knowledge": str(instant.knowledge),
        "earliest_ns": instant.earliest_ns,
        "latest_ns": instant.latest_ns,
        "best_ns": instant.best_ns,
        "source": instant.source,
        "origin": str(instant.origin),
        "sampling_ns": instant.sampling_ns,
        "why": instant.why,
    }


def read_instant(data: Mapping[str, Any]) -> Instant:
    """Raises KeyError or ValueError on what `instant_data` did not make."""
    name, knowledge = InstantName(data["name"]), Knowledge(data["knowledge"])
    if knowledge is not Knowledge.SEEN:
        return Instant(name=name, knowledge=knowledge, why=data["why"])
    return Instant(
        name=name,
        knowledge=knowledge,
        earliest_ns=data["earliest_ns"],
        latest_ns=data["latest_ns"],
        best_ns=data["best_ns"],
        source=data["source"],
        origin=Origin(data["origin"]),
        sampling_ns=data["sampling_ns"],
        why=data["why"],
    )


def stage_data(stage: Stage) -> dict[str, Json]:
    return {
        "name": str(stage.name),
        "knowledge": str(stage.knowledge),
        "seconds": stage.seconds,
        "error_s": stage.error_s,
        "origin": None if stage.origin is None else str(stage.origin),
        "why": stage.why,
    }


def read_stage(data: Mapping[str, Any]) -> Stage:
    """Raises KeyError or ValueError on what `stage_data` did not make."""
    return Stage(
        name=StageName(data["name"]),
        knowledge=Knowledge(data["knowledge"]),
        seconds=data["seconds"],
        error_s=data["error_s"],
        origin=None if data["origin"] is None else Origin(data["origin"]),
        why=data["why"],
    )
