"""Metrics for Prometheus: how long a scrape blocks the event loop, and the cost of rendering in parts."""

import asyncio
import contextlib
import gc
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
from fastapi import FastAPI
from prometheus_client import generate_latest

from bench.child import child
from bench.measure import Bar, Summary, alternate, ratios
from bench.progress import Progress
from hwd.model.host import ClockAligned, HostBirth, HostPort
from hwd.model.instant import Instant, InstantName, Knowledge
from hwd.model.link import Link
from hwd.model.stage import Stage, StageName
from hwd.model.timeline import LinkTimeline, Timeline
from hwd.rack.nic_ports import NicPorts
from hwd.rack.ready_links import ReadyLinks
from hwd.telemetry import Budget, Metrics
from hwd.web.calls.metric_calls import METRICS, MetricCalls
from hwd.web.server import HttpServer, listen
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.values import PortSide
from hwd_drivers.devices.facts import SwitchCommand, SwitchPower, SwitchUp

LIMITS_MS = {10_000: 10.0, 100_000: 20.0}
"""Longest time that the loop may be blocked, by the number of series."""
PARTS_LIMIT = 1.3
"""Highest ratio to the time in which prometheus_client renders the same collector at once."""
ENDS, PORTS = 2 * 384, 8
"""Fibre ends of a switch, ports of a host."""
SETTLE_S = 0.05
"""Time measured before and after a scrape, to include its start and end; also without one, for the machine itself."""


@dataclass(slots=True)
class Ticking:
    """A task that yields to the loop again and again, and records its longest wait: in CPU time of the loop's thread,
    and in wall time.

    It stores no list: a million objects of the measurement would cost the garbage collector time, unlike in the daemon.
    """

    cpu_ms: float = 0.0
    wall_ms: float = 0.0

    async def run(self) -> None:
        cpu_s, wall_s = time.thread_time(), time.perf_counter()
        while True:
            await asyncio.sleep(0)
            cpu_now_s, wall_now_s = time.thread_time(), time.perf_counter()
            self.cpu_ms = max(self.cpu_ms, (cpu_now_s - cpu_s) * 1e3)
            self.wall_ms = max(self.wall_ms, (wall_now_s - wall_s) * 1e3)
            cpu_s, wall_s = cpu_now_s, wall_now_s

    def restart(self) -> "Ticking":
        """Return the times since the last restart."""
        recorded = Ticking(self.cpu_ms, self.wall_ms)
        self.cpu_ms = self.wall_ms = 0.0
        return recorded


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    bars = list[Bar]()
    gc.collect()
    gc.freeze()  # as `hwd serve` does at its start
    for series, limit_ms in list(LIMITS_MS.items())[: 1 if quick else None]:
        turns = 2 if quick else 30
        progress.say(f"render: {series} series, {turns} scrapes")
        metrics = _filled(series)
        scraped, idle, scrapes_ms, there = await _scraped(metrics, turns)
        cpu, wall = Summary.of([gap.cpu_ms for gap in scraped]), Summary.of([gap.wall_ms for gap in scraped])
        alone = Summary.of([gap.wall_ms for gap in idle])
        bars.append(
            Bar(
                name=f"stall of the loop by a scrape of {series} series",
                value=cpu.max,
                limit=limit_ms,
                unit="ms",
                spread=f"in the middle {cpu.median:.1f}; by the clock {wall.median:.1f}, at most {wall.max:.1f} "
                f"(without a scrape {alone.max:.1f}); {there} lines in {Summary.of(scrapes_ms).median:.0f} ms",
                n=turns,
                detail={
                    "cpu_ms": cpu.to_data(),
                    "wall_ms": wall.to_data(),
                    "idle_wall_ms": alone.to_data(),
                    "scrape_ms": Summary.of(scrapes_ms).to_data(),
                },
            )
        )
        bars.append(await _against_one_go(metrics, series, turns))
    gc.unfreeze()
    return bars


async def _scraped(metrics: Metrics, turns: int) -> tuple[list[Ticking], list[Ticking], list[float], int]:
    """Scrapes over HTTP by a client in a process of its own: the longest gaps, those of equal times without a scrape,
    the durations, and the number of lines of an answer."""
    scraped, idle, scrapes_ms = list[Ticking](), list[Ticking](), list[float]()
    async with _served(metrics) as url, child("bench.processes.scraper", url) as scraper, _ticking() as ticking:
        await scraper.hear()
        for turn in range(-2, turns):
            _touch(metrics, turn)
            await asyncio.sleep(SETTLE_S)
            ticking.restart()
            scraper.say("go")
            seconds = float((await scraper.hear()).split()[0])
            await asyncio.sleep(SETTLE_S)
            during = ticking.restart()
            await asyncio.sleep(SETTLE_S + seconds)
            alone = ticking.restart()
            if turn >= 0:
                scraped.append(during)
                idle.append(alone)
                scrapes_ms.append(seconds * 1e3)
    return scraped, idle, scrapes_ms, bytes(metrics.render()).count(b"\n")


