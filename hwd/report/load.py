"""A run and what a report needs of it, read from the records."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from hwd.records import Records, Run
from hwd.records.records import Stored
from hwd.timeline import Timeline
from hwd_drivers.kit.documents import Document

_KINDS = ("timeline", "reconfiguration.ended", "host.lost", "run.step")
_PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How one reconfiguration ended."""

    reconfiguration: str
    outcome: str
    why: str
    seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """One run with its timelines in their order. `timings`: names of the timings that its twins draw from; empty on hardware.

    `events_lost`: what agents said that they could not hold or see. `steps_failed`: texts of steps that failed.
    """

    run: Run
    timelines: tuple[Timeline, ...]
    endings: tuple[Ending, ...]
    timings: frozenset[str]
    events_lost: int
    steps_failed: tuple[str, ...]


async def load(records: Records, ids: Iterable[str]) -> tuple[RunReport, ...]:
    """Runs by id or the start of it. Raises ConfigError where one is not there."""
    return tuple([await _load(records, id) for id in ids])


async def _load(records: Records, id: str) -> RunReport:
    run = await records.run(id)
    found: list[Stored] = []
    while page := await records.documents(run=run.id, kinds=_KINDS, after=found[-1].id if found else 0, limit=_PAGE):
        found += page
    return of_documents(run, (stored.document for stored in found))


def of_documents(run: Run, documents: Iterable[Document]) -> RunReport:
    """The same from the documents of a run, oldest first, wherever they come from; kinds that a report does not need are passed over."""
    by_kind: dict[str, list[Mapping[str, Any]]] = {kind: [] for kind in _KINDS}
    for document in documents:
        if document.kind in by_kind:
            by_kind[document.kind].append(document.data)
    return RunReport(
        run=run,
        timelines=tuple(Timeline.from_data(data) for data in by_kind["timeline"]),
        endings=tuple(
            Ending(
                reconfiguration=data["reconfiguration"],
                outcome=data["outcome"],
                why=data["why"] or "",
                seconds=data["seconds"],
            )
            for data in by_kind["reconfiguration.ended"]
        ),
        timings=frozenset(timings(run)),
        events_lost=sum(data["count"] for data in by_kind["host.lost"]),
        steps_failed=tuple(
            f"step {data['step']}: {data['what']}" for data in by_kind["run.step"] if data["state"] == "failed"
        ),
    )


def timings(run: Run) -> Iterator[str]:
    """Every `timing` that the run's testbed names, wherever it stands."""
    try:
        parsed = yaml.safe_load(run.testbed_text)
    except yaml.YAMLError:  # the loader of testbeds told about it; a report of what did run is still wanted
        return
    pending: list[Any] = [parsed]
    while pending:
        match pending.pop():
            case dict() as part:
                if isinstance(name := part.get("timing"), str):
                    yield name
                pending += part.values()
            case list() as part:
                pending += part
