import multiprocessing
import os
import threading
from pathlib import Path

import pytest

from hwd.config.run_files.announcement import Announcement
from hwd.config.run_files.places import (
    DaemonPlace,
    RackPlace,
    daemon_of,
    daemons,
    data_dir,
    is_held,
    rack_of,
    run_dir,
)
from hwd_drivers.core.errors import ConfigError, RefusedError


def place(testbed: str) -> DaemonPlace:
    return DaemonPlace(testbed=testbed, pid=os.getpid(), http="http://h:1", mqtt="mqtt://h:2", data_dir="/d")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"HWD_RUN_DIR": str(tmp_path / "run")}


def test_the_run_directory_is_the_users_alone(environment: dict[str, str]) -> None:
    path = run_dir("bed", environment)
    assert path.name == "bed"
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_the_run_directory_follows_the_session(tmp_path: Path) -> None:
    assert run_dir("bed", {"XDG_RUNTIME_DIR": str(tmp_path)}) == tmp_path / "hwd" / "bed"


def test_a_run_directory_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(ConfigError, match="others cannot write"):
        run_dir("bed", {"HWD_RUN_DIR": str(tmp_path / "open")})


def test_a_link_is_no_run_directory(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(ConfigError, match="must be a directory"):
        run_dir("bed", {"HWD_RUN_DIR": str(tmp_path / "link")})


def test_the_data_directory_is_state_of_the_user(tmp_path: Path) -> None:
    assert data_dir("bed", {"XDG_STATE_HOME": str(tmp_path)}) == tmp_path / "hwd" / "bed"


def test_a_daemon_is_found_while_it_announces_itself(environment: dict[str, str]) -> None:
    with Announcement(run_dir("bed", environment) / "daemon.json") as announcement:
        assert daemon_of("bed", environment) is None
        announcement.write(place("bed"))
        assert daemon_of("bed", environment) == place("bed")
    assert daemon_of("bed", environment) is None


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


def test_daemons_are_listed_by_testbed(environment: dict[str, str]) -> None:
    paths = [run_dir(name, environment) / "daemon.json" for name in ("b", "a")]
    with Announcement(paths[0]) as first, Announcement(paths[1]) as second:
        first.write(place("b"))
        second.write(place("a"))
        assert [found.testbed for found in daemons(environment)] == ["a", "b"]


def test_a_rack_says_where_its_twins_are(environment: dict[str, str]) -> None:
    rack = RackPlace(testbed="bed", pid=os.getpid(), addresses={"ocs1": "127.0.0.1:4000"})
    with Announcement(run_dir("bed", environment) / "rack.json") as announcement:
        announcement.write(rack)
        assert rack_of("bed", environment) == rack


def test_a_second_one_is_refused_with_the_pid_of_the_first(environment: dict[str, str]) -> None:
    path = run_dir("bed", environment) / "daemon.json"
    with Announcement(path), pytest.raises(RefusedError, match=f"testbed bed: its daemon runs.*pid {os.getpid()}"):
        Announcement(path).__enter__()


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
