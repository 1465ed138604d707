"""Interlocks on the way of a reconfiguration: what is refused, what is recorded, and that no way back asks them."""

import asyncio
from pathlib import Path

import pytest
from msgspec import UNSET

from hwd.model.bodies import ActBody
from hwd.model.daemon import DaemonRecovered
from hwd.model.interlock import Interlock, InterlockName
from hwd.model.plan_summary import InterlockRefused, PlanMade
from hwd.model.reconfiguration import ReconfigurationCommanded, ReconfigurationEnded, ReconfigurationStarted
from hwd.reconfigure.journal import file as journal_file
from hwd.records.records import Records
from hwd.sim.rank import Rank
from hwd.sim.world import DAEMON
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.devices.facts import SwitchCommand, SwitchUp

from .conftest import CROSSED, EXAMPLE, STRAIGHT, Lab, of_testbed

LOSSY = EXAMPLE.replace("100g-lr4", "{type: 100g-lr4, rx_min_dbm: -6.0}")
ALLOWED = "interlocks: {loss-budget: {override: allowed}}\n"
REASON = "measured by hand"
ALL_WRONG = (
    EXAMPLE.replace("100g-lr4", "{type: 100g-lr4, rx_min_dbm: 0.0, rx_max_dbm: 1.0}")
    + """
ports: {ocs1.1: {state: failed}, ocs1.4: {state: maintenance}}
interlocks:
  input-power: {max_dbm: {ocs1: 1.0}}
  wear: {moves: {ocs1: 1}, moves_per_hour: {ocs1: 1}}
  rate: {changes: {ocs1: 1}, per_s: 86400}
  forbidden-pair: {pairs: {h0.eth0 <-> h1.eth0: not these, h0.eth0 <-> h1.eth1: nor these}}
"""
)
"""A rack on which every interlock refuses both ways to join its ports, once the switch was changed."""


def refusals(lab: Lab) -> dict[str, float]:
    found = lab.metrics("hwd_interlock_refusals_total")
    return {interlock: count for (interlock,), count in found.items() if count}


def overridden(fact: ReconfigurationStarted) -> list[Interlock]:
    assert fact.overridden is not UNSET
    return fact.overridden


@of_testbed(LOSSY)
async def test_what_is_refused_is_planned_whole_and_sends_nothing_and_is_counted_by_its_interlock(lab: Lab) -> None:
    plan = await lab.plan(STRAIGHT)
    assert [one.subject for one in plan.refused] == ["h0.eth0<->h1.eth0", "h0.eth1<->h1.eth1"]
    assert str(plan).endswith("refused by loss-budget")
    assert lab.emitted(PlanMade)[0].plan == plan
    assert refusals(lab) == {"loss-budget": 1}
    with pytest.raises(RefusedError, match=r"interlock loss-budget refused: h0\.eth0<->h1\.eth0: .* over the budget"):
        await lab.apply(STRAIGHT)
    refused = lab.emitted(InterlockRefused)[-1]
    assert (refused.interlock, refused.subject, refused.subjects) == ("loss-budget", "h0.eth0<->h1.eth0", 2)
    assert refused.limit == pytest.approx(1.7)
    assert (refused.unit, refused.run) == ("dB", None)
    with pytest.raises(RefusedError, match="interlock loss-budget"):
        await lab.apply("", hash=plan.hash)
    assert refusals(lab) == {"loss-budget": 3}
    assert not lab.emitted(ReconfigurationStarted)
    assert lab.light() == set()
    assert not (await lab.service.rack.status()).reconfigurations, "nothing is held"


@of_testbed(LOSSY + ALLOWED)
async def test_a_plan_with_an_override_is_another_one_and_its_reason_is_recorded_everywhere(
    lab: Lab, tmp_path: Path
) -> None:
    bare = await lab.plan(STRAIGHT)
    plan = await lab.plan(STRAIGHT, overrides={"loss-budget": REASON})
    assert plan.hash != bare.hash
    assert {(one.name, one.state, one.reason) for one in plan.interlocks[:2]} == {("loss-budget", "overridden", REASON)}
    await lab.apply(STRAIGHT, overrides={"loss-budget": REASON}, confirm_within_s=60)
    (started,) = lab.emitted(ReconfigurationStarted)
    assert [(one.name, one.subject, one.reason) for one in overridden(started)] == [
        ("loss-budget", "h0.eth0<->h1.eth0", REASON),
        ("loss-budget", "h0.eth1<->h1.eth1", REASON),
    ]
    (entry,) = journal_file.read(lab.world.journal_disk.read(), None).open
    assert entry.overridden[0].startswith("interlock loss-budget overridden: h0.eth0<->h1.eth0: ")
    assert entry.overridden[0].endswith(f". Overridden: {REASON}")
    await lab.service.light.confirm("-")
    await lab.world.stop("daemon")
    records = Records(f"sqlite:///{tmp_path / 'records.db'}", InlineOffload())
    await records.open()
    (stored,) = await records.documents(kinds=[ReconfigurationStarted.KIND])
    records.close()
    assert stored.document.fact == started


@of_testbed(LOSSY + ALLOWED)
async def test_a_playbook_overrides_in_its_apply_step(lab: Lab) -> None:
    playbook = f"playbook: one\nshows: x\nsteps:\n  - apply: {{pairs: '{STRAIGHT}', OVERRIDE}}\n"
    text = playbook.replace("OVERRIDE", f"override: {{loss-budget: {REASON}}}")
    run = await lab.world.run_playbook(text, file="one.yaml")
    assert (await lab.service.runs.run(run)).outcome == "succeeded"
    assert [overridden(one)[0].reason for one in lab.emitted(ReconfigurationStarted)] == [REASON]
    run = await lab.world.run_playbook(playbook.replace(", OVERRIDE", ""), file="one.yaml")
    ended = await lab.service.runs.run(run)
    assert (ended.outcome, ended.safe_state) == ("failed", "untouched")
    assert "refused: " in ended.why
    assert "interlock loss-budget" in ended.why
    assert lab.emitted(InterlockRefused)[-1].run == run


