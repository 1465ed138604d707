"""ProcessorPressure: how long tasks of this machine wait for a processor, as the kernel counts it."""

import os
from typing import Final

PRESSURE: Final = "/proc/pressure/cpu"
"""Pressure stall information (Documentation/accounting/psi.rst in the kernel's tree): `some ... total=`, in us."""
LOAD: Final = "/proc/loadavg"
"""Its fourth field: how many tasks are ready to run now, and how many there are (proc(5))."""
SLICE_NS: Final = 4_000_000
"""The time slice of a task where others are ready to run: 2.8 to 4 ms on two processors and more, in ticks of 4 ms."""


class ProcessorPressure:
    """The reader of processor pressure and load from two open files: 10 us and 3 us a read on two processors."""

    def __init__(self, *, path: str = PRESSURE, load: str = LOAD) -> None:
        self._pressure, self._load = _opened(path), _opened(load)
        self._processors = os.cpu_count() or 1

    def waited_ns(self) -> int | None:
        """The time until now in which some task waited, at most; None where the kernel does not say it.

        The kernel's figure is a mean over its processors, weighted by how busy each was: on one of them the wait may
        have been as many times longer.
        """
        line = _read(self._pressure).partition(b"\n")[0]
        total = line.rpartition(b"total=")[2]
        return int(total) * 1000 * self._processors if total.isdigit() else None

    def round_ns(self) -> int | None:
        """How long it takes until each task that is ready now has had its time slice; None where it is not known."""
        fields = _read(self._load).split()
        ready = fields[3].partition(b"/")[0] if len(fields) > 3 else b""
        return int(ready) * SLICE_NS // self._processors if ready.isdigit() else None

    def close(self) -> None:
        for each in (self._pressure, self._load):
            if each is not None:
                os.close(each)
        self._pressure = self._load = None


def _opened(path: str) -> int | None:
    """Open a file; None where the kernel does not have it, or a container hides it."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _read(file: int | None) -> bytes:
    """Empty where it cannot be read, as with `psi=0`."""
    try:
        return b"" if file is None else os.pread(file, 128, 0)
    except OSError:
        return b""
