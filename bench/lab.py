"""The demo's rack and its daemon, each in a process of its own with its own folders."""

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from bench.child import program
from hwd.client import Client
from hwd.client.find_token import find_token
from hwd.config.run_files.places import DaemonPlace, daemon_of, rack_of
from hwd.model.status import Status
from hwd_drivers.core.errors import LinkError

TESTBED = Path(__file__).resolve().parents[1] / "examples" / "opus-testbed.yaml"
NAME = "opus-testbed"
HWD = (sys.executable, "-m", "hwd.cli")
INSTALLED = str(Path(sys.executable).with_name("hwd"))
"""The command as it is installed."""
WANTED = ("pairs groups=dp", "pairs groups=pp")
"""Two topologies over the same ports."""
UP_WITHIN_S, POLL_S = 60.0, 0.02


@dataclass(frozen=True, slots=True)
class Daemon:
    """A running daemon that answers calls."""

    place: DaemonPlace

    def client(self) -> Client:
        return Client(self.place.http, token=find_token(self.place, {}))

    def apply(self, what: str, *, ready_within_s: float | None = None) -> None:
        """Block until the switches are read back and, with `ready_within_s`, the links are ready."""
        with self.client() as hwd:
            hwd.apply(what=what, ready_within_s=ready_within_s)

    async def until(self, fits: Callable[[Status], bool]) -> None:
        """Return when `fits` accepts its status. Raises TimeoutError."""
        async with asyncio.timeout(UP_WITHIN_S):
            while True:
                if fits(await asyncio.to_thread(self.status)):
                    return
                await asyncio.sleep(POLL_S)

    def status(self) -> Status:
        with self.client() as hwd:
            return hwd.status()

    def memory_mb(self) -> tuple[float, float]:
        """Resident memory now, and the highest so far."""
        status = Path(f"/proc/{self.place.pid}/status").read_text()
        now, most = (re.search(rf"{key}:\s+(\d+) kB", status) for key in ("VmRSS", "VmHWM"))
        assert now is not None
        assert most is not None
        return int(now[1]) / 1e3, int(most[1]) / 1e3


class Lab:
    """A folder with its own run directory, so that rack and daemon find each other and nothing of the user's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "HWD_RUN_DIR": str(folder / "run")}
        self.environment.pop("HWD_URL", None)
        (folder / "run").mkdir(mode=0o700)

    @contextlib.asynccontextmanager
    async def rack(self, testbed: Path = TESTBED) -> AsyncIterator[None]:
        """Run the rack. Raises LinkError where it does not start."""
        command = (*HWD, "twin", "up", str(testbed))
        log = self.folder / "rack.log"
        async with program(*command, environment=self.environment, log=log) as rack:
            async with asyncio.timeout(UP_WITHIN_S):
                while rack_of(NAME, self.environment) is None:
                    if rack.process.returncode is not None:
                        raise LinkError(f"rack of the bench: did not come up: {log.read_text()}")
                    await asyncio.sleep(POLL_S)
            yield

    @contextlib.asynccontextmanager
    async def daemon(self, *, mqtt: str = "embedded", testbed: Path = TESTBED) -> AsyncIterator[Daemon]:
        """Run the daemon; yields when it answers. Raises LinkError where it does not start."""
        serve = ("serve", str(testbed), "--no-twin", "--data", str(self.folder / "data"), "--http", "127.0.0.1:0")
        log = self.folder / "daemon.log"
        async with program(*HWD, *serve, "--mqtt", mqtt, environment=self.environment, log=log) as daemon:
            async with asyncio.timeout(UP_WITHIN_S):
                while (place := daemon_of(NAME, self.environment)) is None:
                    if daemon.process.returncode is not None:
                        raise LinkError(f"daemon of the bench: did not come up: {log.read_text()}")
                    await asyncio.sleep(POLL_S)
            yield Daemon(place)


def all_up(status: Status) -> bool:
    """Every switch has a session, and every agent's clock is known."""
    return all(switch.up for switch in status.switches) and all_aligned(status)


def all_aligned(status: Status) -> bool:
    return all(host.aligned for host in status.hosts)
