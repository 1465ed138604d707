"""Disk: one append-only file that survives a crash up to its last sync."""

import errno
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from hwd_drivers.core.private_files import FILE_MODE

SECTOR_BYTES = 512
"""The unit that a disk writes completely or not at all; larger sectors of today's disks are multiples of it."""


class Disk(Protocol):
    """One file with one writer. Each failure is an OSError, a full disk too (ENOSPC); a failed append adds nothing."""

    def append(self, data: bytes) -> None:
        """Add `data` at the end. Durable only after `sync`."""

    def sync(self) -> None:
        """Return when all appended bytes would survive a power cut."""

    def reserve(self, size: int) -> None:
        """Reserve `size` more bytes after the content, durably.

        An append into this room cannot fail for a full disk. Reserved bytes read as zeros.
        """

    def room(self) -> int:
        """Return the number of reserved bytes after the content; 0 right after opening, when they count as content."""

    def read(self) -> bytes:
        """Return the whole content, followed by the zeros of the reserved bytes."""

    def truncate(self, size: int) -> None:
        """Cut off everything after the first `size` bytes, durably, with the reserved bytes."""

    def rewind(self, size: int) -> None:
        """Overwrite everything after the first `size` bytes with zeros and keep it reserved, durably."""

    def size(self) -> int:
        """Return the number of bytes appended so far."""

    def replace(self, data: bytes, *, reserve: int = 0) -> None:
        """Replace the whole content by `data` with `reserve` bytes reserved after it.

        Durable: after a crash the file holds either the old content or the new.
        """

    def set_aside(self) -> str:
        """Copy the whole content, durably, to a separate place that only its owner can read, and never changes again.

        Returns the name of the copy.
        """

    def close(self) -> None:
        """Close the file. Bytes that were appended but not synced are left to the kernel."""


class FileDisk:
    """A real file that only this user can read. After a failed sync it refuses all use until it is opened or replaced.

    The kernel may drop the pages that it could not write and report success for the next fdatasync, so that only a new
    read shows the content. `sync` may be called in another thread than all the other methods. On a file system that
    never writes in place (btrfs, ZFS) an append into reserved bytes can still fail for a full disk.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        created = not path.exists()
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        if created:
            _sync_directory(path.parent)
        self._size = self._end = os.fstat(self._fd).st_size
        """End of the content, and end of the file: the bytes between them are reserved."""
        self._rubbish = 0
        self._unsure: OSError | None = None
        self._swapping = threading.Lock()

    def append(self, data: bytes) -> None:
        self._check_sure()
        if self._rubbish:
            self._cut_rubbish()
        try:
            _write_all(self._fd, data, self._size)
        except OSError:
            # Half a frame would hide all later frames from the reader.
            self._rubbish = len(data)
            self._cut_rubbish()
            raise
        self._size += len(data)
        self._end = max(self._end, self._size)

    def sync(self) -> None:
        self._check_sure()
        with self._swapping:
            ours, copy = self._fd, os.dup(self._fd)
        try:
            os.fdatasync(copy)
        except OSError as error:
            with self._swapping:
                if self._fd == ours:  # else it was replaced by another file, which was synced
                    self._unsure = error
                    raise
        finally:
            os.close(copy)

    def reserve(self, size: int) -> None:
        self._check_sure()
        if self.room() >= size:
            return
        try:
            os.posix_fallocate(self._fd, self._end, self._size + size - self._end)
        except OSError:
            os.ftruncate(self._fd, self._end)  # a part may have been allocated
            raise
        self._end = self._size + size
        self.sync()

    def room(self) -> int:
        return self._end - self._size

    def read(self) -> bytes:
        return self._read(0)

    def truncate(self, size: int) -> None:
        _check_size(size, self._size, self._path)
        self._check_sure()
        os.ftruncate(self._fd, size)
        self._size = self._end = size
        self.sync()

    def rewind(self, size: int) -> None:
        _check_size(size, self._size, self._path)
        self._check_sure()
        behind = self._read(size)
        if any(behind):
            _write_all(self._fd, bytes(len(behind)), size)
            self.sync()
        self._size = size

    def size(self) -> int:
        return self._size

    def replace(self, data: bytes, *, reserve: int = 0) -> None:
        fresh = self._path.with_name(self._path.name + ".new")
        fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
        try:
            _write_all(fd, data, 0)
            if reserve:
                os.posix_fallocate(fd, len(data), reserve)
            os.fsync(fd)
            os.rename(fresh, self._path)
        except OSError:
            os.close(fd)
            fresh.unlink(missing_ok=True)
            raise
        with self._swapping:
            old, self._fd = self._fd, fd
            self._size = len(data)
            self._end = self._size + reserve
            self._rubbish = 0
            self._unsure = None
        os.close(old)
        try:
            _sync_directory(self._path.parent)
        except OSError as error:
            self._unsure = error
            raise

    def set_aside(self) -> str:
        fd, aside = self._open_aside()
        try:
            _write_all(fd, self.read(), 0)
            os.fsync(fd)
            _sync_directory(aside.parent)
        except OSError:
            aside.unlink()
            raise
        finally:
            os.close(fd)
        return str(aside)

    def close(self) -> None:
        os.close(self._fd)

    def _read(self, start: int) -> bytes:
        parts: list[bytes] = []
        at = start
        try:
            while part := os.pread(self._fd, self._end - at, at):
                parts.append(part)
                at += len(part)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from error
        return b"".join(parts)

    def _open_aside(self) -> tuple[int, Path]:
        """Open a new file in the same folder, under the first free name."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        number = 1
        while True:
            aside = self._path.with_name(f"{self._path.name}.damaged-{number}")
            try:
                return os.open(aside, flags, 0o600), aside
            except FileExistsError:
                number += 1

    def _cut_rubbish(self) -> None:
        os.ftruncate(self._fd, self._end)
        reserved = min(self._rubbish, self.room())
        if reserved:
            _write_all(self._fd, bytes(reserved), self._size)
        self._rubbish = 0

    def _check_sure(self) -> None:
        if self._unsure is not None:
            text = f"an earlier sync failed ({self._unsure.strerror}), the disk's content is unknown. Open it again"
            raise OSError(errno.EIO, text, str(self._path)) from self._unsure


