"""What says where a daemon is comes again when a clean-up has taken it away, and nobody else's is touched."""

import contextlib
import fcntl
import json
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hwd.client.find import Whereabouts
from hwd.config.run_files.announcement import Announcement
from hwd.config.run_files.places import DaemonPlace, daemon_at, daemon_of, daemons, is_held, lock_of, run_dir
from hwd_drivers.core.errors import ConfigError, RefusedError

PLACE = DaemonPlace(testbed="bed", pid=os.getpid(), http="http://127.0.0.1:1", mqtt="mqtt://h:2", data_dir="/d")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"HWD_RUN_DIR": str(tmp_path / "run")}


@pytest.fixture
def path(environment: dict[str, str]) -> Path:
    return run_dir("bed", environment) / "daemon.json"


def replace_folder(path: Path) -> None:
    shutil.move(path.parent, path.parent.with_name("old"))
    path.parent.mkdir(mode=0o700)


CLEAN_UPS: dict[str, Callable[[Path], object]] = {
    "file": Path.unlink,
    "lock": lambda path: lock_of(path).unlink(),
    "folder": lambda path: shutil.rmtree(path.parent),
    "run directory": lambda path: shutil.rmtree(path.parent.parent),
    "other folder": replace_folder,
    "empty": lambda path: os.truncate(path, 0),
    "other text": lambda path: path.write_text('{"testbed": "other"}'),
    "unreadable": lambda path: path.chmod(0),
}


@pytest.mark.parametrize("what", CLEAN_UPS)
def test_what_a_clean_up_has_removed_is_announced_again(what: str, path: Path, environment: dict[str, str]) -> None:
    with Announcement(path) as announcement:
        announcement.write(PLACE)
        CLEAN_UPS[what](path)
        assert announcement.restore()
        assert daemon_of("bed", environment) == PLACE
        assert path.stat().st_mode & 0o777 == 0o600
        with pytest.raises(RefusedError, match=f"its daemon runs already, with pid {os.getpid()}"):
            Announcement(path).__enter__()
    assert not path.exists()
    assert not is_held(path)


def test_what_cannot_be_announced_ends_nobody_is_said_once_and_comes_when_it_can(
    path: Path, environment: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    in_the_way = path.with_name("daemon.json.new")
    with Announcement(path) as announcement:
        in_the_way.mkdir()
        announcement.write(PLACE)
        assert not announcement.restore()
        assert daemon_of("bed", environment) is None
        in_the_way.rmdir()
        assert announcement.restore()
        assert daemon_of("bed", environment) == PLACE
    first, second = [record.getMessage() for record in caplog.records]
    assert "the daemon of testbed bed runs, and is not found by others: " in first
    assert f"{in_the_way}: Is a directory. It tries again every 2 s" in first
    assert second == "the daemon of testbed bed is found by others again"


def test_folder_that_somebody_else_could_write_to_gets_no_password(path: Path) -> None:
    with Announcement(path) as announcement:
        announcement.write(PLACE)
        shutil.rmtree(path.parent)
        path.parent.mkdir()
        path.parent.chmod(0o777)
        assert not announcement.restore()
        assert [*path.parent.iterdir()] == []


def test_other_daemon_that_came_while_the_lock_was_gone_keeps_its_place(
    path: Path, environment: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    theirs = DaemonPlace(testbed="bed", pid=1, http="http://127.0.0.1:9", mqtt="mqtt://h:2", data_dir="/d")
    with contextlib.ExitStack() as stack:
        with Announcement(path) as first:
            first.write(PLACE)
            shutil.rmtree(path.parent)
            path.parent.mkdir(mode=0o700)
            stack.enter_context(Announcement(path)).write(theirs)
            assert not first.restore()
            assert "its daemon runs already, with pid" in caplog.text
        assert daemon_of("bed", environment) == theirs


def test_systemd_passes_over_a_folder_that_is_in_use(path: Path) -> None:
    """systemd-tmpfiles takes an exclusive lock on each folder before it cleans it."""
    with Announcement(path) as announcement:
        announcement.write(PLACE)
        folder = os.open(path.parent, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(folder)


NOT_UNDERSTOOD = {
    b"": "truncated",
    b"\xff\xfe": "malformed",
    b"[]": "expected object, got array|Expected `object`, got `array`",
    b'{"testbed": "bed"}': "pid is missing",
    b'{"testbed": "bed", "pid": "4", "http": "h", "mqtt": "m", "data_dir": "d"}': "pid: expected",
    b'{"testbed": "bed", "pid": 4, "http": null, "mqtt": "m", "data_dir": "d"}': "http: expect",
}


def test_file_of_a_daemon_that_cannot_be_understood_is_refused_in_a_line(
    path: Path, environment: dict[str, str]
) -> None:
    with Announcement(path) as announcement:
        announcement.write(PLACE)
        own = json.loads(path.read_text())
        for text, why in NOT_UNDERSTOOD.items():
            path.write_bytes(text)
            for ask in (lambda: daemon_of("bed", environment), lambda: daemons(environment)):
                with pytest.raises(ConfigError, match=f"{path}: cannot be understood: .*({why})") as caught:
                    ask()
                assert "\n" not in str(caught.value)
            assert daemon_at(lambda place: True, environment) is None
            assert Whereabouts("http://127.0.0.1:1", environment=environment).token is None
        path.write_text(json.dumps({**own, "rank": 3, "more": {"a": [1]}}))  # of another version
        assert daemon_of("bed", environment) == PLACE
