"""ReconfigureOCS of mFabric, from what experts send each other to NIC ports, over sizes."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from bench.measure import Bar, Summary, alternate
from bench.progress import Progress
from hwd.mfabric.demand import folded, server_demand
from hwd.mfabric.nic_mapping import OpticalPort, nic_links
from hwd.mfabric.reconfigure_ocs import reconfigure_ocs

NICS = 6
GPUS = 8
"""The GPUs of a server, with an expert each."""
SIZES = ((64, 1, 1.0), (80, 1, 2.0), (250, 1, 10.0), (64, 64, 100.0))
"""Servers of a region, regions, and the limit in ms."""


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    bars: list[Bar] = []
    for servers, regions, limit_ms in SIZES:
        turns = (3 if quick else 30) if regions > 1 else 10 if quick else 100
        progress.say(f"mfabric: {regions} regions of {servers} servers, {turns} turns")
        draws = np.random.default_rng(1)
        sent = [draws.lognormal(size=(servers * GPUS, servers * GPUS)) for _ in range(min(regions, 4))]
        ports = [[OpticalPort((server, nic), nic * 2 // NICS) for nic in range(NICS)] for server in range(servers)]

        async def mapped(
            servers: int = servers, regions: int = regions, sent: list[Any] = sent, ports: list[Any] = ports
        ) -> float:
            began_s = time.perf_counter()
            found = 0
            for region in range(regions):
                demand = folded(server_demand(sent[region % len(sent)], experts_per_gpu=1, gpus_per_server=GPUS))
                found += len(nic_links(reconfigure_ocs(demand, [NICS] * servers), ports))
            took_s = time.perf_counter() - began_s
            assert found > 0.99 * regions * servers * NICS / 2
            return took_s

        async def floor(regions: int = regions, sent: list[Any] = sent) -> float:
            """The demand between servers alone: each number is read once."""
            began_s = time.perf_counter()
            for region in range(regions):
                server_demand(sent[region % len(sent)], experts_per_gpu=1, gpus_per_server=GPUS)
            return time.perf_counter() - began_s

        ours_s, least_s = await alternate(turns, mapped, floor)
        ours, least = (Summary.of([one * 1e3 for one in times]) for times in (ours_s, least_s))
        where = (
            f"{servers} servers of {NICS} NICs" if regions == 1 else f"{servers * regions} servers in {regions} regions"
        )
        bars.append(
            Bar(
                name=f"expert demand to NIC mapping, {where}",
                value=ours.median,
                limit=limit_ms,
                unit="ms",
                spread=f"quartiles {ours.p25:.2f}-{ours.p75:.2f}, max {ours.max:.2f}; {least.median:.2f} to sum it up",
                n=ours.n,
                detail={"ours_ms": ours.to_data(), "sum_ms": least.to_data()},
            )
        )
    return bars
