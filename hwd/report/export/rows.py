"""The rows of the table, with the columns of `COLUMNS`."""

import json
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from hwd.model.instant import Instant, InstantName, Knowledge
from hwd.model.recorded_run import Run
from hwd.model.timeline import SwitchCommand
from hwd.report.export.columns import Value
from hwd.report.reconfigurations import RecordedReconfiguration, recorded_reconfigurations
from hwd.report.switch_commands import SwitchCommands, commanded
from hwd.timeline import LinkTimeline, Stage, StageName
from hwd_drivers.core.documents import Document, Json

Row = tuple[Value, ...]


class Subject(StrEnum):
    """The subject of a row."""

    SWITCH = "switch"
    """A switch that was commanded: its control time, and the crossconnects that it made."""
    LINK = "link"
    """One stage of a link."""


def rows(run: Run, documents: Iterable[Document]) -> Iterator[Row]:
    """The rows of a run in the order in which reconfigurations ended: the switches that were commanded, then links and
    their stages in their own order, kept links too.
    """
    for one in recorded_reconfigurations(run, documents):
        yield from switch_rows(run, one)
        for of_link in link_rows(run, one):
            yield from of_link


def switch_rows(run: Run, one: RecordedReconfiguration) -> Iterator[Row]:
    """A row for each switch that was commanded in one reconfiguration."""
    for command, measured in zip(one.timeline.commands, commanded(one), strict=True):
        yield _switch(run, one, command, measured)


def link_rows(run: Run, one: RecordedReconfiguration) -> Iterator[tuple[Row, ...]]:
    """The rows of each link of one reconfiguration, a row for each stage."""
    sweep, settings = _json(one.timeline.sweep), one.timeline.settings
    for link in one.timeline.links:
        of_link = _link(run, one, link)
        set_there: dict[str, Any] = {end: settings[end] for end in link.link.ends if end in settings}
        yield tuple(
            (*of_link, *_stage(link, stage), None, None, None, sweep, _json(set_there)) for stage in link.stages
        )


def _reconfiguration(run: Run, one: RecordedReconfiguration, sent: Instant, subject: Subject) -> Row:
    return (
        run.id,
        run.playbook,
        run.testbed,
        run.virtual_time,
        one.timeline.reconfiguration,
        one.timeline.what,
        one.outcome,
        one.whole,
        sent.at_ns + one.wall_offset_ns if sent.knowledge is Knowledge.SEEN else None,
        str(subject),
    )


def _switch(run: Run, one: RecordedReconfiguration, command: SwitchCommand, measured: SwitchCommands) -> Row:
    sent, answered = command.commanded, command.acknowledged
    seen = measured.control_s is not None
    return (
        *_reconfiguration(run, one, sent, Subject.SWITCH),
        *(None, None, None),
        command.switch,
        False,
        None,
        str(StageName.CONTROL),
        str(Knowledge.SEEN if seen else Knowledge.UNKNOWN),
        measured.control_s,
        measured.error_s,
        max(0, answered.earliest_ns - sent.latest_ns) / 1e9 if seen else None,
        (answered.latest_ns - sent.earliest_ns) / 1e9 if seen else None,
        str(measured.origin) if seen else None,
        None if seen else sent.why or answered.why or "the switch did not answer",
        *_instant(sent),
        *_instant(answered),
        measured.pairs,
        measured.removed,
        measured.commands,
        _json(one.timeline.sweep),
        None,
    )


def _link(run: Run, one: RecordedReconfiguration, link: LinkTimeline) -> Row:
    return (
        *_reconfiguration(run, one, link.instant(InstantName.COMMANDED), Subject.LINK),
        link.link,
        *link.link.ends,
        " ".join(one.switches.get(link.link, ())),
        link.kept,
        link.dwell_s,
    )


def _stage(link: LinkTimeline, stage: Stage) -> Row:
    start, end = link.limits(stage.name)
    least_s, most_s = link.within_s(stage.name) or (None, None)
    return (
        str(stage.name),
        str(stage.knowledge),
        stage.seconds,
        stage.error_s,
        least_s,
        most_s,
        None if stage.origin is None else str(stage.origin),
        stage.why or None,
        *_instant(start),
        *_instant(end),
    )


def _instant(instant: Instant) -> Row:
    if instant.knowledge is not Knowledge.SEEN:
        return str(instant.name), str(instant.knowledge), None, None, None, None, None, None, instant.why or None
    return (
        str(instant.name),
        str(instant.knowledge),
        instant.earliest_ns,
        instant.at_ns,
        instant.latest_ns,
        instant.sampling_ns,
        instant.source,
        str(instant.origin),
        instant.why or None,
    )


def _json(values: Mapping[str, Json] | Mapping[str, Mapping[str, Json]]) -> str | None:
    return json.dumps(values, ensure_ascii=False) if values else None
