"""The parts that outlive the daemons of a campaign: the rack of twins and a Mosquitto, each its own process."""

import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hwd.config.run_files.places import RackPlace, rack_of
from hwd.testing.process import Processes, tail, without_hwd
from hwd_drivers.core.errors import ConfigError, LinkError

NAME: Final = "crashes"
TESTBED: Final = f"""
testbed: {NAME}
switches:
  ocs1: {{driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {{timing: polatis-opus, seed: 1}}}}
  ocs2: {{driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {{timing: polatis-50ms, seed: 2}}}}
hosts: {{}}
fibres: []
"""
UP_WITHIN_S: Final = 30.0
POLL_S: Final = 0.02
WHERE_DEBIAN_HAS_IT: Final = "/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The surroundings of a daemon; `mqtt`: the URL of the broker; `rack`: where its parts listen."""

    folder: Path
    environment: dict[str, str]
    mqtt: str
    rack: RackPlace

    @property
    def testbed(self) -> Path:
        return self.folder / "testbed.yaml"

    @property
    def data(self) -> Path:
        return self.folder / "data"


@contextmanager
def surroundings() -> Iterator[Surroundings]:
    """Make the surroundings in a folder of their own, gone at the end. Raises ConfigError without Mosquitto, LinkError
    where one does not start.
    """
    program = shutil.which("mosquitto", path=WHERE_DEBIAN_HAS_IT)
    if program is None:
        raise ConfigError("crashes: there is no mosquitto here. Install it: apt-get install mosquitto")
    folder = Path(tempfile.mkdtemp(prefix="hwd-"))  # a short path: those of Unix sockets are limited
    environment = {**without_hwd(), "HWD_RUN_DIR": str(folder / "run")}
    processes = Processes(folder, environment)
    try:
        (folder / "testbed.yaml").write_text(TESTBED)
        with _mosquitto(program, folder) as port:
            processes.start("rack", "twin", "up", str(folder / "testbed.yaml"))
            yield Surroundings(
                folder=folder,
                environment=environment,
                mqtt=f"mqtt://127.0.0.1:{port}",
                rack=_rack(environment, processes),
            )
    finally:
        processes.end()
        shutil.rmtree(folder)


def _rack(environment: dict[str, str], processes: Processes) -> RackPlace:
    for _ in range(round(UP_WITHIN_S / POLL_S)):
        if (rack := rack_of(NAME, environment)) is not None:
            return rack
        processes.check()
        threading.Event().wait(POLL_S)
    raise LinkError(f"crashes: the twin rack is not up within {UP_WITHIN_S:g} s\n{''.join(map(tail, processes.logs))}")


@contextmanager
def _mosquitto(program: str, folder: Path) -> Iterator[int]:
    """Start Mosquitto on a free port of loopback; between the choice and the start somebody may take it, so that it is
    tried again.
    """
    config, log = folder / "mosquitto.conf", folder / "mosquitto.log"
    for _ in range(5):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port: int = free.getsockname()[1]
        # as root it would become the user mosquitto, who may not read here
        config.write_text(f"listener {port} 127.0.0.1\nuser root\nset_tcp_nodelay true\nallow_anonymous true\n")
        with log.open("ab") as words:
            process = subprocess.Popen(
                [program, "-c", str(config)], stdin=subprocess.DEVNULL, stdout=words, stderr=words
            )
        try:
            if _listens(process, port):
                yield port
                return
        finally:
            process.kill()
            process.wait()
    raise LinkError(f"crashes: mosquitto does not start\n{tail(log)}")


def _listens(process: subprocess.Popen[bytes], port: int) -> bool:
    for _ in range(round(UP_WITHIN_S / POLL_S)):
        if process.poll() is not None:
            return False
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
        except OSError:
            threading.Event().wait(POLL_S)
        else:
            return True
    return False
