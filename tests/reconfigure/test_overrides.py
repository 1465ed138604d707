"""Ends that are held dark: under leases and holds, told, warned of in plans, and no success where a wanted one is."""

import asyncio

import pytest

from hwd.model.bodies import EpochBody, LeaseBody, OverrideBody
from hwd.model.switch import HeldEnds
from hwd.sim.rank import Rank
from hwd_drivers.core.errors import ConfigError, FailedError, LinkError, RefusedError
from hwd_drivers.core.structs import to_plain
from hwd_drivers.devices.facts import SwitchDown, SwitchOverride

from ..texts import ends_of
from .conftest import STRAIGHT, Lab


async def switch(lab: Lab) -> dict[str, object]:
    (one,) = await lab.service.rack.switches()
    return to_plain(one)  # type: ignore[no-any-return]


async def test_a_link_whose_end_is_blocked_goes_dark_and_comes_back(lab: Lab) -> None:
    await lab.apply(STRAIGHT, ready_within_s=15)
    told = await lab.service.overrides.override(
        OverrideBody(switch="ocs1", ends=["1A"], to="force-blocked", by="ada@desk: dirty")
    )
    assert told == HeldEnds(switch="ocs1", ends=ends_of("1A"), to="force-blocked", blocked=ends_of("1A"))
    await asyncio.sleep(0)  # readings are told right after
    assert (await switch(lab))["blocked"] == ["1A"]
    states = {one["id"]: one["state"] for one in (await switch(lab))["crossconnects"]}  # type: ignore[attr-defined]
    assert states["1A-3B"] == "blocked"
    assert {state for pair, state in states.items() if pair != "1A-3B"} == {"unstated"}
    await asyncio.sleep(1)
    links = (await lab.service.rack.status()).links
    assert links.get("h0.eth1<->h1.eth1") is True
    assert links.get("h0.eth0<->h1.eth0") is not True
    await lab.service.overrides.override(OverrideBody(switch="ocs1", ends=["1A"], to="normal", by="ada@desk"))
    await asyncio.sleep(10)
    links = (await lab.service.rack.status()).links
    assert links["h0.eth0<->h1.eth0"] is True
    assert [(one.ends, one.to, one.by) for one in lab.emitted(SwitchOverride)] == [
        (["1A"], "force-blocked", "ada@desk: dirty"),
        (["1A"], "normal", "ada@desk"),
    ]


async def test_a_wanted_end_that_is_blocked_is_warned_of_and_no_success(lab: Lab) -> None:
    await lab.service.overrides.override(OverrideBody(switch="ocs1", ends=["3B", "8A"], to="force-blocked", by="ada"))
    plan = await lab.plan(STRAIGHT)
    said = "ocs1:1A-3B: 3B is held dark by an override, and no light will pass: {}. `hwd unblock ocs1:3B` lets it go"
    assert plan.warnings == [said.format("an apply makes it, fails and goes back")]
    with pytest.raises(FailedError, match=r"1A-3B is set, and held dark .*hwd unblock ocs1:1A,3B.*rolled-back"):
        await lab.apply(STRAIGHT)
    await lab.service.overrides.override(OverrideBody(switch="ocs1", ends=["3B"], to="normal", by="ada"))
    assert (await lab.plan(STRAIGHT)).warnings == []
    assert (await lab.apply(STRAIGHT, ready_within_s=15)).outcome == "confirmed"
    await lab.service.overrides.override(OverrideBody(switch="ocs1", ends=["3B"], to="force-blocked", by="ada"))
    stays = await lab.plan(STRAIGHT)
    assert stays.warnings == [said.format("it stays so")]


async def test_what_another_lease_covers_is_not_made_dark(lab: Lab) -> None:
    """Neither the port itself, nor one whose light goes through it."""
    await lab.apply(STRAIGHT, ready_within_s=15)
    for port in ("ocs1.1", "ocs1.3", "h0.eth0", "h1.eth0"):
        lease = await lab.lease(port, holder="ben")
        for to in ("force-blocked", "normal"):
            with pytest.raises(RefusedError, match=f"{port}: leased to ben"):
                await lab.service.overrides.override(OverrideBody(switch="ocs1", ends=["1A"], to=to, by="ada"))
        assert lab.emitted(SwitchOverride) == []
        await lab.service.leases.release(lease, EpochBody())
    await lab.lease("ocs1.1", "ocs1.3", "h0.eth0", "h1.eth0", holder="kim")
    await lab.service.overrides.override(OverrideBody(switch="ocs1", ends=["2A"], to="force-blocked", by="ada"))
    (lease,) = [one.lease for one in lab.service.leases.leases()]
    await lab.service.overrides.override(
        OverrideBody(switch="ocs1", ends=["1A"], to="force-blocked", lease=lease, by="kim")
    )
    assert (await switch(lab))["blocked"] == ["1A", "2A"]


