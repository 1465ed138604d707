"""What the records lost with the process that died is told by the next one, once, from the journal."""

import asyncio
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from hwd.model.daemon import DaemonRecovered, DaemonStopped, JournalGivenUp
from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationStarted, StartedMove
from hwd.reconfigure.journal.facts import DatedFact
from hwd.reconfigure.journal.journal import Journal
from hwd.reconfigure.journal.records_catch_up import RecordsCatchUp
from hwd.records import store
from hwd.records.reconfiguration_log import ReconfigurationLog
from hwd.records.records import Records
from hwd.sim.world import DAEMON
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.disk import MemoryDisk
from hwd_drivers.core.documents import Document
from hwd_drivers.core.offload import InlineOffload

from ...texts import pairs_of
from ..conftest import CROSSED, STRAIGHT, Lab, entry_of, plan_of

WALL_NS = 1_700_000_000_000_000_000
PLAN = plan_of()
TOLD = (ReconfigurationStarted, ReconfigurationEnded, DaemonRecovered, JournalGivenUp)


async def recorded(folder: Path, id: str) -> Sequence[Document]:
    records = Records(f"sqlite:///{folder / 'records.db'}", InlineOffload())
    await records.open()
    try:
        stored = await records.documents(kinds=[one.KIND for one in TOLD])
    finally:
        records.close()
    return [one.document for one in stored if getattr(one.document.fact, "reconfiguration", None) == id]


