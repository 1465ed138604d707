"""Both clients in processes that were forked from the one that made them, as by `multiprocessing`."""

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from hwd.client import AsyncClient, Client
from hwd_drivers.core.errors import BugError

from ..agents.shim.test_fork import in_a_child

EVENT = b'event: missed\nid: b.1\ndata: {"count": 2}\n\n'


class _Handler(BaseHTTPRequestHandler):
    """Connections stay open; the answer is the queue: nothing."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        assert isinstance(self.server, Peers)
        self.server.found.append(self.client_address[1])
        body = b"[]" if "queue" in self.path else EVENT * 3
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Peers(ThreadingHTTPServer):
    """A daemon that knows from which ports it was asked."""

    daemon_threads = True
    found: list[int]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def peers() -> Iterator[Peers]:
    made = Peers(("127.0.0.1", 0), _Handler)
    made.found = []
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


@pytest.mark.parametrize("within_s", [5.0, float("inf")])
def test_forked_process_has_a_connection_of_its_own_and_its_parent_keeps_its(peers: Peers, within_s: float) -> None:
    with Client(peers.url, token="t", within_s=within_s) as client:
        assert client.queue() == []
        assert in_a_child(lambda: [client.queue(), client.queue()]) == [[], []]
        assert client.queue() == []
    parent, child, *_ = peers.found
    assert parent != child
    assert peers.found == [parent, child, child, parent]


async def test_coroutines_of_a_forked_process_have_a_connection_of_their_own(peers: Peers) -> None:
    async def ask(client: AsyncClient) -> list[Any]:
        return [*await client.queue(), *await client.queue()]

    async with AsyncClient(peers.url, token="t") as client:
        assert await client.queue() == []
        assert in_a_child(lambda: asyncio.run(ask(client))) == []
        assert await client.queue() == []
    parent, child, *_ = peers.found
    assert parent != child
    assert peers.found == [parent, child, child, parent]


def test_child_may_close_a_client_that_its_parent_goes_on_with(peers: Peers) -> None:
    with Client(peers.url, token="t") as client:
        client.queue()
        assert in_a_child(client.close) is None
        assert client.queue() == []
    assert len({*peers.found}) == 1


def test_events_go_on_in_the_process_that_asked_for_them_alone(peers: Peers) -> None:
    with Client(peers.url, token="t") as client, client.events() as events:
        assert next(events).missed == 2
        refused = in_a_child(lambda: next(events))
        assert isinstance(refused, BugError)
        assert "ask for them anew in this one" in str(refused)
        assert next(events).missed == 2
