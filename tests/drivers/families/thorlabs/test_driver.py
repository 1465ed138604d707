"""OSW12 and OSW22: stale readings after a set, sets without an answer, refusals; TCP and serial lines."""

import asyncio
import contextlib
import os
import tty
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import serial

from hwd_drivers.conformance.bench import Bench
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import DeadlineError, DeviceError, LinkError, ProtocolError, RefusedError
from hwd_drivers.core.ids import Draws
from hwd_drivers.core.offload import ThreadOffload
from hwd_drivers.core.values import Crossconnect, Exchange
from hwd_drivers.devices.abilities import CrossConnects, Device
from hwd_drivers.devices.registry import OpenContext, find
from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.twins.registry import Twin, twin_of
from hwd_drivers.twins.server import Denial
from hwd_drivers.twins.timing import find_timing

Say = Callable[[bytes], Awaitable[bytes | None]]


def soon(seconds: float = 2.0) -> float:
    return asyncio.get_running_loop().time() + seconds


async def change(device: Device, remove: str, add: str, *, within_s: float = 2.0) -> Exchange:
    assert isinstance(device, CrossConnects)
    return await device.change_crossconnects(
        remove=[Crossconnect.parse(each) for each in remove.split()],
        add=[Crossconnect.parse(each) for each in add.split()],
        deadline_s=soon(within_s),
    )


async def read(device: Device) -> str:
    assert isinstance(device, CrossConnects)
    return " ".join(str(each.crossconnect) for each in await device.read_crossconnects(deadline_s=soon()))


async def test_names_of_ends_and_states() -> None:
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
def test_a_set_is_done_when_the_switch_reports_the_position(
    stale: str, took_s: float, on_twin: Callable[..., None]
) -> None:
    async def story(bench: Bench, say: Say) -> None:
        device = await bench.open()
        exchange = await change(device, "in-1", "in-2")
        assert (exchange.acknowledged_ns - exchange.commanded_ns) / 1e9 == pytest.approx(took_s)
        assert exchange.commands == 1
        assert await read(device) == "in-2"
        again = await change(device, "", "in-2")
        assert again.acknowledged_ns == again.commanded_ns  # it is there and does not move
        await device.close()

    on_twin(story, "thorlabs-osw", "osw12", None, stale=stale)


