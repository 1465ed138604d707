"""A reconfiguration has one end, whoever asks for it, and however often."""

import asyncio
from typing import Any

import pytest

from hwd.reconfigure.reconfiguration import Reconfiguration, State
from hwd.sim.world import agent_node
from hwd_drivers.kit.errors import FailedError, HwdError, NotReadyError, RefusedError
from hwd_drivers.kit.server import Denial

from .conftest import CROSSED, STRAIGHT, Lab, RunLab


def light(lab: Lab) -> set[str]:
    return set(lab.light().removeprefix("ocs1:").split(","))


def wanted(what: str) -> set[str]:
    return set(what.removeprefix("ocs1:").split(","))


def told_apart(what: str) -> list[str]:
    """In the order of their ports."""
    return sorted(wanted(what), key=lambda one: int(one.partition("A")[0]))


async def held(lab: Lab) -> Reconfiguration:
    """Straight is confirmed, crossed is driven and waits for a confirm."""
    await lab.service.apply(lab.request(STRAIGHT))
    await lab.service.apply(lab.request(CROSSED, confirm_within_s=1200))
    (one,) = lab.reconfigurer.under_way
    return one


def ends(lab: Lab) -> list[Any]:
    return [end["outcome"] for end in lab.told("reconfiguration.ended")]


