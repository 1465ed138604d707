"""`hwd status` and `hwd watch`: the present state, and live events."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from hwd.cli.commands.leases import show_leases
from hwd.cli.commands.sets import show_sets
from hwd.cli.options import READY_WITHIN_S, Json, JsonLines, Url
from hwd.cli.output import Output, StyledText, coloured, seconds, words
from hwd.cli.run_steps import pause_reason
from hwd.cli.status_lines import alert_lines, change_lines, disk_line, orphan_line, since, storage_lines
from hwd.cli.times import begin_at
from hwd.model.local_time import time_of_day
from hwd.model.plural import plural
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.standard_streams import end_with_reader

if TYPE_CHECKING:
    from hwd.model.desired_state import SwitchDesired, UnlitLink
    from hwd.model.hang import Hang
    from hwd.model.host import HostPort, HostStatus
    from hwd.model.prepared_set import PreparedSetStatus
    from hwd.model.rc_recovery import RcRecovery
    from hwd.model.reconfiguration import LeftOpen, ReconfigurationStatus
    from hwd.model.run import RunProgress
    from hwd.model.stage import Stage
    from hwd.model.status import Status
    from hwd.model.switch import CompositeStatus, LinkStatus, SwitchStatus
    from hwd.model.timeline import Timeline

SHOWN_STAGES = ("control", "optical", "firmware", "carrier", "rdma", "ready", "turnaround")
SHOWN_ENDS = 6
"""Names in one line; all of them are in the JSON."""
AWAITING_CONFIRM = "awaiting-confirm"
CARRIER_HELD_S = 2.0
"""A kernel holds the notice that a carrier was lost back for up to a second, so it may come after the crossconnect."""
CARRIER = {True: "up", False: "down", None: "unknown"}
QUIET = (
    *("host.event", "switch.power", "clock.aligned", "switch.read", "daemon.lag", "daemon.disk", "run.state"),
    *("transfer.claimed", "transfer.ended"),
)
"""Kinds that come by the hundred; `hwd watch --all` shows them."""


def add_to(program: typer.Typer) -> None:
    program.command(epilog="Example: hwd status --json")(status)
    program.command(epilog="Example: hwd watch --kind run. --kind timeline")(watch)


def status(url: Url = None, json: Json = False) -> None:
    """Switches, agents, links, leases and runs, in one screen."""
    from hwd.client import Client

    output = Output(json=json)
    with Client.find(url) as hwd:
        now = hwd.status()
    bus = "connected" if now.bus.connected else "not connected"
    at = now.wall_ns
    began = f" since {since(now.bus.since_wall_ns, at)}" if now.bus.since_wall_ns is not None else ""
    output.say(f"testbed {now.testbed}, hwd {now.version}, broker {now.bus.address} ", coloured(bus), began)
    for parts in (*alert_lines(now.alerts, at), *storage_lines(now.journal, now.records), disk_line(now.disk, at)):
        if parts:
            output.say(*parts)
    output.say()
    desired = {one.switch: one for one in now.desired}
    awaits = all_await_confirm(now)
    rows = [
        (*switch_row(switch), desired_words(desired.get(switch.switch), awaits=awaits), since(switch.since_wall_ns, at))
        for switch in now.switches
    ]
    output.table(("switch", "state", "what", "crossconnects", "desired", "since"), rows)
    if found := [row for one in now.desired for row in difference_rows(one)]:
        output.say()
        output.table(("differs", "desired", "observed", "desired by"), found)
        output.say("`hwd restore` brings back what is desired; `hwd restore --dry-run` shows what that would move")
        output.say()
    for line in change_lines(now.switches, at):
        output.say(line)
    for switch in now.switches:
        for parts in overrun_lines(switch):
            output.say(*parts)
        if restart := restart_line(switch, now.sets):
            output.say(restart)
    if now.orphans:
        output.say(orphan_line(now.orphans))
    if now.composites:
        output.say()
        output.table(("composite", "state", "crossconnects"), [composite_row(one) for one in now.composites])
    output.say()
    connected = now.bus.connected
    rows = [
        (*host_row(host, connected=connected), since(host.since_wall_ns, at)) for host in with_joint_advice(now.hosts)
    ]
    output.table(("host", "state", "clock", "ports with carrier", "since"), rows)
    for host in now.hosts:
        for line in (*skew_lines(host), *port_lines(host), *spool_lines(host), *trouble_lines(host)):
            output.say(line)
    output.say()
    if now.lit or now.unlit:
        links = [(*link_row(link), since(link.since_wall_ns, at)) for link in now.lit]
        unlit = [(one.link, unlit_words(one, now.reconfigurations), "") for one in now.unlit]
        output.table(("link", "state", "since"), [*links, *unlit])
        for line in hang_lines(now.lit, now.reconfigurations, at):
            output.say(line)
    else:
        output.say(no_links(now.switches))
    output.say()
    show_leases(output, [*now.leases, *now.lease_requests])
    for transfer in now.transfers:
        output.say(str(transfer))
    for program in now.programs:
        output.say(str(program))
    for job in now.jobs:
        output.say(str(job))
    if now.sets:
        output.say()
        show_sets(output, now.sets)
    for ended in now.ended_sets:
        output.say(f"{since(ended.ended_wall_ns, at)} {ended}")
    for one in now.reconfigurations:
        name = f"reconfiguration {one.reconfiguration} ({one.what})"
        output.say(f"{name} ", coloured(one.state), confirm_words(one, at))
    for interrupted in now.open:
        output.say(left_open(interrupted))
    for hold in now.held:
        output.say(hold.why)
    for run in now.runs:
        output.say(run_line(run))
    if now.queue:
        output.say(f"{plural(len(now.queue), 'run')} in the queue: hwd queue")
    output.data(now)


def run_line(run: "RunProgress") -> str:
    """`run k3v9 (smoke): 2 of 5 steps, wait until ready (waiting), about 40 s to go`."""
    stage = f" ({run.stage})" if run.stage else ""
    reason = pause_reason(run.run, run.state, waits_for=run.waits_for, by=run.by)
    what = reason or f"{run.what or 'about to begin'}{stage}"
    left = f", about {seconds(run.expected_s)} to go" if run.expected_s else ""
    return f"run {run.run} ({run.playbook}): {run.done} of {plural(run.total, 'step')}, {what}{left}"


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
    from hwd.client import Client
    from hwd.client.async_client import OLDEST

    output = Output(json=json)
    end_with_reader()
    _check_kinds(kind or ())
    if after is not None and since_ is not None:
        raise ConfigError("--after, --since: name one of them")
    begin_ns = None if since_ is None else begin_at(since_, SystemClock().wall_ns())
    seen = 0
    after = OLDEST if after == "0" or begin_ns is not None else after
    with Client.find(url) as hwd, hwd.events(after=after, kinds=kind or (), say=output.note) as events:
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


def switch_row(switch: "SwitchStatus") -> tuple[object, ...]:
    """A switch in the table of `hwd status`."""
    if switch.up is None:
        return switch.switch, "unknown", f"{_owned(switch)}; {switch.cause}", ""
    if not switch.up:
        return (
            switch.switch,
            "down",
            f"{_owned(switch)}; {switch.cause}" if switch.owner else switch.cause,
            "",
        )
    states: dict[str, int] = {}
    for crossconnect in switch.readings:
        states[crossconnect.state] = states.get(crossconnect.state, 0) + 1
    counted = (
        ", ".join(f"{count}" if state == "unstated" else f"{count} {state}" for state, count in sorted(states.items()))
        or "none"
    )
    if dark := switch.blocked:
        more = f" and {len(dark) - SHOWN_ENDS} more" if len(dark) > SHOWN_ENDS else ""
        counted += f"; {', '.join(dark[:SHOWN_ENDS])}{more} held dark"
    what = f"{switch.vendor} {switch.model} {switch.serial}"
    if switch.owner:
        what, counted = (
            f"{_owned(switch)}; {what}",
            ", ".join(switch.crossconnects) or "none",
        )
    return switch.switch, "up", what, counted


def all_await_confirm(now: "Status") -> bool:
    """Whether there is something that changes ports, and all of it awaits its confirm."""
    others = now.sets or now.open
    return not others and {one.state for one in now.reconfigurations} == {AWAITING_CONFIRM}


def desired_words(desired: "SwitchDesired | None", *, awaits: bool = False) -> str:
    """`8, as desired`, `8, 1 missing, 1 stale`: how many crossconnects are desired of a switch, and what differs.

    Ports that a reconfiguration changes are neither; `awaits`: all that are under way await their confirm.
    """
    if desired is None:
        return "nothing yet"
    counts = {"missing": desired.missing, "stale": desired.stale, "not asked for": desired.unasked}
    found = [f"{len(some)} {word}" for word, some in counts.items() if some]
    if desired.unknown is not None:
        found.insert(0, "unknown whether it is so")
    elif not desired.differs and not desired.changing:
        found.insert(0, "as desired")
    elif not desired.differs and _has_others(desired):
        found.insert(0, "the rest as desired")
    if desired.changing:
        does = f"await{'s' if len(desired.changing) == 1 else ''} a confirm" if awaits else "changing"
        found.insert(0, f"{plural(len(desired.changing), 'port')} {does}")
    return f"{len(desired.crossconnects)}, {', '.join(found)}"


def _has_others(desired: "SwitchDesired") -> bool:
    """Whether something is desired of ports that no reconfiguration changes."""
    return any(f"{desired.switch}.{end.port}" not in desired.changing for end in desired.by)


def unlit_words(one: "UnlitLink", under_way: "Sequence[ReconfigurationStatus]") -> str:
    """The state of a link that is wanted and not made: it is missing, or a reconfiguration under way took it away."""
    if any(each.id == one.reconfiguration and each.confirm_in_s is not None for each in under_way):
        return f"taken away by {one.reconfiguration}; comes back unless that is confirmed"
    return str(one)


def confirm_words(one: "ReconfigurationStatus", now_wall_ns: int | None) -> str:
    """` until 12:04:05, for another 58.2 s; then it goes back, unless: hwd confirm k3v9`; empty without a wait."""
    if one.confirm_in_s is None:
        return ""
    until = "" if now_wall_ns is None else f" until {time_of_day(now_wall_ns + round(one.confirm_in_s * 1e9))}"
    return f"{until}, for another {seconds(one.confirm_in_s)}; then it goes back, unless: hwd confirm {one.id}"


def difference_rows(desired: "SwitchDesired") -> list[tuple[object, ...]]:
    """What differs at one switch: each missing crossconnect with what has its ends, then all else that is stale."""
    name, wanted, stale = desired.switch, desired.by, desired.stale or ()
    rows: list[tuple[object, ...]] = []
    shown: set[str] = set()
    for one in desired.missing or ():
        instead = [other for other in stale if not set(other.ends).isdisjoint(one.ends)]
        shown.update(instead)
        rows.append((f"{name}:{one}", one, ", ".join(instead) or "nothing", wanted[one.a]))
    for one in stale:
        if one not in shown:
            free = [end for end in one.ends if end in desired.free]
            words = f"{', '.join(free)} free" if free else "another one"
            rows.append((f"{name}:{one}", words, one, next(wanted[end] for end in one.ends if end in wanted)))
    return rows


def _owned(switch: "SwitchStatus") -> str:
    """`host h0, epoch 7`: the host that sets it."""
    lease = switch.lease
    if lease is None:
        return f"host {switch.owner}, no lease yet"
    revoked = ", taken back" if lease.state == "taken-back" else ""
    return f"host {switch.owner}, epoch {lease.epoch}{revoked}"


def composite_row(composite: "CompositeStatus") -> tuple[object, ...]:
    """A composite in the table of `hwd status`: what its elements join."""
    away = composite.away
    return composite.composite, f"{_many(away)} down" if away else "up", _many(composite.crossconnects) or "none"


def link_row(link: "LinkStatus") -> tuple[object, ...]:
    """A link in the table of `hwd status`: its light is unknown while a switch on its path is down."""
    away = link.away
    return link.link, f"{CARRIER[link.carrier]}{f', {_many(away)} {_is(away)} down' if away else ''}"


def hang_lines(
    links: "Sequence[LinkStatus]", under_way: "Sequence[ReconfigurationStatus]", now_wall_ns: int | None
) -> list[str]:
    """Where the links that are not up hang, one line each. A link is coming up while a reconfiguration waits for it,
    and for `READY_WITHIN_S` after its crossconnects were made, unless its carrier came and was lost again.
    """
    waited_for = {link for one in under_way if one.state != AWAITING_CONFIRM for link in one.links}

    def words(link: "LinkStatus", hang: "Hang") -> str:
        if hang.link in waited_for or _is_new(link, now_wall_ns):
            return f"{hang.link} is coming up, {hang.words.replace('hangs at', 'waits at', 1)}"
        return str(hang)

    return [words(link, link.hang) for link in links if link.hang is not None]


def _is_new(link: "LinkStatus", now_wall_ns: int | None) -> bool:
    made_ns, since_ns = link.made_wall_ns, link.since_wall_ns
    if made_ns is None or now_wall_ns is None or now_wall_ns - made_ns >= READY_WITHIN_S * 1e9:
        return False
    return since_ns is None or since_ns - made_ns <= CARRIER_HELD_S * 1e9


def no_links(switches: "Sequence[SwitchStatus]") -> str:
    """The text for no links, or for none known, where switches are down that were never read."""
    unread = [switch.switch for switch in switches if switch.up is False and not switch.readings]
    return f"no links known, {_many(unread)} {_is(unread)} down" if unread else "no links"


def overrun_lines(switch: "SwitchStatus") -> list[tuple[str | StyledText, ...]]:
    """Crossconnects of other clients that our changes removed since the daemon started, newest last."""
    return [
        (
            f"{switch.switch} ",
            coloured("overrun"),
            f" at {time_of_day(one.wall_ns)}: {', '.join(one.lost)} of another client was lost to "
            f"reconfiguration {one.reconfiguration}; "
            f"it was made in the {seconds(one.window_s)} between our read and our write",
        )
        for one in switch.overruns
    ]


def restart_line(switch: "SwitchStatus", sets: "Sequence[PreparedSetStatus]" = ()) -> str:
    """The restart of a switch, until its lost crossconnects have been made again or replaced; else empty.

    `sets`: all prepared ones, which say what is desired of their ports.
    """
    restart = switch.restart
    if restart is None or not (gone := restart.missing):
        return ""
    how = "has restarted" if restart.sign == "uptime" else "seems to have restarted"
    back = "" if switch.owner else "; `hwd restore` brings back what is desired of it"
    for one in sets:
        if any(port.startswith(f"{switch.switch}.") for port in one.ports):
            back += f"; `hwd switch {one.id} TARGET` what set {one.id} has there"
    return (
        f"{switch.switch} {how} at {time_of_day(restart.wall_ns)}, "
        f"no contact for {seconds(restart.unheard_s)} before. "
        f"It lost {_many(gone)}{back}"
    )


def left_open(one: "LeftOpen") -> str:
    """An open reconfiguration of the journal: its run, what keeps it open, and what will end it."""
    run = f" of run {one.run}" if one.run else ""
    ports = plural(len(one.ports), "port")
    if one.is_held:
        held = f"; {ports} held" if one.ports else ""  # without ports it holds every switch, and the reason says so
        return f"{one.reconfiguration} ({one.what}){run} {coloured('held')}: {one.why}{held}"
    tried = "" if one.tried_wall_ns is None else f" (last tried at {time_of_day(one.tried_wall_ns)})"
    name = f"reconfiguration {one.reconfiguration} ({one.what}){run}"
    return f"{name} open: {one.why}{tried}; goes {one.goes} by itself when that is over; {ports} held"


def host_row(host: "HostStatus", *, connected: bool) -> tuple[object, ...]:
    """A host in the table of `hwd status`. `connected`: whether there is a broker; without it hosts are unknown."""
    if not host.up:
        last_message_ns = host.heard_wall_ns
        why = host.cause if last_message_ns is None else f"not heard since {time_of_day(last_message_ns)}: {host.cause}"
        return host.name, "down" if connected and host.is_known else "unknown", why, "unknown"
    clock = host.clock
    aligned = "" if clock is None else f"{clock.offset_ns / 1e9:+.6f} s ± {clock.error_ns / 1e3:.0f} µs"
    if clock is not None and (step := clock.step) is not None:
        aligned += f", stepped {plural(clock.steps, 'time')}, last by {step.by_ns / 1e9:+.3f} s"
    carriers = [port.carrier for port in host.ports.values()]
    unknown = f", {carriers.count(None)} unknown" if None in carriers else ""
    return host.name, "up", aligned, f"{carriers.count(True)} of {len(carriers)}{unknown}"


def with_joint_advice(hosts: "Sequence[HostStatus]") -> "list[HostStatus]":
    """Hosts whose agents are down alike: one command for all of them in place of one for each."""
    alike: dict[str, list[str]] = {}
    for host in hosts:
        alike.setdefault(_deployed(host, "HOST"), []).append(host.name)
    joined = {key: " ".join(names) for key, names in alike.items()}
    return [replace(host, cause=_deployed(host, joined[_deployed(host, "HOST")])) for host in hosts]


def _deployed(host: "HostStatus", names: str) -> str:
    """Its cause, with other names in the advice to roll its agent out."""
    return host.cause.replace(f"`hwd agent deploy {host.name}`", f"`hwd agent deploy {names}`")


def skew_lines(host: "HostStatus") -> list[str]:
    """Problems with the version of its agent."""
    return [f"{host.name}: {host.skew}"] if host.skew else []


def port_lines(host: "HostStatus") -> list[str]:
    """Ports without their interface: its present name, where the agent knows it, and the remedy."""
    return [
        f"{host.name}.{name}: {_why_away(port) or f'there is no interface {port.interface}'}"
        for name, port in host.ports.items()
        if host.up and not port.present
    ]


def trouble_lines(host: "HostStatus") -> list[str]:
    """Tasks of the daemon for this host that fail by a bug."""
    if not host.trouble:
        return []
    return [f"{host.name}: what the daemon does for it failed: {host.trouble}. The log of the daemon has the trace"]


def spool_lines(host: "HostStatus") -> list[str]:
    """Problems of its agent's spool and job socket, other agents with the host's name, and events lost
    since the daemon started.
    """
    trouble = "" if host.spool is None else host.spool.trouble
    lines = [f"{host.name}: spool: {trouble}"] if trouble else []
    if rival := host.rival:
        lines.append(
            f"{host.name}: another agent, boot {rival}, has the name of this host; "
            "it is ignored while this one answers. Stop one of them"
        )
    if why := host.selection:
        lines.append(f"{host.name}: jobs cannot set its switches: {why}")
    if lost := host.lost:
        lines.append(
            f"{host.name}: {plural(lost, 'event')} lost, or flaps not observed one by one: "
            "hwd watch --kind host.lost --after 0"
        )
    return lines


def _why_away(port: "HostPort") -> str:
    """Why its agent does not find its interface, where that is known."""
    link = port.sources.get("link")
    return "" if link is None else link.why_not


def _many(names: Sequence[str]) -> str:
    """The first few of them, and how many more."""
    more = f" and {len(names) - SHOWN_ENDS} more" if len(names) > SHOWN_ENDS else ""
    return f"{', '.join(names[:SHOWN_ENDS])}{more}"


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
