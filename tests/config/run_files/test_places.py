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
