"""Processes of hwd that the tests start, and the last lines of their logs."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from hwd_drivers.core.errors import FailedError
from hwd_drivers.core.own_python import own_python

END_WITHIN_S = 15.0
WORDS = 12
"""Last lines of a log that are shown."""


class Process:
    """A process of `hwd` with some arguments; its output is appended to `log`. It ends when this process ends."""

    def __init__(self, log: Path, *arguments: str, environment: Mapping[str, str]) -> None:
        self.log = log
        command = own_python("-m", "hwd.testing.parent_death", str(os.getpid()), *arguments)
        with log.open("ab") as words:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                env=dict(environment),
                start_new_session=True,
            )

    def check(self) -> None:
        """Raises FailedError with the end of the log where the process has ended."""
        if (status := self._process.poll()) is not None:
            raise FailedError(
                f"{self.log.stem} of the tests ended with status {status}. The end of {self.log}:\n{tail(self.log)}"
            )

    def end(self) -> None:
        """Stop it with SIGTERM, and with SIGKILL when that takes too long."""
        self._process.terminate()
        try:
            self._process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Processes:
    """The processes of one rack. End them."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = environment
        self._started: dict[str, Process] = {}

    def start(self, name: str, *arguments: str) -> None:
        """Start a process in place of the one of this name; it appends to the same log."""
        if (before := self._started.pop(name, None)) is not None:
            before.end()
        self._started[name] = Process(self._folder / f"{name}.log", *arguments, environment=self._environment)

    def end(self) -> None:
        """Stop all, the last one first."""
        while self._started:
            _, process = self._started.popitem()
            process.end()

    def check(self) -> None:
        """Raises FailedError where one has ended."""
        for process in self._started.values():
            process.check()

    @property
    def logs(self) -> tuple[Path, ...]:
        return tuple(process.log for process in self._started.values())


def without_hwd() -> dict[str, str]:
    """The environment of this process, without what is said to hwd in it."""
    return {name: value for name, value in os.environ.items() if not name.startswith("HWD_")}


def tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-WORDS:])
