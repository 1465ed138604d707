"""Starts the twin rack as a process that outlives the daemon, and logs its end."""

import asyncio
import logging
import os
import shlex
import signal
from collections.abc import Mapping
from pathlib import Path

from hwd.config.run_files.places import RackPlace, is_held, rack_of
from hwd.model.testbed import Testbed
from hwd_drivers.core.errors import ConfigError, FailedError
from hwd_drivers.core.own_python import own_python
from hwd_drivers.core.reason import reason_of

LOG_SHOWN = 5
"""Last lines of the rack's log that are repeated when it ends by itself."""
TAIL_BYTES = 16_384
"""At the end of the log: those lines are among them."""

log = logging.getLogger(__name__)


def has_twins(testbed: Testbed) -> bool:
    return any(switch.twin for switch in testbed.switches.values()) or any(host.twin for host in testbed.hosts.values())


class RackFinder:
    """Looks for the twin rack of a testbed. A run directory that cannot be read, as after a logout, has none: that is
    logged once.
    """

    def __init__(self, testbed: str, environment: Mapping[str, str]) -> None:
        self._testbed = testbed
        self._environment = environment
        self._trouble = ""

    def __call__(self) -> RackPlace | None:
        try:
            place, trouble = rack_of(self._testbed, self._environment), ""
        except (ConfigError, OSError) as error:
            place, trouble = None, reason_of(error)
        if trouble and trouble != self._trouble:
            log.warning("the twin rack cannot be found: %s", trouble)
        self._trouble = trouble
        return place


class RackProcess:
    """The process `hwd twin up` in a session of its own: the daemon's end and Ctrl-C on its terminal do not end it."""

    def __init__(self, pid: int, log: "RackLog", testbed_file: str) -> None:
        self.pid = pid
        self.testbed_file = testbed_file
        self.log = log
        self.ended = False

    @classmethod
    def start(cls, testbed_path: Path, run_dir: Path) -> "RackProcess | None":
        """Start the rack of a testbed; None where it is up already."""
        if is_held(run_dir / "rack.json"):
            return None
        words = RackLog.open(run_dir / "rack.log")
        arguments = own_python("-m", "hwd.cli", "twin", "up", str(testbed_path.absolute()))
        try:
            pid = os.posix_spawn(
                arguments[0],
                arguments,
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, words.fd, 1),
                    (os.POSIX_SPAWN_DUP2, words.fd, 2),
                ],
                setsid=True,
            )
        except OSError as error:
            words.close()
            raise FailedError(f"twin rack: cannot start {' '.join(arguments)}: {error.strerror}") from error
        return cls(pid, words, shlex.quote(str(testbed_path.absolute())))

    async def watch(self) -> None:
        """Wait for the end of the rack, then log how it ended. An operator restarts it, once the cause is known."""
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        try:
            descriptor = os.pidfd_open(self.pid)
        except OSError as error:  # no descriptor is left: the rack goes on, and so does the daemon
            log.warning("twin rack (pid %d): its end cannot be watched: %s", self.pid, reason_of(error))
            self.log.close()
            return
        try:
            loop.add_reader(descriptor, ended.set)
            try:
                await ended.wait()
            finally:
                loop.remove_reader(descriptor)
                os.close(descriptor)
            self.ended = True
            _, status = os.waitpid(self.pid, os.WNOHANG)  # noqa: ASYNC222 - it has ended
            log.log(
                logging.ERROR if status else logging.INFO,
                "twin rack (pid %d) %s; `hwd twin up %s` starts it again. The end of %s: %s",
                self.pid,
                how_it_ended(os.waitstatus_to_exitcode(status)),
                self.testbed_file,
                self.log,
                " / ".join(self.log.last_lines()) or "nothing",
            )
        finally:
            self.log.close()


class RackLog:
    """The file that a rack writes its log to. It is held open: what a clean-up removes can still be read."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self.fd = fd

    @classmethod
    def open(cls, path: Path) -> "RackLog":
        """A new one. Where it cannot be made, as on a full disk, the rack runs without a log."""
        try:
            path.unlink(missing_ok=True)
            return cls(path, os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except OSError as error:
            log.warning("%s: cannot be made, so the twin rack has no log: %s", path, error.strerror)
            return cls(path, os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC))

    def __str__(self) -> str:
        try:
            found, ours = self.path.lstat(), os.fstat(self.fd)
            is_there = (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)
        except OSError:
            is_there = False
        return str(self.path) if is_there else f"{self.path}, a file that was removed"

    def last_lines(self) -> list[str]:
        try:
            size = os.fstat(self.fd).st_size
            text = os.pread(self.fd, TAIL_BYTES, max(0, size - TAIL_BYTES))
        except OSError as error:
            return [f"cannot be read: {error.strerror}"]
        return text.decode(errors="replace").splitlines()[-LOG_SHOWN:]

    def close(self) -> None:
        """Close our descriptor; the rack has its own."""
        os.close(self.fd)


def how_it_ended(status: int) -> str:
    """`was killed by SIGKILL`, `ended with status 1`."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:  # those in real time have no names
        return f"was killed by signal {-status}"
