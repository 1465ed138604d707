"""A secret is drawn once, is read by nobody else, and is not taken from a file that another may know."""

import errno
import grp
import multiprocessing
import os
import stat
import threading
from pathlib import Path

import pytest

from hwd.config.run_files.announcement import Announcement
from hwd.config.run_files.places import DaemonPlace, RackPlace, daemon_of, daemons, data_dir, is_held, rack_of, run_dir
from hwd.config.run_files.secret_file import LENGTH, draw_once
from hwd_drivers.core.errors import ConfigError, RefusedError
from hwd_drivers.core.ids import RandomIds

IDS = RandomIds()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "token"


def other_group() -> str:
    """One of ours beside the first, or, for root, any."""
    gids = set(os.getgroups()) - {os.getegid()} or (
        {one.gr_gid for one in grp.getgrall()} if os.geteuid() == 0 else set()
    )
    for gid in sorted(gids - {0}):
        return grp.getgrgid(gid).gr_name
    pytest.skip("needs a second group")


def test_it_is_drawn_once_for_its_user_alone_and_one_that_an_operator_wrote_is_taken(path: Path) -> None:
    old = os.umask(0)
    try:
        secret = draw_once(path, IDS, what="token")
    finally:
        os.umask(old)
    assert len(secret) == LENGTH
    assert mode_of(path) == 0o600
    assert draw_once(path, IDS, what="token") == secret
    assert draw_once(path.with_name("other"), IDS, what="token") != secret
    path.touch(mode=0o600)
    path.write_text("correct-horse-battery-staple\n")
    assert draw_once(path, IDS, what="token") == "correct-horse-battery-staple"
    path.write_text("")  # a crash left it
    secret = draw_once(path, IDS, what="token")
    assert path.read_text() == f"{secret}\n"


def test_a_group_may_read_it_where_one_is_named(path: Path) -> None:
    group = other_group()
    secret = draw_once(path, IDS, what="token", group=group)
    assert mode_of(path) == 0o640
    assert path.group() == group
    assert draw_once(path, IDS, what="token", group=group) == secret
    with pytest.raises(ConfigError, match=r"others may read it .* \(mode 640, group \d+\)"):
        draw_once(path, IDS, what="token")

    own = path.with_name("own")  # was this user's alone
    secret = draw_once(own, IDS, what="token")
    assert draw_once(own, IDS, what="token", group=group) == secret
    assert (mode_of(own), own.group()) == (0o640, group)
    none = path.with_name("none")
    with pytest.raises(ConfigError, match="token: no group 'no-such-group' exists on this machine"):
        draw_once(none, IDS, what="token", group="no-such-group")
    assert not none.exists()


def test_one_that_others_may_read_or_write_is_refused(path: Path) -> None:
    path.write_text("correct-horse-battery-staple\n")
    for mode in (0o640, 0o604, 0o660, 0o602, 0o700, 0o4600):
        path.chmod(mode)
        with pytest.raises(ConfigError, match=rf"others may read it or write to it \(mode {mode:o}.*Remove it"):
            draw_once(path, IDS, what="token")
        assert path.read_text() == "correct-horse-battery-staple\n"


@pytest.mark.root
def test_root_draws_and_reads_that_of_the_user_whom_it_works_for_and_of_no_other(path: Path) -> None:
    drawn = draw_once(path, IDS, what="secret", owner=65534)
    assert path.stat().st_uid == 65534
    assert draw_once(path, IDS, what="secret", owner=65534) == drawn
    with pytest.raises(ConfigError, match="belongs to user 65534, who knows it, and should belong to user 0"):
        draw_once(path, IDS, what="secret")
    os.chown(path, 0, 0)
    with pytest.raises(ConfigError, match="should belong to user 65534"):
        draw_once(path, IDS, what="secret", owner=65534)


def test_a_link_is_not_followed_and_what_is_no_file_is_refused_at_once(path: Path) -> None:
    target = path.with_name("target")
    path.symlink_to(target)
    with pytest.raises(ConfigError, match="a symbolic link is not followed"):
        draw_once(path, IDS, what="token")
    assert not target.exists()
    target.touch(mode=0o600)
    target.write_text("correct-horse-battery-staple")
    with pytest.raises(ConfigError, match="a symbolic link is not followed"):
        draw_once(path, IDS, what="token")
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(ConfigError, match="is no regular file"):
        draw_once(path, IDS, what="token")
    path.unlink()
    path.mkdir()
    with pytest.raises(ConfigError, match="Is a directory"):
        draw_once(path, IDS, what="token")


