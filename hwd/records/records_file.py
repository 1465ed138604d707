"""The file of the records: its URL, and the way in which it is read so that nothing of its folder changes."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias
from urllib.parse import quote

import sqlalchemy as sa

from hwd_drivers.core.errors import ConfigError, FailedError
from hwd_drivers.core.reason import reason_of

DatabaseUrl: TypeAlias = str | sa.URL


def file_url(path: Path) -> sa.URL:
    """The URL of a database file, whatever is in its path."""
    return sa.URL.create("sqlite", database=str(path.absolute()))


@contextmanager
def reading_url(path: Path) -> Iterator[sa.URL]:
    """The URL by which a file of records is read, also beside a daemon that writes it, and on media that cannot be
    written to. Raises FailedError at the end where what was read may have changed meanwhile.

    SQLite takes what a crashed daemon left in the log (`-wal`) into account, and needs the log's index (`-shm`) for
    that, which it would create. Without that index, as in a copy without it, file and log are read as a copy.
    """
    path = path.absolute()
    log, index = (path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm"))
    if not _has_content(log):
        before = _identity(path)
        yield _read_only(path, "immutable")
        if _has_content(log) or _identity(path) != before:
            raise FailedError(f"{path}: a daemon began to write it while it was read. Try again")
    elif index.exists():
        yield _read_only(path, "readonly_shm")
    else:
        with TemporaryDirectory(prefix="hwd-records-") as folder:
            copied = _identity(path), _identity(log)
            try:
                for file in (path, log):
                    shutil.copyfile(file, Path(folder) / file.name)
            except OSError as error:
                raise ConfigError(
                    f"{path}: {log.name} lies beside it without {index.name}, and no copy of it can be made in "
                    f"{folder}: {reason_of(error)}. Copy {index.name}, too, or set TMPDIR to where there is space"
                ) from error
            if (_identity(path), _identity(log)) != copied:
                raise FailedError(f"{path}: a daemon wrote it while it was copied. Try again")
            yield file_url(Path(folder) / path.name)


def _read_only(path: Path, how: str) -> sa.URL:
    """https://www.sqlite.org/uri.html, https://www.sqlite.org/wal.html#readonly"""
    return sa.URL.create("sqlite", database=f"file:{quote(str(path))}", query={"mode": "ro", how: "1", "uri": "true"})


def _identity(file: Path) -> tuple[int, int, int] | None:
    """What a write changes; None where there is no file."""
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _has_content(file: Path) -> bool:
    try:
        return file.stat().st_size > 0
    except FileNotFoundError:
        return False
