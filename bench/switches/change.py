"""Changes of one pair and of 192 over the TL1 driver on a zero-delay twin, against bare loops with the same bytes."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from bench.child import child
from bench.measure import Bar, Summary, alternate, ratios
from bench.progress import Progress
from bench.switches.exchange import BareExchange, Tap, Turn
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.devices import registry
from hwd_drivers.devices.abilities import CrossConnects
from hwd_drivers.transports.dial import TcpDialer

MODEL, SIZE = "polatis-6000", "192x192"
LIMITS = {1: 1.5, 192: 1.3}
"""Highest ratio to the time of the bare loop, by the number of pairs in one change."""
DEADLINE_S = 10.0


class Changer:
    """Alternates between two sets of pairs at the same ports: each change moves all of them."""

    def __init__(self, switch: CrossConnects, pairs: int) -> None:
        self._switch = switch
        straight, turned = ([_pair(port, shift, pairs) for port in range(pairs)] for shift in (0, 1))
        self._changes = itertools.cycle([(turned, straight), (straight, turned)])

    async def change(self) -> None:
        remove, add = next(self._changes)
        deadline_s = asyncio.get_running_loop().time() + DEADLINE_S
        await self._switch.change_crossconnects(remove=remove, add=add, deadline_s=deadline_s)


def _pair(port: int, shift: int, pairs: int) -> Crossconnect:
    far = (port + shift) % pairs if pairs > 1 else shift
    return Crossconnect.parse(f"{port + 1}A-{far + 1}B")


@contextlib.asynccontextmanager
async def changing(address: str, pairs: int) -> AsyncIterator[Changer]:
    spec = registry.find("polatis-tl1")
    context = registry.OpenContext(
        name="ocs1",
        address=address,
        dialer=TcpDialer(),
        clock=SystemClock(),
        sink=lambda document: None,
        user="bench",
        password="bench",
        options=spec.options(),
        capabilities=spec.capabilities(MODEL, SIZE),
    )
    device = await spec.open(context)
    try:
        assert isinstance(device, CrossConnects)
        yield Changer(device, pairs)
    finally:
        await device.close()


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    return [await _measure(pairs, limit, progress, quick=quick) for pairs, limit in LIMITS.items()]


async def _measure(pairs: int, limit: float, progress: Progress, *, quick: bool) -> Bar:
    rounds = (4000 if pairs == 1 else 800) // (10 if quick else 1)
    async with child("bench.processes.twins", SIZE, "3") as twins, contextlib.AsyncExitStack() as stack:
        first, second, third = (await twins.hear()).split()
        sets = await _record(first, pairs)
        async with changing(third, pairs) as prepared:
            await prepared.change()  # the set that the second recording begins with
        ours = await stack.enter_async_context(changing(second, pairs))
        await ours.change()
        bare = await stack.enter_async_context(BareExchange.open(third))
        turns = itertools.cycle([sets[1], sets[0]])
        progress.say(f"change of {pairs}: {rounds} turns")
        ours_s, floor_s = await alternate(rounds, ours.change, lambda: bare.exchange(next(turns)))
    mine, floor, ratio = Summary.of(ours_s), Summary.of(floor_s), ratios(ours_s, floor_s)
    return Bar(
        name=f"a change of {pairs} pair{'s' if pairs > 1 else ''} over TL1",
        value=mine.median / floor.median,
        limit=limit,
        unit="x",
        spread=(
            f"quartiles {ratio.p25:.2f}-{ratio.p75:.2f}; {mine.median * 1e3:.2f} ms over {floor.median * 1e3:.2f} ms"
        ),
        n=mine.n,
        detail={"ours_s": mine.to_data(), "floor_s": floor.to_data(), "ratio": ratio.to_data()},
    )


async def _record(address: str, pairs: int) -> Sequence[list[Turn]]:
    """Record the bytes of each of the two changes, starting from the other set."""
    async with Tap.open(address) as (tap, tapped), changing(tapped, pairs) as recorded:
        await recorded.change()
        await recorded.change()
        turns = []
        for _ in range(2):
            tap.turns.clear()
            await recorded.change()
            turns.append(list(tap.turns))
    return turns
