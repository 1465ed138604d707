"""The time of `hwd status` from the shell on the demo's rack, against bare Python and Python with httpx2."""

import sys
from pathlib import Path

from bench.child import in_shell
from bench.lab import INSTALLED, Lab, all_up
from bench.measure import Bar, Summary, alternate
from bench.progress import Progress

LIMIT_MS = 300.0


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    rounds = 3 if quick else 100
    lab = Lab(folder)
    async with lab.rack(), lab.daemon() as daemon:
        await daemon.until(all_up)
        progress.say(f"status: {rounds} turns")
        ours_s, python_s, httpx_s = await alternate(
            rounds,
            lambda: in_shell(lab.environment, INSTALLED, "status"),
            lambda: in_shell(lab.environment, sys.executable, "-c", "pass"),
            lambda: in_shell(lab.environment, sys.executable, "-c", "import httpx2"),
        )
    ours, python, httpx2 = (Summary.of([second * 1e3 for second in seconds]) for seconds in (ours_s, python_s, httpx_s))
    beside = f"python alone {python.median:.0f} ms, with httpx2 {httpx2.median:.0f} (p99 {httpx2.p99:.0f})"
    detail = {"ours_ms": ours.to_data(), "python_ms": python.to_data(), "httpx_ms": httpx2.to_data()}
    return [
        Bar(
            name="hwd status",
            value=ours.median,
            limit=LIMIT_MS,
            unit="ms",
            spread=(
                f"quartiles {ours.p25:.0f}-{ours.p75:.0f}; {ours.median / httpx2.median:.2f} times the floor: {beside}"
            ),
            n=ours.n,
            detail=detail,
        ),
        Bar(
            name="hwd status, p99",
            value=ours.p99,
            limit=LIMIT_MS,
            unit="ms",
            spread=f"max {ours.max:.0f} ms",
            n=ours.n,
        ),
    ]
