"""EmbeddedBroker: an MQTT 3.1.1 broker (amqtt) in the daemon's own loop, for racks without another broker."""

import asyncio
import logging
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from amqtt.adapters import StreamWriterAdapter
from amqtt.contexts import BrokerConfig, ListenerConfig, ListenerType
from amqtt.errors import AMQTTError
from amqtt.mqtt.connack import SERVER_UNAVAILABLE, ConnackPacket

from hwd.bus.broker.admission import Admission, AdmissionAuth, AdmissionTopics, Refusal, read_connect
from hwd.bus.broker.packets import PacketReader
from hwd.bus.broker.rack_broker import RackBroker
from hwd.bus.broker.refusals import Refusals
from hwd.bus.broker.send_rate import SendRate
from hwd.bus.broker.user_rights import UserRights
from hwd.model.limit import Limit, Reached
from hwd.model.plural import plural
from hwd_drivers.core.errors import ConfigError, ProtocolError
from hwd_drivers.core.ip_address import is_loopback
from hwd_drivers.core.reason import reason_of
from hwd_drivers.transports.accept_loop import AcceptLoop

log = logging.getLogger(__name__)

LISTENER: Final = "default"
UNACKNOWLEDGED_MOST_MS: Final = 20_000
"""The kernel closes a connection whose client acknowledges no byte for this long. amqtt itself never drops a silent
client."""
CANCEL_AGAIN_S: Final = 0.5
"""A client of amqtt may lose a cancellation: asyncio.wait_for of Python 3.11 does where it comes together with the
result."""
PROBE_AFTER_S, PROBE_EVERY_S, PROBES = 10, 5, 2
BACKLOG: Final = 128
PACKET_MOST_BYTES: Final = (1 << 20) + 1024
"""The largest payload that the daemon accepts, 1 MiB, and its topic."""
CONNECT_MOST_BYTES: Final = 16 * 1024
CONNECT_WITHIN_S: Final = 5.0
"""Clients send CONNECT right after they connect."""
IDLE_GRACE_S: Final = 5
"""After the keep-alive of a client, before it is taken for lost. It sends PINGREQ when the keep-alive is over, and not
before: without this time amqtt ends each idle connection (MQTT 3.1.1, 3.1.2.10, has half as much).
"""
UNKNOWN_MOST: Final = 64
"""Connections that have not sent CONNECT: with one more, the oldest is closed."""
USER_MOST: Final = 32
"""Connections of one user. `hwd agent` and other clients use the daemon's user, too."""
END_WITHIN_S: Final = 2.0
"""The time limit to disconnect a client whose id another one uses, its will included."""


@dataclass(slots=True, eq=False)
class _Client:
    """A connection. `id` and `user` are empty until it is admitted."""

    connection: socket.socket
    task: asyncio.Task[None] | None = None
    writer: asyncio.StreamWriter | None = None
    id: str = ""
    user: str = ""

    def close(self) -> None:
        if self.writer is not None:
            self.writer.transport.abort()
        elif self.task is not None:
            self.task.cancel()


