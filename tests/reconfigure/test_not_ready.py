"""What is said of links that are not ready in time: the links are blamed only where they were heard."""

import asyncio
import re

import pytest

from hwd.cli.watching import left_open
from hwd.client.answers import Status
from hwd.sim.world import agent_node
from hwd_drivers.kit.errors import NotReadyError

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
