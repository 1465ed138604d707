"""The options of `hwd-agent` and `hwd-agent put-back`. A running agent does not import the parser of options."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from hwd_agents.process.config import AgentConfig, load_config
from hwd_agents.process.serve import open_sources, serve, spool_folder
from hwd_agents.settings.put_back import put_back_all
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import HwdError
from hwd_drivers.core.offload import ThreadOffload


def main() -> None:
    """Run the command in sys.argv."""
    if sys.argv[1:2] == ["put-back"]:
        del sys.argv[1]
        typer.run(put_back)
    typer.run(run)


def run(
    config: Annotated[
        Path, typer.Option(help="The YAML file that says which testbed, host, broker, ports and sources.")
    ],
    log: Annotated[str, typer.Option(help="debug, info, warning or error; to stderr.")] = "info",
) -> None:
    """Watch this host's network ports and tell the daemon over MQTT.

    `hwd-agent select` sets switches of this host through the running agent: see its own --help.

    Example: hwd-agent --config /etc/hwd/agent.yaml
    """
    raise typer.Exit(serve(config, log))


def put_back(config: Annotated[Path, typer.Option(help="The YAML file of the agent.")]) -> None:
    """Put back what runs have set of this host's ports, while no agent runs here; say what that was.

    Example: hwd-agent put-back --config /etc/hwd/agent.yaml
    """

    async def put(loaded: AgentConfig, folder: Path) -> list[str]:
        clock, offload = SystemClock(), ThreadOffload(1)
        try:
            return await put_back_all(loaded, folder, open_sources(loaded, clock, offload, offload), clock)
        finally:
            offload.close()

    try:
        loaded = load_config(config)
        with spool_folder(loaded) as folder:
            for words in asyncio.run(put(loaded, folder)):
                typer.echo(words)
    except HwdError as error:
        typer.echo(f"hwd-agent: {error.title}: {error}", err=True)
        raise typer.Exit(error.exit_status) from error
