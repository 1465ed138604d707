"""Once an hour the daemon deletes what the testbed file says is too old, and tells how much that was."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwd.daemon.installed_drivers import load_text
from hwd.daemon.retention import DAY_NS, EACH_S, Retention
from hwd.fabric.fabric import Fabric
from hwd.fabric.in_use import InUse
from hwd.model.daemon import BusUp, RecordsDropped
from hwd.model.reconfiguration import ReconfigurationEnded
from hwd.model.rules import RetentionRules
from hwd.records import store
from hwd.records.records import Records
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop

BED = load_text("testbed: desk\n", file="desk.yaml").require()
NOW_NS = 10**18


class Desk:
    """Records with a retention, and what it tells."""

    def __init__(self, records: Records, rules: RetentionRules, clock: VirtualClock) -> None:
        self.records = records
        self.told: list[Document] = []
        self.needed: list[str] = []
        self.in_use = InUse(Fabric(replace(BED, retention=rules)))
        emit, store = Emitter(clock, self.told.append), records.old_documents
        self.retention = Retention(self.in_use, store, needed=lambda: self.needed, clock=clock, emit=emit)

    async def add(self, fact: Fact, *ages_days: int) -> None:
        times = [NOW_NS - age * DAY_NS for age in ages_days]
        await self.records.add_documents(Document(at_ns=at, wall_ns=at, fact=fact) for at in times)

    async def ages(self) -> list[int]:
        """In days at the start, oldest first."""
        return [(NOW_NS - stored.document.wall_ns) // DAY_NS for stored in await self.records.documents()]

    def counts(self) -> list[tuple[int, int]]:
        facts: Iterable[Any] = (document.fact for document in self.told)
        return [(fact.documents, fact.history) for fact in facts if isinstance(fact, RecordsDropped)]


@pytest.fixture
def rules() -> RetentionRules:
    return RetentionRules()


@pytest.fixture
async def desk(virtual_loop: VirtualLoop, rules: RetentionRules, tmp_path: Path) -> AsyncIterator[Desk]:
    records = Records(f"sqlite:///{tmp_path / 'records.db'}", InlineOffload())
    await records.open()
    desk = Desk(records, rules, VirtualClock(virtual_loop, wall_start_ns=NOW_NS))
    running = asyncio.create_task(desk.retention.run())
    yield desk
    running.cancel()
    await asyncio.wait([running])
    records.close()


def ended(id: str) -> ReconfigurationEnded:
    return ReconfigurationEnded(reconfiguration=id, run=None, outcome="failed", why="", seconds=1.0)


@pytest.mark.parametrize("rules", [RetentionRules(documents_days=90, history_days=365)])
async def test_old_documents_are_deleted_an_hour_after_the_start_and_told_once(desk: Desk) -> None:
    await desk.add(BusUp(address=""), 400, 91, 90, 1)
    await desk.add(ended("r"), 400, 366, 100, 1)
    await asyncio.sleep(EACH_S - 1)
    assert await desk.ages() == [400, 91, 90, 1, 400, 366, 100, 1]
    await asyncio.sleep(2)
    assert await desk.ages() == [1, 100, 1], "an hour has passed, so 90 days are over too"
    assert desk.counts() == [(3, 2)]
    assert desk.told[0].fact == RecordsDropped(documents=3, history=2, documents_days=90, history_days=365)
    await asyncio.sleep(3 * EACH_S)
    assert desk.counts() == [(3, 2)], "there was nothing more to tell"
    await asyncio.sleep(90 * 86_400)
    assert await desk.ages() == [1, 100, 1], "the newest of each kind stays, and 265 days of history"


async def test_without_the_key_nothing_is_deleted_until_a_reload_brings_it(desk: Desk) -> None:
    await desk.add(BusUp(address=""), 400, 300, 1)
    await asyncio.sleep(2 * EACH_S)
    assert (await desk.ages(), desk.told) == ([400, 300, 1], [])
    desk.in_use.fabric = Fabric(replace(BED, retention=RetentionRules(documents_days=350)))
    await asyncio.sleep(EACH_S + 1)
    assert (await desk.ages(), desk.counts()) == ([300, 1], [(1, 0)])
    desk.in_use.fabric = Fabric(BED)
    await asyncio.sleep(100 * 86_400)
    assert await desk.ages() == [300, 1]


@pytest.mark.parametrize("rules", [RetentionRules(history_days=30)])
async def test_what_has_not_ended_stays_until_it_has(desk: Desk) -> None:
    desk.needed = ["held"]
    await desk.add(ended("held"), 50)
    await desk.add(ended("r"), 40, 1)
    await asyncio.sleep(EACH_S + 1)
    assert await desk.ages() == [50, 1]
    desk.needed = []
    await asyncio.sleep(EACH_S)
    assert await desk.ages() == [1]
    assert desk.counts() == [(0, 1), (0, 1)]


@pytest.mark.parametrize("rules", [RetentionRules(documents_days=30)])
async def test_database_that_cannot_be_written_is_warned_of_once_and_tried_again(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(store, "BUSY_TIMEOUT_MS", 1)
    caplog.set_level("INFO", "hwd.daemon.retention")
    await desk.add(BusUp(address=""), 50, 1)
    other = sqlite3.connect(tmp_path / "records.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    await asyncio.sleep(2 * EACH_S + 10)
    assert (await desk.ages(), desk.told) == ([50, 1], [])
    other.execute("ROLLBACK")
    other.close()
    await asyncio.sleep(EACH_S)
    assert (await desk.ages(), desk.counts()) == ([1], [(1, 0)])
    levels = [record.levelname for record in caplog.records if record.name == "hwd.daemon.retention"]
    assert levels == ["WARNING", "INFO", "INFO"]
