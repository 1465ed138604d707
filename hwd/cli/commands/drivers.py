"""The commands `hwd driver list`, `check`, `new`: installed drivers, their quality, and packages for new ones."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hwd.cli.options import Json, group
from hwd.cli.output import Output
from hwd.model.plural import plural

if TYPE_CHECKING:
    from hwd_drivers.conformance.quality import Result
    from hwd_drivers.devices.registry import DriverSpec

OURS = "hwd-drivers"
"""The package of the drivers in this source tree; other packages have their own tables."""
PAGE = Path("drivers/README.md")

commands = group("driver", help="Drivers of switches.", epilog="Example: hwd driver list")


@commands.command("list", epilog="Example: hwd driver list")
def list_drivers(json: Json = False) -> None:
    """List the installed drivers, with their packages and models."""
    from hwd_drivers.core.errors import ConfigError
    from hwd_drivers.devices import registry

    output = Output(json=json)
    rows: list[tuple[object, ...]] = []
    data: list[dict[str, object]] = []
    for name in registry.names():
        package = registry.distribution_of(name)
        try:
            spec = registry.find(name)
        except ConfigError as error:
            output.note(str(error))
            data.append({"driver": name, "package": package, "error": str(error)})
            continue
        rows.append((name, ", ".join(spec.models), spec.default_port or "", spec.evidence, package))
        data.append(
            {
                "driver": name,
                "package": package,
                "models": list(spec.models),
                "default_port": spec.default_port,
                "evidence": spec.evidence,
            }
        )
    output.table(("driver", "models", "port", "evidence", "package"), rows)
    output.data(data)


@commands.command(epilog="Example: hwd driver check polatis-tl1")
def check(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="Drivers by name.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All that are installed.")] = False,
    rack: Annotated[
        Path | None,
        typer.Option(
            "--rack",
            metavar="FILE",
            help="On the switches of this testbed: its twins, and real ones at ports that it calls spare.",
        ),
    ] = None,
    up_to: Annotated[
        str,
        typer.Option(
            "--up-to", metavar="QUALITY", help="bronze, silver, gold or platinum: leave out what only more needs."
        ),
    ] = "platinum",
    write: Annotated[
        bool, typer.Option("--write", help=f"Update the table in {PAGE}; with --rack, save the run with the driver.")
    ] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Say how each check ended.")] = False,
    json: Json = False,
) -> None:
    """Check drivers against their own twins, over transports that are whole, bytewise, slow, lossy and dying, and
    report the quality of each. Exit status 1 where a check fails.

    With --rack the switches are those of a testbed file: twins as configured there, and real ones, as far as they can
    be checked without injecting faults.
    """
    from hwd_drivers.conformance.examine import examine
    from hwd_drivers.conformance.quality import Quality
    from hwd_drivers.core.errors import ConfigError

    output = Output(json=json)
    if up_to not in list(Quality)[1:]:
        raise ConfigError(f"--up-to {up_to}: there are {', '.join(list(Quality)[1:])}")
    if write and rack is None and up_to != Quality.PLATINUM:
        raise ConfigError(f"--write: the table has the results of all checks. Omit --up-to {up_to}")
    specs, refused = _wanted(names or [], every=every)
    for error in refused.values():
        output.note(error)
    if write and rack is None:
        _page()
    checked: list[tuple[DriverSpec, list[Result]]] = []
    for spec in specs:
        if rack is None:
            results = _collected(examine(spec, up_to=Quality(up_to)), output, verbose=verbose)
        else:
            from hwd.cli.commands.glass import check_rack

            checks = check_rack(spec, rack, output, up_to=Quality(up_to), write=write)
            results = _collected(checks, output, verbose=verbose)
        checked.append((spec, results))
        _sum_up(spec, results, output)
    unusable = [{"driver": name, "error": error} for name, error in refused.items()]
    output.data([*(_data(spec, results) for spec, results in checked), *unusable])
    if write and rack is None:
        _write_table(checked, output)
    if refused or any(result.outcome == "failed" for _, results in checked for result in results):
        raise typer.Exit(1)


@commands.command(epilog="Example: hwd driver new acme-x1")
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the driver, such as acme-x1.")],
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="A folder that does not exist yet. Default: hwd-NAME.")
    ] = None,
    selector: Annotated[
        bool, typer.Option("--selector", help="A 1xN on a serial line: one file with the table of driver and twin.")
    ] = False,
    json: Json = False,
) -> None:
    """Create the package of a new driver: protocol, driver, twin, models, README and tests of a made-up device, which
    pass `hwd driver check` unchanged.
    """
    from hwd_drivers.scaffold import scaffold

    output = Output(json=json)
    into = Path(f"hwd-{name}") if folder is None else folder
    files = scaffold(name, into, selector=selector)
    for file in files:
        output.say(str(file))
    output.note(f"{plural(len(files), 'file')}; next: pip install -e {into}; hwd driver check {name}")
    output.data({"driver": name, "folder": str(into), "files": [str(file) for file in files]})


def _wanted(names: Sequence[str], *, every: bool) -> "tuple[list[DriverSpec], dict[str, str]]":
    """The drivers that were named; or all that can be loaded, and by name why the others cannot."""
    from hwd_drivers.core.errors import ConfigError
    from hwd_drivers.devices import registry

    if every == bool(names):
        raise ConfigError("which driver? Name some, or write --all")
    if not every:
        return [registry.find(name) for name in names], {}
    specs, refused = [], {}
    for name in registry.names():
        try:
            specs.append(registry.find(name))
        except ConfigError as error:
            refused[name] = str(error)
    return specs, refused


def _collected(results: "Iterator[Result]", output: Output, *, verbose: bool) -> "list[Result]":
    """All results; failures and progress are shown as they come. Log messages of drivers about injected
    faults are not shown.
    """
    import logging

    import rich.progress
    from rich.console import Console

    collected: list[Result] = []
    console = Console(stderr=True)
    bar = rich.progress.Progress(
        rich.progress.SpinnerColumn(),
        rich.progress.TextColumn("{task.completed:.0f} checks"),
        rich.progress.TextColumn("{task.description}", markup=False),
        rich.progress.TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    logging.disable(logging.WARNING)
    try:
        with bar:
            task = bar.add_task("", total=None)
            for result in results:
                collected.append(result)
                words = f"{result.driver} {result.model} {result.way or ''} {result.check}"
                bar.update(task, advance=1, description=words)
                if verbose or result.outcome in ("failed", "missing"):
                    output.note(str(result))
    finally:
        logging.disable(logging.NOTSET)
    return collected


def _sum_up(spec: "DriverSpec", results: "list[Result]", output: Output) -> None:
    from hwd_drivers.conformance.quality import Outcome, quality

    counts = {outcome: sum(result.outcome is outcome for result in results) for outcome in Outcome}
    said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
    output.say(f"{spec.name}: {quality(results)} ({said}; evidence {spec.evidence})")


def _data(spec: "DriverSpec", results: "list[Result]") -> dict[str, object]:
    from hwd_drivers.conformance.quality import quality

    return {
        "driver": spec.name,
        "quality": quality(results),
        "evidence": spec.evidence,
        "results": [
            {
                "model": result.model,
                "check": result.check,
                "way": result.way,
                "needed_for": result.needed_for,
                "outcome": result.outcome,
                "text": result.text,
                "took_s": round(result.took_s, 3),
            }
            for result in results
        ],
    }


def _page() -> str:
    """The page of the table. Raises ConfigError where this is not the source tree."""
    from hwd_drivers.core.errors import ConfigError

    if not PAGE.is_file():
        raise ConfigError(f"{PAGE}: not here. --write needs the source tree: go to its top folder")
    return PAGE.read_text(encoding="utf-8")


def _write_table(checked: "list[tuple[DriverSpec, list[Result]]]", output: Output) -> None:
    from hwd_drivers.conformance.quality_table import filled, row
    from hwd_drivers.core.output_file import write_file
    from hwd_drivers.devices import registry

    known = [name for name in registry.names() if registry.distribution_of(name) == OURS]
    rows = [row(spec, results) for spec, results in checked if spec.name in known]
    write_file(PAGE, filled(_page(), rows, known=known))
    output.note(f"{PAGE}: {plural(len(rows), 'row')} written")
