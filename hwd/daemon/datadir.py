"""The data directory, with a lock for one daemon at a time."""

import logging
import os
import stat
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from hwd.daemon.disk_space import Space
from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.file_lock import take_lock
from hwd_drivers.core.private_files import FILE_MODE, FOLDER_MODE, make_private

FILES: Final = ("lock", "journal*", "job-events*", "records.db*", "reserve")
"""The names of the daemon's files: an operator may name a folder that has other files too."""

log = logging.getLogger(__name__)


class DataDirectory:
    """A lock on a directory of this user alone. The kernel releases it when the process ends.

    with DataDirectory(path) as data:
        data.path / "journal"
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1

    def __enter__(self) -> Self:
        try:
            self.path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            _check(self.path)
            changed = make_private(self.path, FILES)
            self._fd = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        except OSError as error:
            raise ConfigError(
                f"{self.path}: cannot be used as data directory: {error.strerror}. Name another with --data"
            ) from error
        try:
            take_lock(self._fd, self.path / "lock", remedy="Name a data directory on a local disk with --data")
        except BlockingIOError:
            holder = os.pread(self._fd, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(self._fd)
            raise RefusedError(
                f"{self.path}: in use by the daemon with pid {holder}. Stop that one first, or name another directory "
                "with --data"
            ) from None
        except ConfigError:
            os.close(self._fd)
            raise
        try:
            text = f"{os.getpid()}\n".encode()
            os.pwrite(self._fd, text, 0)
            os.ftruncate(self._fd, len(text))
        except OSError as error:  # a full disk: the lock holds all the same
            os.ftruncate(self._fd, 0)
            log.warning("%s: the pid of its holder cannot be written: %s", self.path, error.strerror)
        if changed:
            log.info("%s: others of this machine could read %s: now only this user can", self.path, ", ".join(changed))
        return self

    def space(self) -> Space:
        """Measure the space of the directory's file system now. Raises OSError."""
        found = os.statvfs(self.path)
        return Space(free_bytes=found.f_bavail * found.f_frsize, total_bytes=found.f_blocks * found.f_frsize)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)


def _check(path: Path) -> None:
    """Check who may write to it, before any file in it is opened: others could plant links or a journal there."""
    mode = path.stat().st_mode
    if mode & stat.S_IWOTH:
        raise ConfigError(
            f"{path}: cannot be used as data directory: everybody may write there (mode {stat.S_IMODE(mode):o}). "
            "chmod o-w it, or name another with --data"
        )
