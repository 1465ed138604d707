"""What was synced is there after a crash, and what was torn is never taken for a record."""

import asyncio
import errno
import os
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwd_drivers.core.disk import Disk, FileDisk, MemoryDisk
from hwd_drivers.core.frames import decode_frames, encode_frame
from hwd_drivers.core.offload import ThreadOffload

payload_lists = st.lists(st.binary(max_size=40), max_size=6)


@pytest.fixture(params=["file", "memory"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Disk]]:
    """Open the same disk again and again; those before are closed."""
    held: list[Disk] = []
    memory = MemoryDisk()

    def opened() -> Disk:
        while held:
            held.pop().close()
        held.append(FileDisk(tmp_path / "journal") if request.param == "file" else memory)
        return held[-1]

    yield opened
    while held:
        held.pop().close()


def test_appended_bytes_are_read_back_in_order_and_replaced_as_a_whole(reopen: Callable[[], Disk]) -> None:
    disk = reopen()
    assert (disk.size(), disk.read()) == (0, b"")
    disk.append(b"one")
    disk.append(b"")
    disk.append(b"two")
    disk.sync()
    assert (disk.size(), disk.read()) == (6, b"onetwo")
    again = reopen()
    again.append(b"three")
    assert (again.size(), again.read()) == (11, b"onetwothree")
    disk = reopen()
    disk.replace(b"new")
    assert (disk.size(), disk.read()) == (3, b"new")
    disk.append(b"er")
    disk.sync()
    assert reopen().read() == b"newer"


def test_truncate_cuts_the_tail_and_refuses_a_larger_size(reopen: Callable[[], Disk]) -> None:
    disk = reopen()
    disk.append(b"good" + b"torn")
    disk.truncate(4)
    assert disk.read() == b"good"
    disk.append(b"next")
    disk = reopen()
    for size in (-1, 9):
        with pytest.raises(ValueError, match=f"cannot truncate to {size} bytes, it has 8 bytes"):
            disk.truncate(size)
    assert disk.read() == b"goodnext"


def test_full_file_disk_keeps_nothing_of_a_failed_append_or_replacement(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path / "journal")
    disk.append(encode_frame(b"first"))
    present = disk.size()
    with file_size_limit(present + 10), pytest.raises(OSError, match="too large") as failure:
        disk.append(encode_frame(b"x" * 100))
    assert failure.value.errno == errno.EFBIG
    assert (tmp_path / "journal").stat().st_size == present
    disk.append(encode_frame(b"second"))
    assert decode_frames(disk.read()).payloads == (b"first", b"second")
    with file_size_limit(10), pytest.raises(OSError, match="too large"):
        disk.replace(b"x" * 100)
    assert decode_frames(disk.read()).payloads == (b"first", b"second")
    disk.close()
    assert os.listdir(tmp_path) == ["journal"]


def test_after_a_failed_sync_nothing_is_believed_until_it_is_opened_again(tmp_path: Path) -> None:
    target = tmp_path / "journal"
    target.symlink_to("/dev/null")  # fdatasync on it fails with EINVAL
    disk = FileDisk(target)
    with pytest.raises(OSError, match="Invalid argument"):
        disk.sync()
    with pytest.raises(OSError, match="an earlier sync failed"):
        disk.append(b"x")
    with pytest.raises(OSError, match="an earlier sync failed") as failure:
        disk.sync()
    assert failure.value.errno == errno.EIO
    disk.replace(b"whole")
    disk.append(b" again")
    disk.sync()
    assert disk.read() == b"whole again"
    disk.close()


def test_full_memory_disk_is_full_like_a_file_and_loses_unsynced_bytes_in_a_crash() -> None:
    disk = MemoryDisk(capacity_bytes=5)
    disk.append(b"four")
    with pytest.raises(OSError, match="No space left on device") as failure:
        disk.append(b"xx")
    assert failure.value.errno == errno.ENOSPC
    assert disk.read() == b"four"
    with pytest.raises(OSError, match="No space left on device"):
        disk.replace(b"longer")
    assert disk.read() == b"four"
    disk = MemoryDisk()
    disk.append(b"kept")
    disk.sync()
    disk.append(b"lost")
    assert disk.unsynced() == 4
    disk.crash()
    assert (disk.read(), disk.unsynced()) == (b"kept", 0)


