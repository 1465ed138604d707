"""The Unix sockets of a rack in its run directory: their paths, and the check of their lengths."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from hwd.model.testbed import Testbed
from hwd.twin.control import CONTROL
from hwd.twin.kernel_hosts import kernel_hosts, machine_hosts
from hwd_drivers.core.errors import ConfigError

SOCKET_PATH_LIMIT_BYTES: Final = 107
"""The longest `sun_path` without its closing zero (unix(7))."""


def control_socket(run_dir: Path) -> Path:
    """The socket of `hwd fault`."""
    return run_dir / CONTROL


def keeper_path(run_dir: Path) -> Path:
    """Where the keeper of the namespaces passes sockets out."""
    return run_dir / "keeper"


def host_socket(run_dir: Path, host: str) -> Path:
    """The socket of a host twin for its agent."""
    return run_dir / f"{host}.sock"


def select_socket(run_dir: Path, host: str) -> Path:
    """The socket where the jobs of a host set its own switches; only hosts with switches have one."""
    return run_dir / f"{host}.select.sock"


def transfer_socket(run_dir: Path, host: str) -> Path:
    """The socket where processes of a host say what they are sending."""
    return run_dir / f"{host}.transfers.sock"


def monitor_socket(run_dir: Path, host: str) -> Path:
    """The socket of the monitor of a virtual machine."""
    return run_dir / f"{host}.monitor"


def check_sockets(testbed: Testbed, run_dir: Path) -> None:
    """Raises ConfigError, with the remedy, where one of the paths would be longer than Linux allows."""
    check_path(max(_all(testbed, run_dir.absolute()), key=lambda path: len(os.fsencode(path))))


def check_path(path: Path) -> Path:
    """The path itself; raises ConfigError where it is longer than Linux allows."""
    if (length := len(os.fsencode(path))) > SOCKET_PATH_LIMIT_BYTES:
        raise ConfigError(
            f"{path}: cannot be a Unix socket: {length} bytes, over the {SOCKET_PATH_LIMIT_BYTES} of Linux. "
            "Name a shorter run directory with HWD_RUN_DIR"
        )
    return path


def _all(testbed: Testbed, run_dir: Path) -> Iterator[Path]:
    yield control_socket(run_dir)
    if kernel_hosts(testbed) or machine_hosts(testbed):
        yield keeper_path(run_dir)
    owners = {switch.owner for switch in testbed.switches.values()}
    for host in testbed.hosts:
        yield host_socket(run_dir, host)
        yield transfer_socket(run_dir, host)
        if host in owners:
            yield select_socket(run_dir, host)
    for machine in machine_hosts(testbed):
        yield monitor_socket(run_dir, machine.name)
