"""Captures of Polatis units over SCPI: both sides read them alike however cut; the twin answers as the unit."""

import ast
import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from hwd_drivers.codecs.scpi import Command, LineDecoder, parse_line, split_answers
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.ids import Draws
from hwd_drivers.families.polatis.models import scpi_driver as driver
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.registry import twin_of
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop, run_virtual

LINES = Path(__file__).with_name("captures.txt").read_text(encoding="utf-8").splitlines()
TEXTS = [(line[0], ast.literal_eval(f"'''{line[2:]}'''").encode()) for line in LINES if line[0] in "<>"]
SENT = b"".join(text for way, text in TEXTS if way == ">")
ANSWERED = b"".join(text for way, text in TEXTS if way == "<")


class Client(asyncio.Protocol):
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.got = b""

    @override
    def data_received(self, data: bytes) -> None:
        self.got += data


def answers(*chunks: bytes) -> list[str]:
    decoder = LineDecoder()
    return [answer for chunk in chunks for line in decoder.feed(chunk) for answer in split_answers(line)]


def commands(*chunks: bytes) -> list[Command]:
    decoder = LineDecoder()
    return [command for chunk in chunks for line in decoder.feed(chunk) for command in parse_line(line)]


def test_answers_are_understood_wherever_they_are_cut() -> None:
    whole = answers(ANSWERED)
    assert len(whole) > len(LINES) / 3
    for cut in range(len(ANSWERED)):
        assert answers(ANSWERED[:cut], ANSWERED[cut:]) == whole


def test_commands_are_understood_wherever_they_are_cut() -> None:
    whole = commands(SENT)
    assert len(whole) > len(LINES) / 3
    for cut in range(len(SENT)):
        assert commands(SENT[:cut], SENT[cut:]) == whole


@pytest.mark.parametrize("bytewise", [False, True])
def test_the_twin_answers_as_the_unit_did(bytewise: bool) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        dialer = MemoryDialer(MemoryNet())
        twin = twin_of(driver).make(
            name="ocs1",
            capabilities=driver.capabilities("polatis-6000", "8x8"),
            timing=find_timing("ideal"),
            draws=Draws(7),
            clock=VirtualClock(loop, wall_start_ns=0),
            dialer=dialer,
            address="mem:ocs1",
            options={},
        )
        await twin.start()
        transport, client = await dialer.connect(Client, "mem:ocs1")
        for way, text in TEXTS:
            if way == "<":
                assert client.got == text
                continue
            client.got = b""
            for chunk in [bytes([byte]) for byte in text] if bytewise else [text]:
                transport.write(chunk)
            await asyncio.sleep(1)
        await twin.close()

    run_virtual(main())


@given(st.binary(max_size=300), st.integers(0, len(ANSWERED)))
def test_arbitrary_bytes_within_answers_are_a_protocol_error_at_worst(noise: bytes, place: int) -> None:
    try:
        answers(ANSWERED[:place], noise, ANSWERED[place:])
    except ProtocolError:
        pass


@given(st.binary(max_size=300) | st.text(max_size=200).map(str.encode), st.integers(0, len(SENT)))
def test_arbitrary_bytes_within_commands_are_a_protocol_error_at_worst(noise: bytes, place: int) -> None:
    try:
        commands(SENT[:place], noise, SENT[place:])
    except ProtocolError:
        pass
