"""`hwd-agent select` sets switches of this host from the command line."""

from typing import Annotated

import typer

from hwd_agents.switches.select_client import SOCKET, Selector, check
from hwd_agents.wire import Selected
from hwd_drivers.core.errors import ConfigError, HwdError
from hwd_drivers.core.printable import printable
from hwd_drivers.core.structs import to_json


def select(
    wanted: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SWITCH:CROSSCONNECTS...", help="sel0:in-2, sel1:1A-2B,3A-7B, sel0:dark; none: show the switches."
        ),
    ] = None,
    within_s: Annotated[float, typer.Option("--within", metavar="S", help="For switches and links together.")] = 1.0,
    epoch: Annotated[
        int | None, typer.Option("--epoch", metavar="N", help="Only under this epoch of the lease.")
    ] = None,
    path: Annotated[
        str, typer.Option("--socket", metavar="PATH", envvar="HWD_SELECT_SOCKET", help="Where the agent listens.")
    ] = SOCKET,
    json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Set switches of this host and wait until the links behind them are up.

    Exit status: 0 links up; 1 a switch was not set; 3 refused, nothing was changed; 4 no agent;
    5 switches set, but a link did not come up in time.

    Example: hwd-agent select sel0:in-2 --within 1
    """
    try:
        with Selector(path) as selector:
            if not wanted:
                _show(selector, json=json)
                return
            answer = selector.ask(dict(map(_parse, wanted)), within_s=within_s, epoch=epoch)
        if json:
            typer.echo(to_json(answer).decode())
        else:
            _tell(answer)
        check(answer)
    except HwdError as error:
        typer.echo(printable(f"hwd-agent select: {error.title}: {error}"), err=True)
        raise typer.Exit(error.exit_status) from error


def main() -> None:
    """`hwd-agent select ...`, without its first word."""
    program = typer.Typer(add_completion=False, rich_markup_mode=None)
    program.command()(select)
    program(prog_name="hwd-agent select")


def _parse(text: str) -> tuple[str, str]:
    name, colon, crossconnects = text.partition(":")
    if not colon or not name or not crossconnects:
        raise ConfigError(f"{text!r}: write SWITCH:CROSSCONNECTS, such as sel0:in-2")
    return name, crossconnects


def _tell(answer: Selected) -> None:
    begin_ns = answer.requested_ns
    for name, switch in answer.switches.items():
        now = "unknown" if switch.now is None else " ".join(switch.now) or "dark"
        sent, answered = _after_ms(switch.commanded_ns, begin_ns), _after_ms(switch.acknowledged_ns, begin_ns)
        moved = f"commanded {sent}, answered {answered}" if switch.commanded_ns is not None else "it stood so already"
        typer.echo(printable(f"{name}: {now}, epoch {switch.epoch}; {moved}"))
    for port, one in answer.ports.items():
        state = (
            "kept"
            if one.kept and one.up
            else f"up {_after_ms(one.at_ns, begin_ns)}"
            if one.up
            else f"not up: {one.why}"
        )
        typer.echo(printable(f"{port}: {state}"))
    if answer.outcome == "up":
        typer.echo(f"up after {(answer.answered_ns - begin_ns) / 1e6:.1f} ms")


def _after_ms(at_ns: int | None, begin_ns: int) -> str:
    return "never" if at_ns is None else f"+{(at_ns - begin_ns) / 1e6:.1f} ms"


def _show(selector: Selector, *, json: bool) -> None:
    switches = selector.show()
    if json:
        typer.echo(to_json(switches).decode())
        return
    for name, switch in switches.items():
        crossconnects = switch["crossconnects"]
        stands = "unknown" if crossconnects is None else " ".join(one["id"] for one in crossconnects) or "dark"
        state = "up" if switch["up"] else f"down: {switch['cause']}"
        leased = f"epoch {switch['epoch']}" if switch["epoch"] is not None else f"may not be set: {switch['why_not']}"
        words = (
            f"{name} ({switch['driver']} {switch['model']}): {state}; {stands}; {leased}; "
            f"ports {', '.join(switch['ports'])}"
        )
        typer.echo(printable(words))
