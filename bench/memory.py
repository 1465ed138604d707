"""Memory of the daemon's process with the demo's rack: a switch, four hosts with their agents, after some applies."""

import asyncio
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.child import program
from bench.measure import Bar
from bench.progress import Progress
from hwd.client import Client
from hwd.config.places import DaemonPlace, daemon_of
from hwd_drivers.kit.offload import ThreadOffload

TESTBED = Path(__file__).resolve().parents[1] / "examples" / "opus-testbed.yaml"
NAME = "opus-testbed"
LIMIT_MB = 300.0
UP_WITHIN_S, POLL_S = 60.0, 0.25
WANTED = ("pairs groups=dp", "pairs groups=pp")
"""Two topologies over the same ports."""


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    applies = 4 if quick else 20
    environment = {**os.environ, "HWD_RUN_DIR": str(folder / "run")}
    (folder / "run").mkdir(mode=0o700)
    hwd = (sys.executable, "-m", "hwd.cli")
    serve = ("serve", str(TESTBED), "--no-twin", "--data", str(folder / "data"), "--http", "127.0.0.1:0")
    progress.say(f"memory: the demo's rack, {applies} applies")
    async with (
        program(*hwd, "twin", "up", str(TESTBED), environment=environment, log=folder / "rack.log"),
        program(*hwd, *serve, environment=environment, log=folder / "daemon.log"),
    ):
        async with asyncio.timeout(UP_WITHIN_S):
            place = await _up(environment)
        fresh_mb, _ = _memory_mb(place.pid)
        threads = ThreadOffload(1)
        try:
            for number in range(applies):
                await threads(_apply, place.http, WANTED[number % len(WANTED)])
        finally:
            threads.close()
        now_mb, most_mb = _memory_mb(place.pid)
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


async def _up(environment: Mapping[str, str]) -> DaemonPlace:
    while True:
        place = daemon_of(NAME, environment)
        if place is not None and _is_up(place.http):
            return place
        await asyncio.sleep(POLL_S)


def _is_up(url: str) -> bool:
    with Client(url) as hwd:
        status = hwd.status()
    return all(switch["up"] for switch in status["switches"]) and all(host["clock"] for host in status["hosts"])


def _apply(url: str, what: str) -> None:
    with Client(url) as hwd:
        hwd.apply(what=what)


def _memory_mb(pid: int) -> tuple[float, float]:
    """Resident now, and at most so far."""
    status = Path(f"/proc/{pid}/status").read_text()
    now, most = (re.search(rf"{key}:\s+(\d+) kB", status) for key in ("VmRSS", "VmHWM"))
    assert now is not None
    assert most is not None
    return int(now[1]) / 1e3, int(most[1]) / 1e3
