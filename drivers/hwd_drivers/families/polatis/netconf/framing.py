"""NETCONF framing without I/O: messages end in `]]>]]>`, or come in chunks if both sides sent base:1.1 (RFC 6242)."""

from typing import Final

from hwd_drivers.core.errors import ProtocolError

END: Final = b"]]>]]>"
MESSAGE_BYTES: Final = 4 << 20
"""Largest accepted message: a list of all pairs of the largest unit is under 100 kB."""
_HEADER_BYTES: Final = len(b"\n#4294967295\n")


def frame(message: bytes, *, chunked: bool) -> bytes:
    """The bytes of a message in its frame."""
    return b"\n#%d\n%s\n##\n" % (len(message), message) if chunked else message + END


class FrameDecoder:
    """Cuts bytes into messages. Set `chunked` after the last message in the old framing.

    Raises ProtocolError for a wrong beginning of a message, and for one over MESSAGE_BYTES; after it the decoder must
    not be used.
    """

    def __init__(self) -> None:
        self.chunked = False
        self._buffer = bytearray()
        self._scanned = 0
        self._message = bytearray()
        self._left = 0

    def feed(self, data: bytes) -> None:
        self._buffer += data

    def take(self) -> bytes | None:
        """The next complete message."""
        return self._take_chunks() if self.chunked else self._take_to_end()

    def _take_to_end(self) -> bytes | None:
        at = self._buffer.find(END, self._scanned)
        if at < 0:
            self._scanned = max(0, len(self._buffer) - len(END) + 1)
            self._limit(len(self._buffer))
            return None
        self._limit(at)
        message = bytes(self._buffer[:at])
        del self._buffer[: at + len(END)]
        self._scanned = 0
        return message

    def _take_chunks(self) -> bytes | None:
        while self._buffer:
            if self._left:
                part = self._buffer[: self._left]
                self._message += part
                self._left -= len(part)
                del self._buffer[: len(part)]
                continue
            size = self._take_header()
            if size is None:
                return None
            if not size:
                message = bytes(self._message)
                self._message.clear()
                return message
            self._limit(len(self._message) + size)
            self._left = size
        return None

    def _take_header(self) -> int | None:
        """Bytes of the next chunk, 0 at the end of the message, None where the header is incomplete."""
        header = bytes(self._buffer[:_HEADER_BYTES])
        if header[:2] != b"\n#"[: len(header)]:
            raise ProtocolError(f"NETCONF: a chunk begins with {header!r}, not with a line feed and #")
        end = header.find(b"\n", 2)
        if end < 0:
            if len(header) == _HEADER_BYTES:
                raise ProtocolError(f"NETCONF: {header!r} is not a chunk header")
            return None
        word = header[2:end]
        if word == b"#" and self._message:
            del self._buffer[: end + 1]
            return 0
        if not word.isdigit() or word.startswith(b"0"):
            raise ProtocolError(f"NETCONF: {header[: end + 1]!r} is not a chunk header")
        del self._buffer[: end + 1]
        return int(word)

    def _limit(self, size: int) -> None:
        if size > MESSAGE_BYTES:
            raise ProtocolError(f"NETCONF: a message of over {MESSAGE_BYTES} bytes")
