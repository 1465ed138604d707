"""Small switches: captures cut at every byte and played to the twins, arbitrary bytes, what is peculiar to a family."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import serial
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import DeadlineError, DeviceError, LinkError, ProtocolError
from hwd_drivers.core.offload import ThreadOffload
from hwd_drivers.core.values import Identity
from hwd_drivers.devices.registry import find
from hwd_drivers.devices.serial_part import SerialPart
from hwd_drivers.families.sercalo import protocol as sercalo
from hwd_drivers.families.thorlabs.part import PART as THORLABS
from hwd_drivers.transports.dial import TcpDialer
from hwd_drivers.twins.server import Denial

from ..stage import Stage, terminal_to, texts

LIMIT_BYTES = 1024
"""No decoder keeps more than this of what has no end."""
MOVED_S = 0.01


class Family(NamedTuple):
    """`endless`: bytes that never end a message."""

    driver: str
    model: str
    size: str | None
    folder: str
    endless: bytes

    def decoder(self, *, answers: bool) -> Callable[[bytes], Sequence[object]]:
        part = find(self.driver).declared_twin()
        assert isinstance(part, SerialPart)
        return part.answers() if answers else part.commands()

    def exchanges(self) -> list[tuple[bytes, bytes]]:
        """What the host sent, and what came back before it sent more."""
        found: list[tuple[bytes, bytes]] = []
        for line in (Path(__file__).parent / self.folder / "captures.txt").read_text().splitlines():
            data = line[2:].encode("latin-1").decode("unicode_escape").encode("latin-1")
            if line.startswith("> "):
                found.append((data, b""))
            elif line.startswith("< "):
                found[-1] = found[-1][0], found[-1][1] + data
        return found


each_family = pytest.mark.parametrize(
    "family",
    [
        Family("thorlabs-osw", "osw22", None, "thorlabs", b"x"),
        Family("osw", "osw", "2x6", "osw", b"<"),
        Family("leoni", "eol", "1x8", "leoni", b"x"),
        Family("agiltron", "selfalign", "1x16", "agiltron", b"\x01\x35\x00"),
        Family("sercalo", "rsc", "1x8", "sercalo", b"\xef"),
        Family("sercalo-ascii", "usb", "1x8", "sercalo/ascii", b"x"),
        Family("dicon-mems", "mems", "1x16", "dicon/mems", b"x"),
    ],
    ids=lambda family: family.driver,
)


@each_family
@pytest.mark.parametrize("side", [0, 1], ids=["host", "device"])
def test_a_capture_reads_the_same_wherever_it_is_cut(family: Family, side: int) -> None:
    data = b"".join(exchange[side] for exchange in family.exchanges())
    whole = family.decoder(answers=bool(side))(data)
    assert len(whole) >= 4
    for cut in range(1, len(data)):
        decoder = family.decoder(answers=bool(side))
        assert [*decoder(data[:cut]), *decoder(data[cut:])] == [*whole]
    decoder = family.decoder(answers=bool(side))
    assert [message for byte in data for message in decoder(bytes([byte]))] == [*whole]


@each_family
@pytest.mark.usefixtures("virtual_time")
async def test_the_twin_answers_the_capture_byte_for_byte_and_garbage_moves_nothing(family: Family) -> None:
    async with Stage(family.driver, family.model, family.size, timing="lowradix-8ms", heard_s=MOVED_S) as stage:
        has_option = family.driver in ("osw", "agiltron", "sercalo", "sercalo-ascii")
        await stage.start(**({"answer": "at-once"} if has_option else {}))
        client = await stage.connect()
        for number, (sent, received) in enumerate(family.exchanges()):
            assert await client.say(sent) == received, f"exchange {number}: {sent!r}"
        before = stage.twin.mirror.states
        await client.say(b"\xff\x00\xfe" * 200)
        assert client.ended
        assert stage.twin.mirror.states == before


@each_family
@given(chunks=st.lists(st.binary(max_size=300), max_size=8), answers=st.booleans(), data=st.data())
def test_any_bytes_and_a_damaged_capture_are_messages_or_a_protocol_error(
    family: Family, chunks: Sequence[bytes], answers: bool, data: st.DataObject
) -> None:
    whole = bytearray(b"".join(exchange[answers] for exchange in family.exchanges()))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    for some in (chunks, [bytes(whole)]):
        decoder = family.decoder(answers=answers)
        with contextlib.suppress(ProtocolError):
            for chunk in some:
                decoder(chunk)


@each_family
def test_an_endless_stream_is_refused_or_cut_into_messages_before_the_limit(family: Family) -> None:
    decoder = family.decoder(answers=False)
    fed = 0
    try:
        while fed < 4 * LIMIT_BYTES:
            if decoder(family.endless):
                return
            fed += len(family.endless)
    except ProtocolError:
        assert fed <= LIMIT_BYTES
        return
    raise AssertionError(f"{fed} bytes were kept")


@pytest.mark.parametrize(
    ("driver", "model", "size", "options", "took_ms"),
    [
        ("leoni", "eol", "1x16", {"channel": "wanted"}, 0),
        ("leoni", "eol", "1x16", {"channel": "moved"}, 8),
        ("agiltron", "selfalign", "1x16", {}, 8),
        ("sercalo", "rsc", "1x8", {}, 8),
        ("sercalo-ascii", "usb", "1x8", {}, 8),
        ("dicon-mems", "mems", "1x16", {"echo": False}, 0),
        ("dicon-mems", "mems", "1x16", {"echo": True}, 0),
        ("osw", "osw", "1x8", {"end": "\r\n"}, 8),
        ("thorlabs-osw", "osw12", None, {"stale": "first"}, 100),
        ("thorlabs-osw", "osw12", None, {"stale": "moving"}, 100),
        ("thorlabs-osw", "osw12", None, {"stale": "never"}, 0),
    ],
)
@pytest.mark.usefixtures("virtual_time")
async def test_a_selection_is_done_when_the_switch_reports_it(
    driver: str, model: str, size: str | None, options: dict[str, Json], took_ms: float
) -> None:
    async with Stage(driver, model, size, timing="lowradix-8ms") as stage:
        _, switch = await stage.start_and_open(**options)
        exchange = await switch.change(remove="in-1", add="in-2")
        assert (exchange.acknowledged_ns - exchange.commanded_ns) / 1e6 == pytest.approx(took_ms)
        assert exchange.commands == 1
        assert await switch.pairs() == stage.lit() == "in-2"
        again = await switch.change(add="in-2")
        assert (again.acknowledged_ns == again.commanded_ns) or driver != "thorlabs-osw", (
            "it is there, and does not move"
        )
        if () in stage.capabilities.elements[0].states:
            await switch.change(remove="in-2")
            assert await switch.pairs() == stage.lit() == ""


def on_stage(driver: str, model: str, size: str | None) -> Callable[..., Any]:
    """The stage of a test."""
    return pytest.mark.parametrize("stage", [(driver, model, size)], indirect=True, ids=[driver])


@pytest.fixture
async def stage(request: pytest.FixtureRequest, virtual_time: None) -> AsyncIterator[Stage]:
    async with Stage(*request.param, timing="lowradix-8ms", within_s=2.0, heard_s=0.001) as stage:
        yield stage


@on_stage("osw", "osw", "1x8")
async def test_any_word_but_ok_is_a_refusal_of_that_name(stage: Stage) -> None:
    twin, switch = await stage.start_and_open()
    twin.faults.deny_next = Denial(code="BUSY")
    with pytest.raises(DeviceError, match=r"<OSW_OUT_02>: the device answered BUSY") as caught:
        await switch.change(remove="in-1", add="in-2")
    assert (caught.value.code, await switch.pairs()) == ("BUSY", "in-1")


@on_stage("agiltron", "selfalign", "1x16")
async def test_a_session_knows_the_state_that_it_set_and_none_before(stage: Stage) -> None:
    await stage.start()
    assert await (await stage.connect()).say(b"\x01\x35\x00\x06") == b""  # it moves for 8 ms
    await asyncio.sleep(0.01)
    switch = await stage.open()
    await switch.identify()
    assert await switch.pairs() == ""
    assert stage.lit() == "in-7"  # nothing moved it
    await switch.change(add="in-3")
    assert await switch.pairs() == "in-3"
    stage.twin.faults.wrong_next = True
    with pytest.raises(ProtocolError, match="is not an answer to select port 5"):
        await switch.change(add="in-5")
    assert stage.lit() == "in-5"
    with pytest.raises(ProtocolError):
        await switch.pairs()


@on_stage("agiltron", "selfalign", "1x16")
async def test_a_selection_that_is_not_answered_ends_the_session(stage: Stage) -> None:
    twin, switch = await stage.start_and_open()
    twin.faults.silent = True
    with pytest.raises(DeadlineError, match=r"select port 4: no answer within 0\.5 s"):
        await switch.change(add="in-4", within_s=0.5)
    with pytest.raises(LinkError):
        await switch.pairs()


@on_stage("osw", "osw", "3x6")
async def test_a_change_of_some_keeps_the_others_and_two_at_once_do_not_undo_each_other(stage: Stage) -> None:
    _, switch = await stage.start_and_open()
    await (await stage.connect()).say(b"<OSW_OUT_02_03_01>")
    await asyncio.sleep(0.01)
    exchange = await switch.change(remove="2A-9B", add="2A-12B")
    assert await switch.pairs() == "1A-2B 2A-12B 3A-13B"
    assert (texts(exchange.before or ()), exchange.commands) == ("1A-2B 2A-9B 3A-13B", 1)
    await asyncio.gather(switch.change(remove="1A-2B", add="1A-3B"), switch.change(remove="2A-12B", add="2A-9B"))
    assert await switch.pairs() == "1A-3B 2A-9B 3A-13B"


@on_stage("osw", "osw", "2x6")
async def test_a_selector_that_another_client_moved_between_look_and_set_is_given_back(stage: Stage) -> None:
    _, switch = await stage.start_and_open()
    client = await stage.connect()
    stage.twin.faults.slow_s = 0.3
    changing = asyncio.create_task(switch.change(remove="2A-7B", add="2A-9B"))
    await asyncio.sleep(0.1)
    await client.say(b"<OSW_OUT_05_01>")
    exchange = await changing
    stage.twin.faults.slow_s = 0.0
    assert await switch.pairs() == "1A-5B 2A-9B"
    assert (texts(exchange.before or ()), exchange.commands) == ("1A-5B 2A-7B", 2)


@on_stage("osw", "osw", "1x8")
async def test_an_error_of_the_type_query_names_the_option(stage: Stage) -> None:
    twin, switch = await stage.start_and_open()
    twin.faults.silent = True
    with pytest.raises(DeadlineError, match=r"needs `options: \{ask_type: false\}`"):
        await switch.identify()


def test_a_wrong_checksum_and_invalid_information_of_a_module_are_refused() -> None:
    data = bytearray(sercalo.encode_answer(sercalo.Answer(code=sercalo.Code.WHERE, data=b"\x03")))
    data[-1] ^= 1
    with pytest.raises(ProtocolError, match="wrong checksum"):
        sercalo.AnswerDecoder().feed(bytes(data))
    found = sercalo.read_info(sercalo.write_info("RSC1x8", "AB0012"))
    assert found == Identity(vendor="Sercalo", model="RSC1x8", serial="AB0012", firmware="1.2")
    for wrong in (b"", b"x" * 28, b"\xff" * 40):
        with pytest.raises(ProtocolError, match="not information"):
            sercalo.read_info(wrong)


@on_stage("thorlabs-osw", "osw12", None)
async def test_a_change_reports_what_another_client_had_set(stage: Stage) -> None:
    twin, switch = await stage.start_and_open()
    await switch.change(remove="in-1", add="in-2")
    await (await stage.connect()).say(b"S 1\nS?\n")
    assert texts((await switch.change(add="in-2")).before or ()) == "in-1"
    assert texts((await switch.change(remove="in-2", add="in-1")).before or ()) == "in-2"
    twin.faults.stick(stage.capabilities.ends)
    with pytest.raises(DeadlineError, match=r"ocs1: S 2: after 0\.4 s the device reports another state"):
        await switch.change(remove="in-1", add="in-2", within_s=0.5)
    assert await switch.pairs() == "in-1"


@on_stage("thorlabs-osw", "osw12", None)
async def test_a_question_that_is_refused_or_answered_out_of_step_opens_no_session(stage: Stage) -> None:
    twin = await stage.start(board="Error 99,Not now")
    with pytest.raises(DeviceError, match=r"I\?: the device answered 99 \(Not now\)"):
        await stage.open()
    twin.faults.wrong_next = True
    with pytest.raises(ProtocolError, match=r"is not an answer to I\?"):
        await stage.open()
    for text, position in (("1", 1), ("2", 2), ("3", None), ("01", None), ("OSW12", None)):
        assert THORLABS.where.number(text) == position


@pytest.fixture
async def on_tcp() -> AsyncIterator[Stage]:
    """A serial server as those that put a switch on the network: the bytes of the line over TCP."""
    async with Stage("thorlabs-osw", "osw12", timing="lowradix-8ms", dialer=TcpDialer()) as stage:
        yield stage


@pytest.mark.parametrize("way", ["serial-server", "serial-port"])
async def test_the_same_driver_over_a_serial_server_and_over_a_serial_port(on_tcp: Stage, way: str) -> None:
    await on_tcp.start(stale="moving")
    async with contextlib.AsyncExitStack() as stack:
        if way == "serial-port":
            on_tcp.address = await stack.enter_async_context(terminal_to(on_tcp.address))
        switch = await on_tcp.open(reread_after_s=0.01)
        for before, after in (("in-1", "in-2"), ("in-2", "in-1")):
            exchange = await switch.change(remove=before, add=after)
            assert exchange.acknowledged_ns - exchange.commanded_ns >= 8_000_000  # it moves so long
            assert await switch.pairs() == on_tcp.lit() == after
    if way == "serial-port":
        assert isinstance(await asyncio.wait_for(switch.lost(), 5), LinkError), "it was unplugged"


async def test_pyserial_alone_moves_the_twin_as_published_programs_do(on_tcp: Stage) -> None:
    """An independent client: it sets, waits, and reads until the position is right."""

    def program(port: str) -> list[bytes]:
        with serial.Serial(port, 115_200, timeout=5, rtscts=True) as line:
            line.write(b"S 2\n")
            heard = []
            for question in (b"I?\n", b"S?\n", b"S?\n", b"S 0\n"):
                line.write(question)
                heard.append(line.read_until(b"\r\n"))
        return heard

    offload = ThreadOffload(1)
    try:
        await on_tcp.start(stale="first")
        async with terminal_to(on_tcp.address) as port:
            heard = await offload(program, port)
        assert heard == [b"OSW-E V1.0\r\n", b"1\r\n", b"2\r\n", b"Error 02,Invalid parameter\r\n"]
        assert on_tcp.lit() == "in-2"
    finally:
        offload.close()
