"""A host that sends without end is held up, and nothing of it is lost."""

import asyncio

import pytest

from hwd.bus.broker.packets import PacketReader
from hwd.bus.broker.send_rate import BYTES_MOST, BYTES_PER_S, PACKETS_MOST, PACKETS_PER_S, SendRate

from .conftest import Place
from .test_attacks import agent, daemon, logged_in, packet, within

FLOOD_S = 10


def over(size: int) -> None:
    raise AssertionError(size)


def reader_of(data: bytes, rate: SendRate | None) -> PacketReader:
    stream = asyncio.StreamReader()
    stream.feed_data(data)
    stream.feed_eof()
    packets = PacketReader(stream, most_bytes=1 << 21, over=over)
    packets.rate = rate
    return packets


@pytest.mark.parametrize("connections", [1, 3])
async def test_packets_of_a_user_come_as_fast_as_it_may_send_and_all_of_them_come(
    virtual_time: None, connections: int
) -> None:
    rate, each = SendRate(), (PACKETS_MOST + PACKETS_PER_S * FLOOD_S) // connections

    async def read() -> None:
        packets = reader_of(b"\xc0\x00" * each, rate)
        for _ in range(each):
            assert await packets.read(2) == b"\xc0\x00"
        with pytest.raises(asyncio.IncompleteReadError):
            await packets.read(2)

    loop = asyncio.get_running_loop()
    started_s = loop.time()
    await asyncio.gather(*(read() for _ in range(connections)))
    assert loop.time() - started_s == pytest.approx(FLOOD_S, rel=0.01)


async def test_bytes_of_a_user_come_as_fast_as_it_may_send(virtual_time: None) -> None:
    rate, size = SendRate(), 1 << 20
    loop = asyncio.get_running_loop()
    started_s = loop.time()
    for _ in range((BYTES_MOST + BYTES_PER_S * FLOOD_S) // size):
        await rate.wait(size)
    assert loop.time() - started_s == pytest.approx(FLOOD_S, rel=0.01)


async def test_small_packets_without_end_let_others_have_their_turn() -> None:
    packets = reader_of(b"\xc0\x00" * 1000, None)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(other())
    for _ in range(1000):
        await packets.read(2)
    running.cancel()
    assert turns >= 30


@pytest.mark.parametrize("place", ["embedded"], indirect=True)
async def test_a_host_that_floods_is_held_up_and_answered_at_last_and_another_is_not(place: Place) -> None:
    async with agent(place, "h1") as other, daemon(place) as hwd:
        await hwd.subscribe("hwd/1/lab/h1/event", qos=1)
        reader, writer = await logged_in(place)
        count = PACKETS_MOST + PACKETS_PER_S
        started_s = asyncio.get_running_loop().time()
        writer.write(packet(0xC0, b"") * count)
        await other.publish("hwd/1/lab/h1/event", b"said", qos=1)
        assert (await within(anext(aiter(hwd.messages)))).payload == b"said"
        assert await within(reader.readexactly(2 * count)) == b"\xd0\x00" * count
        assert asyncio.get_running_loop().time() - started_s >= 0.9
        writer.close()
