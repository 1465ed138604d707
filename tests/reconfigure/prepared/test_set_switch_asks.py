"""Processes of hosts switch prepared sets by asks: once, in time, with a port of their host in it, or not at all."""

import asyncio
from typing import Any

import pytest

from hwd.model.bodies import EpochBody
from hwd.model.prepared_set import PreparedSetStatus
from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationStarted
from hwd.sim.rank import Rank
from hwd.sim.world import DAEMON

from ..conftest import CROSSED, STRAIGHT, Lab, wanted
from ..test_transfers import go


async def prepared_and_rank(lab: Lab, *, host: str = "h0", **more: Any) -> tuple[PreparedSetStatus, Rank]:
    return await lab.prepare(**more), await Rank.connect(lab.world, host)


def switches(lab: Lab) -> list[str]:
    """The reconfigurations of prepared sets that moved something, or would have."""
    return [one.reconfiguration for one in lab.emitted(ReconfigurationStarted) if one.prepared_set]


async def test_rank_switches_a_set_and_hears_once_it_is_confirmed(lab: Lab) -> None:
    prepared, rank = await prepared_and_rank(lab)
    for target, what in (("straight", STRAIGHT), ("crossed", CROSSED)):
        answer = await rank.switch_set(prepared.id, target)
        assert (answer["outcome"], answer["target"], answer["why"]) == ("switched", target, "")
        assert (lab.light(), lab.the_set().at) == (wanted(what), target)
        (ended,) = [
            one for one in lab.emitted(ReconfigurationEnded) if one.reconfiguration == answer["reconfiguration"]
        ]
        assert ended.outcome == "confirmed"
        newest = (await lab.service.light.history(limit=1))[-1]
        assert (newest.id, newest.by, newest.verified) == (answer["reconfiguration"], "rank on h0", False)


async def test_ask_that_comes_twice_switches_once(lab: Lab) -> None:
    prepared, rank = await prepared_and_rank(lab)
    lab.world.broker.repeat_qos1 = True
    answer = await rank.switch_set(prepared.id, "straight")
    await asyncio.sleep(0.5)
    assert (answer["outcome"], switches(lab)) == ("switched", [answer["reconfiguration"]])


async def test_switch_that_is_asked_for_again_by_its_id_is_refused_with_what_became_of_it(lab: Lab) -> None:
    prepared, rank = await prepared_and_rank(lab)
    first = await rank.switch_set(prepared.id, "straight", reconfiguration="first000")
    assert (first["outcome"], first["reconfiguration"]) == ("switched", "first000")
    await lab.switch(prepared, "crossed")
    for _ in range(2):
        again = await rank.switch_set(prepared.id, "straight", reconfiguration="first000")
        assert (again["outcome"], "confirmed" in again["why"], "not done again" in again["why"]) == (
            "refused",
            True,
            True,
        )
        assert lab.light() == wanted(CROSSED)
        await lab.restart()


async def test_late_ask_is_not_done(lab: Lab) -> None:
    prepared, rank = await prepared_and_rank(lab)
    lab.world.bus_delay_s = 1.5
    answer = await rank.switch_set(prepared.id, "straight", within_s=1)
    await asyncio.sleep(5)
    assert (answer["outcome"], "nothing moves" in answer["why"]) == ("failed", True)
    assert (lab.light(), switches(lab), lab.the_set().at) == (set(), [], "before")
    lab.world.bus_delay_s = 0.0
    assert (await rank.switch_set(prepared.id, "straight"))["outcome"] == "switched"


async def test_switch_that_lasts_longer_than_its_ask_ends_and_a_repetition_moves_nothing(lab: Lab) -> None:
    prepared, rank = await prepared_and_rank(lab)
    lab.set_fault({"switch": "ocs1", "fault": "slow", "seconds": 1.0})
    began_s = asyncio.get_running_loop().time()
    answer = await rank.switch_set(prepared.id, "straight", within_s=0.3)
    assert (answer["outcome"], "did not answer within 0.3 s" in answer["why"]) == ("failed", True)
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(0.8, abs=0.05)
    again = await rank.switch_set(prepared.id, "straight")
    assert (again["outcome"], answer["reconfiguration"] in again["why"]) == ("refused", True)
    await asyncio.sleep(5)
    assert lab.ends(answer["reconfiguration"]) == [("confirmed", "")]
    lab.set_fault({"fault": "clear"})
    changes: list[int] = []
    lab.world.rack.switches["ocs1"].mirror.on_change.append(changes.append)
    assert (await rank.switch_set(prepared.id, "straight"))["outcome"] == "switched"
    assert (changes, lab.light()) == ([], wanted(STRAIGHT))