@pytest.mark.parametrize("content", [b"two words\n", b"\n", b"\xff\xfe\xfd\xfc\n", b"x" * 5000])
def test_what_is_no_secret_is_not_shown(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="one word of ASCII text is expected") as caught:
        draw_once(path, IDS, what="token")
    assert "two" not in str(caught.value)
    assert "xx" not in str(caught.value)


def test_a_full_disk_leaves_no_half_secret(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: bytes, at: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with pytest.raises(ConfigError, match=r"token .*: No space left on device"):
            draw_once(path, IDS, what="token")
    assert path.read_bytes() == b""
    assert draw_once(path, IDS, what="token")


# ---


def place(testbed: str) -> DaemonPlace:
    return DaemonPlace(testbed=testbed, pid=os.getpid(), http="http://h:1", mqtt="mqtt://h:2", data_dir="/d")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"HWD_RUN_DIR": str(tmp_path / "run")}


def test_the_run_directory_is_the_users_alone_and_no_other_is_taken(
    environment: dict[str, str], tmp_path: Path
) -> None:
    path = run_dir("bed", environment)
    assert path.name == "bed"
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert run_dir("bed", {"XDG_RUNTIME_DIR": str(tmp_path)}) == tmp_path / "hwd" / "bed"
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(ConfigError, match="others cannot write"):
        run_dir("bed", {"HWD_RUN_DIR": str(tmp_path / "open")})
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(ConfigError, match="must be a directory"):
        run_dir("bed", {"HWD_RUN_DIR": str(tmp_path / "link")})
    assert data_dir("bed", {"XDG_STATE_HOME": str(tmp_path)}) == tmp_path / "hwd" / "bed"


def test_a_daemon_is_found_while_it_announces_itself_and_a_second_is_refused(environment: dict[str, str]) -> None:
    paths = [run_dir(name, environment) / "daemon.json" for name in ("bed", "a")]
    with Announcement(paths[0]) as announcement, Announcement(paths[1]) as other:
        assert daemon_of("bed", environment) is None
        announcement.write(place("bed"))
        assert daemon_of("bed", environment) == place("bed")
        other.write(place("a"))
        assert [found.testbed for found in daemons(environment)] == ["a", "bed"]
        with pytest.raises(RefusedError, match=f"testbed bed: its daemon runs.*pid {os.getpid()}"):
            Announcement(paths[0]).__enter__()
    assert daemon_of("bed", environment) is None
    rack = RackPlace(testbed="bed", pid=os.getpid(), addresses={"ocs1": "127.0.0.1:4000"})
    with Announcement(run_dir("bed", environment) / "rack.json") as announcement:
        announcement.write(rack)
        assert rack_of("bed", environment) == rack


def test_who_looks_for_a_daemon_keeps_none_from_starting(environment: dict[str, str]) -> None:
    path = run_dir("bed", environment) / "daemon.json"
    started = threading.Event()

    def look() -> None:
        while not started.is_set():
            is_held(path)

    others = [threading.Thread(target=look) for _ in range(2)]
    for other in others:
        other.start()
    try:
        for _ in range(500):
            with Announcement(path):
                assert is_held(path)
                with pytest.raises(RefusedError, match="runs already"):
                    Announcement(path).__enter__()
    finally:
        started.set()
        for other in others:
            other.join()


def test_what_a_daemon_says_of_its_broker_is_for_its_user_alone(environment: dict[str, str]) -> None:
    path = run_dir("bed", environment)
    path.chmod(0o755)  # as one may be that was there before
    (path / "daemon.json.new").write_text("of one that was killed")
    with Announcement(path / "daemon.json") as announcement:
        announcement.write(place("bed"))
        assert (path / "daemon.json").stat().st_mode & 0o777 == 0o600


def test_what_a_killed_process_left_is_not_believed(environment: dict[str, str]) -> None:
    path = run_dir("bed", environment) / "daemon.json"

    def announce_and_die() -> None:
        Announcement(path).__enter__().write(place("bed"))
        os._exit(9)

    process = multiprocessing.get_context("fork").Process(target=announce_and_die)
    process.start()
    process.join()
    process.close()
    assert path.exists()
    assert not is_held(path)
    assert daemon_of("bed", environment) is None
