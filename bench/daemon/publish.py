"""A bare MQTT 3.1.1 publisher: packets made in advance, over an asyncio stream. It is faster than any subscriber."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

CONNECT, CONNACK, PUBLISH_QOS_1, PUBACK_BYTES = 0x10, b"\x20\x02\x00\x00", 0x32, 4
KEEPALIVE_S = 600
CHUNK_BYTES = 1 << 16


class BarePublisher:
    """One connection to a broker on loopback."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, port: int, client_id: str) -> "AsyncIterator[BarePublisher]":
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = _text("MQTT") + b"\x04\x02" + KEEPALIVE_S.to_bytes(2, "big") + _text(client_id)
        writer.write(bytes([CONNECT]) + _length(len(body)) + body)
        if (answer := await reader.readexactly(len(CONNACK))) != CONNACK:
            raise ConnectionError(f"the broker answers {answer.hex()} to CONNECT")
        try:
            yield cls(reader, writer)
        finally:
            writer.close()

    async def send(self, packets: Sequence[bytes]) -> None:
        """Send all packets; returns when the broker has acknowledged them."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reader.readexactly(PUBACK_BYTES * len(packets)))
            for packet in packets:
                self._writer.write(packet)
                if self._writer.transport.get_write_buffer_size() > CHUNK_BYTES:
                    await self._writer.drain()


def publish_packet(topic: str, payload: bytes, packet_id: int) -> bytes:
    """PUBLISH at QoS 1 (MQTT 3.1.1, 3.3)."""
    body = _text(topic) + packet_id.to_bytes(2, "big") + payload
    return bytes([PUBLISH_QOS_1]) + _length(len(body)) + body


def _text(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


def _length(number: int) -> bytes:
    """Remaining length: seven bits a byte, the lowest first (2.2.3)."""
    data = bytearray()
    while True:
        number, low = divmod(number, 128)
        data.append(low | (0x80 if number else 0))
        if not number:
            return bytes(data)
