"""The conformance suite fails drivers that are wrong: each here has one fault of a kind that drivers have had."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import pytest

from hwd_drivers.kit import conformance
from hwd_drivers.kit.abilities import CrossConnects, Device
from hwd_drivers.kit.bench import Bench, twin_bench
from hwd_drivers.kit.conformance import Check
from hwd_drivers.kit.dial import MemoryDialer
from hwd_drivers.kit.errors import DeviceError, FailedError, LinkError
from hwd_drivers.kit.ids import Draws
from hwd_drivers.kit.memory import MemoryNet
from hwd_drivers.kit.registry import find
from hwd_drivers.kit.rough import Way
from hwd_drivers.kit.values import Capabilities, Crossconnect, CrossconnectReading, Exchange, Identity
from hwd_drivers.kit.virtual import VirtualClock, VirtualLoop, run_virtual


class Wrong:
    """A driver around a right one; subclasses are wrong in one way."""

    def __init__(self, inner: Device) -> None:
        assert isinstance(inner, CrossConnects)
        self.name = inner.name
        self.device: Device = inner
        self.switch: CrossConnects = inner

    async def identify(self, *, deadline_s: float) -> Identity:
        return await self.device.identify(deadline_s=deadline_s)

    async def capabilities(self, *, deadline_s: float) -> Capabilities:
        return await self.device.capabilities(deadline_s=deadline_s)

    async def lost(self) -> Exception:
        return await self.device.lost()

    async def close(self) -> None:
        await self.device.close()

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        return await self.switch.read_crossconnects(deadline_s=deadline_s)

    async def change_crossconnects(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None = None,
    ) -> Exchange:
        return await self.switch.change_crossconnects(
            remove=remove, add=add, deadline_s=deadline_s, on_commanded=on_commanded
        )


class Swallows(Wrong):
    """Takes a no for a yes."""

    async def change_crossconnects(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None = None,
    ) -> Exchange:
        try:
            return await self.switch.change_crossconnects(remove=remove, add=add, deadline_s=deadline_s)
        except DeviceError:
            return Exchange(commanded_ns=0, acknowledged_ns=0, commands=1)


class Remembers(Wrong):
    """Reads what was asked for, not what is there."""

    async def change_crossconnects(
        self,
        *,
        remove: Sequence[Crossconnect],
        add: Sequence[Crossconnect],
        deadline_s: float,
        on_commanded: Callable[[int], None] | None = None,
    ) -> Exchange:
        exchange = await self.switch.change_crossconnects(remove=remove, add=add, deadline_s=deadline_s)
        self.asked = tuple(CrossconnectReading(crossconnect=pair) for pair in add)
        return exchange

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        if hasattr(self, "asked"):
            return self.asked
        return await self.switch.read_crossconnects(deadline_s=deadline_s)


class Patient(Wrong):
    """Waits longer than it may."""

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        return await self.switch.read_crossconnects(deadline_s=deadline_s + 1)


class Empty(Wrong):
    """Takes a lost connection for a switch without crossconnects."""

    async def read_crossconnects(self, *, deadline_s: float) -> tuple[CrossconnectReading, ...]:
        try:
            return await self.switch.read_crossconnects(deadline_s=deadline_s)
        except LinkError:
            return ()


def run(check: Check, way: Way, wrong: type[Wrong]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        async with twin_bench(
            find("polatis-tl1"),
            model="polatis-6000",
            size="8x8",
            way=way,
            dialer=MemoryDialer(MemoryNet()),
            clock=VirtualClock(loop, wall_start_ns=0),
            draws=Draws(7),
        ) as bench:
            await check(wrapped(bench, wrong))

    run_virtual(main())


def wrapped(bench: Bench, wrong: type[Wrong]) -> Bench:
    inner: Callable[[], Awaitable[Device]] = bench.open

    async def open_wrong() -> Device:
        return wrong(await inner())

    return replace(bench, open=open_wrong)


@pytest.mark.parametrize(
    ("wrong", "check", "way"),
    [
        (Swallows, conformance.check_denial, Way.WHOLE),
        (Swallows, conformance.check_connect_and_disconnect, Way.WHOLE),
        (Remembers, conformance.check_stuck_mirror_is_seen_by_reading_back, Way.WHOLE),
        (Patient, conformance.check_deadline, Way.SLOW),
        (Empty, conformance.check_reset_fails_every_waiter, Way.WHOLE),
        (Empty, conformance.check_trouble_is_an_error_never_a_wrong_answer, Way.DYING),
        (Empty, conformance.check_trouble_is_an_error_never_a_wrong_answer, Way.LOSSY),
    ],
)
def test_a_wrong_driver_fails(wrong: type[Wrong], check: Check, way: Way) -> None:
    with pytest.raises(FailedError, match="conformance: "):
        run(check, way, wrong)


@pytest.mark.parametrize("check", conformance.CHECKS)
def test_a_driver_in_a_wrapper_that_is_right_passes(check: Check) -> None:
    run(check, Way.WHOLE, Wrong)
