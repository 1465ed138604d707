"""OutputLog: output of a program that nobody has taken yet. Places in it are counted in bytes of both streams.

It is sent to hosts, as `hwd.rollout.onhost.supervisor` is.
"""

from collections import deque
from typing import Final

PIECE_BYTES: Final = 32_768
"""As a line of a supervisor carries at most."""


class OutputLog:
    """Pieces that wait to be sent, and those that were sent to a reader who has not yet said that it took them."""

    def __init__(self) -> None:
        self._sent: deque[tuple[str, bytearray]] = deque()
        self._waiting: deque[tuple[str, bytearray]] = deque()
        self._start = 0
        """The place of the first byte that is held."""
        self._taken = 0
        """The place after the last byte that a reader said it took."""
        self.size_bytes = 0

    @property
    def is_sent(self) -> bool:
        """Whether all that came was passed to the present reader."""
        return not self._waiting

    def add(self, stream: str, data: bytes) -> None:
        """What the program wrote, at most `PIECE_BYTES`."""
        self.size_bytes += len(data)
        if self._waiting:
            last, piece = self._waiting[-1]
            if last == stream and len(piece) + len(data) <= PIECE_BYTES:
                piece += data
                return
        self._waiting.append((stream, bytearray(data)))

    def next(self) -> tuple[str, bytearray]:
        """The next piece for the reader. IndexError where all is sent."""
        self._sent.append(self._waiting.popleft())
        return self._sent[-1]

    def take(self, taken: int) -> None:
        """The reader has taken all before this place: it is freed."""
        self._taken = max(self._taken, min(taken, self._start + self.size_bytes))
        self._free(self._sent, self._taken - self._start)

    def rewind(self) -> None:
        """The reader has gone: what it has not taken waits again."""
        self._waiting.extendleft(reversed(self._sent))
        self._sent.clear()

    def shrink(self, most_bytes: int) -> None:
        """Keep the newest bytes, while there is no reader."""
        self._free(self._waiting, self.size_bytes - most_bytes)

    def begin(self, taken: int | None) -> tuple[int, int]:
        """Begin to write for a new reader, who has all before `taken`; None: what earlier readers took. Returns the
        place from which the reader is owed output, and how many bytes from there on are not held any more.
        """
        end = self._start + self.size_bytes
        self._taken = self._taken if taken is None else min(taken, end)
        self._free(self._waiting, self._taken - self._start)
        return self._taken, max(0, self._start - self._taken)

    def _free(self, pieces: "deque[tuple[str, bytearray]]", count: int) -> None:
        while count > 0 and pieces:
            freed = min(count, len(pieces[0][1]))
            del pieces[0][1][:freed]
            if not pieces[0][1]:
                pieces.popleft()
            self._start += freed
            self.size_bytes -= freed
            count -= freed
