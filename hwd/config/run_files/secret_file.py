"""A secret that is generated once and stored in a file of its own, readable by this user and optionally by a group."""

import errno
import grp
import os
import stat
from pathlib import Path

from hwd.model.plural import plural
from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.ids import Ids

LENGTH = 32
"""Characters of a-z and 0-9: 165 bits."""
BYTES_MAX = 4096
"""The most that is read of a file; a secret that an operator wrote into it has some dozens."""
ALONE, WITH_GROUP = 0o600, 0o640


def draw_once(path: Path, ids: Ids, *, what: str, group: str | None = None, owner: int | None = None) -> str:
    """The secret in the file at `path`; generated and stored durably where there is no file or an empty one.

    The file is this user's alone (0600), or a `group` may read it too (0640). `what` begins the message of a
    ConfigError: for a file that belongs to another user, that others may read, that is no regular file or a link, that
    does not have a single word, and for a group that does not exist or that we are not in. `owner`: the owner of the
    file, for root, which manages the files of another user.
    """
    gid = None if group is None else _gid_of(group, what)
    fd = _open(path, what, owner)
    try:
        _check(os.fstat(fd), path, what, gid, os.geteuid() if owner is None else owner)
        _let_read(fd, path, what, gid)
        text = os.pread(fd, BYTES_MAX, 0)
        if not text:
            text = f"{ids.token(length=LENGTH)}\n".encode()
            _write(fd, path, text)
    except OSError as error:
        raise ConfigError(f"{what} {path}: {error.strerror}") from error
    finally:
        os.close(fd)
    words = text.decode("ascii", "replace").split()
    if len(words) != 1 or not words[0].isascii() or len(text) == BYTES_MAX:
        raise ConfigError(
            f"{what} {path}: one word of ASCII text is expected, and it has {plural(len(words), 'word')}. "
            "Remove it, and a new one is drawn"
        )
    return words[0]


def _open(path: Path, what: str, owner: int | None) -> int:
    """Open without following a link or waiting for the writer of a FIFO."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        try:
            fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, ALONE)
            if owner is not None:
                os.fchown(fd, owner, -1)
            return fd
        except FileExistsError:
            return os.open(path, flags)
    except OSError as error:
        link = " (a symbolic link is not followed)" if path.is_symlink() else ""
        raise ConfigError(
            f"{what} {path}: cannot be opened: {error.strerror}{link}. Remove it, and a new one is drawn"
        ) from error


def _check(status: os.stat_result, path: Path, what: str, gid: int | None, uid: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(f"{what} {path}: is no regular file. Remove it, and a new one is drawn")
    if status.st_uid != uid:
        raise ConfigError(
            f"{what} {path}: belongs to user {status.st_uid}, who knows it, and should belong to user {uid}. "
            "Where it is not that user's own, remove it, and a new one is generated"
        )
    mode = stat.S_IMODE(status.st_mode)
    if mode & ~(ALONE if status.st_gid != gid else WITH_GROUP):
        raise ConfigError(
            f"{what} {path}: others may read it or write to it (mode {mode:o}, group {status.st_gid}). "
            f"Remove it, and a new one is generated; or, where nobody has read it, chmod 600 {path}"
        )


def _let_read(fd: int, path: Path, what: str, gid: int | None) -> None:
    if gid is None:
        return
    try:
        os.fchown(fd, -1, gid)
    except PermissionError as error:
        raise ConfigError(
            f"{what} {path}: cannot be given to group {grp.getgrgid(gid).gr_name}: user {os.geteuid()} is not in it"
        ) from error
    os.fchmod(fd, WITH_GROUP)


def _write(fd: int, path: Path, text: bytes) -> None:
    try:
        if os.pwrite(fd, text, 0) != len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(fd)
    except OSError:
        os.ftruncate(fd, 0)  # on a full disk: a part of a secret must not remain
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _gid_of(group: str, what: str) -> int:
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise ConfigError(f"{what}: no group {group!r} exists on this machine. Create it, or name another") from None
