"""`python -m bench`: run the measurements, write `bench/results.json`, print the table."""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Protocol

from bench import apply, clock, event, intake, memory, render, startup, status
from bench.broker import MosquittoMissingError
from bench.measure import Bar
from bench.progress import Progress
from bench.table import machine, table, write
from hwd.twin.kernel import NamespacesUnavailableError

RESULTS = Path(__file__).with_name("results.json")


MEASURE_WITHIN_S = 300.0


class Measure(Protocol):
    """One group of lines of the table."""

    def __call__(self, folder: Path, progress: Progress, *, quick: bool) -> Awaitable[list[Bar]]: ...


MEASURES: Mapping[str, Measure] = {
    "apply": apply.measure,
    "event": event.measure,
    "clock": clock.measure,
    "intake": intake.measure,
    "render": render.measure,
    "memory": memory.measure,
    "startup": startup.measure,
    "status": status.measure,
}


def main() -> int:
    """Exit status 1 where a bar is not met."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure each path against its floor.")
    parser.add_argument("--only", choices=[*MEASURES], action="append", help="this one alone; may be given again")
    parser.add_argument("--quick", action="store_true", help="a tenth of the turns: to see that it works")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS, help="default: bench/results.json")
    options = parser.parse_args()
    progress, bars = Progress(), list[Bar]()
    for name in options.only or MEASURES:
        with tempfile.TemporaryDirectory(prefix="hwd-bench-") as folder:
            try:
                bars += asyncio.run(_run(MEASURES[name], Path(folder), progress, quick=options.quick))
            except (NamespacesUnavailableError, MosquittoMissingError) as error:
                progress.say(f"{name}: left out: {error}")
    here = machine()
    write(options.output, bars, here)
    print(table(bars, here))
    return 0 if all(bar.met for bar in bars) else 1


async def _run(measure: Measure, folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    async with asyncio.timeout(MEASURE_WITHIN_S):
        return await measure(folder, progress, quick=quick)


if __name__ == "__main__":
    sys.exit(main())
