"""Examines a host. This file is sent there: it needs nothing but Python."""

import hashlib
import importlib.util
import json
import os
import platform
import shutil
import socket
import sys
from pathlib import Path
from typing import Any, Final

from hwd.rollout.onhost.programs import run

UNIT: Final = "hwd-agent.service"
COMPLETE: Final = "complete.json"
"""In a complete environment: a power cut leaves one without it, which is made again."""
BEFORE: Final = ".before"
"""The suffix of what a switch has replaced."""
REACH_S: Final = 4.0
LOG_LINES: Final = 20
READ_LINES: Final = 200
"""The lines of the journal that are read: a process that ended and the next one."""
SYSTEMD: Final = " systemd[1]: "
CHATTER: Final = tuple(
    f"{words} "
    for words in (
        "Starting",
        "Started",
        "Stopping",
        "Stopped",
        "Failed to start",
        "Deactivated",
        "Consumed",
        "Scheduled restart",
    )
)
"""Messages of systemd about its own work, which hide those of an agent that ends repeatedly."""
ENDED: Final = "Scheduled restart job"
IFF_UP: Final = 1
"""linux/if.h: the interface is set up."""


def look(layout: dict[str, str]) -> dict[str, Any]:
    """The facts about this host."""
    root = Path(layout["root"])
    names = sorted(path.name for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    current = os.path.basename(os.readlink(root / "current")) if (root / "current").is_symlink() else None
    near = nearest(root)
    disk = os.statvfs(near)
    log, ended = journal() if layout["unit"] else ([], [])
    return {
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "machine": platform.machine(),
        "libc": list(platform.libc_ver()),
        "system": system_name(),
        "kernel": platform.release(),
        "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "network": os.stat("/proc/self/ns/net").st_ino,
        "systemd": Path("/run/systemd/system").is_dir(),
        "venv": importlib.util.find_spec("venv") is not None,
        "near": str(near),
        "free_bytes": disk.f_bavail * disk.f_frsize,
        "read_only": bool(disk.f_flag & os.ST_RDONLY),
        "environments": {name: manifest(root / name) for name in names if not (root / name).is_symlink()},
        "current": current,
        "current_runs": current is not None and runs(root / current),
        "config": digest(Path(layout["config"])),
        "config_mode": mode(Path(layout["config"])),
        "unit": digest(Path(layout["unit"])) if layout["unit"] else None,
        "before": [name for name in (layout["config"], layout["unit"]) if name and Path(name + BEFORE).exists()],
        "service": service() if layout["unit"] else {},
        "log": log[-LOG_LINES:],
        "ended": ended[-LOG_LINES:],
        "tools": [tool for tool in ("mlxlink", "mstlink") if shutil.which(tool)],
        "interfaces": links(),
        "synchronized": synchronized(),
    }


def reach(layout: dict[str, str], host: str, port: int) -> dict[str, Any]:
    """{why: no TCP connection can be made to it; empty where one can}."""
    try:
        with socket.create_connection((host, port), timeout=REACH_S):
            return {"why": ""}
    except OSError as error:
        return {"why": error.strerror or str(error)}


def nearest(path: Path) -> Path:
    """The path, or its nearest existing parent."""
    while not path.exists():
        path = path.parent
    return path


def manifest(environment: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads((environment / COMPLETE).read_text())
    except (OSError, ValueError):
        return None
    return found


def runs(environment: Path) -> bool:
    """Whether the agent can be started: an upgrade of the host's Python breaks an environment."""
    command = [str(environment / "bin/python"), "-I", "-c", "import hwd_agents.process.serve"]
    try:
        return run(command, fails=True).returncode == 0
    except OSError:
        return False


def digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None


def mode(path: Path) -> str | None:
    return f"{path.stat().st_mode & 0o777:o}" if path.exists() else None


def system_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        return "Linux"


def service() -> dict[str, str]:
    """The state of the unit by systemd; empty without systemd."""
    if not Path("/run/systemd/system").is_dir():
        return {}
    names = (
        "LoadState,ActiveState,SubState,Result,NRestarts,MainPID,ExecMainStatus,UnitFileState,StatusText,"
        "NeedDaemonReload"
    )
    said = run(["systemctl", "show", UNIT, "-p", names], fails=True).stdout
    return dict(line.split("=", 1) for line in said.splitlines() if "=" in line)


def journal() -> tuple[list[str], list[str]]:
    """The end of the agent's log, and that of the process before the last restart by systemd."""
    if shutil.which("journalctl") is None:
        return [], []
    done = run(["journalctl", "-u", UNIT, "-n", str(READ_LINES), "-o", "short-iso", "--no-pager", "-q"], fails=True)
    lines = done.stdout.splitlines()
    last = max((number for number, line in enumerate(lines) if ENDED in line), default=0)
    return words(lines), words(lines[:last])


def words(lines: list[str]) -> list[str]:
    return [line for line in lines if not any(words in line.partition(SYSTEMD)[2] for words in CHATTER)]


def links() -> dict[str, str]:
    """The state of each interface: "up" or "down" by its carrier, "off" where it is not set up."""
    found = {}
    for path in sorted(Path("/sys/class/net").iterdir()):
        try:
            is_up = int((path / "flags").read_text(), 16) & IFF_UP
            found[path.name] = "off" if not is_up else "up" if (path / "carrier").read_text() == "1\n" else "down"
        except OSError:  # it disappears right now; or a file that is no interface, such as bonding_masters
            continue
    return found


def pyverbs() -> Path | None:
    """The folder of the host's own python3-pyverbs."""
    places = ("/usr/lib/python3/dist-packages", f"/usr/lib64/python3.{sys.version_info.minor}/site-packages")
    return next((path for place in places if (path := Path(place, "pyverbs")).is_dir()), None)


def synchronized() -> bool | None:
    """Whether a time service keeps the host's clock right; None where that is unknown."""
    if shutil.which("timedatectl") is None:
        return None
    done = run(["timedatectl", "show", "-p", "NTPSynchronized", "--value"], fails=True)
    return {"yes": True, "no": False}.get(done.stdout.strip())
