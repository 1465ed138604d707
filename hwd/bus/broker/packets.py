"""PacketReader: passes whole MQTT packets from a socket to amqtt, each checked and within a size limit.

QoS 2 is refused: amqtt would store each such message, up to 65,535 of a client, until that client releases it.
amqtt 0.12 reads as many bytes as a packet says that it has, up to 256 MB, and past its end where its fields say so.
Bytes of a packet behind its last field it reads as the next packet.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from amqtt.adapters import ReaderAdapter
from amqtt.mqtt.packet import CONNECT, DISCONNECT, PINGREQ, PUBACK, PUBLISH, SUBSCRIBE, UNSUBSCRIBE
from typing_extensions import override

from hwd.bus.broker.send_rate import SendRate
from hwd_drivers.core.errors import ProtocolError

LENGTH_BYTES_MOST: Final = 4
"""The size of the field `remaining length`, with 7 bits in each byte (MQTT 3.1.1, 2.2.3)."""

EXACTLY_ONCE: Final = 2
"""QoS 2 (MQTT 3.1.1, 3.3.1.2)."""
FLAGS: Final = {CONNECT: 0, PUBACK: 0, SUBSCRIBE: 0b0010, UNSUBSCRIBE: 0b0010, PINGREQ: 0, DISCONNECT: 0}
"""The flags in the first byte, by packet type (2.2.2), for all packets of a client without QoS 2. Those of a PUBLISH
vary."""
NAMES: Final = {
    CONNECT: "a CONNECT",
    PUBLISH: "a PUBLISH",
    PUBACK: "a PUBACK",
    SUBSCRIBE: "a SUBSCRIBE",
    UNSUBSCRIBE: "an UNSUBSCRIBE",
    PINGREQ: "a PINGREQ",
    DISCONNECT: "a DISCONNECT",
}
MQTT_5: Final = 5
"""The protocol level of MQTT 5, whose CONNECT has other fields."""
WILL, WILL_QOS, PASSWORD, USER = 0x04, 0x18, 0x40, 0x80
"""Flags of a CONNECT (3.1.2.3)."""

REST_EVERY: Final = 32
"""Packets until other tasks of the loop run: amqtt itself may read all packets that came before it processes one."""


def check_head(head: int, *, first: bool) -> None:
    """`head`: the first byte of a packet, the `first` of its connection or a later one.

    Raises ProtocolError for a packet that a client may not send at this point.
    """
    kind, flags = head >> 4, head & 0x0F
    if first != (kind == CONNECT):
        raise ProtocolError("its first packet is no CONNECT" if first else "a second CONNECT")
    if kind == PUBLISH:
        if (qos := flags >> 1 & 3) == EXACTLY_ONCE:
            raise ProtocolError("a message of QoS 2, which this broker keeps for nobody: send it with QoS 1")
        if qos > EXACTLY_ONCE:
            raise ProtocolError(f"a message of QoS {qos}, which there is not")
    elif kind not in FLAGS:
        raise ProtocolError(f"a packet of type {kind}, which no client sends to this broker")
    elif flags != FLAGS[kind]:
        raise ProtocolError(f"{NAMES[kind]} with the flags {flags:#x}, where {FLAGS[kind]:#x} is right")


def check_packet(head: int, body: bytes) -> None:
    """`head`: the first byte of the packet, checked by `check_head`.

    Raises ProtocolError where the body has other fields than its type requires (MQTT 3.1.1, 3).
    """
    kind = head >> 4
    fields = _Fields(NAMES[kind], body)
    if kind == CONNECT:
        _take_connect(fields)
    elif kind == PUBLISH:
        fields.text("topic")
        if head & 0b0110:
            fields.take(2, "packet id")
        return  # the rest is its payload
    elif kind == PUBACK:
        fields.take(2, "packet id")
    elif kind in (SUBSCRIBE, UNSUBSCRIBE):
        fields.take(2, "packet id")
        _take_filter(fields, kind)  # there is one at least
        while fields.left:
            _take_filter(fields, kind)
    if fields.left:
        raise ProtocolError(f"{NAMES[kind]} with {fields.left} bytes more than its fields take")


class PacketReader(ReaderAdapter):
    """Returns the bytes of one packet after another.

    One of more than `most_bytes`, its header included, raises ProtocolError before it is read, and `over` is called
    with its size.

    Reading past the end of a packet raises IncompleteReadError, then and in all later calls, since the start of the
    next packet is unknown.
    """

    def __init__(self, reader: asyncio.StreamReader, *, most_bytes: int, over: Callable[[int], None]) -> None:
        self._reader = reader
        self._most_bytes = most_bytes
        self._over = over
        self._packet = b""
        self._at = 0
        self._broken = False
        self._count = 0
        self.rate: SendRate | None = None
        """The rate limit of the sender; None where there is none."""
        self.why = ""
        """What was wrong with the last packet; amqtt does not report it."""

    async def first(self, *, most_bytes: int) -> bytes:
        """Read the first packet; `read` returns it again."""
        await self._fill(most_bytes, first=True)
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

    async def _fill(self, most_bytes: int, *, first: bool = False) -> None:
        self._packet, self._at = b"", 0
        try:
            head = await self._reader.readexactly(2)
            check_head(head[0], first=first)
            while head[-1] & 0x80:
                if len(head) > LENGTH_BYTES_MOST:
                    raise ProtocolError("a length of more than 4 bytes")
                head += await self._reader.readexactly(1)
            size = len(head) + sum((byte & 0x7F) << 7 * place for place, byte in enumerate(head[1:]))
            if size > most_bytes:
                self._over(size)
                raise ProtocolError(f"a packet of {size} bytes is over the limit of {most_bytes} bytes")
            await self._rest(size)
            body = await self._reader.readexactly(size - len(head))
            check_packet(head[0], body)
            self._packet = head + body
        except ProtocolError as error:
            self._broken, self.why = True, str(error)
            raise
        except BaseException:
            self._broken = True
            raise

    async def _rest(self, size: int) -> None:
        if self.rate is not None:
            await self.rate.wait(size)
        self._count += 1
        if self._count % REST_EVERY == 0:
            await asyncio.sleep(0)


class _Fields:
    """The body of a packet, field after field. ProtocolError where it ends before one does."""

    def __init__(self, name: str, body: bytes) -> None:
        self._name = name
        self._body = body
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._body) - self._at

    def take(self, size: int, what: str) -> bytes:
        if self.left < size:
            raise ProtocolError(f"{self._name} that ends within its {what}")
        self._at += size
        return self._body[self._at - size : self._at]

    def data(self, what: str) -> bytes:
        """Read bytes that their length precedes, in 2 bytes."""
        return self.take(int.from_bytes(self.take(2, what)), what)

    def text(self, what: str) -> None:
        try:
            self.data(what).decode()
        except UnicodeDecodeError:
            raise ProtocolError(f"{self._name} whose {what} is no UTF-8") from None


def _take_filter(fields: _Fields, kind: int) -> None:
    fields.text("filter")
    if kind == SUBSCRIBE and (qos := fields.take(1, "QoS")[0]) > EXACTLY_ONCE:
        raise ProtocolError(f"a SUBSCRIBE with QoS {qos}, which there is not")


def _take_connect(fields: _Fields) -> None:
    fields.text("protocol")
    level, flags, *_ = fields.take(4, "flags")  # the last two are the keep-alive
    if level == MQTT_5:
        raise ProtocolError("a CONNECT of MQTT 5: this broker speaks 3.1.1, which the client has to be told")
    if (flags & WILL_QOS) >> 3 >= EXACTLY_ONCE:
        raise ProtocolError("a CONNECT with a will of QoS 2, which this broker keeps for nobody: send it with QoS 1")
    fields.text("client id")
    if flags & WILL:
        fields.text("will topic")
        fields.data("will")
    if flags & USER:
        fields.text("user")
    if flags & PASSWORD:
        fields.data("password")
