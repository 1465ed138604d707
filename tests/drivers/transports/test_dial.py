"""One contract for transports, held by TCP, Unix sockets and memory alike, in real and in virtual time."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from hwd_drivers.transports.dial import Dialer, Listener, TcpDialer
from hwd_drivers.transports.memory import MemoryDialer, MemoryNet

from ..parts import Recorder

WAYS = ["tcp", "unix", "memory", "memory-bytewise", "memory-late"]


class Pair:
    """Two ends of one connection, with a recorder each."""

    def __init__(self, near: Recorder, far: Recorder, listener: Listener) -> None:
        self.near = near
        self.far = far
        self.listener = listener

    async def until_lost(self) -> None:
        await self.near.until_told("lost")
        await self.far.until_told("lost")


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, tmp_path: Path, both_times: None) -> tuple[Dialer, str]:
    """A dialer and an address to listen at."""
    match request.param:
        case "tcp":
            return TcpDialer(), "127.0.0.1:0"
        case "unix":
            return TcpDialer(), f"unix:{tmp_path}/socket"
        case "memory":
            return MemoryDialer(MemoryNet()), "mem:"
        case "memory-bytewise":
            return MemoryDialer(MemoryNet(chunk_bytes=1)), "mem:"
        case _:
            return MemoryDialer(MemoryNet(latency_s=0.001)), "mem:"


@pytest.fixture
def much(request: pytest.FixtureRequest) -> int:
    """So many bytes that they do not go at once; fewer where each is a call of its own."""
    return 6_000 if request.node.callspec.params["way"] == "memory-bytewise" else 200_000


@asynccontextmanager
async def pair(way: tuple[Dialer, str], *, far_half_open: bool = False) -> AsyncIterator[Pair]:
    """Connect, and close all at the end."""
    dialer, address = way
    accepted: asyncio.Queue[Recorder] = asyncio.Queue()

    def accept() -> Recorder:
        recorder = Recorder(keep_half_open=far_half_open)
        accepted.put_nowait(recorder)
        return recorder

    listener = await dialer.listen(accept, address)
    _, near = await dialer.connect(Recorder, listener.address)
    far = await accepted.get()
    await far.until_told("made")
    ends = Pair(near, far, listener)
    yield ends
    near.transport.close()
    far.transport.close()
    await ends.until_lost()
    await listener.close()


@pytest.fixture
async def ends(way: tuple[Dialer, str]) -> AsyncIterator[Pair]:
    async with pair(way) as ends:
        yield ends


async def test_connection_is_made_before_connect_returns_and_bytes_arrive_both_ways_in_order(ends: Pair) -> None:
    assert ends.near.told == ["made"]
    assert ends.near.transport.get_protocol() is ends.near
    assert not ends.near.transport.is_closing()
    assert ends.near.transport.is_reading()
    with pytest.raises(TypeError):
        ends.near.transport.write("text")  # type: ignore[arg-type]
    ends.near.transport.write(b"RTRV-")
    ends.near.transport.writelines([b"PATCH", bytearray(b":::1"), memoryview(b":;")])
    ends.near.transport.write(b"")
    await ends.far.until_received(16)
    ends.far.transport.write(b"M 1 COMPLD;")
    await ends.near.until_received(11)
    assert ends.far.received == b"RTRV-PATCH:::1:;"
    assert ends.near.received == b"M 1 COMPLD;"
    buffer = bytearray(b"first")
    ends.near.transport.write(buffer)
    buffer[:] = b"other"
    await ends.far.until_received(21)
    assert ends.far.received[16:] == b"first", "a buffer can be used again at once"


async def test_close_flushes_then_ends_both_sides_once(ends: Pair, much: int) -> None:
    ends.near.transport.write(b"x" * much)
    ends.near.transport.close()
    ends.near.transport.close()
    assert ends.near.transport.is_closing()
    assert ends.near.told[-1] != "lost"
    await ends.until_lost()
    assert len(ends.far.received) == much
    assert [each for each in ends.far.told if each in ("eof", "lost")] == ["eof", "lost"]
    assert ends.near.lost_with == ends.far.lost_with == [None]


async def test_nothing_is_received_after_close_and_a_write_goes_nowhere(ends: Pair) -> None:
    ends.far.transport.write(b"data")
    ends.near.transport.close()
    ends.near.transport.write(b"late")
    await ends.until_lost()
    ends.near.transport.write(b"later")
    assert ends.far.received == ends.near.received == b""
    assert (ends.near.told, ends.near.lost_with) == (["made", "lost"], [None])


async def test_write_eof_leaves_the_other_way_open(way: tuple[Dialer, str]) -> None:
    async with pair(way, far_half_open=True) as ends:
        assert ends.near.transport.can_write_eof()
        ends.near.transport.write(b"question")
        ends.near.transport.write_eof()
        ends.near.transport.write_eof()
        await ends.far.until_told("eof")
        assert ends.far.received == b"question"
        with pytest.raises(RuntimeError, match=r"Cannot call write\(\) after write_eof\(\)"):
            ends.near.transport.write(b"more")
        ends.far.transport.write(b"answer")
        ends.far.transport.close()
        await ends.until_lost()
        assert ends.near.received == b"answer"
        assert ends.far.told.count("eof") == ends.near.told.count("eof") == 1


async def test_abort_ends_both_sides_without_an_error_here(ends: Pair) -> None:
    ends.near.transport.abort()
    ends.near.transport.abort()
    assert ends.near.transport.is_closing()
    await ends.until_lost()
    assert ends.near.lost_with == [None]


async def test_slow_reader_gets_nothing_while_paused_pauses_the_writer_and_loses_nothing(ends: Pair, much: int) -> None:
    ends.far.transport.pause_reading()
    assert not ends.far.transport.is_reading()
    ends.near.transport.write(b"data")
    await asyncio.sleep(0.01)
    assert ends.far.received == b""
    ends.far.transport.resume_reading()
    await ends.far.until_received(4)
    ends.far.transport.pause_reading()
    ends.near.transport.set_write_buffer_limits(high=2_000)
    sent = 4
    while "pause" not in ends.near.told:
        ends.near.transport.write(b"x" * much)
        sent += much
        assert sent < 1 << 28
    low, high = ends.near.transport.get_write_buffer_limits()
    assert ends.near.transport.get_write_buffer_size() > high > low
    ends.far.transport.resume_reading()
    await ends.near.until_told("resume")
    await ends.far.until_received(sent)
    assert len(ends.far.received) == sent
    assert ends.near.told.count("pause") == ends.near.told.count("resume") == 1


async def test_writing_to_an_end_that_is_gone_breaks_the_connection(way: tuple[Dialer, str]) -> None:
    async with pair(way, far_half_open=True) as ends:
        ends.near.transport.abort()
        await ends.far.until_told("eof")
        while "lost" not in ends.far.told:
            ends.far.transport.write(b"anybody there?")
            await asyncio.sleep(0.001)
        assert isinstance(ends.far.lost_with[0], ConnectionError)


async def test_protocol_that_fails_ends_its_connection_with_the_error(ends: Pair) -> None:
    class Failing(Recorder):
        @override
        def data_received(self, data: bytes) -> None:
            raise ZeroDivisionError

    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    failing = Failing()
    failing.connection_made(ends.far.transport)
    ends.far.transport.set_protocol(failing)
    ends.near.transport.write(b"data")
    await ends.near.until_told("lost")
    await failing.until_told("lost")
    assert [type(error) for error in failing.lost_with] == [ZeroDivisionError]
    assert isinstance(told[0]["exception"], ZeroDivisionError)
    ends.far.tell("lost")


async def test_streams_run_on_it_and_a_closed_listener_leaves_its_connections(
    ends: Pair, way: tuple[Dialer, str]
) -> None:
    reader = asyncio.StreamReader()
    stream, _ = await way[0].connect(lambda: asyncio.StreamReaderProtocol(reader), ends.listener.address)
    stream.write(b"x")
    stream.write_eof()
    assert await reader.read() == b""
    stream.close()
    await asyncio.sleep(0.01)
    await ends.listener.close()
    with pytest.raises((ConnectionRefusedError, FileNotFoundError)):
        await way[0].connect(Recorder, ends.listener.address)
    ends.near.transport.write(b"still here")
    await ends.far.until_received(10)


async def test_ends_know_their_names_and_their_write_buffer_limits_can_be_set(ends: Pair) -> None:
    near, far = ends.near.transport, ends.far.transport
    assert near.get_extra_info("peername") == far.get_extra_info("sockname")
    assert far.get_extra_info("peername") == near.get_extra_info("sockname")
    assert near.get_extra_info("nothing of the kind", 7) == 7
    ends.near.transport.set_write_buffer_limits(high=1000, low=10)
    assert ends.near.transport.get_write_buffer_limits() == (10, 1000)
    with pytest.raises(ValueError, match="must be >="):
        ends.near.transport.set_write_buffer_limits(high=1, low=10)


async def test_tcp_has_no_delay_and_ipv6_addresses_are_written_in_brackets() -> None:
    for host in ("127.0.0.1", "[::1]"):
        async with pair((TcpDialer(), f"{host}:0")) as ends:
            for transport in (ends.near.transport, ends.far.transport):
                raw = transport.get_extra_info("socket")
                assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
            assert ends.listener.address.startswith(f"{host}:")


@pytest.mark.parametrize("address", ["", "host", ":3082", "host:", "host:x", "host:65536", "::1:22", "host:²"])
async def test_an_invalid_address_is_refused_with_the_remedy(address: str) -> None:
    with pytest.raises(ValueError, match="Write "):
        await TcpDialer().connect(Recorder, address)


async def test_memory_net_takes_addresses_of_its_own_kind_only() -> None:
    with pytest.raises(ValueError, match="'ocs1:3082': not an address of a memory net"):
        await MemoryDialer(MemoryNet()).connect(Recorder, "ocs1:3082")
