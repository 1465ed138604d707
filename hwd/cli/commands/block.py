"""The commands `hwd block` and `hwd unblock`: fibre ends that a switch blocks, whatever crossconnect they are in."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from hwd.cli.daemon import connect, me
from hwd.cli.options import Json, Lease, Url
from hwd.cli.output import Output
from hwd_drivers.core.errors import ConfigError

if TYPE_CHECKING:
    from hwd.model.switch import HeldEnds

Ends = Annotated[
    list[str],
    typer.Argument(
        metavar="ENDS...",
        help="Fibre ends of a switch, and ranges of them: ocs1:3A,4A..6A. More switches after a blank.",
    ),
]
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, recorded with your name.")]

commands = typer.Typer(rich_markup_mode=None)


@commands.command(epilog="Example: hwd block ocs1:3A,4A..6A --why 'dirty, to be cleaned'")
def block(ends: Ends, why: Why = "", lease: Lease = None, url: Url = None, json: Json = False) -> None:
    """Block fibre ends, by a shutter or a disabled port. The crossconnects stay as they are."""
    output, wanted = Output(json=json), parse_words(ends)
    with connect(url) as hwd:
        show(output, [hwd.block(*one, lease=lease, why=why, by=me()) for one in wanted.items()])


@commands.command(epilog="Example: hwd unblock ocs1:3A")
def unblock(ends: Ends, why: Why = "", lease: Lease = None, url: Url = None, json: Json = False) -> None:
    """Unblock fibre ends."""
    output, wanted = Output(json=json), parse_words(ends)
    with connect(url) as hwd:
        show(output, [hwd.unblock(*one, lease=lease, why=why, by=me()) for one in wanted.items()])


def show(output: Output, done: "Sequence[HeldEnds]") -> None:
    for one in done:
        dark = ", ".join(one.blocked) or "none"
        output.say(f"{one.switch}: {', '.join(one.ends)} {one.to}; held dark now: {dark}")
    output.data(done)


def parse_words(words: Sequence[str]) -> dict[str, list[str]]:
    """`ocs1:3A,4A..6A ocs2:1B` by switch. Raises ConfigError where a word has another form; the daemon
    checks the names.
    """
    found: dict[str, list[str]] = {}
    for word in words:
        switch, colon, ends = word.partition(":")
        items = ends.split(",")
        if not (switch and colon and all(items)):
            raise ConfigError(f"{word!r}: write the switch and its ends, such as ocs1:3A or ocs1:3A,4A..6A")
        found.setdefault(switch, []).extend(items)
    return found
