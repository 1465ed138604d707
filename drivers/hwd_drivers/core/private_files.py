"""Private files: make files that only this user can read, and correct those that older versions made readable."""

import os
import stat
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
OLDER_FOLDER_MODE: Final = 0o750
"""Modes up to version 0.1. A folder with another mode was set so by somebody on purpose."""
_OTHERS: Final = 0o077


def make_private(folder: Path, patterns: Iterable[str]) -> tuple[str, ...]:
    """Remove the access of group and others from our files with these names in `folder`, and from an old folder itself.

    Files of other users and links stay as they are. Returns the names of the changed files, `.` for the folder. Raises
    OSError.
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
