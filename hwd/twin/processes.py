"""The agents of a rack's hosts, one process each: started, restarted when they end, and stopped."""

import asyncio
import logging
import os
import subprocess
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import BinaryIO, Final

from hwd.twin import parent_death
from hwd_drivers.core.child_process import end_of
from hwd_drivers.core.own_python import own_python

AGAIN_AFTER_S: Final = 1.0
"""As systemd's `RestartSec=1` for a real host's agent."""
WELL_AFTER_S: Final = 5.0
"""An agent that ran for so long after its last start is healthy again."""
UP_WITHIN_S: Final = 5.0
"""How long others wait for an agent to start; one takes 0.5 s on an idle core."""
END_WITHIN_S: Final = 2.0
LOG_LIMIT_BYTES: Final = 1024 * 1024
"""A longer log is truncated at the next start."""

log = logging.getLogger(__name__)


class AgentProcess:
    """The agent of one host. `on_pid` is called with its process id, and with None when it ends.

    `config` writes its configuration, and returns the path. `turns` limits the number of agents that start at a time,
    each until it is `up`: those that are up already answer while hundreds start.
    """

    def __init__(
        self,
        host: str,
        *,
        config: Callable[[], Path],
        log_file: Path,
        on_pid: Callable[[int | None], None],
        turns: asyncio.Semaphore,
        up: Callable[[], Coroutine[None, None, None]],
    ) -> None:
        self._host = host
        self._config = config
        self._log_file = log_file
        self._on_pid = on_pid
        self._turns = turns
        self._up = up
        self._process: subprocess.Popen[bytes] | None = None

    def kill(self) -> None:
        """Send SIGKILL, as a crash; `run` restarts it. Does nothing while no process runs."""
        if self._process is not None:
            self._process.kill()

    async def run(self) -> None:
        """Keep it running until cancelled; then SIGTERM, and SIGKILL after `END_WITHIN_S`."""
        deaths = 0
        while True:
            try:
                async with self._turns:
                    process, ended = await self._start_up()
            except OSError as error:  # a run directory that a clean-up has removed, a full disk, no process left
                how = f"cannot be started: {error.filename or self._log_file}: {error.strerror or error}"
            else:
                healthy_after_s = WELL_AFTER_S if deaths else None
                try:
                    done, _ = await asyncio.wait((ended,), timeout=healthy_after_s)
                    if not done:
                        log.info(
                            "%s: its agent is well again, as pid %d, after %d deaths", self._host, process.pid, deaths
                        )
                        deaths = 0
                        await asyncio.wait((ended,))
                finally:
                    if not ended.done():
                        await _end(process, ended)
                self._process = None
                self._on_pid(None)
                how = f"pid {process.pid}, {_how(ended.result())}"
            deaths += 1
            log.log(
                logging.WARNING if deaths == 1 else logging.DEBUG,
                "%s: its agent, %s. Starting it again in %g s; its words are in %s",
                self._host,
                how,
                AGAIN_AFTER_S,
                self._log_file,
            )
            await asyncio.sleep(AGAIN_AFTER_S)

    async def _start_up(self) -> "tuple[subprocess.Popen[bytes], asyncio.Future[int]]":
        """Wait until it is up, has ended, or the time for others is over."""
        process, ended = self._start()
        up = asyncio.create_task(self._up())
        try:
            await asyncio.wait((ended, up), timeout=UP_WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await _end(process, ended)
            raise
        finally:
            up.cancel()
        return process, ended

    def _start(self) -> "tuple[subprocess.Popen[bytes], asyncio.Future[int]]":
        """Start it in a session of its own: Ctrl-C is the rack's to handle. Raises OSError."""
        command = own_python(os.fspath(parent_death.__file__), str(os.getpid()), "--config", str(self._config()))
        with self._open_log() as words:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=words, stderr=words, start_new_session=True
            )
        self._process = process
        self._on_pid(process.pid)
        return process, end_of(process)

    def _open_log(self) -> BinaryIO:
        """The file for its words; where that cannot be opened it goes without them."""
        try:
            has_room = self._log_file.exists() and self._log_file.stat().st_size < LOG_LIMIT_BYTES
            return self._log_file.open("ab" if has_room else "wb")
        except OSError as error:
            log.warning("%s: the words of its agent are lost: %s: %s", self._host, self._log_file, error.strerror)
            return open(os.devnull, "wb")


async def _end(process: "subprocess.Popen[bytes]", ended: "asyncio.Future[int]") -> None:
    process.terminate()
    done, _ = await asyncio.wait((ended,), timeout=END_WITHIN_S)
    if not done:
        process.kill()
        await asyncio.wait((ended,))


def _how(status: int) -> str:
    return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
