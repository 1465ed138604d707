"""Options and arguments that several commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hwd.cli import completion as completing
from hwd.cli.times import in_seconds
from hwd_drivers.core.errors import ConfigError

SECONDS_LEAST, SECONDS_MOST = 0.001, 86_400.0
"""The daemon accepts no time of 0 or over a day; an error about the option is clearer than one about the
field of the call.
"""


def duration(name: str, help: str, *, least_s: float = SECONDS_LEAST, most_s: float = SECONDS_MOST) -> Any:
    """The option `name` whose value is a duration; its command gets seconds."""
    return typer.Option(
        name,
        metavar="DURATION",
        parser=lambda text: in_seconds(str(text), option=name, least_s=least_s, most_s=most_s),
        help=f"{help} {SAMPLES}",
    )


def group(name: str, *, help: str, epilog: str) -> typer.Typer:
    """The commands under one name. Its help stays plain text."""
    return typer.Typer(name=name, help=help, epilog=epilog, no_args_is_help=True, rich_markup_mode=None)


SAMPLES = "Seconds, or 90s, 15m, 1.5h."
"""A duration, in the help of an option."""

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout; text for people goes to stderr.")]
JsonLines = Annotated[bool, typer.Option("--json", help="JSON lines on stdout; text for people goes to stderr.")]
TestbedFile = Annotated[Path, typer.Argument(metavar="TESTBED", help="A testbed file.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Say every step.")]
Url = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help="The daemon. Default: HWD_URL, else the one of this user here."),
]
RunId = Annotated[
    str, typer.Argument(metavar="RUN", help="Its id, or the beginning of it.", autocompletion=completing.runs)
]
Data = Annotated[
    str | None,
    typer.Option("--data", metavar="DIR", help="Read the records of this data directory, without a daemon."),
]
Lease = Annotated[
    str | None,
    typer.Option("--lease", metavar="LEASE", help="Act under this lease of yours.", autocompletion=completing.leases),
]
What = Annotated[
    list[str],
    typer.Argument(
        metavar="WHAT...",
        autocompletion=completing.topologies,
        help="A topology file, a topology with arguments (ring hosts=h0,h1 rail=0), "
        "links ('h0.eth0<->h2.eth0', in quotes), or pairs "
        "(ocs1:1A-2B,3A-4B; ocs1:none removes all, ocs1:1A-none that of 1A).",
    ),
]
ReadyWithin = Annotated[float, duration("--ready-within", "Roll back unless all links are ready within this time.")]
NoReady = Annotated[
    bool, typer.Option("--no-ready", help="Be content with what the switches report: do not wait for links.")
]
Override = Annotated[
    list[str] | None,
    typer.Option(
        "--override",
        metavar="INTERLOCK=REASON",
        help="Do not let this interlock refuse it, where the testbed allows that; the reason is recorded. Repeatable.",
    ),
]
OverrideJob = Annotated[
    str | None,
    typer.Option(
        "--override",
        metavar="job=WHY",
        help="Also the set of a job, which is told and recorded with this reason. It brings its light back, or fails.",
    ),
]
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, which is recorded with your name.")]
DrainWithin = Annotated[
    float | None,
    duration(
        "--drain-within",
        "Wait that long for the end of transfers in flight on ports that move; without it they refuse it.",
    ),
]
ConfirmWithin = Annotated[
    float | None,
    duration(
        "--confirm-within", "Roll back unless `hwd confirm` comes within this time, over restarts of the daemon too."
    ),
]

Steps = Annotated[
    bool,
    typer.Option(
        "--steps",
        help="Not all switches at once, but in steps, in the order in which the fewest links are dark at once.",
    ),
]

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan, and change nothing.")]

READY_WITHIN_S = 20.0
"""The slowest known NICs take some 10 s (ConnectX-6 Dx under rapid repeats); this is twice as long."""


def refuse_others(context: typer.Context, *names: str, why: str) -> None:
    """Refuse options that stand on the command line and are none of `names` (parameters of the command).

    Raises ConfigError. `why` they have no meaning here.
    """
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and name not in names:
            raise ConfigError(f"{parameter.opts[0]}: {why}")
