"""A part is pulled in the middle of a run: the run ends rightly, the light is where the program says, and no event is lost."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from .conftest import CROSSED, DARK, STRAIGHT, Lab, Mosquitto

pytestmark = pytest.mark.timeout(180)


async def test_run_succeeds_and_every_carrier_change_is_recorded(lab: Lab) -> None:
    daemon = await lab.up()
    said = await lab.run(times=3)
    assert said.status == 0, said
    assert said.json["outcome"] == "succeeded"
    assert await lab.light() == CROSSED
    await lab.nothing_lost()
    assert await daemon.end(signal.SIGTERM) == 0


async def test_switch_cut_in_a_command_fails_the_run_and_goes_back(lab: Lab) -> None:
    await lab.up()
    await lab.fault("slow", seconds=1.0)
    run = lab.run()
    await lab.under_way("driving", done=1)
    await lab.lit(STRAIGHT)
    await lab.fault("clear")
    await lab.fault("reset")
    said = await run
    assert (said.status, said.json["outcome"]) == (4, "failed"), said
    assert "ocs1" in said.json["why"]
    await lab.lit(DARK)
    await lab.settled()
    if said.json["safe_state"] != "before-apply":  # it was away for longer than the roll-back may take
        assert said.json["safe_state"] == "unknown"
        recovered = await lab.recorded("daemon.recovered")
        assert recovered["outcome"] == "rolled-back"
    await lab.nothing_lost()
    assert (await lab.run()).status == 0


async def test_switch_that_stays_away_is_brought_back_when_it_answers(lab: Lab) -> None:
    await lab.up()
    assert (await lab.run()).status == 0
    await lab.fault("slow", seconds=1.0)
    run = lab.run()
    await lab.under_way("driving", done=1)
    await lab.lit(STRAIGHT)
    await lab.fault("refuse", on=True)
    await lab.fault("reset")
    said = await run
    assert (said.status, said.json["outcome"], said.json["safe_state"]) == (4, "failed", "unknown"), said
    now = await lab.until("the switch is told to be down", lambda now: not now["switches"][0]["up"])
    assert all(host["up"] for host in now["hosts"])
    await lab.fault("clear")
    await lab.lit(CROSSED)
    await lab.settled()
    recovered = await lab.recorded("daemon.recovered")
    assert recovered["outcome"] == "rolled-back"
    await lab.nothing_lost()


async def test_switch_cut_while_links_come_up_does_not_matter(lab: Lab) -> None:
    await lab.up(nic="opus-cx6dx")
    run = lab.go("apply", f"ocs1:{','.join(sorted(STRAIGHT))}", "--json")
    await lab.waited_for()
    await lab.fault("reset")
    said = await run
    assert said.status == 0, said
    assert await lab.light() == STRAIGHT
    await lab.nothing_lost()


async def test_denied_change_is_rolled_back_with_the_words_of_the_switch(lab: Lab) -> None:
    await lab.up()
    assert (await lab.run()).status == 0
    await lab.fault("deny", code="SROF", text="Mirror 3 is being calibrated")
    said = await lab.run()
    assert (said.status, said.json["outcome"], said.json["safe_state"]) == (1, "failed", "before-apply"), said
    assert "SROF" in said.json["why"]
    assert "Mirror 3 is being calibrated" in said.json["why"]
    assert await lab.light() == CROSSED
    await lab.nothing_lost()


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


async def test_daemon_killed_in_an_apply_rolls_back_at_its_next_start(lab: Lab) -> None:
    daemon = await lab.up()
    assert (await lab.run()).status == 0
    await lab.nothing_lost()
    before = lab.carrier_changes()
    await lab.fault("slow", seconds=1.0)
    run = lab.run()
    await lab.under_way("driving", done=1)
    await lab.lit(STRAIGHT)
    assert await daemon.end(signal.SIGKILL) == -signal.SIGKILL
    await lab.fault("clear")

    async def all_rose() -> bool | None:
        now = lab.carrier_changes()
        return all(now[port] >= before[port] + 2 for port in before) or None

    await lab.found("all carriers fell and rose while the daemon was away", all_rose)
    place = lab.said("daemon")
    assert place is not None
    await lab.serve(http=place["http"].removeprefix("http://"))
    await lab.settled()
    await lab.lit(CROSSED)

    document = await lab.recorded("daemon.recovered")
    assert document["outcome"] == "rolled-back"
    said = await run
    assert said.status == 1, said
    assert said.json["outcome"] == "crashed"
    ended = await lab.outcome()
    assert (ended["outcome"], ended["playbook"]) == ("crashed", "to-and-fro")
    await lab.nothing_lost()
    assert (await lab.run()).status == 0
    await lab.nothing_lost()


async def test_terminated_daemon_leaves_a_named_safe_state(lab: Lab) -> None:
    daemon = await lab.up(nic="opus-cx6dx")
    run = lab.run()
    await lab.under_way("waiting", done=2)
    assert await daemon.end(signal.SIGTERM) == 0
    assert await lab.light() == DARK
    said = await run
    assert said.status in (4, 130), said
    (ended,) = await lab.documents("run.ended")
    assert (ended["outcome"], ended["safe_state"]) == ("aborted", "before-apply")
    assert len(await lab.documents("reconfiguration.ended", "daemon.stopped")) == 2
    await lab.serve()
    await lab.settled()
    assert (await lab.outcome())["outcome"] == "aborted"
    await lab.nothing_lost()


async def test_abort_ends_in_a_named_safe_state_within_five_seconds(lab: Lab) -> None:
    await lab.up(nic="opus-cx6dx")
    run = lab.run()
    now = await lab.under_way("waiting", done=2)
    started_s = asyncio.get_running_loop().time()
    aborted = await lab.hwd("abort", now["runs"][0]["run"], "--json")
    took_s = asyncio.get_running_loop().time() - started_s
    assert aborted.status == 0, aborted
    assert aborted.json["safe_state"] == "before-apply"
    assert took_s < 5.0 + 1.0  # the command line takes its start-up time, too
    assert await lab.light() == DARK
    assert (await run).status == 130
    await lab.nothing_lost()
