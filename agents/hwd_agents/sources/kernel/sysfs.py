"""SysfsFiles: files of the kernel under /sys, or under another folder of the same layout."""

from pathlib import Path, PurePosixPath

from hwd_agents.sources.readings import FileReading
from hwd_agents.wire import SourceNote
from hwd_drivers.core.clock import Clock
from hwd_drivers.core.errors import LinkError


class SysfsFiles:
    """FileSource of a kernel. sysfs answers from memory in microseconds, so it is read in the event loop."""

    def __init__(self, clock: Clock, *, root: Path = Path("/sys"), origin: str = "measured") -> None:
        self._clock = clock
        self._root = root
        self.note = SourceNote(sees=["rdma"], origin=origin)
        if not (root / "class/infiniband").is_dir():
            self.note = SourceNote(sees=[], origin=origin, why_not=f"{root}/class/infiniband: no RDMA device here")

    async def read_file(self, path: str) -> FileReading:
        """Read `path` under the root. Text None: there is no such file, or its device was removed.

        Raises LinkError when it cannot be read.
        """
        if ".." in PurePosixPath(path).parts:
            raise LinkError(f"{path}: leads out of {self._root}; name a file below it")
        before_ns = self._clock.monotonic_ns()
        try:
            text: str | None = (self._root / path.lstrip("/")).read_text(errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            text = None
        except OSError as error:
            raise LinkError(f"{self._root}/{path}: cannot read: {error.strerror}") from error
        return FileReading(path=path, text=text, before_ns=before_ns, after_ns=self._clock.monotonic_ns())
