"""Remedies for errors of a file system, by their number, and for damaged files."""

import errno
from typing import Final

from hwd_drivers.core.disk import Disk
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.reason import reason_of

NEXT_STEPS: Final = {
    errno.ENOSPC: "Free space on its file system",
    errno.EDQUOT: "Give its user more room",
    errno.EACCES: "Give it to the user that the agent runs as: chown -R",
    errno.EROFS: "Mount its file system writable again; the kernel's log says why it is not",
    errno.EIO: "Look at its disk; the kernel's log says what is wrong with it",
}


def next_step(error: OSError) -> str:
    """The remedy as one sentence, without its full stop."""
    return NEXT_STEPS.get(error.errno or 0, "Look at its file system")


def read(disk: Disk, *, what: str, without: str) -> bytes:
    """Read all of it. Raises ConfigError when that fails; `without` says what is lost if the file is moved away."""
    try:
        return disk.read()
    except OSError as error:
        raise ConfigError(
            f"{error.filename or what}: {what} cannot be read: {reason_of(error)}. {next_step(error)}. "
            f"Copy its folder to another disk, then move the file away and restart the agent: {without}"
        ) from error


def set_aside(disk: Disk) -> str:
    """Move a damaged file aside, and say where, as the end of a sentence."""
    try:
        return f"; its content is stored as {disk.set_aside()}"
    except OSError as error:
        return f"; it cannot be set aside: {error.strerror or error}"
