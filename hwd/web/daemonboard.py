"""The daemon's last reports of itself, from documents, for the status screen: its broker and its disk."""

from typing import ClassVar

from hwd.model.daemon import BusDown, BusUp, DaemonDisk, DaemonStarted, DaemonStopped
from hwd.model.kinds import KINDS
from hwd.model.status import DiskSpace
from hwd.records.records import Records
from hwd_drivers.core.documents import Document


class Daemonboard:
    """A `Sink`.

    `died_wall_ns`: when the process before this one was last heard, where it did not end in order. `disk` is None until
    it was read first. `bus_since_wall_ns`: when the broker was connected, or lost; None until the first of these.
    """

    TAKES: ClassVar = (BusUp, BusDown, DaemonDisk)

    def __init__(self) -> None:
        self.died_wall_ns: int | None = None
        self.disk: DiskSpace | None = None
        self.bus_since_wall_ns: int | None = None
        self._connected: bool | None = None

    async def load(self, records: Records) -> None:
        """Read how the process before this one ended."""
        ends = await records.newest([DaemonStarted.KIND, DaemonStopped.KIND], limit=1)
        if ends and isinstance(ends[0].document.fact, DaemonStarted):
            (last,) = await records.newest(KINDS, limit=1)
            self.died_wall_ns = last.document.wall_ns

    def __call__(self, document: Document) -> None:
        match document.fact:
            case DaemonDisk(path=path, free_bytes=free_bytes, total_bytes=total_bytes, why=why):
                self.disk = DiskSpace(
                    path=path,
                    free_bytes=free_bytes,
                    total_bytes=total_bytes,
                    why=why,
                    read_wall_ns=document.wall_ns,
                )
            case BusUp() | BusDown() as fact:
                connected = isinstance(fact, BusUp)
                if connected is not self._connected:
                    self._connected, self.bus_since_wall_ns = connected, document.wall_ns
