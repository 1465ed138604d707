"""Disk: one append-only file that survives a crash up to its last sync, and the frames that records are kept in."""

import errno
import os
import struct
import threading
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hwd_drivers.core.private_files import FILE_MODE

FRAME_LIMIT_BYTES = 16 * 1024 * 1024
"""The longest payload of a frame. A damaged length would else ask for up to 4 GiB; the longest plan is below 1 MiB."""

SECTOR_BYTES = 512
"""What a disk writes as a whole or not at all; larger ones of today are multiples of it."""

_HEADER = struct.Struct("<II")
_LENGTH_BYTES = 4


class Disk(Protocol):
    """One file with one writer. Every failure is an OSError, a full disk too (ENOSPC), and nothing of a failed append stays."""

    def append(self, data: bytes) -> None:
        """Add `data` at the end. Durable only after `sync`."""

    def sync(self) -> None:
        """Return when all that was appended would survive a power cut."""

    def reserve(self, size: int) -> None:
        """Hold room for `size` more bytes behind what was appended, durably. What is appended into it cannot find the disk full; until then it reads as zeros."""

    def room(self) -> int:
        """Return how many bytes are reserved behind what was appended; none are known of right after opening, where they read as content."""

    def read(self) -> bytes:
        """Return the whole content, and the zeros of what is reserved behind it."""

    def truncate(self, size: int) -> None:
        """Cut off all behind the first `size` bytes, what is reserved too, durably."""

    def rewind(self, size: int) -> None:
        """Make zeros of all behind the first `size` bytes, and hold it as reserved, durably."""

    def size(self) -> int:
        """Return the bytes appended so far."""

    def replace(self, data: bytes, *, reserve: int = 0) -> None:
        """Put `data`, with so many bytes reserved behind it, in the place of the whole content, durably: after a crash either the old or the new is there."""

    def set_aside(self) -> str:
        """Copy the whole content, durably, to a place of its own that nobody but its owner reads and nothing ever writes again; returns its name."""

    def close(self) -> None:
        """Give up the file. Appended but unsynced bytes are left to the kernel."""


