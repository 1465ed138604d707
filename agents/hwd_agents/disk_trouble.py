"""What to do about a file system that refuses, by the number of its error, and about a file that is damaged."""

import errno
from typing import Final

from hwd_drivers.kit.disk import Disk

NEXT_STEPS: Final = {
    errno.ENOSPC: "Free space on its file system",
    errno.EDQUOT: "Give its user more room",
    errno.EACCES: "Give it to the user that the agent runs as: chown -R",
    errno.EROFS: "Mount its file system writable again; the kernel's log says why it is not",
    errno.EIO: "Look at its disk; the kernel's log says what is wrong with it",
}


def next_step(error: OSError) -> str:
    """One sentence, without its full stop."""
    return NEXT_STEPS.get(error.errno or 0, "Look at its file system")


def set_aside(disk: Disk) -> str:
    """Keep a damaged file beside, and say where, as the end of a sentence."""
    try:
        return f"; what it was is kept as {disk.set_aside()}"
    except OSError as error:
        return f"; it cannot be kept beside: {error.strerror or error}"
