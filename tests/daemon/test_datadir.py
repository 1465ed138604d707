"""The data directory: its lock, the free space around it, the token in it and the group that may read that."""

import asyncio
import errno
import fcntl
import os
import stat
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from hwd.config.run_files.announcement import Announcement
from hwd.config.run_files.places import is_held
from hwd.daemon.datadir import DataDirectory
from hwd.daemon.disk_space import Space, watch_space
from hwd.daemon.installed_drivers import check, load
from hwd.daemon.token import Token
from hwd.model.daemon import DISK_EACH_S, DaemonDisk
from hwd.rollout.onhost.lock import exclusive
from hwd.rollout.onhost.programs import Failure
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.documents import Document
from hwd_drivers.core.emitter import Emitter
from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.ids import RandomIds
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.twins.virtual_time import VirtualLoop

from ..config.run_files.test_secret_file import other_group

PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("needs root: a tmpfs is mounted")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={PAGE},mode=700", "hwd-test", tmp_path], check=True)
    try:
        (tmp_path / "ballast").write_bytes(b"x" * PAGE)
        yield tmp_path
    finally:
        subprocess.run(["umount", "--lazy", tmp_path], check=True)


def test_second_holder_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("a longer text of an earlier life\n")
    refused = pytest.raises(RefusedError, match=f"in use by the daemon with pid {os.getpid()}\\. Stop")
    with DataDirectory(tmp_path), refused, DataDirectory(tmp_path):
        pass
    with DataDirectory(tmp_path) as again:
        assert again.path == tmp_path


def test_full_disk_can_be_held(full_disk: Path) -> None:
    refused = pytest.raises(RefusedError, match="in use by the daemon with pid unknown")
    with DataDirectory(full_disk), refused, DataDirectory(full_disk):
        pass


