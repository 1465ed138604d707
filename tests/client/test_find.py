from pathlib import Path

import pytest

from hwd.client import Client, find_daemon
from hwd.config.run_files.announcement import Announcement
from hwd.config.run_files.places import DaemonPlace, run_dir
from hwd_drivers.core.errors import ConfigError, LinkError


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"HWD_RUN_DIR": str(tmp_path / "run")}


def place(testbed: str, port: int) -> DaemonPlace:
    return DaemonPlace(testbed=testbed, pid=7, http=f"http://127.0.0.1:{port}", mqtt="mqtt://h:2", data_dir="/d")


def test_what_is_named_wins(environment: dict[str, str]) -> None:
    assert find_daemon("http://a:1/", {**environment, "HWD_URL": "http://b:2"}) == "http://a:1"
    assert find_daemon(None, {**environment, "HWD_URL": "http://b:2"}) == "http://b:2"


def test_the_only_daemon_is_found(environment: dict[str, str]) -> None:
    with Announcement(run_dir("bed", environment) / "daemon.json") as announcement:
        announcement.write(place("bed", 1))
        assert find_daemon(None, environment) == "http://127.0.0.1:1"


def test_without_a_daemon_it_says_how_to_start_one(environment: dict[str, str]) -> None:
    with pytest.raises(LinkError, match="hwd serve TESTBED"):
        find_daemon(None, environment)


def test_of_several_daemons_it_asks_which(environment: dict[str, str]) -> None:
    paths = [run_dir(name, environment) / "daemon.json" for name in ("a", "b")]
    with Announcement(paths[0]) as first, Announcement(paths[1]) as second:
        first.write(place("a", 1))
        second.write(place("b", 2))
        with pytest.raises(ConfigError, match=r"--url http://127\.0\.0\.1:2   b at"):
            find_daemon(None, environment)


def test_of_several_daemons_one_is_found_by_its_testbed(environment: dict[str, str]) -> None:
    paths = [run_dir(name, environment) / "daemon.json" for name in ("a", "b")]
    with Announcement(paths[0]) as first, Announcement(paths[1]) as second:
        first.write(place("a", 1))
        second.write(place("b", 2))
        with Client.find(environment={**environment, "HWD_URL": "http://c:3"}, testbed="b") as client:
            assert client.url == "http://127.0.0.1:2"
        with pytest.raises(LinkError, match="testbed c: no daemon of it runs here; those that do: a, b"):
            Client.find(environment=environment, testbed="c")


def test_what_is_no_url_is_bad_input(environment: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="not the URL of a daemon"):
        find_daemon("127.0.0.1:8642", environment)


@pytest.mark.parametrize(
    "url", ["http://localhost:abc", "http://localhost:99999", "http://[::1", "http://", "http://:8642"]
)
def test_url_without_a_host_or_with_a_port_that_is_none_is_bad_input(environment: dict[str, str], url: str) -> None:
    with pytest.raises(ConfigError, match=r"write it as http://127\.0\.0\.1:8642"):
        Client.find(url, environment=environment)
