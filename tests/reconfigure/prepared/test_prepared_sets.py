"""Prepared sets: prepared once, switched at once, and brought in order by their rule after a crash."""

import asyncio
import errno
import re
from typing import Any

import pytest

from hwd.model.bodies import EpochBody, KickBody, LeaseBody, ReleaseSetBody
from hwd.model.prepared_set import PreparedSetStatus, SetPrepared, SetReleased, SetSettled
from hwd.model.reconfiguration import ReconfigurationCommanded, ReconfigurationEnded, ReconfigurationStarted
from hwd.model.request import Caller
from hwd.model.switch import SwitchOverrun
from hwd.sim.world import DAEMON
from hwd_drivers.core.errors import ConfigError, FailedError, HwdError, RefusedError
from hwd_drivers.devices.facts import SwitchCommand, SwitchUp

from ...texts import pairs_of
from ..apply.test_crash_recovery import rewrite_journal
from ..conftest import CROSSED, EXAMPLE, STRAIGHT, Lab, of_testbed, wanted


async def test_a_switch_drives_to_its_target_and_is_confirmed_once_read_back(lab: Lab) -> None:
    prepared = await lab.prepare(caller=Caller(name="ada"))
    assert [(one.by, one.verified) for one in lab.emitted(SetPrepared)] == [("ada", False)]
    assert (prepared.at, [one.id for one in prepared.targets]) == ("before", ["before", "straight", "crossed"])
    for target, what in (("straight", STRAIGHT), ("crossed", CROSSED), ("straight", STRAIGHT)):
        done = await lab.switch(prepared, target, by="ada")
        assert (done.outcome, lab.light()) == ("confirmed", wanted(what))
        assert done.plan is not None
        assert (done.plan.prepared_set, done.plan.target) == (prepared.id, target)
        assert lab.the_set().at == target
    await lab.switch(prepared, "before")
    assert lab.light() == set()
    newest = (await lab.service.light.history(limit=4))[-1]
    assert (newest.prepared_set, newest.target, newest.by) == (prepared.id, "straight", "ada")


async def test_a_switch_neither_reads_nor_syncs_before_its_first_byte_and_is_told_as_any_other(lab: Lab) -> None:
    prepared = await lab.prepare()
    await lab.switch(prepared, "straight")
    disk, mirror = lab.world.journal_disk, lab.world.rack.switches["ocs1"].mirror
    durable = disk.durable()
    seen: list[bool] = []
    mirror.on_change.append(lambda now_ns: seen.append(disk.durable() == durable))
    done = await lab.switch(prepared, "crossed")
    assert seen[0]
    assert disk.durable() != durable  # the outcome was synced before it was answered
    told = [one for one in lab.world.documents if getattr(one.fact, "reconfiguration", None) == done.id]
    assert [(one.kind, getattr(one.fact, "state", "")) for one in told] == [
        ("reconfiguration.state", "journaled"),
        ("reconfiguration.started", ""),
        ("reconfiguration.state", "driving"),
        ("reconfiguration.commanded", ""),
        ("reconfiguration.state", "read-back"),
        ("reconfiguration.state", "driven"),
        ("timeline", ""),
        ("reconfiguration.ended", ""),
    ]
    commanded, ended = (
        one.fact for one in told if isinstance(one.fact, ReconfigurationCommanded | ReconfigurationEnded)
    )
    assert isinstance(commanded, ReconfigurationCommanded)
    assert isinstance(commanded.asked_s, float)
    assert commanded.asked_s < 0.0001  # in virtual time nothing waits before the first byte
    assert isinstance(ended, ReconfigurationEnded)
    assert ended.wanted


