"""Starts the twin rack as a process that outlives the daemon, and logs its end."""

import asyncio
import logging
import os
import shlex
import signal
import sys
from pathlib import Path

from hwd.config.run_files.places import is_held
from hwd.model.testbed import Testbed
from hwd_drivers.core.errors import FailedError

LOG_SHOWN = 5
"""Last lines of the rack's log that are repeated when it ends by itself."""

log = logging.getLogger(__name__)


def has_twins(testbed: Testbed) -> bool:
    return any(switch.twin for switch in testbed.switches.values()) or any(host.twin for host in testbed.hosts.values())


class RackProcess:
    """`hwd twin up` in a session of its own: neither the daemon's end nor a Ctrl-C on its terminal ends it."""

    def __init__(self, pid: int, log_path: Path, testbed_file: str) -> None:
        self.pid = pid
        self.testbed_file = testbed_file
        self.log_path = log_path
        self.ended = False

    @classmethod
    def start(cls, testbed_path: Path, run_dir: Path) -> "RackProcess | None":
        """None where the rack of this testbed is up already."""
        if is_held(run_dir / "rack.json"):
            return None
        log_path = run_dir / "rack.log"
        arguments = [sys.executable, "-m", "hwd.cli", "twin", "up", str(testbed_path.absolute())]
        try:
            pid = os.posix_spawn(
                sys.executable,
                arguments,
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, str(log_path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsid=True,
            )
        except OSError as error:
            raise FailedError(f"twin rack: cannot start {' '.join(arguments)}: {error.strerror}") from error
        return cls(pid, log_path, shlex.quote(str(testbed_path.absolute())))

    async def watch(self) -> None:
        """Wait for the end of the rack, then log how it ended. An operator restarts it, once the cause is known."""
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        descriptor = os.pidfd_open(self.pid)
        loop.add_reader(descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
        self.ended = True
        _, status = os.waitpid(self.pid, os.WNOHANG)  # noqa: ASYNC222 - it has ended, and there is nothing to wait for
        lines = self.log_path.read_text(errors="replace").splitlines()[-LOG_SHOWN:]
        log.error(
            "twin rack (pid %d) %s; `hwd twin up %s` starts it again. The end of %s: %s",
            self.pid,
            how_it_ended(os.waitstatus_to_exitcode(status)),
            self.testbed_file,
            self.log_path,
            " / ".join(lines) or "nothing",
        )


def how_it_ended(status: int) -> str:
    """`was killed by SIGKILL`, `ended with status 1`."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:  # those in real time have no names
        return f"was killed by signal {-status}"
