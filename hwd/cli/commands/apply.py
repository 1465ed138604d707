"""The commands `hwd plan`, `apply`, `confirm`, `rollback`, `give-up`: reconfigurations."""

import re
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from hwd.cli import completion as completing
from hwd.cli.daemon import connect, me
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
    What,
    Why,
    Yes,
    refuse_others,
)
from hwd.cli.output import Output, coloured, few, seconds
from hwd.cli.plan_lines import SHOWN, show_plan
from hwd.model.plural import plural
from hwd_drivers.core.errors import ConfigError, LinkError, RefusedError, StalePlanError
from hwd_drivers.core.ids import RandomIds
from hwd_drivers.switching.moves import ApplyMode

if TYPE_CHECKING:
    from hwd.client import Client
    from hwd.client.wanted import Wanted
    from hwd.model.plan_summary import PlanSummary
    from hwd.model.reconfiguration import ReconfigurationStatus

HASH = re.compile("[0-9a-f]{12}")
ATTEMPTS = 3
"""Plans that are made where the switches change between the plan and its apply."""

Reconfiguration = Annotated[
    str | None,
    typer.Argument(
        metavar="[RECONFIGURATION]", help="Default: the only one under way.", autocompletion=completing.reconfigurations
    ),
]

Mode = Annotated[
    ApplyMode,
    typer.Option(
        "--mode", help="safe: refuse what collides; update: replace what collides; overwrite: replace everything."
    ),
]

commands = typer.Typer(rich_markup_mode=None)


