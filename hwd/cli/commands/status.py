"""The command `hwd status`: the present state."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from hwd.cli.daemon import connect
from hwd.cli.host_lines import host_lines, host_row, with_joint_advice
from hwd.cli.options import READY_WITHIN_S, Json, Url
from hwd.cli.output import Output, StyledText, coloured, few, seconds
from hwd.cli.run_steps import pause_reason
from hwd.cli.status_lines import (
    alert_lines,
    change_lines,
    disk_line,
    orphan_line,
    show_leases,
    show_sets,
    since,
    storage_lines,
)
from hwd.model.local_time import time_of_day
from hwd.model.plural import plural

if TYPE_CHECKING:
    from hwd.model.desired_state import SwitchDesired, UnlitLink
    from hwd.model.hang import Hang
    from hwd.model.prepared_set import PreparedSetStatus
    from hwd.model.reconfiguration import LeftOpen, ReconfigurationStatus
    from hwd.model.run import RunProgress
    from hwd.model.status import Status
    from hwd.model.switch import CompositeStatus, LinkStatus, SwitchStatus

SHOWN_ENDS = 6
"""Names in one line; all of them are in the JSON."""
AWAITING_CONFIRM = "awaiting-confirm"
CARRIER_HELD_S = 2.0
"""A kernel holds the notice that a carrier was lost back for up to a second, so it may come after the crossconnect."""
CARRIER = {True: "up", False: "down", None: "unknown"}

commands = typer.Typer(rich_markup_mode=None)


@commands.command(epilog="Example: hwd status --json")
def status(url: Url = None, json: Json = False) -> None:
    """Switches, agents, links, leases and runs, in one screen."""
    output = Output(json=json)
    with connect(url) as hwd:
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
        for line in host_lines(host):
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
        counted += f"; {few(dark, SHOWN_ENDS)} held dark"
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
    return (
        composite.composite,
        f"{few(away, SHOWN_ENDS)} down" if away else "up",
        few(composite.crossconnects, SHOWN_ENDS) or "none",
    )


def link_row(link: "LinkStatus") -> tuple[object, ...]:
    """A link in the table of `hwd status`: its light is unknown while a switch on its path is down."""
    away = link.away
    return link.link, f"{CARRIER[link.carrier]}{f', {few(away, SHOWN_ENDS)} {_is(away)} down' if away else ''}"


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
    return f"no links known, {few(unread, SHOWN_ENDS)} {_is(unread)} down" if unread else "no links"


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
        f"It lost {few(gone, SHOWN_ENDS)}{back}"
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


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
