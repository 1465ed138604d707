"""`hwd run` as it follows a run over HTTP, where the stream does not tell all of it."""

import asyncio
from typing import Any

from hwd.cli.follow import follow
from hwd.cli.output import Output
from hwd.client import Client
from hwd.web.hub import REPLAY
from hwd_drivers.core.documents import Document
from hwd_drivers.devices.facts import SwitchPower

PLAYBOOK = """\
playbook: one
steps:
  - note: one
  - note: two
"""
WITHIN_S = 20.0


async def test_end_that_is_among_missed_events_is_asked_for(desk: Any, client: Client) -> None:
    started = await desk.call(client.start_run, text=PLAYBOOK, file="/one.yaml")
    await desk.daemon.service.wait_run(started.id)
    for number in range(REPLAY):
        desk.daemon.hub(Document(at_ns=number, wall_ns=number, fact=SwitchPower(switch="ocs1", power_dbm={})))
    async with asyncio.timeout(WITHIN_S):
        end = await desk.call(follow, client, Output(json=False), started)
    assert (end.run, end.state, end.safe_state) == (started.id, "succeeded", "untouched")


async def test_run_that_is_followed_to_its_end_has_it_in_its_record(desk: Any, client: Client) -> None:
    for _ in range(5):
        started = await desk.call(client.start_run, text=PLAYBOOK, file="/one.yaml")
        async with asyncio.timeout(WITHIN_S):
            end = await desk.call(follow, client, Output(json=False), started)
        assert (await desk.call(client.run, started.id)).outcome == end.state == "succeeded"
