"""The last change of each switch and who made it: from documents, and from the records after a restart."""

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import UNSET, structs

from hwd.model.daemon import DaemonRecovered, JournalGivenUp
from hwd.model.reconfiguration import (
    ReconfigurationCommanded,
    ReconfigurationEnded,
    ReconfigurationStarted,
    StartedMove,
)
from hwd.rack.changes import OPEN_KEPT, Changes
from hwd.records.gaps import DocumentGroup
from hwd.records.old_documents import Batch, Cutoff
from hwd.records.records import Records
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.devices.facts import SwitchRead, SwitchRestarted

from ..answers import check_golden
from ..texts import pairs_of, reconfiguration_started

SAID = Path(__file__).with_name("change_stories.txt")
SWITCHES = ("ocs1", "ocs2")
READ_MOST = 20
"""Of each kind."""
WALL_NS = 1_700_000_000_000_000_000


def document(fact: Fact, at_ns: int) -> Document:
    return Document(at_ns=at_ns, wall_ns=WALL_NS + at_ns, fact=fact)


class Board:
    """It is told of facts, each a hundred nanoseconds after the one before."""

    def __init__(self) -> None:
        self.board = Changes(SWITCHES)
        self.now_ns = 0
        self.documents: list[Document] = []

    def tell(self, *facts: Fact) -> None:
        for fact in facts:
            self.now_ns += 100
            self.documents.append(document(fact, self.now_ns))
            self.board(self.documents[-1])

    def words(self, switch: str) -> str:
        change = self.board.last(switch)
        if change is None:
            return "no change"
        asked = f"+{change.added} -{change.removed}"
        return f"at {change.wall_ns - WALL_NS}, {change.origin} {change.reconfiguration}: {change}; {asked}"


@pytest.fixture
def board() -> Board:
    return Board()


def started(
    id: str = "r1", *switches: str, run: str | None = None, lease: str | None = None, holder: str | None = None
) -> ReconfigurationStarted:
    moves = [StartedMove(switch=one, remove=pairs_of("1A-2B"), add=pairs_of("1A-3B")) for one in switches or ("ocs1",)]
    return reconfiguration_started(id, run=run, moves=moves, lease=lease, holder=UNSET if holder is None else holder)


def commanded(id: str = "r1", switch: str = "ocs1", at_ns: int | None = None) -> ReconfigurationCommanded:
    return ReconfigurationCommanded(
        reconfiguration=id, switch=switch, commanded_ns=at_ns, acknowledged_ns=None, commands=1
    )


def ended(id: str = "r1", outcome: str = "confirmed") -> ReconfigurationEnded:
    return ReconfigurationEnded(reconfiguration=id, run=None, outcome=outcome, why="", seconds=1.0)


def read(*added: str, ours: bool = False, switch: str = "ocs1") -> SwitchRead:
    return SwitchRead(switch=switch, crossconnects=[], added=pairs_of(*added), removed=[], ours=ours)


RESTARTED = SwitchRestarted(switch="ocs1", sign="at-rest", lost=pairs_of("1A-3B"), uptime_s=None, unheard_s=4.0)
RECOVERED = DaemonRecovered(reconfiguration="r1", run=None, outcome="rolled-back", why="")
LOCAL = structs.replace(started("h0-b-1"), source="local", host="h0", lease=UNSET)
OURS = (started(), commanded(), ended())
STORIES: dict[str, tuple[Fact, ...]] = {
    "A change of ours has the time of its command and its outcome": (
        started(),
        commanded(at_ns=150),
        read("1A-3B", ours=True),
        ended(),
    ),
    "A change says who asked for it: a run": (started(run="k3v9", lease="a1", holder="run k3v9"), commanded(), ended()),
    "the holder of a lease": (started(lease="a1", holder="ada@desk"), commanded(), ended()),
    "a lease without a holder": (started(lease="a1"), commanded(), ended()),
    "nobody whom an older version knew": (structs.replace(started(), lease=UNSET), commanded(), ended()),
    "A change behind our back is not ours, and what is explained by others is none": (
        *OURS,
        read("5A-6B"),
        read(),
        read("7A-8B", ours=True),
    ),
    "A restart that lost crossconnects is the last change": (*OURS, structs.replace(RESTARTED, lost=[]), RESTARTED),
    "A roll-back is a change of its own time, of the switches that were commanded": (
        started("r1", "ocs1", "ocs2"),
        commanded(),
        started("r2"),
        commanded("r2"),
        ended("r2"),
        ended("r1", "rolled-back"),
    ),
    "A reconfiguration that failed ends by the journal": (started(), commanded(), ended(outcome="failed"), RECOVERED),
    "One that was given up says so": (
        started(),
        commanded(),
        JournalGivenUp(reconfiguration="r1", run=None, what="", why="", by="ada", left=[]),
    ),
    "A selection of a host says which host, also where its agent was killed meanwhile": (
        LOCAL,
        ended("h0-b-1", "failed"),
        structs.replace(LOCAL, reconfiguration="h0-b-2"),
        commanded("h0-b-2", at_ns=250),
        ended("h0-b-2"),
    ),
    "Switches that are not in the testbed have no change": (
        started("r1", "ocs9"),
        commanded("r1", "ocs9"),
        read("1A-2B", switch="ocs9"),
    ),
}


