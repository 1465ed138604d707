"""What anybody who can connect may cost: connections, descriptors, bytes."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hwd.bus.broker.embedded_broker import PACKET_MOST_BYTES, UNKNOWN_MOST, EmbeddedBroker
from hwd.model.limit import Limit

PATIENCE_S = 20.0
CONNECT = bytes.fromhex("101000044d5154540402003c0004") + b"fred"
CONNACK = bytes.fromhex("20020000")
FEW_DESCRIPTORS = """
import asyncio, resource
from hwd.bus.broker import EmbeddedBroker

async def main():
    broker = EmbeddedBroker(reached=lambda limit, detail: print("reached", limit, flush=True))
    print(await broker.start(), flush=True)
    await asyncio.Event().wait()

resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
asyncio.run(main())
"""


@pytest.fixture
def met() -> list[tuple[Limit, str]]:
    return []


@pytest.fixture
async def place(virtual_time: None, met: list[tuple[Limit, str]]) -> AsyncIterator[tuple[str, int]]:
    broker = EmbeddedBroker(reached=lambda limit, detail: met.append((limit, detail)), connect_within_s=0.1)
    host, _, port = (await broker.start()).removeprefix("mqtt://").rpartition(":")
    yield host, int(port)
    await broker.close()


async def is_let_in(place: tuple[str, int]) -> bool:
    reader, writer = await asyncio.open_connection(*place)
    writer.write(CONNECT)
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await reader.readexactly(4) == CONNACK
    finally:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("said", [b"", CONNECT[:1], CONNECT[:-1]])
async def test_who_does_not_say_connect_in_time_is_cut_off(
    said: bytes, place: tuple[str, int], met: list[tuple[Limit, str]]
) -> None:
    reader, writer = await asyncio.open_connection(*place)
    writer.write(said)
    async with asyncio.timeout(PATIENCE_S):
        assert await reader.read() == b""
    assert met == [(Limit.MQTT_LATE, "127.0.0.1: no CONNECT within 0.1 s")]
    writer.close()


async def test_who_said_connect_stays(place: tuple[str, int], met: list[tuple[Limit, str]]) -> None:
    reader, writer = await asyncio.open_connection(*place)
    writer.write(CONNECT)
    mute, other = await asyncio.open_connection(*place)
    async with asyncio.timeout(PATIENCE_S):
        assert await reader.readexactly(4) == CONNACK
        assert await mute.read() == b""  # its deadline is over, and so would be the other's
        writer.write(b"\xc0\x00")
        assert await reader.readexactly(2) == b"\xd0\x00"
    writer.close()
    other.close()


async def test_of_too_many_that_are_silent_the_oldest_makes_room() -> None:
    met: list[str] = []
    broker = EmbeddedBroker(reached=lambda limit, detail: met.append(f"{limit}: {detail}"), connect_within_s=3600)
    host, _, port = (await broker.start()).removeprefix("mqtt://").rpartition(":")
    place = host, int(port)
    oldest, first = await asyncio.open_connection(*place)
    others = [await asyncio.open_connection(*place) for _ in range(UNKNOWN_MOST)]
    async with asyncio.timeout(PATIENCE_S):
        assert await oldest.read() == b""
    assert met == ["mqtt-connections: 65 have not said CONNECT, at most 64"]
    assert await is_let_in(place)
    for _, writer in [(oldest, first), *others]:
        writer.close()
    await broker.close()


@pytest.mark.parametrize("size", [PACKET_MOST_BYTES - 5, PACKET_MOST_BYTES - 4, 268_435_455])
async def test_a_packet_over_the_limit_ends_its_connection_and_is_counted(
    size: int, place: tuple[str, int], met: list[tuple[Limit, str]]
) -> None:
    length = bytes((size >> 7 * place & 0x7F) | (0x80 if place < 3 else 0) for place in range(4))
    reader, writer = await asyncio.open_connection(*place)
    writer.write(CONNECT)
    async with asyncio.timeout(PATIENCE_S):
        assert await reader.readexactly(4) == CONNACK
        writer.write(b"\x30" + length)
        if size + 5 <= PACKET_MOST_BYTES:
            writer.write(b"\x00\x01t" + b"x" * (size - 3) + b"\xc0\x00")
            assert await reader.readexactly(2) == b"\xd0\x00"
            assert met == []
        else:
            assert await reader.read() == b""
            assert met == [(Limit.MQTT_PACKET, f"127.0.0.1: {size + 5} bytes")]
    writer.close()


async def test_150_connections_on_40_descriptors_cost_no_processor_and_no_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", FEW_DESCRIPTORS, stdout=asyncio.subprocess.PIPE, stderr=stderr
        )
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        host, _, port = (await process.stdout.readline()).decode().strip().removeprefix("mqtt://").rpartition(":")
        place = host, int(port)
        before_s = processor_s(process.pid)
        with ExitStack() as stack:
            for _ in range(150):
                sock = stack.enter_context(socket.socket())
                sock.setblocking(False)
                await asyncio.get_running_loop().sock_connect(sock, place)
            assert await process.stdout.readline() == b"reached descriptors\n"
        assert await is_let_in(place), "it serves again when they are gone"
    assert processor_s(process.pid) - before_s < 2.0
    process.terminate()
    await process.wait()
    assert log.stat().st_size < 10_000


def processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