async def test_host_without_a_port_in_the_set_is_refused(lab: Lab) -> None:
    prepared = await lab.prepare({"out": {"what": "ocs1:1A-5B,5A-1B"}})
    assert not [port for port in prepared.ports if port.startswith("h1.")]
    stranger, own = await Rank.connect(lab.world, "h1"), await Rank.connect(lab.world, "h0")
    answer = await stranger.switch_set(prepared.id, "out")
    assert (answer["outcome"], "host h1 has no port in it" in answer["why"]) == ("refused", True)
    assert lab.light() == set()
    assert (await own.switch_set(prepared.id, "out"))["outcome"] == "switched"


async def test_switch_under_a_transfer_of_another_rank_is_refused_until_it_ends(lab: Lab) -> None:
    prepared, rank = await prepared_and_rank(lab)
    await lab.switch(prepared, "straight")
    sending, transfer = await go(lab, host="h1", phase="all-reduce 7")
    refused = await rank.switch_set(prepared.id, "crossed")
    assert (refused["outcome"], f"h1/{transfer}" in refused["why"]) == ("refused", True)
    assert lab.light() == wanted(STRAIGHT)
    await sending.end(transfer)
    await asyncio.sleep(0.1)
    assert (await rank.switch_set(prepared.id, "crossed"))["outcome"] == "switched"


async def test_switch_under_another_epoch_or_without_its_lease_is_refused(lab: Lab) -> None:
    held = await lab.lease("all")
    prepared, rank = await prepared_and_rank(lab, lease=held)
    (epoch,) = [one.epoch for one in lab.service.leases.leases() if one.lease == held]
    assert isinstance(epoch, int)
    stale = await rank.switch_set(prepared.id, "straight", epoch=epoch + 1)
    assert (stale["outcome"], "epoch" in stale["why"], lab.light()) == ("refused", True, set())
    assert (await rank.switch_set(prepared.id, "straight", epoch=epoch))["outcome"] == "switched"
    await lab.in_daemon(lab.service.leases.release(held, EpochBody()))
    await asyncio.sleep(0.1)
    over = await rank.switch_set(prepared.id, "crossed")
    assert (over["outcome"], f"its lease {held} has ended (released)" in over["why"]) == ("refused", True)
    assert lab.light() == wanted(STRAIGHT)


async def test_difference_is_a_failure_that_says_where_the_switches_are(lab: Lab) -> None:
    prepared, rank = await prepared_and_rank(lab)
    await lab.switch(prepared, "straight")
    lab.set_fault({"switch": "ocs1", "fault": "partial", "pairs": 1})
    answer = await rank.switch_set(prepared.id, "crossed")
    assert (answer["outcome"], "Outcome: rolled-back" in answer["why"]) == ("failed", True)
    assert (lab.the_set().at, lab.light()) == ("straight", wanted(STRAIGHT))


async def test_daemon_that_dies_in_a_switch_fails_the_ask_in_bounded_time(lab: Lab) -> None:
    prepared, rank = await prepared_and_rank(lab)
    lab.set_fault({"switch": "ocs1", "fault": "slow", "seconds": 2})
    began_s = asyncio.get_running_loop().time()
    asking = asyncio.create_task(rank.switch_set(prepared.id, "straight", within_s=5))
    await asyncio.sleep(0.5)
    lab.world.kill(DAEMON)
    answer = await asking
    assert (answer["outcome"], "Is `hwd serve` running?" in answer["why"]) == ("failed", True)
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(5.5, abs=0.1)
    lab.set_fault({"fault": "clear"})
    await lab.restart()
    await asyncio.sleep(10)  # its rule, if the crash left the switch half done
    assert (await rank.switch_set(prepared.id, "straight"))["outcome"] == "switched"
    assert lab.light() == wanted(STRAIGHT)


async def test_switch_goes_on_when_its_process_goes_away(lab: Lab) -> None:
    prepared, rank = await prepared_and_rank(lab)
    lab.set_fault({"switch": "ocs1", "fault": "slow", "seconds": 0.5})
    asking = asyncio.create_task(rank.switch_set(prepared.id, "straight"))
    await asyncio.sleep(0.1)
    rank.leave()
    assert (await asking)["outcome"] == "gone"
    await lab.until(ReconfigurationEnded, outcome="confirmed")
    assert lab.light() == wanted(STRAIGHT)


async def test_switches_without_an_answer_leave_the_asks_of_transfers_alone(lab: Lab) -> None:
    prepared, rank = await prepared_and_rank(lab)
    lab.world.kill(DAEMON)
    asking = [asyncio.create_task(rank.switch_set(prepared.id, "straight", within_s=60)) for _ in range(17)]
    answered, pending = await asyncio.wait(asking, timeout=1)
    assert [one.result()["outcome"] for one in answered] == ["refused"]
    assert "16 switches" in answered.pop().result()["why"]
    await lab.start()
    await go(lab, host="h0")
    assert {(await one)["outcome"] for one in pending} == {"failed"}