def test_folder_of_everybody_is_refused_before_anything_in_it_is_opened(tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "everybody"
    victim.write_text("a long text that is not the pid of a daemon")
    folder.mkdir()
    (folder / "lock").symlink_to(victim)
    for mode in (0o777, 0o1777):
        folder.chmod(mode)
        with pytest.raises(ConfigError, match=rf"everybody may write there \(mode {mode:o}\)"), DataDirectory(folder):
            pass
        assert victim.read_text() == "a long text that is not the pid of a daemon"


def test_file_system_without_locks_is_refused_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As NFS without a lock service answers."""

    def flock(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", flock)
    why = (
        r"lock: cannot be locked: No locks available \(its file system has no locks, as NFS without a lock service\)\. "
    )
    with pytest.raises(ConfigError, match=f"{why}Name a data directory on a local disk with --data"):
        DataDirectory(tmp_path).__enter__()
    (tmp_path / "run" / "desk").mkdir(parents=True)
    with pytest.raises(ConfigError, match=f"{why}Name another with HWD_RUN_DIR"):
        Announcement(tmp_path / "run" / "desk" / "daemon.json").__enter__()
    with pytest.raises(ConfigError, match=f"{why}Name another with HWD_RUN_DIR"):
        is_held(tmp_path / "run" / "desk" / "daemon.json")
    with pytest.raises(Failure, match=r"held: cannot be locked: No locks available\. .* start that service"):
        exclusive(str(tmp_path / "held"), "me").__enter__()


TESTBED = "testbed: t\nswitches: {}\nhosts: {}\nfibres: []\naccess_group: GROUP\n"
IDS = RandomIds()


def test_the_testbed_names_the_group_that_may_read_the_token_and_one_that_can_be_guessed_is_refused(
    tmp_path: Path,
) -> None:
    group = other_group()
    (tmp_path / "t.yaml").write_text(TESTBED.replace("GROUP", group))
    testbed = load(tmp_path / "t.yaml").require()
    assert testbed.access_group == group
    token = Token.load(tmp_path, IDS, group=testbed.access_group)
    assert (stat.S_IMODE(token.path.stat().st_mode), token.path.group()) == (0o640, group)
    assert Token.load(tmp_path, IDS, group=group) == token
    assert token.text not in repr(token)
    token.path.unlink()
    (tmp_path / "token").touch(mode=0o600)
    (tmp_path / "token").write_text("short\n")
    with pytest.raises(ConfigError, match="is shorter than 16 characters") as raised:
        Token.load(tmp_path, IDS, group=None)
    assert "short\n" not in str(raised.value)


def test_a_folder_that_the_group_cannot_pass_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    group = other_group()
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    Token.load(data, IDS, group=group)
    assert "cannot get there: it may not pass" in caplog.text
    for folder in (data, *data.parents):
        if folder.stat().st_uid != os.geteuid() or folder == Path("/"):
            break
        folder.chmod(folder.stat().st_mode | stat.S_IXOTH)
    caplog.clear()
    Token.load(data, IDS, group=group)
    assert caplog.text == ""


def test_what_is_no_group_is_bad_input_and_one_that_is_not_here_is_told_by_check_and_refused(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    for group in ("../x", "a b", "", "Lab"):
        file.write_text(TESTBED.replace("GROUP", repr(group)))
        assert [problem.warning for problem in load(file).problems] == [False], group
    file.write_text(TESTBED.replace("GROUP", "no-such-group"))
    assert load(file).require().access_group == "no-such-group"
    (problem,) = check([file], {})
    assert str(problem).endswith(
        "t.yaml:5: access_group: warning: group no-such-group does not exist on this machine; "
        "without it no daemon starts here"
    )
    assert problem.warning
    with pytest.raises(ConfigError, match="no group 'no-such-group'"):
        Token.load(tmp_path, IDS, group="no-such-group")


def test_space_is_that_of_the_file_system_for_an_ordinary_user_and_a_folder_that_is_gone_cannot_be_read(
    tmp_path: Path,
) -> None:
    with DataDirectory(tmp_path) as data:
        before = os.statvfs(tmp_path)
        space = data.space()
        after = os.statvfs(tmp_path)
    assert space.total_bytes == before.f_blocks * before.f_frsize
    free = sorted(found.f_bavail * found.f_frsize for found in (before, after))
    slack = 2**26  # others write to that disk, too
    assert free[0] - slack <= space.free_bytes <= free[1] + slack
    folder = tmp_path / "data"
    with DataDirectory(folder) as data:
        (folder / "lock").unlink()
        folder.rmdir()
        with pytest.raises(FileNotFoundError):
            data.space()


def watched(read: Callable[[], Space], told: Callable[[Document], None]) -> asyncio.Task[None]:
    return asyncio.create_task(watch_space("/data", read, InlineOffload(), Emitter(SystemClock(), told)))


async def test_disk_that_does_not_change_is_told_at_the_start_and_each_minute(virtual_loop: VirtualLoop) -> None:
    times: list[float] = []
    began_s = virtual_loop.time()
    read = partial(Space, free_bytes=5 * 10**9, total_bytes=9 * 10**9)
    task = watched(read, lambda _: times.append(virtual_loop.time() - began_s))
    await asyncio.sleep(2.5 * DISK_EACH_S)
    task.cancel()
    await asyncio.wait([task])
    assert times == pytest.approx([0.0, DISK_EACH_S, 2 * DISK_EACH_S], abs=0.1)


async def test_disk_that_fills_up_or_cannot_be_read_is_told_within_seconds(virtual_loop: VirtualLoop) -> None:
    gigabyte = 10**9
    steps: list[int | None] = [9 * gigabyte, 9 * gigabyte - 1, 2 * gigabyte, gigabyte - 1, None, None, 2 * gigabyte]
    told: list[tuple[float, int | None]] = []
    left, began_s = iter(steps), virtual_loop.time()

    def read() -> Space:
        free = next(left, steps[-1])
        if free is None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return Space(free_bytes=free, total_bytes=10 * gigabyte)

    def note(document: Document) -> None:
        assert isinstance(document.fact, DaemonDisk)
        fact, is_read = document.fact, document.fact.free_bytes is not None
        said = ("/data", 10 * gigabyte, "") if is_read else ("/data", None, "Input/output error")
        assert (fact.path, fact.total_bytes, fact.why) == said
        told.append((virtual_loop.time() - began_s, fact.free_bytes))

    task = watched(read, note)
    await asyncio.sleep(DISK_EACH_S)
    task.cancel()
    await asyncio.wait([task])
    assert [free for _, free in told] == [9 * gigabyte, 2 * gigabyte, gigabyte - 1, None, 2 * gigabyte]
    assert [at_s for at_s, _ in told] == pytest.approx([0.0, 10.0, 15.0, 20.0, 30.0], abs=0.1)
