"""`hwd serve` as a process: what it says of itself, and how it starts, refuses and ends."""

import asyncio
import contextlib
import json
import os
import pty
import re
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiomqtt
import httpx2
import pytest

from hwd.client import Client
from hwd.client.find import Whereabouts
from hwd.config.run_files.places import DaemonPlace, RackPlace, daemon_of, data_dir, rack_of, records_path
from hwd.daemon.serve import ServeOptions, host_and_port
from hwd.daemon.serve import serve as run_daemon
from hwd_agents.bus.mqtt import BrokerUrl
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.errors import ConfigError, RefusedError

from .conftest import DESK

ROOT = Path(__file__).parents[2]
Process = subprocess.Popen[str]
Serve = Callable[..., Process]
Listening = Callable[..., tuple[Process, DaemonPlace, str]]


@pytest.fixture
def serve(tmp_path: Path, environment: dict[str, str]) -> Iterator[Serve]:
    """Starts daemons of one testbed file."""
    (tmp_path / "desk.yaml").write_text(DESK)
    started: list[Process] = []

    def start(*arguments: str, **more: str) -> Process:
        command = [sys.executable, "-m", "hwd.cli", "serve", str(tmp_path / "desk.yaml"), *arguments]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**environment, **more})
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def rack_up(serve: Serve, environment: dict[str, str]) -> Iterator[Callable[..., tuple[Process, RackPlace, str]]]:
    """Starts daemons with a rack until it is up; with what they said. The rack ends with the test."""
    started: list[int] = []

    def start() -> tuple[Process, RackPlace, str]:
        process = serve("--http", "127.0.0.1:0")
        said = said_until(process, "ocs1: up")
        rack = rack_of("desk", environment)
        assert rack is not None
        started.append(rack.pid)
        return process, rack, said

    yield start
    for pid in started:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def listening(serve: Serve, environment: dict[str, str]) -> Listening:
    """Starts daemons without a rack; with what they said of their start."""

    def start(*arguments: str, http: str = "127.0.0.1:0", **more: str) -> tuple[Process, DaemonPlace, str]:
        process = serve("--no-twin", "--http", http, *arguments, **more)
        said = said_until(process, "data ")
        place = daemon_of("desk", environment)
        assert place is not None
        return process, place, said

    return start


@pytest.fixture
def in_terminal(tmp_path: Path, environment: dict[str, str]) -> Iterator[Callable[..., tuple[Any, int, str]]]:
    """Starts a daemon whose standard streams are a terminal; with the side of whoever sits there, and what it said."""
    (tmp_path / "desk.yaml").write_text(DESK)
    command = [sys.executable, "-m", "hwd.cli", "serve", str(tmp_path / "desk.yaml"), "--no-twin"]
    started: list[subprocess.Popen[bytes]] = []

    def start(*before: str) -> tuple["subprocess.Popen[bytes]", int, str]:
        ours, theirs = pty.openpty()
        streams: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), theirs)
        process = subprocess.Popen([*before, *command, "--http", "127.0.0.1:0"], env=environment, **streams)
        started.append(process)
        os.close(theirs)
        said = ""
        while "data " not in said:
            said += os.read(ours, 4096).decode()
        return process, ours, said

    yield start
    for process in started:
        process.kill()
        process.wait()


def said_until(process: Process, words: str) -> str:
    assert process.stderr is not None
    said = ""
    while words not in said:
        line = process.stderr.readline()
        assert line, f"it ended, having said: {said}"
        said += line
    return said


def end(process: Process, number: int = signal.SIGTERM) -> tuple[int, str]:
    process.send_signal(number)
    _, said = process.communicate(timeout=20)
    return process.returncode, said


@contextlib.contextmanager
def handled(number: signal.Signals, how: signal.Handlers) -> Iterator[None]:
    """What is started meanwhile begins with this."""
    before = signal.signal(number, how)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.fixture
def hangup() -> Iterator[None]:
    """What is started heeds SIGHUP, where these tests run under `nohup` too."""
    with handled(signal.SIGHUP, signal.SIG_DFL):
        yield


