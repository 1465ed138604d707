"""What is said of links that are not ready in time: the links are blamed only where they were heard."""

import asyncio
import logging
import re
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from hwd.cli.commands.status import left_open
from hwd.model.daemon import DaemonRecovered
from hwd.model.host import HostEvent
from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationState
from hwd.model.run_facts import RunEnded
from hwd.model.timeline import Timeline
from hwd.reconfigure.apply.remarks import read_back_remarks
from hwd.reconfigure.apply.switches import raise_joined
from hwd.sim.world import agent_node
from hwd_agents.wire.events import CarrierData
from hwd_drivers.core.documents import Document
from hwd_drivers.core.errors import DeviceError, LinkError, NotReadyError, NotRolledBackError, RefusedError
from hwd_drivers.core.values import Crossconnect, CrossconnectState
from hwd_drivers.devices.facts import SwitchDown, SwitchUp
from hwd_drivers.switching.moves import ApplyMode, SwitchMoves

from ..conftest import CROSSED, STRAIGHT, Lab, wanted


async def late(lab: Lab) -> str:
    with pytest.raises(NotReadyError) as raised:
        await lab.apply(CROSSED, ready_within_s=15)
    return str(raised.value)


def remove_interface(monkeypatch: pytest.MonkeyPatch, lab: Lab, host: str, interface: str) -> None:
    """Let the kernel of a twin host have this interface no more."""
    twin = lab.world.rack.hosts[host]
    links = twin.links
    (gone,) = [one for one in links() if one.interface == interface]
    monkeypatch.setattr(twin, "links", lambda: [one for one in links() if one.interface != interface])
    for wire in twin._wires:
        wire.tell_link(gone, present=False)


async def test_crossconnect_that_somebody_took_meanwhile_is_named_and_a_broker_that_is_away_once_for_all_hosts(
    lab: Lab,
) -> None:
    await lab.apply(STRAIGHT, ready_within_s=15)
    asyncio.get_running_loop().call_later(2, lab.faults.panel, (Crossconnect.parse("1A-4B"),), ())
    said = await late(lab)
    assert "ocs1 reports 1A-4B no more" in said
    assert "light fell at h1.eth1" in said
    assert "was away" not in said
    await lab.apply(STRAIGHT, ready_within_s=15)
    asyncio.get_running_loop().call_later(2, lab.world.broker.stop)
    said = await late(lab)
    assert "Nothing was heard of h0, h1: the broker is not connected" in said
    assert "Outcome: rolled-back" in said


async def test_nobody_waits_for_links_whose_agents_are_all_away(lab: Lab) -> None:
    await lab.apply(STRAIGHT, ready_within_s=15)
    loop = asyncio.get_running_loop()
    for host in ("h0", "h1"):
        loop.call_later(2, lab.world.kill, agent_node(host))
    began_s = loop.time()
    with pytest.raises(NotReadyError) as raised:
        await lab.apply(CROSSED, ready_within_s=60)
    assert loop.time() - began_s < 12
    said = str(raised.value)
    assert raised.value.exit_status == 5
    assert re.search(r"not ready, and given up after \d\.\d of 60 s", said)
    assert "Nothing was heard of h0, h1: its agent is down" in said
    assert "Outcome: rolled-back" in said


async def test_agents_that_are_back_in_time_are_waited_for(lab: Lab) -> None:
    loop = asyncio.get_running_loop()
    for host in ("h0", "h1"):
        loop.call_later(0.5, lab.world.kill, agent_node(host))
        loop.call_later(4, lab.world.start_agent, host)
    applied = await lab.apply(STRAIGHT, ready_within_s=60)
    assert applied.outcome == "confirmed"


