"""`python -m hwd.sim TESTBED PLAYBOOK --records FILE` runs a playbook in virtual time, with the usual records.

Progress goes to stderr as JSON lines, `{"run", "done", "total"}`; the last line on stdout is the run's id.
"""

import argparse
import json
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import typer

from hwd.config.playbook.playbook import bundle_playbook
from hwd.daemon.installed_drivers import load
from hwd.model.run_facts import RunStep
from hwd.records.records_file import file_url
from hwd.sim.world import SIMULATED, START_WALL_NS, World
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import HwdError
from hwd_drivers.twins.virtual_time import run_virtual


def main() -> int:
    arguments = _arguments()
    try:
        run = run_virtual(_run(arguments), seed=arguments.seed)
    except HwdError as error:
        typer.echo(f"hwd.sim: {error.title}: {error}", err=True)
        return error.exit_status
    typer.echo(run)
    return 0


async def _run(arguments: argparse.Namespace) -> str:
    testbed = load(arguments.testbed).require()
    parameters = dict(pair.split("=", 1) for pair in arguments.define)
    text = bundle_playbook(arguments.playbook, parameters)
    world = World(
        testbed,
        arguments.testbed.read_text(encoding="utf-8"),
        seed=arguments.seed,
        records_url=file_url(arguments.records),
        process=replace(SIMULATED, version=version("hwd-daemon")),
        start_wall_ns=SystemClock().wall_ns() if arguments.today else START_WALL_NS,
        sinks=[_tell],
    )
    async with world:
        return await world.run_playbook(text, file=str(arguments.playbook), parameters=parameters)


def _tell(document: Document) -> None:
    match document.fact:
        case RunStep(state="done", run=run, done=done, total=total):
            typer.echo(json.dumps({"run": run, "done": done, "total": total}), err=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m hwd.sim", description=__doc__)
    parser.add_argument("testbed", type=Path)
    parser.add_argument("playbook", type=Path)
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--today", action="store_true", help="begin at the present date, so that no two runs are alike")
    parser.add_argument("-D", dest="define", action="append", default=[], metavar="K=V")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
