"""The lock of a host: one roll-out at a time. This file is sent there: it needs nothing but Python.

A process holds it as long as its output is read: where the connection of a roll-out breaks, or its operator's machine
crashes, it is released. The holder in the file is for messages only.
"""

import contextlib
import datetime
import errno
import fcntl
import os
import select
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from hwd.rollout.onhost.programs import Failure, say

ENDING_ROUNDS: Final = 10
"""Attempts to take a lock, 0.1 s apart: a holder whose connection has just ended needs a moment to notice it."""
ROUND_MS: Final = 100
BEAT_MS: Final = 10_000
"""How often the holder writes a sign of life: the kernel gives up a connection whose other end acknowledges none of it,
after a quarter of an hour at most.
"""
MORE_BYTES: Final = 200
WITHOUT_LOCKS: Final = (
    "A file system such as NFS without a lock service has none: start that service (rpc-statd) on this host, or roll "
    "out to a folder on a local disk"
)


def hold(layout: dict[str, str], who: str) -> dict[str, Any]:
    """Exclude other roll-outs until the output is no longer read. Prints {held: true}, or {busy: the holder}."""
    with exclusive(os.path.expanduser(layout["lock"]), who) as other:
        if other is not None:
            say(busy=other)
            return {}
        say(held=True)
        beat()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the output is not read any more
    return {}


@contextmanager
def exclusive(path: str, who: str) -> Iterator[str | None]:
    """Take the lock at `path`: yields None with the lock, or the description of its holder."""
    waiting = select.poll()
    for last in (*[False] * (ENDING_ROUNDS - 1), True):
        fd = _open(path)
        if not try_lock(fd, path):
            if last:
                yield _holder(fd)
                os.close(fd)
                return
            waiting.poll(ROUND_MS)
        elif is_there(fd, path):
            break
        os.close(fd)  # of another one, or its holder removed it before we had it
    else:
        raise Failure(f"{path}: appears and disappears: others roll out to this host right now. Try again later")
    try:
        os.ftruncate(fd, 0)
        with contextlib.suppress(OSError):  # a full disk takes no text, and must not block what frees it
            os.write(fd, who.encode()[:MORE_BYTES])
        yield None
    finally:
        os.unlink(path)
        os.close(fd)


def try_lock(fd: int, path: str | Path) -> bool:
    """Whether nobody else has the lock. Raises Failure where there are no locks."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise Failure(f"{path}: cannot be locked: {error.strerror}. {WITHOUT_LOCKS}") from None
    return True


def beat() -> None:
    """Write a sign of life from time to time, until the output is no longer read."""
    listener = select.poll()
    listener.register(sys.stdout.fileno(), 0)  # its end is always reported
    while not listener.poll(BEAT_MS):
        try:
            say(held=True)
        except OSError:
            return


def _open(path: str) -> int:
    """Open a regular file of ours. Raises Failure for anything else, which is left as it is."""
    remedy = f"It is left alone: check its owner (ls -l {path}), and remove it where nobody rolls out to this host"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        why = f"is a link to {os.readlink(path)}" if os.path.islink(path) else f"cannot be opened: {error.strerror}"
        raise Failure(f"{path}: {why}, and the lock of roll-outs is to be there. {remedy}") from None
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
        return fd
    os.close(fd)
    why = f"belongs to the user with id {found.st_uid}" if stat.S_ISREG(found.st_mode) else "is no regular file"
    raise Failure(f"{path}: {why}, and the lock of roll-outs is to be there. {remedy}")


def is_there(fd: int, path: str | Path) -> bool:
    """Whether what was opened still has this name."""
    try:
        return os.fstat(fd).st_ino == os.stat(path, follow_symlinks=False).st_ino
    except FileNotFoundError:
        return False


def _holder(fd: int) -> str:
    who = os.pread(fd, MORE_BYTES, 0).decode(errors="replace") or "somebody"
    since = datetime.datetime.fromtimestamp(os.fstat(fd).st_mtime, tz=datetime.UTC)
    return f"{who}, since {since:%Y-%m-%d %H:%M:%S} UTC by the clock of the host"
