"""Pump: moves bytes between paho and its socket, as much as there is at once.

aiomqtt reads one message and writes its acknowledgement in two turns of the loop each. Under load, the turns take longer than the messages: here all
messages that have come are read in one, and what they are answered with goes out in one piece.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any

import aiomqtt
from paho.mqtt.client import MQTTMessage

TURN_S = 0.002
"""Of reading; then others of the loop have their turn."""


class Pump:
    """Takes over a client of aiomqtt: its messages at once, its socket from `start` on, when it is connected.

    Each message goes to `take`, inside paho's read callback: the earliest place for a stamp.
    """

    def __init__(self, client: aiomqtt.Client, take: Callable[[MQTTMessage], None]) -> None:
        self._client = client
        self._paho = client._client
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._reading = self._writing = False
        self._taken = 0
        self._paho.on_message = self._on_message

    def start(self) -> None:
        self._paho.on_socket_register_write = self._want_write
        if (sock := self._socket()) is not None:
            self._loop.add_reader(sock.fileno(), self._read)

    def _on_message(self, client: object, userdata: object, message: MQTTMessage) -> None:
        self._taken += 1
        self._take(message)

    def _read(self) -> None:
        self._reading = True
        before = self._taken
        until_s = self._loop.time() + TURN_S
        try:
            while True:
                taken = self._taken
                self._paho.loop_read()
                sock = self._socket()
                more = isinstance(sock, ssl.SSLSocket) and sock.pending() > 0
                if sock is None or not (more or (self._taken > taken and self._loop.time() < until_s)):
                    break
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the connection, and its watcher raises it
            self._fail(error)
        finally:
            self._reading = False
        if self._paho.want_write():
            self._write(together=self._taken > before + 1)

    def _want_write(self, client: object, userdata: object, sock: Any) -> None:
        if not self._reading and not self._writing:
            self._writing = True
            self._loop.call_soon(self._write)

    def _write(self, *, together: bool = False) -> None:
        self._writing = False
        sock = self._socket()
        corked = together and sock is not None and sock.family != socket.AF_UNIX and not isinstance(sock, ssl.SSLSocket)
        try:
            if corked and sock is not None:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
            self._paho.loop_write()
            if corked and sock is not None and sock.fileno() >= 0:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error)
        sock = self._socket()
        if sock is not None and self._paho.want_write():
            self._loop.add_writer(sock.fileno(), self._write)

    def _socket(self) -> socket.socket | None:
        """None where it is closed."""
        sock = self._paho.socket()
        return sock if isinstance(sock, socket.socket) else None

    def _fail(self, error: Exception) -> None:
        if not self._client._disconnected.done():
            self._client._disconnected.set_exception(error)
