"""Disk: one append-only file that survives a crash up to its last sync, and the frames that records are kept in."""

import errno
import os
import struct
import threading
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

FRAME_LIMIT_BYTES = 16 * 1024 * 1024
"""The longest payload of a frame. A damaged length would else ask for up to 4 GiB; the longest plan is below 1 MiB."""

_HEADER = struct.Struct("<II")


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
    what is there. `sync` may be called in another thread than all the rest.
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
        self._swapping = threading.Lock()

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
        with self._swapping:
            old, self._fd = self._fd, fd
            self._size = len(data)
            self._has_rubbish = False
            self._unsure = None
        os.close(old)
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
    """Where the frames that follow each other from the beginning end: truncate to here before the next append."""
    torn: bool
    """Something is behind the last good frame: a torn write, or damage."""
    damaged_bytes: int = 0
    """What cannot be read, apart from an unfinished frame at the end."""
    end_bytes: int = 0
    """Where that unfinished frame begins; the size of it all where there is none."""


def encode_frame(payload: bytes) -> bytes:
    """Return length, CRC-32 and payload. The CRC covers the length too: a tail of zeros is no row of empty frames."""
    if len(payload) > FRAME_LIMIT_BYTES:
        raise ValueError(f"frame: {len(payload)} bytes are over the limit of {FRAME_LIMIT_BYTES} bytes. Split it.")
    return _HEADER.pack(len(payload), _crc(payload)) + payload


def decode_frames(data: bytes, *, resume: bytes = b"") -> Frames:
    """Read frames up to the first bad one. Nothing behind that is believed, since where a frame starts is not known there.

    With `resume`, what every payload of that file begins with, reading goes on behind damage at the next place where a good frame begins so.
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
        if not resume or (found := _next_frame(data, at + 1, resume)) is None:
            break
        damaged_bytes += found - at
        at = found
    unfinished = _is_unfinished(data, at)
    if not unfinished:
        damaged_bytes += len(data) - at
    return Frames(
        payloads=tuple(payloads),
        good_bytes=good_bytes,
        torn=good_bytes < len(data),
        damaged_bytes=damaged_bytes,
        end_bytes=at if unfinished else len(data),
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
