"""Whole packets, within a limit."""

import ast
import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.bus.broker.packets import PacketReader, check_head, check_packet
from hwd_drivers.core.errors import ProtocolError

from ...answers import check_answers
from .test_attacks import packet


def publish(size: int) -> bytes:
    """A PUBLISH with a body of so many bytes, the first two of which are its empty topic."""
    return packet(0x30, b"\0\0" + b"x" * (size - 2))


def reader_of(data: bytes, most_bytes: int = 1000) -> tuple[PacketReader, list[int]]:
    over: list[int] = []
    stream = asyncio.StreamReader()
    stream.feed_data(data)
    stream.feed_eof()
    return PacketReader(stream, most_bytes=most_bytes, over=over.append), over


@given(st.lists(st.integers(2, 300), min_size=1, max_size=5))
def test_all_bytes_of_packets_within_the_limit_come_through(sizes: list[int]) -> None:
    async def run() -> None:
        packets, over = reader_of(b"".join(publish(size) for size in sizes))
        for size in sizes:
            whole = publish(size)
            assert [await packets.read(1) for _ in whole] == [bytes([byte]) for byte in whole]
        with pytest.raises(asyncio.IncompleteReadError):
            await packets.read(1)
        assert over == []

    asyncio.run(run())


async def test_nobody_reads_past_the_end_of_a_packet_or_without_a_limit() -> None:
    packets, _ = reader_of(publish(3) + publish(3))
    assert await packets.read(2) == b"\x30\x03"
    for _ in range(2):
        with pytest.raises(asyncio.IncompleteReadError):
            await packets.read(4)
    for n in (-1, -2):
        packets, _ = reader_of(publish(3))
        with pytest.raises(asyncio.IncompleteReadError):
            await packets.read(n)


async def test_a_length_of_five_bytes_is_none_and_a_message_that_would_be_held_is_refused() -> None:
    """amqtt holds one of QoS 2 until its client says that it may go: 65,535 of 1 MiB are more than any machine has."""
    packets, _ = reader_of(b"\x30\xff\xff\xff\xff\x01")
    with pytest.raises(ProtocolError, match="more than 4 bytes"):
        await packets.read(1)
    packets, _ = reader_of(b"\x32\x05\x00\x01t\x00\x01" + b"\x34\x05\x00\x01t\x00\x02")
    assert await packets.read(7) == b"\x32\x05\x00\x01t\x00\x01"
    with pytest.raises(ProtocolError, match="QoS 2"):
        await packets.read(1)


def text(data: bytes) -> bytes:
    return len(data).to_bytes(2) + data


def made(said: str) -> tuple[int, bytes]:
    """The first byte and the body: bytes in hexadecimal, and texts, before which MQTT writes their length."""
    head, *parts = said.split()
    body = (text(ast.literal_eval(f"b{one}")) if one[0] == '"' else bytes.fromhex(one) for one in parts)
    return int(head, 16), b"".join(body)


def why_refused(head: int, body: bytes) -> str:
    try:
        check_head(head, first=head == 0x10)
        check_packet(head, body)
    except ProtocolError as error:
        return str(error)
    return ""


def test_a_packet_is_made_of_its_fields_and_nothing_else() -> None:
    check_answers(Path(__file__).with_name("packets.txt"), {"packets": lambda said: why_refused(*made(said)) or ()})
    assert why_refused(0x31, text(b"t") + b"\xff" * 300) == ""


def test_the_first_packet_alone_is_a_connect() -> None:
    for head, first, why in ((0x10, False, "a second CONNECT"), (0xC0, True, "its first packet is no CONNECT")):
        with pytest.raises(ProtocolError, match=why):
            check_head(head, first=first)
