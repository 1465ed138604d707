"""The CSV and Parquet table: its columns, and for each reconfiguration a row for each switch that was commanded and one
for each stage of each link.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hwd.model.instant import Instant, InstantName, Knowledge
from hwd.model.recorded_run import Run
from hwd.model.timeline import SwitchCommand
from hwd.report.reconfigurations import RecordedReconfiguration, recorded_reconfigurations
from hwd.report.switch_commands import SwitchCommands, commanded
from hwd.timeline import LinkTimeline, Stage, StageName
from hwd_drivers.core.documents import Document, Json

Value = str | int | float | bool | None
"""A cell; None where the value is unknown."""
Row = tuple[Value, ...]
"""The cells of a row, in the order of `COLUMNS`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """An export's column; `type`: of its values, str, bool, int (64 bits) or float. An `optional` one may be empty."""

    name: str
    type: type
    means: str
    optional: bool = False


def _columns_of_instant(which: str, words: str) -> tuple[Column, ...]:
    return (
        Column(name=f"{which}_instant", type=str, means=f"the instant {words} the stage {which}s"),
        Column(name=f"{which}_knowledge", type=str, means="seen, unknown or never-left"),
        Column(
            name=f"{which}_earliest_ns",
            type=int,
            optional=True,
            means="not before this, on the daemon's monotonic clock",
        ),
        Column(name=f"{which}_best_ns", type=int, optional=True, means="most likely then"),
        Column(name=f"{which}_latest_ns", type=int, optional=True, means="not after this"),
        Column(
            name=f"{which}_sampling_ns",
            type=int,
            optional=True,
            means="polling interval of its source; 0: the source is notified",
        ),
        Column(
            name=f"{which}_source", type=str, optional=True, means="the end or daemon that decided, and what it read"
        ),
        Column(name=f"{which}_origin", type=str, optional=True, means="measured, kernel, twin or fitted"),
        Column(name=f"{which}_why", type=str, optional=True, means="why it is not seen, or a remark"),
    )


COLUMNS: tuple[Column, ...] = (
    Column(name="run", type=str, means="id of the run"),
    Column(name="playbook", type=str, means="what was run"),
    Column(name="testbed", type=str, means="where"),
    Column(name="virtual_time", type=bool, means="true: the seconds are simulated ones"),
    Column(name="reconfiguration", type=str, means="id of the reconfiguration"),
    Column(name="topology", type=str, means="the wanted topology"),
    Column(
        name="outcome", type=str, optional=True,
        means="confirmed, rolled-back, failed or aborted; empty: its end is not recorded",
    ),
    Column(name="whole", type=bool, means="false: the run broke off in it, and a missing event means nothing"),
    Column(
        name="commanded_wall_ns", type=int, optional=True,
        means="unix time of the first command of the link or switch, by the daemon's wall clock",
    ),
    Column(name="subject", type=str, means="the subject of the row: switch, or link"),
    Column(
        name="link", type=str, optional=True,
        means="both ends, `h0.eth0<->h1.eth0`; empty in rows of a switch, as the ends are",
    ),
    Column(name="end_a", type=str, optional=True, means="its first end"),
    Column(name="end_b", type=str, optional=True, means="its second end"),
    Column(name="switches", type=str, means="the switch; of a link all on its path, separated by spaces"),
    Column(name="kept", type=bool, means="true: none of the link's crossconnects moved; false in rows of a switch"),
    Column(name="dwell_s", type=float, optional=True, means="time since its last reconfiguration; empty: unknown"),
    Column(name="stage", type=str, means="the stage; see docs/explanations/timeline.md. Of a switch: control"),
    Column(name="knowledge", type=str, means="seen, unknown or never-left"),
    Column(name="seconds", type=float, optional=True, means="its most likely duration"),
    Column(name="error_s", type=float, optional=True, means="sum of the bounds of its two instants"),
    Column(name="least_s", type=float, optional=True, means="not shorter than this, by those bounds"),
    Column(name="most_s", type=float, optional=True, means="not longer than this"),
    Column(name="origin", type=str, optional=True, means="the weakest origin of the instants that determine it"),
    Column(name="why", type=str, optional=True, means="what is missing, or a remark"),
    *_columns_of_instant("start", "at which"),
    *_columns_of_instant("end", "at which"),
    Column(name="pairs", type=int, optional=True, means="crossconnects that the switch made; empty in rows of links"),
    Column(name="removed", type=int, optional=True, means="crossconnects that it removed; likewise"),
    Column(
        name="commands", type=int, optional=True,
        means="number of commands for that, all within its control time; likewise",
    ),
    Column(name="sweep", type=str, optional=True, means="sweep variables of the playbook with their values, as JSON"),
    Column(
        name="settings", type=str, optional=True,
        means="settings of the link's NIC ports that runs had made, by port, as JSON; empty: none",
    ),
)  # fmt: skip


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


def _reconfiguration(run: Run, one: RecordedReconfiguration, sent: Instant, subject: str) -> Row:
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
        subject,
    )


def _switch(run: Run, one: RecordedReconfiguration, command: SwitchCommand, measured: SwitchCommands) -> Row:
    sent, answered = command.commanded, command.acknowledged
    seen = measured.control_s is not None
    return (
        *_reconfiguration(run, one, sent, "switch"),
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
        *_reconfiguration(run, one, link.instant(InstantName.COMMANDED), "link"),
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