def test_confirm_and_roll_back_at_once_have_one_winner(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        one = await held(lab)
        await asyncio.gather(lab.reconfigurer.confirm(one), lab.reconfigurer.roll_back(one, "asked for"))
        assert ends(lab) == ["confirmed", "confirmed"]
        assert light(lab) == wanted(CROSSED)
        assert len(lab.told("timeline")) == 2

    run_lab(test)


def test_roll_back_first_refuses_the_confirm(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        one = await held(lab)
        back = asyncio.create_task(lab.reconfigurer.roll_back(one, "asked for"))
        await asyncio.sleep(0)
        with pytest.raises(RefusedError, match="too late"):
            await lab.reconfigurer.confirm(one)
        await back
        assert ends(lab) == ["confirmed", "rolled-back"]
        assert light(lab) == wanted(STRAIGHT)

    run_lab(test)


def test_cancelled_roll_back_goes_on_to_its_end(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        one = await held(lab)
        back = asyncio.create_task(lab.reconfigurer.roll_back(one, "asked for"))
        await asyncio.sleep(0.05)
        back.cancel()
        await asyncio.gather(back, return_exceptions=True)
        await lab.reconfigurer.close()
        assert one.state is State.ENDED
        assert ends(lab) == ["confirmed", "rolled-back"]
        assert light(lab) == wanted(STRAIGHT)
        await lab.service.apply(lab.request(CROSSED))

    run_lab(test)


def test_abort_in_the_roll_back_of_a_run_that_was_not_ready_waits_for_it(run_lab: RunLab) -> None:
    playbook = f"""
playbook: late
shows: a link that is not ready in time
steps:
  - apply: {{pairs: "{CROSSED}"}}
  - wait: {{for: ready, within_s: 1}}
"""

    async def test(lab: Lab) -> None:
        await lab.service.apply(lab.request(STRAIGHT))
        run = str((await lab.service.start_run(text=playbook, file="late.yaml", parameters={}))["run"])
        await lab.until("reconfiguration.state", state="rolling-back")
        await asyncio.sleep(0.05)
        end = await lab.service.abort_run(run, by="ada")
        assert end["safe_state"] == "before-apply"
        assert light(lab) == wanted(STRAIGHT)
        assert lab.reconfigurer.under_way == ()

    run_lab(test)


def test_wait_that_somebody_rolls_back_ends_at_once_and_says_so(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        one = await held(lab)
        began_s = asyncio.get_running_loop().time()
        waiting = asyncio.create_task(lab.reconfigurer.wait_ready(one, within_s=86_400))
        await asyncio.sleep(0.5)
        await lab.reconfigurer.roll_back(one, "asked for by ada")
        with pytest.raises(FailedError, match="rolled-back meanwhile: asked for by ada"):
            await waiting
        assert asyncio.get_running_loop().time() - began_s < 5
        assert light(lab) == wanted(STRAIGHT)

    run_lab(test)


def test_wait_that_somebody_confirms_ends_with_the_light_as_it_is(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        one = await held(lab)
        waiting = asyncio.create_task(lab.reconfigurer.wait_ready(one, within_s=86_400))
        await asyncio.sleep(0.5)
        await lab.reconfigurer.confirm(one)
        await waiting
        assert one.state is State.ENDED
        assert light(lab) == wanted(CROSSED)

    run_lab(test)


def test_what_has_ended_is_not_waited_for_any_more(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        one = await held(lab)
        await lab.reconfigurer.roll_back(one, "asked for")
        with pytest.raises(FailedError, match="rolled-back meanwhile"):
            await lab.reconfigurer.wait_ready(one, within_s=15)
        with pytest.raises(RefusedError, match="somebody has ended it already"):
            await lab.reconfigurer.await_confirm(one, within_s=15)
        assert one.state is State.ENDED

    run_lab(test)


def test_roll_back_that_is_denied_is_tried_again_until_it_is_done(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        one = await held(lab)
        lab.world.rack.switches["ocs1"].faults.deny_next = Denial(code="SROF", text="busy")
        await lab.reconfigurer.roll_back(one, "asked for")
        assert ends(lab)[-1] == "failed"
        with pytest.raises(RefusedError, match=r"not undone yet|has not ended"):
            await lab.service.apply(lab.request(CROSSED))
        with pytest.raises(RefusedError, match="has not ended"):
            await lab.service.take_lease(holder="ada", ports=["ocs1.1"], for_s=60)
        if not lab.told("daemon.recovered"):
            await lab.until("daemon.recovered")
        assert light(lab) == wanted(STRAIGHT)
        await lab.service.take_lease(holder="ada", ports=["ocs1.1"], for_s=60)

    run_lab(test)


def test_what_is_left_open_can_be_given_up_and_stays_as_it_is(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        one = await held(lab)
        with pytest.raises(RefusedError, match=r"it is under way, `hwd rollback` ends it. Left open: none"):
            await lab.service.give_up(one.id, by="ada")
        faults = lab.world.rack.switches["ocs1"].faults
        faults.refusing = True
        faults.reset()
        await lab.reconfigurer.roll_back(one, "asked for")
        assert ends(lab)[-1] == "failed"
        with pytest.raises(
            RefusedError, match=r"reconfiguration other: cannot be given up, it is not left open. Left open: " + one.id
        ):
            await lab.service.give_up("other", by="ada")
        with pytest.raises(RefusedError, match=f"`hwd give-up {one.id}` leaves it as it is"):
            await lab.service.apply(lab.request(CROSSED))
        told = await lab.service.give_up(one.id, by="ada")
        assert told["left"] == ["ocs1: " + ", ".join(f"{each} unstated" for each in told_apart(CROSSED))]
        assert [document["by"] for document in lab.told("journal.given-up")] == ["ada"]
        assert lab.reconfigurer.left_open == ()
        await lab.service.take_lease(holder="ada", ports=["ocs1.1"], for_s=60)
        faults.refusing = False
        await lab.until("switch.up")
        await asyncio.sleep(60)
        assert light(lab) == wanted(CROSSED), "nobody brings it back"
        assert not lab.told("daemon.recovered")
        with pytest.raises(RefusedError, match="it is not left open"):
            await lab.service.give_up(one.id, by="ada")

    run_lab(test)


def test_ports_that_may_go_back_cannot_be_leased_meanwhile(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        one = await held(lab)
        for host in ("h0", "h1"):
            lab.world.kill(agent_node(host))  # they have no part in it, and would sample all the while
        await asyncio.sleep(900)
        with pytest.raises(RefusedError, match="has not ended"):
            await lab.service.take_lease(holder="ada", ports=["ocs1.3"], for_s=60)
        await lab.reconfigurer.confirm(one)
        await lab.service.take_lease(holder="ada", ports=["ocs1.3"], for_s=60)

    run_lab(test)


def test_confirmed_stays_when_the_journal_cannot_take_its_end(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        one = await held(lab)
        disk = lab.world.journal_disk
        disk.capacity_bytes = disk.size()
        await lab.reconfigurer.confirm(one)
        assert ends(lab) == ["confirmed", "confirmed"]
        await lab.reconfigurer.recover()
        assert light(lab) == wanted(CROSSED)
        disk.capacity_bytes = None
        await lab.reconfigurer.recover()
        await lab.service.apply(lab.request(STRAIGHT))
        assert light(lab) == wanted(STRAIGHT)

    run_lab(test)


def test_full_disk_before_the_first_command_sends_nothing(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        disk = lab.world.journal_disk
        disk.capacity_bytes = disk.size()
        with pytest.raises(FailedError, match="Nothing was sent"):
            await lab.service.apply(lab.request(STRAIGHT))
        assert lab.told("switch.command") == []
        disk.capacity_bytes = None
        await lab.service.apply(lab.request(STRAIGHT))

    run_lab(test)


def test_change_by_hand_between_plan_and_command_is_refused(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        mirror = lab.world.rack.switches["ocs1"].mirror
        applying = asyncio.create_task(lab.service.apply(lab.request(STRAIGHT)))
        await asyncio.sleep(0.0005)  # virtual: planned, and the agents are being told what to watch
        assert lab.told("reconfiguration.started") == []
        request = lab.request("ocs1:5A-3B")
        mirror.connect([one.crossconnect for one in request.crossconnects], lab.world.clock.monotonic_ns(), move=True)
        with pytest.raises(RefusedError, match=r"changed meanwhile by somebody else \(5A-3B\)"):
            await applying
        assert lab.light() == "ocs1:5A-3B"

    run_lab(test)


def test_three_unconfirmed_changes_go_back_at_once_when_the_daemon_ends(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await held(lab)
        await lab.world.stop("daemon")
        assert light(lab) == wanted(STRAIGHT)
        assert ends(lab)[-1] == "rolled-back"

    run_lab(test)


def test_end_of_one_run_does_not_forget_the_other(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        first = await lab.reconfigurer.begin(lab.request("ocs1:1A-3B"), run="first")
        await lab.reconfigurer.confirm(first)
        second = await lab.reconfigurer.begin(lab.request("ocs1:2A-4B"), run="second")
        assert lab.reconfigurer.last_of("first") == (first,)
        assert lab.reconfigurer.last_of("second") == (second,)
        lab.reconfigurer.forget("first")
        assert lab.reconfigurer.last_of("first") == ()
        await lab.reconfigurer.roll_back(second, "enough")

    run_lab(test)


def test_what_is_seen_on_the_way_back_is_no_breach(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        with pytest.raises((NotReadyError, HwdError)):
            await lab.service.apply(lab.request(STRAIGHT, ready_within_s=3.2))
        assert lab.told("timeline")[-1]["breaches"] == []

    run_lab(test)
