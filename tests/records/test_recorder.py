"""The sink that keeps documents."""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationStarted, ReconfigurationState
from hwd.model.recorded_run import Run, RunOutcome
from hwd.model.run_facts import RunAssert, RunNote
from hwd.records import RecordingSink, Records
from hwd.records.recorder import PAGE
from hwd.records.records import StoredDocument
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import BugError, FailedError
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.devices.facts import SwitchPower

from ..texts import by_end
from .conftest import Restart
from .facts import document, event, power, run_ended, run_started


@asynccontextmanager
async def writing(sink: RecordingSink) -> AsyncIterator[None]:
    """Its writer runs, in virtual time."""
    writer = asyncio.create_task(sink.run())
    yield
    writer.cancel()
    await asyncio.wait([writer])


@pytest.mark.usefixtures("virtual_time")
async def test_writer_writes_by_itself_and_leaves_nothing_at_its_end(memory: Records, flood: list[Document]) -> None:
    sink = RecordingSink(memory)
    async with writing(sink):
        for one in flood[:200]:
            sink(one)
        await asyncio.sleep(1)
        assert [stored.document for stored in await memory.documents()] == flood[:200]
        for one in flood[200:300]:
            sink(one)
    assert [stored.document for stored in await memory.documents()] == flood[:300]


async def test_documents_find_their_run(memory: Records) -> None:
    started = ReconfigurationStarted(reconfiguration="r1", run="a", hash="0", what="ring", links=[], moves=[])
    ended = ReconfigurationEnded(reconfiguration="r1", run="a", outcome="confirmed", why="", seconds=1.0)
    told = [
        (power(0), None),
        (run_started("a"), "a"),
        (power(1), "a"),
        (run_started("b"), "b"),
        (power(2), None),
        (document(started), "a"),
        (document(ReconfigurationState(reconfiguration="r1", state="driving")), "a"),
        (document(ended), "a"),
        (run_ended("a"), "a"),
        (power(3), "b"),
        (run_ended("b"), "b"),
        (power(4), None),
    ]
    sink = RecordingSink(memory)
    for one, _ in told:
        sink(one)
    await sink.flush()
    stored = await memory.documents()
    assert [(one.document.kind, one.run) for one in stored] == [(one.kind, run) for one, run in told]


async def test_full_disk_fails_the_run_and_heals(
    restart: Restart, flood: list[Document], started: Run, caplog: pytest.LogCaptureFixture
) -> None:
    records = await restart(max_bytes=300_000)
    sink = RecordingSink(records)
    await records.runs.start(started)
    sink(run_started(started.id))
    for one in flood:
        sink(one)
    with caplog.at_level(logging.INFO), pytest.raises(FailedError, match="full"):
        await sink.end_run(started.id, outcome=RunOutcome.SUCCEEDED, why="", ended_wall_ns=5)
    assert sink.failure is not None
    assert "documents wait" in caplog.text
    ended = await records.runs.get(started.id)
    assert ended.outcome is RunOutcome.FAILED
    assert "free some space" in ended.why
    held = len(await records.documents())

    roomy = await restart()
    assert len(await roomy.documents(run=started.id)) == held > 0, "what was recorded stays readable"


@pytest.mark.usefixtures("virtual_time")
async def test_what_waited_is_written_once_there_is_room_again(
    restart: Restart, tmp_path: Path, flood: list[Document], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="hwd.records.recorder")
    records = await restart(max_bytes=411_696)
    await records.add_documents(flood[:2000], run="old")
    sink = RecordingSink(records)
    async with writing(sink):
        for one in flood[2000:]:
            sink(one)
        await asyncio.sleep(60)
        failed = sink.failure
        assert isinstance(failed, FailedError)
        with closing(sqlite3.connect(tmp_path / "records.db")) as connection, connection:
            connection.execute("DELETE FROM documents WHERE run = 'old'")
        await asyncio.sleep(2)
        assert sink.failure is None
        assert sink.dropped == 0
        assert [stored.document for stored in await records.documents()] == flood[2000:]
    levels = [record.levelname for record in caplog.records if record.name == "hwd.records.recorder"]
    assert levels == ["WARNING", "INFO"], "once when it breaks, once when it heals"


async def test_beyond_the_buffer_documents_are_counted_and_fail_their_run(memory: Records, started: Run) -> None:
    sink = RecordingSink(memory, buffered_max=3)
    await memory.runs.start(started)
    sink(run_started(started.id))
    for n in range(5):
        sink(power(n))
    assert sink.dropped == 3
    with pytest.raises(FailedError, match="it has lost 3 documents"):
        await sink.end_run(started.id, outcome=RunOutcome.SUCCEEDED, why="", ended_wall_ns=5)
    assert (await memory.runs.get(started.id)).outcome is RunOutcome.FAILED


async def test_event_of_an_agent_is_held_however_full_it_is(memory: Records) -> None:
    sink = RecordingSink(memory, buffered_max=3)
    for seq in range(1, 12):
        sink(event(seq))
        assert sink.full() == (seq >= 3)
    sink(power(1))
    assert sink.dropped == 1
    assert await memory.event_positions() == {}, "they become durable with their events"
    await sink.flush()
    assert not sink.full()
    assert [stored.document.fact for stored in await memory.documents()] == [event(seq).fact for seq in range(1, 12)]
    assert await memory.event_positions() == {("h0", "b1"): 11}


