"""CPU time and memory that an agent uses while nothing happens."""

import asyncio
import re
import time
from pathlib import Path

from bench.lab import NAME, Lab, all_up
from bench.measure import Bar, Summary
from bench.progress import Progress
from hwd.config.run_files.places import rack_of

CPU_LIMIT_PERCENT, MEMORY_LIMIT_MB = 0.5, 65.0
"""The limits of an agent; pyroute2 takes 25 MB of the memory, since its package imports all of its parts."""
SETTLE_S, WINDOW_S = 15.0, 10.0
"""The clock is aligned first, with many exchanges. A window includes polls of the slowest watchers, every 10 s."""


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    windows = 1 if quick else 12
    lab = Lab(folder)
    async with lab.rack(), lab.daemon() as daemon:
        await daemon.until(all_up)
        await asyncio.sleep(SETTLE_S)
        place = rack_of(NAME, lab.environment)
        assert place is not None
        pids = [int(str(entry["agent"])) for entry in place.hosts.values()]
        progress.say(f"idle: {len(pids)} agents with nothing to do, {windows} windows of {WINDOW_S:g} s")
        shares: list[float] = []
        for _ in range(windows):
            before, began_s = [cpu_ns(pid) for pid in pids], time.monotonic()
            await asyncio.sleep(WINDOW_S)
            elapsed_s = time.monotonic() - began_s
            shares += [(cpu_ns(pid) - taken) / 1e7 / elapsed_s for pid, taken in zip(pids, before, strict=True)]
        memory = Summary.of([resident_mb(pid) for pid in pids])
    share = Summary.of(shares)
    return [
        Bar(
            name="an agent with nothing to do, share of a core",
            value=share.median,
            limit=CPU_LIMIT_PERCENT,
            unit="%",
            spread=(
                f"quartiles {share.p25:.2f}-{share.p75:.2f}, max {share.max:.2f}; "
                f"{len(pids)} agents, all that a kernel twin has to watch"
            ),
            n=share.n,
        ),
        Bar(
            name="an agent with nothing to do, memory",
            value=memory.max,
            limit=MEMORY_LIMIT_MB,
            unit="MB",
            spread=f"the largest of {memory.n}; median {memory.median:.1f} MB",
            n=memory.n,
        ),
    ]


def cpu_ns(pid: int) -> int:
    """CPU time of all threads of a process so far (the first field of schedstat)."""
    return sum(int(task.read_text().split()[0]) for task in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def resident_mb(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1e3
