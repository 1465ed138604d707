"""Time in which a job sets its host's own switches: until the first byte to one, and until the links are up.

The floor of the first is a bare socket round trip: a Unix server of asyncio that sends back what comes. That of the
second is a bare loop: the same bytes to the same twins, and raw rtnetlink.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from typing_extensions import override

from bench.child import child, program
from bench.lab import HWD, POLL_S, UP_WITHIN_S
from bench.measure import Bar, Summary, alternate, ratios
from bench.progress import Progress
from hwd.client import Client
from hwd.config.run_files.places import daemon_of, rack_of, run_dir
from hwd_drivers.core.errors import LinkError

T = TypeVar("T")

LIMIT, FIRST_BYTE_LIMIT_US = 1.2, 200.0
NAME = "bench-selection"
TESTBED = """
testbed: bench-selection
switches:
  tx0: {driver: osw, model: osw, size: 1x4, owner: h0, twin: {timing: lowradix-8ms, seed: 1}}
  rx0: {driver: osw, model: osw, size: 1x4, owner: h0, twin: {timing: lowradix-8ms, seed: 2}}
hosts:
  h0:
    twin: {kernel: true, timing: ideal, seed: 1}
    nics: {eth0: {ip: 10.1.0.1/32, module: 100g-lr4}}
  h1:
    twin: {kernel: true, timing: ideal, seed: 2}
    nics:
      eth0: {ip: 10.1.1.1/32, module: 100g-lr4}
      eth1: {ip: 10.1.1.2/32, module: 100g-lr4}
fibres:
  - h0.eth0.tx -> tx0.in
  - rx0.in -> h0.eth0.rx
  - tx0.1 -> h1.eth0.rx
  - h1.eth0.tx -> rx0.1
  - tx0.2 -> h1.eth1.rx
  - h1.eth1.tx -> rx0.2
"""
"""Two switches of 8 ms that a host owns. Either output leads to a port, so that a link comes up once both are set."""


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    rounds = 30 if quick else 300
    testbed = folder / "testbed.yaml"
    testbed.write_text(TESTBED)
    environment = {**os.environ, "HWD_RUN_DIR": str(folder / "run")}
    environment.pop("HWD_URL", None)
    (folder / "run").mkdir(mode=0o700)
    async with program(*HWD, "twin", "up", str(testbed), environment=environment, log=folder / "rack.log"):
        rack = await _there(lambda: rack_of(NAME, environment))
        keeper = rack.hosts["h0"]["keeper"]
        if keeper is None:
            raise LinkError("bench of selections: this machine gives no namespaces")
        serve = ("serve", str(testbed), "--no-twin", "--data", str(folder / "data"), "--http", "127.0.0.1:0")
        async with program(*HWD, *serve, environment=environment, log=folder / "daemon.log"):
            await _granted(environment)
            path = run_dir(NAME, environment) / "h0.select.sock"
            echo_path = str(folder / "echo.sock")
            echo = await asyncio.get_running_loop().create_unix_server(_Echo, echo_path)
            switches = [f"{name}={rack.addresses[name]}" for name in ("tx0", "rx0")]
            async with (
                echo,
                child("bench.processes.selector", str(keeper), "h0", str(path), echo_path, *switches) as job,
            ):
                await job.hear()
                progress.say(f"selection: {rounds} turns")
                first_s: list[float] = []

                async def turn(who: str) -> float:
                    """Select output 2, then 1, so that all turns begin in one state; returns the mean seconds."""
                    taken_ns = first_ns = 0
                    for output in (2, 1):
                        job.say(f"{who} {output}")
                        taken, first = map(int, (await job.hear()).split())
                        taken_ns += taken
                        first_ns += first
                    if who == "ours":
                        first_s.append(first_ns / 2e9)
                    return taken_ns / 2e9

                ours, floor, echoed = await alternate(
                    rounds, lambda: turn("ours"), lambda: turn("floor"), lambda: turn("echo")
                )
    return [_first_byte(first_s[-rounds:], echoed), _bar(ours, floor)]


class _Echo(asyncio.Protocol):
    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


async def _granted(environment: dict[str, str]) -> None:
    """Wait until the daemon has granted the host the lease of both switches."""
    place = await _there(lambda: daemon_of(NAME, environment))
    with Client.find(place.http, environment) as hwd:
        await _there(lambda: all(one.lease and one.up for one in hwd.switches()) or None)


async def _there(look: Callable[[], T | None]) -> T:
    """Poll `look` until it returns a value; returns that. Raises TimeoutError."""
    async with asyncio.timeout(UP_WITHIN_S):
        while True:
            if (found := await asyncio.to_thread(look)) is not None:
                return found
            await asyncio.sleep(POLL_S)


def _first_byte(ours: Sequence[float], echoed: Sequence[float]) -> Bar:
    over = Summary.of([1e6 * (mine - bare) for mine, bare in zip(ours, echoed, strict=True)])
    mine, bare = (Summary.of([1e6 * seconds for seconds in each]) for each in (ours, echoed))
    return Bar(
        name="local selection, request to the first byte at a switch, over a bare socket round trip",
        value=over.median,
        limit=FIRST_BYTE_LIMIT_US,
        unit="us",
        spread=f"quartiles {over.p25:.0f}-{over.p75:.0f}; {mine.median:.0f} us over {bare.median:.0f} us",
        n=over.n,
        detail={"over_us": over.to_data(), "ours_us": mine.to_data(), "echo_us": bare.to_data()},
    )


def _bar(ours: list[float], floor: list[float]) -> Bar:
    factor = ratios(ours, floor)
    mine, bare = (Summary.of([1e3 * seconds for seconds in each]) for each in (ours, floor))
    return Bar(
        name="local selection of two switches of 8 ms, until link-up",
        value=factor.median,
        limit=LIMIT,
        unit="x",
        spread=f"quartiles {factor.p25:.2f}-{factor.p75:.2f}; {mine.median:.2f} ms over {bare.median:.2f} ms",
        n=factor.n,
        detail={"ratio": factor.to_data(), "ours_ms": mine.to_data(), "floor_ms": bare.to_data()},
    )
