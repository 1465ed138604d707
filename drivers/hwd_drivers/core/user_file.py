"""Files that a user names: the one door through which they are read, regular ones and of bounded size.

What is at a path is anybody's doing: a FIFO blocks its reader for ever, a device has no end, a file of /proc no size.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from hwd_drivers.core.errors import ConfigError

SECRET_BYTES_MAX: Final = 65_536
"""The limit of a file with a password, a token or a key: the longest keys have 16 KB."""
CHUNK_BYTES: Final = 1 << 20
_KINDS: Final = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserFile:
    """The content of a file. `what` begins the messages about it; `mode`: its permissions when it was read."""

    what: str
    data: bytes
    mode: int

    def text(self) -> str:
        """Its text, without a byte order mark. Raises ConfigError where that is no UTF-8, or has a NUL. The messages
        have no byte of the file: it may be a secret.
        """
        try:
            text = self.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            place, why = error.start, error.reason
            raise ConfigError(f"{self.what}: not UTF-8: byte {place}: {why}. Save it as UTF-8") from None
        if (place := self.data.find(b"\0")) >= 0:
            raise ConfigError(f"{self.what}: byte {place} is NUL, which no text has. Save it as UTF-8")
        return text


def read_user_file(
    path: str | Path, *, most_bytes: int, what: str | None = None, pipes: bool = False, remedy: str = ""
) -> UserFile:
    """Read a regular file whole. Blocks no longer than its file system does.

    `pipes`: a pipe that this process inherited is read, too, to its end: `/dev/stdin`, and `/dev/fd/63` of a shell's
    `<(...)`. For files alone that a person names for a command of his own. Raises ConfigError for what is no such file,
    cannot be read, is longer than `most_bytes`, or changes while it is read; `what`, by default the path, begins it;
    `remedy`: what to do with a file that is too long.
    """
    what = str(path) if what is None else what
    with open_user_file(path, what=what, pipes=pipes) as file, _readable(path, what):
        before = os.fstat(file.fileno())
        if before.st_size > most_bytes:
            raise _too_long(what, most_bytes, remedy)
        data = bytearray()
        while len(data) <= most_bytes and (more := os.read(file.fileno(), CHUNK_BYTES)):
            data += more
        if len(data) > most_bytes:
            raise _too_long(what, most_bytes, remedy)
        after = os.fstat(file.fileno())
    if stat.S_ISREG(before.st_mode):
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise ConfigError(
                f"{what}: changed while it was read ({before.st_size} bytes, then {after.st_size}). Try again"
            )
        if len(data) != after.st_size:
            raise ConfigError(
                f"{what}: is no file on a disk: it has {len(data)} bytes, and its size is said to be {after.st_size}"
            )
    return UserFile(what=what, data=bytes(data), mode=stat.S_IMODE(before.st_mode))


@contextmanager
def open_user_file(path: str | Path, *, what: str | None = None, pipes: bool = False) -> Iterator[BinaryIO]:
    """A regular file, open for reading; see `read_user_file`. Closed at the end."""
    what = str(path) if what is None else what
    with _readable(path, what):
        _check_kind(os.stat(path), path, what, pipes)  # before it is opened: a device may act on that
        # A FIFO that has come meanwhile blocks nobody, and a terminal does not become ours.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    with open(descriptor, "rb") as file:
        _check_kind(found := os.fstat(descriptor), path, what, pipes)
        if not stat.S_ISREG(found.st_mode):
            os.set_blocking(descriptor, True)
        yield file


def _check_kind(found: os.stat_result, path: str | Path, what: str, pipes: bool) -> None:
    if stat.S_ISREG(found.st_mode) or _is_null(found):
        return
    if pipes and stat.S_ISFIFO(found.st_mode) and Path(os.path.realpath(path)).name.startswith("pipe:["):
        return
    if stat.S_ISDIR(found.st_mode):
        raise ConfigError(f"{what}: cannot be read: {os.strerror(errno.EISDIR)}")
    kind = next((name for matches, name in _KINDS if matches(found.st_mode)), "something else")
    raise ConfigError(f"{what}: is no regular file, but {kind}")


def _is_null(found: os.stat_result) -> bool:
    """Whether the file is /dev/null: the empty file that `UserKnownHostsFile /dev/null` of SSH means."""
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == os.makedev(1, 3)


def _too_long(what: str, most_bytes: int, remedy: str) -> ConfigError:
    more = f"; {remedy}" if remedy else ""
    return ConfigError(f"{what}: is over the {most_bytes} bytes allowed for such a file{more}")


@contextmanager
def _readable(path: str | Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        link = ""
        if isinstance(error, FileNotFoundError) and os.path.islink(path):
            link = f"; it is a link to {os.readlink(path)}"
        raise ConfigError(f"{what}: cannot be read: {error.strerror}{link}") from error
    except ValueError as error:  # a NUL in the path
        raise ConfigError(f"{what}: cannot be read: {error}") from error
