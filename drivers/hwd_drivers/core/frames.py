"""Frames: the records of a file, each with its length and checksum, and how they are read back after a crash."""

import struct
import zlib
from dataclasses import dataclass

FRAME_LIMIT_BYTES = 16 * 1024 * 1024
"""The longest payload of a frame. A damaged length could otherwise ask for 4 GiB; the longest plan is below 1 MiB."""

_HEADER = struct.Struct("<II")
_LENGTH_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """The result of reading frames back."""

    payloads: tuple[bytes, ...]
    good_bytes: int
    """End of the frames that follow each other from the beginning: truncate to here before the next append."""
    torn: bool
    """There are bytes after the last good frame: a torn write, or damage."""
    damaged_bytes: int = 0
    """The number of bytes that cannot be read, without an unfinished frame at the end."""
    end_bytes: int = 0
    """The place where that unfinished frame begins; the size of the data where there is none."""
    read_bytes: int = 0
    """End of the last frame that could be read."""


def encode_frame(payload: bytes) -> bytes:
    """Return length, CRC-32 and payload. The CRC covers the length too, so that zeros do not read as empty frames."""
    if len(payload) > FRAME_LIMIT_BYTES:
        raise ValueError(f"frame: {len(payload)} bytes are over the limit of {FRAME_LIMIT_BYTES} bytes. Split it.")
    return _HEADER.pack(len(payload), _crc(payload)) + payload


def decode_frames(data: bytes, *, resume: bytes = b"") -> Frames:
    """Read frames up to the first bad one. Later bytes are not used, since the start of the next frame is unknown.

    With `resume`, the bytes that every payload of the file begins with, reading continues after damage at the next good
    frame whose payload begins so. Where only the length of a frame is damaged, and its checksum fits all bytes up to
    the next frame, the frame is read and does not count as unfinished.
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
    """The payload of the frame at `at`; None where there is no good frame."""
    if len(data) - at < _HEADER.size:
        return None
    length, crc = _HEADER.unpack_from(data, at)
    start = at + _HEADER.size
    if length > FRAME_LIMIT_BYTES or start + length > len(data):
        return None
    payload = data[start : start + length]
    return payload if _crc(payload) == crc else None


def _payload_until(data: bytes, at: int, until: int) -> bytes | None:
    """The payload of the frame at `at` if it ends at `until`, whatever its length field; None where it does not."""
    if until - at <= _HEADER.size:
        return None
    _, crc = _HEADER.unpack_from(data, at)
    payload = data[at + _HEADER.size : until]
    return payload if len(payload) <= FRAME_LIMIT_BYTES and _crc(payload) == crc else None


def _next_frame(data: bytes, at: int, begins: bytes) -> int | None:
    """The start of the first good frame from `at` on whose payload begins with `begins`."""
    start = data.find(begins, at + _HEADER.size)
    while start >= 0:
        if _payload(data, start - _HEADER.size) is not None:
            return start - _HEADER.size
        start = data.find(begins, start + 1)
    return None


def _is_unfinished(data: bytes, at: int) -> bool:
    """Whether the bytes from `at` on are an incomplete frame: shorter than its header says, or than a header."""
    left = len(data) - at
    if left < _HEADER.size:
        return True
    length, _ = _HEADER.unpack_from(data, at)
    return bool(left - _HEADER.size < length <= FRAME_LIMIT_BYTES)


def _crc(payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(len(payload).to_bytes(4, "little")))
