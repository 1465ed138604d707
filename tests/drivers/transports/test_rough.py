"""Rough dialers: bytewise and slow lose nothing and keep the order; lossy and dying spare a connection's beginning."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest
from typing_extensions import override

from hwd_drivers.core.ids import Draws
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet
from hwd_drivers.transports.rough import SLOW_S, SPARED, RoughDialer, Way
from hwd_drivers.twins.virtual_time import run_virtual

from ..parts import Connected

CHUNKS = [f"chunk {number};".encode() for number in range(200)]


class Heard(Connected):
    """Records received bytes with their times; closes by itself if the test wants it."""

    def __init__(self, *, hang_up_at: bytes = b"never") -> None:
        self.chunks: list[tuple[float, bytes]] = []
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._hang_up_at = hang_up_at

    @property
    def data(self) -> bytes:
        return b"".join(chunk for _, chunk in self.chunks)

    @override
    def data_received(self, data: bytes) -> None:
        assert not self.ended.done(), "bytes after the end"
        self.chunks.append((asyncio.get_running_loop().time(), data))
        if self.data.endswith(self._hang_up_at):
            self.transport.abort()

    @override
    def eof_received(self) -> None:
        self.chunks.append((asyncio.get_running_loop().time(), b""))

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result("" if exc is None else type(exc).__name__)


class Speaker(asyncio.Protocol):
    """Says all chunks at once and ends."""

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        for chunk in CHUNKS:
            transport.write(chunk)
        transport.close()


async def hear(way: Way, make: Callable[[], Heard] = Heard, *, seed: int = 1) -> Heard:
    net = MemoryNet()
    listener = await MemoryDialer(net).listen(Speaker, "mem:speaker")
    _, heard = await RoughDialer(MemoryDialer(net), way, draws=Draws(seed)).connect(make, listener.address)
    await heard.ended
    await listener.close()
    return heard


def run(main: Coroutine[object, object, Heard]) -> Heard:
    return run_virtual(main)


@pytest.mark.parametrize("way", [Way.WHOLE, Way.BYTEWISE, Way.SLOW])
def test_nothing_is_lost_on_connections_without_loss(way: Way) -> None:
    assert run(hear(way)).data == b"".join(CHUNKS)


def test_a_slow_way_is_late_in_order_and_a_bytewise_one_brings_one_byte_at_a_time_and_none_after_hanging_up() -> None:
    heard = run(hear(Way.SLOW))
    assert [chunk for _, chunk in heard.chunks] == [*CHUNKS, b""]
    assert {at_s for at_s, _ in heard.chunks} == {SLOW_S}
    heard = run(hear(Way.BYTEWISE, lambda: Heard(hang_up_at=b"chunk 1;")))
    assert all(len(chunk) == 1 for _, chunk in heard.chunks)
    assert heard.data == b"chunk 0;chunk 1;"


def test_a_dying_way_ends_each_connection_after_some_chunks() -> None:
    lives = [len(run(hear(Way.DYING, seed=seed)).chunks) for seed in range(40)]
    assert 1 <= min(lives) <= 3
    assert 12 < max(lives) <= max(SPARED)
    assert {life % 3 for life in lives} == {0, 1, 2}


def test_a_lossy_way_loses_and_cuts_chunks_after_a_whole_beginning() -> None:
    heard = [chunk for _, chunk in run(hear(Way.LOSSY)).chunks if chunk]
    assert heard[0] == CHUNKS[0]
    assert len(heard) < len(CHUNKS)
    assert any(chunk not in CHUNKS for chunk in heard)
    assert all(any(whole.startswith(chunk) for whole in CHUNKS) for chunk in heard)
