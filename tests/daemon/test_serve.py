"""`hwd serve` as a process: what it says of itself, and how it starts, refuses and ends."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hwd.config.places import daemon_of, data_dir, rack_of, records_path
from hwd.daemon.serve import ServeOptions, host_and_port
from hwd.daemon.serve import serve as run_daemon
from hwd_drivers.kit.clock import SystemClock
from hwd_drivers.kit.errors import ConfigError, RefusedError

TESTBED = """\
testbed: desk
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: ideal, seed: 1}}
hosts: {}
fibres: []
"""

ROOT = Path(__file__).parents[2]
Process = subprocess.Popen[str]
Serve = Callable[..., Process]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    keep = {name: value for name, value in os.environ.items() if not name.startswith("HWD_")}
    return {**keep, "HWD_RUN_DIR": str(tmp_path / "run"), "XDG_STATE_HOME": str(tmp_path / "state")}


@pytest.fixture
def serve(tmp_path: Path, environment: dict[str, str]) -> Iterator[Serve]:
    """Starts daemons of one testbed file."""
    (tmp_path / "desk.yaml").write_text(TESTBED)
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


def test_a_daemon_can_be_found_from_its_start_to_its_end(serve: Serve, environment: dict[str, str]) -> None:
    process = serve("--no-twin", "--http", "127.0.0.1:0")
    said = said_until(process, "data ")
    place = daemon_of("desk", environment)
    assert place is not None
    assert place.http in said
    assert place.data_dir == str(data_dir("desk", environment))
    assert httpx.get(f"{place.http}/readyz", trust_env=False).json()["ready"] is False
    assert end(process, signal.SIGINT)[0] == 0
    assert daemon_of("desk", environment) is None
    with contextlib.closing(sqlite3.connect(records_path(Path(place.data_dir)))) as records:
        clock = records.execute("SELECT value FROM hwd_about WHERE key = 'clock'").fetchall()
    assert clock == [(SystemClock().name,)], "what was measured against it holds until the machine starts anew"


def test_a_run_is_recorded_with_the_commit_of_the_program_and_an_open_event_stream_does_not_hold_up_the_end(
    serve: Serve, environment: dict[str, str]
) -> None:
    process = serve("--no-twin", "--http", "127.0.0.1:0")
    said_until(process, "data ")
    place = daemon_of("desk", environment)
    assert place is not None
    with httpx.Client(base_url=f"{place.http}/api/v1", trust_env=False) as client:
        body = {"text": "playbook: said\nsteps:\n  - note: hello\n", "file": "said.yaml"}
        started = client.post("/runs", json=body).json()
        while (run := client.get(f"/runs/{started['run']}").json()).get("outcome") is None:
            pass
    if (ROOT / ".git").exists():
        assert run["commit"] == run["inventory"]["commit"]
    else:
        assert run["commit"] is None
        assert run["inventory"]["commit"].startswith("unknown: ")
    with httpx.stream("GET", f"{place.http}/api/v1/events", trust_env=False, timeout=20) as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith(": events")
        assert end(process)[0] == 0
        told = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    assert told[-1]["kind"] == "daemon.stopped"


def test_the_rack_is_started_and_outlives_the_daemon(serve: Serve, environment: dict[str, str]) -> None:
    process = serve("--http", "127.0.0.1:0")
    said = said_until(process, "ocs1: up")
    rack = rack_of("desk", environment)
    assert rack is not None
    assert f"ocs1: its twin rack is starting (pid {rack.pid})" in said
    assert "WARNING" not in said
    try:
        assert end(process)[0] == 0
        assert rack_of("desk", environment) == rack
        again = serve("--http", "127.0.0.1:0")
        assert "rack is up already" in said_until(again, "ocs1: up")
        assert end(again)[0] == 0
    finally:
        os.kill(rack.pid, signal.SIGTERM)


def test_where_nobody_starts_a_rack_it_is_told_how_to(serve: Serve) -> None:
    said = said_until(serve("--no-twin", "--http", "127.0.0.1:0"), "ocs1: down")
    assert "WARNING" in said
    assert "ocs1: down: its twin rack is not up. Start it with `hwd twin up`" in said
    assert "is starting" not in said


def test_a_second_daemon_on_the_same_data_is_refused_with_the_pid_and_one_on_the_same_port_is_bad_input(
    serve: Serve, environment: dict[str, str], tmp_path: Path
) -> None:
    data = str(tmp_path / "data")
    first = serve("--no-twin", "--http", "127.0.0.1:0", "--data", data)
    said_until(first, "data ")
    place = daemon_of("desk", environment)
    assert place is not None
    other = {"HWD_RUN_DIR": str(tmp_path / "other"), "XDG_STATE_HOME": str(tmp_path / "other")}
    same_data = serve("--no-twin", "--http", "127.0.0.1:0", "--data", data, **other)
    _, said = same_data.communicate(timeout=20)
    assert same_data.returncode == 3
    assert f"in use by the daemon with pid {first.pid}" in said
    same_port = serve("--no-twin", "--http", place.http.removeprefix("http://"), **other)
    _, said = same_port.communicate(timeout=20)
    assert same_port.returncode == 2
    assert "cannot listen: Address already in use" in said


async def refused(tmp_path: Path, text: str = TESTBED, run_dir: str = "run", **options: Any) -> str:
    """What is said where a daemon does not start at all; it has exit status 2 then, as bad input, and has touched nothing."""
    (tmp_path / "desk.yaml").write_text(text)
    asked = ServeOptions(testbed=tmp_path / "desk.yaml", data=tmp_path / "untouched", **options)
    with pytest.raises(ConfigError) as error:
        await run_daemon(asked, {"HWD_RUN_DIR": str(tmp_path / run_dir)})
    assert not (tmp_path / "untouched").exists()
    return str(error.value)


async def test_all_problems_of_the_testbed_are_said_before_anything_is_touched(tmp_path: Path) -> None:
    said = await refused(tmp_path, TESTBED.replace("size: 8x8", "size: 9").replace("hosts", "hots"))
    assert "desk.yaml:4: hots: unknown key; did you mean hosts?" in said


async def test_a_run_directory_too_long_for_the_sockets_of_its_rack_is_said_before_anything_is_touched(
    tmp_path: Path,
) -> None:
    said = await refused(tmp_path, run_dir="long" * 25)
    assert "cannot be a Unix socket" in said
    assert "Name a shorter run directory with HWD_RUN_DIR" in said


async def test_other_machines_are_let_in_by_token_only(tmp_path: Path) -> None:
    (tmp_path / "desk.yaml").write_text(TESTBED)
    asked = ServeOptions(testbed=tmp_path / "desk.yaml", data=tmp_path / "data", http="0.0.0.0:0", twin=False)
    with pytest.raises(RefusedError, match="no tokens are set"):
        await run_daemon(asked, {"HWD_RUN_DIR": str(tmp_path / "run")})


def test_tokens_open_it_to_other_machines(serve: Serve, environment: dict[str, str]) -> None:
    token = "a-long-enough-token"
    process = serve("--no-twin", "--http", "0.0.0.0:0", HWD_TOKENS=token)
    said_until(process, "data ")
    place = daemon_of("desk", environment)
    assert place is not None
    url = place.http.replace("0.0.0.0", "127.0.0.1")
    assert httpx.get(f"{url}/api/v1/status", trust_env=False).status_code == 401
    known = httpx.get(f"{url}/api/v1/status", headers={"Authorization": f"Bearer {token}"}, trust_env=False)
    assert known.json()["testbed"] == "desk"


@pytest.mark.parametrize(
    ("text", "read"), [("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:0", ("::1", 0)), (":8642", ("0.0.0.0", 8642))]
)
def test_an_address_is_read(text: str, read: tuple[str, int]) -> None:
    assert host_and_port(text, "--http") == read


@pytest.mark.parametrize("text", ["8642", "h:x", "h:70000", ""])
def test_what_is_no_address_is_bad_input(text: str) -> None:
    with pytest.raises(ConfigError, match="write it as HOST:PORT"):
        host_and_port(text, "--http")
