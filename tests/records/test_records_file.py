"""Records are read without a change to their folder, whatever state they are in, and whatever the folder's name is."""

import asyncio
import hashlib
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from hwd.model.recorded_run import Run
from hwd.records import Records
from hwd.records.records_file import file_url, reading_url
from hwd.records.tables import VERSION
from hwd_drivers.core.errors import ConfigError, FailedError
from hwd_drivers.core.offload import InlineOffload


def state(folder: Path) -> dict[str, tuple[int, str]]:
    """Every name of a folder and its own, with time of the last change and content."""
    found = {
        one.name: (one.stat().st_mtime_ns, hashlib.sha256(one.read_bytes()).hexdigest()) for one in folder.iterdir()
    }
    return {".": (folder.stat().st_mtime_ns, ""), **found}


async def ids(path: Path) -> list[str]:
    with reading_url(path) as url:
        records = Records(url, InlineOffload(), read_only=True, name=str(path))
        try:
            await records.open()
            return [run.id for run in await records.runs.newest()]
        finally:
            records.close()


async def written(path: Path, *runs: Run) -> Records:
    records = Records(file_url(path), InlineOffload())
    await records.open()
    for run in runs:
        await records.runs.start(run)
    return records


@pytest.mark.parametrize("name", ["lab%2Fmain", "rack?a", "rack#1", "a b&mode=rw", "ü%", "file:x", "semi;colon"])
async def test_any_name_of_a_folder_is_its_own_place(name: str, tmp_path: Path, started: Run) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (await written(folder / "records.db", replace(started, id="aa"))).close()
    assert [one.name for one in tmp_path.iterdir()] == [name]
    assert [one.name for one in folder.iterdir()] == ["records.db"]
    assert await ids(folder / "records.db") == ["aa"]


@pytest.mark.parametrize("copied", [("", "-wal", "-shm"), ("", "-wal")], ids=["all files", "without the index"])
async def test_reading_sees_the_log_that_a_crash_has_left_and_changes_nothing(
    copied: tuple[str, ...], tmp_path: Path, started: Run
) -> None:
    """A copy of the files of an open database is what a crash leaves."""
    copy = tmp_path / "copy"
    copy.mkdir()
    (tmp_path / "data").mkdir()
    writer = await written(tmp_path / "data" / "records.db", replace(started, id="aa"))
    for end in copied:
        shutil.copy2(tmp_path / "data" / f"records.db{end}", copy)
    writer.close()
    assert (copy / "records.db-wal").stat().st_size > 0
    before = state(copy)
    assert await ids(copy / "records.db") == ["aa"]
    assert state(copy) == before


async def test_reading_beside_a_writer_sees_what_is_written_and_leaves_file_and_log(
    tmp_path: Path, started: Run
) -> None:
    """The writer is another process, as a daemon is: POSIX locks hold between processes."""
    path = tmp_path / "records.db"
    (await written(path, replace(started, id="aa"))).close()
    script = (
        "import sqlite3, sys\n"
        "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "c.execute(\"UPDATE runs SET id = 'bb'\")\n"
        "print('up', flush=True)\n"
        "sys.stdin.read()\n"
    )
    pipe = asyncio.subprocess.PIPE
    writer = await asyncio.create_subprocess_exec(sys.executable, "-c", script, str(path), stdin=pipe, stdout=pipe)
    assert writer.stdout is not None
    assert await writer.stdout.readline() == b"up\n"
    before = state(tmp_path)
    assert await ids(path) == ["bb"]
    after = state(tmp_path)
    await writer.communicate(b"")
    assert {name: after[name] for name in ("records.db", "records.db-wal")} == {
        name: before[name] for name in ("records.db", "records.db-wal")
    }
    assert after.keys() == before.keys()


async def test_what_was_read_while_a_daemon_began_is_not_used(tmp_path: Path, started: Run) -> None:
    (await written(tmp_path / "records.db")).close()
    why = r"a daemon began to write it while it was read\. Try again"
    with pytest.raises(FailedError, match=why), reading_url(tmp_path / "records.db"):
        daemon = await written(tmp_path / "records.db", replace(started, id="bb"))
    daemon.close()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (f"UPDATE hwd_about SET value = '{VERSION - 1}' WHERE key = 'schema'", "written by an older hwd"),
        (f"UPDATE hwd_about SET value = '{VERSION + 1}'", "written by a newer hwd"),
        ("DROP TABLE hwd_about", "that are not ours"),
    ],
    ids=["older", "newer", "another's"],
)
async def test_records_of_another_version_are_refused_and_stay(
    change: str, why: str, tmp_path: Path, started: Run
) -> None:
    path = tmp_path / "records.db"
    (await written(path, replace(started, id="old"))).close()
    with closing(sqlite3.connect(path)) as other, other:
        other.executescript(change)
    before = state(tmp_path)
    with pytest.raises(ConfigError, match=why):
        await ids(path)
    assert state(tmp_path) == before


async def test_empty_file_is_no_records_and_stays_empty(tmp_path: Path) -> None:
    (tmp_path / "records.db").touch()
    with pytest.raises(ConfigError, match="has no tables of hwd"):
        await ids(tmp_path / "records.db")
    assert (tmp_path / "records.db").stat().st_size == 0
