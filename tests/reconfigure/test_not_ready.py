"""What is said of links that are not ready in time: the links are blamed only where they were heard."""

import asyncio
import re

import pytest

from hwd.cli.watching import left_open
from hwd.client.answers import Status
from hwd.sim.world import agent_node
from hwd_drivers.kit.errors import NotReadyError
from hwd_drivers.kit.values import Crossconnect

from .conftest import CROSSED, STRAIGHT, Lab, RunLab


async def late(lab: Lab) -> str:
    with pytest.raises(NotReadyError) as raised:
        await lab.service.apply(lab.request(CROSSED, ready_within_s=15))
    return str(raised.value)


def test_broker_that_is_away_is_named_once_for_all_hosts(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await lab.service.apply(lab.request(STRAIGHT, ready_within_s=15))
        asyncio.get_running_loop().call_later(2, lab.world.broker.stop)
        said = await late(lab)
        assert "Nothing was heard of h0, h1: the broker is not connected" in said
        assert "Outcome: rolled-back" in said

    run_lab(test)


def test_agent_that_is_down_is_named_and_the_other_host_is_not(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await lab.service.apply(lab.request(STRAIGHT, ready_within_s=15))
        asyncio.get_running_loop().call_later(2, lab.world.kill, agent_node("h1"))
        said = await late(lab)
        assert "Nothing was heard of h1: its agent is down" in said

    run_lab(test)


def test_switch_that_is_away_is_named_with_what_holds_it_open(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await lab.service.apply(lab.request(STRAIGHT, ready_within_s=15))
        faults = lab.world.rack.switches["ocs1"].faults

        def cut() -> None:
            faults.refusing = True
            faults.reset()
            lab.world.kill(agent_node("h1"))

        asyncio.get_running_loop().call_later(2, cut)
        said = await late(lab)
        assert "h1: its agent is down; ocs1: " in said
        assert "the journal holds it open" in said
        faults.refusing = False
        await lab.until("daemon.recovered")
        assert "could not be reached" not in lab.told("daemon.recovered")[-1]["why"]

    run_lab(test)


def test_links_that_were_heard_are_blamed_alone(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        with pytest.raises(NotReadyError) as raised:
            await lab.service.apply(lab.request(STRAIGHT, ready_within_s=1))
        assert "heard" not in str(raised.value)

    run_lab(test)


def test_link_that_was_ready_and_fell_while_another_was_waited_for_is_not_ready(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        lab.set_fault({"port": "h0.eth1", "fault": "slow-firmware", "seconds": 8})
        applying = asyncio.create_task(lab.service.apply(lab.request(STRAIGHT, ready_within_s=18)))
        await lab.until("host.event", type="ready", port="eth0")
        await asyncio.sleep(1)
        lab.set_fault({"port": "h0.eth0", "fault": "unplug"})
        with pytest.raises(NotReadyError, match=r"h0\.eth0<->h1\.eth0") as raised:
            await applying
        assert "h0.eth1<->h1.eth1" not in str(raised.value).partition("Outcome")[0].partition("not ready")[2]
        assert lab.told("reconfiguration.ended")[-1]["outcome"] == "rolled-back"

    run_lab(test)


def test_link_that_fell_and_came_back_while_another_was_waited_for_is_ready(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        lab.set_fault({"port": "h0.eth1", "fault": "slow-firmware", "seconds": 14})
        applying = asyncio.create_task(lab.service.apply(lab.request(STRAIGHT, ready_within_s=30)))
        await lab.until("host.event", type="ready", port="eth0")
        await asyncio.sleep(1)
        lab.set_fault({"port": "h0.eth0", "fault": "unplug"})
        await asyncio.sleep(0.5)
        lab.set_fault({"port": "h0.eth0", "fault": "unplug", "on": False})
        assert (await applying)["outcome"] == "confirmed"
        readies = [event for event in lab.told("host.event") if event["type"] == "ready" and event["port"] == "eth0"]
        assert len(readies) == 4, "both ends, twice"

    run_lab(test)


def test_where_nothing_moved_nothing_is_said_to_have_gone_back(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await lab.service.apply(lab.request(STRAIGHT))  # its links come up later
        with pytest.raises(NotReadyError, match="No switch had been moved, so none was moved back"):
            await lab.service.apply(lab.request(STRAIGHT, ready_within_s=1))

    run_lab(test)


def test_recovery_says_which_of_its_causes_it_was(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await lab.service.apply(lab.request(STRAIGHT))
        applying = asyncio.create_task(lab.service.apply(lab.request(CROSSED, ready_within_s=15)))
        await asyncio.sleep(0.1)
        lab.world.kill("daemon")
        await asyncio.gather(applying, return_exceptions=True)
        lab.world.start_daemon()
        await lab.until("daemon.recovered")
        assert lab.told("daemon.recovered")[-1]["why"] == "the daemon ended before it did"

    run_lab(test)


def test_what_stays_open_is_in_the_status_until_it_is_brought_back(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await lab.service.apply(lab.request(STRAIGHT, ready_within_s=15))
        assert lab.service.status()["open"] == []
        faults = lab.world.rack.switches["ocs1"].faults

        def cut() -> None:
            faults.refusing = True
            faults.reset()
            lab.world.kill(agent_node("h1"))

        asyncio.get_running_loop().call_later(2, cut)
        await late(lab)
        await asyncio.sleep(40)  # virtual: the way back is tried again after it failed
        left = Status(lab.service.status())
        (one,) = left.open
        assert not left.settled
        assert (one["what"], one["goes"], len(one.ports)) == (CROSSED, "back", 8)
        assert left_open(one).startswith(f"reconfiguration {one.id} ({CROSSED}) open: ocs1: ")
        assert left_open(one).endswith("; goes back by itself when that is over; 8 ports held")
        assert re.search(r"\(last tried at \d\d:\d\d:\d\d\)", left_open(one))
        faults.refusing = False
        await lab.until("switch.up")
        (one,) = Status(lab.service.status()).open
        assert one["why"] == "its switches are back, and it is tried anew", "what the last try found is over"
        await lab.until("daemon.recovered")
        assert lab.service.status()["open"] == []

    run_lab(test)


def test_switch_that_was_away_and_is_back_is_named_with_the_light_that_fell(run_lab: RunLab) -> None:
    """In the message, in the record that reports show, and in the end of the run."""
    playbook = f"""
playbook: late
shows: a switch that loses its power while links are waited for
steps:
  - apply: {{pairs: "{CROSSED}"}}
  - wait: {{for: ready, within_s: 15}}
"""
    away = r"ocs1 was away from \d\.\d{3} to \d\d?\.\d{3} s after the start \(.+\)"
    fell = (
        r"light fell at (?:h[01]\.eth[01] \(\d\.\d{3} s\)(?:, |; )){4}ocs1 reports 1A-4B, 2A-3B, 3A-2B, 4A-1B no more"
    )

    async def test(lab: Lab) -> None:
        await lab.service.apply(lab.request(STRAIGHT, ready_within_s=15))
        run = str((await lab.service.start_run(text=playbook, file="late.yaml", parameters={}))["run"])
        await lab.until("reconfiguration.state", state="waiting")
        asyncio.get_running_loop().call_later(3, lab.world.rack.switches["ocs1"].faults.reboot, 4.0)
        await lab.until("run.ended", run=run)
        (why,) = [end["why"] for end in lab.told("reconfiguration.ended") if end["run"] == run]
        assert re.search(rf"Meanwhile: {away}; {fell}", why), why
        (end,) = [end for end in lab.told("run.ended") if end["run"] == run]
        assert why in end["why"]

    run_lab(test)


def test_switch_that_was_away_without_harm_is_a_remark(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        asyncio.get_running_loop().call_later(2, lab.world.rack.switches["ocs1"].faults.reset)
        assert (await lab.service.apply(lab.request(STRAIGHT, ready_within_s=30)))["outcome"] == "confirmed"
        (end,) = lab.told("reconfiguration.ended")
        (remark,) = end["remarks"]
        assert re.fullmatch(r"ocs1 was away from 2\.\d{3} to 2\.\d{3} s after the start \(.+\)", remark)

    run_lab(test)


def test_crossconnect_that_somebody_took_meanwhile_is_named(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await lab.service.apply(lab.request(STRAIGHT, ready_within_s=15))
        faults = lab.world.rack.switches["ocs1"].faults
        asyncio.get_running_loop().call_later(2, faults.panel, (Crossconnect.parse("1A-4B"),), ())
        said = await late(lab)
        assert "ocs1 reports 1A-4B no more" in said
        assert "light fell at h1.eth1" in said
        assert "was away" not in said

    run_lab(test)
