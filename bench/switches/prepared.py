"""A prepared set over HTTP: from the request to the first byte at the switch, against an empty handler."""

import asyncio
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Final

import httpx2

from bench.lab import NAME, Daemon, Lab, all_up
from bench.measure import Bar, Summary, alternate, ratios
from bench.progress import Progress
from hwd.client.find_token import find_token
from hwd.model.reconfiguration import ReconfigurationCommanded
from hwd_drivers.core.clock import SystemClock

PAIRS: Final = (1, 4, 16, 64)
LIMIT: Final = 2.0
TESTBED: Final = f"""\
testbed: {NAME}
switches:
  ocs1: {{driver: polatis-tl1, model: polatis-6000, size: 192x192, twin: {{timing: ideal, seed: 7}}}}
hosts:
  h0:
    twin: {{seed: 1}}
    nics:
      eth0: {{rail: 0, module: 100g-lr4}}
fibres:
  - h0.eth0 <-> ocs1.192
"""


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    rounds = 20 if quick else 200
    testbed = folder / "testbed.yaml"
    testbed.write_text(TESTBED)
    lab = Lab(folder)
    bars = []
    async with lab.rack(testbed), lab.daemon(testbed=testbed) as daemon:
        await daemon.until(all_up)
        for pairs in PAIRS:
            progress.say(f"prepared: {pairs} pairs, {rounds} turns")
            bars += await _measure(daemon, pairs, rounds)
    return bars


async def _measure(daemon: Daemon, pairs: int, rounds: int) -> list[Bar]:
    ids = _ids(pairs)
    asked_ns: dict[str, int] = {}
    answered_s: dict[str, float] = {}
    targets, clock = cycle(("b", "a")), SystemClock()
    with daemon.client() as hwd:
        lease = hwd.take_lease(holder="bench", ports=["all"], for_s=3600)
        made = hwd.prepare({name: _wanted(pairs, shift) for name, shift in (("a", 0), ("b", 1))}, lease=lease.id)
        hwd.switch(made.id, "a")
        last = hwd.documents().last
        headers = {"Authorization": f"Bearer {find_token(daemon.place, {})}"}
        async with httpx2.AsyncClient(base_url=daemon.place.http, headers=headers) as http:

            async def switch() -> None:
                id = next(ids)
                asked_ns[id] = clock.monotonic_ns()
                answer = await http.post(f"/api/v1/sets/{made.id}/switch", json={"target": next(targets), "id": id})
                answered_s[id] = (clock.monotonic_ns() - asked_ns[id]) / 1e9
                if answer.json().get("outcome") != "confirmed":
                    raise RuntimeError(f"the switch was not confirmed: {answer.text}")

            async def empty() -> None:
                (await http.get("/healthz")).raise_for_status()

            _, empty_s = await alternate(rounds, switch, empty)
        await asyncio.sleep(0.1)
        found = [
            document.fact
            for document in hwd.documents(after=last, kinds=[ReconfigurationCommanded.KIND]).documents
            if isinstance(document.fact, ReconfigurationCommanded)
        ]
        hwd.release_set(made.id)
        hwd.release_lease(lease.id)
    commanded = {one.reconfiguration: one for one in found if one.reconfiguration in asked_ns}
    turns = [*asked_ns][-rounds:]
    first_byte_s = [((commanded[id].commanded_ns or 0) - asked_ns[id]) / 1e9 for id in turns]
    call_us = Summary.of([float(commanded[id].asked_s or 0.0) * 1e6 for id in turns])
    over_http, whole = ratios(first_byte_s, empty_s), ratios([answered_s[id] for id in turns], empty_s)
    ours, floor = Summary.of([one * 1e3 for one in first_byte_s]), Summary.of([one * 1e3 for one in empty_s])
    name = f"prepared set of {pairs} {'pair' if pairs == 1 else 'pairs'}"
    return [
        Bar(
            name=f"{name} over HTTP, request to first byte",
            value=over_http.median,
            limit=LIMIT,
            unit="x",
            spread=(
                f"quartiles {over_http.p25:.2f}-{over_http.p75:.2f}; {ours.median:.2f} ms over an empty handler of "
                f"{floor.median:.2f} ms"
            ),
            n=over_http.n,
            detail={"ours_ms": ours.to_data(), "empty_ms": floor.to_data()},
        ),
        Bar(
            name=f"{name}, call to first byte",
            value=call_us.median,
            limit=None,
            unit="us",
            spread=f"quartiles {call_us.p25:.0f}-{call_us.p75:.0f}, p99 {call_us.p99:.0f} us; within the daemon",
            n=call_us.n,
            detail={"call_us": call_us.to_data()},
        ),
        Bar(
            name=f"{name} over HTTP, request to answer",
            value=whole.median,
            limit=None,
            unit="x",
            spread=f"quartiles {whole.p25:.2f}-{whole.p75:.2f}; read back and synced before the answer",
            n=whole.n,
        ),
    ]


def _wanted(pairs: int, shift: int) -> str:
    """Two targets without a pair in common."""
    return "ocs1:" + ",".join(f"{one + 1}A-{(one + shift) % max(pairs, 2) + 1}B" for one in range(pairs))


def _ids(pairs: int) -> Iterator[str]:
    return (f"b{pairs:02d}{number:05d}" for number in range(100_000))
