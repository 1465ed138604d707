"""A broker that accepts a client and then reads only on request."""

import asyncio
import socket
import struct
from types import TracebackType
from typing import Self

CONNACK, SUBACK = b"\x20\x02\0\0", b"\x90\x03"
PUBLISH, SUBSCRIBE, DISCONNECT, GONE = 0x30, 0x82, 0xE0, 0


class DeafBroker:
    """On a free port of loopback.

    `packets`: the first byte and the length of what was read of the last client after its subscription to one topic,
    and `GONE` at its end.

    `hears` is set as it shall read. `say` sends bytes to the client, `die` resets its connection; the next one is
    welcomed again.
    """

    def __init__(self) -> None:
        self.hears = asyncio.Event()
        self.packets: asyncio.Queue[tuple[int, int]] = asyncio.Queue()
        self._writer: asyncio.StreamWriter | None = None
        self._serving: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._server = await asyncio.start_server(self._serve, sock=listening)
        self.url = f"mqtt://127.0.0.1:{listening.getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._server.close()
        self.die()
        self.hears.set()
        await asyncio.gather(*self._serving)

    def say(self, *packets: bytes) -> None:
        assert self._writer is not None
        self._writer.writelines(packets)

    def die(self) -> None:
        assert self._writer is not None
        if not self._writer.is_closing():
            self._writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            self._writer.transport.abort()

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._serving.append(asyncio.ensure_future(self._talk(reader, writer)))

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _packet(reader)
            writer.write(CONNACK)
            kind, body = await _packet(reader)
            assert kind == SUBSCRIBE
            writer.write(SUBACK + body[:2] + b"\1")
            await self.hears.wait()
            while True:
                kind, body = await _packet(reader)
                self.packets.put_nowait((kind, len(body)))
        except (asyncio.IncompleteReadError, ConnectionError):
            self.packets.put_nowait((GONE, 0))
        finally:
            writer.close()


def publish(payload: bytes) -> bytes:
    """At QoS 0 to the topic `t`; at most 100 bytes."""
    return bytes((PUBLISH, 3 + len(payload), 0, 1)) + b"t" + payload


async def _packet(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    (kind,) = await reader.readexactly(1)
    length = shift = 0
    while True:
        (byte,) = await reader.readexactly(1)
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return kind, await reader.readexactly(length)