async def test_document_that_is_no_json_does_not_stop_the_others(memory: Records) -> None:
    sink = RecordingSink(memory)
    sink(document(RunAssert(run="a", expression="x", held=True, values={"x": object()})))
    sink(document(SwitchPower(switch="ocs1", power_dbm=by_end({"1A": 1.5, "2A": float("nan")}))))
    await sink.flush()
    (stored,) = await memory.documents()
    assert stored.document.fact == SwitchPower(switch="ocs1", power_dbm=by_end({"1A": 1.5, "2A": None}))
    assert sink.dropped == 1


async def test_cancelled_flush_writes_nothing_twice(records: Records, flood: list[Document]) -> None:
    sink = RecordingSink(records)
    for one in flood:
        sink(one)
    flushing = asyncio.create_task(sink.flush())
    await asyncio.sleep(0.005)
    flushing.cancel()
    await asyncio.wait([flushing])
    await sink.flush()
    assert [stored.document for stored in await records.documents()] == flood


@pytest.mark.parametrize("count", [0, 1, 499, 500, 501, 1000, 1234])
async def test_a_run_is_read_whole_and_in_order_over_the_borders_of_pages(
    memory: Records, started: Run, flood: list[Document], count: int
) -> None:
    sink = RecordingSink(memory)
    await memory.runs.start(started)
    sink(run_started(started.id))
    for one in flood[:count]:
        sink(one)
    read = [one async for one in sink.documents(started.id)]
    assert [one.kind for one in read[:1]] == ["run.started"]
    assert read[1:] == flood[:count]


async def test_what_comes_while_a_run_is_read_is_read_once(
    memory: Records, started: Run, flood: list[Document]
) -> None:
    sink = RecordingSink(memory)
    await memory.runs.start(started)
    sink(run_started(started.id))
    for one in flood[:600]:
        sink(one)
    read = []
    async for one in sink.documents(started.id):
        read.append(one)
        if len(read) == 10:
            sink(flood[600])
            await sink.flush()
        if len(read) == 550:
            sink(flood[601])
    assert read[1:602] == flood[:601]
    assert len(read) == 602, "what comes after the last page belongs to the next reading"


def runs_named(*ids: str) -> list[Run]:
    return [Run(id=id, playbook="p", testbed="t", version="0", started_wall_ns=1) for id in ids]


async def test_end_that_means_nothing_keeps_no_other(memory: Records, caplog: pytest.LogCaptureFixture) -> None:
    sink = RecordingSink(memory)
    for run in runs_named("a", "b"):
        await memory.runs.start(run)
    await memory.runs.end("a", outcome=RunOutcome.ABORTED, why="", ended_wall_ns=1)
    with pytest.raises(BugError, match="run a: ended as succeeded, and is not under way"):
        await sink.end_run("a", outcome=RunOutcome.SUCCEEDED, why="", ended_wall_ns=2)
    assert "run a: ended as succeeded" in caplog.text
    assert sink.failure is None
    assert await sink.why_not_on_disk("b") is None
    await sink.end_run("b", outcome=RunOutcome.SUCCEEDED, why="", ended_wall_ns=2)
    assert (await memory.runs.get("b")).outcome is RunOutcome.SUCCEEDED


@pytest.mark.usefixtures("virtual_time")
async def test_end_that_cannot_be_written_is_said_and_tried_again_each_second(
    restart: Restart, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The table of runs is locked by a rule of its own, so that documents can be written and one end cannot."""
    caplog.set_level(logging.INFO, logger="hwd.records.recorder")
    records = await restart()
    for run in runs_named("a", "b"):
        await records.runs.start(run)
    sink = RecordingSink(records)
    rule = "BEFORE UPDATE ON runs WHEN new.id = 'a' BEGIN SELECT RAISE(FAIL, 'disk is full'); END"
    async with writing(sink):
        with closing(sqlite3.connect(tmp_path / "records.db")) as connection:
            connection.execute(f"CREATE TRIGGER no {rule}")
            with pytest.raises(FailedError, match="cannot end run a: disk is full"):
                await sink.end_run("a", outcome=RunOutcome.SUCCEEDED, why="", ended_wall_ns=2)
            sink(document(RunNote(run="b", text="x")))
            await sink.end_run("b", outcome=RunOutcome.SUCCEEDED, why="", ended_wall_ns=3)
            assert (await records.runs.get("b")).outcome is RunOutcome.SUCCEEDED, (
                "the end of another is no matter of it"
            )
            attempts = len(caplog.records)
            await asyncio.sleep(60)
            assert len(caplog.records) == attempts, "said once"
            assert "cannot end run a" in str(sink.failure)
            connection.execute("DROP TRIGGER no")
        await asyncio.sleep(2)
        assert sink.failure is None
        ended = await records.runs.get("a")
        assert (ended.outcome, ended.ended_wall_ns) == (RunOutcome.SUCCEEDED, 2)
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


class WatchedRecords(Records):
    """Knows its longest page; the first reading lets time pass before its reader hears of it."""

    longest = 0
    meanwhile: Callable[[], Coroutine[None, None, None]] | None = None

    async def documents(self, **asked: Any) -> tuple[StoredDocument, ...]:
        page = await super().documents(**asked)
        self.longest = max(self.longest, len(page))
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        return page


async def test_run_is_read_in_pages_however_much_is_written_meanwhile(started: Run, flood: list[Document]) -> None:
    records = WatchedRecords("sqlite://", InlineOffload())
    await records.open()
    await records.runs.start(started)
    sink = RecordingSink(records)
    sink(run_started(started.id))

    async def much_comes() -> None:
        for one in flood:
            sink(one)
        await sink.flush()

    records.meanwhile = much_comes
    assert [one async for one in sink.documents(started.id)][1:] == flood
    assert records.longest == PAGE
    records.close()