@pytest.mark.parametrize(("before", "what", "end"), [("", "ocs1:1A-3B,3A-1B", "1B"), (STRAIGHT, STRAIGHT, "1A")])
async def test_what_a_reconfiguration_holds_or_relies_on_is_not_made_dark_until_it_has_ended(
    lab: Lab, before: str, what: str, end: str
) -> None:
    """Before it, all that the second one wants is there: it relies on that, and moves nothing."""
    if before:
        await lab.apply(before, ready_within_s=15)
    done = await lab.apply(what, confirm_within_s=60)
    with pytest.raises(RefusedError, match=r"ocs1\.1, ocs1\.3: reconfiguration .* is under way on it"):
        await lab.service.overrides.override(OverrideBody(switch="ocs1", ends=[end], to="force-blocked", by="ada"))
    await lab.service.light.confirm(done.id)
    await lab.service.overrides.override(OverrideBody(switch="ocs1", ends=[end], to="force-blocked", by="ada"))
    assert (await switch(lab))["blocked"] == [end]


@pytest.mark.parametrize("fails", [False, True])
async def test_nobody_takes_the_ports_of_an_override_while_it_is_being_sent(lab: Lab, fails: bool) -> None:
    await lab.apply(STRAIGHT, ready_within_s=15)
    rank = await Rank.connect(lab.world, "h0")
    lab.set_fault({"switch": "ocs1", "fault": "slow", "seconds": 1.0})
    overriding = asyncio.create_task(
        lab.service.overrides.override(OverrideBody(switch="ocs1", ends=["1A"], to="force-blocked", by="eve"))
    )
    await asyncio.sleep(1.5)  # it is checked, and its command on its way
    assert (lab.emitted(SwitchOverride), overriding.done()) == ([], False)
    now = "eve sets ends of ocs1 force-blocked now"
    for port in ("ocs1.1", "h0.eth0", "h1.eth0"):
        with pytest.raises(RefusedError, match=f"{port}: {now}"):
            await lab.service.leases.take(LeaseBody(holder="bob", ports=[port], for_s=600))
    refused = await rank.claim("eth0", within_s=5)
    assert (refused["outcome"], now in refused["why"]) == ("refused", True)
    await lab.lease("ocs1.2", holder="bob")

    if fails:
        lab.set_fault({"switch": "ocs1", "fault": "reset"})
        with pytest.raises(LinkError):
            await overriding
    else:
        await overriding
    await lab.lease("ocs1.1", "h0.eth0", holder="bob")


async def test_an_apply_during_an_override_waits_for_its_turn(lab: Lab) -> None:
    lab.set_fault({"switch": "ocs1", "fault": "slow", "seconds": 1.0})
    overriding = asyncio.create_task(
        lab.service.overrides.override(OverrideBody(switch="ocs1", ends=["8A"], to="force-blocked", by="eve"))
    )
    await asyncio.sleep(1.5)
    done = await lab.apply("ocs1:7A-8B")
    assert (done.outcome, overriding.done()) == ("confirmed", True)


async def test_light_that_somebody_led_there_since_the_last_look_is_not_made_dark(lab: Lab) -> None:
    await lab.lease("h1.eth0", holder="ben")
    lab.set_fault({"switch": "ocs1", "fault": "panel", "add": ["8A-3B"]})
    with pytest.raises(RefusedError, match=r"h1\.eth0: leased to ben"):
        await lab.service.overrides.override(OverrideBody(switch="ocs1", ends=["8A"], to="force-blocked", by="ada"))


async def test_what_is_not_there_is_bad_input(lab: Lab) -> None:
    asked = {("ocs2", "1A"): "'ocs2' is no switch", ("ocs1", "9A"): "it has no 9A", ("ocs1", "1A-2B"): "not a port"}
    for (name, end), said in asked.items():
        with pytest.raises(ConfigError, match=said):
            await lab.service.overrides.override(OverrideBody(switch=name, ends=[end], to="force-blocked", by="ada"))


async def test_ends_that_are_blocked_are_counted_until_the_switch_is_away(lab: Lab) -> None:
    await lab.service.overrides.override(OverrideBody(switch="ocs1", ends=["1A..4A"], to="force-blocked", by="ada"))
    assert lab.metrics("hwd_switch_blocked_ends") == {("ocs1",): 4}
    await lab.service.overrides.override(OverrideBody(switch="ocs1", ends=["2A..3A"], to="normal", by="ada"))
    assert lab.metrics("hwd_switch_blocked_ends") == {("ocs1",): 2}
    lab.cut_switch()
    await lab.until(SwitchDown)
    assert lab.metrics("hwd_switch_blocked_ends") == {}
