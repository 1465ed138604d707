"""What the daemon last reported of itself, from documents, for the status screen: its broker and its disk."""

from typing import ClassVar

from hwd.model.answers import DiskSpace
from hwd.model.documents.daemon import BusDown, BusUp, DaemonDisk
from hwd_drivers.core.documents import Document


class Daemonboard:
    """A `Sink`.

    `disk` is None until it was read first. `bus_since_wall_ns`: when the broker was connected, or lost; None until the
    first of these.
    """

    TAKES: ClassVar = (BusUp, BusDown, DaemonDisk)

    def __init__(self) -> None:
        self.disk: DiskSpace | None = None
        self.bus_since_wall_ns: int | None = None
        self._connected: bool | None = None

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
