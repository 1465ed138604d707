"""What planes of jobs were told: in a file at once, in the records soon after."""

import asyncio
import errno
import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from msgspec import json
from msgspec.structs import replace

from hwd.jobs import event_log
from hwd.jobs.event_log import CUT_BYTES, LATER_MOST, EventLog
from hwd.model.job import JobEvent
from hwd.model.plane import Tick
from hwd.records.records import Records
from hwd.sim.records_disk import RecordsDisk
from hwd_drivers.core.disk import FileDisk, MemoryDisk
from hwd_drivers.core.errors import ConfigError, FailedError
from hwd_drivers.core.frames import encode_frame

from .job_record import job_record

Start = Callable[[], Awaitable[EventLog]]
JOB, OTHER = "k3v9a1xx", "k3v9a1yy"


def events(*numbers: int) -> list[JobEvent]:
    return [JobEvent.of(Tick(at_s=1.0), (), at_ns=number, wall_ns=number, ticked_s=None) for number in numbers]


@pytest.fixture
def records_disk() -> RecordsDisk:
    return RecordsDisk()


@pytest.fixture
async def records(records_disk: RecordsDisk) -> AsyncIterator[Records]:
    records = Records("sqlite://", records_disk)
    await records.open()
    for id in (JOB, OTHER):
        await records.jobs.save(job_record(id=id))
    yield records
    records.close()


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
def started(disk: MemoryDisk, records: Records) -> Start:
    """Starts a daemon anew on the same disk."""

    async def start() -> EventLog:
        log = EventLog(disk, records.jobs)
        await log.load()
        return log

    return start


async def numbers(log: EventLog, job: str = JOB) -> list[int]:
    return [one.at_ns for one in await log.events(job)]


async def test_what_was_added_is_there_for_the_next_daemon_without_a_sync(started: Start, records: Records) -> None:
    first = await started()
    first.add(JOB, 0, events(0, 1))
    first.add(OTHER, 0, events(7))
    first.add(JOB, 2, events(2))
    assert await records.jobs.events(JOB) == ()
    second = await started()
    assert await numbers(second) == [0, 1, 2]
    assert await numbers(second, OTHER) == [7]
    second.add(JOB, 3, events(3))
    assert await numbers(await started()) == [0, 1, 2, 3]


async def test_power_cut_at_any_byte_takes_the_last_ones_alone(records: Records) -> None:
    kept: list[int] = []
    whole = 1
    while len(kept) <= whole:
        job, disk = f"{len(kept):08}", MemoryDisk()
        await records.jobs.save(job_record(id=job))
        log = EventLog(disk, records.jobs)
        for number in range(3):
            log.add(job, number, events(number))
        whole = disk.unsynced()
        disk.crash(keep_unsynced=len(kept))
        log = EventLog(disk, records.jobs)
        await log.load()
        found = await numbers(log, job)
        assert found == [0, 1, 2][: len(found)]
        kept.append(len(found))
        log.add(job, len(found), events(9))
        again = EventLog(disk, records.jobs)
        await again.load()
        assert await numbers(again, job) == [*found, 9], "what was torn hides nothing that comes behind it"
    assert kept == sorted(kept)
    assert {*kept} == {0, 1, 2, 3}


async def test_what_comes_while_the_records_get_what_they_have_already_is_not_lost(
    started: Start, disk: MemoryDisk, records: Records, records_disk: RecordsDisk
) -> None:
    """Seed 2397: two events of a job were gone, and its verification ended with a KeyError."""
    first = await started()
    first.add(JOB, 0, events(0))
    disk.sync()
    first.add(JOB, 1, events(1, 2))
    await first.flush()
    disk.crash()
    second = await started()
    assert await numbers(second) == [0, 1, 2], "the file has one, and the records have all"
    records_disk.hang()
    writing = asyncio.create_task(second.flush())
    await asyncio.sleep(0)
    second.add(JOB, 3, events(3))
    second.add(JOB, 4, events(4))
    records_disk.mend()
    await writing
    assert await numbers(second) == await numbers(await started()) == [0, 1, 2, 3, 4]
    await second.flush()
    assert len(await records.jobs.events(JOB)) == 5


async def test_full_disk_takes_nothing_and_says_so(started: Start, disk: MemoryDisk) -> None:
    log = await started()
    log.add(JOB, 0, events(0))
    disk.refusal = errno.ENOSPC, 0
    with pytest.raises(FailedError, match="the disk does not take them: No space left on device"):
        log.add(JOB, 1, events(1))
    disk.refusal = None
    log.add(JOB, 1, events(2))
    assert await numbers(log) == [0, 2]
    assert await numbers(await started()) == [0, 2]


