"""Prepared sets: prepared once, switched at once, and brought in order by their rule after a crash."""

import asyncio
import errno
import re
from typing import Any

import msgspec
import pytest

from hwd.model.answers import PreparedSetStatus, ReconfigurationStatus
from hwd.model.bodies import PrepareBody
from hwd.model.documents.prepared import SetPrepared, SetReleased, SetSettled
from hwd.model.documents.reconfigurations import (
    ReconfigurationCommanded,
    ReconfigurationEnded,
    ReconfigurationStarted,
)
from hwd.model.documents.switches import SwitchOverrun
from hwd.sim.world import DAEMON
from hwd_drivers.core.errors import ConfigError, FailedError, HwdError, RefusedError
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.devices.facts import SwitchCommand, SwitchUp

from ..apply.test_confirm_over_restarts import apply, light, restart, wanted
from ..apply.test_crash_recovery import rewrite_journal
from ..conftest import CROSSED, EXAMPLE, STRAIGHT, Lab, RunLab

TARGETS = {"straight": {"what": STRAIGHT}, "crossed": {"what": CROSSED}}


async def lease(lab: Lab, *, for_s: float = 3600.0) -> str:
    held = await lab.world.nodes.run_in_node(DAEMON, lab.service.take_lease(holder="ada", ports=["all"], for_s=for_s))
    return held.lease


async def prepare(lab: Lab, targets: dict[str, Any] = TARGETS, **more: Any) -> PreparedSetStatus:
    body = {"lease": more.pop("lease", None) or await lease(lab), **more, "targets": targets}
    return await lab.world.nodes.run_in_node(DAEMON, lab.service.prepare(msgspec.convert(body, PrepareBody)))


async def switch(lab: Lab, prepared: PreparedSetStatus, target: str, **more: Any) -> ReconfigurationStatus:
    return await lab.world.nodes.run_in_node(DAEMON, lab.service.switch(prepared.id, target, **more))


def the_set(lab: Lab) -> PreparedSetStatus:
    (one,) = lab.service.sets()
    return one