def test_a_daemon_can_be_found_from_its_start_to_its_end_which_no_closed_terminal_is_under_nohup(
    listening: Listening, environment: dict[str, str], tmp_path: Path
) -> None:
    with handled(signal.SIGHUP, signal.SIG_IGN):
        process, place, said = listening()
    assert place.http in said
    assert place.data_dir == str(data_dir("desk", environment))
    said += said_until(process, "ocs1: down") if "ocs1: down" not in said else ""
    assert "WARNING" in said
    assert f"ocs1: down: its twin rack is not up. Start it with `hwd twin up {tmp_path / 'desk.yaml'}`" in said
    assert "is starting" not in said
    other = {"HWD_RUN_DIR": str(tmp_path / "other"), "XDG_STATE_HOME": str(tmp_path / "other")}
    file = tmp_path / "desk.yaml"
    with pytest.raises(RefusedError, match=f"in use by the daemon with pid {process.pid}"):
        same_data = ServeOptions(testbed=file, data=Path(place.data_dir), http="127.0.0.1:0", twin=False)
        asyncio.run(run_daemon(same_data, other))
    with pytest.raises(ConfigError, match="cannot listen: Address already in use"):
        same_port = ServeOptions(testbed=file, http=place.http.removeprefix("http://"), twin=False)
        asyncio.run(run_daemon(same_port, other))
    process.send_signal(signal.SIGHUP)
    assert httpx2.get(f"{place.http}/readyz", trust_env=False).json()["ready"] is False
    assert end(process, signal.SIGINT)[0] == 0
    assert daemon_of("desk", environment) is None
    with contextlib.closing(sqlite3.connect(records_path(Path(place.data_dir)))) as records:
        clock = records.execute("SELECT value FROM hwd_about WHERE key = 'clock'").fetchall()
    assert clock == [(SystemClock().name,)], "what was measured against it holds until the machine starts anew"


@pytest.mark.usefixtures("hangup")
def test_a_run_is_recorded_with_its_commit_and_a_closed_terminal_ends_all_in_order_whoever_reads_the_event_stream(
    listening: Listening,
) -> None:
    process, place, _ = listening()
    by = {"Authorization": f"Bearer {Path(place.token_file).read_text().strip()}"}
    with httpx2.Client(base_url=f"{place.http}/api/v1", headers=by, trust_env=False) as client:
        body = {"text": "playbook: said\nsteps:\n  - note: hello\n", "file": "said.yaml"}
        started = client.post("/runs", json=body).json()
        while (run := client.get(f"/runs/{started['run']}").json()).get("outcome") is None:
            pass
    if (ROOT / ".git").exists():
        assert run["commit"] == run["inventory"]["commit"]
    else:
        assert run["commit"] is None
        assert run["inventory"]["commit"].startswith("unknown: ")
    with httpx2.stream("GET", f"{place.http}/api/v1/events", headers=by, trust_env=False, timeout=20) as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith(": events")
        status, said = end(process, signal.SIGHUP)
        assert (status, said.splitlines()[-1].endswith("ended")) == (0, True)
        told = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    assert told[-1]["kind"] == "daemon.stopped"
    with contextlib.closing(sqlite3.connect(records_path(Path(place.data_dir)))) as records:
        last = records.execute("SELECT kind FROM documents ORDER BY id DESC LIMIT 1").fetchone()
    assert last == ("daemon.stopped",), "a crash writes none"


