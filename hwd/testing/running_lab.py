"""The daemon that a session of tests uses: its own, with twins, or the one of the real rack."""

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from hwd.client import AsyncClient, Client
from hwd.config.run_files.places import daemon_of, rack_of
from hwd.daemon.installed_drivers import load
from hwd.daemon.launch import has_twins
from hwd.model.status import Status
from hwd.testing.process import Processes, tail, without_hwd
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import BugError, LinkError

UP_WITHIN_S = 30.0
"""For daemon, twins and agents to connect and their clocks to be aligned; 2 s on two idle cores."""
POLL_S = 0.02
DEFAULT_TESTBED = Path(__file__).with_name("two-hosts.yaml")

_clock = SystemClock()


class RunningLab:
    """Close it. `glass`: it was named by --hwd-lab. `twins` is None where only the daemon knows whether
    there are twins.
    """

    def __init__(
        self,
        stack: ExitStack,
        *,
        name: str,
        glass: bool,
        url: str | None = None,
        testbed: Path | None = None,
        twins: bool | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        self.name = name
        self.testbed = testbed
        self.glass = glass
        self.twins = twins
        self.environment = environment
        self._url = url
        self._stack = stack
        self._processes: Processes | None = None
        self._daemon: tuple[str, ...] = ()

    @classmethod
    def on_twins(cls, testbed: Path) -> Self:
        """Start a daemon and a rack of twins in a temporary folder. Raises ConfigError with all
        problems of the file.
        """
        name, file = load(testbed).require().name, str(testbed.absolute())
        with ExitStack() as stack:
            folder = _folder(stack)
            environment = {**without_hwd(), "HWD_RUN_DIR": str(folder / "run")}
            lab = cls(stack, name=name, testbed=testbed, glass=False, twins=True, environment=environment)
            lab._processes = Processes(folder, environment)
            stack.callback(lab._processes.end)
            lab._processes.start("rack", "twin", "up", file)
            lab._daemon = ("serve", file, "--no-twin", "--data", str(folder / "data"), "--http", "127.0.0.1:0")
            lab.start_daemon()
            lab.settle(UP_WITHIN_S)
            lab._stack = stack.pop_all()
        return lab

    @classmethod
    def on_glass(cls, named: str) -> Self:
        """The daemon at a URL, or that of a testbed file, which is started where none runs.

        A daemon that was started here is stopped here, with its twins.
        """
        if named.startswith(("http://", "https://")):
            with Client.find(named) as client:
                return cls(ExitStack(), name=client.status().testbed, url=named, glass=True)
        testbed = Path(named)
        loaded = load(testbed).require()
        with ExitStack() as stack:
            lab = cls(stack, name=loaded.name, testbed=testbed, glass=True, twins=has_twins(loaded))
            if daemon_of(loaded.name) is None:
                folder = _folder(stack)
                if rack_of(loaded.name) is None:
                    stack.callback(_end_rack, loaded.name)
                lab._processes = Processes(folder, os.environ)
                stack.callback(lab._processes.end)
                lab._daemon = ("serve", str(testbed.absolute()), "--http", "127.0.0.1:0")
                lab.start_daemon()
                lab.settle(UP_WITHIN_S, at_least=False)
            lab._stack = stack.pop_all()
        return lab

    def close(self) -> None:
        self._stack.close()

    def connect(self) -> Client:
        """A new client; close it."""
        if self._url is not None:
            return Client.find(self._url)
        return Client.find(environment=self.environment, testbed=self.name)

    def aconnect(self) -> AsyncClient:
        """A new client for coroutines; close it in their loop."""
        if self._url is not None:
            return AsyncClient.find(self._url)
        return AsyncClient.find(environment=self.environment, testbed=self.name)

    @property
    def logs(self) -> tuple[Path, ...]:
        """Logs of the processes that were started here."""
        return self._processes.logs if self._processes is not None else ()

    def check(self) -> None:
        """Raises FailedError where a process that was started here has ended."""
        if self._processes is not None:
            self._processes.check()

    def settle(self, within_s: float, *, at_least: bool = True) -> Status:
        """Wait until everything is connected and nothing is under way.

        Raises LinkError that says what is missing; without `at_least`, on a real rack, it does not raise.
        """
        due_ns = _clock.monotonic_ns() + round(within_s * 1e9)
        with self.connect() as client:
            while True:
                self.check()
                now = client.status()
                late = _clock.monotonic_ns() > due_ns
                if now.settled or (late and not at_least):
                    return now
                if late:
                    raise LinkError(f"lab: not settled within {within_s:g} s: {_missing(now)}")
                threading.Event().wait(POLL_S)

    def start_daemon(self) -> None:
        """Start the daemon, or restart it after it ended, and wait until it is ready. Raises BugError where the daemon
        was not started here.
        """
        if self._processes is None:
            raise BugError(f"lab {self.name}: its daemon was not started here")
        self._processes.start("daemon", *self._daemon)
        due_ns = _clock.monotonic_ns() + round(UP_WITHIN_S * 1e9)
        while daemon_of(self.name, self.environment) is None:
            self.check()
            if _clock.monotonic_ns() > due_ns:
                words = "\n".join(map(tail, self.logs))
                raise LinkError(
                    f"lab: the daemon of testbed {self.name} was not there within {UP_WITHIN_S:g} s\n{words}"
                )
            threading.Event().wait(POLL_S)


def _folder(stack: ExitStack) -> Path:
    """A temporary folder with a short path: those of Unix sockets are limited."""
    folder = Path(tempfile.mkdtemp(prefix="hwd-"))
    stack.callback(shutil.rmtree, folder)
    return folder


def _missing(now: Status) -> str:
    words = [str(switch) for switch in now.switches if switch.up is False]
    words += [
        f"{host.name} {'has no aligned clock' if host.up else 'is down'}"
        for host in now.hosts
        if not (host.up and host.aligned)
    ]
    words += [f"run {run.run} is under way" for run in now.runs]
    words += [f"reconfiguration {one} is under way" for one in now.reconfigurations]
    words += [f"reconfiguration {one}" for one in now.open]
    return "; ".join(words) or f"the broker {now.bus.address} is not connected"


def _end_rack(testbed: str) -> None:
    rack = rack_of(testbed)
    if rack is not None:
        os.kill(rack.pid, signal.SIGTERM)
