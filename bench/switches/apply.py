"""An apply of 16 pairs on a zero-delay TL1 twin, against the bare exchange of the same bytes."""

import contextlib
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

from bench.child import child
from bench.measure import Bar, Summary, alternate, ratios
from bench.progress import Progress
from bench.switches.driven_rack import DrivenRack
from bench.switches.exchange import BareExchange, Tap, Turn
from hwd.config.testbed.testbed import load_testbed
from hwd.config.testbed.wanted_state import parse_what
from hwd.model.request import Request
from hwd.model.testbed import Testbed
from hwd.reconfigure.journal.journal import Journal
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd_drivers.core.disk import FileDisk
from hwd_drivers.devices import registry

PAIRS = 16
LIMIT = 2.0
TESTBED = """\
testbed: bench
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 32x32, twin: {timing: ideal}}
"""
STRAIGHT = "ocs1:" + ",".join(f"{port}A-{port}B" for port in range(1, PAIRS + 1))
TURNED = "ocs1:" + ",".join(f"{port}A-{port % PAIRS + 1}B" for port in range(1, PAIRS + 1))
"""Two sets of pairs over the same ports: each apply moves all of them."""


class Applier:
    """The daemon's objects between a request and a switch; the last documents are stored."""

    def __init__(self, reconfigurer: Reconfigurer, testbed: Testbed) -> None:
        self._reconfigurer = reconfigurer
        self._requests = itertools.cycle([Request(wanted=parse_what(text, testbed)) for text in (STRAIGHT, TURNED)])

    async def apply(self) -> None:
        """Apply the other set of pairs: read, plan, journal, command, read back, confirm."""
        reconfiguration = await self._reconfigurer.begin(next(self._requests))
        await self._reconfigurer.confirm(reconfiguration)


@contextlib.asynccontextmanager
async def applying(testbed: Testbed, address: str, folder: Path, *, sync: bool) -> AsyncIterator[Applier]:
    folder.mkdir()
    disk = FileDisk(folder / "journal")
    try:
        async with DrivenRack.connected(testbed, {"ocs1": address}) as rack:
            journal = Journal(disk, sync=sync)
            journal.load()
            yield Applier(rack.reconfigurer(journal), testbed)
    finally:
        disk.close()


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    (folder / "testbed.yaml").write_text(TESTBED)
    testbed = load_testbed(folder / "testbed.yaml", {name: registry.find(name) for name in registry.names()}).require()
    rounds = 10 if quick else 600
    async with child("bench.processes.twins", "32x32", "4") as twins, contextlib.AsyncExitStack() as stack:
        first, second, third, fourth = (await twins.hear()).split()
        recorded = await _record(testbed, first, folder / "recorded")
        plain = await stack.enter_async_context(applying(testbed, second, folder / "plain", sync=False))
        synced = await stack.enter_async_context(applying(testbed, third, folder / "synced", sync=True))
        async with applying(testbed, fourth, folder / "primed", sync=False) as primer:
            await primer.apply()
            await primer.apply()  # the state that the first set was recorded from
        bare = await stack.enter_async_context(BareExchange.open(fourth))
        sets = itertools.cycle(recorded)
        progress.say(f"apply: {rounds} turns")
        without_s, with_s, floor_s = await alternate(
            rounds, plain.apply, synced.apply, lambda: bare.exchange(next(sets))
        )
    return [
        _bar("apply of 16 pairs, journal not synced", without_s, floor_s, LIMIT),
        _bar("apply of 16 pairs, journal synced", with_s, floor_s, None),
    ]


async def _record(testbed: Testbed, address: str, folder: Path) -> tuple[list[Turn], list[Turn]]:
    """Record the bytes of an apply of each set, starting from the other set."""
    async with Tap.open(address) as (tap, tapped), applying(testbed, tapped, folder, sync=False) as recorded:
        await recorded.apply()
        await recorded.apply()
        turns = []
        for _ in range(2):
            tap.turns.clear()
            await recorded.apply()
            turns.append(list(tap.turns))
    return turns[0], turns[1]


def _bar(name: str, ours_s: list[float], floor_s: list[float], limit: float | None) -> Bar:
    ours, floor, ratio = Summary.of(ours_s), Summary.of(floor_s), ratios(ours_s, floor_s)
    return Bar(
        name=name,
        value=ours.median / floor.median,
        limit=limit,
        unit="x",
        spread=(
            f"quartiles {ratio.p25:.2f}-{ratio.p75:.2f}; {ours.median * 1e3:.2f} ms over {floor.median * 1e3:.2f} ms"
        ),
        n=ours.n,
        detail={"ours_s": ours.to_data(), "floor_s": floor.to_data(), "ratio": ratio.to_data()},
    )