async def test_links_that_are_not_ready_in_time_go_back(lab: Lab) -> None:
    prepared = await lab.prepare(ready_within_s=12.0)
    await lab.switch(prepared, "straight")
    assert (await lab.switch(prepared, "crossed")).not_ready == []
    lab.set_fault({"port": "h0.eth0", "fault": "unplug"})
    with pytest.raises(HwdError, match="not ready"):
        await lab.switch(prepared, "straight")
    assert (lab.the_set().at, lab.light()) == ("crossed", wanted(CROSSED))


async def test_ports_of_a_set_are_of_nobody_else_until_it_is_released(lab: Lab) -> None:
    held = await lab.lease("all")
    prepared = await lab.prepare(lease=held)
    with pytest.raises(RefusedError, match=f"held by prepared set {prepared.id}"):
        await lab.apply(STRAIGHT, lease=held)
    released = await lab.in_daemon(lab.service.sets.release(prepared.id, ReleaseSetBody()))
    assert released.id == prepared.id
    assert (await lab.apply(STRAIGHT, lease=held)).outcome == "confirmed"
    assert lab.service.sets.sets() == []
    with pytest.raises(RefusedError, match=r"of ada is over: released; its last target was before\. Prepare"):
        await lab.switch(prepared, "crossed")


async def test_a_switch_under_another_one_and_a_release_under_it_are_refused_and_two_at_once_are_one(lab: Lab) -> None:
    prepared = await lab.prepare()
    lab.set_fault({"switch": "ocs1", "fault": "slow", "seconds": 0.5})
    first = asyncio.ensure_future(lab.switch(prepared, "straight", id="first000"))
    await asyncio.sleep(0.1)
    with pytest.raises(RefusedError, match="reconfiguration first000 is under way"):
        await lab.switch(prepared, "crossed")
    with pytest.raises(RefusedError, match="first000 switches it now"):
        await lab.in_daemon(lab.service.sets.release(prepared.id, ReleaseSetBody()))
    assert (await first).outcome == "confirmed"
    # Nothing is awaited between the question to the ledger and the claim.
    both = await asyncio.gather(lab.switch(prepared, "before"), lab.switch(prepared, "crossed"), return_exceptions=True)
    assert sorted(type(one).__name__ for one in both) == ["ClaimedError", "ReconfigurationStatus"]


async def test_an_abort_goes_back_to_the_target_before(lab: Lab) -> None:
    prepared = await lab.prepare()
    await lab.switch(prepared, "straight")
    lab.set_fault({"switch": "ocs1", "fault": "slow", "seconds": 0.5})
    driven = asyncio.ensure_future(lab.switch(prepared, "crossed", id="cross000"))
    await asyncio.sleep(0.1)
    status = await lab.in_daemon(lab.service.light.roll_back("cross000"))
    with pytest.raises(HwdError):
        await driven
    assert (status.outcome, lab.the_set().at, lab.light()) == ("rolled-back", "straight", wanted(STRAIGHT))


@pytest.mark.parametrize("way", ["kick", "expiry", "own"])
async def test_a_set_ends_with_its_lease_or_at_its_time(lab: Lab, way: str) -> None:
    held = await lab.lease("all", for_s=10.0 if way == "expiry" else 3600.0)
    own: dict[str, Any] = {"for_s": 10.0} if way == "own" else {}
    prepared = await lab.prepare(lease=held, **own)
    await lab.switch(prepared, "straight")
    if way == "kick":
        call = lab.service.leases.kick(held, KickBody(by="bob", why="my night"))
        assert (await lab.in_daemon(call)).ended_sets == [prepared.id]
    await asyncio.sleep(11.0)
    assert lab.service.sets.sets() == []
    (released,) = lab.emitted(SetReleased)
    why = {
        "kick": f'its lease {held} has ended (kicked by bob: "my night")',
        "expiry": f"its lease {held} has ended (expired)",
        "own": "it has expired",
    }[way]
    assert (released.at, released.why, released.lease, released.holder) == ("straight", why, held, "ada")
    (shown,) = (await lab.service.rack.status()).ended_sets
    text = f"set {prepared.id} of ada is over: {why}; its last target was straight"
    assert str(shown) == text
    with pytest.raises(RefusedError, match=f"^{re.escape(text)}. Prepare it again"):
        await lab.switch(prepared, "crossed")
    await lab.restart()
    assert (await lab.service.rack.status()).ended_sets == [shown]
    assert lab.light() == wanted(STRAIGHT)