async def test_nobody_waits_for_a_link_whose_interface_does_not_exist(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lab.apply(STRAIGHT, ready_within_s=15)
    lab.set_fault({"port": "h0.eth1", "fault": "slow-firmware", "seconds": 100})
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    applying = asyncio.create_task(lab.apply(CROSSED, ready_within_s=60))
    await lab.until(ReconfigurationState, state="waiting")
    remove_interface(monkeypatch, lab, "h0", "eth1")
    with pytest.raises(NotReadyError) as raised:
        await applying
    assert 5 < loop.time() - began_s < 8
    (end,) = [end for end in lab.emitted(ReconfigurationEnded) if end.outcome == "rolled-back"]
    said = str(raised.value)
    assert said.startswith(f"reconfiguration {end.reconfiguration} ({CROSSED}): not ready, and given up after ")
    assert "h0.eth1<->h1.eth0 (h0.eth1: there is no interface eth1)" in said
    assert "h0.eth0<->h1.eth1 (" not in said, "its interfaces are there"


async def test_interface_that_is_back_in_time_is_waited_for(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.set_fault({"port": "h0.eth1", "fault": "slow-firmware", "seconds": 10})
    applying = asyncio.create_task(lab.apply(STRAIGHT, ready_within_s=60))
    await lab.until(ReconfigurationState, state="waiting")
    remove_interface(monkeypatch, lab, "h0", "eth1")
    await asyncio.sleep(3)
    monkeypatch.undo()
    assert (await applying).outcome == "confirmed"


async def test_timeline_of_late_links_is_found_by_its_id_and_where_nothing_moved_nothing_went_back(lab: Lab) -> None:
    with pytest.raises(NotReadyError) as raised:
        await lab.apply(STRAIGHT, ready_within_s=1)
    (timeline,) = lab.emitted(Timeline)
    id, said = timeline.reconfiguration, str(raised.value)
    assert said.startswith(f"reconfiguration {id} ({STRAIGHT}): not ready within 1 s: ")
    assert f"`hwd watch --after 0 --kind timeline` has its timeline ({id})" in said
    assert "heard" not in said, "links that were heard are blamed alone"
    await lab.apply(STRAIGHT)  # its links come up later
    with pytest.raises(NotReadyError, match="No switch had been moved, so none was moved back"):
        await lab.apply(STRAIGHT, ready_within_s=1)


async def test_run_whose_switch_went_away_ends_at_once_with_status_6(lab: Lab) -> None:
    steps = (f"apply: {{pairs: '{STRAIGHT}'}}", "wait: {for: ready, within_s: 300}")
    lab.set_fault({"port": "h0.eth1", "fault": "slow-firmware", "seconds": 100})
    run = await lab.start_run(*steps)
    await lab.until(ReconfigurationState, state="waiting")
    asyncio.get_running_loop().call_later(1, lab.cut_switch)
    await lab.until(RunEnded, run=run)
    (end,) = lab.emitted(RunEnded)
    assert (end.outcome, end.exit_status, end.safe_state) == ("failed", 6, "unknown")
    state = await lab.service.runs.state(run)
    assert (state.fault_class, state.rolled_back) == ("not ready and not rolled back", False)
    assert "Not rolled back: ocs1" in str(state.why)


async def test_switch_that_is_away_is_named_with_what_holds_it_open_until_it_is_brought_back(lab: Lab) -> None:
    await lab.apply(STRAIGHT, ready_within_s=15)
    assert (await lab.service.rack.status()).open == []

    def cut() -> None:
        lab.cut_switch()
        lab.world.kill(agent_node("h1"))

    asyncio.get_running_loop().call_later(2, cut)
    began_s = asyncio.get_running_loop().time()
    with pytest.raises(NotRolledBackError) as raised:
        await lab.apply(CROSSED, ready_within_s=15)
    assert asyncio.get_running_loop().time() - began_s < 5, "what is away is not waited for"
    error, said = raised.value, str(raised.value)
    assert (error.exit_status, error.switches) == (6, ("ocs1",))
    assert "h1: its agent is down; ocs1: " in said
    assert said.count("ocs1: ") == 1, "its cause, once"
    assert ". Not rolled back: ocs1. The journal holds it open" in said

    await asyncio.sleep(40)  # virtual: the way back is tried again after it failed
    left = await lab.service.rack.status()
    (one,) = left.open
    assert not left.settled
    assert (one.what, one.goes, len(one.ports)) == (CROSSED, "back", 8)
    assert left_open(one).startswith(f"reconfiguration {one.id} ({CROSSED}) open: ocs1: ")
    assert left_open(one).endswith("; goes back by itself when that is over; 8 ports held")
    assert re.search(r"\(last tried at \d\d:\d\d:\d\d\)", left_open(one))
    lab.faults.refusing = False
    await lab.until(SwitchUp)
    (one,) = (await lab.service.rack.status()).open
    assert one.why == "its switches are back, and it is tried anew", "what the last try found is over"
    await lab.until(DaemonRecovered)
    assert lab.emitted(DaemonRecovered)[-1].why.startswith("ocs1 could not be reached before, and can be now"), (
        "nothing of it is told as if it were so still"
    )
    assert (await lab.service.rack.status()).open == []


async def test_link_that_was_ready_and_fell_while_another_was_waited_for_is_not_ready(lab: Lab) -> None:
    lab.set_fault({"port": "h0.eth1", "fault": "slow-firmware", "seconds": 8})
    applying = asyncio.create_task(lab.apply(STRAIGHT, ready_within_s=18))
    await lab.until(HostEvent, type="ready", port="eth0")
    await asyncio.sleep(1)
    lab.set_fault({"port": "h0.eth0", "fault": "unplug"})
    with pytest.raises(NotReadyError, match=r"h0\.eth0<->h1\.eth0") as raised:
        await applying
    assert "h0.eth1<->h1.eth1" not in str(raised.value).partition("Outcome")[0].partition("not ready")[2]
    assert lab.emitted(ReconfigurationEnded)[-1].outcome == "rolled-back"


@pytest.mark.parametrize("past", [True, False])
async def test_what_an_earlier_boot_of_an_agent_saw_and_comes_late_takes_no_link_back_that_was_ready_since(
    lab: Lab, past: bool
) -> None:
    lab.set_fault({"port": "h0.eth1", "fault": "slow-firmware", "seconds": 8})
    applying = asyncio.create_task(lab.apply(STRAIGHT, ready_within_s=18))
    await lab.until(HostEvent, type="ready", port="eth0")
    await asyncio.sleep(1)
    fell = next(one for one in lab.emitted(HostEvent) if (one.type, one.port) == ("carrier", "eth0"))
    (one,) = lab.reconfigurer.under_way
    late = replace(fell, latest_ns=one.started_ns, data=CarrierData(carrier=False), past=past)
    lab.reconfigurer(Document(at_ns=0, wall_ns=0, fact=late))
    if past:
        assert (await applying).outcome == "confirmed"
    else:
        with pytest.raises(NotReadyError):
            await applying


async def test_link_that_fell_and_came_back_while_another_was_waited_for_is_ready(lab: Lab) -> None:
    lab.set_fault({"port": "h0.eth1", "fault": "slow-firmware", "seconds": 14})
    applying = asyncio.create_task(lab.apply(STRAIGHT, ready_within_s=30))
    await lab.until(HostEvent, type="ready", port="eth0")
    await asyncio.sleep(1)
    lab.set_fault({"port": "h0.eth0", "fault": "unplug"})
    await asyncio.sleep(0.5)
    lab.set_fault({"port": "h0.eth0", "fault": "unplug", "on": False})
    assert (await applying).outcome == "confirmed"
    readies = [event for event in lab.emitted(HostEvent) if event.type == "ready" and event.port == "eth0"]
    assert len(readies) == 4, "both ends, twice"


async def test_end_of_an_apply_is_in_the_log_once_and_a_refusal_too(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    lab.set_fault({"port": "h0.eth1", "fault": "slow-firmware", "seconds": 100})
    await late(lab)
    await lab.lease("ocs1.1", for_s=60)
    with pytest.raises(RefusedError, match="leased to ada"):
        await lab.apply(CROSSED)
    said = [one.getMessage() for one in caplog.records]
    assert len([text for text in said if "not ready within 15 s" in text]) == 1
    assert len([text for text in said if "leased to ada" in text]) == 1


async def test_recovery_says_which_of_its_causes_it_was(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await lab.apply(STRAIGHT)
    applying = asyncio.create_task(lab.apply(CROSSED, ready_within_s=15))
    await asyncio.sleep(0.1)
    await lab.die(applying)
    lab.world.start_daemon()
    await lab.until(DaemonRecovered)
    assert lab.emitted(DaemonRecovered)[-1].why == "the daemon ended before it did"
    assert lab.light() == wanted(STRAIGHT)
    told = [one.getMessage() for one in caplog.records if one.getMessage().startswith("journal: ")]
    assert not [text for text in told if "stays open" in text], "its switch was only not connected yet"
    waits, done = told
    assert waits.endswith("is brought in order once its switches are connected: ocs1: not connected yet")
    assert "is rolled-back" in done


async def test_switch_that_was_away_and_is_back_is_named_with_the_light_that_fell(lab: Lab) -> None:
    """In the message, in the record that reports show, and in the end of the run."""
    steps = (f"apply: {{pairs: '{CROSSED}'}}", "wait: {for: ready, within_s: 15}")
    away = r"ocs1 was away from \d\.\d{3} to \d\d?\.\d{3} s after the start \(.+\)"
    fell = (
        r"light fell at (?:h[01]\.eth[01] \(\d\.\d{3} s\)(?:, |; )){4}ocs1 reports 1A-4B, 2A-3B, 3A-2B, 4A-1B no more"
    )
    await lab.apply(STRAIGHT, ready_within_s=15)
    run = await lab.start_run(*steps)
    await lab.until(ReconfigurationState, state="waiting")
    asyncio.get_running_loop().call_later(3, lab.faults.reboot, 0.5)
    await lab.until(RunEnded, run=run)
    (why,) = [end.why for end in lab.emitted(ReconfigurationEnded) if end.run == run]
    assert re.search(rf"Meanwhile: {away}; {fell}", why), why
    (end,) = [end for end in lab.emitted(RunEnded) if end.run == run]
    assert why in end.why


async def test_switch_that_was_away_without_harm_is_a_remark(lab: Lab) -> None:
    asyncio.get_running_loop().call_later(2, lab.faults.reset)
    assert (await lab.apply(STRAIGHT, ready_within_s=30)).outcome == "confirmed"
    (end,) = lab.emitted(ReconfigurationEnded)
    assert end.remarks
    (remark,) = end.remarks
    assert re.fullmatch(r"ocs1 was away from 2\.\d{3} to 2\.\d{3} s after the start \(.+\)", remark)


async def test_status_says_why_a_switch_cannot_be_reached_now_and_not_why_it_went(lab: Lab) -> None:
    lab.faults.reboot(20)
    await lab.until(SwitchDown)
    await asyncio.sleep(5)
    assert "connection lost" in lab.emitted(SwitchDown)[-1].cause
    (switch,) = (await lab.service.rack.status()).switches
    assert "nothing listens there" in switch.cause
    began_s = asyncio.get_running_loop().time()
    await lab.until(SwitchUp)
    assert asyncio.get_running_loop().time() - began_s < 16, "a twin that is back is found within a second"
    (switch,) = (await lab.service.rack.status()).switches
    assert (switch.up, switch.cause) == (True, "")


# --- remarks: what is no failure and is reported all the same; failures of several switches are one line


def pairs(text: str) -> tuple[Crossconnect, ...]:
    return tuple(map(Crossconnect.parse, text.split()))


def moves(*, add: str = "", keep: str = "", before: str = "", lasting: str = "") -> SwitchMoves:
    return SwitchMoves(
        switch="ocs1", remove=(), add=pairs(add), keep=pairs(keep), before=pairs(before), lasting=pairs(lasting)
    )


def states(text: str, state: CrossconnectState = CrossconnectState.TUNED) -> Mapping[Crossconnect, CrossconnectState]:
    return dict.fromkeys(pairs(text), state)


@pytest.mark.parametrize(
    ("mode", "others", "said"),
    [
        (ApplyMode.UPDATE, "", ("ocs1: 5A-6B was there before and is gone; it was not to be touched",)),
        (ApplyMode.UPDATE, "ocs1.6", ()),
        (ApplyMode.OVERWRITE, "", ()),
    ],
)
def test_what_others_had_and_is_gone_is_remarked(mode: ApplyMode, others: str, said: tuple[str, ...]) -> None:
    move = moves(add="1A-2B", keep="7A-8B", before="5A-6B 7A-8B")
    assert read_back_remarks(move, states("1A-2B 7A-8B"), mode, others=frozenset(others.split())) == said


def test_one_that_stays_and_is_held_dark_is_remarked() -> None:
    there = states("1A-2B", CrossconnectState.BLOCKED)
    (said,) = read_back_remarks(moves(keep="1A-2B", before="1A-2B"), there, ApplyMode.UPDATE)
    assert said == "ocs1: 1A-2B stayed, and is held dark by a shutter or an override"


def test_failures_of_several_switches_are_one_line_of_the_first_kind() -> None:
    denied = DeviceError("ocs2: SROF", device="ocs2", command="ENT-PATCH", code="SROF", text="")
    raise_joined([])
    with pytest.raises(LinkError, match=r"^ocs1: is down$"):
        raise_joined([LinkError("ocs1: is down")])
    with pytest.raises(DeviceError, match=r"^ocs2: SROF; ocs1: is down$") as raised:
        raise_joined([denied, LinkError("ocs1: is down")])
    assert raised.value.code == "SROF"
