"""Controllers of many selectors: a command keeps the others, reports the state before; wrong sizes are errors."""

import asyncio

import pytest

from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import DeadlineError, DeviceError
from hwd_drivers.devices.registry import find
from hwd_drivers.twins.server import Denial

from ...stage import Client, Session, Stage, in_virtual_time, texts


@pytest.fixture
def stage() -> Stage:
    return Stage("osw", "osw", "1x8", timing="lowradix-8ms", within_s=2.0, heard_s=0.001)


async def unit(stage: Stage, size: str = "1x8", /, **options: Json) -> tuple[Session, Client]:
    """A session with a unit of this size, and another client."""
    stage.size = size
    _, switch = await stage.start_and_open(**options)
    return switch, await stage.connect()


def test_selectors_of_one_controller_have_ends_of_their_own() -> None:
    two = find("osw").capabilities("osw", "2x3")
    assert [str(end) for end in two.ends] == ["1A", "2A", "1B", "2B", "3B", "4B", "5B", "6B"]
    assert [str(pair) for element in two.elements for state in element.states for pair in state] == [
        *("1A-1B", "1A-2B", "1A-3B"),
        *("2A-4B", "2A-5B", "2A-6B"),
    ]
    assert all(element.states[-1] == () for element in two.elements)
    assert [str(end) for end in find("osw").capabilities("osw", "1x4").ends] == ["in", "1", "2", "3", "4"]


@in_virtual_time
async def test_a_change_of_some_keeps_the_others(stage: Stage) -> None:
    switch, client = await unit(stage, "3x6")
    assert await client.say(b"<OSW_OUT_02_03_01>") == b""  # it moves for 8 ms
    await asyncio.sleep(0.01)
    exchange = await switch.change(remove="2A-9B", add="2A-12B")
    assert await switch.pairs() == "1A-2B 2A-12B 3A-13B"
    assert texts(exchange.before or ()) == "1A-2B 2A-9B 3A-13B"
    assert (exchange.acknowledged_ns - exchange.commanded_ns) / 1e6 == pytest.approx(8)


@in_virtual_time
async def test_a_change_by_another_client_meanwhile_is_reported(stage: Stage) -> None:
    switch, client = await unit(stage, "2x6")
    assert await switch.pairs() == "1A-1B 2A-7B"
    await client.say(b"<OSW_OUT_01_06>")
    await asyncio.sleep(0.01)
    exchange = await switch.change(remove="1A-1B 2A-7B", add="1A-3B 2A-8B")
    assert texts(exchange.before or ()) == "1A-1B 2A-12B"
    assert exchange.commands == 1


@in_virtual_time
async def test_the_dark_state_is_channel_zero(stage: Stage) -> None:
    switch, client = await unit(stage, end="\r\n")
    await switch.change(remove="in-1")
    assert await client.say(b"<OSW_OUT_?>") == b"<OSW_OUT_00>\r\n"
    assert await switch.pairs() == ""
    await switch.change(add="in-8")
    assert await client.say(b"<OSW_OUT_?>") == b"<OSW_OUT_08>\r\n"


@in_virtual_time
async def test_a_channel_that_there_is_not_overflows(stage: Stage) -> None:
    _, client = await unit(stage)
    assert await client.say(b"<OSW_OUT_09>") == b"<OSW_OUT_OVERFLOW>"
    assert await client.say(b"<OSW_OUT_?>") == b"<OSW_OUT_01>"


@pytest.mark.parametrize(
    ("options", "model"),
    [({}, "LF-OSW-1X8-1550-SM-TWIN"), ({"part": "LF-OSW-1X8-1550-PMF"}, "LF-OSW-1X8-1550-PMF"), ({"part": ""}, "1x8")],
)
@in_virtual_time
async def test_the_part_number_is_the_identity(stage: Stage, options: dict[str, Json], model: str) -> None:
    switch, client = await unit(stage, **options)
    typed = "<OSW_OUT_OVERFLOW>" if options == {"part": ""} else f"<OSW_TYPE_{model}>"
    assert await client.ask("<OSW_TYPE_?>") == typed
    identity = await switch.identify()
    assert (identity.vendor, identity.model) == ("Lfiber", model)


@in_virtual_time
async def test_an_error_of_the_type_query_names_the_option(stage: Stage) -> None:
    twin, switch = await stage.start_and_open()
    twin.faults.silent = True
    with pytest.raises(DeadlineError, match=r"needs `options: \{ask_type: false\}`"):
        await switch.identify()


@in_virtual_time
async def test_any_other_word_is_a_no(stage: Stage) -> None:
    twin, switch = await stage.start_and_open()
    twin.faults.deny_next = Denial(code="BUSY")
    with pytest.raises(DeviceError, match=r"ocs1: <OSW_OUT_02>: the device answered BUSY") as caught:
        await switch.change(remove="in-1", add="in-2")
    assert caught.value.code == "BUSY"
    assert await switch.pairs() == "in-1"


@in_virtual_time
async def test_sessions_at_the_same_time_each_get_their_answers(stage: Stage) -> None:
    one, _ = await unit(stage, "2x6")
    other = await stage.open()
    await asyncio.gather(one.change(remove="1A-1B 2A-7B", add="1A-2B 2A-8B"), other.read(), one.read())
    assert await one.pairs() == await other.pairs() == "1A-2B 2A-8B"


@in_virtual_time
async def test_two_changes_at_once_do_not_undo_each_other(stage: Stage) -> None:
    switch, _ = await unit(stage, "2x6")
    await asyncio.gather(switch.change(remove="1A-1B", add="1A-2B"), switch.change(remove="2A-7B", add="2A-9B"))
    assert await switch.pairs() == "1A-2B 2A-9B"


@in_virtual_time
async def test_a_selector_that_another_client_moved_between_look_and_set_is_given_back(stage: Stage) -> None:
    switch, client = await unit(stage, "2x6")
    stage.twin.faults.slow_s = 0.3
    changing = asyncio.create_task(switch.change(remove="2A-7B", add="2A-9B"))
    await asyncio.sleep(0.1)
    await client.say(b"<OSW_OUT_05_01>")
    exchange = await changing
    stage.twin.faults.slow_s = 0.0
    assert await switch.pairs() == "1A-5B 2A-9B"
    assert texts(exchange.before or ()) == "1A-5B 2A-7B"
    assert exchange.commands == 2
