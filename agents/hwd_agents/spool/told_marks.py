"""ToldMarks: the marks of what the daemon holds, put down where the disk has room for nothing else."""

import logging
import os
import struct
import zlib
from pathlib import Path
from typing import Any, Final

import msgspec

from hwd_agents.spool.disk_trouble import next_step
from hwd_drivers.core.private_files import FILE_MODE
from hwd_drivers.core.reason import reason_of

SLOT_BYTES: Final = 4096
SLOTS: Final = 2
"""In turns: the one before stays whole while the next is written."""

_HEADER: Final = struct.Struct("<IQI")  # CRC-32 of the rest, number, length of the JSON that follows

_log = logging.getLogger(__name__)


class _Told(msgspec.Struct, frozen=True, kw_only=True):
    clock: str
    marks: dict[str, dict[str, Any]]


class ToldMarks:
    """A file beside the spool's, of a fixed size that it takes at once.

        told = ToldMarks(path, clock_name=name)
        told.keep({"link:eth0": mark})

    On a full disk events are sent from memory, and the spool's file stays behind: a next life that counted from its marks would tell again what the daemon
    holds. `marks` are those that an earlier life by the same clock kept. It is never synced, as after the machine's death its counters are others.
    """

    def __init__(self, path: Path, *, clock_name: str) -> None:
        """Raises OSError, also where there is no room for it."""
        self._path = path
        self._clock_name = clock_name
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            self._number, told = self._read()
            if os.fstat(self._fd).st_size < SLOTS * SLOT_BYTES:
                os.posix_fallocate(self._fd, 0, SLOTS * SLOT_BYTES)
        except OSError:
            os.close(self._fd)
            raise
        self.marks: dict[str, dict[str, Any]] = dict(told.marks) if told.clock == clock_name != "" else {}

    def keep(self, marks: dict[str, dict[str, Any]]) -> None:
        """The daemon holds what these tell, beside what it held before. Where they are too many, or the disk fails, that is said."""
        self._put(self.marks | marks)

    def forget(self) -> None:
        """The spool has them all: what it says from now on is later."""
        if self.marks:
            self._put({})

    def close(self) -> None:
        """Give up the file."""
        os.close(self._fd)

    def _put(self, marks: dict[str, dict[str, Any]]) -> None:
        json = msgspec.json.encode(_Told(clock=self._clock_name, marks=marks))
        if _HEADER.size + len(json) > SLOT_BYTES:
            _log.warning(
                "%s: cannot keep %d marks: they take %d bytes of %d", self._path, len(marks), len(json), SLOT_BYTES
            )
            return
        self.marks = marks
        self._number += 1
        rest = _HEADER.pack(0, self._number, len(json))[4:] + json
        try:
            os.pwrite(self._fd, zlib.crc32(rest).to_bytes(4, "little") + rest, self._number % SLOTS * SLOT_BYTES)
        except OSError as error:
            _log.warning("%s: cannot write: %s. %s", self._path, error.strerror, next_step(error))

    def _read(self) -> tuple[int, _Told]:
        """The last that is whole, and its number."""
        last = 0, _Told(clock="", marks={})
        for slot in range(SLOTS):
            data = os.pread(self._fd, SLOT_BYTES, slot * SLOT_BYTES)
            if len(data) < _HEADER.size:
                continue
            check, number, size = _HEADER.unpack_from(data)
            json = data[_HEADER.size : _HEADER.size + size]
            if zlib.crc32(data[4 : _HEADER.size] + json) != check or number <= last[0]:
                continue
            try:
                last = number, msgspec.json.decode(json, type=_Told)
            except msgspec.MsgspecError as error:  # of another version
                _log.warning("%s: %s", self._path, reason_of(error))
        return last
