"""A daemon with few descriptors under more connections of strangers than that keeps its switch and its service."""

import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from hwd.config.run_files.places import daemon_of, rack_of
from hwd_drivers.core.clock import SystemClock

from .conftest import DESK

DESCRIPTORS = 96
STRANGERS = 150
HELD_S = 3.0
UP_WITHIN_S = 30.0

_clock = SystemClock()


@pytest.fixture
def daemon(tmp_path: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Its log is `log` in `tmp_path`; its rack ends with it."""
    (tmp_path / "desk.yaml").write_text(DESK)
    serve = shlex.join([sys.executable, "-m", "hwd.cli", "serve", str(tmp_path / "desk.yaml"), "--http", "127.0.0.1:0"])
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(["sh", "-c", f"ulimit -n {DESCRIPTORS}; exec {serve}"], stderr=log, env=environment)
    yield process
    process.terminate()
    process.wait(timeout=20)
    if (rack := rack_of("desk", environment)) is not None:
        os.kill(rack.pid, signal.SIGTERM)


def until_ready(environment: dict[str, str]) -> str:
    """The URL of the daemon once it has its switch and its broker."""
    due_ns = _clock.monotonic_ns() + round(UP_WITHIN_S * 1e9)
    while _clock.monotonic_ns() < due_ns:
        if (place := daemon_of("desk", environment)) is not None and is_ready(place.http):
            return place.http
        threading.Event().wait(0.05)
    raise AssertionError("the daemon is not ready")


def is_ready(url: str) -> bool:
    return httpx2.get(f"{url}/readyz", trust_env=False, timeout=10).is_success


def processor_s(pid: int) -> float:
    """What a process has used: user and system time (proc(5), fields 14 and 15)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_more_connections_than_descriptors_cost_little_and_shut_nobody_out(
    daemon: subprocess.Popen[bytes], environment: dict[str, str], tmp_path: Path
) -> None:
    url = until_ready(environment)
    port = int(url.rpartition(":")[2])
    log = tmp_path / "log"
    for said in (b"", b"GET /readyz HTTP/1.1\r\nHost: 127"):
        before_s, before_bytes = processor_s(daemon.pid), log.stat().st_size
        with contextlib.ExitStack() as stack:
            for _ in range(STRANGERS):
                stranger = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                with contextlib.suppress(ConnectionError):  # it had to make room already
                    stranger.sendall(said)
            threading.Event().wait(HELD_S)
            used_s, logged = processor_s(daemon.pid) - before_s, log.stat().st_size - before_bytes
            ready = httpx2.get(f"{url}/readyz", trust_env=False, timeout=10)
            assert ready.json() == {"ready": True, "why": []}, (
                "an operator comes in, and the switch and the broker are there"
            )
            assert len(os.listdir(f"/proc/{daemon.pid}/fd")) < DESCRIPTORS
        assert used_s < 0.5 * HELD_S
        assert logged < 4096, log.read_text()[-4096:]
        assert is_ready(url)
    counted = httpx2.get(f"{url}/metrics", trust_env=False).text
    assert 'hwd_limit_reached_total{limit="http-connections"} 0.0' not in counted
    assert 'hwd_limit_reached_total{limit="descriptors"} 0.0' in counted, "it keeps some for itself"
