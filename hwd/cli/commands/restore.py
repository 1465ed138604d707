"""The commands `hwd restore` and `hwd history`: the way back to the desired state, and who applied what."""

from typing import TYPE_CHECKING, Annotated

import typer

from hwd.cli import completion as completing
from hwd.cli.commands.apply import limits_of, way_back
from hwd.cli.daemon import connect
from hwd.cli.options import (
    READY_WITHIN_S,
    ConfirmWithin,
    DrainWithin,
    DryRun,
    Json,
    Lease,
    NoReady,
    Override,
    ReadyWithin,
    Steps,
    Url,
    Yes,
)
from hwd.cli.output import Output, coloured
from hwd.model.local_time import date_and_time

if TYPE_CHECKING:
    from hwd.model.reconfiguration import HistoryEntry

WHAT_MOST = 100
"""Characters of what a reconfiguration was asked for, or a reload changed, in one row: a line of a terminal has room
for no more, and one long row makes all others as wide.
"""

commands = typer.Typer(rich_markup_mode=None)


@commands.command(epilog="Example: hwd restore; hwd restore ocs1 h0.eth0 --dry-run")
def restore(
    ports: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PORT]...",
            help="ocs1, ocs1.3 or h0.eth0. Default: everything.",
            autocompletion=completing.switches,
        ),
    ] = None,
    dry_run: DryRun = False,
    lease: Lease = None,
    ready_within: ReadyWithin = READY_WITHIN_S,
    no_ready: NoReady = False,
    confirm_within: ConfirmWithin = None,
    steps: Steps = False,
    drain_within: DrainWithin = None,
    override: Override = None,
    yes: Yes = False,
    url: Url = None,
    json: Json = False,
) -> None:
    """Bring back the desired state: what the last confirmed reconfiguration of each port wanted.

    It plans only what differs, and applies that as `hwd apply` does, with its exit statuses. Ports that no confirmed
    reconfiguration named stay as they are. Switches that cannot be reached are left out and named (exit status 4).
    """
    output = Output(json=json)
    with connect(url) as hwd:
        way_back(
            hwd,
            output,
            dry_run=dry_run,
            yes=yes,
            wanted={
                "restore": ports or [],
                **limits_of(lease, ready_within, no_ready, confirm_within, steps, drain_within, override),
            },
        )


@commands.command(epilog="Example: hwd history --port ocs1.3 --limit 5")
def history(
    limit: Annotated[int, typer.Option("--limit", "-n", metavar="N", min=1, max=500, help="At most so many.")] = 20,
    switch: Annotated[
        str | None,
        typer.Option(
            "--switch", metavar="SWITCH", help="Only those that moved it.", autocompletion=completing.switches
        ),
    ] = None,
    port: Annotated[
        str | None, typer.Option("--port", metavar="PORT", help="Only those of this port: ocs1.3 or h0.eth0.")
    ] = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Who applied what, when, with what outcome, newest first, in runs or not.

    A name that no token vouches for is marked unverified: it is the user that the command line stated.
    """
    output = Output(json=json)
    with connect(url) as hwd:
        entries = hwd.history(limit=limit, switch=switch, port=port)
    if entries:
        output.table(("when", "reconfiguration", "what", "who", "outcome"), [history_row(one) for one in entries])
    else:
        output.say("no reconfiguration in the records")
    output.data(entries)


def history_row(one: "HistoryEntry") -> tuple[object, ...]:
    """A reconfiguration in the table of `hwd history`."""
    outcome = coloured(one.outcome_or_state)
    what = one.what if len(one.what) <= WHAT_MOST else f"{one.what[:WHAT_MOST]}... (the rest: --json)"
    return date_and_time(one.wall_ns), one.id or "", what, one.who, outcome
