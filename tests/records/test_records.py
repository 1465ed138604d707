"""Runs, documents, alignments."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwd.model.daemon import BusDown, BusUp
from hwd.model.kinds import UnreadFact
from hwd.model.recorded_run import Run, RunOutcome
from hwd.model.run_facts import RunNote, RunStarted
from hwd.records import Records
from hwd.records.recorder import RecordingSink
from hwd.records.records import SEEN_BOOTS_KEPT, SEEN_PRUNED_EVERY
from hwd.records.tables import VERSION
from hwd_drivers.core.documents import Document, Json
from hwd_drivers.core.errors import BugError, ConfigError, FailedError
from hwd_drivers.core.offload import InlineOffload

from .conftest import Restart
from .facts import aligned, document, event, power

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


async def test_run_is_read_as_it_was_written_and_ends_once(records: Records, started: Run) -> None:
    await records.runs.start(started)
    assert await records.runs.get(started.id) == started
    for _ in ("as asked", "once more, as where the answer was lost"):
        await records.runs.end(started.id, outcome=RunOutcome.ABORTED, why="", ended_wall_ns=9_000, safe_state="ring")
        ended = await records.runs.get(started.id)
        assert (ended.outcome, ended.ended_wall_ns, ended.safe_state) == (RunOutcome.ABORTED, 9_000, "ring")
        assert str(ended) == "run 20270110-a1b2 smoke aborted"
    for id in (started.id, "nobody"):
        with pytest.raises(BugError, match="is not under way"):
            await records.runs.end(id, outcome=RunOutcome.SUCCEEDED, why="", ended_wall_ns=2)


async def test_run_is_found_by_the_start_of_its_id(records: Records) -> None:
    for number, id in enumerate(["abc1", "abd2", "ab"]):
        await records.runs.start(Run(id=id, playbook="p", testbed="t", version="0", started_wall_ns=number))
    assert (await records.runs.get("abc")).id == "abc1"
    assert (await records.runs.get("ab")).id == "ab", "a whole id beats longer ones"
    assert [run.id for run in await records.runs.newest()] == ["ab", "abd2", "abc1"]
    assert [run.id for run in await records.runs.newest(limit=1)] == ["ab"]
    assert [run.id for run in await records.runs.newest(limit=1, before="ab")] == ["abd2"]
    assert [run.id for run in await records.runs.newest(before="abc1")] == []
    with pytest.raises(ConfigError, match=r"3 runs start so \(ab, abd2, abc1\)\. Write more of it"):
        await records.runs.get("a")
    for none in ("x", "", "%", "ab_"):
        with pytest.raises(ConfigError, match="not in the records"):
            await records.runs.get(none)


async def test_runs_that_the_daemon_died_under_are_closed_as_crashed(restart: Restart, started: Run) -> None:
    dead = await restart()
    await dead.runs.start(started)
    await dead.add_documents([power(5_000), power(7_000)], run=started.id)
    done = Run(id="done", playbook="p", testbed="t", version="0", started_wall_ns=1)
    await dead.runs.start(done)
    await dead.runs.end("done", outcome=RunOutcome.SUCCEEDED, why="", ended_wall_ns=2)

    risen = await restart()
    (crashed,) = await RecordingSink(risen).close_crashed(99_000)
    assert crashed == await risen.runs.get(started.id)
    assert (crashed.outcome, crashed.ended_wall_ns) == (RunOutcome.CRASHED, 7_000), "when it was last heard of"
    assert (await risen.runs.get("done")).outcome is RunOutcome.SUCCEEDED
    assert await RecordingSink(risen).close_crashed(99_000) == ()
    assert len(await risen.documents(run=started.id)) == 2


async def test_documents_are_found_by_run_kind_and_place(records: Records) -> None:
    await records.add_documents([power(1), power(2)], run="a")
    await records.add_documents([document(BusUp(address="x"), at_ns=3), power(4)])
    everything = await records.documents()
    assert [stored.document.at_ns for stored in everything] == [1, 2, 3, 4]
    assert [stored.run for stored in everything] == ["a", "a", None, None]
    assert [stored.document.at_ns for stored in await records.documents(run="a")] == [1, 2]
    assert [stored.document.at_ns for stored in await records.documents(kinds=["bus.up"])] == [3]
    assert [stored.document.at_ns for stored in await records.documents(after=everything[1].id, limit=1)] == [3]


@given(st.lists(st.dictionaries(TEXT, JSON, max_size=5), min_size=3, max_size=6))
@settings(max_examples=25)
def test_document_is_read_as_it_was_written(each: list[dict[str, Json]]) -> None:
    async def scenario() -> None:
        records = Records("sqlite://", InlineOffload())
        await records.open()
        started = [RunStarted(run="r", playbook="p", parameters=data, steps=1, virtual_time=True) for data in each]
        unread = [UnreadFact(kind="of.tomorrow", fields=data) for data in each]
        written = [document(fact, at_ns=2**62) for fact in (*started, *unread)]
        await records.add_documents(written, run="r")
        read = await records.documents()
        records.close()
        assert [stored.document for stored in read] == written

    asyncio.run(scenario())


async def test_oldest_documents_of_no_run_go_first(memory: Records) -> None:
    await memory.add_documents([power(n) for n in range(10)], run="r")
    for start in range(0, 1000, 10):
        await memory.add_documents([power(n) for n in range(start, start + 10)])
    kept = [stored.document.at_ns for stored in await memory.documents() if stored.run is None]
    assert kept == list(range(1000 - len(kept), 1000))
    assert 300 <= len(kept) <= 320
    assert len(await memory.documents(run="r")) == 10


async def test_seen_mark_never_goes_back(memory: Records) -> None:
    await memory.add_documents([event(7), event(1, boot="b9")])
    await memory.add_documents([event(5)])
    assert await memory.event_positions() == {("h0", "b1"): 7, ("h0", "b9"): 1}


async def test_seen_marks_of_the_newest_boots_alone_are_kept(restart: Restart, tmp_path: Path) -> None:
    def of_boot(host: str, boot: int) -> Document:
        return event(3, host=host, boot=f"b{boot}", at_ns=boot)

    records = await restart()
    await records.add_documents([of_boot("h1", 1)])
    most = SEEN_BOOTS_KEPT + SEEN_PRUNED_EVERY
    for start in range(1, 2 * most, 1000):
        await records.add_documents([of_boot("h0", boot) for boot in range(start, start + 1000)])
    newest = start + 999
    found = list(await records.event_positions())
    assert [key for key in found if key[0] == "h0"] == [
        ("h0", f"b{boot}") for boot in range(newest - SEEN_BOOTS_KEPT + 1, newest + 1)
    ]
    assert ("h1", "b1") in found
    connection = sqlite3.connect(tmp_path / "records.db")
    assert connection.execute("SELECT count(*) FROM seen").fetchone()[0] < most + 1000
    connection.close()


async def test_last_alignment_of_each_boot_is_kept_until_the_clock_is_another(memory: Records) -> None:
    async def read(clock: str) -> dict[str, int]:
        return {boot: fact.offset_ns for (_, boot), fact in (await memory.alignments.read(clock)).items()}

    assert await read("of Monday") == {}
    await memory.add_documents([aligned("b1", 5), aligned("b1", 6)])
    await memory.add_documents([aligned("b2", 7)])
    assert await read("of Monday") == {"b1": 6, "b2": 7}
    assert await read("of Tuesday") == {}
    await memory.add_documents([aligned("b1", 9)])
    assert await read("of Tuesday") == {"b1": 9}


async def test_last_document_of_a_kind_is_the_newest_of_its_run(memory: Records) -> None:
    for run, n in (("a", 1), ("a", 2), ("b", 3)):
        await memory.add_documents([power(n)], run=run)
    await memory.add_documents([document(RunNote(run="a", text="x"), at_ns=4)], run="a")
    found = await memory.last_document("a", "switch.power")
    assert found is not None
    assert found.at_ns == 2
    assert await memory.last_document("c", "switch.power") is None


async def test_writers_and_readers_at_once_lose_nothing(records: Records) -> None:
    async def write(first: int) -> None:
        for n in range(first, first + 20):
            await records.add_documents([power(n)])

    async def read() -> None:
        last = 0
        while last < 80:
            found = await records.documents(after=last)
            assert [stored.id for stored in found] == list(range(last + 1, last + 1 + len(found)))
            last += len(found)

    async with asyncio.TaskGroup() as group:
        group.create_task(read())
        for first in range(0, 80, 20):
            group.create_task(write(first))
    assert sorted(stored.document.at_ns for stored in await records.documents()) == list(range(80))


def change(folder: Path, statements: str) -> None:
    """What another hwd would have written, into records that are closed."""
    with closing(sqlite3.connect(folder / "records.db")) as connection, connection:
        connection.executescript(statements)


@pytest.mark.parametrize(("version", "who"), [(VERSION - 1, "an older"), (VERSION + 1, "a newer")])
async def test_records_of_another_version_are_refused(restart: Restart, tmp_path: Path, version: int, who: str) -> None:
    (await restart()).close()
    change(tmp_path, f"UPDATE hwd_about SET value = '{version}' WHERE key = 'schema'")
    refusal = (
        rf"{who} hwd \(schema {version}, this one knows {VERSION}\), and left as they are\. Use that hwd, or another"
    )
    with pytest.raises(ConfigError, match=refusal):
        await restart()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "not a database URL"),
        ("oracle9://x", "not a database URL"),
        ("sqlite:////nonexistent/folder/x.db", "Make its folder"),
    ],
)
async def test_url_that_cannot_be_used_is_refused_with_a_remedy(url: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        await Records(url, InlineOffload()).open()


async def test_what_is_no_database_of_ours_is_refused(restart: Restart, tmp_path: Path) -> None:
    (tmp_path / "records.db").write_text("not a database, but quite a long text " * 100)
    with pytest.raises(ConfigError, match="Move the file away"):
        await restart()
    (tmp_path / "records.db").unlink()
    change(tmp_path, "CREATE TABLE runs (x)")
    with pytest.raises(ConfigError, match="has tables runs that are not ours"):
        await restart()


async def test_full_disk_is_told_and_keeps_what_was_there(restart: Restart, flood: list[Document]) -> None:
    records = await restart(max_bytes=200_000)
    await records.add_documents(flood[:100])
    with pytest.raises(FailedError, match=r"full.*What was recorded before stays readable; free some space"):
        await records.add_documents(flood[100:])
    assert len(await records.documents()) == 100
    await records.add_documents(flood[100:110])
    assert len(await records.documents()) == 110


async def test_newest_of_some_kinds_are_read_from_the_end(records: Records) -> None:
    note, down, up = RunNote(run="a", text="x"), BusDown(address="x", cause="y"), BusUp(address="x")
    await records.add_documents(document(fact, at_ns=at_ns) for at_ns, fact in enumerate([up, note, up, down, up]))
    newest = await records.newest(["bus.up", "bus.down"], limit=2)
    assert [one.document.at_ns for one in newest] == [4, 3]
    assert [one.document.at_ns for one in await records.newest(["bus.up"], limit=2, before=newest[-1].id)] == [2, 0]


async def test_documents_of_another_version_are_read_unread_and_logged_once_for_each_kind(
    restart: Restart, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    records = await restart()
    rows = [
        ("switch.power", '{"switch":"ocs1","power_dbm":-3.5}'),
        ("switch.power", '{"switch":"ocs2","power_dbm":-3.6}'),
        ("switch.teleported", '{"switch":"ocs1","to":{"rack":7}}'),
        ("switch.power", '{"switch":"ocs1","power_dbm":{"1A":-3.5}}'),
    ]
    connection = sqlite3.connect(tmp_path / "records.db")
    with connection:
        connection.executemany("INSERT INTO documents (kind, at_ns, wall_ns, data) VALUES (?, 1, 2, ?)", rows)
    connection.close()
    read = [stored.document for stored in await records.documents()]
    assert [(one.kind, one.fact.to_data()) for one in read] == [(kind, json.loads(data)) for kind, data in rows]
    assert [isinstance(one.fact, UnreadFact) for one in read] == [True, True, True, False]
    first, second = (record.getMessage() for record in caplog.records)
    assert ": switch.power: written by another version of hwd, left unread: power_dbm: expected object" in first
    assert ": switch.teleported: written by another version of hwd, left unread: no such kind here" in second


async def test_reports_of_ports_are_there_for_a_selection_that_comes_only_after_the_start(records: Records) -> None:
    """The daemon died between the last carrier of a selection and the selection itself."""
    reports = [event(seq) for seq in (1, 2)]
    await records.add_documents(reports)
    assert await records.unfinished_selections.read() == ([], [one.fact for one in reports])
