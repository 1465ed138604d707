"""Whole MQTT packets between a socket and amqtt: each within a limit, and none to a client that may not read it.

QoS 2 is not taken: amqtt would hold each such message, up to 65,535 of a client, until that one says that it may go.
amqtt 0.12 reads as many bytes as a packet says that it has, up to 256 MB, and past its end where its fields say so. It sends retained messages of other clients'
subscriptions to whoever connects, without asking its plugins.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from amqtt.adapters import ReaderAdapter, StreamWriterAdapter
from amqtt.mqtt.packet import PUBLISH
from typing_extensions import override

from hwd_drivers.kit.errors import ProtocolError

LENGTH_BYTES_MOST: Final = 4
"""Of the remaining length, 7 bits each (MQTT 3.1.1, 2.2.3)."""

QOS_BITS: Final = 0b0110
EXACTLY_ONCE: Final = 0b0100
"""QoS 2 (MQTT 3.1.1, 3.3.1.2)."""


class PacketReader(ReaderAdapter):
    """Gives out the bytes of one packet after another. One of more than `most_bytes`, its header included, raises ProtocolError before it is read, and `over` is called with its size.

    Whoever reads past the end of a packet gets IncompleteReadError, then and ever after: where the next packet begins nobody could say.
    """

    def __init__(self, reader: asyncio.StreamReader, *, most_bytes: int, over: Callable[[int], None]) -> None:
        self._reader = reader
        self._most_bytes = most_bytes
        self._over = over
        self._packet = b""
        self._at = 0
        self._broken = False
        self.why = ""
        """What was wrong with the last packet; amqtt does not say it."""

    async def first(self, *, most_bytes: int) -> bytes:
        """The first packet, which `read` gives out again."""
        await self._fill(most_bytes)
        return self._packet

    @override
    async def read(self, n: int = -1) -> bytes:
        if n == 0:
            return b""
        if self._at == len(self._packet) and not self._broken:
            await self._fill(self._most_bytes)
        part = self._packet[self._at : self._at + n] if n > 0 and not self._broken else b""
        if len(part) != n:
            self._broken = True
            raise asyncio.IncompleteReadError(part, n)
        self._at += n
        return part

    @override
    def feed_eof(self) -> None:
        self._reader.feed_eof()

    async def _fill(self, most_bytes: int) -> None:
        self._packet, self._at = b"", 0
        try:
            head = await self._reader.readexactly(2)
            if head[0] & (0xF0 | QOS_BITS) == PUBLISH << 4 | EXACTLY_ONCE:
                raise ProtocolError("a message of QoS 2, which this broker keeps for nobody: send it with QoS 1")
            while head[-1] & 0x80:
                if len(head) > LENGTH_BYTES_MOST:
                    raise ProtocolError("a length of more than 4 bytes")
                head += await self._reader.readexactly(1)
            size = len(head) + sum((byte & 0x7F) << 7 * place for place, byte in enumerate(head[1:]))
            if size > most_bytes:
                self._over(size)
                raise ProtocolError(f"a packet of {size} bytes is over the limit of {most_bytes} bytes")
            self._packet = head + await self._reader.readexactly(size - len(head))
        except ProtocolError as error:
            self._broken, self.why = True, str(error)
            raise
        except BaseException:
            self._broken = True
            raise


class PacketWriter(StreamWriterAdapter):
    """Leaves out each message on a topic that `may_read` refuses."""

    def __init__(self, writer: asyncio.StreamWriter, may_read: Callable[[str], bool]) -> None:
        super().__init__(writer)
        self._may_read = may_read

    @override
    def write(self, data: bytes) -> None:
        """`data`: one whole packet."""
        if data[0] >> 4 != PUBLISH or self._may_read(_topic(data)):
            super().write(data)


def _topic(packet: bytes) -> str:
    at = next(place for place in range(1, len(packet)) if not packet[place] & 0x80) + 1
    size = int.from_bytes(packet[at : at + 2])
    return packet[at + 2 : at + 2 + size].decode()
