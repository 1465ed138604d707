"""Dialers: one way to connect and to listen, over TCP, Unix sockets and serial ports, under asyncio.Protocol."""

import asyncio
import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from hwd_drivers.transports.serial_line import SerialLine, is_serial
from hwd_drivers.transports.serial_port import open_serial
from hwd_drivers.transports.unix_listener import UnixListener

ProtoT = TypeVar("ProtoT", bound=asyncio.Protocol)

UNIX_PATH_MOST_BYTES = 107
"""Limit of Linux."""

_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252}[A-Za-z0-9_.])?")


class Listener(Protocol):
    """Accepts connections until it is closed; open connections stay."""

    @property
    def address(self) -> str:
        """Address to connect to, with the port that the system chose where port 0 was asked for."""

    async def close(self) -> None:
        """Stop accepting."""

    def cut(self) -> None:
        """Cut the connections that have no protocol yet: in a handshake, or SSH without a channel.

        Protocols cut the others themselves.
        """


class Connector(Protocol):
    """Makes connections. Failures to connect are OSErrors; a deadline is the caller's."""

    async def connect(self, factory: Callable[[], ProtoT], address: str) -> tuple[asyncio.Transport, ProtoT]:
        """Connect to `address`; `connection_made` of the protocol was called before this returns."""


class Acceptor(Protocol):
    """Accepts connections."""

    async def listen(self, factory: Callable[[], asyncio.Protocol], address: str) -> Listener:
        """Accept connections at `address`, each with its own protocol."""


class Dialer(Connector, Acceptor, Protocol):
    """Makes connections and accepts them."""


class TcpDialer:
    """Addresses `host:port`, `[v6]:port`, `unix:/path` and `serial:/dev/ttyUSB0?baud=115200`. asyncio sets TCP_NODELAY.

    A TCP serial server that passes bytes unchanged (raw, not RFC 2217) has the address `host:port`.
    """

    async def connect(self, factory: Callable[[], ProtoT], address: str) -> tuple[asyncio.Transport, ProtoT]:
        if is_serial(address):
            return await open_serial(factory, *SerialLine.parse(address))
        loop = asyncio.get_running_loop()
        if (path := _unix_path(address)) is not None:
            return await loop.create_unix_connection(factory, path)
        host, port = _host_and_port(address)
        return await loop.create_connection(factory, host, port)

    async def listen(self, factory: Callable[[], asyncio.Protocol], address: str) -> Listener:
        if is_serial(address):
            raise ValueError(f"{address!r}: a serial port cannot listen. Write host:port, [v6]:port or unix:/path")
        loop = asyncio.get_running_loop()
        if (path := _unix_path(address)) is not None:
            return await UnixListener.open(factory, Path(path))
        host, port = _host_and_port(address)
        server = await loop.create_server(factory, host, port)
        bound = server.sockets[0].getsockname()
        return _SocketListener(server, f"[{bound[0]}]:{bound[1]}" if ":" in bound[0] else f"{bound[0]}:{bound[1]}")


class _SocketListener:
    def __init__(self, server: asyncio.Server, address: str) -> None:
        self._server = server
        self._address = address

    @property
    def address(self) -> str:
        return self._address

    async def close(self) -> None:
        """Close the listening sockets. Not `wait_closed`: from Python 3.12 on it waits for the connections too."""
        self._server.close()

    def cut(self) -> None:
        """Nothing to cut: each connection has its protocol."""


def check_address(address: str) -> None:
    """Raises ValueError for an address that `connect` could never use."""
    if is_serial(address):
        SerialLine.parse(address)
        return
    if (path := _unix_path(address)) is not None:
        if not path or len(path.encode()) > UNIX_PATH_MOST_BYTES:
            raise ValueError(f"{address!r}: a Unix socket has a path of 1 to {UNIX_PATH_MOST_BYTES} bytes")
        return
    if "://" in address:
        raise ValueError(f"{address!r}: a URL is not an address. Write host:port, such as 10.0.0.5:3082")
    host, port = _host_and_port(address)
    if port == 0:
        raise ValueError(f"{address!r}: port 0 cannot be dialled. Write the port of the device")
    if ":" in host:
        ipaddress.IPv6Address(host)
    elif not _HOST.fullmatch(host) or (host.rpartition(".")[2].isdigit() and not _is_ipv4(host)):
        raise ValueError(
            f"{address!r}: {host!r} is not the name or address of a host. Write host:port, such as 10.0.0.5:3082"
        )


def _is_ipv4(host: str) -> bool:
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return True


def _unix_path(address: str) -> str | None:
    return address.removeprefix("unix:") if address.startswith("unix:") else None


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{address!r}: not an address. Write host:port, [v6]:port, unix:/path or serial:/dev/ttyUSB0")
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], int(port)
    if ":" in host:
        raise ValueError(f"{address!r}: ambiguous IPv6 address and port. Write [{host}]:{port}")
    return host, int(port)
