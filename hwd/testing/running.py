"""The daemon that a session of tests uses: its own, on twins, or one that drives the real rack."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from hwd.client import Client
from hwd.client.answers import Status
from hwd.config.places import daemon_of, rack_of
from hwd.daemon.installed import load
from hwd.daemon.launch import has_twins
from hwd_drivers.kit.clock import SystemClock
from hwd_drivers.kit.errors import FailedError, LinkError

UP_WITHIN_S = 30.0
"""For daemon, twins and agents to be there and their clocks aligned; 2 s on two idle cores."""
END_WITHIN_S = 15.0
POLL_S = 0.02
WORDS = 12
"""Last lines of a log that are shown."""
DEFAULT_TESTBED = Path(__file__).with_name("two-hosts.yaml")

_clock = SystemClock()


class Process:
    """`hwd` with some arguments, on the leash of this process; what it says goes to `log`."""

    def __init__(self, log: Path, *arguments: str, environment: Mapping[str, str]) -> None:
        self.log = log
        command = [sys.executable, "-m", "hwd.testing.leash", str(os.getpid()), *arguments]
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
        """Raises FailedError with its last words where it has ended."""
        if (status := self._process.poll()) is not None:
            raise FailedError(
                f"{self.log.stem} of the tests ended with status {status}. The end of {self.log}:\n{tail(self.log)}"
            )

    def end(self) -> None:
        """In order, and without order when that takes too long."""
        self._process.terminate()
        try:
            self._process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class RunningLab:
    """Close it. `glass`: it was named by --hwd-lab. `twins` is None where only the daemon knows whether it has some."""

    def __init__(
        self,
        client: Client,
        *,
        name: str,
        testbed: Path | None,
        glass: bool,
        twins: bool | None,
        processes: tuple[Process, ...] = (),
        logs: tuple[Path, ...] = (),
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.client = client
        self.name = name
        self.testbed = testbed
        self.glass = glass
        self.twins = twins
        self.environment = environment
        self.logs = logs
        self._processes = processes
        self._ending = ExitStack()

    @classmethod
    def on_twins(cls, testbed: Path) -> Self:
        """Daemon and rack of their own, in a folder of their own. Raises ConfigError with all problems of the file."""
        loaded = load(testbed).require()
        folder = Path(tempfile.mkdtemp(prefix="hwd-"))  # short: paths of Unix sockets must be
        environment = {**_without_hwd(os.environ), "HWD_RUN_DIR": str(folder / "run")}
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, folder)
            start = _Starter(stack, folder, environment)
            rack = start("rack", "twin", "up", str(testbed.absolute()))
            daemon = start("daemon", "serve", str(testbed.absolute()), "--no-twin", "--data", str(folder / "data"), "--http", "127.0.0.1:0")  # fmt: skip
            client = stack.enter_context(_found(loaded.name, environment, (rack, daemon)))
            logs = (daemon.log, rack.log)
            lab = cls(client, name=loaded.name, testbed=testbed, glass=False, twins=True, processes=(rack, daemon), logs=logs, environment=environment)  # fmt: skip
            lab.settle(UP_WITHIN_S)
            lab._ending = stack.pop_all()
        return lab

    @classmethod
    def on_glass(cls, named: str) -> Self:
        """The daemon at a URL; or that of a testbed file, started where none runs. One that was started here ends here, with its twins."""
        if named.startswith(("http://", "https://")):
            client = Client.find(named)
            with ExitStack() as stack:
                stack.callback(client.close)
                name = client.status().testbed
                lab = cls(client, name=name, testbed=None, glass=True, twins=None)
                lab._ending = stack.pop_all()
            return lab
        testbed = Path(named)
        loaded = load(testbed).require()
        with ExitStack() as stack:
            processes: tuple[Process, ...] = ()
            if daemon_of(loaded.name) is None:
                folder = Path(tempfile.mkdtemp(prefix="hwd-"))
                stack.callback(shutil.rmtree, folder)
                if rack_of(loaded.name) is None:
                    stack.callback(_end_rack, loaded.name)
                start = _Starter(stack, folder, os.environ)
                processes = (start("daemon", "serve", str(testbed.absolute()), "--http", "127.0.0.1:0"),)
            client = stack.enter_context(_found(loaded.name, os.environ, processes))
            logs = tuple(process.log for process in processes)
            lab = cls(
                client,
                name=loaded.name,
                testbed=testbed,
                glass=True,
                twins=has_twins(loaded),
                processes=processes,
                logs=logs,
            )
            if processes:
                lab.settle(UP_WITHIN_S, at_least=False)
            lab._ending = stack.pop_all()
        return lab

    def close(self) -> None:
        self._ending.close()

    def check(self) -> None:
        """Raises FailedError where a process that was started here has ended."""
        for process in self._processes:
            process.check()

    def settle(self, within_s: float, *, at_least: bool = True) -> Status:
        """Wait until all is there and nothing is under way. Raises LinkError that says what is not; not so without `at_least`, on a real rack."""
        due_ns = _clock.monotonic_ns() + round(within_s * 1e9)
        while True:
            self.check()
            now = self.client.status()
            if now.settled:
                return now
            if _clock.monotonic_ns() > due_ns:
                if at_least:
                    raise LinkError(f"lab: not settled within {within_s:g} s: {_missing(now)}")
                return now
            threading.Event().wait(POLL_S)


def tail(log: Path, lines: int = WORDS) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def _found(testbed: str, environment: Mapping[str, str], processes: tuple[Process, ...]) -> Client:
    """A client of the daemon of a testbed, as soon as it is there."""
    due_ns = _clock.monotonic_ns() + round(UP_WITHIN_S * 1e9)
    while daemon_of(testbed, environment) is None:
        for process in processes:
            process.check()
        if _clock.monotonic_ns() > due_ns:
            words = "\n".join(tail(process.log) for process in processes)
            raise LinkError(f"lab: the daemon of testbed {testbed} was not there within {UP_WITHIN_S:g} s\n{words}")
        threading.Event().wait(POLL_S)
    return Client.find(environment=environment, testbed=testbed)


def _missing(now: Status) -> str:
    words = [str(switch) for switch in now.switches if switch.up is False]
    words += [
        f"{host.name} {'has no aligned clock' if host.up else 'is down'}"
        for host in now.hosts
        if not (host.up and host.aligned)
    ]
    words += [f"run {run['run']} is under way" for run in now["runs"]]
    words += [f"reconfiguration {one} is under way" for one in now.reconfigurations]
    return "; ".join(words) or f"the broker {now['bus']['address']} is not connected"


def _without_hwd(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith("HWD_")}


def _end_rack(testbed: str) -> None:
    rack = rack_of(testbed)
    if rack is not None:
        os.kill(rack.pid, signal.SIGTERM)


class _Starter:
    """Starts processes that end in the order against that of their starts."""

    def __init__(self, stack: ExitStack, folder: Path, environment: Mapping[str, str]) -> None:
        self._stack = stack
        self._folder = folder
        self._environment = environment

    def __call__(self, name: str, *arguments: str) -> Process:
        process = Process(self._folder / f"{name}.log", *arguments, environment=self._environment)
        self._stack.callback(process.end)
        return process
