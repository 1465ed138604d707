"""The rows of the table: what `COLUMNS` says, in its order."""

from collections.abc import Iterable, Iterator

from hwd.model.instant import Instant, InstantName, Knowledge
from hwd.records import Run
from hwd.report.export.columns import Value
from hwd.report.reconfigured import Reconfigured, reconfigured
from hwd.timeline import LinkTimeline, Stage
from hwd_drivers.kit.documents import Document

Row = tuple[Value, ...]


def rows(run: Run, documents: Iterable[Document]) -> Iterator[Row]:
    """In the order in which reconfigurations ended, their links and stages in their own; kept links too."""
    for one in reconfigured(run, documents):
        for link in one.timeline.links:
            of_link = _link(run, one, link)
            for stage in link.stages:
                yield (*of_link, *_stage(link, stage))


def _link(run: Run, one: Reconfigured, link: LinkTimeline) -> Row:
    commanded = link.instant(InstantName.COMMANDED)
    seen = commanded.knowledge is Knowledge.SEEN
    return (
        run.id,
        run.playbook,
        run.testbed,
        run.virtual_time,
        one.timeline.reconfiguration,
        one.timeline.what,
        one.outcome,
        one.whole,
        commanded.at_ns + one.wall_offset_ns if seen else None,
        str(link.link),
        str(link.link.a),
        str(link.link.b),
        " ".join(one.switches.get(str(link.link), ())),
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
