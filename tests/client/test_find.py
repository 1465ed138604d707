from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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


@contextmanager
def running(environment: dict[str, str], *testbeds: str) -> Iterator[None]:
    """Daemons of these testbeds, at ports 1, 2 and so on."""
    with ExitStack() as stack:
        for port, name in enumerate(testbeds, 1):
            stack.enter_context(Announcement(run_dir(name, environment) / "daemon.json")).write(place(name, port))
        yield


def test_what_is_named_wins_else_the_only_daemon_is_found(environment: dict[str, str]) -> None:
    with running(environment, "bed"):
        assert find_daemon("http://a:1/", {**environment, "HWD_URL": "http://b:2"}) == "http://a:1"
        assert find_daemon(None, {**environment, "HWD_URL": "http://b:2"}) == "http://b:2"
        assert find_daemon(None, environment) == "http://127.0.0.1:1"
    with pytest.raises(LinkError, match="hwd serve TESTBED"):
        find_daemon(None, environment)


def test_of_several_daemons_it_asks_which_and_one_is_found_by_its_testbed(environment: dict[str, str]) -> None:
    with running(environment, "a", "b"):
        with pytest.raises(ConfigError, match=r"--url http://127\.0\.0\.1:2   b at"):
            find_daemon(None, environment)
        with Client.find(environment={**environment, "HWD_URL": "http://c:3"}, testbed="b") as client:
            assert client.url == "http://127.0.0.1:2"
        with pytest.raises(LinkError, match="testbed c: no daemon of it runs here; those that do: a, b"):
            Client.find(environment=environment, testbed="c")


def test_what_is_no_url_of_a_daemon_is_bad_input(environment: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="not the URL of a daemon"):
        find_daemon("127.0.0.1:8642", environment)
    for url in ("http://localhost:abc", "http://localhost:99999", "http://[::1", "http://", "http://:8642"):
        with pytest.raises(ConfigError, match=r"write it as http://127\.0\.0\.1:8642"):
            Client.find(url, environment=environment)
