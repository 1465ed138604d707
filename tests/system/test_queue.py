"""Runs in the queue of a real daemon, on a real broker, over its death."""

import asyncio
import json
import signal
from typing import Any

import aiomqtt
import pytest

from .conftest import CROSSED, STRAIGHT, WITHIN_S, Lab, Mosquitto

DWELLS = f"""
playbook: dwells
steps:
  - apply: {{pairs: "ocs1:{",".join(sorted(STRAIGHT))}"}}
  - wait: {{for: ready, within_s: 20}}
  - wait: {{for_s: 300}}
"""


async def states(broker: Mosquitto, *runs: str, state: str) -> list[dict[str, Any]]:
    """The retained states of these runs, when the last of them is in `state`."""
    found: dict[str, dict[str, Any]] = {}
    async with asyncio.timeout(WITHIN_S), aiomqtt.Client("127.0.0.1", broker.port) as stranger:
        await stranger.subscribe("hwd/1/lab/runs/+", qos=1)
        async for message in stranger.messages:
            assert isinstance(message.payload, bytes)
            found[message.topic.value.rpartition("/")[2]] = json.loads(message.payload)
            if set(runs) <= found.keys() and found[runs[-1]]["state"] == state:
                break
    return [found[run] for run in runs]


@pytest.mark.slow
async def test_queue_goes_on_after_a_daemon_that_was_killed(lab: Lab, mosquitto: Mosquitto) -> None:
    daemon = await lab.up(mqtt=mosquitto.url)
    place = lab.said("daemon")
    assert place is not None
    (lab.folder / "dwells.yaml").write_text(DWELLS)
    first = (await lab.hwd("run", str(lab.folder / "dwells.yaml"), "--detach", "--json")).json
    assert first["state"] == "running"
    following = lab.run()
    await lab.until("a run waits", lambda now: now["queue"])
    (second,) = (await lab.hwd("queue", "--json")).json
    assert second["waits_for"] == [f"run {first['run']}"]
    retained = await states(mosquitto, first["run"], second["run"], state="queued")
    assert [one["state"] for one in retained] == ["running", "queued"]

    assert await daemon.end(signal.SIGKILL) == -signal.SIGKILL
    await lab.serve(mqtt=mosquitto.url, http=place["http"].removeprefix("http://"))
    said = await following
    assert said.status == 0, said
    assert said.json["run"] == second["run"]
    retained = await states(mosquitto, first["run"], second["run"], state="succeeded")
    assert [one["state"] for one in retained] == ["crashed", "succeeded"]
    assert await lab.light() == CROSSED
    rows = (await lab.hwd("runs", "--json")).json
    assert [(row["id"], row["state"]) for row in rows] == [(second["run"], "succeeded"), (first["run"], "crashed")]
    late = await lab.hwd("run", str(lab.playbook), "--in", "0.5", "--json")
    assert late.status == 0, late
    state = await lab.get(f"/api/v1/runs/{late.json['run']}/state")
    assert 0 <= state["started_wall_ns"] - state["due_wall_ns"] < WITHIN_S * 1e9
    await lab.nothing_lost()
