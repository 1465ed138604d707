"""Listeners over HTTP: a run whose stream does not have all of it, and kinds of which nothing comes for long."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from hwd.cli.follow import follow
from hwd.cli.output import Output
from hwd.client import Client
from hwd.web.hub import REPLAY
from hwd_drivers.core.documents import Document
from hwd_drivers.devices.facts import SwitchPower

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
    await desk.daemon.service.runs.wait(started.id)
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
