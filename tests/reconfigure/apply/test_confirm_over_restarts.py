"""What awaits its confirm survives the daemon: it waits until its deadline, whatever ends the process before."""

import asyncio
import re
from typing import Any

import pytest

from hwd.model.bodies import ActBody, LeaseBody
from hwd.model.daemon import DaemonRecovered
from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationState, ReconfigurationStatus
from hwd.sim.world import DAEMON, START_WALL_NS, agent_node
from hwd_drivers.core.errors import LinkError, RefusedError
from hwd_drivers.core.structs import to_plain
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.devices.facts import SwitchCommand
from hwd_drivers.twins.virtual_time import VirtualClock, VirtualLoop

from ..conftest import CROSSED, STRAIGHT, Lab, wanted

WITHIN_S = 30.0
LATE = f"not confirmed within {WITHIN_S:g} s"


async def awaiting(lab: Lab, *, within_s: float = WITHIN_S, **more: Any) -> str:
    """Straight is confirmed, crossed awaits its confirm; returns its id."""
    await lab.apply(STRAIGHT)
    return (await lab.apply(CROSSED, confirm_within_s=within_s, **more)).id


async def test_daemon_that_is_back_before_the_deadline_is_confirmed_and_that_is_durable(lab: Lab) -> None:
    await lab.apply(STRAIGHT)
    before = await lab.apply(CROSSED, ready_within_s=15, confirm_within_s=WITHIN_S)
    await lab.restart(after_s=8.0)
    now = await lab.one_under_way()
    assert now.confirm_in_s == pytest.approx(WITHIN_S - 8.0, abs=1.0)
    unchanged = ("reconfiguration", "what", "hash", "lease", "links", "state", "not_ready", "run")
    assert [getattr(now, name) for name in unchanged] == [getattr(before, name) for name in unchanged]
    assert (await lab.service.rack.status()).open == []
    assert lab.light() == wanted(CROSSED)

    confirmed = await lab.service.light.confirm("-")
    assert (confirmed.outcome, lab.reconfigurer.under_way) == ("confirmed", ())
    assert confirmed.confirm_in_s is None, "it awaits none any more"
    assert lab.ends(now.id) == [("confirmed", "")]
    (ended,) = [end for end in lab.emitted(ReconfigurationEnded) if end.reconfiguration == now.id]
    assert 8.0 < ended.seconds < WITHIN_S, "from its apply on"
    await asyncio.sleep(5.0)  # recorded
    await lab.restart()
    await asyncio.sleep(2 * WITHIN_S)
    assert (lab.light(), len(lab.ends(now.id))) == (wanted(CROSSED), 1)
    with pytest.raises(RefusedError, match=f"^reconfiguration {now.id} .*: confirmed"):
        await lab.service.light.confirm(now.id)


async def test_daemon_that_is_back_before_the_deadline_rolls_back_at_the_deadline(lab: Lab) -> None:
    id = await awaiting(lab)
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + WITHIN_S
    await lab.restart(after_s=10.0)
    await lab.restart(after_s=10.0)
    await asyncio.sleep(deadline_s - loop.time() - 0.1)
    assert lab.light() == wanted(CROSSED)
    await lab.until(ReconfigurationEnded, reconfiguration=id)
    assert loop.time() - deadline_s < 1.0
    assert lab.light() == wanted(STRAIGHT)
    assert lab.ends(id) == [("rolled-back", LATE)]
    states = [fact.state for fact in lab.emitted(ReconfigurationState) if fact.reconfiguration == id]
    assert states[-4:] == [*["awaiting-confirm"] * 3, "rolling-back"]
    with pytest.raises(RefusedError, match=rf"rolled back .* ago .*: {LATE}. It has ended"):
        await lab.service.light.confirm(id)
    await lab.apply(CROSSED)