async def test_a_lease_that_is_kicked_during_a_switch_ends_the_set_behind_it(lab: Lab) -> None:
    held = await lab.lease("all")
    prepared = await lab.prepare(lease=held)
    lab.set_fault({"switch": "ocs1", "fault": "slow", "seconds": 0.5})
    driven = asyncio.ensure_future(lab.switch(prepared, "straight"))
    await asyncio.sleep(0.1)
    await lab.in_daemon(lab.service.leases.kick(held, KickBody(by="bob")))
    assert (await driven).outcome == "confirmed"
    await asyncio.sleep(0.1)
    assert lab.service.sets.sets() == []


# --- desired state


async def test_what_a_set_kept_from_being_judged_is_said_again_when_it_is_released(lab: Lab) -> None:
    await lab.apply("ocs1:1A-3B,3A-1B")
    await lab.panel(add=["2A-4B"])  # nobody asked for it
    held = await lab.lease("all")
    prepared = await lab.prepare(lease=held)
    (during,) = (await lab.service.rack.status()).desired
    await lab.in_daemon(lab.service.sets.release(prepared.id, ReleaseSetBody()))
    (after,) = (await lab.service.rack.status()).desired
    assert (during.unasked, after.unasked) == ([], pairs_of("2A-4B"))


@of_testbed(EXAMPLE + "drift: restore\n")
async def test_drift_and_restore_leave_the_ports_of_a_set(lab: Lab) -> None:
    await lab.apply(STRAIGHT)
    held = await lab.lease("all")
    prepared = await lab.prepare(lease=held)
    lab.set_fault({"switch": "ocs1", "fault": "panel", "remove": ["1A-3B"]})
    await asyncio.sleep(30.0)
    assert "1A-3B" not in lab.light()
    (one,) = (await lab.service.rack.status()).desired
    assert (one.missing, "ocs1.1" in one.changing) == ([], True)
    plan = await lab.plan("", restore=["ocs1.1"], lease=held)
    assert plan.empty
    assert any(prepared.id in warning for warning in plan.warnings)
    await lab.in_daemon(lab.service.sets.release(prepared.id, ReleaseSetBody()))
    await lab.in_daemon(lab.service.leases.release(held, EpochBody()))
    await asyncio.sleep(30.0)
    assert lab.light() == wanted(STRAIGHT)  # the policy acts again


# --- refusals


async def test_what_is_no_set_is_refused_in_words(lab: Lab) -> None:
    held = await lab.lease("all")
    one = {"what": STRAIGHT}
    for why, targets, more in (
        ("0 targets", {}, {}),
        ("1 to 64", {f"t{n}": one for n in range(65)}, {}),
        ("a meaning of its own", {"before": one}, {}),
        ("a name has", {"a b": one}, {}),
        ("no such rule", {"a": one}, {"after_crash": "b"}),
        ("not whole switches", {"a": one}, {"mode": "overwrite"}),
        ("name the ends to free", {"a": {"what": "ocs1:none"}}, {}),
        ("target a: ", {"a": {"what": "ocs1:1A-99B"}}, {}),
    ):
        with pytest.raises((ConfigError, RefusedError), match=why):
            await lab.prepare(targets, lease=held, **more)
        assert lab.service.sets.sets() == [], why
    await lab.apply(STRAIGHT, lease=held)  # no port is left held


