"""Memory of the daemon's process with the demo's rack: a switch, four hosts with their agents, after some applies."""

from pathlib import Path

from bench.lab import WANTED, Lab, all_up
from bench.measure import Bar
from bench.progress import Progress
from hwd_drivers.core.offload import ThreadOffload

LIMIT_MB = 300.0


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    applies = 4 if quick else 20
    lab = Lab(folder)
    progress.say(f"memory: the demo's rack, {applies} applies")
    async with lab.rack(), lab.daemon() as daemon:
        await daemon.until(all_up)
        fresh_mb, _ = daemon.memory_mb()
        threads = ThreadOffload(1)
        try:
            for number in range(applies):
                await threads(daemon.apply, WANTED[number % len(WANTED)])
        finally:
            threads.close()
        now_mb, most_mb = daemon.memory_mb()
    return [
        Bar(
            name="memory of the daemon, demo's rack",
            value=now_mb,
            limit=LIMIT_MB,
            unit="MB",
            spread=f"{fresh_mb:.0f} MB when up, {now_mb:.0f} after {applies} applies, {most_mb:.0f} at most",
            n=applies,
        )
    ]
