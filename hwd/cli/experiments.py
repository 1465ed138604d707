"""`hwd run`, `abort`, `runs`, `show`, `report`: experiments and their results."""

from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hwd.cli.leasing import me
from hwd.cli.options import Data, Json, Url
from hwd.cli.output import Output, coloured, plural, seconds
from hwd.cli.recorded import recorded, run_reports
from hwd_drivers.kit.errors import ConfigError

if TYPE_CHECKING:
    from hwd.cli.progress import Progress
    from hwd.client import Client
    from hwd.report.load import RunReport

RunId = Annotated[str, typer.Argument(metavar="RUN", help="Its id, or the beginning of it.")]


def add_to(program: typer.Typer) -> None:
    program.command("run", epilog="Example: hwd run playbooks/smoke.yaml -D repeats=3")(run_)
    program.command(epilog="Example: hwd abort k3v9")(abort)
    program.command(epilog="Example: hwd runs")(runs)
    program.command(epilog="Example: hwd show k3v9")(show)
    program.command(epilog="Example: hwd report k3v9 m2p0 -o report.html")(report)


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
    file, text = _playbook(playbook)
    parameters = _parameters(define or [])
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
            _at(run["started_wall_ns"]),
            _took(run),
            run["outcome"] or "under way",
            run["why"],
        )
        for run in found
    ]
    if rows:
        output.table(("run", "playbook", "testbed", "started", "took", "outcome", "why"), rows)
    else:
        output.say("no runs")
    output.data([_short(run) for run in found])


def show(run: RunId, url: Url = None, data: Data = None, json: Json = False) -> None:
    """One run: how it ended, its steps, and how long each stage took."""
    from hwd.report.stages import stage_table
    from hwd.report.text import stage_text

    output = Output(json=json)
    with recorded(url, data) as source:
        found = source.run(run)
        documents = source.run_documents(found["id"])
        [loaded] = run_reports(source, [found["id"]])
    outcome = coloured(found["outcome"] or "under way")
    output.say(f"run {found['id']} {outcome}{': ' + found['why'] if found['why'] else ''}")
    output.say(f"playbook {found['playbook']} on testbed {found['testbed']}, hwd {found['version']}")
    output.say(f"started {_at(found['started_wall_ns'])}, took {_took(found) or 'until now'}")
    if found["parameters"]:
        output.say(f"parameters {', '.join(f'{key}={value}' for key, value in found['parameters'].items())}")
    if found["safe_state"]:
        output.say(f"switches {found['safe_state']}")
    steps = {
        document.data["step"]: (document.data["step"], document.data["what"], document.data["state"])
        for document in documents
        if document.kind == "run.step"
    }
    if steps:
        output.say()
        output.table(("step", "what", "state"), list(steps.values()))
    rows = stage_table([loaded], compare_with=_compared_with([loaded]))
    if rows:
        output.say()
        output.say(stage_text(rows).rstrip())
    for timeline in loaded.timelines:
        for breach in timeline.breaches:
            output.say(f"order broken in {timeline.reconfiguration}: {breach}")
    if loaded.events_lost:
        output.say(f"{plural(loaded.events_lost, 'event')} of agents were lost")
    output.data(
        {
            **_short(found),
            "parameters": found["parameters"],
            "inventory": found["inventory"],
            "steps": [{"step": step, "what": what, "state": state} for step, what, state in steps.values()],
            "timelines": [timeline.to_data() for timeline in loaded.timelines],
            "events_lost": loaded.events_lost,
        }
    )


def report(
    run: Annotated[list[str], typer.Argument(metavar="RUN...", help="Ids, or the beginnings of them.")],
    file: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write it.")] = Path(
        "report.html"
    ),
    by: Annotated[
        str | None, typer.Option("--by", metavar="PARTS", help="Split by topology, run, testbed; commas between.")
    ] = None,
    compare_with: Annotated[
        str | None, typer.Option("--compare-with", metavar="TESTBED", help="Published figures to stand beside.")
    ] = None,
    url: Url = None,
    data: Data = None,
    json: Json = False,
) -> None:
    """Stage table, waterfall and distributions of runs, in one HTML file."""
    from hwd.report.html import html

    output = Output(json=json)
    with recorded(url, data) as source:
        loaded = run_reports(source, run)
    compare_with = compare_with or _compared_with(loaded)
    text = html(loaded, by=by.split(",") if by else None, compare_with=compare_with)
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file}: cannot be written: {error.strerror}") from error
    output.say(f"{file}: {plural(len(loaded), 'run')}, {plural(sum(len(one.timelines) for one in loaded), 'timeline')}")
    output.data({"file": str(file.absolute()), "runs": [one.run.id for one in loaded]})


def _compared_with(reports: "Sequence[RunReport]") -> str | None:
    """What the playbooks of the runs ask to be compared with, where they agree."""
    import yaml

    asked = set()
    for one in reports:
        # The daemon has read it before it ran it, so it can be read.
        playbook = yaml.safe_load(one.run.playbook_text)
        section = playbook.get("report") if isinstance(playbook, dict) else None
        asked.add(section.get("compare_with") if isinstance(section, dict) else None)
    return asked.pop() if len(asked) == 1 else None


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


def _playbook(name: str) -> tuple[str, str]:
    """File and text of a playbook: a path, or one of those that come with hwd."""
    from hwd.config.shipped import shipped

    path = Path(name)
    if not path.is_file() and "/" not in name:
        path = shipped("playbooks", name)
    try:
        return str(path.absolute()), path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name}: not UTF-8 text") from error


def _parameters(defined: list[str]) -> dict[str, str]:
    parameters = {}
    for text in defined:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise ConfigError(f"-D {text}: write it as -D name=value")
        parameters[key] = value
    return parameters


def _short(run: dict[str, Any]) -> dict[str, Any]:
    """Without the files as they were."""
    return {key: value for key, value in run.items() if key not in ("playbook_text", "testbed_text", "inventory")}


def _at(wall_ns: int) -> str:
    return f"{datetime.fromtimestamp(wall_ns / 1e9, UTC).astimezone():%Y-%m-%d %H:%M:%S}"


def _took(run: dict[str, Any]) -> str:
    if run["ended_wall_ns"] is None:
        return ""
    return seconds((run["ended_wall_ns"] - run["started_wall_ns"]) / 1e9)
