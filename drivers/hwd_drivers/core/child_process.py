"""Waits for child processes in the event loop, without a thread."""

import asyncio
import os
import subprocess


def end_of(process: "subprocess.Popen[bytes]") -> "asyncio.Future[int]":
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
