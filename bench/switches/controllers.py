"""1,024 elements behind 64 TCP controllers, all moved at once by their drivers.

The floor is a bare loop that sends the same bytes to all controllers, then waits for all answers.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from typing_extensions import override

from bench.child import child
from bench.measure import Bar, Summary, alternate, ratios
from bench.progress import Progress
from bench.switches.exchange import Tap, Turn
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document
from hwd_drivers.core.values import Capabilities, Crossconnect
from hwd_drivers.devices import registry
from hwd_drivers.devices.abilities import CrossConnects, Device
from hwd_drivers.transports.dial import TcpDialer

DRIVER, MODEL, SIZE = "osw", "osw", "16x4"
CONTROLLERS = 64
PROCESSES = 2
"""Twins run in several processes, as real controllers are separate machines: in one, each would wait for all others."""
RATIO_LIMIT, BEHIND_LIMIT_MS = 1.5, 10.0
CHANGE_WITHIN_S = 5.0


class Controllers:
    """Sessions of the driver with all controllers; each move brings all elements to another channel."""

    def __init__(self, devices: Sequence[Device], capabilities: Capabilities) -> None:
        self._devices = [device for device in devices if isinstance(device, CrossConnects)]
        assert len(self._devices) == len(devices)
        states = [[part.states[state][0] for part in capabilities.elements] for state in (0, 1)]
        self._changes = itertools.cycle([(states[0], states[1]), (states[1], states[0])])

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, addresses: Sequence[str]) -> "AsyncIterator[Controllers]":
        spec = registry.find(DRIVER)
        capabilities = spec.capabilities(MODEL, SIZE)

        def context(number: int, address: str) -> registry.OpenContext:
            return registry.OpenContext(
                name=f"controller{number}",
                address=address,
                dialer=TcpDialer(),
                clock=SystemClock(),
                sink=_no_documents,
                user=None,
                password=None,
                options=spec.options(),
                capabilities=capabilities,
            )

        devices = [await spec.open(context(number, address)) for number, address in enumerate(addresses)]
        try:
            yield cls(devices, capabilities)
        finally:
            for device in devices:
                await device.close()

    async def move(self) -> None:
        """Move all elements of all controllers; returns when each controller has confirmed it."""
        remove, add = next(self._changes)
        await asyncio.gather(*(self._change(device, remove, add) for device in self._devices))

    async def _change(self, device: CrossConnects, remove: list[Crossconnect], add: list[Crossconnect]) -> None:
        deadline_s = asyncio.get_running_loop().time() + CHANGE_WITHIN_S
        await device.change_crossconnects(remove=remove, add=add, deadline_s=deadline_s)


class BareLoop:
    """Sends the recorded bytes of one controller to all, and waits until each has sent as many bytes back."""

    def __init__(self, connections: Sequence["_Bare"], turns: Sequence[Sequence[Turn]]) -> None:
        self._connections = connections
        self._turns = itertools.cycle(turns)

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, addresses: Sequence[str], turns: Sequence[Sequence[Turn]]) -> "AsyncIterator[BareLoop]":
        connections = [(await TcpDialer().connect(_Bare, address))[1] for address in addresses]
        try:
            yield cls(connections, turns)
        finally:
            for connection in connections:
                connection.transport.close()

    async def move(self) -> None:
        for turn in next(self._turns):
            answers = _Answers(len(self._connections))
            for connection in self._connections:
                connection.missing_bytes, connection.answered = turn.received_bytes, answers.take
                connection.transport.write(turn.sent)
            await answers.all


class _Answers:
    """Counts answers; `all` is done when none is missing."""

    def __init__(self, left: int) -> None:
        self.all: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._left = left

    def take(self) -> None:
        self._left -= 1
        if not self._left:
            self.all.set_result(None)


class _Bare(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self) -> None:
        self.missing_bytes = 0
        self.answered = _ignore_answer

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        self.missing_bytes -= len(data)
        if not self.missing_bytes:
            self.answered()


async def measure(folder: Path, progress: Progress, *, quick: bool) -> list[Bar]:
    rounds = 30 if quick else 300
    progress.say(f"controllers: {rounds} turns at zero switching time")
    ours_s, floor_s = await _compare("ideal", rounds)
    ours, floor, ratio = Summary.of(ours_s), Summary.of(floor_s), ratios(ours_s, floor_s)
    elements = CONTROLLERS * int(SIZE.partition("x")[0])
    bars = [
        Bar(
            name=f"{elements} elements behind {CONTROLLERS} controllers",
            value=ours.median / floor.median,
            limit=RATIO_LIMIT,
            unit="x",
            spread=(
                f"quartiles {ratio.p25:.2f}-{ratio.p75:.2f}; "
                f"{ours.median * 1e3:.2f} ms over {floor.median * 1e3:.2f} ms"
            ),
            n=ours.n,
            detail={"ours_s": ours.to_data(), "floor_s": floor.to_data(), "ratio": ratio.to_data()},
        )
    ]
    progress.say(f"controllers: {rounds} turns at 8 ms switching time")
    ours_s, floor_s = await _compare("lowradix-8ms", rounds)
    ours, floor = Summary.of(ours_s), Summary.of(floor_s)
    behind = Summary.of([(one - other) * 1e3 for one, other in zip(ours_s, floor_s, strict=True)])
    bars.append(
        Bar(
            name=f"{elements} elements, later than the slowest of {CONTROLLERS} controllers of 8 ms",
            value=behind.median,
            limit=BEHIND_LIMIT_MS,
            unit="ms",
            spread=(
                f"quartiles {behind.p25:.2f}-{behind.p75:.2f}; "
                f"{ours.median * 1e3:.2f} ms in all, "
                f"the slowest answered the bare loop after {floor.median * 1e3:.2f} ms"
            ),
            n=ours.n,
            detail={"ours_s": ours.to_data(), "floor_s": floor.to_data(), "behind_ms": behind.to_data()},
        )
    )
    return bars


async def _compare(timing: str, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of moves by the drivers and by the bare loop, in turns; each has controllers of its own."""
    async with contextlib.AsyncExitStack() as stack:
        groups: list[list[str]] = []
        for _ in range(PROCESSES):
            count = str(2 * CONTROLLERS // PROCESSES + 1)
            twins = await stack.enter_async_context(child("bench.processes.twins", SIZE, count, DRIVER, MODEL, timing))
            groups.append((await twins.hear()).split())
        turns = await _record(groups[0].pop())
        half = CONTROLLERS // PROCESSES
        ours = await stack.enter_async_context(Controllers.open([each for group in groups for each in group[:half]]))
        floor = [each for group in groups for each in group[half : 2 * half]]
        bare = await stack.enter_async_context(BareLoop.open(floor, turns))
        ours_s, floor_s = await alternate(rounds, ours.move, bare.move)
        return ours_s, floor_s


async def _record(address: str) -> list[list[Turn]]:
    """Record the bytes to and from one controller in each of the two moves."""
    async with Tap.open(address) as (tap, tapped), Controllers.open([tapped]) as one:
        turns = []
        for _ in range(2):
            tap.turns.clear()
            await one.move()
            turns.append([Turn(turn.sent, turn.received_bytes) for turn in tap.turns])
        return turns


def _ignore_answer() -> None:
    """Answer no request: the callback before the first one."""


def _no_documents(document: Document) -> None:
    """Discard documents: only times are measured."""
