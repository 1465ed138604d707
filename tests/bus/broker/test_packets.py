"""Whole packets, within a limit."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd.bus.broker.packets import PacketReader, check_head, check_packet
from hwd_drivers.core.errors import ProtocolError

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


LOGIN = text(b"hwd-lab-h0") + text(b"lab.h0") + text(b"secret")
HELD = b"\x34\x07\x00\x01t\x00\x02xx"
"""A message of QoS 2, for the body of another packet."""
ID = b"\x00\x07"
WELL = [
    (0x10, text(b"MQTT") + b"\x04\xc2\x00\x3c" + LOGIN),
    (0x10, text(b"MQTT") + b"\x04\x02\x00\x3c" + text(b"")),
    (0x10, text(b"MQTT") + b"\x04\x2e\x00\x3c" + text(b"a") + text(b"t") + text(b"\xff will")),
    (0x10, text(b"MQTT") + b"\x04\x0e\x00\x3c" + text(b"a") + text(b"t") + text(b"")),
    (0x30, text(b"t")),
    (0x31, text(b"t") + b"\xff" * 300),
    (0x32, text("straße".encode()) + ID),
    (0x3B, text(b"t") + ID + b"said"),
    (0x40, ID),
    (0x82, ID + text(b"a/+") + b"\x00"),
    (0x82, ID + text(b"a/+") + b"\x01" + text("ä".encode()) + b"\x02"),
    (0xA2, ID + text(b"a/+")),
    (0xA2, ID + text(b"a/+") + text(b"b")),
    (0xC0, b""),
    (0xE0, b""),
]
WRONG = [
    (0x10, text(b"MQTT") + b"\x04\xc2\x00\x3c" + LOGIN + HELD, "a CONNECT with 9 bytes more than its fields take"),
    (0x10, text(b"MQTT") + b"\x04\xc2\x00\x3c" + LOGIN[:-1], "a CONNECT that ends within its password"),
    (0x10, text(b"MQTT") + b"\x04\xc2\x00", "a CONNECT that ends within its flags"),
    (0x10, text(b"MQTT") + b"\x04\x02\x00\x3c" + text(b"\xff"), "a CONNECT whose client id is no UTF-8"),
    (0x10, text(b"MQTT") + b"\x04\x16\x00\x3c" + text(b"a") + text(b"t") + text(b""), "a CONNECT with a will of QoS 2"),
    (0x10, text(b"MQTT") + b"\x05\x02\x00\x3c" + b"\x00" + text(b"a"), "a CONNECT of MQTT 5: this broker speaks 3.1.1"),
    (0x30, b"", "a PUBLISH that ends within its topic"),
    (0x30, b"\x00\x02t", "a PUBLISH that ends within its topic"),
    (0x30, text(b"\xc3"), "a PUBLISH whose topic is no UTF-8"),
    (0x32, text(b"t") + b"\x00", "a PUBLISH that ends within its packet id"),
    (0x34, text(b"t") + ID, "a message of QoS 2"),
    (0x36, text(b"t") + ID, "a message of QoS 3"),
    (0x40, b"\x00", "a PUBACK that ends within its packet id"),
    (0x40, ID + HELD, "a PUBACK with 9 bytes more than its fields take"),
    (0x42, ID, "a PUBACK with the flags 0x2, where 0x0 is right"),
    (0x80, ID + text(b"a") + b"\x00", "a SUBSCRIBE with the flags 0x0, where 0x2 is right"),
    (0x82, ID, "a SUBSCRIBE that ends within its filter"),
    (0x82, ID + text(b"a"), "a SUBSCRIBE that ends within its QoS"),
    (0x82, ID + text(b"a") + b"\x03", "a SUBSCRIBE with QoS 3"),
    (0x82, ID + text(b"a") + b"\x00" + HELD, "a SUBSCRIBE that ends within its filter"),
    (0x82, ID + text(b"\xff") + b"\x00", "a SUBSCRIBE whose filter is no UTF-8"),
    (0xA2, ID, "an UNSUBSCRIBE that ends within its filter"),
    (0xA2, ID + text(b"a") + b"\x00", "an UNSUBSCRIBE that ends within its filter"),
    (0xC0, HELD, "a PINGREQ with 9 bytes more than its fields take"),
    (0xE0, HELD, "a DISCONNECT with 9 bytes more than its fields take"),
    *((kind << 4, ID, f"a packet of type {kind}, which no client sends") for kind in (0, 2, 5, 6, 7, 9, 11, 13, 15)),
]


def why_refused(head: int, body: bytes) -> str:
    try:
        check_head(head, first=head == 0x10)
        check_packet(head, body)
    except ProtocolError as error:
        return str(error)
    return ""


def test_a_packet_is_made_of_its_fields_and_nothing_else() -> None:
    assert [one for one in WELL if why_refused(*one)] == []
    said = [(head, body, why, why_refused(head, body)) for head, body, why in WRONG]
    assert [one for one in said if not one[3].startswith(one[2])] == []


@pytest.mark.parametrize(
    ("head", "first", "why"), [(0x10, False, "a second CONNECT"), (0xC0, True, "its first packet is no CONNECT")]
)
def test_the_first_packet_alone_is_a_connect(head: int, first: bool, why: str) -> None:
    with pytest.raises(ProtocolError, match=why):
        check_head(head, first=first)