async def test_a_set_holds_no_port_that_its_lease_does_not_cover(lab: Lab) -> None:
    """Whoever reserved it, or waits for it, would be passed. The refusal has the lease to take."""
    mine = await lab.lease("ocs1.1", "ocs1.7")
    with pytest.raises(RefusedError, match=rf"lease {mine} does not cover: h0\.eth0 .*ocs1\.2 ocs1\.3") as refusal:
        await lab.prepare(lease=mine)
    assert "Not free now" not in str(refusal.value)
    await lab.in_daemon(lab.service.leases.release(mine, EpochBody()))
    ports = re.findall(r"`hwd lease take ([^`]*)`", str(refusal.value))[0].split()
    assert {"ocs1.1", "ocs1.7", "ocs1.4", "h1.eth1"} <= {*ports}
    prepared = await lab.prepare(lease=await lab.lease(*ports))
    assert {*prepared.ports} <= {*ports}


async def test_a_set_does_not_pass_who_reserved_or_waits(lab: Lab) -> None:
    await lab.lease("ocs1.8", holder="eve")
    queued = await lab.lease("ocs1.3", "ocs1.8", holder="bob", queue=True)
    reserved = await lab.lease("ocs1.4", holder="kim", at_wall_ns=lab.world.clock.wall_ns() + 60 * 10**9)
    mine = await lab.lease("ocs1.1", "ocs1.2")
    with pytest.raises(RefusedError, match=r"Not free now: ") as refused:
        await lab.prepare(lease=mine)
    assert re.search(rf"ocs1\.3: .*bob.*{queued}", str(refused.value))
    assert re.search(rf"ocs1\.4: .*kim.*{reserved}", str(refused.value))
    assert lab.service.sets.sets() == []


SECOND = "  ocs2: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: polatis-opus, seed: 8}}\n"
TRUNK = EXAMPLE.replace("\nhosts:", f"{SECOND}\nhosts:", 1).replace(
    "h1.eth0 <-> ocs1.3", "h1.eth0 <-> ocs2.3\n  - ocs1.8 <-> ocs2.8"
)


@of_testbed(TRUNK)
async def test_the_trunk_of_a_route_is_named_as_any_port(lab: Lab) -> None:
    over_trunk = {"out": {"what": "h0.eth0 <-> h1.eth0"}}
    mine = await lab.lease("h0.eth0", "ocs1.1", "h1.eth0", "ocs2.3")
    with pytest.raises(RefusedError, match=rf"lease {mine} does not cover: ocs1\.8 ocs2\.8\. "):
        await lab.prepare(over_trunk, lease=mine)
    await lab.lease("ocs1.8", "ocs2.8", holder="bob")
    with pytest.raises(RefusedError, match=r"Not free now: ocs1\.8, ocs2\.8: leased to bob"):
        await lab.prepare(over_trunk, lease=mine)


async def test_ports_of_a_set_can_be_reserved_for_after_its_lease(lab: Lab) -> None:
    held = await lab.lease("all", for_s=10.0)
    await lab.prepare(lease=held)
    at_ns = lab.world.clock.wall_ns() + 20 * 10**9
    bobs = await lab.lease("ocs1.1", holder="bob", at_wall_ns=at_ns)
    await asyncio.sleep(21.0)
    assert [one.lease for one in lab.service.leases.leases()] == [bobs]


# --- crashes


async def die_in_switch(lab: Lab, prepared: PreparedSetStatus, target: str, *, kept: bool = True) -> None:
    """The daemon dies in the middle of a switch. `kept`: no power cut takes its entry."""
    lab.set_fault({"switch": "ocs1", "fault": "slow", "seconds": 0.5})
    driven = asyncio.ensure_future(lab.switch(prepared, target, id="cutoff00", by="ada"))
    await asyncio.sleep(0.1)
    if kept:
        lab.world.journal_disk.sync()  # what the kernel does some seconds later
    await lab.die(driven)
    await asyncio.sleep(1.0)
    lab.set_fault({"fault": "clear"})


