"""Marks: lines drawn at random between which the output of our own command stands.

A login shell runs the user's start files first, also for a command (bash(1), "When bash ... is run by sshd"), and what
those print, or what a shell prints at its end, comes over the same channel.
"""

import re
import shlex
from typing import Final

NOISE_BYTES: Final = 500
"""The last bytes of what is not ours that are shown in an error."""
BEGIN: Final = b" begin\n"
STATUS_BYTES: Final = 16
"""Longer than any end of a mark."""


class Marks:
    """The marks of one session."""

    def __init__(self, token: str) -> None:
        """`token`: some letters and digits that nothing else has."""
        self.mark = token.encode()
        self._halves = f'{token[: len(token) // 2]}""{token[len(token) // 2 :]}'
        """As the command line has it: what a shell shows of that (`set -x`) is no mark."""

    def command(self, script: str, *, lasting: bool = False) -> str:
        """A command line that lets POSIX `sh` run the script, from whatever login shell.

        The script is the first `len(script.encode())` bytes of the input, to be sent when the output has begun: before,
        a start file could read it. `lasting`: the script has the place of the shell, and no mark follows its output.
        """
        read = f'"$(dd bs=1 count={len(script.encode())} 2>/dev/null)"'
        begin = f"echo {self._halves} begin"
        if lasting:
            words = f"{begin}; exec sh -c {read}"
        else:
            end = f"echo {self._halves} $s"
            words = f"{begin}; {begin} >&2; sh -c {read}; s=$?; {end}; {end} >&2; exit $s"
        return f"sh -c {shlex.quote(words)}"

    def stream(self, *, lasting: bool = False) -> "MarkedStream":
        return MarkedStream(self.mark, lasting=lasting)


class MarkedStream:
    """One stream of output, from which ours is taken. `status`: the exit status, when the end was seen, which a
    `lasting` one does not have.
    """

    def __init__(self, mark: bytes, *, lasting: bool) -> None:
        self._mark = mark
        self._end = re.compile(re.escape(mark) + rb" (\d{1,3})\n")
        self._is_lasting = lasting
        self._buffer = bytearray()
        self.noise = bytearray()
        """The end of what came before the begin."""
        self.has_begun = False
        self.status: int | None = None

    def feed(self, data: bytes) -> bytes:
        """What is ours of this; nothing of it before the begin and after the end."""
        self._buffer += data
        if not self.has_begun and not self._begin():
            return b""
        if self.status is not None:
            return b""
        if self._is_lasting:
            return self._take(len(self._buffer))
        end = self._end.search(self._buffer)
        if end is None:
            return self._take(len(self._buffer) - self._begun_mark())
        self.status = int(end[1])  # before the buffer changes, of which this is a view
        ours = self._take(end.start())
        self._buffer.clear()
        return ours

    def _begin(self) -> bool:
        begin = self._mark + BEGIN
        before, found, after = self._buffer.partition(begin)
        if found:
            self.has_begun = True
            self._buffer = after
        else:
            keep = len(begin) - 1
            before = self._buffer[:-keep]
            self._buffer = self._buffer[-keep:]
        self.noise = (self.noise + before)[-NOISE_BYTES:]
        return self.has_begun

    def _begun_mark(self) -> int:
        """How many of the last bytes may be a mark that is not here whole."""
        at = self._buffer.rfind(self._mark, max(0, len(self._buffer) - len(self._mark) - STATUS_BYTES))
        if at >= 0:
            return len(self._buffer) - at
        most = min(len(self._mark) - 1, len(self._buffer))
        return next((size for size in range(most, 0, -1) if self._buffer.endswith(self._mark[:size])), 0)

    def _take(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    @property
    def words(self) -> str:
        """What came before the begin, or in place of it, for an error."""
        said = self.noise if self.has_begun else self.noise + self._buffer
        return " ".join(bytes(said[-NOISE_BYTES:]).decode(errors="replace").split())