@given(payloads=payload_lists, synced=st.integers(0, 6), kept=st.integers(0, 400))
def test_crash_at_any_byte_leaves_whole_frames_in_order(payloads: list[bytes], synced: int, kept: int) -> None:
    disk = MemoryDisk()
    for number, payload in enumerate(payloads):
        if number == synced:
            disk.sync()
        disk.append(encode_frame(payload))
    if len(payloads) <= synced:
        disk.sync()
    disk.crash(keep_unsynced=kept)
    frames = decode_frames(disk.read())
    assert list(frames.payloads) == payloads[: len(frames.payloads)]
    assert len(frames.payloads) >= min(synced, len(payloads))


class file_size_limit:  # noqa: N801 - used as a statement
    """The kernel writes a file only up to so many bytes, then fails: what a full disk does, without one."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __enter__(self) -> None:
        self._handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        self._before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._size, self._before[1]))

    def __exit__(self, *error: object) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._before)
        signal.signal(signal.SIGXFSZ, self._handler)


async def test_a_sync_in_another_thread_while_the_file_is_replaced_is_of_one_of_both(tmp_path: Path) -> None:
    disk, threads = FileDisk(tmp_path / "events"), ThreadOffload(1)
    try:
        for number in range(50):
            disk.append(b"x" * 1000)
            syncing = asyncio.create_task(threads(disk.sync))
            await asyncio.sleep(0)
            disk.replace(b"%d" % number)
            await syncing
    finally:
        threads.close()
    disk.append(b"!")
    disk.sync()
    assert disk.read() == b"49!"
    disk.close()


def test_reserved_room_accepts_appends_on_a_full_disk_and_reads_as_zeros() -> None:
    disk = MemoryDisk(capacity_bytes=100)
    disk.append(b"begin")
    disk.sync()
    disk.reserve(20)
    disk.capacity_bytes = 25
    assert (disk.size(), disk.room(), disk.read()) == (5, 20, b"begin" + bytes(20))
    disk.append(b"end")
    with pytest.raises(OSError, match="No space"):
        disk.append(bytes(18))
    assert (disk.size(), disk.read()) == (8, b"beginend" + bytes(17))
    disk.crash()
    assert disk.read() == b"begin" + bytes(20), "what is reserved outlives a power cut, what was not synced does not"


def test_reserve_survives_a_restart_that_rewinds_to_the_end_of_its_content(reopen: Callable[[], Disk]) -> None:
    disk = reopen()
    disk.append(b"one")
    disk.reserve(10)
    disk.append(b"torn")
    again = reopen()
    assert (again.size(), again.read()) == (13, b"onetorn" + bytes(6))
    again.rewind(3)
    assert (again.size(), again.room(), again.read()) == (3, 10, b"one" + bytes(10))
    again.append(b"two")
    assert (again.size(), again.room()) == (6, 7)
    again.replace(b"all", reserve=4)
    assert (again.size(), again.room(), again.read()) == (3, 4, b"all" + bytes(4))
    again.truncate(2)
    assert (again.room(), reopen().read()) == (0, b"al")


def test_reserved_bytes_are_blocks_of_the_file_and_a_failed_append_into_them_leaves_zeros(tmp_path: Path) -> None:
    """The file may grow to 8 KiB, as on a disk that is full then."""
    path = tmp_path / "journal"
    disk = FileDisk(path)
    disk.append(b"begin")
    disk.reserve(8187)
    assert path.stat().st_blocks * 512 >= 8192
    with file_size_limit(8192):
        with pytest.raises(OSError, match="File too large"):
            disk.reserve(9000)
        with pytest.raises(OSError, match="File too large"):
            disk.append(b"x" * 9000)
        assert (disk.size(), disk.read()) == (5, b"begin" + bytes(8187))
        disk.append(b"end")
        disk.sync()
    disk.close()
    assert path.read_bytes() == b"beginend" + bytes(8184)


def test_copy_set_aside_is_private_and_never_written_again(tmp_path: Path) -> None:
    disk = FileDisk(tmp_path / "journal")
    disk.append(b"damaged")
    (tmp_path / "journal.damaged-1").symlink_to(tmp_path / "elsewhere")
    names = [disk.set_aside(), disk.set_aside()]
    assert names == [str(tmp_path / f"journal.damaged-{number}") for number in (2, 3)]
    assert [Path(name).read_bytes() for name in names] == [b"damaged"] * 2
    assert {Path(name).stat().st_mode & 0o777 for name in names} == {0o600}
    assert not (tmp_path / "elsewhere").exists()
