"""Parts on lines behind a socket, in virtual time: pulses, levels, contacts, and what cannot be known."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import DeadlineError, DeviceError, RefusedError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.values import Crossconnect, Exchange
from hwd_drivers.devices.abilities import CrossConnects
from hwd_drivers.devices.registry import OpenContext
from hwd_drivers.families.ttl.driver import TtlOptions, TtlSwitch
from hwd_drivers.families.ttl.models import driver
from hwd_drivers.families.ttl.twin import TtlTwin
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.server import Denial
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual

CONTACTS: dict[str, Json] = {"parts": [{"pulse": [5, 6], "contacts": [12, 13]}]}
BLIND: dict[str, Json] = {"parts": [{"pulse": [5, 6], "settle_s": 0.03}]}
HELD: dict[str, Json] = {"parts": [{"level": 4}]}
LOW: dict[str, Json] = {**CONTACTS, "active_low": [5, 6, 12, 13]}
MOVE_S = 0.008


class Lab:
    """A twin bank and the context of its driver; `wiring` is that of both, unless the `bank` has another."""

    def __init__(self, model: str, wiring: dict[str, Json], size: str | None, bank: dict[str, Json] | None) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        clock, dialer = VirtualClock(loop, wall_start_ns=0), MemoryDialer(MemoryNet())
        capabilities = driver.capabilities(model, size)
        self.twin = TtlTwin(
            name="sel0",
            capabilities=capabilities,
            timing=find_timing("lowradix-8ms"),
            draws=Draws(1),
            clock=clock,
            dialer=dialer,
            address="mem:sel0",
            options=wiring if bank is None else bank,
        )
        self.context = OpenContext(
            name="sel0",
            address="mem:sel0",
            dialer=dialer,
            clock=clock,
            sink=lambda document: None,
            user=None,
            password=None,
            options=TtlOptions.model_validate(wiring),
            capabilities=capabilities,
        )

    async def open(self) -> TtlSwitch:
        return await TtlSwitch.open(self.context)

    async def change(
        self, switch: CrossConnects, *, remove: str = "", add: str = "", within_s: float = 2.0
    ) -> Exchange:
        return await switch.change_crossconnects(
            remove=[*map(Crossconnect.parse, remove.split())],
            add=[*map(Crossconnect.parse, add.split())],
            deadline_s=self.loop.time() + within_s,
        )

    async def read(self, switch: CrossConnects) -> list[str]:
        return [*map(str, await switch.read_crossconnects(deadline_s=self.loop.time() + 2.0))]

    def light(self) -> list[str]:
        return [*map(str, self.twin.mirror.crossconnects())]


def run(
    test: Callable[[Lab], Coroutine[Any, Any, None]],
    wiring: dict[str, Json],
    model: str = "latching-1x2",
    size: str | None = None,
    bank: dict[str, Json] | None = None,
) -> None:
    async def main() -> None:
        lab = Lab(model, wiring, size, bank)
        await lab.twin.start()
        try:
            await test(lab)
        finally:
            await lab.twin.close()

    run_virtual(main())


@pytest.mark.parametrize("wiring", [CONTACTS, LOW], ids=["high", "low"])
def test_a_pulse_moves_a_latching_part_and_its_contacts_say_when(wiring: dict[str, Json]) -> None:
    async def test(lab: Lab) -> None:
        switch = await lab.open()
        assert await lab.read(switch) == ["in-1 tuned"]
        exchange = await lab.change(switch, remove="in-1", add="in-2")
        assert lab.light() == ["in-2"]
        assert await lab.read(switch) == ["in-2 tuned"]
        took_s = (exchange.acknowledged_ns - exchange.commanded_ns) / 1e9
        assert 0.02 + MOVE_S <= took_s < 0.02 + 0.01 + 0.01  # the pulse, then the first look after settle_s
        assert exchange.commands == 1
        await switch.close()

    run(test, wiring)


def test_a_part_that_is_slower_than_stated_is_awaited() -> None:
    async def test(lab: Lab) -> None:
        switch = await lab.open()
        await lab.change(switch, remove="in-1", add="in-2")
        assert await lab.read(switch) == ["in-2 tuned"]
        await switch.close()

    run(test, {"parts": [{"pulse": [0, 1], "contacts": [2, 3], "pulse_s": 0.001, "settle_s": 0.0}]})


def test_a_part_that_does_not_arrive_is_named_when_its_time_is_over() -> None:
    async def test(lab: Lab) -> None:
        switch = await lab.open()
        lab.twin.faults.stick(lab.context.capabilities.ends)
        started_s = lab.loop.time()
        with pytest.raises(DeadlineError, match="sel0: element 1: moved, and its contacts do not confirm it in time"):
            await lab.change(switch, remove="in-1", add="in-2")
        assert lab.loop.time() - started_s < 0.02 + 0.01 + 0.5 + 0.01
        assert await lab.read(switch) == ["in-1 tuned"]
        await switch.close()

    run(test, CONTACTS)


def test_contacts_that_say_nothing_for_too_long_are_a_failure_of_the_part() -> None:
    async def test(lab: Lab) -> None:
        switch = await lab.open()
        started_s = lab.loop.time()
        assert await lab.read(switch) == []
        assert 0.2 < lab.loop.time() - started_s < 0.5
        with pytest.raises(DeadlineError):
            await lab.change(switch, remove="in-1", add="in-2")
        assert await lab.read(switch) == ["in-2 failed"]
        await switch.close()

    elsewhere: dict[str, Json] = {"parts": [{"pulse": [5, 6], "contacts": [20, 21]}]}  # where nothing is on this bank
    run(test, elsewhere, bank=CONTACTS)


def test_without_contacts_a_latching_part_is_unknown_until_it_was_moved() -> None:
    async def test(lab: Lab) -> None:
        switch = await lab.open()
        assert await lab.read(switch) == []
        exchange = await lab.change(switch, add="in-2")
        assert lab.light() == ["in-2"]
        assert await lab.read(switch) == ["in-2 unstated"]
        assert (exchange.acknowledged_ns - exchange.commanded_ns) / 1e9 == pytest.approx(0.02 + 0.03, abs=1e-3)
        await switch.close()
        again = await lab.open()
        assert await lab.read(again) == []
        await again.close()

    run(test, BLIND)


def test_a_held_part_is_where_its_line_is_and_opening_moves_nothing() -> None:
    async def test(lab: Lab) -> None:
        switch = await lab.open()
        assert await lab.read(switch) == ["in-1 unstated"]
        await lab.change(switch, remove="in-1", add="in-2")
        await switch.close()
        again = await lab.open()
        assert lab.light() == ["in-2"]
        assert await lab.read(again) == ["in-2 unstated"]
        await again.close()

    run(test, HELD, model="1x2")


def test_parts_of_one_bank_move_at_once() -> None:
    async def test(lab: Lab) -> None:
        switch = await lab.open()
        exchange = await lab.change(switch, remove="1A-1B 2A-2B 3A-3B 4A-4B", add="1A-2B 2A-1B 3A-4B 4A-3B")
        assert lab.light() == ["1A-2B", "2A-1B", "3A-4B", "4A-3B"]
        assert exchange.commands == 1
        assert (exchange.acknowledged_ns - exchange.commanded_ns) / 1e9 < 0.04
        await switch.close()

    run(test, {}, model="latching-2x2", size="2")


def test_half_a_state_is_refused_and_nothing_moves() -> None:
    async def test(lab: Lab) -> None:
        switch = await lab.open()
        with pytest.raises(RefusedError, match="element 1 cannot be 1A-2B"):
            await lab.change(switch, remove="1A-1B", add="1A-2B")
        assert lab.light() == ["1A-1B", "2A-2B"]
        await switch.close()

    run(test, {}, model="latching-2x2")


def test_a_refusal_of_the_bank_has_its_text() -> None:
    async def test(lab: Lab) -> None:
        switch = await lab.open()
        lab.twin.faults.deny_next = Denial(code="HOT", text="coils rest")
        with pytest.raises(
            DeviceError, match=r"sel0: pulse 6=1 20000: the line bank answered HOT \(coils rest\)"
        ) as raised:
            await lab.change(switch, remove="in-1", add="in-2")
        assert (raised.value.device, raised.value.code, raised.value.text) == ("sel0", "HOT", "coils rest")
        assert await lab.read(switch) == ["in-1 tuned"]
        await switch.close()

    run(test, CONTACTS)


def test_a_line_that_the_bank_does_not_have_is_its_no() -> None:
    async def test(lab: Lab) -> None:
        switch = await lab.open()
        with pytest.raises(DeviceError, match=r"LINE \(no line 12\)"):
            await lab.read(switch)
        await switch.close()

    run(test, CONTACTS, bank={**CONTACTS, "lines": 8})


def test_no_line_is_driven_after_a_reboot_of_the_bank() -> None:
    async def test(lab: Lab) -> None:
        switch = await lab.open()
        await lab.change(switch, remove="in-1", add="in-2")
        lab.twin.faults.reboot(0.5)
        await asyncio.sleep(1)
        switch = await lab.open()
        assert lab.light() == ["in-1"]
        assert await lab.read(switch) == ["in-1 unstated"]
        await switch.close()

    run(test, HELD, model="1x2")


def test_a_change_that_would_exceed_the_deadline_is_not_started() -> None:
    async def test(lab: Lab) -> None:
        switch = await lab.open()
        with pytest.raises(DeadlineError, match=r"nothing moved: pulses and settle_s take 0.05 s, .* leaves 0.04 s"):
            await lab.change(switch, remove="in-1", add="in-2", within_s=0.04)
        assert lab.light() == ["in-1"]
        lab.twin.faults.slow_s = 0.1
        started_s = lab.loop.time()
        with pytest.raises(DeadlineError, match=r"moved, and 0.03 s until light passes go beyond the deadline"):
            await lab.change(switch, remove="in-1", add="in-2", within_s=0.14)
        assert lab.loop.time() - started_s == pytest.approx(0.14)
        assert lab.light() == ["in-2"]
        await switch.close()

    run(test, BLIND)
