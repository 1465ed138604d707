"""Listeners over HTTP: a run whose stream does not have all of it, and kinds of which nothing comes for long."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hwd.cli.follow import follow
from hwd.cli.output import Output
from hwd.client import AsyncClient, Client
from hwd.model.documents.daemon import DaemonLag
from hwd.web.app import EventResponse
from hwd.web.hub import REPLAY, Hub
from hwd.web.server import HttpServer, listen
from hwd.web.stream import EventStream
from hwd_drivers.core.documents import Document
from hwd_drivers.devices.facts import SwitchPower
from hwd_drivers.twins.virtual_time import run_virtual

from .conftest import TOKEN, Desk

PLAYBOOK = """\
playbook: one
steps:
  - note: one
  - note: two
"""
WITHIN_S = 20.0


@pytest.fixture
def client(desk: Desk) -> Iterator[Any]:
    """One that waits, as the command line has it."""
    with Client(desk.url, token=TOKEN) as client:
        yield client


async def test_end_that_is_among_missed_events_is_asked_for(desk: Desk, client: Any) -> None:
    started = await desk.call(client.start_run, text=PLAYBOOK, file="/one.yaml")
    await desk.daemon.service.wait_run(started.id)
    for number in range(REPLAY):
        desk.daemon.hub(Document(at_ns=number, wall_ns=number, fact=SwitchPower(switch="ocs1", power_dbm={})))
    async with asyncio.timeout(WITHIN_S):
        end = await desk.call(follow, client, Output(json=False), started)
    assert (end.run, end.state, end.safe_state) == (started.id, "succeeded", "untouched")


async def test_run_that_is_followed_to_its_end_has_it_in_its_record(desk: Desk, client: Any) -> None:
    for _ in range(5):
        started = await desk.call(client.start_run, text=PLAYBOOK, file="/one.yaml")
        async with asyncio.timeout(WITHIN_S):
            end = await desk.call(follow, client, Output(json=False), started)
        assert (await desk.call(client.run, started.id)).outcome == end.state == "succeeded"


def test_listener_to_rare_kinds_stays_connected_while_others_come_all_the_time() -> None:
    async def main() -> tuple[list[str], float]:
        hub, connections = Hub(), list[str]()
        stream = EventStream(hub, boot="b")

        async def follow(request: Request) -> Response:
            connections.append(request.headers.get("Last-Event-ID", "from now on"))
            return EventResponse(stream.follow(None, tuple(request.query_params.getlist("kind"))))

        server = HttpServer(
            Starlette(routes=[Route("/api/v1/events", follow)]), listen("127.0.0.1", 0), before_stop=stream.stop
        )

        async def others() -> None:
            for number in range(60):
                await asyncio.sleep(5.0)
                hub(Document(at_ns=number, wall_ns=number, fact=SwitchPower(switch="ocs1", power_dbm={})))
            hub(Document(at_ns=60, wall_ns=60, fact=DaemonLag(seconds=1.0)))

        async with AsyncClient(await server.start(), token="t") as client, client.events(kinds=["daemon."]) as events:
            busy = asyncio.create_task(others())
            await anext(events)
            await busy
        await server.stop()
        return connections, asyncio.get_running_loop().time()

    connections, at_s = run_virtual(main())
    assert connections == ["from now on"]
    assert at_s > 300.0
