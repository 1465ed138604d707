"""LineDecoder: cuts bytes into lines of text, for every protocol that ends its messages with CR, LF or both."""

import re

from hwd_drivers.core.errors import ProtocolError


class LineDecoder:
    """Cuts bytes into lines that end in CR, LF or both; empty ones are dropped. Both sides use it.

    Raises ProtocolError over the limit and on bytes that are not text, after which it must not be used again.
    `protocol` is its name in errors.
    """

    def __init__(self, protocol: str, *, limit_bytes: int) -> None:
        self._protocol = protocol
        self._limit_bytes = limit_bytes
        self._begun = bytearray()

    def feed(self, data: bytes) -> list[str]:
        """The lines that `data` completes, in order."""
        *ended, rest = data.replace(b"\r", b"\n").split(b"\n")
        lines: list[str] = []
        for part in ended:
            self._begun += part
            self._check()
            lines.append(self._text(bytes(self._begun)))
            self._begun.clear()
        self._begun += rest
        self._check()
        return [line for line in lines if line]

    def _check(self) -> None:
        if len(self._begun) > self._limit_bytes:
            raise ProtocolError(
                f"{self._protocol}: {len(self._begun)} bytes without an end of line, limit {self._limit_bytes} bytes"
            )

    def _text(self, data: bytes) -> str:
        try:
            return data.decode().strip()
        except UnicodeDecodeError as error:
            part = data[error.start : error.start + 8].hex(" ")
            raise ProtocolError(f"{self._protocol}: {part} is not text") from None


def parse_line(pattern: re.Pattern[str], line: str, what: str) -> re.Match[str]:
    """The parts of a line. Raises ProtocolError where it is not `what`: an identity, a size."""
    if (found := pattern.fullmatch(line)) is None:
        raise ProtocolError(f"{line[:40]!r} is not {what}")
    return found
