"""The reader of an agent for carriers of a twin host, in its loop: `python -m bench.processes.link_reader CONFIG`.

It prints a line when it listens, then one for each notice: interface, carrier (1 or 0), earliest and latest time, ns.
"""

import asyncio
import sys
from pathlib import Path

from hwd_agents.process.config import load_config
from hwd_agents.process.serve import open_sources
from hwd_agents.sources.kernel.timed_selector import TimedSelector
from hwd_agents.sources.link_source import LinkReading, Origin
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.offload import ThreadOffload


def tell(reading: LinkReading) -> None:
    if reading.origin is Origin.NOTICE:
        print(reading.interface, int(reading.carrier), reading.earliest_ns, reading.at_ns, flush=True)


async def main(selector: TimedSelector, path: str) -> None:
    config = load_config(Path(path))
    sources = open_sources(config, SystemClock(), ThreadOffload(1), ThreadOffload(1), selector=selector)
    await sources.link.open(tell)
    print("listening", flush=True)
    await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    timed = TimedSelector(SystemClock())
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(timed)) as runner:
        runner.run(main(timed, *sys.argv[1:]))
