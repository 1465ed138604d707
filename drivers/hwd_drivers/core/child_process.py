"""Waits for child processes in the event loop, without a thread."""

import asyncio
import os
from typing import Protocol


class Child(Protocol):
    """A process that was started: one of `subprocess`, or one that was forked."""

    @property
    def pid(self) -> int: ...

    def wait(self) -> int:
        """Wait for its end, and reap it. Its exit status, negative for a signal."""
        ...


def end_of(process: Child) -> "asyncio.Future[int]":
    """Its exit status, negative for a signal, when it has ended and was reaped. Call it once for a process."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()
    pidfd = os.pidfd_open(process.pid)

    def reap() -> None:
        loop.remove_reader(pidfd)
        os.close(pidfd)
        status = process.wait()
        if not ended.cancelled():
            ended.set_result(status)

    loop.add_reader(pidfd, reap)
    return ended
