"""How often the agent's watcher reads the modules of a twin host while their ports are observed, in real time."""

import asyncio
import os
import random
from pathlib import Path
from typing import Any, Final

from bench.measure import Bar
from bench.progress import Progress
from hwd_agents.process.config import ModuleTiming, PortConfig, SamplingConfig
from hwd_agents.process.priority import ask_for_real_time
from hwd_agents.sources.twin.hostwire_server import HostWireServer
from hwd_agents.sources.twin.manual_host import ManualHost
from hwd_agents.sources.twin.twin_sources import TwinSources
from hwd_agents.watchers.optics_watcher import OpticsWatcher
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.transports.dial import TcpDialer

WANTED_HZ: Final = 200.0
LEAST_HZ: Final = 0.99 * WANTED_HZ
PORTS: Final = (1, 8)
HOST, PART = "h0", "QSFP28-LR4"


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    seconds = 1.0 if quick else 10.0
    given = "a real-time process" if ask_for_real_time() else "without real-time priority"  # as in an agent
    try:
        return [await _burst(folder, progress, ports, seconds, given) for ports in PORTS]
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


async def _burst(folder: Path, progress: Progress, ports: int, seconds: float, given: str) -> Bar:
    progress.say(f"light: {ports} ports observed for {seconds:g} s")
    clock, dialer, host = SystemClock(), TcpDialer(), ManualHost(HOST)
    names = [f"eth{number}" for number in range(ports)]
    for name in names:
        host.plug(name)
    listener = await dialer.listen(lambda: HostWireServer(host, clock), f"unix:{folder / f'h{ports}.sock'}")
    twin = TwinSources(dialer, listener.address, clock, host=HOST)
    reached = asyncio.Event()
    phase = random.Random(1)
    watchers = [
        OpticsWatcher(
            name,
            PortConfig(interface=name),
            twin.modules,
            clock,
            _nothing,
            sampling=SamplingConfig(),
            phase=phase,
            timings={PART: ModuleTiming(los_s=0.0, monitor_s=0.0)},
            on_change=lambda: None,
        )
        for name in names
    ]
    tasks = [asyncio.create_task(twin.run(reached.set))]
    try:
        await reached.wait()
        tasks += [asyncio.create_task(watcher.run()) for watcher in watchers]
        await asyncio.gather(*(watcher.begin() for watcher in watchers))
        await asyncio.sleep(seconds)
        for watcher in watchers:
            watcher.end()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        host.hang_up()
        await listener.close()
    seen = [watcher.observation() for watcher in watchers]
    rates = sorted(one.looks * 1e9 / (one.upto_ns - one.from_ns) for one in seen)
    gap_ms = max(one.longest_gap_ns for one in seen) / 1e6
    words = "1 port" if ports == 1 else f"{ports} ports at once, the slowest of them"
    return Bar(
        name=f"looks at the light of {words}",
        value=rates[0],
        limit=LEAST_HZ,
        unit="/s",
        spread=(
            f"{rates[0]:.1f}-{rates[-1]:.1f} a second, where {WANTED_HZ:g} are asked for; "
            f"longest gap {gap_ms:.1f} ms; {given}"
        ),
        n=sum(one.looks for one in seen),
        at_least=True,
    )


def _nothing(kind: str, port: str | None, **rest: Any) -> None:
    """Fail on any event: the ports stay dark."""
    raise AssertionError(f"{kind} of {port}: {rest}")
