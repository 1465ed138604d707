"""What `hwd run` says on the way, against a daemon that goes away and comes back."""

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from hwd.cli.follow import follow
from hwd.cli.output import Output
from hwd.client import Client, event_stream
from hwd.model.answers import AcceptedRun
from hwd.model.documents.runs import RunNote, RunStep
from hwd.model.run import RunState, RunStatus
from hwd_drivers.core.documents import Document, Fact

END = RunStatus(
    run="k3v9", playbook="smoke", state=RunState.SUCCEEDED, steps=2, queued_wall_ns=1, safe_state="as-applied"
)
RUNNING = RunStatus(
    run="k3v9", playbook="smoke", state=RunState.RUNNING, steps=2, queued_wall_ns=1, what="dwell", expected_s=6.79
)
STARTED = AcceptedRun(
    run="k3v9", playbook="p", steps=2, state=RunState.RUNNING, due_wall_ns=None, waits_for=[], after="b.0"
)


class Daemon(ThreadingHTTPServer):
    """Its event stream: one of `streams` for each connection, then the connection ends; after the last
    they are empty.
    """

    daemon_threads = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.streams: list[list[Fact]] = []
        self.told = 0
        self.interrupts = 0

    def stream(self) -> bytes:
        text = ""
        for fact in self.streams.pop(0) if self.streams else []:
            self.told += 1
            document = Document(at_ns=1, wall_ns=2, fact=fact)
            text += f"event: document\nid: b.{self.told}\ndata: {json.dumps(document.to_data())}\n\n"
        return text.encode()


class _Handler(BaseHTTPRequestHandler):
    server: Daemon

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(self.server.stream())
        if self.server.interrupts:
            self.server.interrupts -= 1
            os.kill(os.getpid(), signal.SIGINT)

    def do_POST(self) -> None:
        body = json.dumps({"run": "k3v9", "outcome": "aborted", "why": "", "safe_state": "as-applied"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Iterator[Daemon]:
    monkeypatch.setattr(event_stream, "PAUSES_S", (0.001,) * 4)
    made = Daemon()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def followed(daemon: Daemon) -> RunStatus:
    with Client(f"http://127.0.0.1:{daemon.server_address[1]}") as hwd:
        return follow(hwd, Output(json=False), STARTED)


@contextlib.contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch, *, keys: bytes) -> Iterator[list[bytes]]:
    """A terminal for stdin and stderr, at which `keys` were typed. The list has what was written to it, at its end."""
    ours, theirs = os.openpty()
    written: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(OSError):  # the other side is closed
            while data := os.read(ours, 65536):
                written.append(data)

    reader = threading.Thread(target=read)
    reader.start()
    os.write(ours, keys)
    monkeypatch.setenv("TERM", "xterm")
    with open(theirs, "w") as stderr, open(theirs, closefd=False) as stdin, monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", stderr)
        patch.setattr(sys, "stdin", stdin)
        yield written
    reader.join()
    os.close(ours)


def step(number: int, what: str, state: str) -> Fact:
    return RunStep(run="k3v9", step=number, what=what, state=state, done=number - 1, total=2, expected_s=None)


def said_by(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Without what a log handler of an earlier test writes about its closed stream."""
    lines = capsys.readouterr().err.splitlines()
    return [line for line in lines if line.startswith(("step ", "the daemon ", "16 pairs"))]


def test_a_note_is_said_once_with_its_figures(daemon: Daemon, capsys: pytest.CaptureFixture[str]) -> None:
    text = "16 pairs took 12 ms"
    note = RunNote(run="k3v9", text=text)
    daemon.streams = [[step(1, f"note {text}", "started"), note, step(1, f"note {text}", "done"), END]]
    followed(daemon)
    assert said_by(capsys) == [text]


def test_abort_by_ctrl_c_is_told_in_a_line_of_its_own(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon.streams = [[RUNNING], [END]]
    daemon.interrupts = 1
    with terminal(monkeypatch, keys=b"y\n") as written:
        assert followed(daemon) == END
    assert b"\r\x1b[2Kaborting run k3v9\r\n" in b"".join(written)
