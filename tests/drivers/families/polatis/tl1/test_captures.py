"""Captures of Polatis units over TL1: both sides read them alike however they are cut; the twin answers as the unit."""

import ast
import asyncio
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from hwd_drivers.codecs.tl1 import AnswerDecoder, CommandDecoder, parse_command
from hwd_drivers.codecs.tl1_messages import Answer, Message
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import ProtocolError
from hwd_drivers.core.ids import Draws
from hwd_drivers.families.polatis.models import tl1_driver
from hwd_drivers.families.polatis.tl1 import protocol
from hwd_drivers.families.polatis.tl1 import requests as ask
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.twins.registry import twin_of
from hwd_drivers.twins.timing import find_timing
from hwd_drivers.twins.virtual_time import run_virtual

STAMP = re.compile(rb"\d\d-\d\d-\d\d \d\d:\d\d:\d\d")


def exchanges() -> list[tuple[bytes, bytes]]:
    lines = Path(__file__).with_name("captures.txt").read_text(encoding="utf-8").splitlines()
    texts = [(line[0], ast.literal_eval(f"'''{line[2:]}'''").encode()) for line in lines if line[0] in "<>"]
    return [(sent, got) for (_, sent), (_, got) in zip(texts[::2], texts[1::2], strict=True)]


EXCHANGES = exchanges()
SENT = b"".join(sent for sent, _ in EXCHANGES)
ANSWERED = b"".join(answer for _, answer in EXCHANGES)


class Client(asyncio.Protocol):
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.got = b""

    @override
    def data_received(self, data: bytes) -> None:
        self.got += data


def understood(chunks: list[bytes]) -> list[Message]:
    decoder = AnswerDecoder()
    return [message for chunk in chunks for message in decoder.feed(chunk)]


def requested(chunks: list[bytes]) -> list[ask.Request]:
    decoder = CommandDecoder()
    texts = [text for chunk in chunks for text in decoder.feed(chunk)]
    return [protocol.from_command(parse_command(text)) for text in texts]


def test_answers_are_understood_wherever_they_are_cut() -> None:
    whole = understood([ANSWERED])
    assert len(whole) == len([m for m in whole if isinstance(m, Answer)]) == 16
    for cut in range(len(ANSWERED)):
        assert understood([ANSWERED[:cut], ANSWERED[cut:]]) == whole
    assert understood([bytes([byte]) for byte in ANSWERED]) == whole


def test_commands_are_understood_wherever_they_are_cut() -> None:
    whole = requested([SENT])
    assert len(whole) == 16
    for cut in range(len(SENT)):
        assert requested([SENT[:cut], SENT[cut:]]) == whole


@pytest.mark.parametrize("bytewise", [False, True])
def test_the_twin_answers_as_the_unit_did(bytewise: bool) -> None:
    async def main() -> None:
        dialer = MemoryDialer(MemoryNet())
        twin = twin_of(tl1_driver).make(
            name="ocs1",
            capabilities=tl1_driver.capabilities("polatis-6000", "8x8"),
            timing=find_timing("ideal"),
            draws=Draws(7),
            clock=SystemClock(),
            dialer=dialer,
            address="mem:ocs1",
            options={},
        )
        await twin.start()
        transport, client = await dialer.connect(Client, "mem:ocs1")
        for sent, answer in EXCHANGES:
            client.got = b""
            for chunk in [bytes([byte]) for byte in sent] if bytewise else [sent]:
                transport.write(chunk)
            await asyncio.sleep(1)
            assert STAMP.sub(b"", client.got) == STAMP.sub(b"", answer)
        await twin.close()

    run_virtual(main())


@given(st.binary(max_size=300), st.integers(0, len(ANSWERED)))
def test_arbitrary_bytes_within_answers_are_a_protocol_error_at_worst(noise: bytes, place: int) -> None:
    try:
        understood([ANSWERED[:place] + noise, ANSWERED[place:]])
    except ProtocolError:
        pass


@given(st.binary(max_size=300) | st.text(max_size=200).map(str.encode), st.integers(0, len(SENT)))
def test_arbitrary_bytes_within_commands_are_a_protocol_error_at_worst(noise: bytes, place: int) -> None:
    try:
        requested([SENT[:place] + noise, SENT[place:]])
    except ProtocolError:
        pass
