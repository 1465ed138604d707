"""The true times of a twin's changes, as the reference for measurements."""

import contextlib
import errno
import json
import logging
import os
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Final

from hwd.model.nic_port import NicPortId
from hwd.twin.nic import What

LIMIT_BYTES: Final = 16 * 1024 * 1024
"""The most bytes of one file; about 100 bytes a change. One older file is kept."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """A true time: `what` of `port` rose or fell between two stamps, `Clock.monotonic_ns` of the rack's machine."""

    port: NicPortId
    what: What
    up: bool
    before_ns: int
    after_ns: int

    def __str__(self) -> str:
        """One line of JSON."""
        fields = {
            "port": self.port,
            "what": self.what,
            "up": self.up,
            "before_ns": self.before_ns,
            "after_ns": self.after_ns,
        }
        return json.dumps(fields)


class TruthFile:
    """Truths as JSON lines in `path`; at `limit_bytes` that file becomes `<path>.1`, in place of the one before.

    with TruthFile(run_dir / "truth.jsonl") as truths:
        rack = TwinRack(..., truth=truths)

    What cannot be written, as on a full disk, is lost; the rack goes on.
    """

    def __init__(self, path: Path, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._path = path
        self._limit_bytes = limit_bytes
        self._file: FileIO | None = None
        self._is_closed = False
        self._size = 0
        self._is_cut = False
        """Whether the file ends with a part of a line."""
        self._is_in_trouble = False

    def __enter__(self) -> "TruthFile":
        """Raises OSError."""
        self._open()
        return self

    def __call__(self, truth: Truth) -> None:
        if self._is_closed:
            return  # a rack that is closing
        try:
            self._write(f"{truth}\n".encode())
        except OSError as error:
            if not self._is_in_trouble:
                log.warning("%s: true times are lost: it cannot be written: %s", self._path, error.strerror)
            self._is_in_trouble = True
        else:
            if self._is_in_trouble:
                log.info("%s: it is written again", self._path)
            self._is_in_trouble = False

    def restore(self) -> bool:
        """Begin a new file where a clean-up has removed it; True where that was so. Raises OSError."""
        if self._is_closed or os.path.lexists(self._path):
            return False
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._open()
        return True

    def __exit__(self, *error: object) -> None:
        self._is_closed = True
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> None:
        file = FileIO(self._path, "w")
        if self._file is not None:
            self._file.close()
        self._file, self._size, self._is_cut = file, 0, False

    def _write(self, line: bytes) -> None:
        if self._file is None or self._size >= self._limit_bytes:
            with contextlib.suppress(FileNotFoundError):  # a clean-up was here
                self._path.replace(self._path.with_name(f"{self._path.name}.1"))
            self._open()
        assert self._file is not None
        text = b"\n" + line if self._is_cut else line
        written = self._file.write(text)
        self._size += written
        self._is_cut = written < len(text)
        if self._is_cut:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
