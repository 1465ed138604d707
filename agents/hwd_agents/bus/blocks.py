"""BlockSocket: the socket of a client that reads it byte by byte and writes it packet by packet, which goes to the kernel in blocks."""

import socket
import ssl
from typing import Final

BLOCK_BYTES: Final = 65536
DISCONNECT: Final = 0xE0
"""First byte of that packet (MQTT 3.1.1, 3.14)."""


class BlockSocket:
    """Has what paho asks of a socket that does not block. What is sent goes out with `flush`; what has come is `left` until it is received."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._block = b""
        self._at = 0
        self._out = bytearray()

    @property
    def left(self) -> bool:
        """Whether there are bytes here that the kernel will not tell of again."""
        return self._at < len(self._block) or (isinstance(self._sock, ssl.SSLSocket) and self._sock.pending() > 0)

    @property
    def waiting(self) -> bool:
        """Whether there are bytes that the kernel did not take yet."""
        return bool(self._out)

    def recv(self, buffer_size: int) -> bytes:
        """At most so many bytes; none at the end. Raises as a socket does."""
        at = self._at
        if at == len(self._block):
            self._block, self._at, at = b"", 0, 0
            self._block = self._sock.recv(BLOCK_BYTES)
        found = self._block[at : at + buffer_size]
        self._at = at + len(found)
        return found

    def send(self, buffer: bytes | bytearray) -> int:
        """Takes all of a packet, but of a DISCONNECT what the kernel takes behind all else: paho closes as soon as it is sent. Raises as a socket does."""
        if buffer[0] == DISCONNECT:
            self.flush()
            if self._out:
                raise BlockingIOError
            return self._sock.send(buffer)
        self._out += buffer
        return len(buffer)

    def flush(self) -> None:
        """Give the kernel what it takes now. Raises OSError where the connection is broken."""
        try:
            while self._out:
                del self._out[: self._sock.send(self._out)]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return

    def fileno(self) -> int:
        return self._sock.fileno()

    def setblocking(self, flag: bool) -> None:
        self._sock.setblocking(flag)

    def close(self) -> None:
        """What waits is lost."""
        self._sock.close()
