"""The driver of DiCon MXS-9100 switches: its lines, with all behaviours that the manual's pages leave open."""

import asyncio

import pytest

from hwd_drivers.core.errors import DeadlineError, DeviceError, FailedError, ProtocolError
from hwd_drivers.families.dicon.mxs import protocol

from ....parts import pairs
from ....stage import Scripted, Session, Stage, texts


def make_stage() -> Stage:
    return Stage(
        "dicon-mxs", "mxs-9100", "4x4", timing="lowradix-8ms", within_s=3.0, answered=lambda line, text: text + "\r"
    )


async def scripted(
    stage: Stage, *answers: str, opening: tuple[str, ...] = ('0, "No error"', "READY")
) -> tuple[Scripted, Session]:
    unit = await stage.script(*opening, *answers)
    return unit, await stage.open()


async def test_a_change_frees_then_connects_and_waits_until_the_unit_is_ready(stage: Stage) -> None:
    unit, switch = await scripted(stage, "1;0;0;0", "BUSY", "BUSY", "READY", "0;1;0;0")
    exchange = await switch.change(remove="1A-1B", add="2A-1B")
    look = b":ROUT1:SCAN?;:ROUT2:SCAN?;:ROUT3:SCAN?;:ROUT4:SCAN?\r"
    assert unit.writes == [
        b":SYST:ERR?\r",
        b":STAT?\r",
        look,
        b":ROUT1:OPEN;:ROUT2:SCAN 1;:STAT?\r",
        b":STAT?\r",
        b":STAT?\r",
        look,
    ]
    assert texts(exchange.before or ()) == "1A-1B"
    assert exchange.commands == 2
    assert exchange.acknowledged_ns > exchange.commanded_ns


@pytest.mark.parametrize("disconnect", ["open", "scan-0"])
@pytest.mark.parametrize("in_use", ["move", "deny"])
@pytest.mark.parametrize("answers", ["joined", "lines"])
async def test_the_manners_of_a_unit_do_not_matter(stage: Stage, disconnect: str, in_use: str, answers: str) -> None:
    stage.size = "32x32"
    await stage.start(in_use=in_use, answers=answers)
    switch = await stage.open(disconnect=disconnect)
    straight = texts(f"{port}A-{port}B" for port in range(1, 33))
    turned = texts(f"{port}A-{port % 32 + 1}B" for port in range(1, 33))
    await switch.change(add=straight)
    exchange = await switch.change(remove=straight, add=turned)
    assert texts(exchange.before or ()) == straight
    assert stage.lit() == await switch.pairs() == turned


async def test_a_reading_while_mirrors_move_says_so(stage: Stage) -> None:
    twin, switch = await stage.start_and_open()
    twin.faults.panel(remove=(), add=pairs("1A-2B"))
    assert await switch.read() == ["1A-2B tuning"]
    await asyncio.sleep(1)
    assert await switch.read() == ["1A-2B unstated"]


async def test_errors_of_earlier_sessions_are_taken_out_of_the_queue(stage: Stage) -> None:
    unit, _ = await scripted(
        stage, opening=('-113, "Undefined header"', '-222, "Data out of range"', '0, "No error"', "READY")
    )
    assert len(unit.writes) == 4


async def test_a_unit_that_does_not_work_is_not_opened(stage: Stage) -> None:
    await stage.script('0, "No error"', "DEFECTIVE")
    with pytest.raises(FailedError, match="ocs1: the switch reports DEFECTIVE"):
        await stage.open()


async def test_status_that_is_not_known_is_not_ready_and_the_session_goes_on(stage: Stage) -> None:
    unit, switch = await scripted(stage, "CALIBRATING", "1;0;0;0", "0;0;0;0", *["CALIBRATING"] * 1000)
    assert await switch.read() == ["1A-1B tuning"]
    with pytest.raises(DeadlineError, match="ocs1: still in the state CALIBRATING, which is not known here"):
        await switch.change(add="1A-2B", within_s=0.5)
    unit.answers = ["0;0;0;0", *["BUSY"] * 1000]
    with pytest.raises(DeadlineError, match="ocs1: still BUSY"):
        await switch.change(add="1A-2B", within_s=0.5)


@pytest.mark.parametrize(
    ("answer", "finding"),
    [("1;1;0;0", "two inputs go to one output"), ("5;0;0;0", "5 is not 0 to 4"), ("a;0;0;0", "a is")],
)
async def test_a_reading_that_makes_no_sense_ends_the_session(stage: Stage, answer: str, finding: str) -> None:
    _, switch = await scripted(stage, "READY", answer)
    with pytest.raises(ProtocolError, match=finding):
        await switch.read()
    assert "connection closed" in str(await switch.lost())


def test_lines_are_never_longer_than_the_limit() -> None:
    queries = [protocol.connected(near) for near in range(1, 65)]
    lines = protocol.lines(queries)
    assert max(len(line) for line, _ in lines) <= protocol.LINE_CHARACTERS
    assert sum(count for _, count in lines) == 64
    assert ";".join(line for line, _ in lines).split(";") == queries


async def test_a_silent_failure_of_the_unit_is_not_a_success_and_of_a_change_in_part_so_many_inputs_are_set(
    stage: Stage,
) -> None:
    twin, switch = await stage.start_and_open()
    twin.faults.partial_next = 1
    with pytest.raises(
        DeviceError, match=r"the device is READY, reports no error and has no 2A-1B, no 3A-3B"
    ) as failed:
        await switch.change(add="1A-2B 2A-1B 3A-3B")
    assert failed.value.text == "no 2A-1B, no 3A-3B"
    assert await switch.pairs() == "1A-2B"


@pytest.mark.parametrize("read_before", [True, False])
async def test_an_input_that_another_client_reconnected_is_not_freed(stage: Stage, read_before: bool) -> None:
    twin = await stage.start()
    switch = await stage.open(read_before=read_before)
    await switch.change(add="1A-1B 2A-2B")
    twin.faults.panel(remove=pairs("1A-1B"), add=pairs("1A-3B"))
    exchange = await switch.change(remove="1A-1B 2A-2B", add="3A-1B")
    assert stage.lit() == "1A-3B 3A-1B"
    assert exchange.commands == 2
    commanded: list[int] = []
    exchange = await switch.change(remove="1A-1B 2A-2B", on_commanded=commanded.append)
    assert (exchange.commands, commanded) == (0, [exchange.commanded_ns])
    assert stage.lit() == "1A-3B 3A-1B"
