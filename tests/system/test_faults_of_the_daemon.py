"""The daemon is killed, ended, or told to abort in a run: light, queue and events are as the program says."""

import asyncio
import json
import signal
from typing import Any

import aiomqtt
import pytest

from .conftest import CROSSED, DARK, STRAIGHT, WITHIN_S, Lab, Mosquitto

pytestmark = pytest.mark.timeout(180)


@pytest.mark.slow
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


@pytest.mark.slow
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


async def apply_and_await(lab: Lab, what: frozenset[str], within_s: float) -> str:
    """Apply what awaits its confirm; returns its id."""
    wanted = f"ocs1:{','.join(sorted(what))}"
    said = await lab.hwd("apply", wanted, "--no-ready", "--yes", "--confirm-within", str(within_s), "--json")
    assert (said.status, said.json["state"]) == (0, "awaiting-confirm"), said
    return str(said.json["reconfiguration"])


@pytest.mark.slow
async def test_apply_that_awaits_its_confirm_stands_over_dead_daemons_until_it_is_confirmed_or_its_time_ends(
    lab: Lab,
) -> None:
    daemon = await lab.up()
    applied = await lab.hwd("apply", f"ocs1:{','.join(sorted(STRAIGHT))}", "--no-ready", "--yes")
    assert applied.status == 0, applied
    id = await apply_and_await(lab, CROSSED, 600)
    for number in (signal.SIGKILL, signal.SIGTERM):
        await daemon.end(number)
        assert await lab.light() == CROSSED
        daemon = await lab.serve()
        await lab.settled()
        now = await lab.get("/api/v1/status")
        (one,) = now["reconfigurations"]
        assert (one["reconfiguration"], one["state"], now["open"]) == (id, "awaiting-confirm", [])
        assert 0 < one["confirm_in_s"] < 600
        text = await lab.hwd("status")
        assert f"reconfiguration {id} " in text.out
        assert f"then it goes back, unless: hwd confirm {id}" in text.out
        refused = await lab.hwd("apply", f"ocs1:{','.join(sorted(STRAIGHT))}", "--no-ready", "--yes")
        assert (refused.status, f"`hwd rollback {id}`, or `hwd confirm {id}`" in refused.err) == (3, True), refused
    confirmed = await lab.hwd("confirm", id, "--json")
    assert (confirmed.status, confirmed.json["outcome"]) == (0, "confirmed"), confirmed
    await daemon.end(signal.SIGKILL)
    daemon = await lab.serve()
    await lab.settled()
    assert await lab.light() == CROSSED
    assert await lab.documents("daemon.recovered") == []

    # Its time ends while the daemon is back, and while it is away: it goes back, and a confirm is refused.
    applied = await lab.hwd("apply", f"ocs1:{','.join(sorted(STRAIGHT))}", "--no-ready", "--yes")
    assert applied.status == 0, applied
    for within_s, is_away in ((15, False), (1, True)):
        id = await apply_and_await(lab, CROSSED, within_s)
        await daemon.end(signal.SIGKILL)
        if is_away:
            await asyncio.sleep(1.5)
        daemon = await lab.serve()
        await lab.settled()
        assert bool((await lab.get("/api/v1/status"))["reconfigurations"]) != is_away
        await lab.lit(STRAIGHT)
        await lab.until("its end is written", lambda now: not now["reconfigurations"] and not now["open"])
        confirm = await lab.hwd("confirm", id)
        assert (confirm.status, f"not confirmed within {within_s} s" in confirm.err) == (3, True), confirm
    assert await lab.light() == STRAIGHT


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
    late = await lab.ok("run", str(lab.playbook), "--in", "0.5", "--json")
    state = await lab.get(f"/api/v1/runs/{late.json['run']}/state")
    assert 0 <= state["started_wall_ns"] - state["due_wall_ns"] < WITHIN_S * 1e9
    await lab.nothing_lost()
