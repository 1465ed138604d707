"""Whole packets, within a limit."""

import asyncio

import pytest
from amqtt.mqtt.publish import PublishPacket
from hypothesis import given
from hypothesis import strategies as st

from hwd.bus.broker.packets import PacketReader, PacketWriter
from hwd_drivers.kit.errors import ProtocolError


def packet(size: int) -> bytes:
    """A PUBLISH with a body of so many bytes."""
    head, left = bytearray([0x30]), size
    while True:
        left, low = divmod(left, 128)
        head.append(low | (0x80 if left else 0))
        if not left:
            return bytes(head) + b"x" * size


def reader_of(data: bytes, most_bytes: int = 1000) -> tuple[PacketReader, list[int]]:
    over: list[int] = []
    stream = asyncio.StreamReader()
    stream.feed_data(data)
    stream.feed_eof()
    return PacketReader(stream, most_bytes=most_bytes, over=over.append), over


@given(st.lists(st.integers(0, 300), min_size=1, max_size=5))
def test_all_bytes_of_packets_within_the_limit_come_through(sizes: list[int]) -> None:
    async def run() -> None:
        packets, over = reader_of(b"".join(packet(size) for size in sizes))
        for size in sizes:
            whole = packet(size)
            assert [await packets.read(1) for _ in whole] == [bytes([byte]) for byte in whole]
        with pytest.raises(asyncio.IncompleteReadError):
            await packets.read(1)
        assert over == []

    asyncio.run(run())


@pytest.mark.parametrize("size", [998, 1000, 268_435_455])
async def test_a_packet_over_the_limit_is_told_and_never_read(size: int) -> None:
    packets, over = reader_of(packet(997) + packet(size)[:6])
    await packets.read(1000)
    with pytest.raises(ProtocolError, match=r"a packet of \d+ bytes is over the limit of 1000 bytes"):
        await packets.read(1)
    assert over == [size + len(packet(size)) - size]
    with pytest.raises(asyncio.IncompleteReadError):
        await packets.read(1)


async def test_nobody_reads_past_the_end_of_a_packet() -> None:
    packets, _ = reader_of(packet(3) + packet(3))
    assert await packets.read(2) == b"\x30\x03"
    with pytest.raises(asyncio.IncompleteReadError):
        await packets.read(4)
    with pytest.raises(asyncio.IncompleteReadError):
        await packets.read(1)


@pytest.mark.parametrize("n", [-1, -2])
async def test_nobody_reads_without_a_limit(n: int) -> None:
    packets, _ = reader_of(packet(3))
    with pytest.raises(asyncio.IncompleteReadError):
        await packets.read(n)


async def test_a_length_of_five_bytes_is_none() -> None:
    packets, _ = reader_of(b"\x30\xff\xff\xff\xff\x01")
    with pytest.raises(ProtocolError, match="more than 4 bytes"):
        await packets.read(1)


async def test_a_message_that_its_client_may_not_read_is_left_out() -> None:
    class Sink(asyncio.Protocol):
        def __init__(self) -> None:
            self.got = b""

        def data_received(self, data: bytes) -> None:
            self.got += data

    sink = Sink()
    server = await asyncio.get_running_loop().create_server(lambda: sink, "127.0.0.1", 0)
    _, stream = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer = PacketWriter(stream, lambda topic: topic == "hwd/1/lab/h0/ack")
    mine = PublishPacket.build("hwd/1/lab/h0/ack", b"1" * 300, 7, False, 1, False).to_bytes()
    writer.write(b"\xd0\x00")
    writer.write(PublishPacket.build("hwd/1/lab/h1/birth", b"secret", None, False, 0, True).to_bytes())
    writer.write(mine)
    await writer.drain()
    async with asyncio.timeout(10):
        while len(sink.got) < len(mine) + 2:  # noqa: ASYNC110 - bytes of a socket set no event of ours
            await asyncio.sleep(0.001)
    assert sink.got == b"\xd0\x00" + mine
    stream.close()
    await stream.wait_closed()
    server.close()


async def test_a_message_that_would_be_held_is_refused() -> None:
    """amqtt holds one of QoS 2 until its client says that it may go: 65,535 of 1 MiB are more than any machine has."""
    packets, _ = reader_of(b"\x32\x05\x00\x01t\x00\x01" + b"\x34\x05\x00\x01t\x00\x02")
    assert await packets.read(7) == b"\x32\x05\x00\x01t\x00\x01"
    with pytest.raises(ProtocolError, match="QoS 2"):
        await packets.read(1)
