"""EmbeddedBroker: an MQTT 3.1.1 broker (amqtt) in the daemon's own loop, for racks that have no other."""

import asyncio
import hmac
import ipaddress
import logging
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from amqtt.adapters import StreamReaderAdapter, StreamWriterAdapter
from amqtt.broker import Broker
from amqtt.contexts import BrokerConfig, ListenerConfig, ListenerType
from amqtt.errors import AMQTTError
from amqtt.plugins.base import BaseAuthPlugin
from amqtt.session import Session
from typing_extensions import override

from hwd_drivers.kit.errors import ConfigError

if TYPE_CHECKING:
    from _collections_abc import dict_items

log = logging.getLogger(__name__)

LISTENER = "default"
DEAD_PEER_MS = 20_000
CANCEL_AGAIN_S = 0.5
"""A client of amqtt may lose a cancellation: asyncio.wait_for of Python 3.11 does where it comes together with what is waited for."""
"""A client that took no byte for so long is gone; amqtt itself never drops a silent or a stuck client."""
PROBE_AFTER_S, PROBE_EVERY_S, PROBES = 10, 5, 2


class EmbeddedBroker:
    """Serves MQTT on `HOST:PORT` (port 0: a free one) and writes no files: what is retained ends with it.

    Without `users` (name to password) anybody may connect, so it then listens on loopback only. The sockets are ours (amqtt's external
    listener): TCP_NODELAY is set, the real port is known, dead peers are found by the kernel, and closing leaves nothing open.

    ```
    broker = EmbeddedBroker("127.0.0.1:0")
    url = await broker.start()  # mqtt://127.0.0.1:41231
    ...
    await broker.close()
    ```
    """

    def __init__(self, address: str = "127.0.0.1:0", *, users: Mapping[str, str] | None = None) -> None:
        host, _, port = address.rpartition(":")
        self._host = host.strip("[]")
        if not self._host or not port.isdigit() or int(port) > 65535:
            raise ConfigError(f"broker {address!r}: cannot listen: write HOST:PORT, such as 127.0.0.1:0")
        if not users and not _is_loopback(self._host):
            raise ConfigError(
                f"broker {address}: cannot listen where other machines can connect without a password. "
                "Give it users, or listen on 127.0.0.1."
            )
        if without := [name for name, password in (users or {}).items() if not password]:
            raise ConfigError(f"broker {address}: users without a password: {', '.join(without)}")
        self._port = int(port)
        self._users = dict(users or {})
        self._broker: Broker | None = None
        self._server: asyncio.Server | None = None
        self._clients: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def start(self) -> str:
        """Listen; return the URL without a password. Raises ConfigError where the address cannot be had."""
        plugin = f"{Door.__module__}.{Door.__qualname__}"
        config = BrokerConfig(
            listeners={LISTENER: ListenerConfig(type=ListenerType.EXTERNAL)}, plugins={plugin: {"users": self._users}}
        )
        broker = Broker(config)
        broker._subscriptions = Subscriptions()
        try:
            server = await asyncio.start_server(self._accept, self._host, self._port)
        except OSError as error:
            raise ConfigError(f"broker {self._host}:{self._port}: cannot listen: {error.strerror}") from error
        await broker.start()
        self._broker, self._server = broker, server
        host, port = server.sockets[0].getsockname()[:2]
        return f"mqtt://[{host}]:{port}" if ":" in host else f"mqtt://{host}:{port}"

    async def close(self) -> None:
        """Drop all clients (no wills: nobody is left to read them) and stop listening."""
        if self._broker is None or self._server is None:
            return
        broker, server, self._broker, self._server = self._broker, self._server, None, None
        server.close()
        for writer in self._clients.values():
            writer.transport.abort()
        await broker.shutdown()
        while self._clients:
            for client in self._clients:
                client.cancel()
            await asyncio.wait(self._clients, timeout=CANCEL_AGAIN_S)
        await server.wait_closed()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = asyncio.get_running_loop().create_task(self._serve(reader, writer), name="hwd:broker/client")
        self._clients[client] = writer
        client.add_done_callback(self._clients.pop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._broker is None:
            writer.close()
            return
        _find_dead_peers(writer.get_extra_info("socket"))
        try:
            await self._broker.external_connected(StreamReaderAdapter(reader), StreamWriterAdapter(writer), LISTENER)
        except (AMQTTError, OSError, asyncio.IncompleteReadError) as error:
            log.warning("broker: client %s: %s", writer.get_extra_info("peername"), error)
        finally:
            writer.close()


class Subscriptions(dict[str, list[tuple[Session, int]]]):
    """Sessions by topic filter. amqtt 0.12 walks over them with awaits between, while other clients come and go: it gets copies to walk over.

    Without, a client that connects while another subscribes is dropped (RuntimeError), and a broadcast skips whom it comes to next.
    """

    @override
    def __iter__(self) -> Iterator[str]:
        return iter([*super().keys()])

    @override
    def items(self) -> "dict_items[str, list[tuple[Session, int]]]":
        return {topic_filter: [*sessions] for topic_filter, sessions in super().items()}.items()


class Door(BaseAuthPlugin):
    """Lets in who names a user and the password of it; everybody where no users are set. amqtt makes it by its name."""

    @dataclass
    class Config:
        users: dict[str, str] = field(default_factory=dict)

    @override
    async def authenticate(self, *, session: Session) -> bool:
        users: dict[str, str] = self.config.users
        if not users:
            return True
        known = users.get(session.username or "", "")
        right = hmac.compare_digest(known.encode(), (session.password or "").encode())
        return right and session.username in users


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _find_dead_peers(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_AFTER_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_EVERY_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_PEER_MS)