async def cut_off(lab: Lab, prepared: PreparedSetStatus, target: str, *, left: str, kept: bool = True) -> None:
    """So that the mirrors are left so, and the next daemon has brought them in order."""
    await die_in_switch(lab, prepared, target, kept=kept)
    lab.carry(left)
    await lab.start()
    await asyncio.sleep(10.0)


HALF = "ocs1:1A-4B,3A-1B,2A-3B"
"""Between straight and crossed."""


FINISH, BEFORE = ("finish", CROSSED, "confirmed"), ("before", "", "rolled-back")
GO_STRAIGHT = ("straight", STRAIGHT, "rolled-back")


@pytest.mark.parametrize(
    ("rule", "goal", "outcome", "left"),
    [
        *((*rule, HALF) for rule in (FINISH, BEFORE, GO_STRAIGHT)),
        (*FINISH, STRAIGHT),
        (*BEFORE, CROSSED),
        *(pytest.param(*rule, STRAIGHT, marks=pytest.mark.slow) for rule in (BEFORE, GO_STRAIGHT)),
        *(pytest.param(*rule, CROSSED, marks=pytest.mark.slow) for rule in (FINISH, GO_STRAIGHT)),
    ],
)
async def test_a_switch_that_a_crash_cut_off_goes_where_its_rule_says(
    lab: Lab, rule: str, goal: str, outcome: str, left: str
) -> None:
    prepared = await lab.prepare(after_crash=rule)
    await lab.switch(prepared, "straight")
    await cut_off(lab, prepared, "crossed", left=left)
    assert lab.light() == wanted(goal)
    at = {"finish": "crossed"}.get(rule, rule)
    assert (lab.the_set().at, lab.the_set().why) == (at, "")
    (entry,) = [one for one in await lab.service.light.history(limit=9) if one.id == "cutoff00"]
    assert (entry.outcome, entry.who) == (outcome, "ada (unverified)")
    assert (await lab.switch(prepared, "straight")).outcome == "confirmed"


async def test_a_set_stands_over_restarts(lab: Lab) -> None:
    prepared = await lab.prepare()
    await lab.switch(prepared, "straight")
    commands = len(lab.emitted(SwitchCommand))
    await lab.restart()
    await asyncio.sleep(1.0)
    assert len(lab.emitted(SwitchCommand)) == commands
    assert lab.the_set().targets == prepared.targets
    assert (lab.the_set().at, lab.emitted(SetSettled)[-1].target) == ("straight", "straight")
    assert (await lab.switch(prepared, "crossed")).outcome == "confirmed"


@pytest.mark.parametrize("left", ["at rest", "cut off"])
async def test_a_set_of_a_switch_that_left_the_testbed_file_ends_and_frees_its_ports(lab: Lab, left: str) -> None:
    def on_old1(entry: dict[str, Any]) -> None:
        if entry["entry"] != "prepare":
            return
        prepared = entry["prepared"]
        prepared["ends"] = {**prepared["ends"], "old1": []}

    held = await lab.lease("all")
    prepared = await lab.prepare(lease=held)
    if left == "cut off":
        await die_in_switch(lab, prepared, "straight")
    else:
        lab.world.kill(DAEMON)
    rewrite_journal(lab, on_old1)
    await lab.start()
    await asyncio.sleep(10.0)
    assert lab.service.sets.sets() == []
    (released,) = lab.emitted(SetReleased)
    assert released.why == ("the testbed file has changed: old1 is no switch of it that the daemon drives")
    assert lab.light() == (wanted(STRAIGHT) if left == "cut off" else set()), "its rule holds for the others"
    assert (await lab.apply(CROSSED, lease=held)).outcome == "confirmed"


async def test_a_set_that_expires_while_the_daemon_is_away_has_ended(lab: Lab) -> None:
    prepared = await lab.prepare(for_s=10.0)
    await lab.switch(prepared, "straight")
    await lab.restart(after_s=20.0)
    await asyncio.sleep(1.0)
    assert (lab.service.sets.sets(), lab.light()) == ([], wanted(STRAIGHT))
    await lab.restart()
    await asyncio.sleep(1.0)
    assert lab.service.sets.sets() == []


