"""NoticePad: what the kernel said of changed carriers, put down as it came, for the life after one that dies before it could put down their events."""

import logging
import os
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hwd_agents.spool.disk_trouble import next_step
from hwd_drivers.core.private_files import FILE_MODE

SLOT_BYTES: Final = 1024
SLOTS: Final = 16
"""More than come in a turn of the loop as a rule: the oldest goes first, and what it told is then counted by the next."""
RAW_MOST_BYTES: Final = 800
"""Of a notice of some 1,500 bytes. The kernel tells of state and counts first; even with the longest alias they end before byte 600."""
ROOM_BYTES: Final = 64 * 1024
NAME_MOST_BYTES: Final = 90
"""Of the names of a clock and of a life, each; they are a UUID and some words."""

_CHECK: Final = struct.Struct("<I")
"""Adler-32 of the rest of the slot: it needs no table, which would have to be fetched first."""
_HEADER: Final = struct.Struct(f"<QqI{NAME_MOST_BYTES + 1}p{NAME_MOST_BYTES + 1}p")
"""What `_STAMP` has, clock and life; the notice follows."""
_STAMP: Final = struct.Struct("<QqI")
"""Number, stamp, length of the notice. A clock that is set apart may show less than nothing."""
_RAW_AT: Final = _CHECK.size + _HEADER.size

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """The first `RAW_MOST_BYTES` of what the kernel said at `at_ns` of the clock of that name, in that life of its counters."""

    clock: str
    life: str
    at_ns: int
    raw: bytes


class NoticePad:
    """A file beside the spool's, of a fixed size that it takes at once: a full disk does not keep it from taking notices, nor do they take room from events.

        pad = NoticePad(path, clock_name=name)
        pad.begin(life)
        size = socket.recv_into(pad.room)
        pad.put(clock.monotonic_ns(), size)
        pad.keep()

    What is put is received where it is written from: nothing is on the disk before `put` is through, so that it does little.
    Like the spool it survives the death of its process, whatever kills it. It is never synced: after the machine's, its clock is another one.
    Whether a notice was told already is for the marks of the spool to say.
    """

    def __init__(self, path: Path, *, clock_name: str) -> None:
        """Raises OSError, also where there is no room for it."""
        self._path = path
        self._clock_name = clock_name
        self._failing = False
        self._buffer = bytearray(_RAW_AT + ROOM_BYTES)
        self._slot = memoryview(self._buffer)[:SLOT_BYTES]
        self._checked = self._slot[_CHECK.size :]
        self.room = memoryview(self._buffer)[_RAW_AT:]
        """Where a notice is received."""
        self.begin("")
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            found = _read(self._fd)
            if os.fstat(self._fd).st_size < SLOTS * SLOT_BYTES:
                _fill(self._fd)
        except OSError:
            os.close(self._fd)
            raise
        self._number = max(found, default=0) + 1
        self.notices = [found[number] for number in sorted(found) if found[number].clock == clock_name != ""]
        """What earlier lives by the same clock put down, in its order."""

    def begin(self, life: str) -> None:
        """What is put from now on is of that life of the counters."""
        _HEADER.pack_into(self._buffer, _CHECK.size, 0, 0, 0, self._clock_name.encode(), life.encode())

    def put(self, at_ns: int, size: int) -> None:
        """Put down the `size` bytes that are in the room, in place of what was put and not kept. A disk that fails is said once: the event, which follows, says what that means."""
        number = self._number
        _STAMP.pack_into(self._buffer, _CHECK.size, number, at_ns, size)
        _CHECK.pack_into(self._buffer, 0, zlib.adler32(self._checked))
        try:
            os.pwrite(self._fd, self._slot, number % SLOTS * SLOT_BYTES)
        except OSError as error:
            if not self._failing:
                _log.warning("%s: cannot write: %s. %s", self._path, error.strerror, next_step(error))
            self._failing = True
        else:
            self._failing = False

    def keep(self) -> None:
        """What is put next is put beside it."""
        self._number += 1

    def close(self) -> None:
        """Give up the file."""
        os.close(self._fd)


def _read(fd: int) -> dict[int, Notice]:
    """What stands in the slots, by number. One that was never finished, or was damaged, is left out."""
    found = {}
    for slot in range(SLOTS):
        data = os.pread(fd, SLOT_BYTES, slot * SLOT_BYTES)
        if len(data) < SLOT_BYTES or _CHECK.unpack_from(data)[0] != zlib.adler32(data[_CHECK.size :]):
            continue
        number, at_ns, size, clock, life = _HEADER.unpack_from(data, _CHECK.size)
        found[number] = Notice(
            clock=clock.decode(errors="replace"),
            life=life.decode(errors="replace"),
            at_ns=at_ns,
            raw=data[_RAW_AT : _RAW_AT + min(size, RAW_MOST_BYTES)],
        )
    return found


def _fill(fd: int) -> None:
    """Take the room for good, or none."""
    os.ftruncate(fd, 0)
    empty = bytes(SLOTS * SLOT_BYTES)
    try:
        if (written := os.pwrite(fd, empty, 0)) < len(empty):
            os.pwrite(fd, empty[written:], written)
    except OSError:
        os.ftruncate(fd, 0)
        raise
