"""`hwd show`, `report`: what runs left behind."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hwd.cli.options import Data, Json, RunId, Url
from hwd.cli.output import Output, coloured, plural
from hwd.cli.recorded import recorded, run_reports, short, started_at, took
from hwd_drivers.kit.errors import ConfigError

if TYPE_CHECKING:
    from hwd.report.load import RunReport


def add_to(program: typer.Typer) -> None:
    program.command(epilog="Example: hwd show k3v9")(show)
    program.command(epilog="Example: hwd report k3v9 m2p0 -o report.html")(report)


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
    output.say(f"started {started_at(found['started_wall_ns'])}, took {took(found) or 'until now'}")
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
            **short(found),
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
