"""What a job has of its host's agent and of its other ranks, in processes forked from it, such as a data loader's."""

import json
import multiprocessing
import queue
import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hwd_agents.shim.exchange import Exchange
from hwd_agents.switches.select_client import Selector
from hwd_agents.transfers.client import Transfers
from hwd_agents.wire import RankPlace
from hwd_drivers.core.errors import HwdError, RefusedError

from .conftest import Host
from .test_exchange import free_port
from .test_torch_worker import Calls, on_thread

FORK = multiprocessing.get_context("fork")
WITHIN_S = 10.0
GO = {"outcome": "go", "transfer": "t1", "within_s": 5.0}
UP = {"outcome": "up", "requested_ns": 1, "answered_ns": 2}


def in_a_child(work: Callable[[], Any], until: Callable[[], object] = lambda: None) -> Any:
    """What it returns, or raises, in a forked process, which lives until `until` has returned."""
    ours, theirs = FORK.Pipe()

    def run() -> None:
        try:
            theirs.send(work())
        except HwdError as error:
            theirs.send(error)
        theirs.poll(None)

    child = FORK.Process(target=run, daemon=True)
    child.start()
    try:
        assert ours.poll(WITHIN_S), "the child hangs"
        found = ours.recv()
        until()
        return found
    finally:
        child.kill()
        child.join()


class Agent(socketserver.ThreadingUnixStreamServer):
    """The socket of an agent that lets everything go. `asked`: which connection asked; `gone`: which has ended."""

    daemon_threads = True

    def __init__(self, path: str) -> None:
        self.asked: list[int] = []
        self.gone = queue.SimpleQueue[int]()
        self.connections = 0
        super().__init__(path, _Connection)


class _Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        agent = self.server
        assert isinstance(agent, Agent)
        agent.connections += 1
        own = agent.connections
        for line in self.rfile:
            agent.asked.append(own)
            asked = json.loads(line)
            self.wfile.write(json.dumps({**(UP if "set" in asked else GO), "id": asked["id"]}).encode() + b"\n")
        agent.gone.put(own)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    with Agent(str(tmp_path / "s")) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.mark.parametrize("kind", [Transfers, Selector])
def test_forked_process_has_a_connection_of_its_own_to_the_agent(
    agent: Agent, kind: type[Transfers | Selector]
) -> None:
    with kind(str(agent.server_address)) as client:

        def ask() -> Any:
            if isinstance(client, Transfers):
                return client.claim(["eth0"], within_s=5.0)
            return client.select({"sel0": "in-2"}).outcome

        first = ask()
        assert in_a_child(lambda: [ask(), ask()]) == [first, first]
        ask()
        assert agent.asked == [1, 2, 2, 1]


def test_transfers_go_on_when_a_child_closes_what_it_has_of_them_and_end_with_their_process_though_a_child_lives_on(
    agent: Agent,
) -> None:
    transfers = Transfers(str(agent.server_address))

    def disconnect() -> None:
        transfers.close()
        assert agent.gone.get(timeout=WITHIN_S) == 1

    transfers.claim(["eth0"], within_s=5.0)
    assert in_a_child(transfers.close) is None
    transfers.claim(["eth0"], within_s=5.0)
    assert agent.asked == [1, 1]
    assert agent.gone.empty()
    assert in_a_child(lambda: "lives", until=disconnect) == "lives"


def test_forked_process_cannot_take_part_in_a_collective_nor_end_that_of_its_parent() -> None:
    place = RankPlace(host="h0", gpu=0, optical={}, electrical={"ele0": "127.0.0.1"})

    def child() -> None:
        exchange.close()
        exchange.all_to_all({}, {}, element_bytes=1)

    with Exchange(0, [place], port=free_port(1)) as exchange:
        refused = in_a_child(child)
        assert isinstance(refused, RefusedError)
        assert exchange._channel.thread.is_alive()
        assert exchange.all_to_all({}, {}, element_bytes=1) == {}


async def test_operation_that_is_called_in_a_forked_process_is_refused_and_does_not_wait_for_ever(host: Host) -> None:
    refused: list[object] = []

    def work(calls: Calls) -> None:
        refused.append(in_a_child(lambda: calls.call("in a child")))
        assert calls.worker.wait(calls.call("here"), WITHIN_S)

    calls = await on_thread(host, work)
    assert isinstance(refused[0], RefusedError)
    assert calls.sent == ["here"]
