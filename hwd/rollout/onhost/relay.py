"""The program that a daemon runs on a host for each program there: a supervisor, or a relay to one.

This text comes first over its input, then JSON (`hwd.rollout.processes.supervised_program.boot`), then lines. On its
command line every user of the host could read that JSON.

JSON without `keep` and `attach`: it is the supervisor itself (`hwd.rollout.onhost.supervisor`). With `keep`, the name
of a socket, it starts a supervisor in a session of its own (`hwd.rollout.onhost.lasting_supervisor`), and passes the
lines between that and standard input and output. With {"attach": NAME, "taken": 4096} it does so for one that runs.
Whatever ends the relay leaves the supervisor running. Before all other lines come these, where it cannot be done:

    {"failed": WHY} | {"refused": WHY} | {"unknown": WHY}

The sockets are in a folder that nobody else can enter. A socket whose supervisor was killed is taken away by the next
who looks for its name.
"""

import contextlib
import errno
import fcntl
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from hwd.rollout.onhost.child import start
from hwd.rollout.onhost.lasting_supervisor import LastingSupervisor
from hwd.rollout.onhost.supervisor import line_of, supervise

ROOT_FOLDER: Final = "/run/hwd-programs"
FOLDER: Final = "/tmp/hwd-programs-{uid}"
"""Anybody can make one of this name: its owner and mode are checked, and no link is followed."""
CALLERS: Final = 16
"""The most callers that wait to be accepted."""
CHUNK_BYTES: Final = 65_536


def main() -> None:
    """Do what the JSON says, which is its one argument by now."""
    wanted = json.loads(sys.argv[1])
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    if "attach" in wanted:
        _attach(wanted["attach"], wanted["taken"])
    elif "keep" in wanted:
        _start(wanted)
    else:
        supervise(wanted)


def _start(wanted: Mapping[str, Any]) -> None:
    name: str = wanted["keep"]
    try:
        folder = _open_folder(_place())
        with _locked(folder):
            if (found := _call(folder, name)) is not None:
                found.close()
                why = f"a program of this id is there already, or its end waits to be taken: {name.split('.')[0]}"
                _say({"refused": why})
                return
            door = _make_door(folder, name)
    except OSError as error:
        _say({"failed": f"{wanted['command'][0]}: {error.strerror or error}"})
        return
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        try:
            ours.close()
            _become_supervisor(wanted, folder, door, theirs)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)  # all that follows is for the relay
    door.close()
    theirs.close()
    for descriptor in filter(None, (wanted.get("namespace"), wanted.get("keeper"))):
        os.close(descriptor)
    _relay(ours)


def _become_supervisor(wanted: Mapping[str, Any], folder: int, door: socket.socket, starter: socket.socket) -> None:
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
    os.chdir("/")
    name: str = wanted["keep"]
    place = _place()
    try:
        child = start(wanted)
    except OSError as error:
        _remove(folder, name)
        starter.sendall(line_of({"failed": f"{wanted['command'][0]}: {error.strerror or error}"}))
        return
    restore, remove = partial(_restore_door, place, name), partial(_remove_present, place, name)
    LastingSupervisor(child, wanted, starter=starter, door=door, restore=restore, remove=remove).run()


def _attach(name: str, taken: int | None) -> None:
    try:
        folder = _open_folder(_place())
        with _locked(folder):
            supervisor = _call(folder, name)
    except OSError as error:
        _say({"failed": f"{name.split('.')[0]}: {error.strerror or error}"})
        return
    has_answered = False
    if supervisor is not None:
        with contextlib.suppress(OSError):
            supervisor.sendall(line_of({"attach": taken}))
        has_answered = _relay(supervisor)
    if not has_answered:  # it was about to go away
        _say({"unknown": f"no program of this id is there, or somebody has taken its end: {name.split('.')[0]}"})


def _relay(supervisor: socket.socket) -> bool:
    """Relay what the supervisor says until it goes; returns whether it said anything."""
    threading.Thread(target=_pass_on_input, args=(supervisor,), daemon=True).start()
    has_answered = False
    with contextlib.suppress(ConnectionError):
        while data := supervisor.recv(CHUNK_BYTES):
            has_answered = True
            with contextlib.suppress(OSError):  # the daemon has gone; the supervisor is told so by the other thread
                while data:
                    data = data[os.write(1, data) :]
    return has_answered


def _pass_on_input(supervisor: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := os.read(0, CHUNK_BYTES):
            supervisor.sendall(data)
    with contextlib.suppress(OSError):
        supervisor.shutdown(socket.SHUT_WR)


def _place() -> str:
    """The path of that folder. Not to be asked for after the program's start, which may make us root of a user
    namespace.
    """
    uid = os.geteuid()
    return FOLDER.format(uid=uid) if uid else ROOT_FOLDER


def _open_folder(place: str) -> int:
    """A descriptor of the private folder of this user, which is made where it is not there. Raises OSError."""
    uid = os.geteuid()
    with contextlib.suppress(FileExistsError):
        os.mkdir(place, 0o700)
    try:
        folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        found = os.fstat(folder)
        if found.st_uid != uid or found.st_mode & 0o077:
            raise PermissionError
    except (PermissionError, NotADirectoryError):
        why = f"{place} is not a folder of user {uid} that nobody else may enter. Remove it"
        raise OSError(errno.EPERM, why) from None
    return folder


@contextlib.contextmanager
def _locked(folder: int) -> Iterator[None]:
    """Lock the folder, so that nobody else looks for a socket in it or makes one."""
    opened = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def _call(folder: int, name: str) -> socket.socket | None:
    """A connection to a supervisor; None where there is none. Raises OSError where it does not accept any."""
    supervisor = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    supervisor.setblocking(False)
    try:
        supervisor.connect(_path(folder, name))
    except FileNotFoundError:
        supervisor.close()
        return None
    except ConnectionRefusedError:  # its supervisor was killed
        supervisor.close()
        _remove(folder, name)
        return None
    except BlockingIOError:
        supervisor.close()
        raise OSError(errno.EBUSY, "its supervisor does not answer") from None
    supervisor.setblocking(True)
    return supervisor


def _make_door(folder: int, name: str) -> socket.socket:
    """A socket where others attach. Raises OSError."""
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        door.bind(_path(folder, name))
        door.listen(CALLERS)
    except OSError:
        door.close()
        raise
    return door


def _restore_door(place: str, name: str) -> socket.socket | None:
    """A new one where its file is gone; None where it is there, or cannot be made now."""
    if os.path.lexists(os.path.join(place, name)):
        return None
    try:
        folder = _open_folder(place)
        try:
            with _locked(folder):
                return _make_door(folder, name)
        finally:
            os.close(folder)
    except OSError:  # a full disk, a folder of somebody else: it looks again
        return None


def _remove_present(place: str, name: str) -> None:
    """Remove a socket from the folder that is there now, which may not be the one that it was made in."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(place, name))


def _path(folder: int, name: str) -> str:
    """The path of a socket, which may have 107 bytes: through the descriptor of its folder it is always this one's."""
    return f"/proc/self/fd/{folder}/{name}"


def _remove(folder: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _say(line: object) -> None:
    with contextlib.suppress(OSError):  # the daemon has gone
        os.write(1, line_of(line))