def test_each_story_changes_the_board_as_the_golden_file_says() -> None:
    """To take over what is said now: delete the file and run this twice."""
    text = ""
    for title, facts in STORIES.items():
        board = Board()
        before: dict[str, str] = {}
        text += f"{title}\n"
        for fact in facts:
            board.tell(fact)
            now = {switch: board.words(switch) for switch in (*SWITCHES, "ocs9")}
            text += f"  {board.now_ns}: {fact.document_kind}\n"
            text += "".join(f"    {name}: {now[name]}\n" for name in now if now[name] != before.get(name, "no change"))
            before = now
    check_golden(SAID, text)


def test_reconfigurations_without_an_end_are_not_remembered_for_ever(board: Board) -> None:
    for number in range(OPEN_KEPT + 1):
        board.tell(started(f"r{number}"))
    board.tell(commanded("r0"))
    assert board.board.last("ocs1") is None
    board.tell(commanded("r1"))
    change = board.board.last("ocs1")
    assert change is not None
    assert change.reconfiguration == "r1"


# --- after a restart


async def recorded(documents: list[Document], deleted_before: int = 0) -> Changes:
    """What a new process of the daemon reads; of documents outside of the history, the older ones were deleted."""
    records = Records("sqlite://", InlineOffload())
    await records.open()
    await records.add_documents(documents)
    cutoffs = {DocumentGroup.DOCUMENTS: Cutoff(before_wall_ns=WALL_NS + deleted_before, why="too old")}
    await records.old_documents.delete(Batch(), cutoffs, frozenset())
    board = Changes(SWITCHES)
    for stored in await records.unbroken([fact.KIND for fact in Changes.TAKES], limit=READ_MOST):
        board(stored)
    records.close()
    return board


async def test_last_changes_are_read_from_the_records(board: Board) -> None:
    board.tell(started(lease="a1", holder="ada"), commanded(), ended(), read("5A-6B", switch="ocs2"))
    again = await recorded(board.documents)
    assert [again.last(one) for one in SWITCHES] == [board.board.last(one) for one in SWITCHES]


async def test_reconfiguration_that_a_crash_cut_off_ends_by_the_recovery_of_the_next_process(board: Board) -> None:
    board.tell(started())  # its command was not written any more
    again = await recorded(board.documents)
    assert again.last("ocs1") is None
    again(document(RECOVERED, 900))
    change = again.last("ocs1")
    assert change is not None
    assert (change.outcome, change.wall_ns) == ("rolled-back", WALL_NS + 900)


async def test_change_is_unknown_where_a_later_one_may_have_been_deleted(board: Board) -> None:
    """The history outlasts other documents: that the switch lost all by a restart later is deleted."""
    board.tell(started("r1"), commanded("r1"), ended("r1"), RESTARTED)
    board.tell(structs.replace(RESTARTED, switch="ocs2"))
    again = await recorded(board.documents, deleted_before=450)
    assert again.last("ocs1") is None
    assert again.last("ocs2") == board.board.last("ocs2")


async def test_change_older_than_what_is_read_is_unknown_and_not_an_older_one(board: Board) -> None:
    board.tell(started("r0"), commanded("r0"), ended("r0"), read("5A-6B"))
    quiet = board.documents
    busy = [document(read("7A-8B", ours=True, switch="ocs2"), 1000 + number) for number in range(READ_MOST)]
    again = await recorded([*quiet, *busy])
    assert again.last("ocs1") is None, "a foreign change came after r0, and was not read"
    again = await recorded([*quiet, *busy[1:]])
    assert again.last("ocs1") == board.board.last("ocs1")
    late = [replace(one, at_ns=one.at_ns + 5000, wall_ns=one.wall_ns + 5000) for one in quiet]
    change = (await recorded([*busy, *late])).last("ocs1")
    assert change is not None
    assert change.origin == "other"
