"""A home for one page: its folders, a copy of the tree, and the end of every process that was started from it."""

import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINKED = ("dashboards", "docs", "drivers", "agents", "examples", "playbooks")


@contextmanager
def home(folder: Path) -> Iterator[tuple[Path, Mapping[str, str]]]:
    """The folder in which a page's commands run, and their environment. At the end all processes of that environment
    are stopped.

    The run directory has a short path of its own, as a user's has: it has Unix sockets, and `folder` may be deep.
    """
    here = folder / "checkout"
    here.mkdir()
    (here / ".venv").symlink_to(sys.prefix)
    for name in LINKED:
        (here / name).symlink_to(ROOT / name)
    with tempfile.TemporaryDirectory(prefix="hwd-") as run:
        keep = {name: value for name, value in os.environ.items() if name in ("LANG", "TMPDIR", "USER", "LOGNAME")}
        environment = {
            **keep,
            "HOME": str(folder),
            "HWD_RUN_DIR": run,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/local/sbin:/usr/sbin:/sbin",
            "PYTHONUNBUFFERED": "1",
            "COLUMNS": "200",
            "NO_COLOR": "1",
        }
        try:
            yield here, environment
        finally:
            for pid in _processes(f"HWD_RUN_DIR={run}"):
                with suppress(ProcessLookupError):  # it has ended meanwhile
                    os.kill(pid, signal.SIGKILL)


def _processes(entry: str) -> Iterator[int]:
    """Processes that have this entry in their environment: all that were started from this home."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            entries = path.read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended, or is another user's
        if entry.encode() in entries:
            yield int(path.parent.name)
