"""The lock of a host: one roll-out at a time, from its first look to its last word. This file is sent there: it needs nothing but Python.

It is held by a process that lives as long as somebody listens to it: where the connection of a roll-out breaks, or its operator's machine dies, it is free
again. What a file says of the holder is for words only.
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
from typing import Any, Final

from hwd.rollout.onhost.programs import Failure, say

ENDING_ROUNDS: Final = 10
"""So many times a lock is tried, each 0.1 s: a holder whose connection has just ended needs a moment to see it."""
ROUND_MS: Final = 100
BEAT_MS: Final = 10_000
"""How often the holder says that it is there: the kernel gives up a connection whose other end takes none of it, after a quarter of an hour at most."""
MORE_BYTES: Final = 200


def hold(layout: dict[str, str], who: str) -> dict[str, Any]:
    """Keep other roll-outs out until nobody listens any more. Says {held: true}, or {busy: who has it}."""
    with exclusive(os.path.expanduser(layout["lock"]), who) as other:
        if other is not None:
            say(busy=other)
            return {}
        say(held=True)
        beat()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nobody listens to what comes now
    return {}


@contextmanager
def exclusive(path: str, who: str) -> Iterator[str | None]:
    """The lock, or the words of who has it."""
    waiting = select.poll()
    for last in (*[False] * (ENDING_ROUNDS - 1), True):
        fd = _open(path)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if last:
                yield _holder(fd)
                os.close(fd)
                return
            os.close(fd)
            waiting.poll(ROUND_MS)
            continue
        if _is_there(fd, path):
            break
        os.close(fd)  # its holder took it away before we had it
    else:
        raise Failure(f"{path}: comes and goes all the time: others roll out to this host right now. Try again later")
    try:
        os.ftruncate(fd, 0)
        with contextlib.suppress(OSError):  # a full disk takes no words, and keeps nobody from what frees it
            os.write(fd, who.encode()[:MORE_BYTES])
        yield None
    finally:
        os.unlink(path)
        os.close(fd)


def beat() -> None:
    """Say from time to time that we are here, until nobody listens."""
    listener = select.poll()
    listener.register(sys.stdout.fileno(), 0)  # an end of it is always told
    while not listener.poll(BEAT_MS):
        try:
            say(held=True)
        except OSError:
            return


def _open(path: str) -> int:
    """A regular file of ours. Raises Failure for anything else, which is left as it is."""
    remedy = f"It is left alone: look whose it is (ls -l {path}), and take it away where nobody rolls out to this host"
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


def _is_there(fd: int, path: str) -> bool:
    try:
        return os.fstat(fd).st_ino == os.stat(path, follow_symlinks=False).st_ino
    except FileNotFoundError:
        return False


def _holder(fd: int) -> str:
    who = os.pread(fd, MORE_BYTES, 0).decode(errors="replace") or "somebody"
    since = datetime.datetime.fromtimestamp(os.fstat(fd).st_mtime, tz=datetime.UTC)
    return f"{who}, since {since:%Y-%m-%d %H:%M:%S} UTC by the clock of the host"
