"""A server that answers by a script: it cuts, restarts and refuses as it is told."""

import os
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from hwd.client import event_stream
from hwd.model.status import Problem
from hwd_drivers.core.structs import to_json


class Scripted(ThreadingHTTPServer):
    """Answers each request with the next of `answers`; with the last one again and again. A status of 200 unless an
    answer begins with `problem`. `posted`: what a POST is answered instead; `interrupts`: so many Ctrl-C after answers.
    """

    daemon_threads = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[str] = [""]
        self.kind = "text/event-stream"
        self.posted = ""
        self.interrupts = 0
        self.asked: list[str] = []
        self.asked_after: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Scripted

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.server.posted:
            self._say("application/json", self.server.posted)
        else:
            self.do_GET()

    def do_DELETE(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        script = self.server
        script.asked.append(f"{self.command} {self.path}")
        script.asked_after.append(self.headers.get("Last-Event-ID"))
        answer = script.answers.pop(0) if len(script.answers) > 1 else script.answers[0]
        if answer.startswith("problem"):
            self.send_response(422)
            self.send_header("Content-Type", "application/problem+json")
            self.end_headers()
            problem = Problem(type="t", title="bad input", status=422, detail="no such id", exit_status=2)
            self.wfile.write(to_json(problem))
            return
        self._say(script.kind, answer)
        if script.interrupts:
            script.interrupts -= 1
            os.kill(os.getpid(), signal.SIGINT)

    def _say(self, kind: str, answer: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    monkeypatch.setattr(event_stream, "PAUSES_S", (0.001,) * 3)
    made = Scripted()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()
