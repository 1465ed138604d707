"""Pump: moves bytes between paho and its socket, as much as there is at once.

aiomqtt reads one message and writes its acknowledgement in two turns of the loop each. Under load, the turns take longer than the messages: here all
messages that have come are read in one, and what they are answered with goes out in one piece.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import aiomqtt
from paho.mqtt.client import MQTTMessage

from hwd_agents.bus.blocks import BlockSocket

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
        self._reading = self._goes_on = self._writing = self._blocked = False
        self._paho.on_message = self._on_message

    def start(self) -> None:
        """From the next turn on: what aiomqtt has asked of the loop comes before."""
        self._paho.on_socket_register_write = self._want_write
        self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        if isinstance(sock := self._paho.socket(), socket.socket):
            self._paho.on_socket_unregister_write = None
            self._paho.on_socket_close = self._on_close
            self._paho._sock = BlockSocket(sock)
            self._loop.remove_writer(sock.fileno())
            self._loop.add_reader(sock.fileno(), self._read)
            self._write()

    def _on_message(self, client: object, userdata: object, message: MQTTMessage) -> None:
        self._take(message)

    def _go_on(self) -> None:
        self._goes_on = False
        self._read()

    def _read(self) -> None:
        if (sock := self._socket()) is None or self._goes_on:
            return
        self._reading = True
        until_s = self._loop.time() + TURN_S
        try:
            self._read_packet()
            while sock.left and self._paho.socket() is sock:
                if self._loop.time() >= until_s:
                    self._goes_on = True  # nothing wakes the loop for bytes that were read
                    self._loop.call_soon(self._go_on)
                    break
                self._read_packet()
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the connection, and its watcher raises it
            self._fail(error)
        finally:
            self._reading = False
        if self._paho.want_write():
            self._write()

    def _read_packet(self) -> None:
        """One at most: paho's `loop_read` reads as many as it has publications under way."""
        if (code := self._paho._packet_read()) > 0:
            self._paho._loop_rc_handle(code)

    def _want_write(self, client: object, userdata: object, sock: Any) -> None:
        if not self._reading and not self._writing:
            self._writing = True
            self._loop.call_soon(self._write)

    def _write(self) -> None:
        self._writing = False
        if (sock := self._socket()) is None:
            return
        try:
            sock.flush()
            if not sock.waiting:
                self._paho.loop_write()
            if self._socket() is sock:
                sock.flush()
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(error)
        blocked = sock.waiting or self._paho.want_write()
        if self._socket() is sock and blocked != self._blocked:
            self._blocked = blocked
            if blocked:
                self._loop.add_writer(sock.fileno(), self._write)
            else:
                self._loop.remove_writer(sock.fileno())

    def _on_close(self, client: Any, userdata: Any, sock: Any) -> None:
        """The next socket may have the same number: nothing of this one may be left in the loop."""
        self._loop.remove_writer(sock.fileno())
        self._client._on_socket_close(client, userdata, sock)

    def _socket(self) -> BlockSocket | None:
        """None where it is closed."""
        sock = self._paho.socket()
        return sock if isinstance(sock, BlockSocket) else None

    def _fail(self, error: Exception) -> None:
        if not self._client._disconnected.done():
            self._client._disconnected.set_exception(error)
        self._paho._sock_close()  # else paho would go on with the packet that it failed at
