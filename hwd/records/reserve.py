"""Room that is held on the disk of the records, and given up when there is none left: for saying how the runs ended that this fails."""

import logging
import os
from pathlib import Path

BYTES = 256 * 1024
"""Some twenty ends of runs: each is a handful of pages in the write-ahead log."""

log = logging.getLogger(__name__)


class Reserve:
    """One file of `BYTES`, beside the records. Blocking; called through an Offload."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held = False

    def hold(self) -> None:
        """Take the room where it is not held. On a disk without room nothing is held; it is tried again at the next call."""
        if self._held:
            return
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o640)
            try:
                os.posix_fallocate(descriptor, 0, BYTES)
                self._held = True
            finally:
                os.close(descriptor)
        except OSError as error:
            log.debug("%s: no reserve is held: %s", self._path, error)
            self._path.unlink(missing_ok=True)

    def release(self) -> bool:
        """Give it up; False where nothing was held."""
        held, self._held = self._held, False
        if held:
            self._path.unlink(missing_ok=True)
            log.warning("%s: given up, so that the end of a run can be written", self._path)
        return held