class EmbeddedBroker:
    """Serves MQTT on `HOST:PORT` (port 0: a free one) without files: retained messages are lost when it is closed.

    Without `users` (name to password) anybody may connect, so it then listens on loopback only; `hwd serve` always
    passes users. `rights`: what they may do; None: everything. The sockets are ours (amqtt's external listener):
    TCP_NODELAY is set, the real port is known, the kernel finds lost peers, packets and connections have limits,
    and closing leaves nothing open.

    ```
    broker = EmbeddedBroker("127.0.0.1:0")
    url = await broker.start()  # mqtt://127.0.0.1:41231
    ...
    await broker.close()
    ```
    """

    def __init__(
        self,
        address: str = "127.0.0.1:0",
        *,
        users: Mapping[str, str] | None = None,
        rights: UserRights | None = None,
        reached: Reached = lambda limit, detail: None,
        connect_within_s: float = CONNECT_WITHIN_S,
    ) -> None:
        host, _, port = address.rpartition(":")
        self._host = host.strip("[]")
        if not self._host or not port.isdigit() or int(port) > 65535:
            raise ConfigError(f"broker {address!r}: cannot listen: write HOST:PORT, such as 127.0.0.1:0")
        if not users and not is_loopback(self._host):
            raise ConfigError(
                f"broker {address}: cannot listen where other machines can connect without a password. "
                "Give it users, or listen on 127.0.0.1."
            )
        if without := [name for name, password in (users or {}).items() if not password]:
            raise ConfigError(f"broker {address}: users without a password: {', '.join(without)}")
        self._port = int(port)
        self._admission = Admission(users=dict(users or {}), rights=rights)
        self._reached = reached
        self._connect_within_s = connect_within_s
        self.refusals = Refusals()
        self._broker: RackBroker | None = None
        self._sock: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._clients: dict[asyncio.Task[None], _Client] = {}
        self._unknown: dict[_Client, None] = {}
        self._by_id: dict[str, _Client] = {}
        self._send_rates = {rights.user(host): SendRate() for host in rights.hosts} if rights is not None else {}

    async def start(self) -> str:
        """Listen; return the URL without a user. Raises ConfigError where it cannot listen on the address."""
        asked = (AdmissionAuth,) if self._admission.rights is None else (AdmissionAuth, AdmissionTopics)
        config = BrokerConfig(
            listeners={LISTENER: ListenerConfig(type=ListenerType.EXTERNAL)},
            timeout_disconnect_delay=IDLE_GRACE_S,
            plugins={f"{one.__module__}.{one.__qualname__}": {"admission": self._admission} for one in asked},
        )
        broker = RackBroker(config)
        sock = _listen(self._host, self._port)
        await broker.start()
        self._broker, self._sock = broker, sock
        loop = AcceptLoop(sock, take=self._accept, starved=self._starved)
        self._accepting = asyncio.get_running_loop().create_task(loop.run(), name="hwd:broker/accept")
        host, port = sock.getsockname()[:2]
        return f"mqtt://[{host}]:{port}" if ":" in host else f"mqtt://{host}:{port}"

    async def close(self) -> None:
        """Disconnect all clients, without publishing their wills, and stop listening."""
        if self._broker is None or self._sock is None or self._accepting is None:
            return
        broker, sock, accepting, self._broker, self._sock = self._broker, self._sock, self._accepting, None, None
        accepting.cancel()
        await asyncio.wait([accepting])
        sock.close()
        for client in self._clients.values():
            client.close()
        await broker.shutdown()
        while self._clients:
            for task in self._clients:
                task.cancel()
            await asyncio.wait(self._clients, timeout=CANCEL_AGAIN_S)

    # --- connections

    def _accept(self, connection: socket.socket) -> None:
        if len(self._unknown) >= UNKNOWN_MOST:
            self._reached(
                Limit.MQTT_CONNECTIONS, f"{len(self._unknown) + 1} have not said CONNECT, at most {UNKNOWN_MOST}"
            )
            self._close_oldest()
        client = _Client(connection)
        self._unknown[client] = None
        client.task = asyncio.get_running_loop().create_task(self._serve(client), name="hwd:broker/client")
        self._clients[client.task] = client
        client.task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        client = self._clients.pop(task)
        self._unknown.pop(client, None)
        if self._by_id.get(client.id) is client:
            del self._by_id[client.id]
        if client.writer is None:  # it was closed before it was served
            client.connection.close()

    def _starved(self, error: OSError) -> None:
        self._reached(Limit.DESCRIPTORS, f"MQTT: {error.strerror}")
        self.refusals.note("", "", f"no connection can be taken: {error.strerror}")
        self._close_oldest()

    def _close_oldest(self) -> None:
        """Close the oldest connection that has not sent CONNECT."""
        if (oldest := next(iter(self._unknown), None)) is not None:
            del self._unknown[oldest]
            oldest.close()

    async def _serve(self, client: _Client) -> None:
        try:
            _set_keepalive(client.connection)
            reader, writer = await _streams(client.connection)
        except OSError as error:  # it is closed already
            log.debug("broker: a connection that nobody holds any more: %s", reason_of(error))
            return
        client.writer = writer

        def over(size: int) -> None:
            self._reached(Limit.MQTT_PACKET, f"{_peer(writer)}: {size} bytes")

        packets = PacketReader(reader, most_bytes=PACKET_MOST_BYTES, over=over)
        try:
            if await self._admit(packets, client, writer) and self._broker is not None:
                await self._broker.external_connected(packets, StreamWriterAdapter(writer), LISTENER)
                if packets.why:
                    self.refusals.note("", _peer(writer), f"{client.id} was cut off: {packets.why}")
        except (AMQTTError, ProtocolError, OSError, asyncio.IncompleteReadError) as error:
            self.refusals.note(client.id, _peer(writer), reason_of(error))
        finally:
            writer.close()

    async def _admit(self, packets: PacketReader, client: _Client, writer: asyncio.StreamWriter) -> bool:
        """Read the CONNECT and check it; another client with the same id is disconnected first."""
        try:
            async with asyncio.timeout(self._connect_within_s):
                connect = await read_connect(await packets.first(most_bytes=CONNECT_MOST_BYTES))
        except TimeoutError:
            self._reached(Limit.MQTT_LATE, f"{_peer(writer)}: no CONNECT within {self._connect_within_s} s")
            return False
        except asyncio.IncompleteReadError:  # it only checked whether the port is open
            return False
        self._unknown.pop(client, None)
        user, id = connect.username or "", connect.client_id or ""
        refusal = self._admission.refusal(connect) or self._refuse_crowd(user)
        if refusal is not None:
            self.refusals.note(id, _peer(writer), refusal.why)
            await ConnackPacket.build(0, refusal.code).to_stream(StreamWriterAdapter(writer))
            return False
        client.user, client.id = user, id
        packets.rate = self._send_rates.get(user)
        await self._replace_same_id(client)
        return True

    def _refuse_crowd(self, user: str) -> Refusal | None:
        there = sum(client.user == user for client in self._clients.values())
        if self._admission.rights is None or there < USER_MOST:
            return None
        self._reached(Limit.MQTT_CONNECTIONS, f"{there + 1} of user {user}, at most {USER_MOST}")
        return Refusal(
            code=SERVER_UNAVAILABLE, why=f"user {user} has {plural(there, 'connection')}, and {USER_MOST} are allowed"
        )

    async def _replace_same_id(self, client: _Client) -> None:
        """Disconnect another client of its id (MQTT 3.1.1, 3.1.4-2); the will of that one is published first."""
        before, self._by_id[client.id] = self._by_id.get(client.id), client
        if before is not None and before.task is not None:
            before.close()
            _, running = await asyncio.wait([before.task], timeout=END_WITHIN_S)
            for task in running:
                task.cancel()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise ConfigError(f"broker {host}:{port}: cannot listen: {error.strerror}") from error


async def _streams(connection: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def _peer(writer: asyncio.StreamWriter) -> str:
    return str(writer.get_extra_info("peername", ("",))[0])


def _set_keepalive(sock: socket.socket) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_AFTER_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_EVERY_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNACKNOWLEDGED_MOST_MS)