@commands.command(epilog="Example: hwd plan ring hosts=h0,h1 rail=0; hwd plan 'h0.eth0<->h2.eth0'")
def plan(
    what: What,
    mode: Mode = ApplyMode.UPDATE,
    lease: Lease = None,
    ready_within: ReadyWithin = READY_WITHIN_S,
    no_ready: NoReady = False,
    confirm_within: ConfirmWithin = None,
    steps: Steps = False,
    drain_within: DrainWithin = None,
    override: Override = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Show what an apply would move, and which links would go dark. Changes nothing.

    The hash that it prints can be applied later; it includes the limits, the lease and the overrides of this command.
    Exit status 3 where an interlock refuses it.
    """
    from hwd.model.interlock import refusal

    output = Output(json=json)
    with connect(url) as hwd:
        limits = limits_of(lease, ready_within, no_ready, confirm_within, steps, drain_within, override)
        wanted = wanted_of(what, {"mode": mode, **limits})
        made = hwd.plan(**wanted)
    show_plan(output, made)
    if not (made.refused or made.empty):
        output.say(f"Apply it with: hwd apply {made.hash}")
    output.data(made)
    if made.refused and json:  # the plan is the one document on stdout
        output.note(f"refused: {refusal(made.interlocks)}")
        raise typer.Exit(RefusedError.exit_status)
    _refuse(made, {})


@commands.command(epilog="Example: hwd apply pairs rail=0 --mode safe --confirm-within 60")
def apply(
    context: typer.Context,
    what: What,
    mode: Mode = ApplyMode.UPDATE,
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
    """Show the plan and apply it: drive, read back, wait until all links are ready. On a terminal it asks first.

    WHAT may be the hash of a plan. Links that are not ready in time, or cannot be, are rolled back (exit status 5; 6
    where a switch cannot be restored now). Ctrl-C rolls back (130).
    """
    from hwd.client.wanted import waits_of

    output = Output(json=json)
    with connect(url) as hwd:
        limits = limits_of(lease, ready_within, no_ready, confirm_within, steps, drain_within, override)
        wanted = wanted_of(what, {"mode": mode, **limits})
        if HASH.fullmatch(wanted.get("what", "")):
            refuse_others(
                context,
                *("what", "drain_within", "yes", "url", "json"),
                why="a plan that is applied by its hash has what `hwd plan` was told. Make another plan with it",
            )
            result = drive(hwd, output, what[0], partial(hwd.apply_hash, what[0], by=me(), **waits_of(wanted)))
        else:
            made = hwd.plan(**wanted)
            show_plan(output, made)
            _refuse(made, wanted)
            result = drive_plan(hwd, output, made, wanted=wanted, yes=yes or made.empty)
    say_how_it_is(output, result)
    output.data(result)


@commands.command(epilog="Example: hwd confirm")
def confirm(reconfiguration: Reconfiguration = None, url: Url = None, json: Json = False) -> None:
    """Keep the state that was applied with --confirm-within."""
    output = Output(json=json)
    with connect(url) as hwd:
        result = hwd.confirm(reconfiguration)
    say_how_it_is(output, result)
    output.data(result)


@commands.command(epilog="Example: hwd rollback; hwd rollback --to k3v9a1xx --dry-run")
def rollback(
    context: typer.Context,
    reconfiguration: Reconfiguration = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="ID", help="The state before this one of `hwd history`, whenever that was."),
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
    """Restore the state that was read before the apply.

    With --to it plans the way from what is there now to the state before any reconfiguration of the history, and
    applies that as `hwd apply` does; the other options are for that alone.
    """
    output = Output(json=json)
    if to is not None and reconfiguration is not None:
        raise ConfigError("rollback: name the one that is under way, or with --to one of the history, not both")
    if to is None:
        why = "it is for the way back to a state of the history. Name that with --to ID (`hwd history` lists them)"
        refuse_others(context, "reconfiguration", "yes", "url", "json", why=f"{why}; nothing was touched")
    with connect(url) as hwd:
        if to is not None:
            way_back(
                hwd,
                output,
                dry_run=dry_run,
                yes=yes,
                wanted={
                    "before": to,
                    **limits_of(lease, ready_within, no_ready, confirm_within, steps, drain_within, override),
                },
            )
            return
        result = hwd.roll_back(reconfiguration)
    say_how_it_is(output, result)
    output.data(result)
    if result.outcome == "failed":
        raise typer.Exit(1)


def way_back(hwd: "Client", output: Output, *, wanted: "Wanted", dry_run: bool, yes: bool) -> None:
    """Plan a way back to a state that is known, and apply that plan where it moves something.

    Exits as unreachable where switches were left out.
    """
    made = hwd.plan(**wanted)
    if made.empty:
        output.say(f"nothing to restore: {made.what}")
        for warning in made.warnings:
            output.say(f"  {warning}")
    else:
        show_plan(output, made)
    if made.empty or dry_run:
        output.data(made)
    if (why := _why_refused(made, wanted)) and (made.empty or dry_run) and output.json:
        output.note(f"refused: {why}")  # the plan is the one document on stdout
        raise typer.Exit(RefusedError.exit_status)
    _refuse(made, wanted)
    if not (made.empty or dry_run):
        result = drive_plan(hwd, output, made, wanted=wanted, yes=yes)
        say_how_it_is(output, result)
        output.data(result)
    for one in made.away:
        output.note(f"not restored, it cannot be reached: {one}")
    if made.away:
        raise typer.Exit(LinkError.exit_status)


def drive_plan(
    hwd: "Client", output: Output, plan: "PlanSummary", *, wanted: "Wanted", yes: bool, attempts: int = ATTEMPTS
) -> "ReconfigurationStatus":
    """Apply a plan of what is `wanted`, on a terminal after a question, unless `yes`.

    Where nobody looked at it and the switches have changed meanwhile, it is planned and shown again.
    """
    from hwd.client.wanted import waits_of

    asks = output.on_terminal and not yes
    if asks and not ask("Apply it?"):
        output.note("nothing was touched")
        raise typer.Exit(130)
    expected = f"{plan.hash}, expected {seconds(plan.expected_s)}"
    try:
        return drive(hwd, output, expected, partial(hwd.apply_hash, plan.hash, by=me(), **waits_of(wanted)))
    except StalePlanError:
        if asks or attempts == 1:
            raise
    output.note(f"plan {plan.hash}: the switches have changed meanwhile; planned again")
    plan = hwd.plan(**wanted)
    show_plan(output, plan)
    _refuse(plan, wanted)
    return drive_plan(hwd, output, plan, wanted=wanted, yes=True, attempts=attempts - 1)


@commands.command("give-up", epilog="Example: hwd give-up k3v9a1xx")
def give_up(
    reconfiguration: Annotated[str, typer.Argument(help="One that `hwd status` calls open.")],
    why: Why = "",
    url: Url = None,
    json: Json = False,
) -> None:
    """Give up an interrupted reconfiguration that cannot be rolled back: its ports are free, and no
    switch is driven.
    """
    output = Output(json=json)
    with connect(url) as hwd:
        end = hwd.give_up(reconfiguration, by=me(), why=why)
    output.say(f"reconfiguration {end.reconfiguration} ({end.what}) given up; it was open: {end.why}")
    for line in end.left:
        output.say(f"left as it is: {line}")
    output.data(end)


def overrides_of(texts: list[str] | None) -> dict[str, str]:
    """The overrides of `--override INTERLOCK=REASON`. Raises ConfigError, all findings at once."""
    from hwd.model.interlock import InterlockName

    found: dict[str, str] = {}
    problems = []
    for text in texts or ():
        name, equals, reason = text.partition("=")
        if not equals or not reason.strip():
            problems.append(f"--override {text}: write it as INTERLOCK=REASON, such as loss-budget='measured by hand'")
        elif name not in InterlockName.__members__.values():
            problems.append(f"--override {text}: no interlock {name!r}; there are {', '.join(InterlockName)}")
        elif name in found:
            problems.append(f"--override {text}: {name} is overridden twice; give one reason")
        else:
            found[name] = reason.strip()
    if problems:
        raise ConfigError("\n".join(problems))
    return found


def limits_of(
    lease: str | None,
    ready_within: float,
    no_ready: bool,
    confirm_within: float | None,
    steps: bool,
    drain_within: float | None,
    override: list[str] | None,
) -> "Wanted":
    """What the options of each verb that moves light say of how it is done."""
    return {
        "lease": lease,
        "ready_within_s": None if no_ready else ready_within,
        "confirm_within_s": confirm_within,
        "steps": steps,
        "drain_within_s": drain_within,
        "overrides": overrides_of(override),
    }


def wanted_of(words: list[str], limits: "Wanted | None" = None) -> "Wanted":
    """What `Client.plan` and `Client.apply` take, with the words of WHAT. A file is read here; the name of a playbook
    is a ConfigError.
    """
    from hwd.config.yaml.tree import FILE_BYTES_MAX
    from hwd_drivers.core.user_file import read_user_file

    text = " ".join(words)
    if not text.endswith((".yaml", ".yml")):
        from hwd.config.shipped_file import names_of

        if text in names_of("playbooks"):
            raise ConfigError(f"{text}: is a playbook, not a topology: run it with `hwd run {text}`")
        return {**(limits or {}), "what": text}
    return {**(limits or {}), "file": (text, read_user_file(text, most_bytes=FILE_BYTES_MAX, pipes=True).text())}


def drive(
    hwd: "Client", output: Output, words: str, apply: "Callable[..., ReconfigurationStatus]"
) -> "ReconfigurationStatus":
    """Apply it, and show how far it is; `words` say what. Ctrl-C rolls it back."""
    from hwd.cli.apply_progress import ApplyProgress

    id = RandomIds().token(length=8)
    try:
        with ApplyProgress(output, words) as progress:
            return apply(id=id, tell=progress.tell)
    except KeyboardInterrupt:
        output.note("rolling back")
        try:
            say_how_it_is(output, hwd.roll_back(id))
        except RefusedError as error:  # it had not begun, or has ended
            output.note(str(error))
        raise


def say_how_it_is(output: Output, result: "ReconfigurationStatus") -> None:
    how = result.outcome or result.state
    why = f": {result.why}" if result.why else ""
    output.say(f"{result.reconfiguration} ({result.what}) ", coloured(how), why)
    if result.confirm_in_s is not None and result.outcome is None:
        output.say(f"It is rolled back in {seconds(result.confirm_in_s)}, unless: hwd confirm {result.reconfiguration}")
    elif result.outcome == "failed":
        output.say(
            f"It stays open, and is tried again until it succeeds; "
            f"`hwd give-up {result.reconfiguration}` leaves it as it is"
        )
    elif result.outcome == "confirmed" and result.links:
        waiting = len(result.not_ready)
        output.say(f"{plural(len(result.links), 'link')}, {len(result.links) - waiting} seen ready")
    for remark in result.remarks:
        output.say(f"  {remark}")
    if stale := result.stale:
        output.say(f"  stale: {few(stale, SHOWN)}, where something else is desired; hwd restore puts that right")
    if unasked := result.unasked:
        output.say(f"  there too: {few(unasked, SHOWN)}, which no confirmed reconfiguration asked for")


def _refuse(plan: "PlanSummary", wanted: "Wanted") -> None:
    """Raises RefusedError where an interlock refuses it, but for transfers whose end is waited for."""
    if why := _why_refused(plan, wanted):
        raise RefusedError(why)


def _why_refused(plan: "PlanSummary", wanted: "Wanted") -> str:
    from hwd.model.interlock import InterlockName, refusal

    waited_for = None if wanted.get("drain_within_s") is None else InterlockName.TRANSFER_IN_FLIGHT
    return refusal(one for one in plan.interlocks if one.name is not waited_for)


def ask(question: str) -> bool:
    """Ask on the terminal. Ctrl-C there ends the command."""
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:
        raise KeyboardInterrupt from None
