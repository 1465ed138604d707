"""The standard streams of a program of ours: closed ones, readers that go, full disks, and terminals without Unicode.

What a program does, and its exit status, does not depend on whether somebody reads what it says.
"""

import codecs
import errno
import gc
import io
import os
import sys
import unicodedata
import warnings
from collections.abc import Callable
from typing import Final, Never, TextIO

from typing_extensions import Buffer, override

from hwd_drivers.core.errors import FailedError

READABLE: Final = "hwd-readable"
"""The handler of encoding errors: other characters in place of those that a terminal does not have."""
_ASCII: Final = str.maketrans(
    {"→": "->", "←": "<-", "↔": "<->", "\u2013": "-", "—": "-", "─": "-", "━": "-", "╸": "-", "╺": "-", "│": "|",
     "·": ".", "•": "*", "\u00d7": "x", "±": "+-", "≤": "<=", "≥": ">=", "µ": "u", "μ": "u", "°": " deg",
     "\u2018": "'", "\u2019": "'", "“": '"', "”": '"', "…": "...", "ß": "ss"}
)  # fmt: skip
_GONE: Final = frozenset({errno.EPIPE, errno.EBADF})
"""Nothing can be written any more; on a disk that is full, later text may find room."""


class ReaderGoneError(Exception):
    """The reader of standard output has closed it, as `head` does. No OSError: it is no fault of a file."""


class StandardStream(io.FileIO):
    """The bytes of one stream. What cannot be written is lost, and `trouble` says why."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self.trouble: OSError | None = None
        self.ends_with_reader = False

    @override
    def write(self, data: Buffer, /) -> int:
        if self.trouble is None or self.trouble.errno not in _GONE:
            try:
                return super().write(data)
            except BlockingIOError:
                raise
            except OSError as error:
                is_first, self.trouble = self.trouble is None, error
                if self.ends_with_reader and is_first:  # what is left in a buffer then is lost without a word more
                    if error.errno in _GONE:
                        raise ReaderGoneError from None
                    raise FailedError(_cannot_be_written(error)) from error
        return memoryview(data).nbytes


class _AsciiText(io.TextIOWrapper):
    """Text for a terminal of ASCII alone. It has the encoding of a superset: typer writes UTF-8 to an ASCII stream."""

    @override
    def write(self, text: str, /) -> int:
        return super().write(text.encode("ascii", READABLE).decode("ascii"))


def end_with_reader() -> None:
    """A command whose output has no end, such as `hwd watch`, ends when the reader of that goes: ReaderGoneError."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, StandardStream):
        raw.ends_with_reader = True


def speaks_unicode() -> bool:
    """Whether each character can be written to standard output."""
    return codecs.lookup(sys.stdout.encoding).name.startswith("utf")


def run_program(name: str, main: Callable[[], None]) -> Never:
    """Run `main` with streams that can be used, whatever they were before, and exit with its status.

    Where output was lost on a full disk, one line says so, and success becomes exit status 1. A reader that has gone
    changes nothing.
    """
    if not sys.warnoptions:
        warnings.simplefilter("ignore", SyntaxWarning)  # of libraries that are compiled now: it is for their authors
    _prepare()
    status: str | int | None = 0
    try:
        main()
    except SystemExit as end:
        status = end.code
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    lost = raw.trouble if isinstance(raw, StandardStream) and not raw.ends_with_reader else None
    if lost is not None and lost.errno not in _GONE:
        sys.stderr.write(f"{name}: {_cannot_be_written(lost)}\n")
        status = status or 1
    gc.freeze()  # else Python would look once more through all there is, which takes a fifth of a short command
    sys.exit(status)


def _prepare() -> None:
    """A closed stream is /dev/null from here on: else the next file or connection got its number, and our words."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(descriptor, True)
    codecs.register_error(READABLE, _readable)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
    sys.stdout, sys.stderr = _stream(1, sys.stdout), _stream(2, sys.stderr)


def _stream(descriptor: int, present: TextIO | None) -> io.TextIOWrapper:
    encoding = "utf-8"
    is_line_buffered, writes_through = descriptor == 2, False
    if isinstance(present, io.TextIOWrapper):
        present.flush()
        encoding, writes_through = present.encoding, present.write_through
        is_line_buffered = is_line_buffered or present.line_buffering
    is_ascii = codecs.lookup(encoding).name == "ascii"
    return (_AsciiText if is_ascii else io.TextIOWrapper)(
        io.BufferedWriter(StandardStream(descriptor)),
        encoding="latin-1" if is_ascii else encoding,
        errors=READABLE,
        line_buffering=is_line_buffered,
        write_through=writes_through,
    )


def _readable(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(map(_ascii, text)), error.end


def _ascii(character: str) -> str:
    """`e` of `é`, `->` of an arrow; else its number."""
    plain = unicodedata.normalize("NFKD", character.translate(_ASCII)).encode("ascii", "ignore").decode()
    return plain or character.encode("ascii", "backslashreplace").decode()


def _cannot_be_written(error: OSError) -> str:
    return f"standard output: cannot be written: {error.strerror or error}"
