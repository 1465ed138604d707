"""Transfers in flight in a small world: no reconfiguration starts under one, and none is let onto ports that move."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from hwd.model.interlock import InterlockName
from hwd.model.prepared_set import SetSettled
from hwd.model.reconfiguration import ReconfigurationEnded
from hwd.model.transfer import TransferClaimed, TransferCut, TransferEnded
from hwd.reconfigure.apply.reconfiguration import Reconfiguration
from hwd.records.records import Records
from hwd.sim.rank import Rank
from hwd.sim.world import DAEMON, agent_node
from hwd_agents.bus.memory import MemoryBus
from hwd_agents.bus.protocol import Incoming
from hwd_agents.wire import decode
from hwd_agents.wire.messages import Answer
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.devices.facts import SwitchUp

from .conftest import CROSSED, EXAMPLE, STRAIGHT, Lab, of_testbed, wanted


def with_keys(**keys: str) -> str:
    return EXAMPLE + "\n" + "\n".join(f"{key}: {value}" for key, value in keys.items()) + "\n"


async def go(lab: Lab, *links: str, host: str = "h0", within_s: float = 30.0, **more: Any) -> tuple[Rank, str]:
    rank = await Rank.connect(lab.world, host)
    answer = await rank.claim(*links or ("eth0",), within_s=within_s, **more)
    assert answer["outcome"] == "go", answer
    return rank, answer["transfer"]


async def applied(lab: Lab, what: str, **more: Any) -> Reconfiguration:
    begun = await lab.begin(what, **more)
    await lab.reconfigurer.confirm(begun)
    return begun


async def test_apply_is_refused_under_a_transfer_with_who_what_and_the_remedy(lab: Lab) -> None:
    await applied(lab, STRAIGHT)
    rank, transfer = await go(lab, phase="all-reduce 7")
    light = lab.light()
    with pytest.raises(RefusedError) as refused:
        await lab.begin(CROSSED)
    text = str(refused.value)
    assert all(part in text for part in (f"h0/{transfer}", "rank on h0", "all-reduce 7", "UTC", "--drain-within"))
    assert re.search(r"for another (30\.0|29\.9) s at most", text)
    assert lab.light() == light
    await rank.end(transfer)
    await asyncio.sleep(0.1)
    await applied(lab, CROSSED)


async def test_ports_of_other_light_are_free_to_move(lab: Lab) -> None:
    await applied(lab, STRAIGHT)
    await go(lab, "h0.eth1<->h1.eth1")
    await applied(lab, "ocs1:1A-5B,5A-1B")


async def test_transfer_waits_for_ports_that_move_as_long_as_it_says(lab: Lab) -> None:
    begun = await lab.begin(STRAIGHT)
    rank, late = await Rank.connect(lab.world, "h0"), await Rank.connect(lab.world, "h0")
    waiting = asyncio.create_task(rank.claim("eth0", within_s=5, wait_s=10))
    for wait_s in (0.0, 1.0):
        refused = await late.claim("eth0", within_s=5, wait_s=wait_s)
        assert (refused["outcome"], begun.id in refused["why"]) == ("refused", True)
    await lab.reconfigurer.confirm(begun)
    assert (await waiting)["outcome"] == "go"


async def test_claim_and_apply_at_the_same_moment_never_both(lab: Lab) -> None:
    await applied(lab, STRAIGHT)
    rank = await Rank.connect(lab.world, "h0")
    ways = [CROSSED, STRAIGHT]

    async def claim(after_s: float) -> str | None:
        await asyncio.sleep(after_s)
        answer = await rank.claim("eth0", within_s=30)
        return answer["transfer"] if answer["outcome"] == "go" else None

    async def apply() -> Reconfiguration | None:
        await asyncio.sleep(0.003)
        try:
            return await lab.begin(ways[0])
        except RefusedError:
            return None

    seen = set[bool]()
    for step in range(0, 60, 3):
        transfer, begun = await asyncio.gather(claim(0.0001 * step), apply())
        assert (transfer is None) != (begun is None), step
        seen.add(begun is None)
        if begun is not None:
            await lab.reconfigurer.confirm(begun)
            ways.reverse()
        if transfer is not None:
            await rank.end(transfer)
        await asyncio.sleep(0.1)
    assert seen == {True, False}, "either came first"


async def test_drain_waits_for_the_end_and_lets_no_new_one_on(lab: Lab) -> None:
    await applied(lab, STRAIGHT)
    rank, transfer = await go(lab)
    draining = asyncio.create_task(lab.begin(CROSSED, drain_within_s=10))
    await asyncio.sleep(1)
    (status,) = (await lab.service.rack.status()).transfers
    assert status.drained_by is not None
    assert status.left_s == pytest.approx(29, abs=0.1)
    other = await rank.claim("eth0", within_s=5)
    assert (other["outcome"], "waits for the end of the transfers" in other["why"]) == ("refused", True)
    await rank.end(transfer)
    begun = await draining
    assert begun.state == "driven"
    await lab.reconfigurer.confirm(begun)
    assert (await rank.claim("eth0", within_s=5))["outcome"] == "go"


async def test_drain_gives_up_at_its_deadline_and_lets_transfers_on_again(lab: Lab) -> None:
    await applied(lab, STRAIGHT)
    rank, _ = await go(lab)
    began_s = asyncio.get_running_loop().time()
    with pytest.raises(RefusedError, match="transfer-in-flight"):
        await lab.begin(CROSSED, drain_within_s=3)
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(3, abs=0.1)
    assert (await rank.claim("eth1", within_s=5))["outcome"] == "go"


async def test_transfer_ends_with_its_longest_time_and_its_process_hears_so_and_with_its_connection(lab: Lab) -> None:
    await applied(lab, STRAIGHT)
    rank, transfer = await go(lab, within_s=2)
    await asyncio.sleep(2.5)
    assert "longest time of 2 s" in rank.over[transfer]
    assert (await rank.end(transfer))["outcome"] == "over"
    await applied(lab, CROSSED)
    rank, _ = await go(lab)
    rank.leave()
    await asyncio.sleep(0.1)
    assert (await lab.service.rack.status()).transfers == []
    await applied(lab, STRAIGHT)


async def test_wait_of_a_process_that_went_away_claims_nothing(lab: Lab) -> None:
    begun = await lab.begin(STRAIGHT)
    rank = await Rank.connect(lab.world, "h0")
    waiting = asyncio.create_task(rank.claim("eth0", within_s=30, wait_s=20))
    await asyncio.sleep(0.5)
    rank.leave()
    assert (await waiting)["outcome"] == "gone"
    await asyncio.sleep(0.1)
    await lab.reconfigurer.confirm(begun)
    await asyncio.sleep(0.1)
    assert (await lab.service.rack.status()).transfers == []


async def test_transfers_end_with_the_boot_of_their_agent(lab: Lab) -> None:
    await applied(lab, STRAIGHT)
    rank, _ = await go(lab)
    lab.world.kill(agent_node("h0"))
    await asyncio.wait_for(rank.gone.wait(), 1)
    assert len((await lab.service.rack.status()).transfers) == 1, "an agent that is away may come back"
    lab.world.start_agent("h0")
    await lab.until(TransferEnded, why="its agent was started anew")
    await applied(lab, CROSSED)


async def test_host_that_is_away_keeps_its_transfers_until_their_longest_time(lab: Lab) -> None:
    await applied(lab, STRAIGHT)
    await go(lab, within_s=20)
    lab.world.kill(agent_node("h0"))
    await asyncio.sleep(15)
    with pytest.raises(RefusedError, match="transfer-in-flight"):
        await lab.begin(CROSSED)
    await asyncio.sleep(6)
    await applied(lab, CROSSED)


async def test_restarted_daemon_starts_nothing_under_a_transfer(lab: Lab) -> None:
    await applied(lab, STRAIGHT)
    rank, transfer = await go(lab, within_s=60)
    lab.world.kill(DAEMON)
    lab.world.start_daemon()
    await lab.until(SwitchUp)
    with pytest.raises(RefusedError, match=r"transfer-in-flight.* (may be sending|is in flight)"):
        await lab.begin(CROSSED)
    await lab.world.settled()
    await asyncio.sleep(1)
    (status,) = (await lab.service.rack.status()).transfers
    assert status.transfer == f"h0/{transfer}"
    await rank.end(transfer)
    await asyncio.sleep(0.1)
    await applied(lab, CROSSED)


@of_testbed(with_keys(transfers="{longest_s: 20}"))
async def test_host_that_never_reports_is_at_rest_after_the_longest_time(lab: Lab) -> None:
    await applied(lab, STRAIGHT)
    await go(lab, within_s=15)
    lab.world.kill(agent_node("h0"))
    lab.world.kill(DAEMON)
    lab.world.start_daemon()
    await asyncio.sleep(10)
    with pytest.raises(RefusedError, match="h0 may be sending over it"):
        await lab.begin(CROSSED)
    await asyncio.sleep(11)
    await applied(lab, CROSSED)


async def test_broker_cut_fails_a_claim_in_bounded_time_with_the_remedy(lab: Lab) -> None:
    await applied(lab, STRAIGHT)
    rank = await Rank.connect(lab.world, "h0")
    lab.world.broker.stop()
    await asyncio.sleep(0.01)
    began_s = asyncio.get_running_loop().time()
    answer = await rank.claim("eth0", within_s=5)
    assert (answer["outcome"], "Try again" in answer["why"]) == ("failed", True)
    assert asyncio.get_running_loop().time() - began_s < 0.1
    lab.world.broker.start()


async def test_dead_daemon_fails_a_claim_in_bounded_time_and_nothing_stays_claimed(lab: Lab) -> None:
    await applied(lab, STRAIGHT)
    rank = await Rank.connect(lab.world, "h0")
    lab.world.kill(DAEMON)
    began_s = asyncio.get_running_loop().time()
    answer = await rank.claim("eth0", within_s=5)
    assert (answer["outcome"], "Is `hwd serve` running?" in answer["why"]) == ("failed", True)
    assert asyncio.get_running_loop().time() - began_s < 3
    await lab.start()
    await asyncio.sleep(2)
    assert (await lab.service.rack.status()).transfers == []


async def test_expired_confirm_drains_then_cuts_and_tells_everybody(lab: Lab) -> None:
    await applied(lab, STRAIGHT)
    begun = await lab.begin(CROSSED, confirm_within_s=5)
    await lab.in_daemon(lab.reconfigurer.completion.await_confirm(begun))
    rank, transfer = await go(lab, within_s=60)
    began_s = asyncio.get_running_loop().time()
    await lab.until(ReconfigurationEnded, reconfiguration=begun.id, outcome="rolled-back")
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(7, abs=0.5)
    (cut,) = lab.emitted(TransferCut)
    assert (cut.transfer, cut.reconfiguration) == (f"h0/{transfer}", begun.id)
    assert cut.waited_s == pytest.approx(2, abs=0.01)
    (ended,) = [one for one in lab.emitted(ReconfigurationEnded) if one.reconfiguration == begun.id]
    assert any("was cut, after a wait of 2.0 s" in remark for remark in ended.remarks or [])
    await asyncio.sleep(0.1)
    assert begun.id in rank.over[transfer]
    assert "1A-3B" in lab.light()


async def test_way_back_does_not_wait_longer_than_the_transfer(lab: Lab) -> None:
    await applied(lab, STRAIGHT)
    begun = await lab.begin(CROSSED, confirm_within_s=60)
    await lab.in_daemon(lab.reconfigurer.completion.await_confirm(begun))
    rank, transfer = await go(lab, within_s=60)
    back = asyncio.create_task(lab.reconfigurer.roll_back(begun, "asked for"))
    await asyncio.sleep(0.5)
    assert "1A-4B" in lab.light(), "it waits"
    assert (await rank.claim("eth0", within_s=5))["outcome"] == "refused"
    await rank.end(transfer)
    await back
    assert lab.emitted(TransferCut) == []
    assert "1A-3B" in lab.light()


async def test_confirm_that_ended_while_the_daemon_was_away_drains_by_the_report(lab: Lab) -> None:
    await applied(lab, STRAIGHT)
    begun = await lab.begin(CROSSED, confirm_within_s=5)
    await lab.in_daemon(lab.reconfigurer.completion.await_confirm(begun))
    _, transfer = await go(lab, within_s=60)
    lab.world.kill(DAEMON)
    await asyncio.sleep(6)
    lab.world.start_daemon()
    await lab.until(TransferCut)
    cuts = lab.emitted(TransferCut)
    assert f"h0/{transfer}" in {one.transfer for one in cuts}
    assert {one.reconfiguration for one in cuts} == {begun.id}


@of_testbed(with_keys(drift="restore"))
async def test_restored_drift_cuts_after_its_drain(lab: Lab) -> None:
    await applied(lab, STRAIGHT)
    await go(lab, within_s=600)
    lab.set_fault({"switch": "ocs1", "fault": "panel", "add": ["1A-5B"]})
    await lab.until(TransferCut)
    await lab.until(ReconfigurationEnded, outcome="confirmed")
    assert "1A-3B" in lab.light()


async def test_plan_lists_the_transfer_as_an_interlock_and_its_hash_is_applied_after_a_drain(lab: Lab) -> None:
    await applied(lab, STRAIGHT)
    before = await lab.plan(CROSSED)
    rank, transfer = await go(lab)
    now = await lab.plan(CROSSED)
    assert now.hash == before.hash
    (refused,) = now.refused
    assert (refused.name, refused.figure, refused.limit) == (InterlockName.TRANSFER_IN_FLIGHT, 1, 0)
    applying = asyncio.create_task(lab.apply("", hash=before.hash, drain_within_s=10))
    await asyncio.sleep(1)
    await rank.end(transfer)
    assert (await applying).outcome == "confirmed"


@of_testbed(with_keys(interlocks="{transfer-in-flight: {override: allowed}}"))
async def test_override_cuts_with_its_reason_where_the_testbed_allows_it(lab: Lab) -> None:
    await applied(lab, STRAIGHT)
    await go(lab)
    begun = await applied(lab, CROSSED, overrides={"transfer-in-flight": "the job hangs"})
    (cut,) = lab.emitted(TransferCut)
    assert cut.reconfiguration == begun.id
    assert [one.reason for one in begun.plan.overridden] == ["the job hangs"]


async def test_messages_that_come_twice_claim_and_end_once(lab: Lab) -> None:
    lab.world.broker.repeat_qos1 = True
    rank, transfer = await go(lab)
    assert (await rank.end(transfer))["outcome"] == "ended"
    await asyncio.sleep(0.5)
    assert len(lab.emitted(TransferClaimed)) == len(lab.emitted(TransferEnded)) == 1
    assert (await lab.service.rack.status()).transfers == []


async def test_transfer_beyond_the_longest_time_or_on_a_strange_port_is_refused(lab: Lab) -> None:
    rank = await Rank.connect(lab.world, "h0")
    assert "up to 600 s" in (await rank.claim("eth0", within_s=601))["why"]
    assert "no port or link of host h0" in (await rank.claim("h1.eth0", within_s=5))["why"]


async def test_nothing_of_transfers_but_cuts_is_recorded(lab: Lab, tmp_path: Path) -> None:
    rank, transfer = await go(lab)
    await rank.end(transfer)
    await asyncio.sleep(1)
    records = Records(f"sqlite:///{tmp_path / 'records.db'}", InlineOffload())
    await records.open()
    kinds = {one.document.kind for one in await records.documents()}
    records.close()
    assert not {kind for kind in kinds if kind.startswith("transfer.")}
    assert lab.emitted(TransferEnded)


async def test_rule_of_a_set_cuts_transfers_only_after_its_wait_and_says_so(lab: Lab) -> None:
    prepared = await lab.prepare(after_crash="straight")
    await lab.switch(prepared, "straight")
    _, transfer = await go(lab)
    lab.world.kill(DAEMON)
    lab.connect("ocs1:1A-8B")  # somebody at the front panel
    await lab.restart()
    await lab.until(SetSettled)
    (cut,) = [one for one in lab.emitted(TransferCut) if one.transfer == f"h0/{transfer}"]
    assert cut.waited_s == pytest.approx(2.0, abs=0.1)
    assert lab.light() == wanted(STRAIGHT)


@of_testbed(with_keys(interlocks="{transfer-in-flight: {override: allowed}}"))
async def test_agent_that_tells_the_end_of_a_transfer_that_was_cut_hears_what_cut_it(lab: Lab) -> None:
    await applied(lab, STRAIGHT)
    answers: asyncio.Queue[Any] = asyncio.Queue()
    ear = MemoryBus(lab.world.broker, "ear", lab.world.clock)

    def hear(incoming: Incoming) -> None:
        answer = decode(incoming.payload)
        assert isinstance(answer, Answer)
        answers.put_nowait(answer.data)

    ear.subscribe("hwd/1/+/h0/answer", hear)
    hearing = asyncio.create_task(ear.run())
    _, transfer = await go(lab)
    begun = await applied(lab, CROSSED, overrides={"transfer-in-flight": "the job hangs"})
    _, ended = await answers.get(), await answers.get()
    hearing.cancel()
    assert ended == {"over": {transfer: f"reconfiguration {begun.id} ({CROSSED}) cut it"}}
