"""The commands `hwd run`, `queue`, `runs`, `pause`, `resume`, `abort`: experiments."""

from typing import Annotated

import typer

from hwd.cli import completion as completing
from hwd.cli.daemon import connect, me
from hwd.cli.options import Data, Json, RunId, Url, Why, duration
from hwd.cli.output import Output, coloured, seconds
from hwd.cli.recorded_runs import recorded, started_at
from hwd.cli.times import IN_MOST_S, due_at
from hwd.model.local_time import date_and_time
from hwd.model.plural import plural
from hwd_drivers.core.errors import ConfigError

LISTED = 100
"""Runs that fit on a screen."""

commands = typer.Typer(rich_markup_mode=None)


@commands.command("run", epilog="Example: hwd run playbooks/smoke.yaml -D within_s=30")
def run_(
    playbook: Annotated[
        str,
        typer.Argument(
            metavar="PLAYBOOK", help="A file, or the name of one that hwd brings.", autocompletion=completing.playbooks
        ),
    ],
    define: Annotated[
        list[str] | None, typer.Option("-D", metavar="K=V", help="Set a parameter of the playbook; any number.")
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="Start no earlier: 22:30, or 2027-01-10 22:30, here.")
    ] = None,
    in_: Annotated[float | None, duration("--in", "Start in so long.", least_s=0.0, most_s=IN_MOST_S)] = None,
    detach: Annotated[
        bool, typer.Option("--detach", "--queue", help="Leave it to the daemon's queue and return at once.")
    ] = False,
    url: Url = None,
    json: Json = False,
) -> None:
    """Run a playbook and follow it to its end.

    It waits in the queue while earlier runs hold its ports, and for its time. Ctrl-C asks, then ends the run in its
    safe state (130).
    """
    from hwd.cli.follow import follow
    from hwd.client.playbook_bundle import read_playbook
    from hwd.client.problem import exit_status_of

    output = Output(json=json)
    parameters = _parameters(define or [])
    due_wall_ns = _due(at, in_)
    file, text = read_playbook(playbook, parameters)
    with connect(url) as hwd:
        started = hwd.start_run(text=text, file=file, parameters=parameters, due_wall_ns=due_wall_ns)
        due = "" if at is None or due_wall_ns is None else f", not before {date_and_time(due_wall_ns, offset=True)}"
        output.note(f"run {started.run}: {started.playbook}, {plural(started.steps, 'step')}{due}")
        if detach:
            output.say(f"run {started.run} {started.state}. See: hwd queue, hwd runs")
            output.data(started)
            return
        end = follow(hwd, output, started)
    why = f": {end.why}" if end.why else ""
    output.say(f"run {end.run} ", coloured(end.state), why)
    output.say(f"switches: {end.safe_state}. See: hwd show {end.run}")
    status = exit_status_of(end.fault_class) if end.fault_class is not None else None
    output.data(
        {"run": end.run, "outcome": end.state, "why": end.why, "safe_state": end.safe_state, "exit_status": status}
    )
    raise typer.Exit({"succeeded": 0, "aborted": 130}.get(end.state, status or 1))


@commands.command(epilog="Example: hwd abort k3v9")
def abort(run: RunId, why: Why = "", url: Url = None, json: Json = False) -> None:
    """End a run in its safe state, within 5 seconds; a queued run is removed from the queue."""
    output = Output(json=json)
    with connect(url) as hwd:
        end = hwd.abort(run, by=me(), why=why)
    output.say(f"run {end.run} ", coloured(end.outcome), f" {end.why}; switches: {end.safe_state}")
    output.data(end)


@commands.command(epilog="Example: hwd pause k3v9")
def pause(run: RunId, url: Url = None, json: Json = False) -> None:
    """Pause a run after its present step; its leases stay in force."""
    output = Output(json=json)
    with connect(url) as hwd:
        status = hwd.pause(run, by=me())
    output.say(f"{status}; it pauses before its next step, until: hwd resume {status.run}")
    output.data(status.to_data())


@commands.command(epilog="Example: hwd resume k3v9")
def resume(run: RunId, url: Url = None, json: Json = False) -> None:
    """Continue a paused run."""
    output = Output(json=json)
    with connect(url) as hwd:
        status = hwd.resume(run, by=me())
    output.say(f"run {status.run} continues")
    output.data(status.to_data())


@commands.command(epilog="Example: hwd queue")
def queue(url: Url = None, json: Json = False) -> None:
    """List queued runs in the order of their start, and what each waits for."""
    output = Output(json=json)
    with connect(url) as hwd:
        waiting = hwd.queue()
    rows = [
        (
            one.run,
            one.playbook,
            plural(one.steps, "step"),
            "" if one.due_wall_ns is None else started_at(one.due_wall_ns),
            ", ".join(one.waits_for),
        )
        for one in waiting
    ]
    if rows:
        output.table(("run", "playbook", "length", "due", "waits for"), rows)
    else:
        output.say("no run waits")
    output.data([one.to_data() for one in waiting])


@commands.command(epilog="Example: hwd runs")
def runs(
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="So many.", min=1)] = LISTED,
    url: Url = None,
    data: Data = None,
    json: Json = False,
) -> None:
    """The newest runs of the records, with the step of those under way."""
    output = Output(json=json)
    states: dict[str, str] = {}
    waiting = 0
    with recorded(url, data) as source:
        found = source.runs(limit)
    if data is None:
        states, waiting = _live(url)
    rows = [
        (
            run.id,
            run.playbook,
            run.testbed,
            started_at(run.started_wall_ns, virtual=run.virtual_time),
            seconds(run.seconds),
            states.get(run.id) or run.state or run.outcome or "under way",
            run.why,
        )
        for run in found
    ]
    if rows:
        output.table(("run", "playbook", "testbed", "started", "took", "state", "why"), rows)
    else:
        output.say("no runs")
    if len(found) == limit:
        output.say(f"these are the newest {limit}; --limit shows more")
    if waiting:
        output.say(f"{waiting} more in the queue: hwd queue")
    output.data([*found])


def _live(url: str | None) -> tuple[dict[str, str], int]:
    """`running 7/21 (waiting)` by run, and how many wait."""
    with connect(url) as hwd:
        status = hwd.status()
    states = {}
    for run in status.runs:
        step = f" {run.step}/{run.steps}" if run.step is not None else ""
        stage = f" ({run.stage})" if run.stage else ""
        states[run.run] = f"{run.state}{step}{stage}"
    return states, len(status.queue)


def _due(at: str | None, in_: float | None) -> int | None:
    from hwd_drivers.core.clock import SystemClock

    if at is not None and in_ is not None:
        raise ConfigError("--at, --in: name one of them")
    now_ns = SystemClock().wall_ns()
    if in_ is not None:
        return now_ns + round(in_ * 1e9)
    return None if at is None else due_at(at, now_ns)


def _parameters(defined: list[str]) -> dict[str, str]:
    parameters = {}
    for text in defined:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise ConfigError(f"-D {text}: write it as -D name=value")
        parameters[key] = value
    return parameters
