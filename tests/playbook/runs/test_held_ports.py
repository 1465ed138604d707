"""Ports of which a run that is over has left settings: nobody has them before all is put back. In virtual time."""

import asyncio
from typing import Any

import pytest

from hwd.model.bodies import ReconfigurationBody
from hwd.model.documents.reconfigurations import ReconfigurationEnded
from hwd.model.documents.runs import RunHost, RunStarted
from hwd.model.nic_port import NicPortId
from hwd.sim.world import DAEMON
from hwd.twin.nic import What
from hwd_agents.sources.setting_source import Setting
from hwd_drivers.core.documents import Fact
from hwd_drivers.core.errors import RefusedError

from ...sim.lab import Lab
from .conftest import FIRST, SECOND

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


async def until(lab: Lab, fact: type[Fact], **fields: Any) -> None:
    for _ in range(1200):
        if lab.emitted(fact, **fields):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"no {fact.KIND} {fields}")


async def left_behind(lab: Lab) -> str:
    """A run that has set h0.eth0 and ended while its agent was away; its id."""
    assert not is_set(lab)
    run = await lab.start(*SET)
    await until(lab, RunHost, action="autoneg")
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
    (held,) = lab.service.held()
    assert (held.run, held.ports, held.hold) == (first, ["h0.eth0"], f"settings-{first}-h0")
    assert str(held.why).startswith(why)
    with pytest.raises(RefusedError, match=why):
        await lab.service.take_lease(holder="ada", ports=["all"], for_s=60)
    with pytest.raises(RefusedError, match=why):
        await lab.in_daemon(lab.service.apply(ReconfigurationBody(what="pairs hosts=h0,h1")))
    assert (await lab.state(third))["waits_for"] == [f"run {second}"]
    lab.world.start_agent("h0")
    await until(lab, RunStarted, run=second)
    assert order(lab) == [("run.started", first), ("run.host", first), ("run.started", second)]
    assert not lab.service.held()
    await until(lab, ReconfigurationEnded, outcome="confirmed")
    assert (is_set(lab), is_lit(lab)) == (False, True)
    for _ in range(100):
        await asyncio.sleep(0.5)
        assert is_lit(lab), "nothing is put back under its lease"
    assert [(await lab.ended(run))["state"] for run in (second, third)] == ["succeeded"] * 2


async def test_port_that_a_run_without_a_lease_has_set_cannot_be_leased(lab: Lab) -> None:
    run = await lab.start(*SET)
    await until(lab, RunHost, action="autoneg")
    with pytest.raises(
        RefusedError, match=rf"h0\.eth0: settings of run {run} are not put back yet: run {run} is under way"
    ):
        await lab.service.take_lease(holder="ada", ports=["h0.eth0"], for_s=60)
    assert (await lab.ended(run))["state"] == "succeeded"
    assert (await lab.service.take_lease(holder="ada", ports=["h0.eth0"], for_s=60)).holder == "ada"
    assert not is_set(lab)


async def test_run_applies_on_the_ports_that_it_has_set_itself(lab: Lab) -> None:
    for steps in ((SET[0], *ALL), (*ALL, SET[0]), (SET[0], *ALL[1:])):
        assert (await lab.ended(await lab.start(*steps)))["why"] == ""


async def test_the_next_daemon_holds_the_ports_of_settings_that_hosts_report(lab: Lab) -> None:
    first = await lab.start(*SET)
    await until(lab, RunHost, action="autoneg")
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
    kicked = await lab.service.release_lease(f"settings-{first}-h0", kick=True)
    assert (kicked.holder, kicked.ports) == (f"settings of run {first}", ["h0.eth0"])
    await until(lab, RunStarted, run=second)
    await asyncio.sleep(60.0)
    lab.world.start_agent("h0")
    await asyncio.sleep(40.0)
    assert (is_lit(lab), is_set(lab)) == (True, True), "another run has the port"
    assert (await lab.ended(second))["state"] == "succeeded"
    await until(lab, RunHost, action="put-back")
    assert not is_set(lab)


async def test_hold_of_a_run_under_way_is_not_kicked(lab: Lab) -> None:
    run = await lab.start(*SET)
    await until(lab, RunHost, action="autoneg")
    with pytest.raises(RefusedError, match=f"Wait for that.*`hwd abort {run}`"):
        await lab.service.release_lease(f"settings-{run}-h0", kick=True)
    lab.world.kill(DAEMON)
    lab.world.start_daemon()
    await until(lab, RunHost, action="put-back")
