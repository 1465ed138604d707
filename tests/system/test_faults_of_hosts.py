"""Broker or agents are killed in a run: it goes on, the light is where the program says, and no event is lost or uncounted."""

import os
import signal
from pathlib import Path

import pytest

from .conftest import CROSSED, STRAIGHT, Lab, Mosquitto

pytestmark = pytest.mark.timeout(180)


@pytest.mark.parametrize("state", ["waiting", "driving"])
async def test_broker_killed_in_a_run_loses_nothing(lab: Lab, mosquitto: Mosquitto, state: str) -> None:
    await lab.up(mqtt=mosquitto.url, nic="opus-cx6dx" if state == "waiting" else "ideal")
    if state == "waiting":
        run = lab.go("apply", f"ocs1:{','.join(sorted(STRAIGHT))}", "--json")
        await lab.waited_for()
    else:
        run = lab.run(times=5)
        await lab.on_its_way(done=3)
    await mosquitto.kill()
    now = await lab.until("the broker is told to be away", lambda now: not now["bus"]["connected"])
    assert {(host["up"], host["cause"]) for host in now["hosts"]} == {(False, "the broker is not connected")}
    assert {port["carrier"] for host in now["hosts"] for port in host["ports"].values()} == {None}
    assert {link["carrier"] for link in now["links"]} <= {None}
    await mosquitto.start()
    said = await run
    assert said.status == 0, said
    assert await lab.light() == (STRAIGHT if state == "waiting" else CROSSED)
    now = await lab.until(
        "the present carriers are known",
        lambda now: all(port["carrier"] is not None for host in now["hosts"] for port in host["ports"].values()),
    )
    assert now["links"]
    assert {link["carrier"] for link in now["links"]} == {True}
    await lab.nothing_lost()


async def test_agent_killed_in_a_run_is_replaced_and_its_unseen_span_counted(lab: Lab) -> None:
    await lab.up()
    run = lab.run(times=4)
    await lab.on_its_way(done=3)
    killed = lab.rack["hosts"]["h0"]["agent"]
    os.kill(killed, signal.SIGKILL)
    said = await run
    assert said.status == 0, said
    assert await lab.light() == CROSSED
    await lab.nothing_lost(unseen=True)
    assert lab.rack["hosts"]["h0"]["agent"] not in (None, killed)
    boots = {event["boot"] for event in await lab.documents("host.event") if event["host"] == "h0"}
    assert len(boots) == 2


async def test_spool_of_a_killed_agent_outlives_it(lab: Lab, mosquitto: Mosquitto) -> None:
    """While the broker is away: the light moves, the agent dies, the light moves again, and again when there is a new agent."""
    await lab.up(mqtt=mosquitto.url)
    assert (await lab.run()).status == 0
    await lab.nothing_lost()
    await mosquitto.kill()
    await lab.until("the broker is told to be away", lambda now: not now["bus"]["connected"])

    async def move(crossconnects: frozenset[str]) -> None:
        before = lab.carrier_changes()

        async def moved() -> bool | None:
            return all(lab.carrier_changes()[port] >= before[port] + 2 for port in before) or None

        await lab.patch(crossconnects)
        await lab.found("all carriers fell and rose", moved)

    await move(STRAIGHT)
    killed = lab.rack["hosts"]["h0"]["agent"]
    os.kill(killed, signal.SIGKILL)
    await move(CROSSED)

    async def replaced() -> int | None:
        now: int | None = lab.rack["hosts"]["h0"]["agent"]
        return now if now != killed else None

    await lab.found("the rack started another agent", replaced)
    await move(STRAIGHT)
    await mosquitto.start()
    await lab.settled()
    await lab.nothing_lost(unseen=True)
    seen = [
        event for event in await lab.documents("host.event") if event["host"] == "h0" and event["type"] == "carrier"
    ]
    unseen = sum(event["data"]["unseen"] for event in seen)
    counted = sum(lost["count"] for lost in await lab.documents("host.lost") if lost["host"] == "h0")
    assert counted == unseen
    assert unseen >= 2  # both ports fell and rose while there was no agent


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
    await lab.nothing_lost(unseen=True)
    assert len(lab.carrier_changes()) == 16
