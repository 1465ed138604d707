"""The commands `hwd demo`, `check`, `schema`, `serve`: files and the daemon."""

from pathlib import Path
from typing import Annotated

import typer

from hwd.cli.options import Json, TestbedFile, Verbose
from hwd.cli.output import Output
from hwd.model.plural import plural
from hwd_drivers.core.own_python import uncollected
from hwd_drivers.core.structs import to_plain

commands = typer.Typer(rich_markup_mode=None)


@commands.command(epilog="Example: hwd demo")
def demo(
    report: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The file for the report.")] = Path(
        "demo-report.html"
    ),
    json: Json = False,
) -> None:
    """Run a whole twin rack and its main experiment in one process tree, under a minute."""
    from hwd_drivers.core.clock import SystemClock

    clock = SystemClock()
    began_ns = clock.monotonic_ns()  # the imports for the report take seconds
    from hwd.cli.commands.demo import main

    raise typer.Exit(main(report=report, json=json, clock=clock, began_ns=began_ns))


@commands.command(epilog="Example: hwd check examples/opus-testbed.yaml playbooks/smoke.yaml")
def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Testbeds, playbooks, topologies, scenarios.")],
    json: Json = False,
) -> None:
    """Report all problems of files, with file and line. Exit status 2 when there are more than warnings.

    Playbooks and topologies are checked against the testbed, where one is among the files. A name without a path is a
    playbook that is part of hwd, where no such file exists here.
    """
    from hwd.cli.write_target import busy
    from hwd.config.shipped_file import shipped_file
    from hwd.daemon.installed_drivers import check as check_files

    output = Output(json=json)
    there = (
        file if "/" in file or "." in file or Path(file).exists() else shipped_file("playbooks", file) for file in files
    )
    with busy(output, "reading files"):
        problems = check_files(list(there))
    errors = sum(not problem.warning for problem in problems)
    for problem in problems:
        output.say(str(problem))
    output.note(f"{plural(len(files), 'file')}: {plural(errors, 'error')}, {plural(len(problems) - errors, 'warning')}")
    output.data(to_plain(problems))
    if errors:
        raise typer.Exit(2)


@commands.command(epilog="Example: hwd schema playbook > playbook.schema.json")
def schema(
    kind: Annotated[str, typer.Argument(metavar="testbed|playbook|scenario|document|message", help="Of what.")],
    json: Json = False,
) -> None:
    """Print the JSON Schema of testbed, playbook or scenario files, for editors, or of documents or MQTT messages,
    for programs. Rules over a whole file are only checked by `hwd check`.
    """
    from hwd.config.json_schema import SCHEMAS, json_schema
    from hwd.config.yaml.file_problem import nearest
    from hwd_drivers.core.errors import ConfigError

    if kind not in SCHEMAS:
        raise ConfigError(f"schema {kind!r}: unknown; {nearest(kind, SCHEMAS)}")
    Output(json=True).data(json_schema(kind))


@commands.command(epilog="Example: hwd serve examples/opus-testbed.yaml --http 127.0.0.1:8642")
def serve(
    testbed: TestbedFile,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="DIR", help="Default: ~/.local/state/hwd/<testbed>.")
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            "--http",
            metavar="HOST:PORT",
            help="Default: 127.0.0.1, port 8642 or a free one. Other addresses need HWD_TOKENS.",
        ),
    ] = None,
    mqtt: Annotated[
        str | None,
        typer.Option(
            "--mqtt",
            metavar="BROKER",
            help="`embedded`, `embedded:HOST:PORT` for agents elsewhere, or mqtt://host:port. "
            "Default: HWD_MQTT, the file that HWD_MQTT_FILE names, else embedded. "
            "Put a URL with a password there: everybody can read a command line.",
        ),
    ] = None,
    no_twin: Annotated[
        bool, typer.Option("--no-twin", help="Do not start the twin rack; `hwd twin up` runs it.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Run the daemon of a testbed, until Ctrl-C. Its twins, where it has any, are started as a process of their own."""
    with uncollected():
        from hwd.daemon.process_main import log_to_stderr, run_until_stopped
        from hwd.daemon.serve import ServeOptions
        from hwd.daemon.serve import serve as serve_testbed

    log_to_stderr(verbose=verbose)
    options = ServeOptions(testbed=testbed, data=data, http=http, mqtt=mqtt, twin=not no_twin)
    run_until_stopped(serve_testbed(options))
