"""Where programs of one machine find each other: the run directory with the files of daemon and rack, and the daemon's
default data directory.

`<run dir>/<testbed>/daemon.json` exists while a daemon is ready, `rack.json` while a twin rack is up. The process that
writes one (`hwd.config.run_files.announcement`) holds its `.lock` until it ends, so that the file of a dead process is
recognised.
"""

import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from hwd_drivers.core.errors import ConfigError
from hwd_drivers.core.file_lock import take_lock
from hwd_drivers.core.reason import reason_of
from hwd_drivers.core.structs import from_json
from hwd_drivers.core.user import home

OTHER_RUN_DIR: Final = "Name another with HWD_RUN_DIR"
_REMEDY: Final = "Another version may have written it: stop that process, or use --url and HWD_URL"

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
    hosts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    control: str = ""
    truth: str = ""
    protocols: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def run_dir(testbed: str, environment: Mapping[str, str] = os.environ) -> Path:
    """The run directory of one testbed, created where it does not exist."""
    return make_private(_top(environment) / testbed)


def data_dir(testbed: str, environment: Mapping[str, str] = os.environ) -> Path:
    """The default data directory of a testbed's daemon; not created here. Raises ConfigError where there is no home."""
    if state := environment.get("XDG_STATE_HOME"):
        return Path(state) / "hwd" / testbed
    remedy = " or XDG_STATE_HOME, or name the data directory with --data"
    return home(environment, remedy=remedy) / ".local" / "state" / "hwd" / testbed


def cache_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """The directory for files that can be fetched again; not created here."""
    if cache := environment.get("XDG_CACHE_HOME"):
        return Path(cache) / "hwd"
    return home(environment, remedy=" or XDG_CACHE_HOME") / ".cache" / "hwd"


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


def daemon_at(is_it: Callable[[DaemonPlace], bool], environment: Mapping[str, str] = os.environ) -> DaemonPlace | None:
    """The first ready daemon of this user that is the one asked for. A file that cannot be read is none of it."""
    for path in sorted(_top(environment).glob("*/daemon.json")):
        try:
            place = _read(path, DaemonPlace)
        except ConfigError:  # of another daemon, which the caller did not ask for
            continue
        if place is not None and is_it(place):
            return place
    return None


def racks(environment: Mapping[str, str] = os.environ) -> tuple[RackPlace, ...]:
    """All twin racks of this user that are up on this machine, by testbed."""
    found = (_read(path, RackPlace) for path in sorted(_top(environment).glob("*/rack.json")))
    return tuple(place for place in found if place is not None)


def is_held(path: Path) -> bool:
    """Whether the process that wrote this file is running. Raises ConfigError where its lock cannot be asked for."""
    lock = lock_of(path)
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ConfigError(f"{lock}: cannot be opened: {error.strerror}. Remove it, or make it readable") from error
    try:
        take_lock(fd, lock, shared=True, remedy=OTHER_RUN_DIR)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def lock_of(path: Path) -> Path:
    """The file that the process which writes `path` holds locked."""
    return path.with_name(f"{path.stem}.lock")


def _top(environment: Mapping[str, str]) -> Path:
    if named := environment.get("HWD_RUN_DIR"):
        path = Path(named)
    elif runtime := environment.get("XDG_RUNTIME_DIR"):
        path = Path(runtime) / "hwd"
    else:
        path = Path(f"/tmp/hwd-{os.getuid()}")
    return make_private(path)


def make_private(path: Path) -> Path:
    """The directory itself, made where it is not there. Raises ConfigError where others could write to it."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be the run directory: {error.strerror}. {OTHER_RUN_DIR}") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & stat.S_IWOTH:
        raise ConfigError(
            f"{path}: cannot be the run directory: it must be a directory of user {os.getuid()} "
            f"that others cannot write to. {OTHER_RUN_DIR}"
        )
    return path


def _read(path: Path, kind: type[PlaceT]) -> PlaceT | None:
    """Raises ConfigError for a file that cannot be read, or that says something else: unknown keys are left out."""
    if not is_held(path):
        return None
    try:
        return from_json(path.read_bytes(), kind)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}. {_REMEDY}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be understood: {reason_of(error)}. {_REMEDY}") from error