async def test_deadline_that_passed_while_the_daemon_was_away_brings_back_at_once_and_refuses_the_confirm(
    lab: Lab,
) -> None:
    id = await awaiting(lab)
    await lab.restart(after_s=WITHIN_S + 1.0)
    assert lab.reconfigurer.under_way == ()
    await asyncio.sleep(2.0)
    assert lab.light() == wanted(STRAIGHT)
    assert lab.ends(id) == [("rolled-back", f"{LATE}, which ended while the daemon was away")]
    with pytest.raises(RefusedError, match=f"{LATE}, which ended while the daemon was away"):
        await lab.service.light.confirm(id)
    assert lab.light() == wanted(STRAIGHT)


async def test_ended_daemon_drives_nothing_after_its_end_and_the_next_start_carries_the_roll_back_out(lab: Lab) -> None:
    id = await awaiting(lab)
    await lab.world.stop(DAEMON)
    await asyncio.sleep(2 * WITHIN_S)
    assert (lab.light(), lab.ends(id)) == (wanted(CROSSED), []), "nobody is there"
    await lab.start()
    await asyncio.sleep(2.0)
    assert lab.light() == wanted(STRAIGHT)
    assert [outcome for outcome, _ in lab.ends(id)] == ["rolled-back"]


async def test_daemon_that_dies_in_a_roll_back_that_was_asked_for_does_not_wait_for_the_deadline(lab: Lab) -> None:
    id = await awaiting(lab)
    going = asyncio.create_task(lab.in_daemon(lab.reconfigurer.roll_back(lab.reconfigurer.get(id), "asked for")))
    await lab.until(ReconfigurationState, state="rolling-back")
    await lab.restart(after_s=0.5)
    going.cancel()
    await asyncio.gather(going, return_exceptions=True)
    await asyncio.sleep(2.0)
    assert lab.reconfigurer.under_way == ()
    assert lab.light() == wanted(STRAIGHT)
    assert lab.ends(id) == [("rolled-back", "the daemon ended before it did")]


async def test_switch_that_changed_while_the_daemon_was_away_refuses_the_confirm_with_the_difference(lab: Lab) -> None:
    id = await awaiting(lab)
    lab.world.kill(DAEMON)
    lab.connect("ocs1:1A-8B")
    await lab.start()
    with pytest.raises(RefusedError, match=f"{id}: not confirmed: ocs1: .* 1A-4B is not there.*`hwd rollback {id}`"):
        await lab.service.light.confirm(id)
    assert (await lab.one_under_way()).state == "awaiting-confirm"
    lab.connect("ocs1:1A-4B")
    assert (await lab.service.light.confirm(id)).outcome == "confirmed"


@pytest.mark.parametrize("fault", [{"fault": "panel", "remove": ["1A-4B"]}, {"fault": "reboot", "seconds": 5.0}])
async def test_light_that_somebody_took_is_not_confirmed_and_goes_back_at_its_time(lab: Lab, fault: Any) -> None:
    id = await awaiting(lab, within_s=12.0)
    lab.set_fault({"switch": "ocs1", **fault})
    await asyncio.sleep(2.0)
    with pytest.raises((RefusedError, LinkError), match="ocs1"):
        await lab.service.light.confirm(id)
    assert (await lab.one_under_way()).state == "awaiting-confirm"
    await asyncio.sleep(24.0)
    assert (lab.light(), [outcome for outcome, _ in lab.ends(id)]) == (wanted(STRAIGHT), ["rolled-back"])


async def test_switch_that_is_away_refuses_the_confirm_and_is_brought_back_when_it_is_there_again(lab: Lab) -> None:
    id = await awaiting(lab)
    lab.world.kill(DAEMON)
    lab.cut_switch()
    lab.world.start_daemon()
    await asyncio.sleep(10.0)
    with pytest.raises(LinkError, match="ocs1"):
        await lab.service.light.confirm(id)
    await asyncio.sleep(WITHIN_S)
    assert [outcome for outcome, _ in lab.ends(id)] == ["failed"]
    assert lab.light() == wanted(CROSSED)
    lab.faults.refusing = False
    await lab.until(DaemonRecovered, reconfiguration=id)
    assert lab.light() == wanted(STRAIGHT)


