"""The command `hwd lease`: leases of ports."""

import math
from typing import TYPE_CHECKING, Annotated

import typer

from hwd.cli import completion as completing
from hwd.cli.daemon import connect, me
from hwd.cli.options import Json, Url, duration, group
from hwd.cli.output import Output, seconds
from hwd.cli.status_lines import delay_line, show_leases, span, waits_line
from hwd.cli.times import IN_MOST_S, due_at
from hwd.model.plural import plural
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import ConfigError

if TYPE_CHECKING:
    from hwd.model.lease import HeldLease

commands = group(
    "lease", help="Exclusive, expiring claims on ports.", epilog="Example: hwd lease take ocs1.3 h0.eth0 --for 3600"
)

For = Annotated[float, duration("--for", "For how long.", least_s=0.0, most_s=IN_MOST_S)]
LeaseId = Annotated[
    str, typer.Argument(metavar="LEASE", help="Its id, as `hwd lease list` shows it.", autocompletion=completing.leases)
]


@commands.command(epilog="Example: hwd lease take ocs1.3 h0.eth0 --for 3600")
def take(
    ports: Annotated[list[str], typer.Argument(metavar="PORT...", help="ocs1.3, h0.eth0, or `all`.")],
    for_s: For = 600.0,
    queue: Annotated[bool, typer.Option("--queue", help="Wait for ports that are not free; Ctrl-C leaves.")] = False,
    priority: Annotated[
        int, typer.Option("--priority", metavar="N", min=-100, max=100, help="In the queue; higher ones go first.")
    ] = 0,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="TIME", help="Reserve it from then on: 22:30, or 2027-01-10 22:30, here."),
    ] = None,
    heartbeat: Annotated[
        float | None,
        duration("--heartbeat", "End it where no `hwd lease heartbeat` comes for so long.", least_s=0.0),
    ] = None,
    holder: Annotated[str | None, typer.Option("--holder", metavar="NAME", help="Default: you@this-host.")] = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Lease ports: nobody else changes them until the lease ends."""
    output = Output(json=json)
    if at is not None and queue:
        raise ConfigError("--at, --queue: name one of them; a reservation does not wait in the queue")
    with connect(url) as hwd:
        lease = hwd.take_lease(
            holder=holder or me(),
            ports=ports,
            for_s=for_s,
            queue=queue,
            priority=priority,
            at_wall_ns=None if at is None else due_at(at, SystemClock().wall_ns()),
            heartbeat_s=heartbeat,
        )
        if lease.kind == "waiting":
            lease = hwd.wait_lease(lease.id, say=lambda one: output.say(waits_line(one)))
    count = plural(len(lease.ports), "port")
    if lease.kind == "reserved":
        output.say(f"lease {lease.id} on {count} reserved {span(lease)}")
        output.say(claim_line(lease))
    else:
        output.say(f"lease {lease.id} on {count} for {seconds(lease.left_s)}")
    output.data(lease)


@commands.command("list", epilog="Example: hwd lease list")
def list_(url: Url = None, json: Json = False) -> None:
    """The leases in force, the queue in the order of turns, and what is reserved."""
    output = Output(json=json)
    with connect(url) as hwd:
        leases = [*hwd.leases(), *hwd.lease_requests()]
    show_leases(output, leases)
    output.data(leases)


@commands.command(epilog="Example: hwd lease renew k3v9 --for 3600")
def renew(lease: LeaseId, for_s: For = 600.0, url: Url = None, json: Json = False) -> None:
    """Renew a lease: it expires so many seconds from now."""
    output = Output(json=json)
    with connect(url) as hwd:
        renewed = hwd.renew_lease(lease, for_s=for_s)
    output.say(f"lease {renewed.id} lasts another {seconds(renewed.left_s)}")
    output.data(renewed)


@commands.command(epilog="Example: hwd lease heartbeat k3v9")
def heartbeat(lease: LeaseId, url: Url = None, json: Json = False) -> None:
    """Say that its holder is there: claims a lease that was reserved, and keeps one with a heartbeat."""
    output = Output(json=json)
    with connect(url) as hwd:
        answer = hwd.beat_lease(lease)
    if answer.kind == "waiting":
        output.say(waits_line(answer))
    elif answer.kind == "reserved" and answer.waits_for:
        output.say(delay_line(answer))
    elif answer.kind == "reserved":
        output.say(f"lease {answer.id} has not begun: reserved {span(answer)}")
    else:
        output.say(f"lease {answer.id} of {answer.holder}, {seconds(answer.left_s)} left")
    output.data(answer)


@commands.command(epilog="Example: hwd lease release k3v9")
def release(lease: LeaseId, url: Url = None, json: Json = False) -> None:
    """Release a lease, leave the queue, or withdraw a reservation."""
    output = Output(json=json)
    with connect(url) as hwd:
        released = hwd.release_lease(lease)
    output.say(f"lease {released.id} released")
    _say_ended_sets(output, released)
    output.data(released)


@commands.command(epilog="Example: hwd lease kick k3v9 --why 'the night run begins'")
def kick(
    lease: LeaseId,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="Recorded, and shown to its holder.")] = "",
    url: Url = None,
    json: Json = False,
) -> None:
    """Revoke a lease, also a host's own switch, which nobody can set then until `hwd lease grant`.

    Or end a hold, as `hwd status` names it, of the settings of a run that cannot be restored.
    """
    output = Output(json=json)
    with connect(url) as hwd:
        kicked = hwd.kick_lease(lease, by=me(), why=why)
    output.say(f"lease {kicked.id} of {kicked.holder} revoked")
    _say_ended_sets(output, kicked)
    if kicked.why:
        output.note(kicked.why)
    output.data(kicked)


@commands.command(epilog="Example: hwd lease grant sel0")
def grant(
    switch: Annotated[
        str, typer.Argument(metavar="SWITCH", help="A host's own switch, whose lease was revoked with `kick`.")
    ],
    url: Url = None,
    json: Json = False,
) -> None:
    """Delegate a switch to its host again."""
    output = Output(json=json)
    with connect(url) as hwd:
        granted = hwd.grant_lease(switch, by=me())
    if granted.told:
        output.say(f"{granted.holder} may set {granted.id} again, epoch {granted.epoch}")
    else:
        output.say(f"{granted.holder} may set {granted.id} again as soon as its agent is connected")
    output.data(granted)


def claim_line(lease: "HeldLease") -> str:
    """How to keep a reserved lease once it has begun: within its bound, or before its end where that is sooner."""
    bound_s = min(lease.heard_within_s or 0.0, lease.for_s or math.inf)
    return f"it begins by itself; claim it within {seconds(bound_s)} then, with `hwd lease heartbeat {lease.id}`"


def _say_ended_sets(output: Output, lease: "HeldLease") -> None:
    for one in lease.ended_sets or ():
        output.say(f"ends with it: set {one}; its switches stay as they are")
