"""`python -m bench` runs the measurements, prints their table, writes it into `results.json` and the README."""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any, Protocol

from bench.agents import asks, bounds, clock, event, idle, light, operations, sync
from bench.broker import MosquittoMissingError
from bench.daemon import fleet, intake, memory, rack, recovery, render, report, size, startup, status
from bench.measure import Bar
from bench.progress import Progress
from bench.switches import apply, change, composites, controllers, elements, mfabric, plan, prepared, selection, twins
from bench.table import keep, machine, result, table
from hwd.twin.kernel import NamespacesUnavailableError

RESULTS, README = (Path(__file__).with_name(name) for name in ("results.json", "README.md"))
MEASURE_WITHIN_S = 300.0
LONGER_S = {"bounds": 660.0}
"""The times of measures that take longer: on a busy machine each of many steps waits for a time slice."""


class Measure(Protocol):
    """One measurement: returns some lines of the table."""

    def __call__(self, folder: Path, progress: Progress, *, quick: bool) -> Awaitable[list[Bar]]: ...


MEASURES: Mapping[str, Measure] = {
    "change": change.measure,
    "apply": apply.measure,
    "prepared": prepared.measure,
    "composites": composites.measure,
    "plan": plan.measure,
    "elements": elements.measure,
    "mfabric": mfabric.measure,
    "controllers": controllers.measure,
    "event": event.measure,
    "asks": asks.measure,
    "operations": operations.measure,
    "bounds": bounds.measure,
    "clock": clock.measure,
    "light": light.measure,
    "intake": intake.measure,
    "fleet": fleet.measure,
    "recovery": recovery.measure,
    "selection": selection.measure,
    "render": render.measure,
    "memory": memory.measure,
    "idle": idle.measure,
    "sync": sync.measure,
    "twins": twins.measure,
    "startup": startup.measure,
    "status": status.measure,
    "rack": rack.measure,
    "size": size.measure,
    "report": report.measure,
}


def main() -> int:
    """Run the benchmark; exit status 1 where a limit is not met."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure each path against its floor.")
    parser.add_argument("--only", choices=[*MEASURES], action="append", help="this one alone; may be given again")
    parser.add_argument("--quick", action="store_true", help="a few turns, to see that it works; nothing is written")
    options = parser.parse_args()
    progress, results = Progress(), dict[str, Mapping[str, Any]]()
    met = True
    for name in options.only or MEASURES:
        with tempfile.TemporaryDirectory(prefix="hwd-bench-") as folder:
            try:
                here = machine()
                within_s = LONGER_S.get(name, MEASURE_WITHIN_S)
                bars = asyncio.run(_run(MEASURES[name], Path(folder), progress, within_s, quick=options.quick))
            except (NamespacesUnavailableError, MosquittoMissingError) as error:
                progress.say(f"{name}: left out: {error}")
                continue
        results[name] = result(bars, here)
        met = met and all(bar.met for bar in bars)
    if not options.quick:
        keep(RESULTS, README, results, list(MEASURES))
    print(table(results))
    return 0 if met else 1


async def _run(measure: Measure, folder: Path, progress: Progress, within_s: float, *, quick: bool) -> list[Bar]:
    async with asyncio.timeout(within_s):
        return await measure(folder, progress, quick=quick)


if __name__ == "__main__":
    sys.exit(main())
