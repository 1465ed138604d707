"""How the end of a run gets into its record, and what that says of the lab as agents found it."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hwd.daemon.installed_drivers import load
from hwd.model.bodies import KickBody, LeaseBody, ReconfigurationBody
from hwd.model.kinds import UnreadFact
from hwd.model.nic_port import NicPortId
from hwd.model.reconfiguration import ReconfigurationEnded
from hwd.model.recorded_run import Run, RunOutcome
from hwd.model.run import RunState, RunStatus
from hwd.model.run_facts import RunEnded, RunHost, RunStarted
from hwd.playbook.execution import record_end
from hwd.playbook.run_record import ended_fact, status_of
from hwd.playbook.runner import RunEnd
from hwd.playbook.safe_state import SafeState
from hwd.records.recorder import RecordingSink
from hwd.records.records import Records
from hwd.sim.world import DAEMON, World
from hwd.twin.nic import What
from hwd_agents.sources.setting_source import Setting
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.twins.virtual_time import run_virtual

from ...sim.lab import Lab
from ...virtual_time import SELDOM_S
from .conftest import FIRST, SECOND, TESTBED

SUCCEEDED = RunEnd(outcome=RunOutcome.SUCCEEDED, why="", safe_state=SafeState.AS_APPLIED)


def test_whoever_is_told_of_an_end_finds_it_in_the_records(tmp_path: Path) -> None:
    found: list[tuple[str, str, str, list[str]]] = []

    def look(document: Document) -> None:
        """The database as another process sees it."""
        end = document.fact
        if isinstance(end, RunEnded) or (isinstance(end, RunStatus) and end.state is RunState.SUCCEEDED):
            with closing(sqlite3.connect(tmp_path / "records.db")) as records:
                [(outcome,)] = records.execute("select outcome from runs").fetchall()
                last = records.execute("select kind from documents where run is not null order by id desc limit 2")
                said = end.outcome if isinstance(end, RunEnded) else ""
                found.append((document.kind, outcome, said, [kind for (kind,) in last]))

    (tmp_path / "two.yaml").write_text(TESTBED)
    testbed = load(tmp_path / "two.yaml").require()

    async def main() -> None:
        url = f"sqlite:///{tmp_path / 'records.db'}"
        async with World(testbed, TESTBED, seed=7, records_url=url, sinks=[look], light_every_s=SELDOM_S) as world:
            await world.run_playbook("playbook: test\nsteps:\n  - note: one\n", file="test.yaml")

    run_virtual(main(), seed=7)
    last = ["run.state", "run.ended"]
    assert found == [("run.ended", "succeeded", "succeeded", last), ("run.state", "succeeded", "", last)]


async def test_end_is_told_as_it_was_written_where_its_last_documents_are_lost() -> None:
    records = Records("sqlite://", InlineOffload())
    await records.open()
    await records.runs.start(Run(id="k3v9", playbook="p", testbed="t", version="1", started_wall_ns=1))
    recorder = RecordingSink(records, buffered_max=0)

    def last(end: RunEnd) -> tuple[Document, ...]:
        return (Document(at_ns=1, wall_ns=1, fact=ended_fact("k3v9", end)),)

    [told] = await record_end("k3v9", SUCCEEDED, last, ended_wall_ns=2, recorder=recorder)
    written = await records.runs.get("k3v9")
    assert isinstance(told.fact, RunEnded)
    assert (told.fact.outcome, written.outcome) == ("failed", "failed")
    assert "it has lost" in written.why
    records.close()


async def inventory(lab: Lab, *steps: str) -> dict[str, dict[str, Any]]:
    """Of the hosts, as a run of these steps has it in the records."""
    run = await lab.start(*steps)
    await lab.ended(run)
    found = (await lab.in_daemon(lab.service.runs.run(run))).inventory
    return {host["host"]: host["inventory"] for host in found["hosts"]}


async def test_a_run_is_recorded_with_modules_nics_and_kernels(lab: Lab) -> None:
    hosts = await inventory(lab, "note: hello")
    assert set(hosts) == {"h0", "h1", "h2", "h3"}
    for name, found in hosts.items():
        assert found["kernel"].startswith("Linux ")
        assert found["modules"]["eth0"]["vendor"], name
        assert found["modules"]["eth0"]["part"], name
        assert found["nics"]["eth0"]["autoneg"] is True
        assert found["nics"]["eth0"]["fec"] == {"auto": True, "modes": []}
        assert found["nics"]["eth0"]["driver"] is None  # of a twin without a kernel


async def test_what_was_set_of_a_nic_before_a_run_stands_in_its_record(lab: Lab) -> None:
    first = await lab.start("host: {ports: [h0.eth0], set: {autoneg: off}}", "wait: {for_s: 60}")
    await asyncio.sleep(10)
    hosts = await inventory(lab, "note: hello")
    assert [found["nics"]["eth0"]["autoneg"] for found in hosts.values()] == [False, True, True, True]
    await lab.ended(first)
    await asyncio.sleep(10)
    hosts = await inventory(lab, "note: hello")
    assert hosts["h0"]["nics"]["eth0"]["autoneg"] is True


def test_state_that_another_version_recorded_says_nothing_of_the_progress() -> None:
    run = Run(id="k3v9", playbook="p", testbed="t", version="1", started_wall_ns=1, outcome=RunOutcome.FAILED, why="x")
    state = status_of(run, UnreadFact(kind="run.state", fields={"run": "k3v9", "state": "dancing"}))
    assert (state.state, state.why, state.step, state.steps) == (RunState.FAILED, "x", None, 0)


# --- ports of which a run that is over has left settings: nobody has them before all is put back


SET = ("host: {ports: h0.eth0, set: {autoneg: off}}", "wait: {for_s: 5}")
ALL = ("lease: {ports: all, for_s: 600}", f"apply: {{pairs: {FIRST}}}", "wait: {for: ready, within_s: 20}")
ELSEWHERE = (f"apply: {{pairs: {SECOND}}}", "wait: {for: ready, within_s: 20}")
AGENT = "agent h0"


def is_set(lab: Lab) -> bool:
    """Auto-negotiation is on where nobody has set it."""
    state = lab.world.rack.hosts["h0"].read_setting("eth0", Setting.AUTONEG, None)
    assert isinstance(state, dict)
    return not state["autoneg"]


def is_lit(lab: Lab) -> bool:
    return lab.world.rack.nics[NicPortId(host="h0", port="eth0")].is_up(What.CARRIER)


async def left_behind(lab: Lab) -> str:
    """A run that has set h0.eth0 and ended while its agent was away; its id."""
    assert not is_set(lab)
    run = await lab.start(*SET)
    await lab.until(RunHost, since=0, action="autoneg")
    lab.world.kill(AGENT)
    end = await lab.ended(run)
    assert end["state"] == "failed"
    assert "the ports are held until then" in end["why"]
    assert is_set(lab)
    return run


def order(lab: Lab) -> list[tuple[str, Any]]:
    told = lab.world.documents
    return [
        (one.kind, one.fact.run)
        for one in told
        if isinstance(one.fact, RunStarted) or (isinstance(one.fact, RunHost) and one.fact.action == "put-back")
    ]


async def test_run_waits_for_what_the_one_before_left_set(lab: Lab) -> None:
    first = await left_behind(lab)
    second, third = await lab.start(*ALL, "wait: {for_s: 60}"), await lab.start(*ELSEWHERE)
    why = f"h0.eth0: settings of run {first} are not put back yet: its agent is down"
    (waits_for,) = (await lab.state(second))["waits_for"]
    assert waits_for.startswith(why)
    (held,) = lab.service.leases.held_settings()
    assert (held.run, held.ports, held.hold) == (first, ["h0.eth0"], f"settings-{first}-h0")
    assert str(held.why).startswith(why)
    with pytest.raises(RefusedError, match=why):
        await lab.service.leases.take(LeaseBody(holder="ada", ports=["all"], for_s=60))
    with pytest.raises(RefusedError, match=why):
        await lab.in_daemon(lab.service.light.apply(ReconfigurationBody(what="pairs hosts=h0,h1")))
    assert (await lab.state(third))["waits_for"] == [f"run {second}"]
    lab.world.start_agent("h0")
    await lab.until(RunStarted, since=0, run=second)
    assert order(lab) == [("run.started", first), ("run.host", first), ("run.started", second)]
    assert not lab.service.leases.held_settings()
    await lab.until(ReconfigurationEnded, since=0, outcome="confirmed")
    assert (is_set(lab), is_lit(lab)) == (False, True)
    for _ in range(100):
        await asyncio.sleep(0.5)
        assert is_lit(lab), "nothing is put back under its lease"
    assert [(await lab.ended(run))["state"] for run in (second, third)] == ["succeeded"] * 2


async def test_port_that_a_run_without_a_lease_has_set_cannot_be_leased(lab: Lab) -> None:
    run = await lab.start(*SET)
    await lab.until(RunHost, since=0, action="autoneg")
    with pytest.raises(
        RefusedError, match=rf"h0\.eth0: settings of run {run} are not put back yet: run {run} is under way"
    ):
        await lab.service.leases.take(LeaseBody(holder="ada", ports=["h0.eth0"], for_s=60))
    assert (await lab.ended(run))["state"] == "succeeded"
    assert (await lab.service.leases.take(LeaseBody(holder="ada", ports=["h0.eth0"], for_s=60))).holder == "ada"
    assert not is_set(lab)


async def test_run_applies_on_the_ports_that_it_has_set_itself(lab: Lab) -> None:
    for steps in ((SET[0], *ALL), (*ALL, SET[0]), (SET[0], *ALL[1:])):
        assert (await lab.ended(await lab.start(*steps)))["why"] == ""


async def test_the_next_daemon_holds_the_ports_of_settings_that_hosts_report(lab: Lab) -> None:
    first = await lab.start(*SET)
    await lab.until(RunHost, since=0, action="autoneg")
    await asyncio.sleep(1.0)
    second = await lab.start(*ALL)
    lab.world.kill(AGENT)
    lab.world.kill(DAEMON)
    lab.world.start_daemon()
    await asyncio.sleep(60.0)
    (waits_for,) = (await lab.state(second))["waits_for"]
    assert waits_for.startswith(f"h0.eth0: settings of run {first} are not put back yet: its agent is down")
    lab.world.start_agent("h0")
    assert (await lab.ended(second))["state"] == "succeeded"
    assert order(lab)[-2:] == [("run.host", first), ("run.started", second)]


async def test_kicked_hold_lets_others_on_and_is_put_back_after_them(lab: Lab) -> None:
    first = await left_behind(lab)
    second = await lab.start(*ALL[:2], "wait: {for_s: 120}")
    kicked = await lab.service.leases.kick(f"settings-{first}-h0", KickBody())
    assert (kicked.holder, kicked.ports) == (f"settings of run {first}", ["h0.eth0"])
    await lab.until(RunStarted, since=0, run=second)
    await asyncio.sleep(60.0)
    lab.world.start_agent("h0")
    await asyncio.sleep(40.0)
    assert (is_lit(lab), is_set(lab)) == (True, True), "another run has the port"
    assert (await lab.ended(second))["state"] == "succeeded"
    await lab.until(RunHost, since=0, action="put-back")
    assert not is_set(lab)


async def test_hold_of_a_run_under_way_is_not_kicked(lab: Lab) -> None:
    run = await lab.start(*SET)
    await lab.until(RunHost, since=0, action="autoneg")
    with pytest.raises(RefusedError, match=f"Wait for that.*`hwd abort {run}`"):
        await lab.service.leases.kick(f"settings-{run}-h0", KickBody())
    lab.world.kill(DAEMON)
    lab.world.start_daemon()
    await lab.until(RunHost, since=0, action="put-back")