async def test_what_a_power_cut_took_is_read_from_the_switches(lab: Lab) -> None:
    """The switch was appended and not synced: the journal knows nothing of it, and the switches have its target."""
    prepared = await lab.prepare()
    await lab.switch(prepared, "straight")
    await cut_off(lab, prepared, "crossed", left=CROSSED, kept=False)
    assert (lab.the_set().at, lab.light()) == ("crossed", wanted(CROSSED))
    assert "power cut" in lab.emitted(SetSettled)[-1].why
    await lab.restart()
    await asyncio.sleep(1.0)
    assert lab.the_set().at == "crossed"


@pytest.mark.parametrize(("rule", "goal"), [("finish", STRAIGHT), ("before", ""), ("crossed", CROSSED)])
async def test_what_equals_no_target_goes_by_the_rule_and_what_others_made_beside_it_stays(
    lab: Lab, rule: str, goal: str
) -> None:
    prepared = await lab.prepare(after_crash=rule, ready_within_s=5.0)
    await lab.switch(prepared, "straight")
    await restart_with(lab, f"{HALF},7A-8B")
    await asyncio.sleep(8.0)
    at = {"finish": "straight"}.get(rule, rule)
    assert (lab.light(), lab.the_set().at) == (wanted(goal) | {"7A-8B"}, at)
    by = [one.by for one in lab.emitted(ReconfigurationStarted)][-1]
    assert by == f"rule of prepared set {prepared.id}"


async def restart_with(lab: Lab, left: str, fault: dict[str, Any] | None = None) -> None:
    """The daemon is started anew, with the mirrors left so and the switch misbehaving."""
    lab.world.kill(DAEMON)
    lab.carry(left)
    await asyncio.sleep(1.0)
    if fault is not None:
        lab.set_fault({"switch": "ocs1", **fault})
    lab.world.start_daemon()
    await lab.until(SwitchUp)


async def test_a_set_that_cannot_be_brought_to_a_target_is_not_tried_without_a_pause(lab: Lab) -> None:
    prepared = await lab.prepare(after_crash="crossed")
    await lab.switch(prepared, "straight")
    await asyncio.sleep(1.0)
    before = len(lab.emitted(ReconfigurationEnded))
    await restart_with(lab, HALF, {"fault": "deny", "code": "SROF"})
    await asyncio.sleep(3.0)
    assert [one.outcome for one in lab.emitted(ReconfigurationEnded)[before:]] == ["rolled-back"]
    await asyncio.sleep(5.0)
    assert (lab.light(), lab.the_set().at) == (wanted(CROSSED), "crossed")


async def test_a_set_that_is_released_while_it_is_read_after_a_restart_moves_nothing_more(lab: Lab) -> None:
    held = await lab.lease("all")
    prepared = await lab.prepare(lease=held, after_crash="crossed")
    await lab.switch(prepared, "straight")
    await restart_with(lab, HALF, {"fault": "slow", "seconds": 0.3})
    await asyncio.sleep(0.05)
    assert lab.the_set().at is None
    await lab.in_daemon(lab.service.sets.release(prepared.id, ReleaseSetBody()))
    await lab.in_daemon(lab.service.leases.release(held, EpochBody()))
    commands = len(lab.emitted(SwitchCommand))
    await asyncio.sleep(15.0)
    assert (len(lab.emitted(SwitchCommand)), lab.light()) == (commands, wanted(HALF))
    assert (await lab.apply(STRAIGHT)).outcome == "confirmed", "its ports are free"


