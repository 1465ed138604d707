"""The last change of each switch and who made it: from documents, and from the records after a restart."""

from dataclasses import replace

import pytest
from msgspec import UNSET, structs

from hwd.model.answers import SwitchChange
from hwd.model.documents.daemon import DaemonRecovered, JournalGivenUp
from hwd.model.documents.reconfigurations import (
    ReconfigurationCommanded,
    ReconfigurationEnded,
    ReconfigurationStarted,
    StartedMove,
)
from hwd.records.gaps import DocumentGroup
from hwd.records.old_documents import Batch, Cutoff
from hwd.records.records import Records
from hwd.web.changeboard import OPEN_KEPT, READ_OF_EACH_KIND, Changeboard
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.devices.facts import SwitchRead, SwitchRestarted

SWITCHES = ("ocs1", "ocs2")
WALL_NS = 1_700_000_000_000_000_000


def document(fact: Fact, at_ns: int) -> Document:
    return Document(at_ns=at_ns, wall_ns=WALL_NS + at_ns, fact=fact)


class Board:
    """A changeboard that is told of facts, each a hundred nanoseconds after the one before."""

    def __init__(self) -> None:
        self.board = Changeboard(SWITCHES)
        self.now_ns = 0
        self.documents: list[Document] = []

    def tell(self, *facts: Fact) -> None:
        for fact in facts:
            self.now_ns += 100
            self.documents.append(document(fact, self.now_ns))
            self.board(self.documents[-1])

    def last(self, switch: str = "ocs1") -> SwitchChange:
        change = self.board.last(switch)
        assert change is not None
        return change

    def at_ns(self, switch: str = "ocs1") -> int:
        return self.last(switch).wall_ns - WALL_NS


@pytest.fixture
def board() -> Board:
    return Board()


def started(
    id: str = "r1",
    *switches: str,
    run: str | None = None,
    lease: str | None = None,
    holder: str | None = None,
) -> ReconfigurationStarted:
    return ReconfigurationStarted(
        reconfiguration=id,
        run=run,
        hash="",
        what="pairs",
        links=[],
        moves=[StartedMove(switch=one, remove=["1A-2B"], add=["1A-3B"]) for one in switches or ("ocs1",)],
        lease=lease,
        holder=UNSET if holder is None else holder,
    )


def commanded(id: str = "r1", switch: str = "ocs1", at_ns: int | None = None) -> ReconfigurationCommanded:
    return ReconfigurationCommanded(
        reconfiguration=id, switch=switch, commanded_ns=at_ns, acknowledged_ns=None, commands=1
    )


def ended(id: str = "r1", outcome: str = "confirmed") -> ReconfigurationEnded:
    return ReconfigurationEnded(reconfiguration=id, run=None, outcome=outcome, why="", seconds=1.0)


def read(*added: str, ours: bool = False, switch: str = "ocs1") -> SwitchRead:
    return SwitchRead(switch=switch, crossconnects=[], added=[*added], removed=[], ours=ours)


def test_change_of_ours_has_the_time_of_its_command_and_its_outcome(board: Board) -> None:
    assert board.board.last("ocs1") is None
    board.tell(started())
    assert board.board.last("ocs1") is None, "nothing was sent yet"
    board.tell(commanded(at_ns=150))
    assert (board.at_ns(), board.last().outcome) == (150, "not ended")
    board.tell(read("1A-3B", ours=True), ended())
    change = board.last()
    assert (board.at_ns(), change.reconfiguration, change.what, change.outcome) == (150, "r1", "pairs", "confirmed")
    assert (change.origin, change.added, change.removed) == ("reconfiguration", ["1A-3B"], ["1A-2B"])
    assert board.board.last("ocs2") is None


@pytest.mark.parametrize(
    ("start", "by"),
    [
        (started(run="k3v9", lease="a1", holder="run k3v9"), "run k3v9"),
        (started(lease="a1", holder="ada@desk"), "lease a1 of ada@desk"),
        (started(lease="a1"), "lease a1"),
        (started(), "apply without a lease"),
        (structs.replace(started(), lease=UNSET), ""),
    ],
    ids=["run", "lease", "lease without holder", "none", "of an older version"],
)
def test_change_says_who_asked_for_it(board: Board, start: ReconfigurationStarted, by: str) -> None:
    board.tell(start, commanded(), ended())
    assert board.last().by == by
    assert str(board.last()) == f"reconfiguration r1 (pairs), confirmed{f', {by}' if by else ''}"


def test_change_behind_our_back_is_not_ours(board: Board) -> None:
    board.tell(started(), commanded(), ended(), read("5A-6B"))
    assert (board.last().origin, board.at_ns()) == ("other", 400)
    assert str(board.last()) == "not by this daemon: +5A-6B"
    board.tell(read(ours=False), read("7A-8B", ours=True))
    assert board.at_ns() == 400, "nothing changed in the first, and the second is explained by others"


def test_restart_that_lost_crossconnects_is_the_last_change(board: Board) -> None:
    restarted = SwitchRestarted(switch="ocs1", sign="at-rest", lost=["1A-3B"], uptime_s=None, unheard_s=4.0)
    board.tell(started(), commanded(), ended(), structs.replace(restarted, lost=[]))
    assert board.last().origin == "reconfiguration"
    board.tell(restarted)
    assert str(board.last()) == "a restart of the switch: -1A-3B"


