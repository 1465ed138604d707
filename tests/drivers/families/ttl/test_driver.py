"""Parts on lines behind a socket, in virtual time: pulses, levels, contacts, and what cannot be known."""

import asyncio

import pytest

from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import DeadlineError, DeviceError, RefusedError
from hwd_drivers.twins.server import Denial

from ...stage import Session, Stage

CONTACTS: dict[str, Json] = {"parts": [{"pulse": [5, 6], "contacts": [12, 13]}]}
BLIND: dict[str, Json] = {"parts": [{"pulse": [5, 6], "settle_s": 0.03}]}
HELD: dict[str, Json] = {"parts": [{"level": 4}]}
LOW: dict[str, Json] = {**CONTACTS, "active_low": [5, 6, 12, 13]}
MOVE_S = 0.008


def make_stage() -> Stage:
    return Stage("ttl", timing="lowradix-8ms", within_s=2.0)


async def wired(
    stage: Stage,
    wiring: dict[str, Json],
    *,
    model: str = "latching-1x2",
    size: str | None = None,
    bank: dict[str, Json] | None = None,
) -> Session:
    """A session with a bank whose wiring is that of the driver, unless the `bank` has another."""
    stage.model, stage.size = model, size
    await stage.start(**(wiring if bank is None else bank))
    return await stage.open(**wiring)


@pytest.mark.parametrize("wiring", [CONTACTS, LOW], ids=["high", "low"])
async def test_a_pulse_moves_a_latching_part_and_its_contacts_say_when(stage: Stage, wiring: dict[str, Json]) -> None:
    switch = await wired(stage, wiring)
    assert await switch.read() == ["in-1 tuned"]
    exchange = await switch.change(remove="in-1", add="in-2")
    assert stage.lit() == "in-2"
    assert await switch.read() == ["in-2 tuned"]
    took_s = (exchange.acknowledged_ns - exchange.commanded_ns) / 1e9
    assert 0.02 + MOVE_S <= took_s < 0.02 + 0.01 + 0.01  # the pulse, then the first look after settle_s
    assert exchange.commands == 1


async def test_a_part_that_is_slower_than_stated_is_awaited(stage: Stage) -> None:
    switch = await wired(stage, {"parts": [{"pulse": [0, 1], "contacts": [2, 3], "pulse_s": 0.001, "settle_s": 0.0}]})
    await switch.change(remove="in-1", add="in-2")
    assert await switch.read() == ["in-2 tuned"]


async def test_a_part_that_does_not_arrive_is_named_when_its_time_is_over(stage: Stage) -> None:
    switch = await wired(stage, CONTACTS)
    stage.twin.faults.stick(stage.capabilities.ends)
    started_s = stage.now_s
    with pytest.raises(DeadlineError, match="ocs1: element 1: moved, and its contacts do not confirm it in time"):
        await switch.change(remove="in-1", add="in-2")
    assert stage.now_s - started_s < 0.02 + 0.01 + 0.5 + 0.01
    assert await switch.read() == ["in-1 tuned"]


async def test_contacts_that_say_nothing_for_too_long_are_a_failure_of_the_part(stage: Stage) -> None:
    elsewhere: dict[str, Json] = {"parts": [{"pulse": [5, 6], "contacts": [20, 21]}]}  # where nothing is on this bank
    switch = await wired(stage, elsewhere, bank=CONTACTS)
    started_s = stage.now_s
    assert await switch.read() == []
    assert 0.2 < stage.now_s - started_s < 0.5
    with pytest.raises(DeadlineError):
        await switch.change(remove="in-1", add="in-2")
    assert await switch.read() == ["in-2 failed"]


async def test_without_contacts_a_latching_part_is_unknown_until_it_was_moved(stage: Stage) -> None:
    switch = await wired(stage, BLIND)
    assert await switch.read() == []
    exchange = await switch.change(add="in-2")
    assert stage.lit() == "in-2"
    assert await switch.read() == ["in-2 unstated"]
    assert (exchange.acknowledged_ns - exchange.commanded_ns) / 1e9 == pytest.approx(0.02 + 0.03, abs=1e-3)
    await switch.close()
    again = await stage.open(**BLIND)
    assert await again.read() == []


async def test_a_held_part_is_where_its_line_is_and_opening_moves_nothing(stage: Stage) -> None:
    switch = await wired(stage, HELD, model="1x2")
    assert await switch.read() == ["in-1 unstated"]
    await switch.change(remove="in-1", add="in-2")
    await switch.close()
    again = await stage.open(**HELD)
    assert stage.lit() == "in-2"
    assert await again.read() == ["in-2 unstated"]


async def test_parts_of_one_bank_move_at_once(stage: Stage) -> None:
    switch = await wired(stage, {}, model="latching-2x2", size="2")
    exchange = await switch.change(remove="1A-1B 2A-2B 3A-3B 4A-4B", add="1A-2B 2A-1B 3A-4B 4A-3B")
    assert stage.lit() == "1A-2B 2A-1B 3A-4B 4A-3B"
    assert exchange.commands == 1
    assert (exchange.acknowledged_ns - exchange.commanded_ns) / 1e9 < 0.04


async def test_half_a_state_is_refused_and_nothing_moves(stage: Stage) -> None:
    switch = await wired(stage, {}, model="latching-2x2")
    with pytest.raises(RefusedError, match="element 1 cannot be 1A-2B"):
        await switch.change(remove="1A-1B", add="1A-2B")
    assert stage.lit() == "1A-1B 2A-2B"


async def test_a_refusal_of_the_bank_has_its_text(stage: Stage) -> None:
    switch = await wired(stage, CONTACTS)
    stage.twin.faults.deny_next = Denial(code="HOT", text="coils rest")
    with pytest.raises(
        DeviceError, match=r"ocs1: pulse 6=1 20000: the line bank answered HOT \(coils rest\)"
    ) as raised:
        await switch.change(remove="in-1", add="in-2")
    assert (raised.value.device, raised.value.code, raised.value.text) == ("ocs1", "HOT", "coils rest")
    assert await switch.read() == ["in-1 tuned"]


async def test_a_line_that_the_bank_does_not_have_is_its_no(stage: Stage) -> None:
    switch = await wired(stage, CONTACTS, bank={**CONTACTS, "lines": 8})
    with pytest.raises(DeviceError, match=r"LINE \(no line 12\)"):
        await switch.read()


async def test_no_line_is_driven_after_a_reboot_of_the_bank(stage: Stage) -> None:
    switch = await wired(stage, HELD, model="1x2")
    await switch.change(remove="in-1", add="in-2")
    stage.twin.faults.reboot(0.5)
    await asyncio.sleep(1)
    switch = await stage.open(**HELD)
    assert stage.lit() == "in-1"
    assert await switch.read() == ["in-1 unstated"]


async def test_a_change_that_would_exceed_the_deadline_is_not_started(stage: Stage) -> None:
    switch = await wired(stage, BLIND)
    with pytest.raises(DeadlineError, match=r"nothing moved: pulses and settle_s take 0.05 s, .* leaves 0.04 s"):
        await switch.change(remove="in-1", add="in-2", within_s=0.04)
    assert stage.lit() == "in-1"
    stage.twin.faults.slow_s = 0.1
    started_s = stage.now_s
    with pytest.raises(DeadlineError, match=r"moved, and 0.03 s until light passes go beyond the deadline"):
        await switch.change(remove="in-1", add="in-2", within_s=0.14)
    assert stage.now_s - started_s == pytest.approx(0.14)
    assert stage.lit() == "in-2"
