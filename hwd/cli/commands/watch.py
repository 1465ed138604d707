"""The command `hwd watch`: live events."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from hwd.cli.daemon import connect
from hwd.cli.options import JsonLines, Url
from hwd.cli.output import Output, seconds, words
from hwd.cli.times import begin_at
from hwd.model.plural import plural
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.standard_streams import end_with_reader

if TYPE_CHECKING:
    from hwd.model.rc_recovery import RcRecovery
    from hwd.model.stage import Stage
    from hwd.model.timeline import Timeline

SHOWN_STAGES = ("control", "optical", "firmware", "carrier", "rdma", "ready", "turnaround")
QUIET = (
    *("host.event", "switch.power", "clock.aligned", "switch.read", "daemon.lag", "daemon.disk", "run.state"),
    *("transfer.claimed", "transfer.ended"),
)
"""Kinds that come by the hundred; `hwd watch --all` shows them."""

commands = typer.Typer(rich_markup_mode=None)


@commands.command(epilog="Example: hwd watch --kind run. --kind timeline")
def watch(
    kind: Annotated[
        list[str] | None, typer.Option("--kind", metavar="KIND", help="Only this kind; `run.` is all that begin so.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Show what comes by the hundred, too.")] = False,
    after: Annotated[
        str | None, typer.Option("--after", metavar="ID", help="Begin after this event; 0 begins with the oldest kept.")
    ] = None,
    since_: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Begin with what happened since then: 5m (so long ago), 22:30, or 2027-01-10 22:30, here.",
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            "--count",
            metavar="N",
            min=1,
            help="End after so many, with those of --since or --after; where they are fewer, it waits for the rest.",
        ),
    ] = None,
    url: Url = None,
    json: JsonLines = False,
) -> None:
    """Live events and timelines, until Ctrl-C. After a lost connection it continues without a gap.

    It begins with what happens next, or, with --since or --after, with what has happened: the daemon keeps its last
    10000 events, until it ends. Then it goes on with what happens next.
    """
    from hwd.client.async_client import OLDEST

    output = Output(json=json)
    end_with_reader()
    _check_kinds(kind or ())
    if after is not None and since_ is not None:
        raise ConfigError("--after, --since: name one of them")
    begin_ns = None if since_ is None else begin_at(since_, SystemClock().wall_ns())
    seen = 0
    after = OLDEST if after == "0" or begin_ns is not None else after
    with connect(url) as hwd, hwd.events(after=after, kinds=kind or (), say=output.note) as events:
        for event in events:
            if event.document is None:
                output.note(missed_line(event.missed, since=since_ if seen == 0 else None))
                continue
            if begin_ns is not None and event.document.wall_ns < begin_ns:
                continue
            if not (all_ or kind or json) and event.document.kind in QUIET:
                continue
            show(output, event.document, event.id)
            seen += 1
            if count is not None and seen >= count:
                return


def missed_line(count: int, *, since: str | None) -> str:
    """What is said of events that the daemon no longer has; `since` where nothing was shown yet."""
    if since is None:
        return f"{plural(count, 'event')} missed"
    return f"the daemon no longer has its {plural(count, 'oldest event')}; any of them since {since} are not shown"


def _check_kinds(kinds: Sequence[str]) -> None:
    """Raises ConfigError for a kind that no document has: nothing would ever be shown."""
    from hwd.model.kinds import KINDS

    known = {*KINDS, *(f"{kind.partition('.')[0]}." for kind in KINDS if "." in kind)}
    for kind in kinds:
        if kind not in known:
            from hwd.config.yaml.file_problem import nearest

            raise ConfigError(f"--kind {kind}: no such kind; {nearest(kind, known)}")


def show(output: Output, document: Document, id: str) -> None:
    """One event: a line, and under a timeline a table of its links."""
    if output.json:
        output.line({"id": id, **document.to_data()})
        return
    from hwd.model.switch import SwitchOverrun
    from hwd.model.timeline import Timeline
    from hwd_drivers.devices.facts import SwitchOverride, SwitchRestarted

    at = datetime.fromtimestamp(document.wall_ns / 1e9, UTC).astimezone()
    data = document.fact.to_data()
    line = f"{at:%H:%M:%S}.{at.microsecond // 1000:03d} {document.kind} {words(data)}"
    match document.fact:
        case SwitchOverrun(lost=lost) | SwitchRestarted(lost=lost):
            output.say(f"{line} lost={','.join(lost)}")
        case SwitchOverride(ends=ends):
            output.say(f"{line} ends={','.join(ends)}")
        case Timeline() as timeline:
            output.say(line)
            show_timeline(output, timeline)
        case _:
            output.say(line)


def show_timeline(output: Output, timeline: "Timeline") -> None:
    rows = []
    for link in timeline.links:
        stages = {str(stage.name): stage for stage in link.stages}
        figures = [_stage(stages.get(name)) for name in SHOWN_STAGES]
        rows.append((f"  {link.link}{' (kept)' if link.kept else ''}", *figures))
    if rows:
        output.table(("  link", *SHOWN_STAGES), rows)
    for end in timeline.ends:
        if end.rc:
            output.say(f"  {end.end}: {_recovery(end.rc)}")
    for breach in timeline.breaches:
        output.say(f"  order broken: {breach}")


def _recovery(rc: "RcRecovery") -> str:
    after = "" if rc.after_carrier_s is None else f" {seconds(rc.after_carrier_s)} after its carrier"
    why = f" ({rc.why})" if rc.why else ""
    retries = plural(rc.retries, "retry", many="retries")
    return f"rc {rc.outcome}{after}, ACK timeout {seconds(rc.ack_timeout_s)}, {retries}{why}"


def _stage(stage: "Stage | None") -> str:
    if stage is None:
        return ""
    return str(stage.knowledge) if stage.seconds is None else seconds(stage.seconds)
