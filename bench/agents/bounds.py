"""Whether carriers changed within the bounds that an agent states, on an idle machine and on busy ones, and how wide
these are.

The truth is the time just before and just after the system call that set the carrier, taken in the process that made
it, on the clock of the agent's stamps.
"""

import asyncio
import contextlib
from dataclasses import dataclass, field
from pathlib import Path

from bench.agents.carriers import EVENT_WITHIN_S, Ports
from bench.child import Child, child
from bench.measure import Bar, Summary
from bench.progress import Progress

HOST = "h0"
LOADS = (0, 4, 14)
"""Busy processes beside it: on two cores none, two and seven on each."""
EVENTS, QUICK_EVENTS = 5000, 50
TOLD_EVERY = 1000
SPACING_S = 0.008
SETTLE_S = 1.0
OUTSIDE_LIMIT = 1.0
"""In 1,000."""
WIDTH_LIMIT_MS = 5.5
"""The limit on an idle machine; 1.1 times what it was with a constant of 4.5 ms."""


@dataclass(slots=True)
class Found:
    """The findings of one load: `early_ms` and `late_ms` are of the changes outside their bounds: by how much."""

    widths_ms: list[float] = field(default_factory=list)
    early_ms: list[float] = field(default_factory=list)
    late_ms: list[float] = field(default_factory=list)


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    events = QUICK_EVENTS if quick else EVENTS
    async with contextlib.AsyncExitStack() as stack:
        ports = await stack.enter_async_context(Ports.open([HOST], folder))
        config = ports.config(HOST, broker="mqtt://127.0.0.1:1", folder=folder)
        reader = await stack.enter_async_context(child("bench.processes.link_reader", str(config)))
        while await reader.hear() != "listening":
            pass
        bars = []
        for load in LOADS:
            async with contextlib.AsyncExitStack() as busy:
                for _ in range(load):
                    await busy.enter_async_context(child("bench.processes.busy"))
                await asyncio.sleep(SETTLE_S)
                found = Found()
                for number in range(events):
                    if number % TOLD_EVERY == 0:
                        outside = len(found.early_ms) + len(found.late_ms)
                        progress.say(f"bounds: {load} busy processes, {number} of {events} changes, {outside} outside")
                    await _change(ports, reader, found)
            bars += _bars(load, found)
    return bars


async def _change(ports: Ports, reader: Child, found: Found) -> None:
    await asyncio.sleep(SPACING_S)
    port, up, bracket = ports.flap()
    interface = port.partition(".")[2]
    async with asyncio.timeout(EVENT_WITHIN_S):
        while True:
            name, carrier, earliest_ns, latest_ns = (await reader.hear()).split()
            if (name, carrier) == (interface, str(int(up))):
                break
    found.widths_ms.append((int(latest_ns) - int(earliest_ns)) / 1e6)
    if bracket.after_ns < int(earliest_ns):
        found.early_ms.append((int(earliest_ns) - bracket.after_ns) / 1e6)
    elif bracket.before_ns > int(latest_ns):
        found.late_ms.append((bracket.before_ns - int(latest_ns)) / 1e6)


def _bars(load: int, found: Found) -> list[Bar]:
    widths, n = Summary.of(found.widths_ms), len(found.widths_ms)
    early, late = found.early_ms, found.late_ms
    return [
        Bar(
            name=f"carrier bounds: changes outside them, {load} busy processes",
            value=1000 * (len(early) + len(late)) / n,
            limit=OUTSIDE_LIMIT,
            unit="in 1,000",
            spread=f"{len(early)} before them, by {max(early, default=0):.2f} ms at most, and {len(late)} after them",
            n=n,
        ),
        Bar(
            name=f"carrier bounds: their width, {load} busy processes",
            value=widths.median,
            limit=None if load else WIDTH_LIMIT_MS,
            unit="ms",
            spread=f"quartiles {widths.p25:.2f}-{widths.p75:.2f}, p99 {widths.p99:.2f}, max {widths.max:.2f}",
            n=n,
            detail={"width_ms": widths.to_data()},
        ),
    ]