async def test_broker_that_is_away_and_an_agent_that_was_killed_do_not_stop_the_wait_or_the_confirm(lab: Lab) -> None:
    id = await awaiting(lab)
    lab.world.kill(DAEMON)
    lab.world.kill(agent_node("h0"))
    lab.world.broker.stop()
    lab.world.start_daemon()
    await asyncio.sleep(10.0)
    assert (await lab.one_under_way()).state == "awaiting-confirm"
    assert (await lab.service.light.confirm(id)).outcome == "confirmed"
    assert lab.light() == wanted(CROSSED)


async def test_links_that_went_dark_meanwhile_neither_confirm_nor_end_it(lab: Lab) -> None:
    await lab.apply(STRAIGHT)
    ready = await lab.apply(CROSSED, ready_within_s=15, confirm_within_s=WITHIN_S)
    assert ready.not_ready == []
    lab.world.kill(DAEMON)
    mirror = lab.world.rack.switches["ocs1"].mirror
    one = Crossconnect.parse("1A-4B")
    mirror.disconnect([one], lab.world.clock.monotonic_ns())
    await asyncio.sleep(5.0)
    await lab.start()
    await asyncio.sleep(2.0)
    now = await lab.one_under_way()
    assert now.state == "awaiting-confirm"
    assert len(now.not_ready) == 1, "the agents have said it since"
    mirror.connect([one], lab.world.clock.monotonic_ns(), move=True)
    await asyncio.sleep(10.0)
    assert (await lab.service.light.confirm(now.id)).outcome == "confirmed"


@pytest.mark.parametrize(("step_s", "left_s"), [(3600.0, None), (-3600.0, WITHIN_S), (-10.0, WITHIN_S - 5.0 + 10.0)])
async def test_clock_that_was_set_while_the_daemon_was_away_lengthens_no_wait_beyond_the_time_that_was_allowed(
    lab: Lab, step_s: float, left_s: float | None
) -> None:
    id = await awaiting(lab)
    lab.world.kill(DAEMON)
    await asyncio.sleep(5.0)
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    lab.world.clock = VirtualClock(loop, wall_start_ns=START_WALL_NS + round(step_s * 1e9))
    began_s = loop.time()
    await lab.start()
    if left_s is not None:
        in_s = (await lab.one_under_way()).confirm_in_s
        assert in_s is not None
        assert in_s + loop.time() - began_s == pytest.approx(min(left_s, WITHIN_S), abs=0.1)
        await lab.until(ReconfigurationEnded, reconfiguration=id)
    await asyncio.sleep(2.0)
    assert lab.light() == wanted(STRAIGHT)
    assert [outcome for outcome, _ in lab.ends(id)] == ["rolled-back"]
    assert loop.time() - began_s < (WITHIN_S if left_s else 0.0) + 5.0


async def test_its_ports_stay_its_own_after_the_restart(lab: Lab) -> None:
    id = await awaiting(lab)
    refusals: list[list[str]] = []
    for _ in range(2):
        said: list[str] = []
        for ask in (
            lab.apply(STRAIGHT),
            lab.apply("ocs1:1A-7B"),
            lab.service.leases.take(LeaseBody(holder="ada", ports=["ocs1.3"], for_s=60)),
            lab.service.leases.take(LeaseBody(holder="ada", ports=["h0.eth0"], for_s=60)),
            lab.service.light.give_up(id, ActBody(by="ada")),
        ):
            with pytest.raises(RefusedError) as refused:
                await ask
            said.append(str(refused.value))
        refusals.append([re.sub(r"back by itself in \d+ s", "back by itself in N s", one) for one in said])
        await lab.restart()
    assert refusals[0] == refusals[1]
    assert (
        f"reconfiguration {id} is under way on it: {CROSSED}, asked for by an unnamed caller; it goes "
        "back by itself in N s unless it is confirmed before. Wait for its end" in refusals[1][0]
    )
    await lab.lease("ocs1.7", for_s=60)


