"""`hwd run`, `abort`, `runs`: experiments."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hwd.cli.leasing import me
from hwd.cli.options import Data, Json, RunId, Url
from hwd.cli.output import Output, coloured, plural, seconds
from hwd.cli.recorded import recorded, short, started_at, took
from hwd_drivers.kit.errors import ConfigError

if TYPE_CHECKING:
    from hwd.cli.progress import Progress
    from hwd.client import Client


def add_to(program: typer.Typer) -> None:
    program.command("run", epilog="Example: hwd run playbooks/smoke.yaml -D repeats=3")(run_)
    program.command(epilog="Example: hwd abort k3v9")(abort)
    program.command(epilog="Example: hwd runs")(runs)


def run_(
    playbook: Annotated[str, typer.Argument(metavar="PLAYBOOK", help="A file, or the name of one that hwd brings.")],
    define: Annotated[
        list[str] | None, typer.Option("-D", metavar="K=V", help="Set a parameter of the playbook; any number.")
    ] = None,
    url: Url = None,
    json: Json = False,
) -> None:
    """Run a playbook and follow it to its end. Ctrl-C asks, then ends the run in its safe state (130)."""
    from hwd.client import Client

    output = Output(json=json)
    parameters = _parameters(define or [])
    file, text = _playbook(playbook, parameters)
    with Client.find(url) as hwd:
        started = hwd.start_run(text=text, file=file, parameters=parameters)
        output.note(f"run {started['run']}: {started['playbook']}, {plural(started['steps'], 'step')}")
        end = _follow(hwd, output, started)
    why = f": {end['why']}" if end["why"] else ""
    output.say(f"run {end['run']} {coloured(end['outcome'])}{why}")
    output.say(f"switches: {end['safe_state']}. See: hwd show {end['run']}")
    output.data(end)
    status = 130 if end["outcome"] == "aborted" else 0 if end["outcome"] == "succeeded" else end.get("exit_status") or 1
    raise typer.Exit(status)


def abort(run: RunId, url: Url = None, json: Json = False) -> None:
    """End a run in its safe state, within 5 seconds."""
    from hwd.client import Client

    output = Output(json=json)
    with Client.find(url) as hwd:
        end = hwd.abort(run, by=me())
    output.say(f"run {end['run']} {coloured(end['outcome'])} {end['why']}; switches: {end['safe_state']}")
    output.data(end)


def runs(url: Url = None, data: Data = None, json: Json = False) -> None:
    """All runs of the records, newest first."""
    output = Output(json=json)
    with recorded(url, data) as source:
        found = source.runs()
    rows = [
        (
            run["id"],
            run["playbook"],
            run["testbed"],
            started_at(run["started_wall_ns"]),
            took(run),
            run["outcome"] or "under way",
            run["why"],
        )
        for run in found
    ]
    if rows:
        output.table(("run", "playbook", "testbed", "started", "took", "outcome", "why"), rows)
    else:
        output.say("no runs")
    output.data([short(run) for run in found])


def _follow(hwd: "Client", output: Output, started: dict[str, Any]) -> dict[str, Any]:
    """To the end of the run, over Ctrl-C and lost connections."""
    after, run = started["after"], started["run"]
    with _bar(output, started["steps"]) as bar:
        while True:
            try:
                with hwd.events(after=after, kinds=["run."]) as events:
                    for event in events:
                        after = event.id
                        if event.document is None or event.document.data.get("run") != run:
                            continue
                        if event.document.kind == "run.ended":
                            return dict(event.document.data)
                        if event.document.kind == "run.step":
                            _tell(output, bar, dict(event.document.data))
            except KeyboardInterrupt:
                if bar is None or bar.ask(f"\nAbort run {run} and leave the switches in a safe state?"):
                    output.note(f"aborting run {run}")
                    hwd.abort(run, by=f"{me()}, Ctrl-C")


def _bar(output: Output, steps: int) -> "Progress | nullcontext[None]":
    if not output.on_terminal:
        return nullcontext()
    from hwd.cli.progress import Progress

    return Progress(steps)


def _tell(output: Output, bar: "Progress | None", step: dict[str, Any]) -> None:
    if bar is not None:
        bar.step(step)
    elif step["state"] == "started":
        expected = f", about {seconds(step['expected_s'])} to go" if step["expected_s"] else ""
        output.note(f"step {step['step']} of {step['total']}: {step['what']}{expected}")
    elif step["state"] == "failed":
        output.note(f"step {step['step']} of {step['total']}: {step['what']} failed")


def _playbook(name: str, parameters: dict[str, str]) -> tuple[str, str]:
    """File and text of a playbook, with all that it includes: a path, or one of those that come with hwd."""
    from hwd.config.playbook import bundle_playbook
    from hwd.config.shipped import shipped

    path = Path(name)
    if not path.is_file() and "/" not in name:
        path = shipped("playbooks", name)
    return str(path.absolute()), bundle_playbook(path.absolute(), parameters)


def _parameters(defined: list[str]) -> dict[str, str]:
    parameters = {}
    for text in defined:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise ConfigError(f"-D {text}: write it as -D name=value")
        parameters[key] = value
    return parameters
