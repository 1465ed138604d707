"""`hwd lease`: leases of ports."""

import getpass
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from hwd.cli import completion as completing
from hwd.cli.options import Json, Url
from hwd.cli.output import Output, plural, seconds

if TYPE_CHECKING:
    from hwd.model.answers import HeldLease

SHOWN = 6
"""Ports named in a row of the list; all of them are in the JSON."""

_lease = typer.Typer(
    help="Exclusive, expiring claims on ports.",
    epilog="Example: hwd lease take ocs1.3 h0.eth0 --for 3600",
    no_args_is_help=True,
    rich_markup_mode=None,
)

For = Annotated[float, typer.Option("--for", metavar="S", help="For how many seconds from now.")]
LeaseId = Annotated[
    str, typer.Argument(metavar="LEASE", help="Its id, as `hwd lease list` shows it.", autocompletion=completing.leases)
]


def add_to(program: typer.Typer) -> None:
    program.add_typer(_lease, name="lease")


def me() -> str:
    """The holder of leases that are taken here."""
    return f"{getpass.getuser()}@{socket.gethostname()}"


@_lease.command(epilog="Example: hwd lease take ocs1.3 h0.eth0 --for 3600")
def take(
    ports: Annotated[list[str], typer.Argument(metavar="PORT...", help="ocs1.3, h0.eth0, or `all`.")],
    for_s: For = 600.0,
    holder: Annotated[str | None, typer.Option("--holder", metavar="NAME", help="Default: you@this-host.")] = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Lease ports: nobody else changes them until the lease ends."""
    from hwd.client import Client

    output = Output(json=json)
    with Client.find(url) as hwd:
        lease = hwd.take_lease(holder=holder or me(), ports=ports, for_s=for_s)
    output.say(f"lease {lease.id} on {plural(len(lease.ports), 'port')} for {seconds(lease.left_s)}")
    output.data(lease)


@_lease.command("list", epilog="Example: hwd lease list")
def list_(url: Url = None, json: Json = False) -> None:
    """The leases in force."""
    from hwd.client import Client

    output = Output(json=json)
    with Client.find(url) as hwd:
        leases = hwd.leases()
    show_leases(output, leases)
    output.data(leases)


@_lease.command(epilog="Example: hwd lease renew k3v9 --for 3600")
def renew(lease: LeaseId, for_s: For = 600.0, url: Url = None, json: Json = False) -> None:
    """Renew a lease: it expires so many seconds from now."""
    from hwd.client import Client

    output = Output(json=json)
    with Client.find(url) as hwd:
        renewed = hwd.renew_lease(lease, for_s=for_s)
    output.say(f"lease {renewed.id} lasts another {seconds(renewed.left_s)}")
    output.data(renewed)


@_lease.command(epilog="Example: hwd lease release k3v9")
def release(lease: LeaseId, url: Url = None, json: Json = False) -> None:
    """Release a lease."""
    from hwd.client import Client

    output = Output(json=json)
    with Client.find(url) as hwd:
        released = hwd.release_lease(lease)
    output.say(f"lease {released.id} released")
    output.data(released)


@_lease.command(epilog="Example: hwd lease kick k3v9")
def kick(lease: LeaseId, url: Url = None, json: Json = False) -> None:
    """Revoke a lease, also a host's own switch, which nobody can set then until `hwd lease grant`.

    Or end a hold, as `hwd status` names it, of the settings of a run that cannot be restored.
    """
    from hwd.client import Client

    output = Output(json=json)
    with Client.find(url) as hwd:
        kicked = hwd.kick_lease(lease, by=me())
    output.say(f"lease {kicked.id} of {kicked.holder} revoked")
    if kicked.why:
        output.note(kicked.why)
    output.data(kicked)


@_lease.command(epilog="Example: hwd lease grant sel0")
def grant(
    switch: Annotated[
        str, typer.Argument(metavar="SWITCH", help="A host's own switch, whose lease was revoked with `kick`.")
    ],
    url: Url = None,
    json: Json = False,
) -> None:
    """Delegate a switch to its host again."""
    from hwd.client import Client

    output = Output(json=json)
    with Client.find(url) as hwd:
        granted = hwd.grant_lease(switch, by=me())
    if granted.told:
        output.say(f"{granted.holder} may set {granted.id} again, epoch {granted.epoch}")
    else:
        output.say(f"{granted.holder} may set {granted.id} again as soon as its agent is connected")
    output.data(granted)


def show_leases(output: Output, leases: "Sequence[HeldLease]") -> None:
    if not leases:
        output.say("no leases")
        return
    rows = []
    for lease in leases:
        ports = lease.ports
        named = ", ".join(ports[:SHOWN]) + (f" and {len(ports) - SHOWN} more" if len(ports) > SHOWN else "")
        left_s = lease.expires_in_s
        left = f"{lease.state}, epoch {lease.epoch}" if left_s is None else seconds(left_s)
        rows.append((lease.id, lease.holder, left, named))
    output.table(("lease", "holder", "left", "ports"), rows)
