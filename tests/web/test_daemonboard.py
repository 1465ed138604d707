"""The broker and the disk, as the daemon last reported them, and how the process before it ended."""

import pytest

from hwd.model.daemon import BusDown, BusUp, DaemonDisk, DaemonLag, DaemonStarted, DaemonStopped
from hwd.model.status import DiskSpace
from hwd.records.records import Records
from hwd.web.daemonboard import Daemonboard
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.offload import InlineOffload

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


def test_disk_is_that_of_the_last_read_and_unknown_and_not_little_where_it_cannot_be_read() -> None:
    board = Daemonboard()
    assert Daemonboard().disk is None
    read = DaemonDisk(path="/data", free_bytes=10, total_bytes=20, why="")
    for wall_ns in (1, 2):
        board(Document(at_ns=0, wall_ns=wall_ns, fact=read))
    assert board.disk == DiskSpace(path="/data", free_bytes=10, total_bytes=20, why="", read_wall_ns=2)
    gone = DaemonDisk(path="/data", free_bytes=None, total_bytes=None, why="Input/output error")
    board(Document(at_ns=0, wall_ns=3, fact=gone))
    assert str(board.disk) == "free space of /data is unknown: Input/output error"
    assert board.disk is not None
    assert not board.disk.is_little


STARTED, STOPPED = (
    DaemonStarted(version="1", pid=7, testbed="t", data_dir="/data"),
    DaemonStopped(reason="asked to end"),
)


@pytest.mark.parametrize(
    ("recorded", "died_wall_ns"),
    [
        ((), None),
        ((STARTED, STOPPED), None),
        ((STARTED, DaemonLag(seconds=0.1)), 2),
        ((STARTED, STOPPED, STARTED), 3),
        ((STARTED, STARTED, STOPPED, DaemonLag(seconds=0.1)), None),
    ],
    ids=["first", "in order", "killed", "killed again", "in order after a kill"],
)
async def test_process_that_did_not_end_in_order_is_known_to_the_next(
    recorded: tuple[Fact, ...], died_wall_ns: int | None
) -> None:
    records = Records("sqlite://", InlineOffload())
    await records.open()
    await records.add_documents(Document(at_ns=0, wall_ns=at, fact=fact) for at, fact in enumerate(recorded, 1))
    board = Daemonboard()
    await board.load(records)
    records.close()
    assert board.died_wall_ns == died_wall_ns
