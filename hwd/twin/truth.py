"""The true times of a twin's changes, as the reference for measurements."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from hwd.model.nic_port import NicPortId
from hwd.twin.nic import What

LIMIT_BYTES: Final = 16 * 1024 * 1024
"""Of one file; about 100 bytes a change. One older file is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """`what` of `port` rose or fell between the two stamps, `Clock.monotonic_ns` of the rack's machine."""

    port: NicPortId
    what: What
    up: bool
    before_ns: int
    after_ns: int

    def __str__(self) -> str:
        """One line of JSON."""
        fields = {
            "port": str(self.port),
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
    """

    def __init__(self, path: Path, *, limit_bytes: int = LIMIT_BYTES) -> None:
        self._path = path
        self._limit_bytes = limit_bytes
        self._file: TextIO | None = None

    def __enter__(self) -> "TruthFile":
        self._file = self._path.open("w", buffering=1)
        return self

    def __call__(self, truth: Truth) -> None:
        if self._file is None:
            return  # a rack that is closing
        self._file.write(f"{truth}\n")
        if self._file.tell() >= self._limit_bytes:
            self._file.close()
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
            self._file = self._path.open("w", buffering=1)

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
