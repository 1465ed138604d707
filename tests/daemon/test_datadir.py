"""The data directory and its lock."""

import errno
import fcntl
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hwd.config.run_files.announcement import Announcement
from hwd.config.run_files.places import is_held
from hwd.daemon.datadir import DataDirectory
from hwd.rollout.onhost.lock import exclusive
from hwd.rollout.onhost.programs import Failure
from hwd_drivers.core.errors import ConfigError, RefusedError

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


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_folder_of_everybody_is_refused_before_anything_in_it_is_opened(tmp_path: Path, mode: int) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "everybody"
    victim.write_text("a long text that is not the pid of a daemon")
    folder.mkdir()
    folder.chmod(mode)
    (folder / "lock").symlink_to(victim)
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
