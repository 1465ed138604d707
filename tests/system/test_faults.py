"""What operators and strangers get wrong, and what fails during a run: each ends as stated, the light as documented."""

import asyncio
import itertools
import os
import re
import signal
from pathlib import Path

import aiomqtt
import pytest

from hwd.cli.run_command import run as run_command
from hwd_agents.bus.mqtt import BrokerUrl
from hwd_agents.wire import topic

from .conftest import CROSSED, STRAIGHT, TESTBED, Lab
from .test_sonic_trouble import crossconnects

pytestmark = pytest.mark.timeout(180)

THREE_SWITCHES = """
testbed: lab
switches:
  ocs1: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: ideal, seed: 7}}
  ocs2: {driver: polatis-tl1, model: polatis-6000, size: 8x8, address: "127.0.0.1:PORT",
         login: {user: admin, password: {env: HWD_OCS2_PASSWORD}}}
  son: {driver: sonic-ocs, model: sonic-ocs, size: 8x8, options: {poll_s: 0.02}, twin: {timing: ideal, seed: 2}}
hosts: {}
fibres: []
"""


@pytest.mark.parametrize("command", [("check",), ("serve", "--data", "fresh"), ("twin", "up")])
def test_malformed_testbed_file_is_bad_input_to_each_command_that_reads_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    bad = TESTBED.format(nic="ideal", switch="ideal").replace("polatis-tl1", "polatis-tl2").replace("rail", "rial")
    Path("bad.yaml").write_text(bad)
    assert run_command([*command, "bad.yaml"]) == 2
    said = capsys.readouterr()
    assert re.search(r"bad\.yaml:4: .*polatis-tl2", said.out + said.err), said
    assert "rail" in said.out + said.err
    assert not Path("fresh").exists()


async def test_malformed_files_are_bad_input_and_touch_nothing(standing: Lab) -> None:
    assert (await standing.run()).status == 0
    runs, begun = [len(await standing.documents(kind)) for kind in ("run.started", "reconfiguration.started")]
    bad = standing.folder / "bad.yaml"

    bad.write_text("playbook: bad\nshows: nothing\nsteps:\n  - aply: {topology: ring}\n  - wait: {for: ready}\n")
    said = await standing.hwd("run", str(bad))
    assert said.status == 2, said
    assert "bad.yaml:4" in said.err
    assert "bad.yaml:5" in said.err

    bad.write_text("topology: bad\nlinks:\n  - h0.eth0 <-> h1.eth7\n")
    said = await standing.hwd("apply", str(bad))
    assert said.status == 2, said
    assert "bad.yaml:3" in said.err
    said = await standing.hwd("apply", "ocs1:1A-99B")
    assert said.status == 2, said

    assert await standing.light() == CROSSED
    assert len(await standing.documents("run.started")) == runs
    assert len(await standing.documents("reconfiguration.started")) == begun


async def test_switch_that_is_not_there_is_named_and_one_whose_front_panel_was_used_is_still_driven(lab: Lab) -> None:
    with_nobody = "127.0.0.1:9"  # discard: nobody listens there, and nobody will
    lab.testbed.write_text(THREE_SWITCHES.replace("127.0.0.1:PORT", with_nobody))
    lab.environment["HWD_OCS2_PASSWORD"] = "secret"
    await lab.hwd_process("rack", "twin", "up", str(lab.testbed))
    await lab.serve()
    now = await lab.until("both twins are up", lambda now: [one["up"] for one in now["switches"]].count(True) == 2)
    assert [one["switch"] for one in now["switches"] if not one["up"]] == ["ocs2"]
    said = await lab.hwd("apply", "ocs2:1A-2B", "--no-ready")
    assert said.status == 4, said
    assert "ocs2" in said.err
    said = await lab.ok("apply", "ocs1:1A-2B", "--no-ready")
    assert await lab.light() == {"1A-2B"}
    ready = await lab.get("/readyz")
    assert "ocs2" in str(ready)

    await lab.ok("apply", "son:1A-2B", "--no-ready")
    await lab.fault("panel", switch="son", remove=["1A-2B"], add=["1A-4B"])
    await lab.ok("apply", "son:none", "--no-ready")
    assert await crossconnects(lab) == {}
    assert (await lab.get("/api/v1/status"))["open"] == []
    await lab.ok("apply", "son:1A-2B", "--no-ready")
    assert await crossconnects(lab) == {"1A-2B": "tuned"}


async def test_garbage_on_mqtt_is_counted_and_ignored(standing: Lab) -> None:
    daemon = standing.said("daemon")
    assert daemon is not None
    broker = BrokerUrl.parse(daemon["mqtt"])
    run = standing.run(times=2)
    payloads = (
        b"\xff\xfe",
        b"{}",
        b"[1, 2",
        b'{"v": 99}',
        b'{"type": "events", "v": 1, "boot": "x", "seq": -1, "events": []}',
    )
    leaves = ("birth", "state", "event", "reply", "clock", "command", "ack")
    async with aiomqtt.Client(broker.host, broker.port, username=broker.user, password=broker.password) as stranger:
        for host, leaf, payload in itertools.product(("h0", "h1", "h7"), leaves, payloads):
            await stranger.publish(topic("lab", host, leaf), payload, qos=1)
    said = await run
    assert said.status == 0, said

    async def counted() -> float | None:
        text = await standing.get("/metrics")
        counts = [float(found) for found in re.findall(r"^hwd_bus_garbage_total\{[^}]*\} (\S+)", text, re.M)]
        return sum(counts) or None

    assert await standing.found("garbage is counted", counted) > 0
    await standing.nothing_lost()


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


async def test_apply_that_is_cut_off_by_ctrl_c_goes_back(standing: Lab) -> None:
    light = await standing.light()
    await standing.fault("slow-firmware", port="h1.eth0", seconds=4)
    apply = await standing.hwd_process("apply", "apply", f"ocs1:{','.join(sorted(STRAIGHT))}", "--yes")
    await standing.waited_for()
    assert await apply.end(signal.SIGINT) == 130
    assert await standing.lit(light) == light
    await standing.fault("clear", port="h1.eth0")
    await standing.nothing_lost()


async def test_abort_ends_in_a_named_safe_state_within_five_seconds(standing: Lab) -> None:
    light = await standing.light()
    await standing.fault("slow-firmware", port="h1.eth0", seconds=4)
    run = standing.run()
    now = await standing.under_way("waiting", done=2)
    started_s = asyncio.get_running_loop().time()
    aborted = await standing.hwd("abort", now["runs"][0]["run"], "--json")
    took_s = asyncio.get_running_loop().time() - started_s
    assert aborted.status == 0, aborted
    assert aborted.json["safe_state"] == "before-apply"
    assert took_s < 5.0 + 1.0  # the command line takes its start-up time, too
    assert await standing.light() == light
    assert (await run).status == 130
    await standing.fault("clear", port="h1.eth0")
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