class FileDisk:
    """A real file, this user's alone. After a failed sync it refuses to go on until it is opened again or replaced.

    The kernel may drop the pages that it could not write and report the next fdatasync as good, so that only a new read tells
    what is there. `sync` may be called in another thread than all the rest. A file system that never writes in place (btrfs, ZFS) may be
    too full for what is reserved all the same.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        created = not path.exists()
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        if created:
            _sync_directory(path.parent)
        self._size = self._end = os.fstat(self._fd).st_size
        """Where the content ends, and where the file does: what lies between is reserved."""
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
            # Half a frame would hide all later ones from the reader.
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
                if self._fd == ours:  # else another file, which was synced, is in its place
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
            os.ftruncate(self._fd, self._end)  # it may have got a part of it
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
        """A new file beside, under the first name that nobody has."""
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
            text = f"an earlier sync failed ({self._unsure.strerror}), what is on the disk is not known. Open it again"
            raise OSError(errno.EIO, text, str(self._path)) from self._unsure


class MemoryDisk:
    """A disk in memory for simulations: it outlives its node, loses on `crash` what was not synced, can be full, and can fail."""

    def __init__(self, *, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        self.asides: list[bytes] = []
        self.refusal: tuple[int, int] | None = None
        """An error number, and how many more calls that write come before all those that fail with it."""
        self._data = bytearray()
        self._end = self._synced = self._held = 0
        """Where the content ends; how far it is synced; and how long the file is after a power cut at the least."""

    def append(self, data: bytes) -> None:
        self._check_refusal()
        end = self._end + len(data)
        if end > len(self._data):
            self._check_room(end)
        self._data[self._end : end] = data
        self._end = end

    def sync(self) -> None:
        self._check_refusal()
        self._keep()

    def reserve(self, size: int) -> None:
        if self.room() < size:
            self._check_refusal()
            self._check_room(self._end + size)
            self._data += bytes(size - self.room())
            self._keep()

    def room(self) -> int:
        return len(self._data) - self._end

    def read(self) -> bytes:
        return bytes(self._data)

    def truncate(self, size: int) -> None:
        _check_size(size, self._end, "memory disk")
        self._check_refusal()
        del self._data[size:]
        self._end = size
        self._keep()

    def rewind(self, size: int) -> None:
        _check_size(size, self._end, "memory disk")
        self._check_refusal()
        was_there = any(self._data[size:])
        self._data[size:] = bytes(len(self._data) - size)
        self._end = size
        self._synced = min(self._synced, size)
        if was_there:
            self._keep()

    def size(self) -> int:
        return self._end

    def replace(self, data: bytes, *, reserve: int = 0) -> None:
        self._check_refusal()
        self._check_room(len(data) + reserve)
        self._data[:] = data + bytes(reserve)
        self._end = len(data)
        self._keep()

    def set_aside(self) -> str:
        self._check_refusal()
        self.asides.append(self.read())
        return f"memory disk, copy {len(self.asides)}"

    def close(self) -> None:
        """Nothing to give up: the next node opens the same object, and what is reserved is content to it."""
        self._end = len(self._data)

    def unsynced(self) -> int:
        """Return how many bytes a power cut may take."""
        return self._end - self._synced

    def crash(self, *, keep_unsynced: int = 0, keep_sectors: Iterable[int] = ()) -> None:
        """Cut the power: of the unsynced bytes the first `keep_unsynced` happened to reach the disk, and those in `keep_sectors`, numbers of sectors of the file:
        what one sync writes is in no order."""
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

    def _check_refusal(self) -> None:
        if self.refusal is None:
            return
        number, left = self.refusal
        if left <= 0:
            raise OSError(number, os.strerror(number), "memory disk")
        self.refusal = (number, left - 1)

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
    """Where the frames that follow each other from the beginning end: truncate to here before the next append."""
    torn: bool
    """Something is behind the last good frame: a torn write, or damage."""
    damaged_bytes: int = 0
    """What cannot be read, apart from an unfinished frame at the end."""
    end_bytes: int = 0
    """Where that unfinished frame begins; the size of it all where there is none."""
    read_bytes: int = 0
    """Where the last frame ends that could be read."""


def encode_frame(payload: bytes) -> bytes:
    """Return length, CRC-32 and payload. The CRC covers the length too: a tail of zeros is no row of empty frames."""
    if len(payload) > FRAME_LIMIT_BYTES:
        raise ValueError(f"frame: {len(payload)} bytes are over the limit of {FRAME_LIMIT_BYTES} bytes. Split it.")
    return _HEADER.pack(len(payload), _crc(payload)) + payload


def decode_frames(data: bytes, *, resume: bytes = b"") -> Frames:
    """Read frames up to the first bad one. Nothing behind that is believed, since where a frame starts is not known there.

    With `resume`, what every payload of that file begins with, reading goes on behind damage at the next place where a good frame begins so. A frame whose
    checksum is right for all that stands there has a damaged length only: it is read, and is no unfinished one.
    """
    payloads: list[bytes] = []
    at = damaged_bytes = 0
    good_bytes = -1
    while True:
        while (payload := _payload(data, at)) is not None:
            payloads.append(payload)
            at += _HEADER.size + len(payload)
        if good_bytes < 0:
            good_bytes = at
        if not resume:
            break
        found = _next_frame(data, at + 1, resume)
        until = len(data) if found is None else found
        if (payload := _payload_until(data, at, until)) is not None:
            payloads.append(payload)
            damaged_bytes += _LENGTH_BYTES
        elif found is None:
            break
        else:
            damaged_bytes += found - at
        at = until
    unfinished = _is_unfinished(data, at)
    if not unfinished:
        damaged_bytes += len(data) - at
    return Frames(
        payloads=tuple(payloads),
        good_bytes=good_bytes,
        torn=good_bytes < len(data),
        damaged_bytes=damaged_bytes,
        end_bytes=at if unfinished else len(data),
        read_bytes=at,
    )


def _payload(data: bytes, at: int) -> bytes | None:
    """What the frame at `at` holds; None where there is no good one."""
    if len(data) - at < _HEADER.size:
        return None
    length, crc = _HEADER.unpack_from(data, at)
    start = at + _HEADER.size
    if length > FRAME_LIMIT_BYTES or start + length > len(data):
        return None
    payload = data[start : start + length]
    return payload if _crc(payload) == crc else None


def _payload_until(data: bytes, at: int, until: int) -> bytes | None:
    """What the frame at `at` holds where it ends at `until`, whatever length it tells; None where it does not."""
    if until - at <= _HEADER.size:
        return None
    _, crc = _HEADER.unpack_from(data, at)
    payload = data[at + _HEADER.size : until]
    return payload if len(payload) <= FRAME_LIMIT_BYTES and _crc(payload) == crc else None


def _next_frame(data: bytes, at: int, begins: bytes) -> int | None:
    """Where the first good frame from `at` on begins whose payload begins with `begins`."""
    start = data.find(begins, at + _HEADER.size)
    while start >= 0:
        if _payload(data, start - _HEADER.size) is not None:
            return start - _HEADER.size
        start = data.find(begins, start + 1)
    return None


def _is_unfinished(data: bytes, at: int) -> bool:
    """Whether what is left at `at` is the beginning of a frame: shorter than its header says, or than a header."""
    left = len(data) - at
    if left < _HEADER.size:
        return True
    length, _ = _HEADER.unpack_from(data, at)
    return bool(left - _HEADER.size < length <= FRAME_LIMIT_BYTES)


def _crc(payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(len(payload).to_bytes(4, "little")))


def _write_all(fd: int, data: bytes, at: int) -> None:
    written = os.pwrite(fd, data, at)
    while written < len(data):  # so it is when the disk gets full
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