async def _against_one_go(metrics: Metrics, series: int, turns: int) -> Bar:
    async def ours() -> None:
        bytes(metrics.render())

    async def floor() -> None:
        generate_latest(metrics)

    taken, least = await alternate(turns, ours, floor)
    against = ratios(taken, least)
    return Bar(
        name=f"rendering {series} series in parts against in one go",
        value=against.median,
        limit=PARTS_LIMIT,
        unit="x",
        spread=f"{Summary.of(taken).median * 1e3:.1f} ms against {Summary.of(least).median * 1e3:.1f}",
        n=turns,
        detail={"ours_s": Summary.of(taken).to_data(), "floor_s": Summary.of(least).to_data()},
    )


@contextlib.asynccontextmanager
async def _served(metrics: Metrics) -> AsyncIterator[str]:
    app = FastAPI(openapi_url=None)
    app.include_router(METRICS.router(lambda: MetricCalls(metrics.render)))
    server = HttpServer(app, listen("127.0.0.1", 0), before_stop=lambda: None)
    try:
        yield f"{await server.start()}/metrics"
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def _ticking() -> AsyncIterator[Ticking]:
    ticking = Ticking()
    task = asyncio.create_task(ticking.run())
    try:
        yield ticking
    finally:
        task.cancel()
        await asyncio.wait([task])


def _filled(series: int) -> Metrics:
    """Metrics with about so many series: of big switches, with two hosts for each."""
    switches = series // (ENDS + 40 + 2 * (4 * PORTS)) + 1
    hosts = 2 * switches
    metrics = Metrics(
        Budget(switches=switches, ends=switches * ENDS, hosts=hosts, ports=hosts * PORTS, lanes=0),
        ReadyLinks(NicPorts()),
    )
    for document in _documents(switches, hosts):
        metrics(document)
    return metrics


_PORT = HostPort(
    interface="eth0", present=True, ip=None, carrier=True, carrier_changes=3, probe_port=None, sources={}, rdma=True
)


def _documents(switches: int, hosts: int) -> Iterator[Document]:
    for number in range(switches):
        switch = f"ocs{number}"
        yield _document_of(SwitchUp(switch=switch, vendor="", model="", serial="", firmware="", down_s=0.0))
        yield _power(switch, -1.0)
        for verb in ("ENT-PATCH", "DLT-PATCH", "RTRV-PATCH", "RTRV-PORT-POWER"):
            yield _command(switch, verb)
    for number in range(hosts):
        host, names = f"h{number}", [f"eth{port}" for port in range(PORTS)]
        ports = {name: msgspec.structs.replace(_PORT, interface=name) for name in names}
        yield _document_of(HostBirth(host=host, boot="b", version="", ports=ports))
        yield _document_of(
            ClockAligned(
                host=host, boot="b", offset_ns=1, drift_ppm=0, error_ns=1, agent_ns=1, samples=9, round_trip_ns=1
            )
        )
    links = [
        LinkTimeline(
            link=Link.parse(f"h{number}.eth{port}<->h{number + 1}.eth{port}"),
            kept=False,
            instants=(Instant.never_left(InstantName.READY, ""),),
            stages=tuple(Stage(name=name, knowledge=Knowledge.SEEN, seconds=1.0) for name in StageName),
            dwell_s=None,
        )
        for number in range(0, hosts, 2)
        for port in range(PORTS)
    ]
    yield _document_of(
        Timeline(reconfiguration="r1", run=None, what="", commands=[], ends=[], links=links, breaches=[])
    )


def _touch(metrics: Metrics, turn: int) -> None:
    """Change some series between two scrapes: the power of a switch, and the command count of another."""
    metrics(_power("ocs0", -2.0 - turn / 100))
    metrics(_command("ocs1", "ENT-PATCH"))


def _command(switch: str, verb: str) -> Document:
    return _document_of(SwitchCommand(switch=switch, verb=verb, outcome="done", seconds=0.2, code="", text=""))


def _power(switch: str, power_dbm: float) -> Document:
    powers: dict[str, float | None] = {f"{end // 2}{'AB'[end % 2]}": power_dbm for end in range(ENDS)}
    return _document_of(
        SwitchPower(switch=switch, power_dbm={PortSide.parse(end): power for end, power in powers.items()})
    )


def _document_of(fact: Fact) -> Document:
    return Document(at_ns=0, wall_ns=0, fact=fact)
