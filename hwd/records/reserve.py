"""Disk space reserved beside the records, and released when the disk is full: for recording the ends of the runs that
this fails.
"""

import logging
import os
from pathlib import Path

from hwd_drivers.core.private_files import FILE_MODE
from hwd_drivers.core.reason import reason_of

BYTES = 256 * 1024
"""Some twenty ends of runs: each is a handful of pages in the write-ahead log."""
LEAST_BYTES = 32 * 1024
"""Enough for one end."""

log = logging.getLogger(__name__)


class Reserve:
    """One file of `BYTES`, or of the free space, beside the records. Blocking; called through an Offload.

    The file of an earlier process is used again: the disk may be full when a daemon stops and when the next starts.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held_bytes = path.stat().st_size if path.exists() else 0

    def hold(self) -> None:
        """Reserve what is not reserved yet, as far as there is room. On a full disk that is nothing; the next call
        tries again.
        """
        if self._held_bytes >= BYTES:
            return
        try:
            disk = os.statvfs(self._path.parent)
            size = min(BYTES, self._held_bytes + disk.f_bavail * disk.f_bsize)
            if size < max(LEAST_BYTES, self._held_bytes + 1):
                return
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
            try:
                os.posix_fallocate(descriptor, 0, size)
                self._held_bytes = size
            finally:
                os.close(descriptor)
        except OSError as error:
            log.debug("%s: no more than %d bytes are held: %s", self._path, self._held_bytes, reason_of(error))

    def release(self) -> bool:
        """Release it; False where nothing was reserved."""
        held, self._held_bytes = self._held_bytes > 0, 0
        self._path.unlink(missing_ok=True)
        if held:
            log.warning("%s: released, so that the end of a run can be written", self._path)
        return held