@of_testbed(EXAMPLE + "interlocks: {rate: {changes: {ocs1: 2}, per_s: 30}}\n")
async def test_a_switch_that_was_changed_too_often_is_left_alone_until_the_window_is_over(lab: Lab) -> None:
    plan = await lab.plan("ocs1:5A-6B")
    for what in (STRAIGHT, CROSSED):
        await lab.apply(what)
    with pytest.raises(RefusedError, match=r"interlock rate refused: ocs1: it was changed 2 times in the last 30 s"):
        await lab.apply(STRAIGHT)
    assert (await lab.apply(CROSSED)).outcome == "confirmed", "nothing moves by it"
    await asyncio.sleep(31)
    assert (await lab.apply(STRAIGHT)).outcome == "confirmed"
    await lab.apply("ocs1:none")
    with pytest.raises(RefusedError, match=f"plan {plan.hash}: its interlocks find something else now"):
        await lab.apply("", hash=plan.hash)


# --- the way back


async def check_way_back(lab: Lab) -> None:
    """The light is there again, and every interlock refuses to move it elsewhere: those of motion by what was used up
    before the way back.
    """
    assert lab.light() == {*STRAIGHT.removeprefix("ocs1:").split(",")}
    await lab.world.settled()
    rank = await Rank.connect(lab.world, "h0")
    assert (await rank.claim("eth0", within_s=60))["outcome"] == "go"
    plan = await lab.plan(CROSSED)
    assert {one.name for one in plan.refused} == {*InterlockName}


@of_testbed(ALL_WRONG)
@pytest.mark.parametrize("way", ["asked for", "not confirmed", "recovery", "abort of a run"])
async def test_every_interlock_refuses_the_way_forward_and_none_a_roll_back(lab: Lab, way: str) -> None:
    """Light that every interlock refuses is there, and an apply that none refuses takes it away."""
    lab.connect(STRAIGHT)
    run = ""
    if way == "abort of a run":
        run = await lab.start_run("apply: {pairs: 'ocs1:none'}", "wait: {for_s: 600}")
        await lab.until(ReconfigurationCommanded)
        await asyncio.sleep(5)
    else:
        await lab.apply("ocs1:none", confirm_within_s=60)
    assert lab.light() == set()
    match way:
        case "asked for":
            assert (await lab.service.light.roll_back("-")).outcome == "rolled-back"
        case "not confirmed":
            await asyncio.sleep(61)
            assert [one.outcome for one in lab.emitted(ReconfigurationEnded)] == ["rolled-back"]
        case "recovery":
            await asyncio.sleep(1)  # the records are written behind
            lab.world.kill(DAEMON)
            await asyncio.sleep(600)  # the time to confirm it is over when the daemon is back
            lab.world.start_daemon()
            await lab.until(DaemonRecovered)
            assert lab.emitted(DaemonRecovered)[0].outcome == "rolled-back"
        case _:
            assert (await lab.service.runs.abort(run, ActBody(by="ada"))).safe_state == "before-apply"
    await check_way_back(lab)


# --- what is counted


WEAR = "interlocks: {wear: {moves: {ocs1: 4}, moves_per_hour: {ocs1: 4}}, rate: {changes: {ocs1: 4}, per_s: 60}}\n"


@of_testbed(EXAMPLE + WEAR)
async def test_moves_are_counted_by_element_and_survive_the_death_of_the_daemon(lab: Lab) -> None:
    async def figures(lab: Lab, what: str) -> list[tuple[str, float | None, str]]:
        plan = await lab.plan(what)
        return [(one.subject, one.figure, one.state) for one in plan.interlocks if one.name in ("wear", "rate")]

    for what in ("ocs1:5A-6B", "ocs1:5A-7B", "ocs1:5A-6B"):
        await lab.apply(what)
    before = await figures(lab, "ocs1:5A-8B")
    assert before == [("ocs1:5A", 4, "holds"), ("ocs1:5A", 4, "holds"), ("ocs1", 4, "holds")]
    await asyncio.sleep(1)  # the records are written behind
    await lab.restart(after_s=0.0)
    assert await figures(lab, "ocs1:5A-8B") == before
    await lab.apply("ocs1:5A-8B")
    assert {state for _, _, state in await figures(lab, "ocs1:5A-6B")} == {"refused"}
    await asyncio.sleep(1)
    lab.world.kill(DAEMON)
    lab.without_agents()
    await asyncio.sleep(3600)
    lab.world.start_daemon()
    await lab.until(SwitchUp)
    found = await figures(lab, "ocs1:5A-1B")
    assert found == [("ocs1:5A", 5, "refused"), ("ocs1:1B", 1, "holds"), ("ocs1", 1, "holds")], "of its life"


async def test_a_way_back_is_counted_as_well(lab: Lab) -> None:
    await lab.apply("ocs1:5A-6B", confirm_within_s=60)
    await lab.service.light.roll_back("-")
    moved = [command.moved for command in lab.emitted(SwitchCommand)]
    assert moved == [["5A", "6B"], ["5A", "6B"]]
    assert lab.metrics("hwd_switch_moves_total")[("ocs1",)] == 4
