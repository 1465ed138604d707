"""A switch or an agent fails during a run: the run ends correctly, the light is as documented, no event is lost."""

import os
import signal

import pytest

from .conftest import CROSSED, STRAIGHT, Lab

pytestmark = pytest.mark.timeout(180)


async def test_run_succeeds_and_every_carrier_change_is_recorded(standing: Lab) -> None:
    said = await standing.run(times=3)
    assert said.status == 0, said
    assert said.json["outcome"] == "succeeded"
    assert await standing.light() == CROSSED
    await standing.nothing_lost()


async def test_switch_cut_in_a_command_fails_the_run_and_goes_back(standing: Lab) -> None:
    light, recoveries = await standing.light(), len(await standing.documents("daemon.recovered"))
    await standing.fault("slow", seconds=1.0)
    run = standing.run()
    await standing.under_way("driving", done=1)
    await standing.lit(STRAIGHT)
    await standing.fault("clear")
    await standing.fault("reset")
    said = await run
    assert (said.status, said.json["outcome"]) == (4, "failed"), said
    assert "ocs1" in said.json["why"]
    await standing.lit(light)
    await standing.settled()
    if said.json["safe_state"] != "before-apply":  # it was away for longer than the roll-back may take
        assert said.json["safe_state"] == "unknown"
        recovered = await standing.recorded("daemon.recovered", after=recoveries)
        assert recovered["outcome"] == "rolled-back"
    await standing.nothing_lost()
    assert (await standing.run()).status == 0


async def test_switch_that_stays_away_is_brought_back_when_it_answers(standing: Lab) -> None:
    recoveries = len(await standing.documents("daemon.recovered"))
    assert (await standing.run()).status == 0
    await standing.fault("slow", seconds=1.0)
    run = standing.run()
    await standing.under_way("driving", done=1)
    await standing.lit(STRAIGHT)
    await standing.fault("refuse", on=True)
    await standing.fault("reset")
    said = await run
    assert (said.status, said.json["outcome"], said.json["safe_state"]) == (4, "failed", "unknown"), said
    now = await standing.until("the switch is told to be down", lambda now: not now["switches"][0]["up"])
    assert all(host["up"] for host in now["hosts"])
    await standing.fault("clear")
    await standing.lit(CROSSED)
    await standing.settled()
    recovered = await standing.recorded("daemon.recovered", after=recoveries)
    assert recovered["outcome"] == "rolled-back"
    await standing.nothing_lost()


async def test_denied_change_is_rolled_back_with_the_words_of_the_switch(standing: Lab) -> None:
    assert (await standing.run()).status == 0
    await standing.fault("deny", code="SROF", text="Mirror 3 is being calibrated")
    said = await standing.run()
    assert (said.status, said.json["outcome"], said.json["safe_state"]) == (1, "failed", "before-apply"), said
    assert "SROF" in said.json["why"]
    assert "Mirror 3 is being calibrated" in said.json["why"]
    assert await standing.light() == CROSSED
    await standing.nothing_lost()


async def test_agent_killed_in_a_run_is_replaced_and_its_unseen_span_counted(standing: Lab) -> None:
    boots = {event["boot"] for event in await standing.documents("host.event") if event["host"] == "h0"}
    # The last of this file: what it leaves uncounted no other test of these may leave.
    run = standing.run(times=4)
    await standing.on_its_way(done=3)
    killed = standing.rack["hosts"]["h0"]["agent"]
    os.kill(killed, signal.SIGKILL)
    said = await run
    assert said.status == 0, said
    assert await standing.light() == CROSSED
    await standing.nothing_lost()
    assert standing.rack["hosts"]["h0"]["agent"] not in (None, killed)
    after = {event["boot"] for event in await standing.documents("host.event") if event["host"] == "h0"}
    assert len(after - boots) == 1 + (not boots)
