"""`hwd verify` says whether a bundle says what its own records say."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hwd.cli.options import Json
from hwd.cli.output import Output
from hwd.cli.write_target import LOADING, busy, counted
from hwd.model.plural import plural
from hwd_drivers.core.structs import to_plain

if TYPE_CHECKING:
    from hwd.report.bundle import Verification

SHOWN_MAX = 20
"""Differences printed of each part; --json has them all."""
DIFFERENT = 1
"""Exit status."""

commands = typer.Typer(rich_markup_mode=None)


@commands.command(epilog="Example: hwd verify k3v9.hwd.zip")
def verify(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="What `hwd export RUN --as bundle` wrote.")],
    json: Json = False,
) -> None:
    """Derive every table, figure and page of a bundle from its records again, and say what differs. Exit status 1:
    something differs; 2: no bundle, or a damaged one.
    """
    output = Output(json=json)
    with busy(output, LOADING):
        from hwd.daemon.commit import find_commit
        from hwd.report.bundle import open_bundle, recorded_report, this_program
        from hwd.report.bundle import verify as verified

    with open_bundle(bundle) as archive:
        report = recorded_report(archive, lambda documents: counted(documents, output, f"{bundle}"))
        with busy(output, "deriving"):
            found = verified(archive, report, verified_by=this_program(commit=find_commit().id))
    _say(output, bundle, found)
    output.data({"file": str(bundle.absolute()), "equal": found.equal, **to_plain(found)})
    if not found.equal:
        raise typer.Exit(DIFFERENT)


def _say(output: Output, bundle: Path, found: "Verification") -> None:
    shown: dict[str, int] = {}
    for one in found.differences:
        shown[one.part] = shown.get(one.part, 0) + 1
        if shown[one.part] <= SHOWN_MAX:
            output.say(str(one))
    for part, count in shown.items():
        if count > SHOWN_MAX:
            output.say(f"{part}: {count - SHOWN_MAX} more")
    if found.unlike:
        output.say(f"made by {found.made_by}; another program verified it: {'; '.join(found.unlike)}")
    counts = ((found.figures, "figure"), (found.tables, "table"), (found.pages, "page"))
    equal = ", ".join(plural(count, word) for count, word in counts)
    output.say(f"{bundle}: run {found.run}, {equal}: equal")
    if not found.equal:
        output.say(f"{bundle}: not equal: {', '.join(shown)}")