async def test_reconfiguration_whose_begin_and_end_were_not_committed_is_recorded_once_with_its_times(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "BUSY_TIMEOUT_MS", 0)
    await lab.restart()
    lock = sqlite3.connect(tmp_path / "records.db", isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")  # somebody else writes, so that nothing is committed
    id = (await lab.apply(STRAIGHT)).id
    lab.world.kill(DAEMON)
    lock.close()
    (ended,) = [one for one in lab.world.documents if isinstance(one.fact, ReconfigurationEnded)]
    (started,) = [one for one in lab.world.documents if isinstance(one.fact, ReconfigurationStarted)]
    await lab.restart()
    begin, end = await recorded(tmp_path, id)
    for told, before in ((begin, started), (end, ended)):
        assert (told.wall_ns, told.at_ns) == pytest.approx((before.wall_ns, before.at_ns), abs=1e6)
        was = {key: value for key, value in before.fact.to_data().items() if key != "prediction"}
        assert told.fact.to_data() == {**was, "from_journal": True}
    assert lab.world.journal_disk.asides == []
    for _ in range(2):
        await lab.restart()
    assert len(await recorded(tmp_path, id)) == 2, "told once"
    assert lab.reconfigurer.became(id) is not None


async def test_daemon_that_dies_again_before_the_records_have_it_tells_it_again(lab: Lab, tmp_path: Path) -> None:
    id = (await lab.apply(STRAIGHT)).id
    for _ in range(2):
        lab.world.kill(DAEMON)
        lab.world.start_daemon()
        await lab.until(ReconfigurationEnded, reconfiguration=id, from_journal=True)
    assert [one.kind for one in await recorded(tmp_path, id)] == ["reconfiguration.started"]
    await lab.restart()
    assert [one.kind for one in await recorded(tmp_path, id)] == ["reconfiguration.started", "reconfiguration.ended"]


async def test_what_is_recorded_is_not_told_again_and_the_next_begin_says_so(lab: Lab, tmp_path: Path) -> None:
    first = (await lab.apply(STRAIGHT)).id
    await asyncio.sleep(1.0)
    await lab.restart()
    assert [one.fact.to_data().get("from_journal") for one in await recorded(tmp_path, first)] == [None, None]
    second = (await lab.apply(CROSSED)).id
    (tmp_path / "records.db").unlink()  # somebody deletes the records while the daemon is away
    await lab.restart()
    assert await recorded(tmp_path, first) == [], "they had it"
    assert len(await recorded(tmp_path, second)) == 2, "they never had it"
    assert lab.world.daemon is not None


async def test_recovery_after_a_crash_is_told_again_as_a_recovery(lab: Lab, tmp_path: Path) -> None:
    await lab.apply(STRAIGHT)
    applying = asyncio.create_task(lab.apply(CROSSED))
    await lab.until(ReconfigurationStarted)
    await lab.die(applying)
    lab.world.start_daemon()
    await lab.until(DaemonRecovered)
    (id,) = {one.reconfiguration for one in lab.emitted(DaemonRecovered)}
    await lab.restart()
    started, recovered = await recorded(tmp_path, id)
    assert isinstance(started.fact, ReconfigurationStarted)
    assert isinstance(recovered.fact, DaemonRecovered)
    assert (recovered.fact.outcome, recovered.fact.from_journal) == ("rolled-back", True)


@pytest.mark.parametrize(("oldest_ns", "is_told"), [(WALL_NS - 1, True), (WALL_NS + 1, False), (None, True)])
async def test_end_that_is_older_than_all_documents_that_are_held_is_not_told_again(
    oldest_ns: int | None, is_told: bool
) -> None:
    """It was recorded, and deleted with others of its age; the journal had no begin since that said so."""
    records = Records("sqlite://", InlineOffload())
    await records.open()
    if oldest_ns is not None:
        await records.add_documents([Document(at_ns=0, wall_ns=oldest_ns, fact=DaemonStopped(reason="asked to end"))])
    journal = Journal(MemoryDisk())
    fact = ReconfigurationEnded(reconfiguration="r1", run=None, what="ring", outcome="confirmed", why="", seconds=1.0)
    journal.begin(entry_of(PLAN, "r1"))
    journal.end("r1", outcome="confirmed", dated=DatedFact(wall_ns=WALL_NS, fact=fact))
    told: list[Document] = []
    catch_up = RecordsCatchUp(journal, records.reconfigurations, SystemClock())
    await catch_up.read()
    catch_up.tell(told.append)
    catch_up.tell(told.append)
    assert [(one.fact, one.wall_ns) for one in told] == [(replace(fact, from_journal=True), WALL_NS)] * is_told
    assert bool(journal.ended) is is_told
    records.close()


def started(id: str, *moves: StartedMove, host: str | UnsetType = UNSET) -> Document:
    fact = ReconfigurationStarted(
        reconfiguration=id, run=None, hash="0" * 12, what="ring", links=[], moves=[*moves], host=host
    )
    return Document(at_ns=0, wall_ns=WALL_NS, fact=fact)


async def test_begin_whose_end_can_come_no_more_is_closed_once_as_crashed_at_the_next_start() -> None:
    records, journal = Records("sqlite://", InlineOffload()), Journal(MemoryDisk())
    await records.open()
    ended = ReconfigurationEnded(reconfiguration="r1", run=None, what="ring", outcome="confirmed", why="", seconds=1.0)
    journal.begin(entry_of(PLAN, "r2"))
    journal.begin(entry_of(PLAN, "r3"))
    told_later = replace(ended, reconfiguration="r3")
    journal.end("r3", outcome="confirmed", dated=DatedFact(wall_ns=WALL_NS, fact=told_later))
    move = StartedMove(switch="ocs1", remove=[], add=pairs_of("1A-2B"))
    await records.add_documents(
        [
            started("r1", move),
            Document(at_ns=1, wall_ns=WALL_NS + 1, fact=ended),
            started("r2", move),  # open in the journal
            started("r3", move),  # whose end the journal has
            started("r4"),
            started("r5", move),
            started("r6", move, host="h0"),  # whose end its host tells
        ]
    )
    told: list[Document] = []
    for _ in range(2):
        catch_up = RecordsCatchUp(journal, records.reconfigurations, SystemClock())
        await catch_up.read()
        catch_up.tell(told.append)
        await records.add_documents(told)
    crashed, why = "crashed", "the daemon ended before the records had its end."
    assert [one.fact for one in told] == [
        replace(told_later, from_journal=True),
        DaemonRecovered(reconfiguration="r4", run=None, outcome=crashed, why=f"{why} It had moved nothing"),
        DaemonRecovered(
            reconfiguration="r5",
            run=None,
            outcome=crashed,
            why=f"{why} The journal that had it is gone: look at its switches",
        ),
    ]

    async def flush() -> None:
        pass

    history = await ReconfigurationLog(records, flush).newest(limit=9)
    assert {one.reconfiguration: one.outcome for one in history} == {
        "r1": "confirmed",
        "r2": None,
        "r3": "confirmed",
        "r4": crashed,
        "r5": crashed,
        "r6": None,
    }
    records.close()
