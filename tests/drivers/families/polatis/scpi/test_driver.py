"""The Polatis driver over SCPI: the lines that it sends, and that nothing of what units leave open matters to it."""

import asyncio
from typing import Any

import pytest

from hwd_drivers.core.errors import DeviceError, FailedError, ProtocolError
from hwd_drivers.core.values import PortOverride
from hwd_drivers.twins.server import Denial

from ....stage import Scripted, Session, Stage, texts


def make_stage() -> Stage:
    return Stage(
        "polatis-scpi", "polatis-6000", "8x8", timing="polatis-mfabric", answered=lambda line, text: text + "\r"
    )


async def scripted(stage: Stage, *answers: str, **options: Any) -> tuple[Scripted, Session]:
    unit = await stage.script("Polatis,N-OST-8x8,1,6", *answers)
    return unit, await stage.open(**options)


async def test_a_change_is_one_line_that_reads_the_state_before_and_after(stage: Stage) -> None:
    unit, switch = await scripted(stage, "(@1),(@9);(@1,2),(@10,9)")
    exchange = await switch.change(remove="1A-1B", add="1A-2B 2A-1B")
    assert unit.writes == [
        b"*CLS;*IDN?\r\n",
        b":oxc:swit:conn:stat?;:oxc:swit:conn:sub (@1),(@9);:oxc:swit:conn:add (@1,2),(@10,9);:oxc:swit:conn:stat?\r\n",
    ]
    assert (texts(exchange.before or ()), exchange.commands) == ("1A-1B", 2)


async def test_the_look_before_can_be_left_out_and_a_failure_without_an_error_is_left_to_the_read_back(
    stage: Stage,
) -> None:
    unit, switch = await scripted(stage, "(@),(@)", '0, "No error"', read_before=False)
    exchange = await switch.change(add="1A-1B")
    assert unit.writes[1] == b":oxc:swit:conn:add (@1),(@9);:oxc:swit:conn:stat?\r\n"
    assert exchange.before is None


@pytest.mark.parametrize("after_error", ["goes-on", "drops-line"])
@pytest.mark.parametrize("answers", ["joined", "lines"])
@pytest.mark.parametrize("errors", ["session", "unit"])
@pytest.mark.parametrize("in_use", ["move", "deny"])
async def test_the_manners_of_a_unit_do_not_matter(
    stage: Stage, after_error: str, answers: str, errors: str, in_use: str
) -> None:
    twin, switch = await stage.start_and_open(
        scpi_after_error=after_error, scpi_answers=answers, scpi_errors=errors, in_use=in_use, scpi_line_end="cr"
    )
    await switch.change(add="1A-1B 2A-2B")
    exchange = await switch.change(remove="1A-1B 2A-2B", add="1A-2B 2A-1B")
    assert texts(exchange.before or ()) == "1A-1B 2A-2B"
    assert stage.lit() == "1A-2B 2A-1B"
    twin.faults.deny_next = Denial(code="-240", text="Hardware error")
    with pytest.raises(DeviceError, match="ocs1: add 3A-3B: the device says -240 Hardware error"):
        await switch.change(add="3A-3B")
    assert await switch.pairs() == "1A-2B 2A-1B"
    await switch.override("1A", PortOverride.FORCE_BLOCKED)
    twin.faults.deny_next = Denial(code="-200", text="no")
    with pytest.raises(DeviceError, match="oxc:swit:port:enab"):
        await switch.override("1A", PortOverride.NORMAL)


async def test_a_change_is_acknowledged_when_the_unit_is_through_with_it(stage: Stage) -> None:
    _, switch = await stage.start_and_open()
    exchange = await switch.change(add="1A-1B")
    assert 0.02e9 < exchange.acknowledged_ns - exchange.commanded_ns < 0.2e9


async def test_by_end_more_ports_than_a_query_may_name_are_read_in_turn(stage: Stage) -> None:
    stage.size = "10x300"
    _, switch = await stage.start_and_open()
    stage.light("1A", 0.0)
    await switch.change(add="1A-300B")
    await asyncio.sleep(1)
    *dark, lit = await switch.power(texts(f"{port}B" for port in range(1, 301)))
    assert dark == [None] * 299
    assert lit is not None


async def test_a_unit_without_monitors_is_one(stage: Stage) -> None:
    """The testbed claims that it has them."""
    stage.model = "polatis-instrument"
    await stage.start()
    stage.model = "polatis-6000"
    switch = await stage.open()
    found = await switch.capabilities()
    assert found.monitored == ()
    assert found.reports_before
    assert len(found.blockable) == 16
    assert await switch.overrides("") == {}


async def test_port_state_that_is_not_known_is_neither_blocked_nor_open_and_the_session_goes_on(stage: Stage) -> None:
    _, switch = await scripted(stage, "(E,S)", "(S)", "(@1),(@9)")
    with pytest.raises(FailedError, match="is in the state 'S', which is not known here: E, D, F are"):
        await switch.overrides("1A 2B")
    with pytest.raises(FailedError, match="is in the state 'S'"):
        await switch.override("1A", PortOverride.NORMAL)
    assert len(await switch.read()) == 1


@pytest.mark.parametrize(
    ("answer", "finding"),
    [
        ("(@1,2),(@9)", "lists of 2 and 1 ports"),
        ("(@1)", "not two lists"),
        ("1,2", "1"),
        ("(@1),(@2)", "reports 1 with 2"),
        ("(@1),(@99)", "Invalid OXC port: 99"),
        ("(@1),(@9);x", "nobody asked|connection closed"),
    ],
)
async def test_an_answer_that_makes_no_sense_ends_the_session(stage: Stage, answer: str, finding: str) -> None:
    _, switch = await scripted(stage, answer)
    with pytest.raises(ProtocolError, match=finding):
        await switch.read()
        raise await switch.lost()
    assert "connection closed" in str(await switch.lost())