async def test_a_set_whose_lease_ended_while_the_daemon_was_away_goes_by_its_rule_before_it_ends(lab: Lab) -> None:
    prepared = await lab.prepare(lease=await lab.lease("all", for_s=60.0), after_crash="crossed")
    await lab.switch(prepared, "straight")
    lab.world.kill(DAEMON)
    lab.carry(HALF)
    await asyncio.sleep(90.0)
    await lab.start()
    await asyncio.sleep(10.0)
    assert (lab.light(), lab.service.sets.sets()) == (wanted(CROSSED), [])
    assert [one.at for one in lab.emitted(SetReleased)] == ["crossed"]


async def test_a_preparation_that_was_cut_off_before_its_entry_left_nothing(lab: Lab) -> None:
    held = await lab.lease("all")
    lab.set_fault({"switch": "ocs1", "fault": "slow", "seconds": 0.5})
    making = asyncio.ensure_future(lab.prepare(lease=held))
    await asyncio.sleep(0.1)
    await lab.die(making)
    lab.set_fault({"fault": "clear"})
    await lab.start()
    assert (lab.service.sets.sets(), lab.emitted(SetPrepared)) == ([], [])
    await lab.apply(STRAIGHT, lease=held)


# --- what others do, and what the disk does


async def test_what_a_switch_takes_from_another_client_is_reported(lab: Lab) -> None:
    prepared = await lab.prepare()
    await lab.switch(prepared, "straight")
    lab.set_fault({"switch": "ocs1", "fault": "panel", "remove": ["1A-3B"], "add": ["1A-8B"]})
    done = await lab.switch(prepared, "crossed")
    assert (done.outcome, lab.light()) == ("confirmed", wanted(CROSSED))
    (overrun,) = lab.emitted(SwitchOverrun)
    assert overrun.lost == ["1A-8B"]
    assert any("1A-8B of another client" in remark for remark in done.remarks)


@pytest.mark.parametrize(
    ("target", "there"),
    [("straight", f"{STRAIGHT},5A-6B,6A-5B"), ("crossed", f"{CROSSED},5A-7B,7A-5B"), ("before", "ocs1:5A-6B,6A-5B")],
)
async def test_a_switch_brings_back_what_a_power_cut_of_the_switch_took(lab: Lab, target: str, there: str) -> None:
    await lab.apply("ocs1:5A-6B,6A-5B")
    prepared = await lab.prepare({"straight": {"what": STRAIGHT}, "crossed": {"what": f"{CROSSED},5A-7B,7A-5B"}})
    await lab.switch(prepared, "straight")
    lab.set_fault({"switch": "ocs1", "fault": "reboot", "seconds": 2.0})
    await lab.until(SwitchUp)
    await asyncio.sleep(1.0)
    assert lab.light() == set()
    left = lab.the_set()
    assert (left.at, left.why) == (
        None,
        "not at straight any more: ocs1 lacks 1A-3B, lacks 2A-4B, lacks 3A-1B, lacks 4A-2B, lacks 5A-6B, "
        f"lacks 6A-5B. `hwd switch {left.id} straight` brings it back",
    )
    done = await lab.switch(prepared, target)
    assert (done.outcome, lab.light(), lab.the_set().at) == ("confirmed", wanted(there), target)


async def test_a_switch_that_failed_where_others_took_what_it_keeps_is_done_at_the_next_call(lab: Lab) -> None:
    prepared = await lab.prepare({"a": {"what": "ocs1:1A-3B,3A-1B,2A-5B"}, "b": {"what": "ocs1:1A-3B,3A-1B,2A-6B"}})
    await lab.switch(prepared, "a")
    lab.set_fault({"switch": "ocs1", "fault": "panel", "remove": ["1A-3B"], "add": ["1A-8B"]})
    with pytest.raises(FailedError, match="1A-3B is not there"):
        await lab.switch(prepared, "b")
    done = await lab.switch(prepared, "b")
    assert (done.outcome, lab.light()) == ("confirmed", wanted("ocs1:1A-3B,3A-1B,2A-6B"))
    lab.set_fault({"switch": "ocs1", "fault": "panel", "remove": ["3A-1B"]})
    await asyncio.sleep(60.0)  # a poll sees it
    await lab.switch(prepared, "b")
    assert lab.light() == wanted("ocs1:1A-3B,3A-1B,2A-6B")


