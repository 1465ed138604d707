"""SocketPump: bytes between a connection and another thread's socket, whoever is slow and whoever ends first."""

import asyncio
import socket

import pytest

from hwd_drivers.core.offload import ThreadOffload
from hwd_drivers.transports.memory import MemoryNet
from hwd_drivers.transports.ssh.pump import HELD_BYTES, SocketPump

from ...parts import Recorder

CHUNK = 50_000
MUCH = 60 * CHUNK


async def joined() -> tuple[SocketPump, Recorder]:
    net, peer, pump = MemoryNet(), Recorder(), SocketPump()
    await net.listen(lambda: peer, "mem:x")
    await net.connect(lambda: pump, "mem:x")
    await peer.until_told("made")
    return pump, peer


def read_all(theirs: socket.socket) -> bytes:
    found = bytearray()
    while data := theirs.recv(4096):
        found += data
    theirs.close()
    return bytes(found)


def write_all(theirs: socket.socket) -> None:
    theirs.sendall(b"y" * MUCH)
    theirs.close()


async def test_received_bytes_wait_for_a_slow_thread_and_none_are_lost() -> None:
    pump, peer = await joined()
    for _ in range(MUCH // CHUNK):
        peer.transport.write(b"x" * CHUNK)
    for _ in range(200):
        await asyncio.sleep(0)
    assert peer.transport.get_write_buffer_size() > MUCH // 2, "the pump must not take what nobody reads"
    assert len(pump._held) < 2 * HELD_BYTES
    offload = ThreadOffload(1)
    reading = asyncio.ensure_future(offload(read_all, pump.theirs))
    peer.transport.close()
    async with asyncio.timeout(10):
        assert await reading == b"x" * MUCH
        await pump.ended
    offload.close()


async def test_bytes_of_the_thread_arrive_and_its_end_ends_the_connection() -> None:
    pump, peer = await joined()
    offload = ThreadOffload(1)
    async with asyncio.timeout(10):
        await offload(write_all, pump.theirs)
        await peer.lost()
        await pump.ended
        await pump.gone
    assert peer.received == b"y" * MUCH
    offload.close()


async def test_written_bytes_are_sent_before_the_end_and_not_after_a_cut() -> None:
    for end, arrived in ((SocketPump.end, b"farewell"), (SocketPump.abort, b"")):
        pump, peer = await joined()
        pump.theirs.sendall(b"farewell")
        end(pump)
        await asyncio.wait_for(peer.lost(), 5)
        assert peer.received == arrived
        assert pump.theirs.recv(1) == b""
        pump.theirs.close()
        await asyncio.wait_for(pump.ended, 5)


async def test_the_end_of_the_connection_is_that_of_the_thread_and_one_never_made_leaves_no_socket() -> None:
    pump, peer = await joined()
    peer.transport.write(b"last")
    peer.transport.close()
    await asyncio.wait_for(pump.gone, 5)
    assert read_all(pump.theirs) == b"last"
    await asyncio.wait_for(pump.ended, 5)
    pump = SocketPump()
    with pytest.raises(ConnectionRefusedError):
        await MemoryNet().connect(lambda: pump, "mem:nobody")
    pump.close()
    assert pump.ended.done()
    assert pump.theirs.fileno() == -1
