"""The commands `hwd prepare`, `switch`, `sets`, `release`: prepared sets."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from hwd.cli import completion as completing
from hwd.cli.commands.apply import Mode, drive, overrides_of, say_how_it_is, wanted_of
from hwd.cli.daemon import connect, me
from hwd.cli.options import Json, Override, OverrideJob, Url, duration
from hwd.cli.output import Output
from hwd.cli.status_lines import show_sets, since
from hwd.cli.times import IN_MOST_S
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.switching.moves import ApplyMode

if TYPE_CHECKING:
    pass

OF_JOB: Final = "job"
"""Whose right an operator overrides."""
SetId = Annotated[
    str, typer.Argument(metavar="SET", help="Its id, as `hwd sets` shows it.", autocompletion=completing.sets)
]

commands = typer.Typer(rich_markup_mode=None)


@commands.command(epilog="Example: hwd prepare day='ring hosts=h0,h1 rail=0' night='ocs1:1A-none,3A-none' --lease k3v9")
def prepare(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=WHAT...",
            help="Targets, each with a name; WHAT as of `hwd apply`, in quotes: a='pairs rail=0'.",
        ),
    ],
    lease: Annotated[
        str,
        typer.Option(
            "--lease",
            metavar="LEASE",
            help="The set is held under this lease of yours.",
            autocompletion=completing.leases,
        ),
    ],
    after_crash: Annotated[
        str,
        typer.Option(
            "--after-crash",
            metavar="RULE",
            help="Where a crash cuts a switch off: `finish` it, go to `before` (the state read now), or to a target.",
        ),
    ] = "finish",
    for_s: Annotated[
        float | None,
        duration("--for", "End the set after so long. Default: with its lease.", least_s=0.0, most_s=IN_MOST_S),
    ] = None,
    mode: Mode = ApplyMode.UPDATE,
    ready_within: Annotated[
        float | None,
        duration("--ready-within", "Each switch waits for ready links, and goes back unless they are in this time."),
    ] = None,
    override: Override = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Check targets and hold their ports, so that `hwd switch` can drive to one at once. Moves nothing.

    Every set also has the target `before`: what the switches carry now. It outlives the daemon, and ends with
    `hwd release`, with its lease, or with --for. Until then the rack's desired state is what the set says of its ports.
    """
    output = Output(json=json)
    with connect(url) as hwd:
        made = hwd.prepare(
            _targets(targets),
            lease=lease,
            after_crash=after_crash,
            for_s=for_s,
            mode=mode,
            ready_within_s=ready_within,
            overrides=overrides_of(override),
            by=me(),
        )
    show_sets(output, [made])
    output.say(f"Switch it with: hwd switch {made.id} {made.targets[-1].id}")
    output.data(made)


@commands.command(epilog="Example: hwd switch p7x2a1b9 night")
def switch(
    prepared_set: SetId,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="One of its targets.", autocompletion=completing.targets)
    ],
    override: OverrideJob = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Drive a prepared set to a target at once, and read it back. A difference is a failure, and goes back."""
    output = Output(json=json)
    with connect(url) as hwd:
        words = f"set {prepared_set} to {target}"
        switch = partial(hwd.switch, prepared_set, target, override=_overriding(override), by=me())
        result = drive(hwd, output, words, switch)
    say_how_it_is(output, result)
    output.data(result)


@commands.command(epilog="Example: hwd sets")
def sets(url: Url = None, json: Json = False) -> None:
    """Prepared sets, each with the target that its switches have."""
    output = Output(json=json)
    with connect(url) as hwd:
        found, ended = hwd.sets(), [] if json else hwd.status().ended_sets
    show_sets(output, found)
    for one in ended:
        output.say(f"{since(one.ended_wall_ns, None)} {one}")
    output.data(found)


@commands.command(epilog="Example: hwd release p7x2a1b9")
def release(prepared_set: SetId, override: OverrideJob = None, url: Url = None, json: Json = False) -> None:
    """End a prepared set: its ports are free, its switches stay as they are."""
    output = Output(json=json)
    with connect(url) as hwd:
        ended = hwd.release_set(prepared_set, override=_overriding(override), by=me())
    output.say(f"set {ended.id} released; its switches stay at {ended.at or 'what they carry'}")
    output.data(ended)


def _overriding(text: str | None) -> dict[str, str]:
    """The override of `--override job=WHY`, or `--override WHY`. Raises ConfigError where it gives no reason."""
    if text is None:
        return {}
    why = text.removeprefix(f"{OF_JOB}=").strip()
    if not why:
        raise ConfigError(f"--override {text}: write it as {OF_JOB}=WHY, such as job='measures the loss of 3A'")
    return {OF_JOB: why}


def _targets(texts: list[str]) -> dict[str, str | tuple[str, str]]:
    """The targets of the command line; files are read here. Raises ConfigError."""
    found: dict[str, str | tuple[str, str]] = {}
    for text in texts:
        name, equals, what = text.partition("=")
        if not equals or not what or " " in name:
            raise ConfigError(f"target {text!r}: write it as NAME=WHAT, in quotes: day='ring hosts=h0,h1 rail=0'")
        if name in found:
            raise ConfigError(f"target {name}: there are two of that name")
        wanted = wanted_of([what])
        found[name] = wanted.get("file") or wanted.get("what", "")
    return found