async def prepared_beside(lab: Lab) -> tuple[PreparedSetStatus, str]:
    """A set of the ports 5 to 8, and the lease of somebody else on 1 to 4 and their NIC ports."""
    held = await lab.in_daemon(
        lab.service.leases.take(LeaseBody(holder="ada", ports=[f"ocs1.{port}" for port in range(5, 9)], for_s=3600))
    )
    others = [*(f"ocs1.{port}" for port in range(1, 5)), *(f"h{host}.eth{nic}" for host in (0, 1) for nic in (0, 1))]
    theirs = await lab.in_daemon(lab.service.leases.take(LeaseBody(holder="bob", ports=others, for_s=3600)))
    targets = {"a": {"what": "ocs1:5A-6B,6A-5B"}, "b": {"what": "ocs1:5A-7B,7A-5B"}}
    prepared = await lab.prepare(targets, lease=held.lease, after_crash="b")
    await lab.switch(prepared, "a")
    return prepared, theirs.lease


async def test_a_switch_that_would_take_what_a_panel_joined_with_ports_of_others_is_refused(lab: Lab) -> None:
    prepared, theirs = await prepared_beside(lab)
    lab.set_fault({"switch": "ocs1", "fault": "panel", "remove": ["5A-6B"], "add": ["5A-1B"]})
    await asyncio.sleep(60.0)  # a poll sees it
    there = lab.light()
    for _ in range(2):  # a refusal leaves it as disturbed as it was
        with pytest.raises(RefusedError, match=r"h0\.eth0, ocs1\.1: leased to bob"):
            await lab.switch(prepared, "b")
        assert lab.light() == there
        assert lab.the_set().why.startswith("not at a any more: ocs1 lacks 5A-6B, has 5A-1B beside")
    await lab.in_daemon(lab.service.leases.release(theirs, EpochBody()))
    await lab.switch(prepared, "b")
    assert lab.light() == wanted("ocs1:5A-7B,7A-5B")


async def test_a_rule_leaves_what_a_panel_joined_with_ports_of_others_until_these_are_free(lab: Lab) -> None:
    _, theirs = await prepared_beside(lab)
    lab.world.kill(DAEMON)
    lab.carry("ocs1:5A-1B,6A-5B")
    await asyncio.sleep(1.0)
    await lab.start()
    await asyncio.sleep(8.0)
    assert lab.light() == wanted("ocs1:5A-1B,6A-5B")
    assert "leased to bob" in lab.the_set().why
    await lab.in_daemon(lab.service.leases.release(theirs, EpochBody()))
    await asyncio.sleep(8.0)
    assert (lab.light(), lab.the_set().at) == (wanted("ocs1:5A-7B,7A-5B"), "b")


async def test_a_journal_that_refuses_a_set_leaves_nothing_and_is_written_again(lab: Lab) -> None:
    held = await lab.lease("all")
    lab.world.journal_disk.refusal = (errno.EIO, 0)
    with pytest.raises(FailedError, match="cannot write the plan"):
        await lab.prepare(lease=held)
    assert lab.service.sets.sets() == []
    lab.world.journal_disk.refusal = None
    await asyncio.sleep(20.0)
    assert lab.service.rack.ready().ready
    prepared = await lab.prepare(lease=held)
    assert (await lab.switch(prepared, "straight")).outcome == "confirmed"


async def test_switches_refused_in_a_loop_are_said_once(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    prepared = await lab.prepare()
    caplog.clear()
    for _ in range(9):
        with pytest.raises(RefusedError, match="no target 'x'"):
            await lab.switch(prepared, "x")
    assert len([one for one in caplog.records if one.levelname == "WARNING"]) == 1
