"""The folder of a host that a roll-out copies to. This file is sent there: it needs nothing but Python.

It is where only root, or the owner of the prefix, can create files: nobody else can take its name or redirect it.
"""

import contextlib
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Any

from hwd.rollout.onhost.programs import Failure, say


def stage(layout: dict[str, str], user: int) -> dict[str, Any]:
    """Make a new folder that only `user`, who copies, and root can read. Returns {folder: its path}."""
    place = Path(layout["staging"])
    try:
        place.mkdir(parents=True)
        place.chmod(0o711)  # the user who copies passes through it
    except FileExistsError:
        if why := why_foreign(place):
            raise Failure(
                f"{place}: {why}, so that nothing is copied there. "
                f"It is left alone: check its owner (ls -ld {place}), and remove it"
            ) from None
    folder = tempfile.mkdtemp(dir=place)
    if user != os.geteuid():
        os.chown(folder, user, -1)
    return {"folder": folder}


def unstage(layout: dict[str, str], staging: str) -> dict[str, Any]:
    """Remove it again."""
    folder, place = Path(staging), Path(layout["staging"])
    if folder.parent != place:
        raise Failure(f"{folder}: is no folder of {place}. It is left alone")
    shutil.rmtree(folder)
    with contextlib.suppress(OSError):  # another one still exists
        place.rmdir()
    return {}


def clear_staging(layout: dict[str, str], *, but: str = "") -> list[str]:
    """Remove the copies of interrupted roll-outs; other files are left and reported. Returns what was removed."""
    place = Path(layout["staging"])
    if not place.is_symlink() and not place.exists():
        return []
    if why := why_foreign(place):
        say(step=f"{place} {why}: it is left alone")
        return []
    gone = []
    for path in sorted(place.iterdir()):
        if str(path) == but:
            continue
        if path.is_symlink() or not path.is_dir():
            say(step=f"{path} is none of our folders: it is left alone")
            continue
        shutil.rmtree(path)
        gone.append(str(path))
    with contextlib.suppress(OSError):  # what remains is not ours
        place.rmdir()
    return gone


def why_foreign(place: Path) -> str:
    """Why other users can write to a folder; empty for one that is ours alone."""
    found = place.lstat()
    if stat.S_ISLNK(found.st_mode):
        return f"is a link to {os.readlink(place)}"
    if not stat.S_ISDIR(found.st_mode):
        return "is no folder"
    if found.st_uid != os.geteuid():
        return f"belongs to the user with id {found.st_uid}"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"may be written by others (mode {stat.S_IMODE(found.st_mode):o})"
    return ""
