"""Time from the start of `hwd serve` until every switch and the broker answer, against a bare service."""

import asyncio
from pathlib import Path

import httpx2

from bench.child import child
from bench.lab import TESTBED, Lab
from bench.measure import Bar, Summary, alternate
from bench.progress import Progress

READY_WITHIN_S, POLL_S = 30.0, 0.002


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    rounds = 2 if quick else 10
    lab = Lab(folder)
    async with lab.rack():
        progress.say(f"startup: {rounds} turns")
        ours_s, floor_s = await alternate(rounds, lambda: until_ready(lab, TESTBED), lambda: _start_bare(folder))
    ours, floor = Summary.of(ours_s), Summary.of(floor_s)
    return [
        Bar(
            name="start of the daemon until it is ready",
            value=ours.median / floor.median,
            limit=None,
            unit="x",
            spread=(
                f"{ours.median * 1e3:.0f} ms ({ours.p25 * 1e3:.0f}-{ours.p75 * 1e3:.0f}) "
                f"over {floor.median * 1e3:.0f} ms of a bare service"
            ),
            n=ours.n,
            detail={"ours_s": ours.to_data(), "floor_s": floor.to_data()},
        )
    ]


async def until_ready(lab: Lab, testbed: Path) -> float:
    """Seconds from the start of a daemon of `testbed`. Raises TimeoutError."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    async with (
        lab.daemon(testbed=testbed) as daemon,
        httpx2.AsyncClient(base_url=daemon.place.http, trust_env=False) as http,
    ):
        async with asyncio.timeout(READY_WITHIN_S):
            while True:
                if (await http.get("/readyz")).is_success:
                    return loop.time() - began_s
                await asyncio.sleep(POLL_S)


async def _start_bare(folder: Path) -> float:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    async with child("bench.processes.service", str(folder / "bare.db")) as bare:
        await bare.hear()
        return loop.time() - began_s
