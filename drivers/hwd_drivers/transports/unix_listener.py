"""UnixListener: a listening Unix socket whose file is made again where a clean-up has removed it."""

import asyncio
import contextlib
import os
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

RESTORE_EVERY_S: Final = 2.0
"""Between two looks whether files that others find us by are there; a look takes microseconds."""
BACKLOG: Final = 100


class UnixListener:
    """Accepts connections at `path` until it is closed; open connections stay.

    A clean-up of temporary files removes the socket's file, and nobody finds the listener any more: `restore` makes it
    again, with its folder. `mode`, `group`: of the file; by default as the umask has it.
    """

    def __init__(
        self, factory: Callable[[], asyncio.BaseProtocol], path: Path, *, mode: int | None, group: str | None
    ) -> None:
        self._factory = factory
        self._path = path
        self._mode = mode
        self._group = group
        self._server: asyncio.Server | None = None
        self._file: tuple[int, int] | None = None
        self._folder: os.stat_result | None = None

    @classmethod
    async def open(
        cls,
        factory: Callable[[], asyncio.BaseProtocol],
        path: Path,
        *,
        mode: int | None = None,
        group: str | None = None,
    ) -> Self:
        """Takes the place of a socket that is there. Raises OSError, LookupError for an unknown group."""
        listener = cls(factory, path, mode=mode, group=group)
        if path.is_socket():
            path.unlink()
        await listener._listen()
        return listener

    @property
    def address(self) -> str:
        return f"unix:{self._path}"

    async def restore(self) -> bool:
        """Listen there again where no file is; True where that was so. Raises OSError. Another file there stays."""
        if self._server is None or os.path.lexists(self._path):
            return False
        self._restore_folder()
        former = self._server
        await self._listen()
        former.close()
        return True

    async def close(self) -> None:
        """Close the listening socket. Not `wait_closed`: from Python 3.12 on it waits for the connections too."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        with contextlib.suppress(OSError):  # from Python 3.13 on asyncio removes it
            if _identity(self._path) == self._file:
                os.unlink(self._path)

    def _restore_folder(self) -> None:
        """Restore the folder as it was: others may have to come through it."""
        folder = self._path.parent
        if not folder.exists() and self._folder is not None:
            folder.mkdir(mode=0o700, parents=True)
            os.chown(folder, self._folder.st_uid, self._folder.st_gid)
            folder.chmod(stat.S_IMODE(self._folder.st_mode))

    def cut(self) -> None:
        """Nothing to cut: each connection has its protocol."""

    async def _listen(self) -> None:
        """Set the mode before the socket has a name: only owner and group can ever connect, whatever the umask."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        has_file = False
        try:
            if self._mode is not None:
                os.fchmod(sock.fileno(), self._mode)
            sock.bind(os.fspath(self._path))
            has_file = True
            if self._mode is not None:
                self._path.chmod(self._mode)
            if self._group is not None:
                shutil.chown(self._path, group=self._group)
            found = _identity(self._path)
            server = await asyncio.get_running_loop().create_unix_server(self._factory, sock=sock, backlog=BACKLOG)
        except BaseException:
            sock.close()
            if has_file:
                self._path.unlink(missing_ok=True)  # else nobody would make a file that answers
            raise
        self._server, self._file, self._folder = server, found, self._path.parent.stat()


def _identity(path: Path) -> tuple[int, int] | None:
    found = path.lstat()
    return (found.st_dev, found.st_ino) if stat.S_ISSOCK(found.st_mode) else None
