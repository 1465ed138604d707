"""The guard of the process of a plane, which may think, and do nothing else. It is set in that process, before the
plane is loaded.

Memory is limited by the system. Programs, signals, sockets and files are refused by an audit hook of Python, which sees
all that Python itself does on any system; what native code of a package does without Python is not seen. A plane is a
guest that may be wrong, not an enemy: it runs as the user of the daemon.
"""

import ctypes
import os
import resource
import signal
import sys
import sysconfig
from pathlib import Path
from typing import Any, Final

PR_SET_PDEATHSIG: Final = 1
CORE_BYTES: Final = 0
READ_BESIDE: Final = (
    "/proc/",
    "/sys/devices/system/",
    "/dev/null",
    "/dev/urandom",
    "/etc/localtime",
    "/usr/share/zoneinfo/",
)
"""What libraries read at their import, such as the number of processors."""
REFUSED: Final = {
    **dict.fromkeys(
        (
            "os.fork",
            "os.forkpty",
            "os.exec",
            "os.posix_spawn",
            "os.spawn",
            "os.system",
            "subprocess.Popen",
            "pty.spawn",
        ),
        "starts no program",
    ),
    **dict.fromkeys(("os.kill", "os.killpg", "signal.pthread_kill"), "sends no signal"),
    **dict.fromkeys(
        ("socket.__new__", "socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo"),
        "has no network",
    ),
    **dict.fromkeys(
        (
            *("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod"),
            *("os.chown", "os.utime", "os.setxattr", "os.removexattr", "os.mkfifo", "os.mknod"),
        ),
        "writes no files",
    ),
}
"""Audit events of Python, and what a plane is told."""
READS: Final = ("open", "os.listdir", "os.scandir")


def end_with(parent: int) -> None:
    """End this process when the daemon `parent` ends, however that ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit("its daemon has ended")


def guard(memory_bytes: int) -> None:
    """Hold this process to what a plane may do from here on. `memory_bytes`: of address space, beside what it has."""
    has_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most_bytes = has_pages * resource.getpagesize() + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.dont_write_bytecode = True
    folders = {os.path.realpath(folder) for folder in (*sys.path, *sysconfig.get_paths().values()) if folder}
    readable = (*(f"{folder}/" for folder in folders), *READ_BESIDE)

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        if event in REFUSED:
            raise PermissionError(f"a plane {REFUSED[event]} ({event})")
        if event in READS:
            _check_file(event, arguments, readable)

    sys.addaudithook(audit)


def _check_file(event: str, arguments: tuple[Any, ...], readable: tuple[str, ...]) -> None:
    path = arguments[0]
    if event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
        if path != os.devnull:
            raise PermissionError(f"a plane writes no files ({path!r})")
    elif isinstance(path, str | bytes) and not f"{os.path.realpath(os.fsdecode(path))}/".startswith(readable):
        raise PermissionError(f"a plane reads no files but those of its imports ({path!r})")
