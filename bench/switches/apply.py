"""An apply of 16 pairs on a zero-delay TL1 twin, against the bare exchange of the same bytes."""

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

import msgspec

from bench.child import child
from bench.measure import Bar, Summary, alternate, ratios
from bench.progress import Progress
from bench.switches.exchange import BareExchange, Tap, Turn
from hwd.config.testbed.testbed import load_testbed
from hwd.config.testbed.wanted_state import parse_what
from hwd.fabric.fabric import Fabric
from hwd.model.instant import Origin
from hwd.model.nic_port import NicPortId
from hwd.model.request import Request
from hwd.model.testbed import Testbed
from hwd.ports.ledger import Ledger
from hwd.reconfigure.apply.switches import Switches
from hwd.reconfigure.desired.desired import Desired
from hwd.reconfigure.desired.history import History, Outcomes
from hwd.reconfigure.journal.journal import Journal
from hwd.reconfigure.plans.move_counts import MoveCounts
from hwd.reconfigure.plans.planner import BackgroundPlanner, Planner
from hwd.reconfigure.reconfigurer import Reconfigurer
from hwd.reconfigure.transfers import Transfers
from hwd.records.records import Records
from hwd.web.linkboard import Linkboard
from hwd.web.switchboard import Switchboard
from hwd_agents.wire import Arguments
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.disk import FileDisk
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import LinkError
from hwd_drivers.core.ids import Draws, RandomIds
from hwd_drivers.core.offload import ThreadOffload
from hwd_drivers.devices import registry
from hwd_drivers.devices.abilities import Device
from hwd_drivers.devices.supervisor import Supervisor
from hwd_drivers.transports.dial import TcpDialer

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


A = TypeVar("A", bound=msgspec.Struct)


class SilentAgents:
    """The agents of a testbed that has no hosts."""

    def address(self, port: NicPortId) -> tuple[str, int] | None:
        return None

    def verbs(self, port: NicPortId) -> None:
        return None

    def boot(self, host: str) -> str | None:
        return None

    def why_silent(self, host: str) -> str | None:
        return None

    def is_there(self, host: str) -> bool:
        return True

    def why_missing(self, port: NicPortId) -> str | None:
        return None

    async def command(self, host: str, arguments: Arguments[A], *, within_s: float) -> A:
        raise LinkError(f"{host}: there is no such host")


class Applier:
    """The daemon's objects between a request and a switch; the last documents are stored."""

    def __init__(self, reconfigurer: Reconfigurer, testbed: Testbed) -> None:
        self._reconfigurer = reconfigurer
        self._requests = itertools.cycle([Request(wanted=parse_what(text, testbed)) for text in (STRAIGHT, TURNED)])

    async def apply(self) -> None:
        """Apply the other set of pairs: read, plan, journal, command, read back, confirm."""
        reconfiguration = await self._reconfigurer.begin(next(self._requests))
        await self._reconfigurer.confirm(reconfiguration)


async def no_records() -> None:
    """What is measured is the way to the switch: its documents go to a list."""


@contextlib.asynccontextmanager
async def applying(testbed: Testbed, address: str, folder: Path, *, sync: bool) -> AsyncIterator[Applier]:
    folder.mkdir()
    clock, ids, draws, documents = SystemClock(), RandomIds(), Draws(None), deque[Document](maxlen=1000)
    spec = registry.find("polatis-tl1")

    async def open_switch() -> Device:
        return await spec.open(
            registry.OpenContext(
                name="ocs1",
                address=address,
                dialer=TcpDialer(),
                clock=clock,
                sink=documents.append,
                user="bench",
                password="bench",
                options=spec.options(),
                capabilities=testbed.switches["ocs1"].capabilities,
            )
        )

    supervisor = Supervisor(
        name="ocs1", open=open_switch, clock=clock, sink=documents.append, draws=draws, poll_s=600.0
    )
    disk = FileDisk(folder / "journal")
    offload = ThreadOffload(1)
    history, fabric, ledger = History(testbed), Fabric(testbed), Ledger()
    agents = SilentAgents()
    records = Records("sqlite://", offload)
    transfers = Transfers(
        ledger,
        testbed,
        store=records.transfers,
        agents=agents,
        clock=clock,
        sink=documents.append,
        announce=documents.append,
    )
    reconfigurer = Reconfigurer(
        testbed=testbed,
        planner=BackgroundPlanner(Planner(testbed, fabric, history.expect), offload),
        switches=Switches({"ocs1": supervisor}, clock, {"ocs1": Origin.TWIN}),
        agents=agents,
        hangs=Linkboard(fabric, Switchboard(testbed.switches).reports),
        journal=Journal(disk, sync=sync),
        ledger=ledger,
        clock=clock,
        ids=ids,
        sink=documents.append,
        outcomes=Outcomes(clock),
        move_counts=MoveCounts(testbed, clock),
        desired=Desired(testbed, ledger, no_records),
        transfers=transfers,
    )
    run = asyncio.create_task(supervisor.run(), name="bench:supervisor")
    try:
        await asyncio.wait_for(supervisor.wait_up(), 10.0)
        yield Applier(reconfigurer, testbed)
    finally:
        run.cancel()
        await asyncio.wait([run])
        offload.close()
        disk.close()


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    (folder / "testbed.yaml").write_text(TESTBED)
    testbed = load_testbed(folder / "testbed.yaml", {name: registry.find(name) for name in registry.names()}).require()
    rounds = 60 if quick else 600
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
