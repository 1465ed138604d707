"""Files that are this user's alone: how they are made, and those that an older version made for others too."""

import os
import stat
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
OLDER_FOLDER_MODE: Final = 0o750
"""What was made up to version 0.1. A folder with any other mode was made by somebody who wants it so."""
_OTHERS: Final = 0o077


def make_private(folder: Path, patterns: Iterable[str]) -> tuple[str, ...]:
    """Take from group and others what they may do with our files of these names in `folder`, and with the folder where an older version made it.

    Files of other users and links are left. Returns the names of what was changed, `.` for the folder. Raises OSError.
    """
    wanted = tuple(patterns)
    changed = []
    top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in sorted(os.listdir(top)):
            if any(fnmatchcase(name, pattern) for pattern in wanted) and _tighten(name, top):
                changed.append(name)
        found = os.fstat(top)
        if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == OLDER_FOLDER_MODE:
            os.fchmod(top, FOLDER_MODE)
            changed.append(".")
    finally:
        os.close(top)
    return tuple(changed)


def _tighten(name: str, folder: int) -> bool:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or not found.st_mode & _OTHERS:
        return False
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fchmod(fd, stat.S_IMODE(found.st_mode) & ~_OTHERS)
    finally:
        os.close(fd)
    return True
