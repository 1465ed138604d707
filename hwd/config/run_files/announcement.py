"""Announcement: the file by which a daemon or a twin rack is found, for as long as it runs."""

import asyncio
import fcntl
import logging
import os
import stat
from pathlib import Path
from typing import Final

import msgspec

from hwd.config.run_files.places import OTHER_RUN_DIR, DaemonPlace, RackPlace, lock_of, make_private
from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.file_lock import take_lock
from hwd_drivers.core.structs import to_json
from hwd_drivers.transports.unix_listener import RESTORE_EVERY_S

_WHAT: Final = {"daemon.json": "daemon", "rack.json": "twin rack"}

log = logging.getLogger(__name__)


class Announcement:
    """A file of the run directory, held by the process that writes it; use it as a context.

    with Announcement(run_dir(testbed.name) / "daemon.json") as announcement:
        announcement.write(DaemonPlace(...))     # when ready; the file is removed at the end
        await announcement.watch()

    A clean-up of temporary files, or of the run directory at logout, takes files of a live process away: `watch` makes
    them again. The folder is locked too, so that systemd-tmpfiles leaves it alone.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = lock_of(path)
        self._what = _WHAT.get(path.name, path.name)
        self._fd = self._folder = -1
        self._place: DaemonPlace | RackPlace | None = None
        self._file: tuple[int, ...] | None = None
        self._trouble = ""

    def __enter__(self) -> "Announcement":
        """Raises RefusedError, with the pid of the holder, where another process holds it."""
        try:
            self._fd = self._open_lock()
        except OSError as error:
            raise ConfigError(f"{self._lock}: cannot be opened: {error.strerror}. {OTHER_RUN_DIR}") from error
        self._hold_folder()
        self._path.unlink(missing_ok=True)
        return self

    def write(self, place: DaemonPlace | RackPlace) -> None:
        """Atomic: a reader sees the old file or the new one. Only this user can read it: it has the
        password of a broker.

        Where it cannot be written, as on a full disk, that is logged, and `watch` tries again.
        """
        self._place, self._file = place, None
        self.restore()

    def restore(self) -> bool:
        """Make again what is gone: the folder, the lock in it, the file. Whether all is there then."""
        trouble = ""
        try:
            self._restore_lock()
            if self._place is not None and (self._file is None or _identity(self._path) != self._file):
                if self._file is not None:
                    log.warning("%s: it was removed or changed, and is written again", self._path)
                self._write(self._place)
        except OSError as error:
            trouble = f"{error.filename or self._path}: {error.strerror or error}"
        except (ConfigError, RefusedError) as error:
            trouble = str(error)
        if trouble and not self._trouble:
            log.warning(
                "the %s of testbed %s runs, and is not found by others: %s. It tries again every %g s",
                self._what,
                self._path.parent.name,
                trouble,
                RESTORE_EVERY_S,
            )
        elif self._trouble and not trouble:
            log.info("the %s of testbed %s is found by others again", self._what, self._path.parent.name)
        self._trouble = trouble
        return not trouble

    async def watch(self) -> None:
        """Restore what is gone, until cancelled."""
        while True:
            await asyncio.sleep(RESTORE_EVERY_S)
            self.restore()

    def __exit__(self, *error: object) -> None:
        try:
            if self._is_ours():  # else another process has announced itself there meanwhile
                self._path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s: cannot be removed: %s", self._path, error.strerror)
        for fd in (self._fd, self._folder):
            if fd >= 0:
                os.close(fd)

    def _open_lock(self) -> int:
        """A descriptor of the lock's file, locked, with our pid. Raises OSError, and as `__enter__`."""
        fd = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            try:
                _hold(fd, self._lock)
            except BlockingIOError:
                holder = os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"
                raise RefusedError(
                    f"testbed {self._path.parent.name}: its {self._what} runs already, with pid {holder}. "
                    "Stop that one first"
                ) from None
            try:
                os.ftruncate(fd, 0)
                os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
            except OSError as error:  # a full disk: the lock holds all the same
                log.warning("%s: the pid of its holder cannot be written: %s", self._lock, error.strerror)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _restore_lock(self) -> None:
        if self._is_ours():
            return
        make_private(self._path.parent.parent)
        make_private(self._path.parent)
        fd = self._open_lock()
        log.warning("%s: it was removed, and is held again", self._lock)
        os.close(self._fd)
        self._fd = fd
        self._hold_folder()

    def _is_ours(self) -> bool:
        """Whether the lock that others find is the one that we hold."""
        try:
            found = os.lstat(self._lock)
        except FileNotFoundError:
            return False
        ours = os.fstat(self._fd)
        return (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)

    def _hold_folder(self) -> None:
        """Share a lock on the folder: systemd-tmpfiles passes over a folder that is locked, with all that is in it."""
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1
        try:
            self._folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError as error:  # `watch` restores what is removed
            log.debug("%s: cannot be locked: %s", self._path.parent, error.strerror)

    def _write(self, place: DaemonPlace | RackPlace) -> None:
        new = self._path.with_name(f"{self._path.name}.new")
        new.unlink(missing_ok=True)
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(fd, "wb", buffering=0) as file:
            text = msgspec.json.format(to_json(place), indent=2) + b"\n"
            while text:
                text = text[file.write(text) :]
        new.replace(self._path)
        self._file = _identity(self._path)


def _hold(fd: int, path: Path) -> None:
    """Raises BlockingIOError where another process holds the lock. One that looks with `is_held` shares it for an
    instant: that is not a holder.
    """
    while True:
        try:
            return take_lock(fd, path, remedy=OTHER_RUN_DIR)
        except BlockingIOError:
            take_lock(fd, path, shared=True, remedy=OTHER_RUN_DIR)


def _identity(path: Path) -> tuple[int, ...] | None:
    """What changes when somebody removes, replaces or writes a file; None where there is none."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, stat.S_IMODE(found.st_mode)