class MemoryDisk:
    """A disk in memory for simulations: outlives its node, loses unsynced bytes on `crash`, can get full or fail."""

    def __init__(self, *, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        self.asides: list[bytes] = []
        self.refusal: tuple[int, int] | None = None
        """An error number, and the number of writing calls that still succeed before all later ones fail with it."""
        self._data = bytearray()
        self._end = self._synced = self._held = 0
        """The end of the content; how far it is synced; and the least length of the file after a power cut."""

    def append(self, data: bytes) -> None:
        end = self._end + len(data)
        self._check(end if end > len(self._data) else 0)
        self._data[self._end : end] = data
        self._end = end

    def sync(self) -> None:
        self._check()
        self._keep()

    def reserve(self, size: int) -> None:
        if self.room() < size:
            self._check(self._end + size)
            self._data += bytes(size - self.room())
            self._keep()

    def room(self) -> int:
        return len(self._data) - self._end

    def read(self) -> bytes:
        return bytes(self._data)

    def truncate(self, size: int) -> None:
        _check_size(size, self._end, "memory disk")
        self._check()
        del self._data[size:]
        self._end = size
        self._keep()

    def rewind(self, size: int) -> None:
        _check_size(size, self._end, "memory disk")
        self._check()
        was_there = any(self._data[size:])
        self._data[size:] = bytes(len(self._data) - size)
        self._end = size
        self._synced = min(self._synced, size)
        if was_there:
            self._keep()

    def size(self) -> int:
        return self._end

    def replace(self, data: bytes, *, reserve: int = 0) -> None:
        self._check(len(data) + reserve)
        self._data[:] = data + bytes(reserve)
        self._end = len(data)
        self._keep()

    def set_aside(self) -> str:
        self._check()
        self.asides.append(self.read())
        return f"memory disk, copy {len(self.asides)}"

    def close(self) -> None:
        """Do nothing: the next node opens the same object, and counts the reserved bytes as content."""
        self._end = len(self._data)

    def durable(self) -> bytes:
        """Return what a power cut now would leave at least."""
        return bytes(self._data[: self._synced]) + bytes(max(0, self._held - self._synced))

    def unsynced(self) -> int:
        """Return how many bytes a power cut can lose."""
        return self._end - self._synced

    def crash(self, *, keep_unsynced: int = 0, keep_sectors: Iterable[int] = ()) -> None:
        """Cut the power. Of the unsynced bytes the first `keep_unsynced` reach the disk, and those in `keep_sectors`.

        `keep_sectors` are numbers of sectors of the file: the parts of one sync can reach the disk in any order.
        """
        start = self._synced + min(keep_unsynced, self.unsynced())
        unsynced = self._data[start : self._end]
        self._data[start:] = bytes(max(0, self._held - start))
        for sector in keep_sectors:
            first = max(0, sector * SECTOR_BYTES - start)
            part = unsynced[first : max(0, (sector + 1) * SECTOR_BYTES - start)]
            if part:
                self._data += bytes(max(0, start + first + len(part) - len(self._data)))
                self._data[start + first : start + first + len(part)] = part
        self._end = len(self._data)
        self._keep()

    def _keep(self) -> None:
        self._synced = self._end
        self._held = len(self._data)

    def _check(self, size: int = 0) -> None:
        """Whether a writing call succeeds after which the file has `size` bytes; 0: it gets no longer."""
        if self.refusal is not None:
            number, left = self.refusal
            if left <= 0:
                raise OSError(number, os.strerror(number), "memory disk")
            self.refusal = (number, left - 1)
        if self.capacity_bytes is not None and size > self.capacity_bytes:
            raise OSError(
                errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: {size} of {self.capacity_bytes} bytes", "memory disk"
            )


def _write_all(fd: int, data: bytes, at: int) -> None:
    written = os.pwrite(fd, data, at)
    while written < len(data):  # a disk that gets full takes a part
        written += os.pwrite(fd, memoryview(data)[written:], at + written)


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _check_size(size: int, present: int, where: object) -> None:
    if not 0 <= size <= present:
        raise ValueError(f"{where}: cannot truncate to {size} bytes, it has {present} bytes")