def test_the_first_reading_after_a_set_is_stale_on_the_wire(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        assert await say(b"S 2\n") == b""
        await asyncio.sleep(5)
        assert await say(b"S?\n") == b"1\r\n"
        assert await say(b"S?\n") == b"2\r\n"
        assert await say(b"S 2\n") == b""
        assert await say(b"S?\n") == b"2\r\n"

    on_twin(story, "thorlabs-osw", "osw22")


def test_a_change_reports_what_another_client_had_set(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        device = await bench.open()
        await change(device, "in-1", "in-2")
        await say(b"S 1\nS?\n")
        exchange = await change(device, "", "in-2")
        assert exchange.before == (Crossconnect.parse("in-1"),)
        assert (await change(device, "in-2", "in-1")).before == (Crossconnect.parse("in-2"),)
        await device.close()

    on_twin(story, "thorlabs-osw", "osw12")


def test_bar_and_cross_are_changed_whole(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        device = await bench.open()
        assert await read(device) == "1A-1B 2A-2B"
        await change(device, "1A-1B 2A-2B", "1A-2B 2A-1B")
        assert await read(device) == "1A-2B 2A-1B"
        with pytest.raises(RefusedError, match=r"bench: element 1 cannot be 1A-1B: .*1A-1B, 2A-2B; 1A-2B, 2A-1B"):
            await change(device, "1A-2B 2A-1B", "1A-1B")
        with pytest.raises(RefusedError, match="cannot be dark"):
            await change(device, "1A-2B 2A-1B", "")
        with pytest.raises(RefusedError, match="no element of this switch joins"):
            await change(device, "", "1A-3B")
        assert await read(device) == "1A-2B 2A-1B"
        await device.close()

    on_twin(story, "thorlabs-osw", "osw22")


def test_a_refused_set_raises_the_words_of_the_switch_and_the_session_goes_on(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        device = await bench.open()
        assert bench.twin is not None
        bench.twin.faults.deny_next = Denial(code="17", text="Motor fault")
        with pytest.raises(DeviceError, match=r"bench: S 2: the device answered 17 \(Motor fault\)") as caught:
            await change(device, "in-1", "in-2")
        assert (caught.value.code, caught.value.text, caught.value.command) == ("17", "Motor fault", "S 2")
        assert await read(device) == "in-1"
        await device.close()

    on_twin(story, "thorlabs-osw", "osw12")


def test_a_switch_that_does_not_move_is_a_deadline_error_with_the_waiting_time(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        device = await bench.open()
        assert bench.twin is not None
        bench.twin.faults.stick(bench.capabilities.ends)
        with pytest.raises(DeadlineError, match=r"bench: S 2: after 0\.4 s the device reports another state"):
            await change(device, "in-1", "in-2", within_s=0.5)
        assert await read(device) == "in-1"
        await device.close()

    on_twin(story, "thorlabs-osw", "osw12")


def test_the_identity_has_type_and_board(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        device = await bench.open()
        identity = await device.identify(deadline_s=soon())
        assert str(identity) == "Thorlabs 7 serial not reported firmware OSW22-1310E V2.1"
        await device.close()

    on_twin(story, "thorlabs-osw", "osw22", None, type="7", board="OSW22-1310E V2.1")


def test_an_error_to_a_question_is_the_words_of_the_switch(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        with pytest.raises(DeviceError, match=r"I\?: the device answered 99 \(Not now\)"):
            await bench.open()

    on_twin(story, "thorlabs-osw", "osw22", None, board="Error 99,Not now")


def test_a_digit_in_place_of_the_board_shows_that_the_line_is_out_of_step(on_twin: Callable[..., None]) -> None:
    async def story(bench: Bench, say: Say) -> None:
        assert bench.twin is not None
        bench.twin.faults.wrong_next = True
        with pytest.raises(ProtocolError, match=r"is not an answer to I\?"):
            await bench.open()
        device = await bench.open()
        await device.close()

    on_twin(story, "thorlabs-osw", "osw12")


@contextlib.asynccontextmanager
async def twin_on_tcp(stale: str = "moving") -> AsyncIterator[tuple[Twin, str]]:
    """A serial server as those that put a switch on the network: the bytes of the line over TCP."""
    spec = find("thorlabs-osw")
    twin = twin_of(spec).make(
        name="sw1",
        capabilities=spec.capabilities("osw12", None),
        timing=find_timing("lowradix-8ms"),
        draws=Draws(7),
        clock=SystemClock(),
        dialer=TcpDialer(),
        address="127.0.0.1:0",
        options={"stale": stale},
    )
    try:
        yield twin, await twin.start()
    finally:
        await twin.close()


@contextlib.asynccontextmanager
async def terminal_to(address: str) -> AsyncIterator[str]:
    """A pseudo-terminal that leads to `address`: what the driver opens is a serial port."""
    device, port = os.openpty()
    tty.setraw(port)
    os.set_blocking(device, False)
    reader, writer = await asyncio.open_connection(*address.rsplit(":", 1))
    loop = asyncio.get_running_loop()

    def from_port() -> None:
        with contextlib.suppress(BlockingIOError):
            writer.write(os.read(device, 4096))

    async def to_port() -> None:
        while data := await reader.read(4096):
            os.write(device, data)

    loop.add_reader(device, from_port)
    pump = asyncio.create_task(to_port(), name="hwd:test/pump")
    try:
        yield os.ttyname(port)
    finally:
        loop.remove_reader(device)
        pump.cancel()
        await asyncio.wait([pump])
        writer.close()
        await writer.wait_closed()
        os.close(device)
        os.close(port)


async def opened(address: str) -> Device:
    spec = find("thorlabs-osw")
    return await spec.open(
        OpenContext(
            name="sw1",
            address=address,
            dialer=TcpDialer(),
            clock=SystemClock(),
            sink=_no_documents,
            user=None,
            password=None,
            options=spec.options(reread_after_s=0.01),
            capabilities=spec.capabilities("osw12", None),
        )
    )


def _no_documents(document: Document) -> None:
    """The tests look at the device itself."""


@pytest.mark.parametrize("way", ["serial-server", "serial-port"])
async def test_the_same_driver_over_a_serial_server_and_over_a_serial_port(way: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        twin, address = await stack.enter_async_context(twin_on_tcp())
        if way == "serial-port":
            address = await stack.enter_async_context(terminal_to(address))
        device = await opened(address)
        identity = await device.identify(deadline_s=soon())
        assert (identity.vendor, identity.model) == ("Thorlabs", "OSW12")
        for before, after in (("in-1", "in-2"), ("in-2", "in-1")):
            exchange = await change(device, before, after)
            assert exchange.acknowledged_ns - exchange.commanded_ns >= 8_000_000  # it moves so long
            assert await read(device) == after
            assert [str(pair) for pair in twin.mirror.crossconnects()] == [after]
        await device.close()
        with pytest.raises(LinkError):
            await read(device)


async def test_pyserial_alone_moves_the_twin_as_published_programs_do() -> None:
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
        async with twin_on_tcp("first") as (twin, address), terminal_to(address) as port:
            assert await offload(program, port) == [
                b"OSW-E V1.0\r\n",
                b"1\r\n",
                b"2\r\n",
                b"Error 02,Invalid parameter\r\n",
            ]
            assert [str(pair) for pair in twin.mirror.crossconnects()] == ["in-2"]
    finally:
        offload.close()


async def test_a_serial_port_that_is_unplugged_is_a_lost_session() -> None:
    async with twin_on_tcp() as (_, address):
        async with terminal_to(address) as port:
            device = await opened(port)
        cause = await asyncio.wait_for(device.lost(), 5)
        assert isinstance(cause, LinkError)
        await device.close()
