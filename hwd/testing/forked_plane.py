"""Planes that are made by a function of a test, each in a process that is forked from the test's."""

import faulthandler
import os
import signal
import socket
import warnings
from collections.abc import Callable
from typing import BinaryIO

from hwd.config.planes.child import serve
from hwd.config.planes.guard import end_with
from hwd.config.planes.process import MEMORY_BYTES, WITHIN_S, PlaneProcess
from hwd.model.plane import Plane
from hwd.planes.wire import Begin, Kind


class Forked:
    """A process that was forked. It is reaped by `wait`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def wait(self) -> int:
        """Its exit status, negative for a signal."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def forked_plane(
    make: Callable[[], Plane], *, within_s: float = WITHIN_S, memory_bytes: int = MEMORY_BYTES
) -> PlaneProcess:
    """The process of one plane: its code is that of the test as it is now."""

    def start(descriptor: int, output: BinaryIO, memory_bytes: int) -> Forked:
        parent = os.getpid()
        with warnings.catch_warnings():
            # of threads: the child runs this code alone, and no lock of theirs is in it
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            _serve(make, parent, descriptor, output, memory_bytes)
        return Forked(pid)

    return PlaneProcess("of a test", {}, within_s=within_s, memory_bytes=memory_bytes, start=start)


def _serve(make: Callable[[], Plane], parent: int, descriptor: int, output: BinaryIO, memory_bytes: int) -> None:
    """Never returns: the rest of the test is the parent's."""
    try:
        os.setsid()
        faulthandler.disable()  # that of the test
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        end_with(parent)

        def found(begin: Begin) -> tuple[Kind, Callable[[], Plane]]:
            return Kind(arguments=(), demand_s=None), make

        serve(socket.socket(fileno=descriptor), found, memory_bytes)
    finally:
        signal.raise_signal(signal.SIGKILL)
