"""The event stream against a server that cuts, restarts and refuses."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from hwd.client import Client, events
from hwd.client.events import parse
from hwd_drivers.kit.errors import ConfigError, LinkError, ProtocolError

EVENT = '{"kind": "switch.up", "at_ns": 1, "wall_ns": 2, "data": {"switch": "ocs1"}}'


class Script:
    """What the server answers to each request, in turn; the last one again and again."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked_after: list[str | None] = []


class Handler(BaseHTTPRequestHandler):
    script: ClassVar[Script]

    def do_GET(self) -> None:
        self.script.asked_after.append(self.headers.get("Last-Event-ID"))
        answer = self.script.answers.pop(0) if len(self.script.answers) > 1 else self.script.answers[0]
        if answer.startswith("problem"):
            self.send_response(422)
            self.send_header("Content-Type", "application/problem+json")
            self.end_headers()
            self.wfile.write(b'{"title": "bad input", "detail": "no such id", "exit_status": 2}')
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(answer.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    monkeypatch.setattr(events, "PAUSES_S", (0.001,) * 3)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def url(server: ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


def event(id: str) -> str:
    return f"event: document\nid: {id}\ndata: {EVENT}\n\n"


def test_a_cut_stream_is_taken_up_where_it_broke(server: ThreadingHTTPServer) -> None:
    Handler.script = Script(event("b.1") + event("b.2") + "event: document\nid: b.3\nda", event("b.3"))
    with Client(url(server)) as client, client.events() as stream:
        ids = [next(stream).id for _ in range(3)]
    assert ids == ["b.1", "b.2", "b.3"]
    assert Handler.script.asked_after[:2] == [None, "b.2"]


def test_missed_events_are_told() -> None:
    [missed] = parse(["event: missed", "id: b.7", 'data: {"count": 5}', ""])
    assert (missed.id, missed.missed, missed.document) == ("b.7", 5, None)


def test_heartbeats_are_passed_over() -> None:
    [found] = parse([": still here", "", *event("b.1").splitlines(), ""])
    assert found.document is not None
    assert found.document.data == {"switch": "ocs1"}


def test_garbage_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="cannot read"):
        list(parse(["event: document", "id: b.1", "data: {", ""]))


def test_a_daemon_that_does_not_come_back_is_given_up(server: ThreadingHTTPServer) -> None:
    Handler.script = Script("")
    with (
        Client(url(server)) as client,
        client.events(after="b.1") as stream,
        pytest.raises(LinkError, match="did not come back"),
    ):
        next(stream)
    assert Handler.script.asked_after == ["b.1"] * 4


def test_a_refusal_is_raised_and_not_tried_again(server: ThreadingHTTPServer) -> None:
    Handler.script = Script("problem")
    with (
        Client(url(server)) as client,
        client.events(after="x") as stream,
        pytest.raises(ConfigError, match="no such id"),
    ):
        next(stream)
    assert len(Handler.script.asked_after) == 1
