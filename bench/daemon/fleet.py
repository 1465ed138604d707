"""Ten thousand events a second from sixty-four agents for a minute: what the daemon loses, and the memory it needs."""

import asyncio
from pathlib import Path

from bench.broker import mosquitto
from bench.child import Child, child
from bench.daemon.intake import taken
from bench.lab import NAME, Lab, all_aligned
from bench.measure import Bar
from bench.progress import Progress

HOSTS, BATCH = 64, 16
RATE, RATE_LIMIT = 10_200.0, 10_000.0
"""The rate is a little above its limit, as the wait for the last acknowledgement counts."""
MEMORY_LIMIT_MB = 400.0
WITHIN_S = 240.0


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    warm_s, seconds = (1.0, 2.0) if quick else (5.0, 60.0)
    testbed = folder / "testbed.yaml"
    testbed.write_text(_testbed())
    lab = folder / "lab"
    lab.mkdir()
    (folder / "spools").mkdir()
    async with (
        mosquitto(folder) as port,
        Lab(lab).daemon(mqtt=f"mqtt://127.0.0.1:{port}", testbed=testbed) as daemon,
        child("bench.processes.agents", str(port), str(folder / "spools"), str(HOSTS)) as agents,
    ):
        await agents.hear()
        await daemon.until(all_aligned)
        progress.say(f"fleet: {HOSTS} agents, {RATE:g} events a second for {seconds:g} s")
        async with asyncio.timeout(WITHIN_S):
            warm, _, _ = await _tell(agents, warm_s)
            events, told_s, acked_s = await _tell(agents, seconds)
        sent = warm + events
        lost = sent - await asyncio.to_thread(taken, daemon)
        now_mb, most_mb = daemon.memory_mb()
    return [
        Bar(
            name=f"events a second of {HOSTS} agents",
            value=events / acked_s,
            limit=RATE_LIMIT,
            unit="/s",
            spread=(
                f"{events} events, {BATCH} at a time, told in {told_s:.2f} s; "
                f"the last acknowledged {acked_s - told_s:.2f} s later"
            ),
            n=events,
            at_least=True,
        ),
        Bar(
            name=f"events lost of {HOSTS} agents",
            value=lost,
            limit=0,
            unit="",
            spread=f"{sent} sent; acknowledged, in the records and in the metrics",
            n=sent,
        ),
        Bar(
            name=f"memory of the daemon with {HOSTS} agents",
            value=most_mb,
            limit=MEMORY_LIMIT_MB,
            unit="MB",
            spread=f"at most; {now_mb:.0f} MB at the end",
            n=sent,
        ),
    ]


async def _tell(agents: Child, seconds: float) -> tuple[int, float, float]:
    """Number of events; seconds until the last was reported, and until it was acknowledged."""
    agents.say(f"{RATE} {seconds} {BATCH}")
    events, told_s, acked_s = (await agents.hear()).split()
    return int(events), float(told_s), float(acked_s)


def _testbed() -> str:
    hosts = "\n".join(
        f"  h{number}:\n    twin: {{seed: {number}}}\n    nics:\n"
        + "\n".join(f"      eth{index}: {{rail: {index}, module: 100g-lr4}}" for index in range(4))
        for number in range(HOSTS)
    )
    switch = "  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 32x32, twin: {timing: polatis-opus, seed: 7}}"
    return f"testbed: {NAME}\nswitches:\n{switch}\nhosts:\n{hosts}\n"
