"""A switch without queries: nothing is sent when a session opens, and a reading is the last set state."""

import asyncio

import pytest

from hwd_drivers.core.errors import DeadlineError, DeviceError, LinkError, ProtocolError
from hwd_drivers.twins.server import Denial

from ...stage import Stage, in_virtual_time


@pytest.fixture
def stage() -> Stage:
    return Stage("agiltron", "selfalign", "1x16", timing="lowradix-8ms", within_s=1.0, heard_s=0.001)


@in_virtual_time
async def test_a_session_knows_the_state_that_it_set_and_none_before(stage: Stage) -> None:
    await stage.start()
    assert await (await stage.connect()).say(b"\x01\x35\x00\x06") == b""  # it moves for 8 ms
    await asyncio.sleep(0.01)
    switch = await stage.open()
    await switch.identify()
    assert await switch.pairs() == ""
    assert stage.lit() == "in-7"  # nothing moved it
    exchange = await switch.change(add="in-3")
    assert (exchange.acknowledged_ns - exchange.commanded_ns) / 1e6 == pytest.approx(8)
    assert await switch.pairs() == "in-3"
    await switch.close()
    with pytest.raises(LinkError):
        await switch.pairs()


@in_virtual_time
async def test_a_refusal_keeps_the_last_set_state(stage: Stage) -> None:
    twin, switch = await stage.start_and_open()
    await switch.change(add="in-3")
    twin.faults.deny_next = Denial(code="00e1")
    with pytest.raises(DeviceError, match="ocs1: select port 4: the device answered 00e1") as caught:
        await switch.change(add="in-4")
    assert caught.value.code == "00e1"
    assert await switch.pairs() == "in-3"


@in_virtual_time
async def test_a_selection_that_is_not_answered_ends_the_session(stage: Stage) -> None:
    twin, switch = await stage.start_and_open()
    twin.faults.silent = True
    with pytest.raises(DeadlineError, match=r"select port 4: no answer within 0\.5 s"):
        await switch.change(add="in-4", within_s=0.5)
    with pytest.raises(LinkError):
        await switch.pairs()


@in_virtual_time
async def test_an_answer_to_something_else_ends_the_session_and_moves_nothing_else(stage: Stage) -> None:
    twin, switch = await stage.start_and_open()
    twin.faults.wrong_next = True
    with pytest.raises(ProtocolError, match="is not an answer to select port 5"):
        await switch.change(add="in-5")
    assert stage.lit() == "in-5"
