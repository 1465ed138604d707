"""Locks on files (flock) that tell one holder of a folder from the next, and what a file system without locks says."""

import errno
import fcntl
from pathlib import Path
from typing import Final

from hwd_drivers.core.errors import ConfigError

WITHOUT_LOCKS: Final = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})
"""Errors of a file system that has no locks: ENOLCK is that of NFS without a lock service."""


def take_lock(fd: int, path: Path, *, remedy: str, shared: bool = False) -> None:
    """Lock the open file `path` until `fd` is closed; it does not wait.

    Raises BlockingIOError where another process holds it, ConfigError with the `remedy` where it cannot be locked.
    """
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError as error:
        why = " (its file system has no locks, as NFS without a lock service)" if error.errno in WITHOUT_LOCKS else ""
        raise ConfigError(f"{path}: cannot be locked: {error.strerror}{why}. {remedy}") from error
