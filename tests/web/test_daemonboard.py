"""The broker and the disk, as the daemon last reported them."""

from hwd.model.answers import DiskSpace
from hwd.model.documents.daemon import BusDown, BusUp, DaemonDisk
from hwd.web.daemonboard import Daemonboard
from hwd_drivers.core.documents import Document, Fact

UP, DOWN = BusUp(address="mqtt://b"), BusDown(address="mqtt://b", cause="refused")


def test_broker_has_the_time_of_its_last_change() -> None:
    board = Daemonboard()
    times = [board.bus_since_wall_ns]

    def tell(fact: Fact, wall_ns: int) -> None:
        board(Document(at_ns=0, wall_ns=wall_ns, fact=fact))
        times.append(board.bus_since_wall_ns)

    for wall_ns, fact in enumerate((DOWN, DOWN, UP, UP, DOWN), 1):
        tell(fact, wall_ns)
    assert times == [None, 1, 1, 3, 3, 5]


def disk_after(*facts: DaemonDisk) -> DiskSpace | None:
    """Each is read a nanosecond after the one before."""
    board = Daemonboard()
    for wall_ns, fact in enumerate(facts, 1):
        board(Document(at_ns=0, wall_ns=wall_ns, fact=fact))
    return board.disk


def test_disk_is_that_of_the_last_read() -> None:
    assert disk_after() is None
    read = DaemonDisk(path="/data", free_bytes=10, total_bytes=20, why="")
    assert disk_after(read, read) == DiskSpace(path="/data", free_bytes=10, total_bytes=20, why="", read_wall_ns=2)


def test_disk_that_cannot_be_read_is_unknown_and_not_little() -> None:
    read = DaemonDisk(path="/data", free_bytes=10, total_bytes=20, why="")
    gone = disk_after(read, DaemonDisk(path="/data", free_bytes=None, total_bytes=None, why="Input/output error"))
    assert gone is not None
    assert str(gone) == "free space of /data is unknown: Input/output error"
    assert not gone.is_little
