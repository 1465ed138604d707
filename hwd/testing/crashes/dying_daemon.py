"""The daemon of `hwd serve` as its own process that dies at a boundary of its journal, by a `Disk` of its own."""

import ctypes
import os
import signal
import sys
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, NoReturn

from typing_extensions import override

from hwd.daemon.process_main import log_to_stderr, run_until_stopped
from hwd.daemon.serve import ServeOptions, serve
from hwd.testing.process import without_hwd
from hwd_drivers.core.disk import Disk, FileDisk
from hwd_drivers.core.errors import HwdError

PR_SET_PDEATHSIG: Final = 1


class Boundary(StrEnum):
    """Where in a write of the journal a daemon dies."""

    BEFORE_WRITE = "before-write"
    """Nothing of it is in the file."""
    TORN = "torn"
    """A part of the frame is in the file."""
    BEFORE_SYNC = "before-sync"
    """The entry is in the file, and not synced."""
    AFTER_SYNC = "after-sync"
    """The entry is synced, and has no answer yet."""


def die() -> NoReturn:
    """Die as by SIGKILL: nothing is flushed, and no answer is sent."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("still alive after SIGKILL")


class DyingDisk(FileDisk):
    """Dies at the write with the number `at`. A rewrite of the whole file is a write too, which cannot be torn."""

    def __init__(self, path: Path, *, boundary: Boundary, at: int, part: float) -> None:
        super().__init__(path)
        self._boundary = boundary
        self._at = at
        self._part = part
        self._writes = 0

    @override
    def append(self, data: bytes) -> None:
        self._writes += 1
        if self._dies(Boundary.BEFORE_WRITE):
            die()
        if self._dies(Boundary.TORN):
            super().append(data[: max(1, int(len(data) * self._part))])
            die()
        super().append(data)

    @override
    def sync(self) -> None:
        if self._dies(Boundary.BEFORE_SYNC):
            die()
        super().sync()
        if self._dies(Boundary.AFTER_SYNC):
            die()

    @override
    def replace(self, data: bytes, *, reserve: int = 0) -> None:
        self._writes += 1
        if self._dies(Boundary.BEFORE_WRITE) or self._dies(Boundary.TORN):
            die()
        super().replace(data, reserve=reserve)
        if self._dies(Boundary.BEFORE_SYNC) or self._dies(Boundary.AFTER_SYNC):
            die()

    def _dies(self, boundary: Boundary) -> bool:
        return self._writes == self._at and self._boundary is boundary


class LosingDisk(DyingDisk):
    """A defect: it says that bytes are appended, and holds them in memory."""

    @override
    def append(self, data: bytes) -> None:
        self._writes += 1
        self._size += len(data)

    @override
    def reserve(self, size: int) -> None:
        self._end = max(self._end, self._size + size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """How the daemon is started, and where it dies.

    `at`: the write since the start, counted from 1; 0: at none. `part`: of a torn write, how much of it is written.
    `loses_writes` is a defect, for the test of the checks.
    """

    options: ServeOptions
    run_dir: str
    log: Path
    boundary: Boundary = Boundary.BEFORE_WRITE
    at: int = 0
    part: float = 0.5
    loses_writes: bool = False


def run(orders: Orders) -> None:
    """The whole life of a process that was forked for it: it ends with the campaign that started it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    with orders.log.open("ab") as words:
        os.dup2(words.fileno(), 1)
        os.dup2(words.fileno(), 2)
    kind = LosingDisk if orders.loses_writes else DyingDisk

    def open_disk(path: Path) -> Disk:
        return kind(path, boundary=orders.boundary, at=orders.at, part=orders.part)

    log_to_stderr(verbose=False)
    try:
        run_until_stopped(serve(orders.options, {**without_hwd(), "HWD_RUN_DIR": orders.run_dir}, open_disk=open_disk))
    except HwdError as error:
        sys.exit(f"hwd: {error.title}: {error}")