async def test_disk_that_got_full_since_the_begin_takes_the_wait_the_roll_back_and_the_end(lab: Lab) -> None:
    await lab.apply(STRAIGHT)
    disk = lab.world.journal_disk
    applying = asyncio.create_task(lab.apply(CROSSED, confirm_within_s=WITHIN_S))
    await lab.until(ReconfigurationState, state="journaled")
    disk.capacity_bytes = len(disk.read())
    id = (await applying).id
    await lab.restart()
    assert ((await lab.one_under_way()).id, (await lab.service.rack.status()).journal.writable) == (id, True)
    assert (await lab.service.light.roll_back(id)).outcome == "rolled-back"
    await asyncio.sleep(1.0)  # recorded
    await lab.restart()
    assert ((await lab.service.rack.status()).open, (await lab.service.rack.status()).journal.writable) == ([], True)
    assert (lab.light(), len(lab.ends(id))) == (wanted(STRAIGHT), 1)


@pytest.mark.parametrize(
    "part", [*range(0, 12, 3), *(pytest.param(part, marks=pytest.mark.slow) for part in range(12) if part % 3)]
)
async def test_daemon_killed_anywhere_in_the_apply_waits_or_is_back_and_is_back_after_the_deadline(
    lab: Lab, part: int
) -> None:
    await lab.apply(STRAIGHT)
    nodes = lab.world.nodes
    nodes.kill_at(DAEMON, nodes.callbacks(DAEMON) + 1 + 6 * part)
    within_s = 10.0  # agents that nobody told of the end sample modules all the while
    asking = asyncio.create_task(lab.apply(CROSSED, confirm_within_s=within_s))
    while nodes.alive(DAEMON):  # noqa: ASYNC110 - virtual time, and the dead tell nothing
        await asyncio.sleep(0.01)
    answers = await asyncio.gather(asking, return_exceptions=True)
    await lab.restart()
    await asyncio.sleep(2.0)
    under_way: Any = to_plain((await lab.service.rack.status()).reconfigurations)
    assert lab.light() == wanted(CROSSED if under_way else STRAIGHT)
    if isinstance(answers[0], ReconfigurationStatus):
        assert under_way, "it was answered"
    await asyncio.sleep(within_s + 5.0)
    assert lab.light() == wanted(STRAIGHT)
    assert (lab.reconfigurer.under_way, (await lab.service.rack.status()).open) == ((), [])


async def test_apply_that_moves_nothing_awaits_its_confirm_over_a_restart_as_any_other(lab: Lab) -> None:
    await lab.apply(STRAIGHT)
    sent = len(lab.emitted(SwitchCommand))
    ids = []
    for is_killed in (True, False):
        ids.append((await lab.apply(STRAIGHT, confirm_within_s=WITHIN_S)).id)
        if not is_killed:
            await lab.world.stop(DAEMON)
            await lab.start()
        else:
            await lab.restart()
        assert ((await lab.one_under_way()).id, (await lab.one_under_way()).state) == (ids[-1], "awaiting-confirm")
        assert (await lab.service.light.confirm("-")).outcome == "confirmed"
        await asyncio.sleep(5.0)  # recorded
    ids.append((await lab.apply(STRAIGHT, confirm_within_s=WITHIN_S)).id)
    await lab.restart()
    await asyncio.sleep(2 * WITHIN_S)
    confirmed = [("confirmed", "")]
    assert [lab.ends(id) for id in ids] == [confirmed, confirmed, [("rolled-back", LATE)]]
    assert (len(lab.emitted(SwitchCommand)), lab.light()) == (sent, wanted(STRAIGHT))
    assert lab.reconfigurer.under_way == ()


async def test_apply_that_moves_nothing_is_held_up_by_no_switch_that_is_away_at_its_end(lab: Lab) -> None:
    await lab.apply(STRAIGHT)
    id = (await lab.apply(STRAIGHT, confirm_within_s=WITHIN_S)).id
    lab.set_fault({"switch": "ocs1", "fault": "reboot", "seconds": 3 * WITHIN_S})
    await lab.restart(after_s=WITHIN_S + 1.0)
    await asyncio.sleep(2.0)
    assert [outcome for outcome, _ in lab.ends(id)] == ["rolled-back"]
    assert (await lab.service.rack.status()).open == []
