"""Broker or agents are killed in a run: it continues, the light is as documented, no event is lost or uncounted."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from .conftest import CROSSED, STRAIGHT, Lab, Mosquitto, Said

pytestmark = pytest.mark.timeout(180)


@pytest.mark.slow
async def test_broker_killed_while_links_come_up_loses_nothing(lab: Lab, mosquitto: Mosquitto) -> None:
    await lab.up(mqtt=mosquitto.url, nic="opus-cx6dx")
    run = lab.go("apply", f"ocs1:{','.join(sorted(STRAIGHT))}", "--json")
    await lab.waited_for()
    await _broker_dies_and_is_back(lab, mosquitto, run, STRAIGHT)


@pytest.mark.slow
async def test_broker_killed_in_a_run_loses_nothing_and_the_spool_of_an_agent_killed_meanwhile_outlives_it(
    lab: Lab, mosquitto: Mosquitto
) -> None:
    """While the broker is away again, the light moves with an agent, after its death, and with a new agent."""
    await lab.up(mqtt=mosquitto.url)
    run = lab.run(times=5)
    await lab.on_its_way(done=3)
    await _broker_dies_and_is_back(lab, mosquitto, run, CROSSED)
    await mosquitto.kill()
    await lab.until("the broker is told to be away", lambda now: not now["bus"]["connected"])
    await lab.move(STRAIGHT)
    killed = lab.rack["hosts"]["h0"]["agent"]
    os.kill(killed, signal.SIGKILL)
    await lab.move(CROSSED)

    async def replaced() -> int | None:
        now: int | None = lab.rack["hosts"]["h0"]["agent"]
        return now if now != killed else None

    await lab.found("the rack started another agent", replaced)
    await lab.move(STRAIGHT)
    await mosquitto.start()
    await lab.settled()
    await lab.nothing_lost()
    seen = [
        event for event in await lab.documents("host.event") if event["host"] == "h0" and event["type"] == "carrier"
    ]
    unseen = sum(event["data"]["unseen"] for event in seen)
    counted = sum(lost["count"] for lost in await lab.documents("host.lost") if lost["host"] == "h0")
    assert counted == unseen
    assert unseen >= 2  # both ports fell and rose while there was no agent


async def _broker_dies_and_is_back(
    lab: Lab, mosquitto: Mosquitto, run: "asyncio.Task[Said]", light: frozenset[str]
) -> None:
    await mosquitto.kill()
    now = await lab.until("the broker is told to be away", lambda now: not now["bus"]["connected"])
    assert {(host["up"], host["cause"]) for host in now["hosts"]} == {(False, "the broker is not connected")}
    assert {port["carrier"] for host in now["hosts"] for port in host["ports"].values()} == {None}
    assert {link["carrier"] for link in now["links"]} <= {None}
    await mosquitto.start()
    said = await run
    assert said.status == 0, said
    assert await lab.light() == light
    now = await lab.until(
        "the present carriers are known",
        lambda now: all(port["carrier"] is not None for host in now["hosts"] for port in host["ports"].values()),
    )
    assert now["links"]
    assert {link["carrier"] for link in now["links"]} == {True}
    await lab.nothing_lost()


@pytest.mark.slow
@pytest.mark.parametrize("hosts", ["kernel", "process"])
async def test_opus_testbed_runs_while_agents_die(lab: Lab, hosts: str) -> None:
    text = (Path(__file__).parents[2] / "examples" / "opus-testbed.yaml").read_text()
    options = ["--process-hosts"] if hosts == "process" else []
    await lab.up(*options, text=text.replace("testbed: opus-testbed", "testbed: lab"))
    run = lab.go("run", "reconfiguration-timeline", "-D", "repeats=2", "--json")
    for host, done in (("h0", 2), ("h3", 5)):
        await lab.on_its_way(done=done)
        os.kill(lab.rack["hosts"][host]["agent"], signal.SIGKILL)
    said = await run
    assert said.status == 0, said
    await lab.nothing_lost()
    assert len(lab.carrier_changes()) == 16
