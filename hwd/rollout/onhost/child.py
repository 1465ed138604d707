"""Child: a program that is forked and executed on a host, as its user, in its network.

It is sent to hosts, as `hwd.rollout.onhost.supervisor` is.
"""

import ctypes
import errno
import fcntl
import os
import pwd
import signal
from collections.abc import Mapping
from typing import Any, Final

PATHS: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_CLONE_NEWUSER: Final = 0x10000000
_CLONE_NEWNET: Final = 0x40000000
_NS_GET_USERNS: Final = 0xB701  # linux/nsfs.h

_libc = ctypes.CDLL(None, use_errno=True)


class Child:
    """The program, and our ends of its pipes."""

    def __init__(self, pid: int, out: int, err: int) -> None:
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self.pipes = {out: "out", err: "err"}

    def signal(self, number: int) -> bool:
        """Signal the process group of the child; nothing where that has ended. False where we may not."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return True
        except PermissionError:  # it has become another user, as sudo does
            return False
        return True


def start(wanted: Mapping[str, Any]) -> Child:
    """Fork and execute it, as its user, in its network. Raises OSError where that is not possible."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    _call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    command: list[str] = wanted["command"]
    user = _user(wanted["user"])
    become = os.geteuid() == 0
    if not become and user.pw_uid != os.geteuid():
        own = _own_user().pw_name
        raise OSError(errno.EPERM, f"it cannot be run as {user.pw_name}: only root could, and this is {own}")
    if (keeper := wanted.get("keeper")) is not None:
        os.set_inheritable(keeper, False)  # the program is not to have it
    is_nested = (namespace := wanted.get("namespace")) is not None and _enter(namespace)
    out, err, failed = os.pipe(), os.pipe(), os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            environment = {**_environment_of(user), **wanted["environment"]}
            _become_it(command, environment, user, parent, (out[1], err[1]), become=become, nested=is_nested)
        except OSError as error:
            os.write(failed[1], f"{error.errno} {error.strerror or error}".encode())
        except ValueError as error:  # a zero byte in an argument, a "=" in the name of a variable
            os.write(failed[1], f"{errno.EINVAL} {error}".encode())
        finally:
            os.kill(os.getpid(), signal.SIGKILL)  # all that follows is for the parent
    for ours in (out[1], err[1], failed[1]):
        os.close(ours)
    with open(failed[0], encoding="utf-8") as file:
        words = file.read()
    if words:
        os.waitpid(pid, 0)
        number, _, why = words.partition(" ")
        raise OSError(int(number), why)
    for ours in (out[0], err[0]):
        os.set_blocking(ours, False)
    return Child(pid, out[0], err[0])


def _become_it(
    command: list[str],
    environment: dict[str, str],
    user: pwd.struct_passwd,
    parent: int,
    pipes: tuple[int, int],
    *,
    become: bool,
    nested: bool,
) -> None:
    """Become the program in the child: never returns but by an error. `nested`: it is root of the user namespace that
    owns the network.
    """
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for number, descriptor in enumerate((null, *pipes)):
        os.dup2(descriptor, number)
    for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    if nested:
        _become_ordinary(user)
    if become:
        os.initgroups(user.pw_name, user.pw_gid)
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
    _call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # after setuid, which clears it
    if os.getppid() != parent:
        raise OSError(errno.ESRCH, "its supervisor has gone")
    try:
        os.chdir(user.pw_dir)
    except OSError:
        os.chdir("/")
    os.execve(command[0], command, environment)


def _own_user() -> pwd.struct_passwd:
    """`uid12345`, where passwd has no entry, as in containers."""
    uid = os.geteuid()
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        return pwd.struct_passwd((f"uid{uid}", "", uid, os.getegid(), "", os.environ.get("HOME", "/"), "/bin/sh"))


def _user(name: str) -> pwd.struct_passwd:
    """Raises OSError where there is none of this name."""
    try:
        return pwd.getpwnam(name)
    except KeyError:
        if (own := _own_user()).pw_name == name:
            return own
        raise OSError(errno.EPERM, f"there is no user {name} here") from None


def _environment_of(user: pwd.struct_passwd) -> dict[str, str]:
    return {
        "HOME": user.pw_dir,
        "LANG": "C.UTF-8",
        "LOGNAME": user.pw_name,
        "PATH": PATHS,
        "SHELL": user.pw_shell or "/bin/sh",
        "USER": user.pw_name,
    }


def _enter(namespace: int) -> bool:
    """Enter the network of a descriptor. True where that took a user namespace first, which makes us its root."""
    owner = fcntl.ioctl(namespace, _NS_GET_USERNS)
    try:
        is_other = os.fstat(owner).st_ino != os.stat("/proc/self/ns/user").st_ino
        if is_other:
            _call("setns", owner, _CLONE_NEWUSER)
    finally:
        os.close(owner)
    _call("setns", namespace, _CLONE_NEWNET)
    os.close(namespace)
    return is_other


def _become_ordinary(user: pwd.struct_passwd) -> None:
    """Be the user again, in a user namespace of one's own, without rights over the networks of the rack."""
    _call("unshare", _CLONE_NEWUSER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user.pw_uid} 0 1"), ("gid_map", f"{user.pw_gid} 0 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _call(function: str, *arguments: int) -> None:
    if getattr(_libc, function)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")
