"""Disk: one append-only file that survives a crash up to its last sync, and the frames that records are kept in."""

import errno
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

FRAME_LIMIT_BYTES = 16 * 1024 * 1024
"""The longest payload of a frame. A damaged length would else ask for up to 4 GiB; the longest plan is below 1 MiB."""

_HEADER = struct.Struct("<II")
_LENGTH = struct.Struct("<I")


class Disk(Protocol):
    """One file with one writer. Every failure is an OSError, a full disk too (ENOSPC), and nothing of a failed append stays."""

    def append(self, data: bytes) -> None:
        """Add `data` at the end. Durable only after `sync`."""

    def sync(self) -> None:
        """Return when all that was appended would survive a power cut."""

    def read(self) -> bytes:
        """Return the whole content."""

    def truncate(self, size: int) -> None:
        """Cut off all behind the first `size` bytes, durably."""

    def size(self) -> int:
        """Return the bytes appended so far."""

    def replace(self, data: bytes) -> None:
        """Put `data` in the place of the whole content, durably: after a crash either the old or the new is there."""

    def close(self) -> None:
        """Give up the file. Appended but unsynced bytes are left to the kernel."""


class FileDisk:
    """A real file. After a failed sync it refuses to go on until it is opened again or replaced.

    The kernel may drop the pages that it could not write and report the next fdatasync as good, so that only a new read tells
    what is there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        created = not path.exists()
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        if created:
            _sync_directory(path.parent)
        self._size = os.fstat(self._fd).st_size
        self._has_rubbish = False
        self._unsure: OSError | None = None

    def append(self, data: bytes) -> None:
        self._check_sure()
        if self._has_rubbish:
            self._cut_rubbish()
        try:
            _write_all(self._fd, data, self._size)
        except OSError:
            # Half a frame would hide all later ones from the reader.
            self._has_rubbish = True
            self._cut_rubbish()
            raise
        self._size += len(data)

    def sync(self) -> None:
        self._check_sure()
        try:
            os.fdatasync(self._fd)
        except OSError as error:
            self._unsure = error
            raise

    def read(self) -> bytes:
        parts: list[bytes] = []
        at = 0
        while part := os.pread(self._fd, self._size - at, at):
            parts.append(part)
            at += len(part)
        return b"".join(parts)

    def truncate(self, size: int) -> None:
        _check_size(size, self._size, self._path)
        self._check_sure()
        os.ftruncate(self._fd, size)
        self._size = size
        self.sync()

    def size(self) -> int:
        return self._size

    def replace(self, data: bytes) -> None:
        fresh = self._path.with_name(self._path.name + ".new")
        fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
        try:
            _write_all(fd, data, 0)
            os.fsync(fd)
            os.rename(fresh, self._path)
        except OSError:
            os.close(fd)
            fresh.unlink(missing_ok=True)
            raise
        os.close(self._fd)
        self._fd = fd
        self._size = len(data)
        self._has_rubbish = False
        self._unsure = None
        try:
            _sync_directory(self._path.parent)
        except OSError as error:
            self._unsure = error
            raise

    def close(self) -> None:
        os.close(self._fd)

    def _cut_rubbish(self) -> None:
        os.ftruncate(self._fd, self._size)
        self._has_rubbish = False

    def _check_sure(self) -> None:
        if self._unsure is not None:
            text = f"an earlier sync failed ({self._unsure.strerror}), what is on the disk is not known. Open it again"
            raise OSError(errno.EIO, text, str(self._path)) from self._unsure


class MemoryDisk:
    """A disk in memory for simulations: it outlives its node, loses on `crash` what was not synced, and can be full."""

    def __init__(self, *, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        self._data = bytearray()
        self._synced = 0

    def append(self, data: bytes) -> None:
        self._check_room(len(self._data) + len(data))
        self._data += data

    def sync(self) -> None:
        self._synced = len(self._data)

    def read(self) -> bytes:
        return bytes(self._data)

    def truncate(self, size: int) -> None:
        _check_size(size, len(self._data), "memory disk")
        del self._data[size:]
        self.sync()

    def size(self) -> int:
        return len(self._data)

    def replace(self, data: bytes) -> None:
        self._check_room(len(data))
        self._data[:] = data
        self.sync()

    def close(self) -> None:
        """Nothing to give up: the next node opens the same object."""

    def unsynced(self) -> int:
        """Return how many bytes a power cut may take."""
        return len(self._data) - self._synced

    def crash(self, *, keep_unsynced: int = 0) -> None:
        """Cut the power: of the unsynced bytes the first `keep_unsynced` happened to reach the disk."""
        del self._data[self._synced + min(keep_unsynced, self.unsynced()) :]
        self.sync()

    def _check_room(self, size: int) -> None:
        if self.capacity_bytes is not None and size > self.capacity_bytes:
            raise OSError(
                errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: {size} of {self.capacity_bytes} bytes", "memory disk"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """What could be read back."""

    payloads: tuple[bytes, ...]
    good_bytes: int
    """Where the last good frame ends: truncate to here before the next append."""
    torn: bool
    """Something is behind the last good frame: a torn write, or damage."""


def encode_frame(payload: bytes) -> bytes:
    """Return length, CRC-32 and payload. The CRC covers the length too: a tail of zeros is no row of empty frames."""
    if len(payload) > FRAME_LIMIT_BYTES:
        raise ValueError(f"frame: {len(payload)} bytes are over the limit of {FRAME_LIMIT_BYTES} bytes. Split it.")
    return _HEADER.pack(len(payload), _crc(payload)) + payload


def decode_frames(data: bytes) -> Frames:
    """Read frames up to the first bad one. Nothing behind that is believed, since where a frame starts is not known there."""
    payloads: list[bytes] = []
    at = 0
    while len(data) - at >= _HEADER.size:
        length, crc = _HEADER.unpack_from(data, at)
        start = at + _HEADER.size
        if length > FRAME_LIMIT_BYTES or start + length > len(data):
            break
        payload = data[start : start + length]
        if _crc(payload) != crc:
            break
        payloads.append(payload)
        at = start + length
    return Frames(payloads=tuple(payloads), good_bytes=at, torn=at < len(data))


def _crc(payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(_LENGTH.pack(len(payload))))


def _write_all(fd: int, data: bytes, at: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(fd, rest, at)  # writes less than asked for when the disk gets full
        rest = rest[written:]
        at += written


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _check_size(size: int, present: int, where: object) -> None:
    if not 0 <= size <= present:
        raise ValueError(f"{where}: cannot truncate to {size} bytes, it has {present} bytes")
