"""OSW12 and OSW22: stale readings after a set, sets without an answer, refusals; TCP and serial lines."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
import serial

from hwd_drivers.core.errors import DeadlineError, DeviceError, LinkError, ProtocolError, RefusedError
from hwd_drivers.core.offload import ThreadOffload
from hwd_drivers.devices.registry import find
from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.twins.server import Denial

from ...stage import Stage, in_virtual_time, terminal_to, texts


@pytest.fixture
def stage() -> Stage:
    return Stage("thorlabs-osw", "osw12", timing="lowradix-8ms", within_s=2.0, heard_s=0.001)


@pytest.fixture
async def on_tcp() -> AsyncIterator[Stage]:
    """A serial server as those that put a switch on the network: the bytes of the line over TCP."""
    async with Stage("thorlabs-osw", "osw12", timing="lowradix-8ms", dialer=TcpDialer()) as stage:
        yield stage


def test_names_of_ends_and_states() -> None:
    spec = find("thorlabs-osw")
    osw12, osw22 = (spec.capabilities(model, None) for model in ("osw12", "osw22"))
    assert [str(end) for end in osw12.ends] == ["in", "1", "2"]
    assert [[str(pair) for pair in state] for state in osw12.elements[0].states] == [["in-1"], ["in-2"]]
    assert [str(end) for end in osw22.ends] == ["1A", "2A", "1B", "2B"]
    assert [[str(pair) for pair in state] for state in osw22.elements[0].states] == [
        ["1A-1B", "2A-2B"],
        ["1A-2B", "2A-1B"],
    ]


@pytest.mark.parametrize(("stale", "took_s"), [("first", 0.1), ("moving", 0.1), ("never", 0.0)])
@in_virtual_time
async def test_a_set_is_done_when_the_switch_reports_the_position(stage: Stage, stale: str, took_s: float) -> None:
    _, switch = await stage.start_and_open(stale=stale)
    exchange = await switch.change(remove="in-1", add="in-2")
    assert (exchange.acknowledged_ns - exchange.commanded_ns) / 1e9 == pytest.approx(took_s)
    assert exchange.commands == 1
    assert await switch.pairs() == "in-2"
    again = await switch.change(add="in-2")
    assert again.acknowledged_ns == again.commanded_ns  # it is there and does not move


@in_virtual_time
async def test_the_first_reading_after_a_set_is_stale_on_the_wire(stage: Stage) -> None:
    stage.model = "osw22"
    await stage.start()
    client = await stage.connect()
    assert await client.say(b"S 2\n") == b""
    await asyncio.sleep(5)
    assert await client.say(b"S?\n") == b"1\r\n"
    assert await client.say(b"S?\n") == b"2\r\n"
    assert await client.say(b"S 2\n") == b""
    assert await client.say(b"S?\n") == b"2\r\n"


@in_virtual_time
async def test_a_change_reports_what_another_client_had_set(stage: Stage) -> None:
    _, switch = await stage.start_and_open()
    await switch.change(remove="in-1", add="in-2")
    await (await stage.connect()).say(b"S 1\nS?\n")
    assert texts((await switch.change(add="in-2")).before or ()) == "in-1"
    assert texts((await switch.change(remove="in-2", add="in-1")).before or ()) == "in-2"


@in_virtual_time
async def test_bar_and_cross_are_changed_whole(stage: Stage) -> None:
    stage.model = "osw22"
    _, switch = await stage.start_and_open()
    assert await switch.pairs() == "1A-1B 2A-2B"
    await switch.change(remove="1A-1B 2A-2B", add="1A-2B 2A-1B")
    for remove, add, finding in (
        ("1A-2B 2A-1B", "1A-1B", r"ocs1: element 1 cannot be 1A-1B: .*1A-1B, 2A-2B; 1A-2B, 2A-1B"),
        ("1A-2B 2A-1B", "", "cannot be dark"),
        ("", "1A-3B", "no element of this switch joins"),
    ):
        with pytest.raises(RefusedError, match=finding):
            await switch.change(remove=remove, add=add)
        assert await switch.pairs() == "1A-2B 2A-1B"


@in_virtual_time
async def test_a_refused_set_raises_the_words_of_the_switch_and_the_session_goes_on(stage: Stage) -> None:
    twin, switch = await stage.start_and_open()
    twin.faults.deny_next = Denial(code="17", text="Motor fault")
    with pytest.raises(DeviceError, match=r"ocs1: S 2: the device answered 17 \(Motor fault\)") as caught:
        await switch.change(remove="in-1", add="in-2")
    assert (caught.value.code, caught.value.text, caught.value.command) == ("17", "Motor fault", "S 2")
    assert await switch.pairs() == "in-1"


@in_virtual_time
async def test_a_switch_that_does_not_move_is_a_deadline_error_with_the_waiting_time(stage: Stage) -> None:
    twin, switch = await stage.start_and_open()
    twin.faults.stick(stage.capabilities.ends)
    with pytest.raises(DeadlineError, match=r"ocs1: S 2: after 0\.4 s the device reports another state"):
        await switch.change(remove="in-1", add="in-2", within_s=0.5)
    assert await switch.pairs() == "in-1"


@in_virtual_time
async def test_the_identity_has_type_and_board(stage: Stage) -> None:
    _, switch = await stage.start_and_open(type="7", board="OSW22-1310E V2.1")
    assert str(await switch.identify()) == "Thorlabs 7 serial not reported firmware OSW22-1310E V2.1"


@in_virtual_time
async def test_an_error_to_a_question_is_the_words_of_the_switch(stage: Stage) -> None:
    await stage.start(board="Error 99,Not now")
    with pytest.raises(DeviceError, match=r"I\?: the device answered 99 \(Not now\)"):
        await stage.open()


@in_virtual_time
async def test_a_digit_in_place_of_the_board_shows_that_the_line_is_out_of_step(stage: Stage) -> None:
    twin = await stage.start()
    twin.faults.wrong_next = True
    with pytest.raises(ProtocolError, match=r"is not an answer to I\?"):
        await stage.open()
    await stage.open()


@pytest.mark.parametrize("way", ["serial-server", "serial-port"])
async def test_the_same_driver_over_a_serial_server_and_over_a_serial_port(on_tcp: Stage, way: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        await on_tcp.start(stale="moving")
        if way == "serial-port":
            on_tcp.address = await stack.enter_async_context(terminal_to(on_tcp.address))
        switch = await on_tcp.open(reread_after_s=0.01)
        identity = await switch.identify()
        assert (identity.vendor, identity.model) == ("Thorlabs", "OSW12")
        for before, after in (("in-1", "in-2"), ("in-2", "in-1")):
            exchange = await switch.change(remove=before, add=after)
            assert exchange.acknowledged_ns - exchange.commanded_ns >= 8_000_000  # it moves so long
            assert await switch.pairs() == on_tcp.lit() == after
        await switch.close()
        with pytest.raises(LinkError):
            await switch.pairs()


async def test_pyserial_alone_moves_the_twin_as_published_programs_do(on_tcp: Stage) -> None:
    """An independent client: it sets, waits, and reads until the position is right."""

    def program(port: str) -> list[bytes]:
        with serial.Serial(port, 115_200, timeout=5, rtscts=True) as line:
            line.write(b"I?\n")
            heard = [line.read_until(b"\r\n")]
            line.write(b"S 2\n")
            for _ in range(2):
                line.write(b"S?\n")
                heard.append(line.read_until(b"\r\n"))
            line.write(b"S 0\n")
            heard.append(line.read_until(b"\r\n"))
        return heard

    offload = ThreadOffload(1)
    try:
        await on_tcp.start(stale="first")
        async with terminal_to(on_tcp.address) as port:
            assert await offload(program, port) == [
                b"OSW-E V1.0\r\n",
                b"1\r\n",
                b"2\r\n",
                b"Error 02,Invalid parameter\r\n",
            ]
        assert on_tcp.lit() == "in-2"
    finally:
        offload.close()


async def test_a_serial_port_that_is_unplugged_is_a_lost_session(on_tcp: Stage) -> None:
    await on_tcp.start()
    async with terminal_to(on_tcp.address) as port:
        on_tcp.address = port
        switch = await on_tcp.open()
    assert isinstance(await asyncio.wait_for(switch.lost(), 5), LinkError)