async def test_records_that_refuse_get_them_later(
    virtual_time: None, started: Start, records: Records, records_disk: RecordsDisk, caplog: pytest.LogCaptureFixture
) -> None:
    log = await started()
    records_disk.refuse("disk I/O error")
    log.add(JOB, 0, events(0))
    with pytest.raises(FailedError, match="disk I/O error"):
        await log.flush()
    running = asyncio.create_task(log.run())
    log.add(JOB, 1, events(1))
    await asyncio.sleep(60)
    assert caplog.messages == ["events of jobs are not in the records yet: records: disk I/O error"]
    records_disk.mend()
    await asyncio.sleep(2)
    assert [one.at_ns for one in await records.jobs.events(JOB)] == [0, 1]
    running.cancel()


async def test_who_waits_for_the_records_may_be_cancelled(started: Start, records_disk: RecordsDisk) -> None:
    log = await started()
    log.add(JOB, 0, events(0, 1))
    for turns in range(12):
        waiting = asyncio.create_task(log.flush())
        for _ in range(turns):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        log.add(JOB, 2 + turns, events(2 + turns))
    assert await numbers(log) == [*range(14)]


async def test_there_is_an_end_to_what_waits_for_the_records(started: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    log = await started()
    one = events(0)
    log.add(JOB, 0, one * LATER_MOST)
    with pytest.raises(FailedError, match=f"the records have not taken the last {LATER_MOST}"):
        log.add(JOB, LATER_MOST, one)
    await log.flush()
    log.add(JOB, LATER_MOST, one)
    await log.flush()
    monkeypatch.setattr(event_log, "CUT_BYTES", 1000)
    monkeypatch.setattr(event_log, "LATER_BYTES", 1000)
    log.add(OTHER, 0, events(*range(30)))
    with pytest.raises(FailedError, match="the records have not taken the last 30"):
        log.add(OTHER, 30, events(30))
    await log.flush()
    log.add(OTHER, 30, events(30))
    assert await numbers(log, OTHER) == [*range(31)]


async def test_large_events_are_written_anew(started: Start, disk: MemoryDisk) -> None:
    """Together they are longer than a frame may be."""
    log = await started()
    large = [replace(one, reconfiguration="x" * 20_000) for one in events(*range(900))]
    for number, one in enumerate(large):
        log.add(JOB, number, [one])
    disk.append(b"half a frame")
    again = await started()
    again.add(JOB, 900, events(900))
    assert await numbers(await started()) == [*range(901)]


async def test_file_does_not_grow_while_events_come_all_the_time(
    started: Start, disk: MemoryDisk, records_disk: RecordsDisk
) -> None:
    log = await started()
    count, largest = 0, 0
    for _ in range(12):
        log.add(JOB, count, events(*range(count, count + 5000)))
        records_disk.hang()
        writing = asyncio.create_task(log.flush())
        await asyncio.sleep(0)
        log.add(JOB, count + 5000, events(count + 5000))  # while the records are written
        largest = max(largest, disk.size())
        records_disk.mend()
        await writing
        count += 5001
    assert CUT_BYTES < largest < 1.25 * CUT_BYTES
    assert await numbers(await started()) == [*range(count)]


async def test_file_keeps_what_the_records_refuse(started: Start, disk: MemoryDisk, records_disk: RecordsDisk) -> None:
    log = await started()
    count = CUT_BYTES // len(json.encode(events(0))) + 1
    log.add(JOB, 0, events(*range(count)))
    records_disk.refuse("disk I/O error")
    with pytest.raises(FailedError):
        await log.flush()
    assert disk.size() > CUT_BYTES
    records_disk.mend()
    assert await numbers(await started()) == [*range(count)]


async def test_failed_sync_of_the_file_is_over_with_the_next_event(
    tmp_path: Path, records: Records, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = EventLog(FileDisk(tmp_path / "job-events"), records.jobs)
    await log.load()
    log.add(JOB, 0, events(0))

    def fails(fd: int) -> None:
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fails)
        await log.close()
    assert "the file cannot be written anew: Input/output error" in caplog.text
    log.add(JOB, 1, events(1))
    again = EventLog(FileDisk(tmp_path / "job-events"), records.jobs)
    await again.load()
    assert await numbers(again) == [0, 1]


async def test_clean_end_leaves_nothing_for_another_version(started: Start, disk: MemoryDisk) -> None:
    log = await started()
    log.add(JOB, 0, events(0))
    await log.close()
    assert disk.size() == 0


async def test_events_of_deleted_records_are_left_out(started: Start, disk: MemoryDisk, records: Records) -> None:
    log = await started()
    log.add("elsewhere", 0, events(0))
    log.add(JOB, 0, events(1))
    again = await started()
    assert await numbers(again) == [1]
    assert await records.jobs.events("elsewhere") == ()


async def test_file_of_another_version_is_refused(started: Start, disk: MemoryDisk) -> None:
    disk.append(encode_frame(b'{"task":"k3v9a1xx"}'))
    with pytest.raises(ConfigError, match="written by another version of hwd"):
        await started()