def test_roll_back_is_a_change_of_its_own_time(board: Board) -> None:
    board.tell(started("r1", "ocs1", "ocs2"), commanded(), started("r2"), commanded("r2"), ended("r2"))
    assert (board.last().reconfiguration, board.board.last("ocs2")) == ("r2", None)
    board.tell(ended("r1", "rolled-back"))
    change = board.last()
    assert (change.reconfiguration, change.outcome, board.at_ns()) == ("r1", "rolled-back", 600)
    assert board.board.last("ocs2") is None, "it was never commanded"


def test_reconfiguration_that_failed_ends_by_the_journal(board: Board) -> None:
    board.tell(started(), commanded(), ended(outcome="failed"))
    assert board.last().outcome == "failed"
    board.tell(DaemonRecovered(reconfiguration="r1", run=None, outcome="rolled-back", why=""))
    assert (board.last().outcome, board.at_ns()) == ("rolled-back", 400)


def test_reconfiguration_that_was_given_up_says_so(board: Board) -> None:
    given_up = JournalGivenUp(reconfiguration="r1", run=None, what="", why="", by="ada", left=[])
    board.tell(started(), commanded(), given_up)
    assert (board.last().outcome, board.at_ns()) == ("given up", 200)


def test_selection_of_a_host_says_which_host(board: Board) -> None:
    local = structs.replace(started("h0-b-1"), source="local", host="h0", lease=UNSET)
    board.tell(local, ended("h0-b-1", "failed"))
    assert (board.last().by, board.last().outcome) == ("host h0", "failed"), "its agent was killed meanwhile"
    again = structs.replace(local, reconfiguration="h0-b-2")
    board.tell(again, commanded("h0-b-2", at_ns=250), ended("h0-b-2"))
    assert board.at_ns() == 250
    assert str(board.last()) == "reconfiguration h0-b-2 (pairs), confirmed, host h0"


def test_switches_that_are_not_in_the_testbed_have_no_change(board: Board) -> None:
    board.tell(started("r1", "ocs9"), commanded("r1", "ocs9"), read("1A-2B", switch="ocs9"))
    assert board.board.last("ocs9") is None


def test_reconfigurations_without_an_end_are_not_remembered_for_ever(board: Board) -> None:
    for number in range(OPEN_KEPT + 1):
        board.tell(started(f"r{number}"))
    board.tell(commanded("r0"))
    assert board.board.last("ocs1") is None
    board.tell(commanded("r1"))
    assert board.last().reconfiguration == "r1"


# --- after a restart


async def recorded(documents: list[Document]) -> Changeboard:
    """What a new process of the daemon reads."""
    records = Records("sqlite://", InlineOffload())
    await records.open()
    await records.add_documents(documents)
    board = Changeboard(SWITCHES)
    await board.load(records)
    records.close()
    return board


async def test_last_changes_are_read_from_the_records(board: Board) -> None:
    board.tell(started(lease="a1", holder="ada"), commanded(), ended(), read("5A-6B", switch="ocs2"))
    again = await recorded(board.documents)
    assert [again.last(one) for one in SWITCHES] == [board.last(one) for one in SWITCHES]


async def test_reconfiguration_that_a_crash_cut_off_ends_by_the_recovery_of_the_next_process(board: Board) -> None:
    board.tell(started())  # its command was not written any more
    again = await recorded(board.documents)
    assert again.last("ocs1") is None
    again(document(DaemonRecovered(reconfiguration="r1", run=None, outcome="rolled-back", why=""), 900))
    change = again.last("ocs1")
    assert change is not None
    assert (change.outcome, change.wall_ns) == ("rolled-back", WALL_NS + 900)


def restarted(switch: str) -> SwitchRestarted:
    return SwitchRestarted(switch=switch, sign="uptime", lost=["1A-2B"], uptime_s=1.0, unheard_s=2.0)


async def test_change_is_unknown_where_a_later_one_may_have_been_deleted(board: Board) -> None:
    """The history outlasts other documents: that the switch lost all by a restart later is deleted."""
    board.tell(started("r1"), commanded("r1"), ended("r1"), restarted("ocs1"))
    board.tell(restarted("ocs2"))
    records = Records("sqlite://", InlineOffload())
    await records.open()
    await records.add_documents(board.documents)
    cutoffs = {DocumentGroup.DOCUMENTS: Cutoff(before_wall_ns=WALL_NS + 450, why="too old")}
    await records.old_documents.delete(Batch(), cutoffs, frozenset())
    again = Changeboard(SWITCHES)
    await again.load(records)
    records.close()
    assert again.last("ocs1") is None
    assert again.last("ocs2") == board.last("ocs2")


async def test_change_older_than_what_is_read_is_unknown_and_not_an_older_one(board: Board) -> None:
    board.tell(started("r0"), commanded("r0"), ended("r0"), read("5A-6B"))
    quiet = board.documents
    busy = [document(read("7A-8B", ours=True, switch="ocs2"), 1000 + number) for number in range(READ_OF_EACH_KIND)]
    again = await recorded([*quiet, *busy])
    assert again.last("ocs1") is None, "a foreign change came after r0, and was not read"
    again = await recorded([*quiet, *busy[1:]])
    assert again.last("ocs1") == board.last()
    late = [replace(one, at_ns=one.at_ns + 5000, wall_ns=one.wall_ns + 5000) for one in quiet]
    again = await recorded([*busy, *late])
    change = again.last("ocs1")
    assert change is not None
    assert change.origin == "other"
