"""A twin host's agent, whose clock is moved by a known amount: `python -m bench.processes.agent CONFIG OFFSET_S
DRIFT_PPM`.

It prints one line: a time of its clock and the machine's CLOCK_MONOTONIC_RAW at that moment. The true time of each
stamp is computed from them.
"""

import asyncio
import signal
import sys
from pathlib import Path

from hwd_agents.bus.mqtt import MqttBus
from hwd_agents.process.agent import Agent
from hwd_agents.process.config import broker_url, load_config
from hwd_agents.process.seams import Seams, Storage
from hwd_agents.process.serve import clock_port, open_sources
from hwd_agents.sources.kernel.timed_selector import TimedSelector
from hwd_drivers.core.clock import ShiftedClock, SystemClock
from hwd_drivers.core.disk import FileDisk
from hwd_drivers.core.ids import Draws, RandomIds
from hwd_drivers.core.offload import ThreadOffload


async def main(selector: TimedSelector, path: str, offset_s: str, drift_ppm: str) -> None:
    config = load_config(Path(path))
    clock = ShiftedClock(SystemClock(), offset_s=float(offset_s), drift_ppm=float(drift_ppm))
    at_ns = clock.monotonic_ns()
    print(at_ns, clock.to_inner_ns(at_ns), flush=True)
    draws, folder = Draws(None), Path(config.spool.directory)
    folder.mkdir()
    agent = Agent(
        config,
        Seams(clock=clock, ids=RandomIds(), draws=draws),
        Storage(events=FileDisk(folder / "events"), settings=FileDisk(folder / "settings")),
        open_sources(config, clock, ThreadOffload(1), ThreadOffload(1), selector=selector),
        bus=lambda will: MqttBus(broker_url(config), f"bench-{config.host}", clock, draws, will),
        clock_port=clock_port(config, clock),
    )
    life = asyncio.create_task(agent.run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, life.cancel)
    await asyncio.wait([life])


if __name__ == "__main__":
    timed = TimedSelector(SystemClock())
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(timed)) as runner:
        runner.run(main(timed, *sys.argv[1:]))
