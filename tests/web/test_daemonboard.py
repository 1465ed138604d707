"""The broker and the disk, as the daemon last reported them."""

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


def test_disk_is_that_of_the_last_read() -> None:
    board = Daemonboard()
    assert board.disk is None
    board(Document(at_ns=0, wall_ns=7, fact=DaemonDisk(path="/data", free_bytes=10, total_bytes=20, why="")))
    assert board.disk is not None
    assert (board.disk.free_bytes, board.disk.total_bytes, board.disk.read_wall_ns) == (10, 20, 7)
    gone = DaemonDisk(path="/data", free_bytes=None, total_bytes=None, why="Input/output error")
    board(Document(at_ns=0, wall_ns=9, fact=gone))
    assert str(board.disk) == "free space of /data is unknown: Input/output error"
    assert not board.disk.is_little, "what is not known is not little"
