"""The command `hwd token`: the token that other programs need to talk to the daemon."""

from typing import Annotated

import typer

from hwd.cli.options import Json, Url
from hwd.cli.output import Output

commands = typer.Typer(rich_markup_mode=None)


@commands.command(epilog="Example: hwd token --header | curl -H @- http://127.0.0.1:8642/api/v1/status")
def token(
    url: Url = None,
    header: Annotated[bool, typer.Option("--header", help="As a header field of HTTP, for `curl -H @-`.")] = False,
    json: Json = False,
) -> None:
    """Print the token of the daemon, for curl and others. Pass it on by a pipe or a file: everybody on this machine can
    read a command line.
    """
    from hwd.client.find import Whereabouts
    from hwd_drivers.core.errors import ConfigError

    output = Output(json=json)
    daemon = Whereabouts.find(url)
    found = daemon.token
    if found is None:
        raise ConfigError(
            f"daemon {daemon.url}: its token is not known here. "
            "It is not a daemon of this user on this machine, or it has tokens of HWD_TOKENS: "
            "set HWD_TOKEN, or HWD_TOKEN_FILE to a file that holds it"
        )
    output.data({"url": daemon.url, "token": found})
    if not json:
        typer.echo(f"Authorization: Bearer {found}" if header else found)