def test_daemon_and_rack_outlive_a_clean_up_of_their_run_directory_and_the_rack_the_daemon(
    rack_up: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    process, rack, said = rack_up()
    assert f"ocs1: its twin rack is starting (pid {rack.pid})" in said
    assert "WARNING" not in said
    place = daemon_of("desk", environment)
    assert place is not None
    shutil.rmtree(environment["HWD_RUN_DIR"])
    assert daemon_of("desk", environment) is None
    deadline_s = time.monotonic() + 20  # noqa: TID251 - of a process of its own
    while daemon_of("desk", environment) != place or rack_of("desk", environment) != rack:
        assert time.monotonic() < deadline_s  # noqa: TID251
        assert process.poll() is None
        time.sleep(0.05)  # noqa: TID251
    status, said = end(process, signal.SIGINT)
    assert status == 0
    assert (
        f"the rack goes on running (pid {rack.pid}), with its agents; `kill {rack.pid}` "
        f"or `hwd twin down {tmp_path / 'desk.yaml'}` ends it" in said
    )
    again, same, said = rack_up()
    assert ("rack is up already" in said, same) == (True, rack)
    assert end(again)[0] == 0


def test_a_rack_that_is_killed_is_named_in_one_line_with_the_signal_and_the_daemon_goes_on(
    rack_up: Any, environment: dict[str, str], tmp_path: Path
) -> None:
    with handled(signal.SIGCHLD, signal.SIG_IGN):  # as some supervisors of containers start their programs
        process, rack, _ = rack_up()
    place = daemon_of("desk", environment)
    assert place is not None
    log = Path(environment["HWD_RUN_DIR"]) / "desk" / "rack.log"
    log.unlink()
    os.kill(rack.pid, signal.SIGKILL)
    # The kernel closes the sockets of a process before it tells of its end, so the switch may be down first.
    said = said_until(process, "was killed by")
    assert httpx2.get(f"{place.http}/healthz", trust_env=False).status_code == 200
    status, rest = end(process)
    assert (status, "Traceback" in rest) == (0, False)
    (line,) = [one for one in (said + rest).splitlines() if "ERROR" in one]
    again = f"`hwd twin up {tmp_path / 'desk.yaml'}` starts it again. The end of {log}, a file that was removed: "
    assert f"twin rack (pid {rack.pid}) was killed by SIGKILL; {again}" in line
    assert "twin rack desk: 1 switches, 0 hosts" in line, "its words are had all the same"
    assert "\\n" not in line


@pytest.mark.usefixtures("hangup")
def test_a_person_at_the_terminal_is_told_what_a_browser_opens_and_a_terminal_that_is_gone_ends_it_in_order(
    in_terminal: Any, environment: dict[str, str]
) -> None:
    process, ours, said = in_terminal("setsid", "--ctty")
    (page,) = re.findall(r"browser (http://\S+/\?token=\S+)", said)
    with httpx2.Client(trust_env=False, follow_redirects=True) as browser:
        assert browser.get(page).json()["testbed"] == "desk"
    os.close(ours)  # it takes no words any more
    assert process.wait(20) == 0
    assert daemon_of("desk", environment) is None


async def refused(tmp_path: Path, text: str = DESK, run_dir: str = "run", **options: Any) -> str:
    """The error of a daemon that does not start at all: exit status 2, as for bad input, and nothing was touched."""
    (tmp_path / "desk.yaml").write_text(text)
    asked = ServeOptions(testbed=tmp_path / "desk.yaml", data=tmp_path / "untouched", **options)
    with pytest.raises(ConfigError) as error:
        await run_daemon(asked, {"HWD_RUN_DIR": str(tmp_path / run_dir)})
    assert not (tmp_path / "untouched").exists()
    return str(error.value)


async def test_all_problems_are_said_before_anything_is_touched(tmp_path: Path) -> None:
    said = await refused(tmp_path, DESK.replace("size: 8x8", "size: 9").replace("hosts", "hots"))
    assert "desk.yaml:4: hots: unknown key; did you mean hosts?" in said
    said = await refused(tmp_path, run_dir="long" * 25)
    assert "cannot be a Unix socket" in said
    assert "Name a shorter run directory with HWD_RUN_DIR" in said


async def test_other_machines_are_let_in_by_token_only(tmp_path: Path) -> None:
    (tmp_path / "desk.yaml").write_text(DESK)
    asked = ServeOptions(testbed=tmp_path / "desk.yaml", data=tmp_path / "data", http="0.0.0.0:0", twin=False)
    with pytest.raises(RefusedError, match="no tokens are set"):
        await run_daemon(asked, {"HWD_RUN_DIR": str(tmp_path / "run")})


def test_tokens_open_it_to_other_machines_and_without_any_standard_stream_it_runs_and_ends_in_order(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    (tmp_path / "desk.yaml").write_text(DESK)
    command = [sys.executable, "-P", "-m", "hwd.cli", "serve", str(tmp_path / "desk.yaml"), "--no-twin"]
    command = ["bash", "-c", 'exec "$@" <&- >&- 2>&-', "bash", *command, "--http", "0.0.0.0:0"]
    token = "a-long-enough-token"
    with subprocess.Popen(command, env={**environment, "HWD_TOKENS": token}) as process:
        try:
            while (place := daemon_of("desk", environment)) is None:
                assert process.poll() is None
                time.sleep(0.05)  # noqa: TID251 - of a process of its own
            url = place.http.replace("0.0.0.0", "127.0.0.1")
            assert httpx2.get(f"{url}/healthz", trust_env=False).status_code == 200
            assert httpx2.get(f"{url}/api/v1/status", trust_env=False).status_code == 401
            known = httpx2.get(f"{url}/api/v1/status", headers={"Authorization": f"Bearer {token}"}, trust_env=False)
            assert known.json()["testbed"] == "desk"
            assert (place.token_file, (Path(place.data_dir) / "token").exists()) == ("", False), (
                "none is drawn where some are set"
            )
            process.terminate()
            assert process.wait(20) == 0
        finally:
            process.kill()


async def test_what_a_daemon_keeps_is_its_users_alone_and_its_token_and_passwords_let_in_nobody_else(
    listening: Listening, environment: dict[str, str], tmp_path: Path
) -> None:
    """Whatever the umask, and whoever made the data folder; token and passwords are drawn once for it."""
    data = tmp_path / "elsewhere"
    before = os.umask(0)
    try:
        first, place, said = listening("--data", str(data))
    finally:
        os.umask(before)
    made = {path.name: path.stat().st_mode & 0o777 for path in data.iterdir()}
    assert {"broker-secret", "journal", "lock", "records.db", "records.db-wal", "records.db-shm"} <= made.keys()
    assert set(made.values()) == {0o600}
    assert data.stat().st_mode & 0o777 == 0o700
    drawn = await let_in(place, said, data, environment)
    first.kill()  # so that what SQLite keeps beside the records stays
    first.wait()

    for name in ("journal", "lock", "records.db", "records.db-shm", "records.db-wal"):
        (data / name).chmod(0o644)  # as version 0.1 left them
    data.chmod(0o750)
    (data / "notes.txt").write_text("of the operator")
    (data / "notes.txt").chmod(0o644)
    second, place, said = listening("--data", str(data))
    assert "others of this machine could read journal, lock, records.db, " in said
    kept = {path.name: path.stat().st_mode & 0o777 for path in data.iterdir()}
    assert kept.pop("notes.txt") == 0o644
    assert set(kept.values()) == {0o600}
    assert data.stat().st_mode & 0o777 == 0o700
    assert await let_in(place, said, data, environment) == drawn
    assert end(second)[0] == 0


async def let_in(place: DaemonPlace, said: str, data: Path, environment: dict[str, str]) -> tuple[str, str | None]:
    """See who is let in, and who is not; token and password of the daemon."""
    path, url = Path(place.token_file), BrokerUrl.parse(place.mqtt)
    assert (path, stat.S_IMODE(path.stat().st_mode)) == (data / "token", 0o600)
    token = path.read_text().strip()
    assert token not in said, "a log that is kept is read by others"
    assert f"mqtt://desk@{url.host}:{url.port}" in said
    assert str(url.password) not in said
    for user, password in ((None, None), ("desk", "wrong")):
        with pytest.raises(aiomqtt.MqttError):
            async with aiomqtt.Client(url.host, url.port, username=user, password=password):
                pass
    async with aiomqtt.Client(url.host, url.port, username="desk", password=url.password) as bus:
        await bus.subscribe("hwd/1/desk/#")
    for http in (None, place.http, place.http.replace("127.0.0.1", "localhost")):
        with Client.find(http, environment) as client:
            assert client.status().testbed == "desk", "a client of this user finds it"
    port = place.http.rpartition(":")[2]
    assert Whereabouts.find(f"http://127.0.0.2:{port}", environment).token is None, "it is sent to nobody else"
    stranger = Client.find(place.http, {"HWD_RUN_DIR": str(data.parent / "other")})
    with stranger, pytest.raises(RefusedError, match=r"no valid token.*HWD_TOKEN_FILE"):
        stranger.status()
    with Client.find(place.http, {"HWD_TOKEN_FILE": str(path)}) as client:
        assert client.status().testbed == "desk"
    return token, url.password


async def test_a_token_that_others_may_read_is_refused_with_what_to_do(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "token").write_text("a-token-that-all-may-read\n")
    (data / "token").chmod(0o644)
    (tmp_path / "desk.yaml").write_text(DESK)
    asked = ServeOptions(testbed=tmp_path / "desk.yaml", data=data, http="127.0.0.1:0", twin=False)
    with pytest.raises(ConfigError, match=r"others may read it.*Remove it, and a new one is generated") as error:
        await run_daemon(asked, {"HWD_RUN_DIR": str(tmp_path / "run")})
    assert "a-token-that-all-may-read" not in str(error.value)


def test_an_address_is_read() -> None:
    read = {"127.0.0.1:80": ("127.0.0.1", 80), "[::1]:0": ("::1", 0), ":8642": ("0.0.0.0", 8642)}
    assert {text: host_and_port(text, "--http") for text in read} == read
    for text in ("8642", "h:x", "h:70000", ""):
        with pytest.raises(ConfigError, match="write it as HOST:PORT"):
            host_and_port(text, "--http")


def test_a_service_manager_hears_of_start_reloads_and_stop(serve: Serve, tmp_path: Path) -> None:
    file = tmp_path / "desk.yaml"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)

        def heard(word: str) -> str:
            """The first message that begins with this, after watchdog messages and changes of the status."""
            while not (message := manager.recv(4096).decode()).startswith(word):
                assert message.startswith(("WATCHDOG=1", "STATUS="))
            return message

        process = serve("--no-twin", "--http", "127.0.0.1:0", NOTIFY_SOCKET=str(tmp_path / "notify"))
        ready = heard("READY=1")
        assert ready.startswith("READY=1\nSTATUS=testbed desk: not ready: ")
        assert "switch ocs1 is down: " in ready, "its first attempt has ended"
        place = re.search(r"http +(\S+)", said_until(process, "data "))
        assert place is not None
        assert httpx2.get(f"{place[1]}/healthz", trust_env=False).json() == {"alive": True}

        file.write_text(f"{DESK}ports: {{ocs1.3: {{state: maintenance, why: dirty}}}}\n")
        process.send_signal(signal.SIGHUP)
        heard("RELOADING=1")
        heard("READY=1")
        said_until(process, "reloaded: state of port ocs1.3 added: maintenance: dirty")

        file.write_text(f"{DESK}switchs: {{}}\n")
        process.send_signal(signal.SIGHUP)
        heard("RELOADING=1")
        heard("READY=1")
        assert "switchs" in said_until(process, "unknown key")

        process.send_signal(signal.SIGTERM)
        heard("STOPPING=1")
        process.communicate(timeout=20)
        assert process.returncode == 0


NAMELESS = """
set -u
hwd="$1 -P -m hwd.cli"
$hwd serve "$2" --no-twin --http 127.0.0.1:0 --data "$3" 2>"$3.log" &
daemon=$!
until $hwd status --json >"$3.status" 2>&1; do kill -0 $daemon || exit 9; sleep 0.1; done
$hwd lease take ocs1.1 --for 60
$hwd lease list
kill $daemon; wait $daemon
"""


@pytest.mark.slow
def test_user_without_an_entry_in_passwd_and_without_a_home_has_a_daemon_and_leases(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """As in a container that runs with a user id of its own."""
    (tmp_path / "desk.yaml").write_text(DESK)
    names = ("HOME", "USER", "LOGNAME", "LNAME", "USERNAME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
    bare = {name: value for name, value in environment.items() if name not in names}
    command = ["unshare", "--user", "--map-user=54321", "--map-group=54321"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs user namespaces")
    arguments = [sys.executable, str(tmp_path / "desk.yaml"), str(tmp_path / "data")]
    done = subprocess.run(
        [*command, "sh", "-c", NAMELESS, "sh", *arguments], env=bare, capture_output=True, text=True, timeout=50
    )
    said = done.stdout + done.stderr + (tmp_path / "data.log").read_text()
    assert "Traceback" not in said
    assert f"uid54321@{socket.gethostname()}" in said
    assert done.returncode == 0
    refused = subprocess.run(
        [*command, sys.executable, "-P", "-m", "hwd.cli", "serve", arguments[1], "--no-twin"],
        env=bare, capture_output=True, text=True, timeout=50,
    )  # fmt: skip
    (line,) = refused.stderr.splitlines()
    assert "Set HOME or XDG_STATE_HOME, or name the data directory with --data" in line
    assert refused.returncode == 2
