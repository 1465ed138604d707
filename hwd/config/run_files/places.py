"""Where programs of one machine find each other: the run directory with the files of daemon and rack, and the daemon's
default data directory.

`<run dir>/<testbed>/daemon.json` exists while a daemon is ready, `rack.json` while a twin rack is up. The process that
writes one holds its `.lock` until it ends, so that the file of a dead process is recognised.
"""

import fcntl
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from hwd_drivers.core.documents import Json
from hwd_drivers.core.errors import ConfigError, RefusedError

PlaceT = TypeVar("PlaceT", "DaemonPlace", "RackPlace")


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonPlace:
    """Where a ready daemon listens. `http` and `mqtt` are URLs; `agents`: by host, the broker's URL with the login of
    its agent.

    `token_file`: the file with its token, empty where its tokens were configured.
    """

    testbed: str
    pid: int
    http: str
    mqtt: str
    data_dir: str
    agents: Mapping[str, str] = field(default_factory=dict)
    token_file: str = ""

    def __str__(self) -> str:
        return f"{self.testbed} at {self.http} (pid {self.pid})"


@dataclass(frozen=True, slots=True, kw_only=True)
class RackPlace:
    """Where the parts of a running twin rack listen. `addresses`: the address of each twin, by the name of its switch
    or host.

    `hosts`: of each host twin, whether it is in the `kernel`; the path of the `keeper` of its namespace; the pid of its
    `agent`, None where it has none; and, for a virtual `machine`, the place of its monitor and the interfaces that its
    NICs are connected to. `protocols`: of each switch twin its protocols and their addresses. `control`: the socket of
    `hwd.twin.control`. `truth`: the file with the true times of all events.
    """

    testbed: str
    pid: int
    addresses: Mapping[str, str] = field(default_factory=dict)
    hosts: Mapping[str, Mapping[str, Json]] = field(default_factory=dict)
    control: str = ""
    truth: str = ""
    protocols: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


class Announcement:
    """One of the files, held by the process that writes it; use it as a context.

    with Announcement(run_dir(testbed.name) / "daemon.json") as announcement:
        announcement.write(DaemonPlace(...))     # when ready; the file is removed at the end
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def __enter__(self) -> "Announcement":
        """Raises RefusedError, with the pid of the holder, where another process holds it."""
        self._fd = os.open(_lock_of(self._path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _hold(self._fd)
        except BlockingIOError:
            holder = os.pread(self._fd, 32, 0).decode().strip() or "unknown"
            os.close(self._fd)
            what = {"daemon.json": "daemon", "rack.json": "twin rack"}.get(self._path.name, self._path.name)
            raise RefusedError(
                f"testbed {self._path.parent.name}: its {what} runs already, with pid {holder}. Stop that one first"
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)
        self._path.unlink(missing_ok=True)
        return self

    def write(self, place: DaemonPlace | RackPlace) -> None:
        """Atomic: a reader sees the old file or the new one. Only this user can read it: it has the
        password of a broker.
        """
        new = self._path.with_name(f"{self._path.name}.new")
        new.unlink(missing_ok=True)
        new.touch(mode=0o600)
        new.write_text(json.dumps(asdict(place), indent=2) + "\n")
        new.replace(self._path)

    def __exit__(self, *error: object) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._fd)


def run_dir(testbed: str, environment: Mapping[str, str] = os.environ) -> Path:
    """The run directory of one testbed, created where it does not exist."""
    path = _top(environment) / testbed
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def data_dir(testbed: str, environment: Mapping[str, str] = os.environ) -> Path:
    """The default data directory of a testbed's daemon; not created here."""
    state = environment.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "hwd" / testbed


def cache_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """The directory for files that can be fetched again; not created here."""
    cache = environment.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "hwd"


def records_path(data: Path) -> Path:
    """The database of runs in a data directory."""
    return data / "records.db"


def daemon_of(testbed: str, environment: Mapping[str, str] = os.environ) -> DaemonPlace | None:
    """The ready daemon of a testbed, None where there is none."""
    return _read(_top(environment) / testbed / "daemon.json", DaemonPlace)


def rack_of(testbed: str, environment: Mapping[str, str] = os.environ) -> RackPlace | None:
    """The twin rack of a testbed, None where none is up."""
    return _read(_top(environment) / testbed / "rack.json", RackPlace)


def daemons(environment: Mapping[str, str] = os.environ) -> tuple[DaemonPlace, ...]:
    """All ready daemons of this user on this machine, by testbed."""
    found = (_read(path, DaemonPlace) for path in sorted(_top(environment).glob("*/daemon.json")))
    return tuple(place for place in found if place is not None)


def racks(environment: Mapping[str, str] = os.environ) -> tuple[RackPlace, ...]:
    """All twin racks of this user that are up on this machine, by testbed."""
    found = (_read(path, RackPlace) for path in sorted(_top(environment).glob("*/rack.json")))
    return tuple(place for place in found if place is not None)


def is_held(path: Path) -> bool:
    """Whether the process that wrote this file is running."""
    try:
        fd = os.open(_lock_of(path), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _top(environment: Mapping[str, str]) -> Path:
    if named := environment.get("HWD_RUN_DIR"):
        path = Path(named)
    elif runtime := environment.get("XDG_RUNTIME_DIR"):
        path = Path(runtime) / "hwd"
    else:
        path = Path(f"/tmp/hwd-{os.getuid()}")
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be the run directory: {error.strerror}. Name another with HWD_RUN_DIR"
        ) from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & stat.S_IWOTH:
        raise ConfigError(
            f"{path}: cannot be the run directory: it must be a directory of user {os.getuid()} "
            "that others cannot write to. Name another with HWD_RUN_DIR"
        )
    return path


def _hold(fd: int) -> None:
    """Raises BlockingIOError where another process holds the lock. One that looks with `is_held` shares it for an
    instant: that is not a holder.
    """
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)


def _lock_of(path: Path) -> Path:
    return path.with_name(f"{path.stem}.lock")


def _read(path: Path, kind: type[PlaceT]) -> PlaceT | None:
    if not is_held(path):
        return None
    try:
        data: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return kind(**data)
