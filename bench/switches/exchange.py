"""The floor of an apply: its recorded bytes, sent and answered over a plain asyncio Protocol."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from typing_extensions import override

from hwd_drivers.transports.dial import TcpDialer

LOGIN = b"ACT-USER::bench:1::bench;\n"
CHUNK_BYTES = 1 << 16


@dataclass(slots=True)
class Turn:
    """A turn of the client: what it sent before it waited, and how many bytes came back until it sent again."""

    sent: bytes
    received_bytes: int = 0


class Tap:
    """Forwards bytes between a client and the server at `address`, and records the turns of the client."""

    def __init__(self, address: str) -> None:
        self.turns: list[Turn] = []
        self._host, _, port = address.rpartition(":")
        self._port = int(port)

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, address: str) -> "AsyncIterator[tuple[Tap, str]]":
        """The tap and the address to connect to."""
        tap = cls(address)
        server = await asyncio.start_server(tap._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        try:
            yield tap, f"127.0.0.1:{port}"
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(self._host, self._port)

        async def there() -> None:
            while data := await reader.read(CHUNK_BYTES):
                if self.turns and not self.turns[-1].received_bytes:
                    self.turns[-1].sent += data
                else:
                    self.turns.append(Turn(data))
                far_writer.write(data)
            far_writer.close()

        async def back() -> None:
            while data := await far_reader.read(CHUNK_BYTES):
                self.turns[-1].received_bytes += len(data)
                writer.write(data)
            writer.close()

        await asyncio.gather(there(), back())


class BareExchange(asyncio.Protocol):
    """Sends what was recorded, and waits for as many bytes as came back then."""

    def __init__(self) -> None:
        self._missing_bytes = 0
        self._answered: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, address: str) -> "AsyncIterator[BareExchange]":
        """Connect and log in."""
        transport, bare = await TcpDialer().connect(cls, address)
        await bare.exchange([Turn(LOGIN, 1)])
        try:
            yield bare
        finally:
            transport.close()

    async def exchange(self, turns: Sequence[Turn]) -> None:
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        for turn in turns:
            self._missing_bytes = turn.received_bytes
            self._answered = loop.create_future()
            self._transport.write(turn.sent)
            await self._answered

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    @override
    def data_received(self, data: bytes) -> None:
        self._missing_bytes -= len(data)
        if self._missing_bytes <= 0 and self._answered is not None and not self._answered.done():
            self._answered.set_result(None)
