"""Output files: written completely or not at all; pipes, devices and links stay what they are."""

import contextlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from hwd_drivers.core.errors import ConfigError, FailedError
from hwd_drivers.core.ids import RandomIds

NAME_MAX_BYTES: Final = 255
"""Longest file name, limits.h."""
_TOKEN_LENGTH: Final = 12
_PERMISSIONS: Final = 0o777
"""Permissions that are copied from a replaced file: without set-user-ID and set-group-ID bits."""


@contextmanager
def output_file(path: Path) -> Iterator[BinaryIO]:
    """A file that gets its name only when it is complete, with the permissions of the file that it replaces.

    A pipe or a device is written to directly. A symbolic link is followed and stays. A link that another user made in a
    folder where everybody may write is refused. Raises ConfigError where the file cannot be made, FailedError where it
    cannot be written, such as on a full disk.
    """
    try:
        link = path.is_symlink()  # read once: others with write access may add a link at any time
        there = _existing(path, link=link)
        plain = there is not None and not stat.S_ISREG(there.st_mode)
        target = path.resolve() if link else path.parent.resolve() / path.name
        if there is not None and not plain and not _is_file(target, there):
            plain = True  # a link in /proc to a file whose name was removed
        if plain and there is not None:
            fresh, file = target, _open_there(path, there, link=link)
        else:
            fresh = _fresh_name(target)
            file = _create(fresh, private=there is not None)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error.strerror or error}") from error
    try:
        with file:
            yield file
            if there is not None and not plain:
                _take_over(file.fileno(), there)
        if not plain:
            os.replace(fresh, target)
    except OSError as error:
        raise FailedError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        if not plain:
            with contextlib.suppress(FileNotFoundError):
                fresh.unlink()


def write_file(path: Path, text: str) -> None:
    """Write `text` as UTF-8; see `output_file`."""
    with output_file(path) as file:
        file.write(text.encode("utf-8", "replace"))


def _existing(path: Path, *, link: bool) -> os.stat_result | None:
    """The status of the existing file, or None.

    Raises OSError where it may not be written, ConfigError for a link that may not be followed.
    """
    if link:
        _check_link(path)
    try:
        found = path.stat(follow_symlinks=link)
    except FileNotFoundError:
        return None
    if stat.S_ISFIFO(found.st_mode):
        _check_pipe(path, found)
    if stat.S_ISREG(found.st_mode):
        os.close(os.open(path, _flags(link=link)))
    return found


def _check_pipe(path: Path, found: os.stat_result) -> None:
    """The rule of the kernel's fs.protected_fifos, which applies only to processes that would create the pipe."""
    if _is_strangers(path.resolve().parent, found.st_uid):
        raise ConfigError(
            f"{path}: is a pipe that the user with id {found.st_uid} made in a folder where everybody may write. "
            "Its reader is unknown, so nothing is written to it. "
            "Name another file"
        )


def _is_strangers(directory: Path, owner: int) -> bool:
    """Whether a file was made by neither this user nor the folder's owner, in a folder where everybody may write."""
    folder = directory.stat()
    everybody = folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH
    return bool(everybody) and owner not in (os.geteuid(), folder.st_uid)


def _check_link(path: Path) -> None:
    """The rule of the kernel's fs.protected_symlinks, which is not enabled on every machine."""
    owner = path.lstat().st_uid
    if _is_strangers(path.parent, owner):
        raise ConfigError(
            f"{path}: is a link to {os.readlink(path)} that the user with id {owner} made in a folder where all may "
            "write. It is not followed. Name another file, or the target of the link"
        )


def _fresh_name(target: Path) -> Path:
    """A name that cannot exist yet."""
    token = RandomIds().token(length=_TOKEN_LENGTH)
    kept = os.fsencode(target.name)[: NAME_MAX_BYTES - _TOKEN_LENGTH - len("..")]
    return target.with_name(f".{os.fsdecode(kept)}.{token}")


def _flags(*, link: bool) -> int:
    return os.O_WRONLY | os.O_CLOEXEC | (0 if link else os.O_NOFOLLOW)


def _is_file(path: Path, there: os.stat_result) -> bool:
    try:
        return os.path.samestat(there, path.lstat())
    except FileNotFoundError:
        return False


def _open_there(path: Path, there: os.stat_result, *, link: bool) -> BinaryIO:
    """Open the file that was found.

    Raises ConfigError where another file has replaced it since; that one is not changed.
    """
    descriptor = os.open(path, _flags(link=link))
    try:
        if not os.path.samestat(there, os.fstat(descriptor)):
            raise ConfigError(f"{path}: was replaced while it was being opened; nothing was written. Name another file")
        if stat.S_ISREG(there.st_mode):
            os.ftruncate(descriptor, 0)
    except BaseException:
        os.close(descriptor)
        raise
    return open(descriptor, "wb")


def _create(fresh: Path, *, private: bool) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return open(os.open(fresh, flags, 0o600 if private else 0o666), "wb")


def _take_over(descriptor: int, there: os.stat_result) -> None:
    """Copy owner, group and permissions as far as allowed. A part that cannot be copied gives nobody else access."""
    ours = os.fstat(descriptor)
    permissions = there.st_mode & _PERMISSIONS
    if there.st_uid != ours.st_uid or there.st_gid != ours.st_gid:
        try:
            os.fchown(descriptor, there.st_uid, there.st_gid)
        except PermissionError:
            try:
                os.fchown(descriptor, -1, there.st_gid)
            except PermissionError:
                permissions &= ~stat.S_IRWXG
    os.fchmod(descriptor, permissions)
