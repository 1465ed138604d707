"""The namespaces of a twin rack: one for the switch fibres, one for each host, held by a small child process."""

import asyncio
import errno
import os
import socket
import stat
import subprocess
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from hwd.twin.rack_sockets import SOCKET_PATH_LIMIT_BYTES, keeper_path
from hwd_agents.sources.kernel.sockets import KeeperRequest, NamespaceSockets, Verb, ask, ask_for_descriptor
from hwd_drivers.core.child_process import end_of
from hwd_drivers.core.errors import BugError, ConfigError, LinkError, RefusedError
from hwd_drivers.core.own_python import own_python

from . import namespaces

SWITCH: Final = "switch"
"""The namespace in which the fibre ends are."""

START_TIMEOUT_S: Final = 10.0  # takes 60 ms; an interpreter on a cold disk takes longer
STOP_TIMEOUT_S: Final = 5.0

_REFUSALS: Final = frozenset({errno.EPERM, errno.EACCES, errno.ENOSPC, errno.EUSERS, errno.EINVAL, errno.ENOSYS})


class NamespacesUnavailableError(RefusedError):
    """This user cannot make network namespaces on this machine: use process hosts in place of kernel hosts."""


class Privilege(StrEnum):
    """The privilege with which a keeper made its namespaces."""

    ROOT = "root"
    """As root, or with the capability CAP_SYS_ADMIN."""
    USER = "user"
    """Inside a user namespace of an ordinary user; only processes of the same user can use its sockets in full."""


class Keeper:
    """Network namespaces without names, that vanish with this process.

    async with Keeper() as keeper:
        await keeper.start(["h0", "h1"], runtime_dir)
        links = keeper.socket("h0", socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._death: asyncio.Future[int] | None = None
        self._path = Path()
        self._privilege = Privilege.ROOT

    @property
    def path(self) -> Path:
        """Where the keeper listens; what NamespaceSockets is made with."""
        return self._path

    @property
    def privilege(self) -> Privilege:
        """The privilege with which the namespaces were made."""
        return self._privilege

    @property
    def pid(self) -> int:
        """The child process."""
        if self._process is None:
            raise BugError("keeper: asked for its process before it was started")
        return self._process.pid

    async def start(self, hosts: Sequence[str], runtime_dir: Path) -> None:
        """Make namespace `switch` and one a host, and the keeper's socket in `runtime_dir`, a folder closed to others.

        Raises NamespacesUnavailableError where the machine does not allow it; then take process hosts.
        """
        if self._process is not None:
            raise BugError("keeper: started twice")
        names = [SWITCH, *hosts]
        if len(set(names)) != len(names) or not all(names):
            raise ConfigError(
                f"keeper: cannot make namespaces {', '.join(names)}: names must differ, and {SWITCH} is taken"
            )
        self._path = _socket_path(runtime_dir)
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        with theirs:
            self._process = _spawn(theirs, self._path, names)
        self._death = end_of(self._process)
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                said = (await asyncio.get_running_loop().sock_recv(self._control, 4096)).decode()
            self._privilege = _read_greeting(said)
        except TimeoutError as error:
            await self.stop()
            raise LinkError(f"keeper: did not say that it is ready in {START_TIMEOUT_S:g} s") from error
        except BaseException:
            await self.stop()
            raise

    def socket(self, ns: str, family: int, kind: int, proto: int = 0) -> socket.socket:
        """A socket made inside namespace `ns`, not blocking."""
        return self.sockets(ns).open(family, kind, proto)

    def sockets(self, ns: str) -> NamespaceSockets:
        """What an agent of host `ns` opens its sockets with."""
        return NamespaceSockets(self._path, ns)

    def namespace(self, ns: str) -> int:
        """A descriptor of the namespace itself; the caller closes it."""
        return ask_for_descriptor(self._path, KeeperRequest(verb=Verb.NAMESPACE, ns=ns))

    def tap(self, ns: str, name: str, ifindex: int) -> int:
        """A descriptor of a tap device, made where it is not there yet; the caller closes it, and the device stays.

        Raises OSError, ENOENT where there is no tun.
        """
        return ask_for_descriptor(self._path, KeeperRequest(verb=Verb.TAP, ns=ns, name=name, value=str(ifindex)))

    def setting(self, ns: str, name: str, value: str) -> None:
        """Set `name` (`net/ipv4/ip_forward`) of one network. Raises OSError: EROFS where /proc/sys is read-only."""
        ask(self._path, KeeperRequest(verb=Verb.SETTING, ns=ns, name=name, value=value))

    async def died(self) -> int:
        """Wait until the keeper's process ended; its exit status, negative for a signal."""
        if self._death is None:
            raise BugError("keeper: waited for its end before it was started")
        return await asyncio.shield(self._death)

    async def stop(self) -> None:
        """End the keeper and with it everything in its namespaces."""
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is None or self._death is None:
            return
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await self.died()
        except TimeoutError:
            self._process.kill()
            await self.died()
        self._path.unlink(missing_ok=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def _spawn(control: socket.socket, path: Path, names: Sequence[str]) -> subprocess.Popen[bytes]:
    """Run by its file: as a module it would import the packages above it first.

    It has a session of its own: Ctrl-C is the rack's to handle.
    """
    command = own_python(os.fspath(namespaces.__file__), str(control.fileno()), str(os.getpid()), os.fspath(path))
    return subprocess.Popen(
        [*command, *names],
        pass_fds=[control.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def _socket_path(runtime_dir: Path) -> Path:
    runtime_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    if stat.S_IMODE(runtime_dir.stat().st_mode) & 0o077:
        raise ConfigError(f"{runtime_dir}: cannot hold the keeper's socket: others can enter it. Make it 0700")
    path = keeper_path(runtime_dir.absolute())
    length = len(os.fsencode(path))
    if length > SOCKET_PATH_LIMIT_BYTES:
        raise ConfigError(
            f"{path}: cannot be a Unix socket: {length} bytes, over the {SOCKET_PATH_LIMIT_BYTES} of Linux. "
            "Take a shorter folder"
        )
    path.unlink(missing_ok=True)  # of a keeper that was killed
    return path


def _read_greeting(said: str) -> Privilege:
    match said.split(" ", 2):
        case ["ready", mode]:
            return Privilege(mode)
        case ["refused", number, words] if int(number) in _REFUSALS:
            raise NamespacesUnavailableError(
                f"keeper: cannot make network namespaces for user {os.geteuid()}: the kernel refuses ({words}). "
                "Run as root, or allow user namespaces (user.max_user_namespaces above 0, "
                "kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0), "
                "or use process hosts (twin: {kernel: false})"
            )
        case ["refused", _number, words]:
            raise LinkError(f"keeper: cannot start: {words}")
        case _:
            raise LinkError(f"keeper: ended before it was ready, it said {said!r}")
