"""The keeper's own process: makes network namespaces, holds them, and passes out sockets that were made inside them.

    python namespaces.py CONTROL_FD PARENT_PID SOCKET_PATH NAME...

It needs no root where an ordinary user may make user namespaces. It ends when its parent ends or when the
control socket is closed. Its namespaces end with it, except those that others still hold open. It imports little, so
that it starts fast and stays small.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import selectors
import signal
import socket
import struct
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from hwd_agents.sources.kernel.sockets import (
    MESSAGE_LIMIT_BYTES,
    KeeperRequest,
    Verb,
    decode_request,
    send_answer,
    send_refusal,
)
from hwd_drivers.core.reason import reason_of

CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWNET: Final = 0x40000000
PR_SET_PDEATHSIG: Final = 1
TUNSETIFF: Final = 0x400454CA  # linux/if_tun.h
TUNSETIFINDEX: Final = 0x400454DA
RESTORE_EVERY_S: Final = 2.0
"""Between two looks whether the socket's file is there."""
IFF_TAP: Final = 0x0002
IFF_NO_PI: Final = 0x1000

_libc = ctypes.CDLL(None, use_errno=True)
_taps: dict[tuple[str, str], int] = {}


def main(arguments: Sequence[str]) -> int:
    """Serve until the parent goes."""
    control_fd, parent, path, *names = arguments
    control = socket.socket(fileno=int(control_fd))
    try:
        mode = _become_able()
        _die_with(int(parent))
        namespaces = {name: _make_namespace() for name in names}
        listener = _listen(path)
    except OSError as error:
        control.send(f"refused {error.errno} {error.strerror or error}".encode())
        return 1
    control.send(f"ready {mode}".encode())
    try:
        _serve(control, listener, path, namespaces)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
    return 0


def _become_able() -> str:
    """Gain the right to make network namespaces: as root at once, else inside a user namespace of our own."""
    uid, gid = os.geteuid(), os.getegid()
    try:
        _call("unshare", CLONE_NEWNET)
    except PermissionError:
        _call("unshare", CLONE_NEWUSER)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
        _call("unshare", CLONE_NEWNET)
        return "user"
    return "root"


def _die_with(parent: int) -> None:
    """Must come after a change of user namespace, which clears it."""
    _call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        raise ProcessLookupError(errno.ESRCH, "the parent is gone already")


def _make_namespace() -> int:
    _call("unshare", CLONE_NEWNET)
    return os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _listen(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    os.chmod(path, 0o600)
    listener.listen(64)
    return listener


def _serve(control: socket.socket, listener: socket.socket, path: str, namespaces: Mapping[str, int]) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        selector.register(listener, selectors.EVENT_READ)
        while True:
            events = selector.select(RESTORE_EVERY_S)
            if not events and not os.path.lexists(path):  # a clean-up of temporary files removes it
                with contextlib.suppress(OSError):  # its folder may be gone too, and comes again
                    fresh = _listen(path)
                    selector.unregister(listener)
                    listener.close()
                    listener = fresh
                    selector.register(listener, selectors.EVENT_READ)
            for key, _events in events:
                if key.fileobj is control:
                    return  # nothing is ever sent to us there: it was closed
                if key.fileobj is listener:
                    selector.register(listener.accept()[0], selectors.EVENT_READ)
                    continue
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                if not _answer(connection, namespaces):
                    selector.unregister(connection)
                    connection.close()


def _answer(connection: socket.socket, namespaces: Mapping[str, int]) -> bool:
    """Answer one request; False when the client is gone."""
    try:
        data = connection.recv(MESSAGE_LIMIT_BYTES)
        if not data:
            return False
        try:
            _do(connection, decode_request(data), namespaces)
        except ValueError as error:
            send_refusal(connection, number=errno.EBADMSG, why=str(error))
        except OSError as error:
            send_refusal(connection, number=error.errno or errno.EIO, why=error.strerror or reason_of(error))
    except (BrokenPipeError, ConnectionResetError):
        return False
    return True


def _do(connection: socket.socket, request: KeeperRequest, namespaces: Mapping[str, int]) -> None:
    if request.ns not in namespaces:
        raise FileNotFoundError(errno.ENOENT, f"no namespace {request.ns} here, only {', '.join(namespaces)}")
    namespace = namespaces[request.ns]
    if request.verb is Verb.NAMESPACE:
        send_answer(connection, descriptor=namespace)
        return
    _call("setns", namespace, CLONE_NEWNET)
    match request.verb:
        case Verb.SOCKET:
            with socket.socket(request.family, request.kind, request.proto) as opened:
                send_answer(connection, descriptor=opened.fileno())
        case Verb.SETTING:
            _set(request.name, request.value)
            send_answer(connection)
        case Verb.FILE:
            opened_file = _open(request.name)
            try:
                send_answer(connection, descriptor=opened_file)
            finally:
                os.close(opened_file)
        case Verb.TAP:
            key = request.ns, request.name
            if key not in _taps:
                _taps[key] = _make_tap(request.name, int(request.value))
            send_answer(connection, descriptor=_taps[key])


def _make_tap(name: str, ifindex: int) -> int:
    """A tap device of the namespace that we are in, gone with its last descriptor."""
    try:
        tap = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise OSError(
            error.errno, f"/dev/net/tun: {error.strerror}. Load the module tun, or let this user open it"
        ) from error
    try:
        fcntl.ioctl(tap, TUNSETIFINDEX, struct.pack("I", ifindex))
        fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    except OSError:
        os.close(tap)
        raise
    return tap


def _open(name: str) -> int:
    """A file of the network that we are in; it stays of that network."""
    if "/" in name or name in ("", ".", ".."):
        raise PermissionError(errno.EPERM, f"{name!r} is no file of /proc/net")
    return os.open(f"/proc/thread-self/net/{name}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)


def _set(name: str, value: str) -> None:
    """Write a setting of this network, unless it is so already (/proc/sys may be read-only in a container)."""
    root = Path("/proc/sys/net")
    setting = Path("/proc/sys") / name
    if ".." in setting.parts or root not in setting.parents:
        raise PermissionError(errno.EPERM, f"{name} is no setting of a network")
    if setting.read_text().strip() != value:
        setting.write_text(value)


def _call(function: str, *arguments: int) -> None:
    if getattr(_libc, function)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