def test_a_switch_drives_to_its_target_and_is_confirmed_once_read_back(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        prepared = await prepare(lab)
        assert (prepared.at, [one.id for one in prepared.targets]) == ("before", ["before", "straight", "crossed"])
        for target, what in (("straight", STRAIGHT), ("crossed", CROSSED), ("straight", STRAIGHT)):
            done = await switch(lab, prepared, target, by="ada")
            assert (done.outcome, light(lab)) == ("confirmed", wanted(what))
            assert done.plan is not None
            assert (done.plan.prepared_set, done.plan.target) == (prepared.id, target)
            assert the_set(lab).at == target
        await switch(lab, prepared, "before")
        assert light(lab) == {""}
        newest = (await lab.service.history(limit=4))[-1]
        assert (newest.prepared_set, newest.target, newest.by) == (prepared.id, "straight", "ada")

    run_lab(test)


def test_a_switch_neither_reads_nor_syncs_before_its_first_byte(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        prepared = await prepare(lab)
        await switch(lab, prepared, "straight")
        disk, mirror = lab.world.journal_disk, lab.world.rack.switches["ocs1"].mirror
        durable = disk.durable()
        seen: list[bool] = []
        mirror.on_change.append(lambda now_ns: seen.append(disk.durable() == durable))
        reads = len(lab.emitted(ReconfigurationCommanded))
        await switch(lab, prepared, "crossed")
        assert seen[0]
        assert disk.durable() != durable  # the outcome was synced before it was answered
        commanded = lab.emitted(ReconfigurationCommanded)[reads]
        assert isinstance(commanded.asked_s, float)
        assert commanded.asked_s < 0.0001  # in virtual time nothing waits before the first byte

    run_lab(test)


def test_documents_of_a_switch_come_in_the_order_of_any_other(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        prepared = await prepare(lab)
        since = len(lab.world.documents)
        done = await switch(lab, prepared, "straight")
        kinds = [
            (one.kind, getattr(one.fact, "state", ""))
            for one in lab.world.documents[since:]
            if getattr(one.fact, "reconfiguration", None) == done.id
        ]
        expected = [
            ("reconfiguration.state", "journaled"),
            ("reconfiguration.started", ""),
            ("reconfiguration.state", "driving"),
            ("reconfiguration.commanded", ""),
            ("reconfiguration.state", "read-back"),
            ("reconfiguration.state", "driven"),
            ("timeline", ""),
            ("reconfiguration.ended", ""),
        ]
        assert kinds == expected
        (ended,) = [one for one in lab.emitted(ReconfigurationEnded) if one.reconfiguration == done.id]
        assert ended.wanted

    run_lab(test)


def test_a_difference_is_a_failure_and_goes_back_to_the_target_before(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        prepared = await prepare(lab)
        await switch(lab, prepared, "straight")
        lab.set_fault({"switch": "ocs1", "fault": "partial", "pairs": 1})
        with pytest.raises(FailedError, match=r"does not report what was asked for.*Outcome: rolled-back"):
            await switch(lab, prepared, "crossed")
        assert (the_set(lab).at, light(lab)) == ("straight", wanted(STRAIGHT))
        lab.set_fault({"fault": "clear"})
        assert (await switch(lab, prepared, "crossed")).outcome == "confirmed"

    run_lab(test)


def test_links_that_are_not_ready_in_time_go_back(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        prepared = await prepare(lab, ready_within_s=12.0)
        await switch(lab, prepared, "straight")
        assert (await switch(lab, prepared, "crossed")).not_ready == []
        lab.set_fault({"port": "h0.eth0", "fault": "unplug"})
        with pytest.raises(HwdError, match="not ready"):
            await switch(lab, prepared, "straight")
        assert (the_set(lab).at, light(lab)) == ("crossed", wanted(CROSSED))

    run_lab(test)


def test_ports_of_a_set_are_of_nobody_else_until_it_is_released(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        held = await lease(lab)
        prepared = await prepare(lab, lease=held)
        with pytest.raises(RefusedError, match=f"held by prepared set {prepared.id}"):
            await apply(lab, STRAIGHT, lease=held)
        released = await lab.world.nodes.run_in_node(DAEMON, lab.service.release_set(prepared.id))
        assert released.id == prepared.id
        assert (await apply(lab, STRAIGHT, lease=held)).outcome == "confirmed"
        assert lab.service.sets() == []
        with pytest.raises(RefusedError, match=r"of ada is over: released; its last target was before\. Prepare"):
            await switch(lab, prepared, "crossed")

    run_lab(test)


def test_a_switch_under_another_one_and_a_release_under_it_are_refused(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        prepared = await prepare(lab)
        lab.set_fault({"switch": "ocs1", "fault": "slow", "seconds": 0.5})
        first = asyncio.ensure_future(switch(lab, prepared, "straight", id="first000"))
        await asyncio.sleep(0.1)
        with pytest.raises(RefusedError, match="reconfiguration first000 is under way"):
            await switch(lab, prepared, "crossed")
        with pytest.raises(RefusedError, match="first000 switches it now"):
            await lab.world.nodes.run_in_node(DAEMON, lab.service.release_set(prepared.id))
        assert (await first).outcome == "confirmed"

    run_lab(test)


def test_two_switches_at_once_are_one(run_lab: RunLab) -> None:
    """Nothing is awaited between the question to the ledger and the claim."""

    async def test(lab: Lab) -> None:
        prepared = await prepare(lab)
        both = await asyncio.gather(
            switch(lab, prepared, "straight"), switch(lab, prepared, "crossed"), return_exceptions=True
        )
        assert sorted(type(one).__name__ for one in both) == ["ClaimedError", "ReconfigurationStatus"]

    run_lab(test)


def test_an_abort_goes_back_to_the_target_before(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        prepared = await prepare(lab)
        await switch(lab, prepared, "straight")
        lab.set_fault({"switch": "ocs1", "fault": "slow", "seconds": 0.5})
        driven = asyncio.ensure_future(switch(lab, prepared, "crossed", id="cross000"))
        await asyncio.sleep(0.1)
        status = await lab.world.nodes.run_in_node(DAEMON, lab.service.roll_back("cross000"))
        with pytest.raises(HwdError):
            await driven
        assert (status.outcome, the_set(lab).at, light(lab)) == ("rolled-back", "straight", wanted(STRAIGHT))

    run_lab(test)


@pytest.mark.parametrize("way", ["kick", "expiry", "own"])
def test_a_set_ends_with_its_lease_or_at_its_time(run_lab: RunLab, way: str) -> None:
    async def test(lab: Lab) -> None:
        held = await lease(lab, for_s=30.0 if way == "expiry" else 3600.0)
        own: dict[str, Any] = {"for_s": 30.0} if way == "own" else {}
        prepared = await prepare(lab, lease=held, **own)
        await switch(lab, prepared, "straight")
        if way == "kick":
            call = lab.service.release_lease(held, kick=True, by="bob", why="my night")
            assert (await lab.world.nodes.run_in_node(DAEMON, call)).ended_sets == [prepared.id]
        await asyncio.sleep(31.0)
        assert lab.service.sets() == []
        (released,) = lab.emitted(SetReleased)
        why = {
            "kick": f'its lease {held} has ended (kicked by bob: "my night")',
            "expiry": f"its lease {held} has ended (expired)",
            "own": "it has expired",
        }[way]
        assert (released.at, released.why, released.lease, released.holder) == ("straight", why, held, "ada")
        (shown,) = lab.service.status().ended_sets
        text = f"set {prepared.id} of ada is over: {why}; its last target was straight"
        assert str(shown) == text
        with pytest.raises(RefusedError, match=f"^{re.escape(text)}. Prepare it again"):
            await switch(lab, prepared, "crossed")
        await restart(lab)
        assert lab.service.status().ended_sets == [shown]
        assert light(lab) == wanted(STRAIGHT)

    run_lab(test)


def test_a_set_whose_switch_lost_its_crossconnects_does_not_say_at_its_end_where_they_are(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        prepared = await prepare(lab, for_s=30.0)
        await switch(lab, prepared, "straight")
        lab.set_fault({"switch": "ocs1", "fault": "reboot", "seconds": 2.0})
        await asyncio.sleep(31.0)
        assert (lab.service.sets(), light(lab)) == ([], {""})
        (shown,) = lab.service.status().ended_sets
        assert str(shown) == f"set {prepared.id} of ada is over: it has expired; its last target was straight"

    run_lab(test)


def test_a_lease_that_is_kicked_during_a_switch_ends_the_set_behind_it(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        held = await lease(lab)
        prepared = await prepare(lab, lease=held)
        lab.set_fault({"switch": "ocs1", "fault": "slow", "seconds": 0.5})
        driven = asyncio.ensure_future(switch(lab, prepared, "straight"))
        await asyncio.sleep(0.1)
        await lab.world.nodes.run_in_node(DAEMON, lab.service.release_lease(held, kick=True, by="bob"))
        assert (await driven).outcome == "confirmed"
        await asyncio.sleep(0.1)
        assert lab.service.sets() == []

    run_lab(test)


# --- desired state


def test_drift_and_restore_leave_the_ports_of_a_set(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await apply(lab, STRAIGHT)
        held = await lease(lab)
        prepared = await prepare(lab, lease=held)
        lab.set_fault({"switch": "ocs1", "fault": "panel", "remove": ["1A-3B"]})
        await asyncio.sleep(60.0)
        assert "1A-3B" not in light(lab)
        (one,) = lab.service.status().desired
        assert (one.missing, "ocs1.1" in one.changing) == ([], True)
        plan = await lab.service.plan(lab.request("", restore=["ocs1.1"], lease=held))
        assert plan.empty
        assert any(prepared.id in warning for warning in plan.warnings)
        await lab.world.nodes.run_in_node(DAEMON, lab.service.release_set(prepared.id))
        await lab.world.nodes.run_in_node(DAEMON, lab.service.release_lease(held))
        await asyncio.sleep(30.0)
        assert light(lab) == wanted(STRAIGHT)  # the policy acts again

    run_lab(test, text=EXAMPLE.read_text() + "drift: restore\n")


# --- refusals


@pytest.mark.parametrize(
    ("targets", "more", "why"),
    [
        ({}, {}, "0 targets"),
        ({f"t{n}": {"what": STRAIGHT} for n in range(65)}, {}, "1 to 64"),
        ({"before": {"what": STRAIGHT}}, {}, "a meaning of its own"),
        ({"a b": {"what": STRAIGHT}}, {}, "a name has"),
        ({"a": {"what": STRAIGHT}}, {"after_crash": "b"}, "no such rule"),
        ({"a": {"what": STRAIGHT}}, {"mode": "overwrite"}, "not whole switches"),
        ({"a": {"what": "ocs1:none"}}, {}, "name the ends to free"),
        ({"a": {"what": "ocs1:1A-99B"}}, {}, "target a: "),
    ],
)
def test_what_is_no_set_is_refused_in_words(
    run_lab: RunLab, targets: dict[str, Any], more: dict[str, Any], why: str
) -> None:
    async def test(lab: Lab) -> None:
        with pytest.raises((ConfigError, RefusedError), match=why):
            await prepare(lab, targets, **more)
        assert lab.service.sets() == []
        await apply(lab, STRAIGHT, lease=lab.service.leases()[0].lease)  # no port is left held

    run_lab(test)


def test_a_target_that_touches_what_is_leased_to_others_is_refused(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        await lab.world.nodes.run_in_node(DAEMON, lab.service.take_lease(holder="bob", ports=["ocs1.1"], for_s=600))
        mine = await lab.world.nodes.run_in_node(
            DAEMON, lab.service.take_lease(holder="ada", ports=["ocs1.2"], for_s=600)
        )
        with pytest.raises(RefusedError, match="leased to bob"):
            await prepare(lab, lease=mine.lease)

    run_lab(test)


async def taken(lab: Lab, *ports: str, holder: str = "ada", for_s: float = 600.0, **more: Any) -> str:
    call = lab.service.take_lease(holder=holder, ports=[*ports], for_s=for_s, **more)
    return (await lab.world.nodes.run_in_node(DAEMON, call)).lease


def test_a_set_holds_no_port_that_its_lease_does_not_cover(run_lab: RunLab) -> None:
    """Whoever reserved it, or waits for it, would be passed. The refusal has the lease to take."""

    async def test(lab: Lab) -> None:
        mine = await taken(lab, "ocs1.1", "ocs1.7")
        with pytest.raises(RefusedError, match=rf"lease {mine} does not cover: h0\.eth0 .*ocs1\.2 ocs1\.3") as refusal:
            await prepare(lab, lease=mine)
        assert "Not free now" not in str(refusal.value)
        await lab.world.nodes.run_in_node(DAEMON, lab.service.release_lease(mine))
        ports = re.findall(r"`hwd lease take ([^`]*)`", str(refusal.value))[0].split()
        assert {"ocs1.1", "ocs1.7", "ocs1.4", "h1.eth1"} <= {*ports}
        prepared = await prepare(lab, lease=await taken(lab, *ports))
        assert {*prepared.ports} <= {*ports}

    run_lab(test)


@pytest.mark.parametrize("way", ["reserved", "queued"])
def test_a_set_does_not_pass_who_reserved_or_waits(run_lab: RunLab, way: str) -> None:
    async def test(lab: Lab) -> None:
        more: dict[str, Any] = {"at_wall_ns": lab.world.clock.wall_ns() + 60 * 10**9}
        if way == "queued":
            await taken(lab, "ocs1.8", holder="eve")
            more = {"queue": True}
        bobs = await taken(lab, "ocs1.3", "ocs1.8", holder="bob", **more)
        mine = await taken(lab, "ocs1.1", "ocs1.2")
        with pytest.raises(RefusedError, match=rf"Not free now: .*ocs1\.3: .*bob.*{bobs}"):
            await prepare(lab, lease=mine)
        assert lab.service.sets() == []

    run_lab(test)


def test_the_trunk_of_a_route_is_named_as_any_port(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        over_trunk = {"out": {"what": "h0.eth0 <-> h1.eth0"}}
        mine = await taken(lab, "h0.eth0", "ocs1.1", "h1.eth0", "ocs2.3")
        with pytest.raises(RefusedError, match=rf"lease {mine} does not cover: ocs1\.8 ocs2\.8\. "):
            await prepare(lab, over_trunk, lease=mine)
        await taken(lab, "ocs1.8", "ocs2.8", holder="bob")
        with pytest.raises(RefusedError, match=r"Not free now: ocs1\.8, ocs2\.8: leased to bob"):
            await prepare(lab, over_trunk, lease=mine)

    second = "  ocs2: {driver: polatis-tl1, model: polatis-6000, size: 8x8, twin: {timing: polatis-opus, seed: 8}}\n"
    text = EXAMPLE.read_text().replace("\nhosts:", f"{second}\nhosts:", 1)
    text = text.replace("h1.eth0 <-> ocs1.3", "h1.eth0 <-> ocs2.3\n  - ocs1.8 <-> ocs2.8")
    run_lab(test, text=text)


def test_ports_of_a_set_can_be_reserved_for_after_its_lease(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        held = await lease(lab, for_s=60.0)
        await prepare(lab, lease=held)
        at_ns = lab.world.clock.wall_ns() + 90 * 10**9
        bobs = await taken(lab, "ocs1.1", holder="bob", at_wall_ns=at_ns)
        await asyncio.sleep(91.0)
        assert [one.lease for one in lab.service.leases()] == [bobs]

    run_lab(test)


# --- crashes


async def cut_off(lab: Lab, prepared: PreparedSetStatus, target: str, *, left: str, kept: bool = True) -> None:
    """The daemon dies in the middle of a switch, which leaves the mirrors so. `kept`: no power cut takes its entry."""
    lab.set_fault({"switch": "ocs1", "fault": "slow", "seconds": 0.5})
    driven = asyncio.ensure_future(switch(lab, prepared, target, id="cutoff00"))
    await asyncio.sleep(0.1)
    if kept:
        lab.world.journal_disk.sync()  # what the kernel does some seconds later
    lab.world.kill(DAEMON)
    await asyncio.gather(driven, return_exceptions=True)
    await asyncio.sleep(1.0)
    lab.set_fault({"fault": "clear"})
    carry(lab, left)
    lab.world.start_daemon()
    await lab.world.settled()
    await asyncio.sleep(10.0)


HALF = "ocs1:1A-4B,3A-1B,2A-3B"
"""Between straight and crossed."""


@pytest.mark.parametrize("left", [STRAIGHT, HALF, CROSSED])
@pytest.mark.parametrize(
    ("rule", "goal", "outcome"),
    [("finish", CROSSED, "confirmed"), ("before", "", "rolled-back"), ("straight", STRAIGHT, "rolled-back")],
)
def test_a_switch_that_a_crash_cut_off_goes_where_its_rule_says(
    run_lab: RunLab, rule: str, goal: str, outcome: str, left: str
) -> None:
    async def test(lab: Lab) -> None:
        prepared = await prepare(lab, after_crash=rule)
        await switch(lab, prepared, "straight")
        await cut_off(lab, prepared, "crossed", left=left)
        assert light(lab) == wanted(goal)
        at = {"finish": "crossed"}.get(rule, rule)
        assert (the_set(lab).at, the_set(lab).why) == (at, "")
        (entry,) = [one for one in await lab.service.history(limit=9) if one.id == "cutoff00"]
        assert entry.outcome == outcome
        assert (await switch(lab, prepared, "straight")).outcome == "confirmed"

    run_lab(test)


def test_a_set_stands_over_restarts(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        prepared = await prepare(lab)
        await switch(lab, prepared, "straight")
        commands = len(lab.emitted(SwitchCommand))
        await restart(lab)
        await asyncio.sleep(1.0)
        assert len(lab.emitted(SwitchCommand)) == commands
        assert the_set(lab).targets == prepared.targets
        assert (the_set(lab).at, lab.emitted(SetSettled)[-1].target) == ("straight", "straight")
        assert (await switch(lab, prepared, "crossed")).outcome == "confirmed"

    run_lab(test)


@pytest.mark.parametrize("left", ["at rest", "cut off"])
def test_a_set_of_a_switch_that_left_the_testbed_file_ends_and_frees_its_ports(run_lab: RunLab, left: str) -> None:
    def on_old1(entry: dict[str, Any]) -> None:
        if entry["entry"] != "prepare":
            return
        prepared = entry["prepared"]
        prepared["ends"] = {**prepared["ends"], "old1": []}

    async def test(lab: Lab) -> None:
        held = await lease(lab)
        prepared = await prepare(lab, lease=held)
        if left == "cut off":
            lab.set_fault({"switch": "ocs1", "fault": "slow", "seconds": 0.5})
            driven = asyncio.ensure_future(switch(lab, prepared, "straight", id="cutoff00"))
            await asyncio.sleep(0.1)
            lab.world.journal_disk.sync()
            lab.world.kill(DAEMON)
            await asyncio.gather(driven, return_exceptions=True)
            await asyncio.sleep(1.0)
            lab.set_fault({"fault": "clear"})
        else:
            lab.world.kill(DAEMON)
        rewrite_journal(lab, on_old1)
        lab.world.start_daemon()
        await lab.world.settled()
        await asyncio.sleep(10.0)
        assert lab.service.sets() == []
        (released,) = lab.emitted(SetReleased)
        assert released.why == ("the testbed file has changed: old1 is no switch of it that the daemon drives")
        assert light(lab) == (wanted(STRAIGHT) if left == "cut off" else {""}), "its rule holds for the others"
        assert (await apply(lab, CROSSED, lease=held)).outcome == "confirmed"

    run_lab(test)


def test_a_set_that_expires_while_the_daemon_is_away_has_ended(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        prepared = await prepare(lab, for_s=30.0)
        await switch(lab, prepared, "straight")
        await restart(lab, after_s=60.0)
        await asyncio.sleep(1.0)
        assert (lab.service.sets(), light(lab)) == ([], wanted(STRAIGHT))
        await restart(lab)
        await asyncio.sleep(1.0)
        assert lab.service.sets() == []

    run_lab(test)


def test_what_a_power_cut_took_is_read_from_the_switches(run_lab: RunLab) -> None:
    """The switch was appended and not synced: the journal knows nothing of it, and the switches have its target."""

    async def test(lab: Lab) -> None:
        prepared = await prepare(lab)
        await switch(lab, prepared, "straight")
        await cut_off(lab, prepared, "crossed", left=CROSSED, kept=False)
        assert (the_set(lab).at, light(lab)) == ("crossed", wanted(CROSSED))
        assert "power cut" in lab.emitted(SetSettled)[-1].why
        await restart(lab)
        await asyncio.sleep(1.0)
        assert the_set(lab).at == "crossed"

    run_lab(test)


@pytest.mark.parametrize(("rule", "goal"), [("finish", STRAIGHT), ("before", ""), ("crossed", CROSSED)])
def test_what_equals_no_target_goes_by_the_rule(run_lab: RunLab, rule: str, goal: str) -> None:
    async def test(lab: Lab) -> None:
        prepared = await prepare(lab, after_crash=rule)
        await switch(lab, prepared, "straight")
        lab.world.kill(DAEMON)
        carry(lab, HALF)
        await asyncio.sleep(1.0)
        lab.world.start_daemon()
        await lab.world.settled()
        await asyncio.sleep(5.0)
        at = {"finish": "straight"}.get(rule, rule)
        assert (light(lab), the_set(lab).at) == (wanted(goal), at)
        by = [one.by for one in lab.emitted(ReconfigurationStarted)][-1]
        assert by == f"rule of prepared set {prepared.id}"

    run_lab(test)


async def restart_with(lab: Lab, left: str, fault: dict[str, Any] | None = None) -> None:
    """The daemon is started anew, with the mirrors left so and the switch misbehaving."""
    lab.world.kill(DAEMON)
    carry(lab, left)
    await asyncio.sleep(1.0)
    if fault is not None:
        lab.set_fault({"switch": "ocs1", **fault})
    lab.world.start_daemon()
    await lab.until(SwitchUp)


def test_what_others_made_beside_a_set_does_not_keep_it_from_its_target(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        prepared = await prepare(lab, after_crash="crossed", ready_within_s=5.0)
        await switch(lab, prepared, "straight")
        await restart_with(lab, f"{HALF},7A-8B")
        await asyncio.sleep(8.0)
        assert (light(lab), the_set(lab).at) == (wanted(CROSSED) | {"7A-8B"}, "crossed")

    run_lab(test)


def test_a_set_that_cannot_be_brought_to_a_target_is_not_tried_without_a_pause(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        prepared = await prepare(lab, after_crash="crossed")
        await switch(lab, prepared, "straight")
        await asyncio.sleep(1.0)
        before = len(lab.emitted(ReconfigurationEnded))
        await restart_with(lab, HALF, {"fault": "deny", "code": "SROF"})
        await asyncio.sleep(3.0)
        assert [one.outcome for one in lab.emitted(ReconfigurationEnded)[before:]] == ["rolled-back"]
        await asyncio.sleep(5.0)
        assert (light(lab), the_set(lab).at) == (wanted(CROSSED), "crossed")

    run_lab(test)


def test_a_set_that_is_released_while_it_is_read_after_a_restart_moves_nothing_more(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        held = await lease(lab)
        prepared = await prepare(lab, lease=held, after_crash="crossed")
        await switch(lab, prepared, "straight")
        await restart_with(lab, HALF, {"fault": "slow", "seconds": 0.3})
        await asyncio.sleep(0.05)
        assert the_set(lab).at is None
        await lab.world.nodes.run_in_node(DAEMON, lab.service.release_set(prepared.id))
        await lab.world.nodes.run_in_node(DAEMON, lab.service.release_lease(held))
        commands = len(lab.emitted(SwitchCommand))
        await asyncio.sleep(15.0)
        assert (len(lab.emitted(SwitchCommand)), light(lab)) == (commands, wanted(HALF))
        assert (await apply(lab, STRAIGHT)).outcome == "confirmed", "its ports are free"


def test_a_set_whose_lease_ended_while_the_daemon_was_away_goes_by_its_rule_before_it_ends(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        prepared = await prepare(lab, lease=await lease(lab, for_s=60.0), after_crash="crossed")
        await switch(lab, prepared, "straight")
        lab.world.kill(DAEMON)
        carry(lab, HALF)
        await asyncio.sleep(90.0)
        lab.world.start_daemon()
        await lab.world.settled()
        await asyncio.sleep(10.0)
        assert (light(lab), lab.service.sets()) == (wanted(CROSSED), [])
        assert [one.at for one in lab.emitted(SetReleased)] == ["crossed"]

    run_lab(test)


def carry(lab: Lab, what: str) -> None:
    """Leave the switch with these crossconnects, by no command of the daemon."""
    mirror = lab.world.rack.switches["ocs1"].mirror
    now = [Crossconnect.parse(one) for one in what.removeprefix("ocs1:").split(",")]
    mirror.change(mirror.crossconnects(), now, lab.world.clock.monotonic_ns())


def test_a_preparation_that_was_cut_off_before_its_entry_left_nothing(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        held = await lease(lab)
        lab.set_fault({"switch": "ocs1", "fault": "slow", "seconds": 0.5})
        making = asyncio.ensure_future(prepare(lab, lease=held))
        await asyncio.sleep(0.1)
        lab.world.kill(DAEMON)
        await asyncio.gather(making, return_exceptions=True)
        lab.set_fault({"fault": "clear"})
        lab.world.start_daemon()
        await lab.world.settled()
        assert (lab.service.sets(), lab.emitted(SetPrepared)) == ([], [])
        await apply(lab, STRAIGHT, lease=held)

    run_lab(test)


# --- what others do, and what the disk does


def test_what_a_switch_takes_from_another_client_is_reported(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        prepared = await prepare(lab)
        await switch(lab, prepared, "straight")
        lab.set_fault({"switch": "ocs1", "fault": "panel", "remove": ["1A-3B"], "add": ["1A-8B"]})
        done = await switch(lab, prepared, "crossed")
        assert (done.outcome, light(lab)) == ("confirmed", wanted(CROSSED))
        (overrun,) = lab.emitted(SwitchOverrun)
        assert overrun.lost == ["1A-8B"]
        assert any("1A-8B of another client" in remark for remark in done.remarks)

    run_lab(test)


@pytest.mark.parametrize(
    ("target", "there"),
    [
        ("straight", f"{STRAIGHT},5A-6B,6A-5B"),
        ("crossed", f"{CROSSED},5A-7B,7A-5B"),
        ("before", "ocs1:5A-6B,6A-5B"),
    ],
)
def test_a_switch_brings_back_what_a_power_cut_of_the_switch_took(run_lab: RunLab, target: str, there: str) -> None:
    async def test(lab: Lab) -> None:
        await apply(lab, "ocs1:5A-6B,6A-5B")
        prepared = await prepare(lab, {"straight": {"what": STRAIGHT}, "crossed": {"what": f"{CROSSED},5A-7B,7A-5B"}})
        await switch(lab, prepared, "straight")
        lab.set_fault({"switch": "ocs1", "fault": "reboot", "seconds": 2.0})
        await lab.until(SwitchUp)
        await asyncio.sleep(1.0)
        assert light(lab) == {""}
        left = the_set(lab)
        assert (left.at, left.why) == (
            None,
            "not at straight any more: ocs1 lacks 1A-3B, lacks 2A-4B, lacks 3A-1B, lacks 4A-2B, lacks 5A-6B, "
            f"lacks 6A-5B. `hwd switch {left.id} straight` brings it back",
        )
        done = await switch(lab, prepared, target)
        there = {
            "straight": f"{STRAIGHT},5A-6B,6A-5B",
            "crossed": f"{CROSSED},5A-7B,7A-5B",
            "before": "ocs1:5A-6B,6A-5B",
        }
        assert (done.outcome, light(lab), the_set(lab).at) == ("confirmed", wanted(there[target]), target)

    run_lab(test)


def test_a_switch_that_failed_where_others_took_what_it_keeps_is_done_at_the_next_call(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        prepared = await prepare(
            lab, {"a": {"what": "ocs1:1A-3B,3A-1B,2A-5B"}, "b": {"what": "ocs1:1A-3B,3A-1B,2A-6B"}}
        )
        await switch(lab, prepared, "a")
        lab.set_fault({"switch": "ocs1", "fault": "panel", "remove": ["1A-3B"], "add": ["1A-8B"]})
        with pytest.raises(FailedError, match="1A-3B is not there"):
            await switch(lab, prepared, "b")
        done = await switch(lab, prepared, "b")
        assert (done.outcome, light(lab)) == ("confirmed", wanted("ocs1:1A-3B,3A-1B,2A-6B"))
        lab.set_fault({"switch": "ocs1", "fault": "panel", "remove": ["3A-1B"]})
        await asyncio.sleep(60.0)  # a poll sees it
        await switch(lab, prepared, "b")
        assert light(lab) == wanted("ocs1:1A-3B,3A-1B,2A-6B")

    run_lab(test)


async def prepared_beside(lab: Lab) -> tuple[PreparedSetStatus, str]:
    """A set of the ports 5 to 8, and the lease of somebody else on 1 to 4 and their NIC ports."""
    held = await lab.world.nodes.run_in_node(
        DAEMON, lab.service.take_lease(holder="ada", ports=[f"ocs1.{port}" for port in range(5, 9)], for_s=3600)
    )
    others = [*(f"ocs1.{port}" for port in range(1, 5)), *(f"h{host}.eth{nic}" for host in (0, 1) for nic in (0, 1))]
    theirs = await lab.world.nodes.run_in_node(DAEMON, lab.service.take_lease(holder="bob", ports=others, for_s=3600))
    targets = {"a": {"what": "ocs1:5A-6B,6A-5B"}, "b": {"what": "ocs1:5A-7B,7A-5B"}}
    prepared = await prepare(lab, targets, lease=held.lease, after_crash="b")
    await switch(lab, prepared, "a")
    return prepared, theirs.lease


def test_a_switch_that_would_take_what_a_panel_joined_with_ports_of_others_is_refused(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        prepared, theirs = await prepared_beside(lab)
        lab.set_fault({"switch": "ocs1", "fault": "panel", "remove": ["5A-6B"], "add": ["5A-1B"]})
        await asyncio.sleep(60.0)  # a poll sees it
        there = light(lab)
        for _ in range(2):  # a refusal leaves it as disturbed as it was
            with pytest.raises(RefusedError, match=r"h0\.eth0, ocs1\.1: leased to bob"):
                await switch(lab, prepared, "b")
            assert light(lab) == there
            assert the_set(lab).why.startswith("not at a any more: ocs1 lacks 5A-6B, has 5A-1B beside")
        await lab.world.nodes.run_in_node(DAEMON, lab.service.release_lease(theirs))
        await switch(lab, prepared, "b")
        assert light(lab) == wanted("ocs1:5A-7B,7A-5B")

    run_lab(test)


def test_a_rule_leaves_what_a_panel_joined_with_ports_of_others_until_these_are_free(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        _, theirs = await prepared_beside(lab)
        lab.world.kill(DAEMON)
        carry(lab, "ocs1:5A-1B,6A-5B")
        await asyncio.sleep(1.0)
        lab.world.start_daemon()
        await lab.world.settled()
        await asyncio.sleep(8.0)
        assert light(lab) == wanted("ocs1:5A-1B,6A-5B")
        assert "leased to bob" in the_set(lab).why
        await lab.world.nodes.run_in_node(DAEMON, lab.service.release_lease(theirs))
        await asyncio.sleep(8.0)
        assert (light(lab), the_set(lab).at) == (wanted("ocs1:5A-7B,7A-5B"), "b")

    run_lab(test)


def test_a_journal_that_refuses_a_set_leaves_nothing_and_is_written_again(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        held = await lease(lab)
        lab.world.journal_disk.refusal = (errno.EIO, 0)
        with pytest.raises(FailedError, match="cannot write the plan"):
            await prepare(lab, lease=held)
        assert lab.service.sets() == []
        lab.world.journal_disk.refusal = None
        await asyncio.sleep(20.0)
        assert lab.service.ready().ready
        prepared = await prepare(lab, lease=held)
        assert (await switch(lab, prepared, "straight")).outcome == "confirmed"

    run_lab(test)


def test_a_switch_on_a_full_disk_has_its_room(run_lab: RunLab) -> None:
    async def test(lab: Lab) -> None:
        prepared = await prepare(lab)
        await switch(lab, prepared, "straight")
        lab.world.journal_disk.capacity_bytes = lab.world.journal_disk.size() + lab.world.journal_disk.room()
        assert (await switch(lab, prepared, "crossed")).outcome == "confirmed"

    run_lab(test)


def test_switches_refused_in_a_loop_are_said_once(run_lab: RunLab, caplog: pytest.LogCaptureFixture) -> None:
    async def test(lab: Lab) -> None:
        prepared = await prepare(lab)
        caplog.clear()
        for _ in range(9):
            with pytest.raises(RefusedError, match="no target 'x'"):
                await switch(lab, prepared, "x")
        assert len([one for one in caplog.records if one.levelname == "WARNING"]) == 1

    run_lab(test)
