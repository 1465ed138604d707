"""Interlocks on the way of a reconfiguration: what is refused, what is recorded, and that no way back asks them."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from hwd.model.documents.daemon import DaemonRecovered
from hwd.model.documents.plans import InterlockRefused, PlanMade
from hwd.model.documents.reconfigurations import ReconfigurationCommanded, ReconfigurationEnded, ReconfigurationStarted
from hwd.model.interlock import InterlockName
from hwd.reconfigure.journal import file as journal_file
from hwd.records.records import Records
from hwd.sim.rank import Rank
from hwd.sim.world import DAEMON, agent_node
from hwd_drivers.core.errors import RefusedError
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.core.values import Crossconnect
from hwd_drivers.devices.facts import SwitchCommand

EXAMPLE = (Path(__file__).parents[2] / "examples" / "two-hosts.yaml").read_text()
STRAIGHT, CROSSED = "ocs1:1A-3B,3A-1B,2A-4B,4A-2B", "ocs1:1A-4B,4A-1B,2A-3B,3A-2B"
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

RunLab = Callable[..., None]


def refusals(lab: Any) -> dict[str, float]:
    text = bytes(lab.world.daemon.metrics.render()).decode()
    families = text_string_to_metric_families(text)
    return {
        sample.labels["interlock"]: sample.value
        for family in families
        for sample in family.samples
        if sample.name == "hwd_interlock_refusals_total" and sample.value
    }


def carried(lab: Any) -> set[str]:
    return {*filter(None, lab.light().removeprefix("ocs1:").split(","))}


def set_by_hand(lab: Any, what: str) -> None:
    """As somebody does at the switch itself, whom no interlock asks."""
    pairs = [Crossconnect.parse(text) for text in what.removeprefix("ocs1:").split(",")]
    lab.world.rack.switches["ocs1"].mirror.connect(pairs, lab.world.clock.monotonic_ns(), move=True)


def test_an_apply_that_is_refused_sends_nothing_and_is_counted_by_its_interlock(run_lab: RunLab) -> None:
    async def test(lab: Any) -> None:
        with pytest.raises(
            RefusedError, match=r"interlock loss-budget refused: h0\.eth0<->h1\.eth0: .* over the budget"
        ):
            await lab.service.apply(lab.request(STRAIGHT))
        assert not lab.emitted(ReconfigurationStarted)
        assert carried(lab) == set()
        (refused,) = lab.emitted(InterlockRefused)
        assert (refused.interlock, refused.subject, refused.subjects) == ("loss-budget", "h0.eth0<->h1.eth0", 2)
        assert (refused.limit, refused.unit, refused.run) == (pytest.approx(1.7), "dB", None)
        assert refusals(lab) == {"loss-budget": 1}
        assert not lab.service.status().reconfigurations, "nothing is held"

    run_lab(test, text=LOSSY)


def test_a_plan_that_is_refused_is_shown_whole_and_not_applied_by_its_hash(run_lab: RunLab) -> None:
    async def test(lab: Any) -> None:
        plan = await lab.service.plan(lab.request(STRAIGHT))
        assert [one.subject for one in plan.refused] == ["h0.eth0<->h1.eth0", "h0.eth1<->h1.eth1"]
        assert str(plan).endswith("refused by loss-budget")
        assert lab.emitted(PlanMade)[0].plan == plan
        assert refusals(lab) == {"loss-budget": 1}
        with pytest.raises(RefusedError, match="interlock loss-budget"):
            await lab.service.apply(lab.request("", hash=plan.hash))
        assert refusals(lab) == {"loss-budget": 2}

    run_lab(test, text=LOSSY)


def test_a_plan_with_an_override_is_another_one_and_its_reason_is_recorded_everywhere(
    run_lab: RunLab, tmp_path: Path
) -> None:
    async def test(lab: Any) -> None:
        bare = await lab.service.plan(lab.request(STRAIGHT))
        plan = await lab.service.plan(lab.request(STRAIGHT, overrides={"loss-budget": REASON}))
        assert plan.hash != bare.hash
        assert {(one.name, one.state, one.reason) for one in plan.interlocks[:2]} == {
            ("loss-budget", "overridden", REASON)
        }
        await lab.service.apply(lab.request(STRAIGHT, overrides={"loss-budget": REASON}, confirm_within_s=60))
        (started,) = lab.emitted(ReconfigurationStarted)
        assert [(one.name, one.subject, one.reason) for one in started.overridden] == [
            ("loss-budget", "h0.eth0<->h1.eth0", REASON),
            ("loss-budget", "h0.eth1<->h1.eth1", REASON),
        ]
        (entry,) = journal_file.read(lab.world.journal_disk.read(), None).open
        assert entry.entry.overridden[0].startswith("interlock loss-budget overridden: h0.eth0<->h1.eth0: ")
        assert entry.entry.overridden[0].endswith(f". Overridden: {REASON}")
        await lab.service.confirm(None)
        await lab.world.stop("daemon")
        records = Records(f"sqlite:///{tmp_path / 'records.db'}", InlineOffload())
        await records.open()
        (stored,) = await records.documents(kinds=[ReconfigurationStarted.KIND])
        records.close()
        assert stored.document.fact == started

    run_lab(test, text=LOSSY + ALLOWED)


def test_a_playbook_overrides_in_its_apply_step(run_lab: RunLab) -> None:
    playbook = f"playbook: one\nshows: x\nsteps:\n  - apply: {{pairs: '{STRAIGHT}', OVERRIDE}}\n"

    async def test(lab: Any) -> None:
        text = playbook.replace("OVERRIDE", f"override: {{loss-budget: {REASON}}}")
        run = await lab.world.run_playbook(text, file="one.yaml")
        assert (await lab.service.run(run)).outcome == "succeeded"
        assert [one.overridden[0].reason for one in lab.emitted(ReconfigurationStarted)] == [REASON]
        run = await lab.world.run_playbook(playbook.replace(", OVERRIDE", ""), file="one.yaml")
        ended = await lab.service.run(run)
        assert (ended.outcome, ended.safe_state) == ("failed", "untouched")
        assert "refused: " in ended.why
        assert "interlock loss-budget" in ended.why
        assert lab.emitted(InterlockRefused)[-1].run == run

    run_lab(test, text=LOSSY + ALLOWED)


def test_a_switch_that_was_changed_too_often_is_left_alone_until_the_window_is_over(run_lab: RunLab) -> None:
    async def test(lab: Any) -> None:
        for what in (STRAIGHT, CROSSED):
            await lab.service.apply(lab.request(what))
        with pytest.raises(
            RefusedError, match=r"interlock rate refused: ocs1: it was changed 2 times in the last 30 s"
        ):
            await lab.service.apply(lab.request(STRAIGHT))
        assert (await lab.service.apply(lab.request(CROSSED))).outcome == "confirmed", "nothing moves by it"
        await asyncio.sleep(31)
        assert (await lab.service.apply(lab.request(STRAIGHT))).outcome == "confirmed"

    run_lab(test, text=EXAMPLE + "interlocks: {rate: {changes: {ocs1: 2}, per_s: 30}}\n")


def test_a_plan_from_before_the_rate_was_used_up_is_not_applied(run_lab: RunLab) -> None:
    async def test(lab: Any) -> None:
        plan = await lab.service.plan(lab.request("ocs1:5A-6B"))
        await lab.service.apply(lab.request("ocs1:7A-8B"))
        await lab.service.apply(lab.request("ocs1:7A-none"))
        with pytest.raises(RefusedError, match=f"plan {plan.hash}: its interlocks find something else now"):
            await lab.service.apply(lab.request("", hash=plan.hash))

    run_lab(test, text=EXAMPLE + "interlocks: {rate: {changes: {ocs1: 2}, per_s: 30}}\n")


# --- the way back


async def make_way_back(lab: Any, **more: Any) -> None:
    """Light that every interlock refuses is there, and an apply that none refuses takes it away."""
    set_by_hand(lab, STRAIGHT)
    applying = lab.service.apply(lab.request("ocs1:none", **more))
    await lab.world.nodes.run_in_node(DAEMON, applying)  # so that its time dies with the daemon
    assert carried(lab) == set()


async def check_way_back(lab: Any) -> None:
    """The light is there again, and every interlock refuses to move it elsewhere: those of motion by what was used up
    before the way back.
    """
    assert carried(lab) == {*STRAIGHT.removeprefix("ocs1:").split(",")}
    await lab.world.settled()
    rank = await Rank.connect(lab.world, "h0")
    assert (await rank.claim("eth0", within_s=60))["outcome"] == "go"
    plan = await lab.service.plan(lab.request(CROSSED))
    assert {one.name for one in plan.refused} == {*InterlockName}


def test_every_interlock_refuses_the_way_forward_and_none_a_roll_back(run_lab: RunLab) -> None:
    async def test(lab: Any) -> None:
        await make_way_back(lab, confirm_within_s=60)
        assert (await lab.service.roll_back(None)).outcome == "rolled-back"
        await check_way_back(lab)

    run_lab(test, text=ALL_WRONG)


def test_none_refuses_the_way_back_of_an_expired_confirm(run_lab: RunLab) -> None:
    async def test(lab: Any) -> None:
        await make_way_back(lab, confirm_within_s=60)
        await asyncio.sleep(61)
        (ended,) = lab.emitted(ReconfigurationEnded)
        assert ended.outcome == "rolled-back"
        await check_way_back(lab)

    run_lab(test, text=ALL_WRONG)


def test_none_refuses_the_recovery_after_a_crash(run_lab: RunLab) -> None:
    async def test(lab: Any) -> None:
        await lab.world.nodes.run_in_node(DAEMON, make_way_back(lab, confirm_within_s=600))  # its timer dies with it
        await asyncio.sleep(1)  # the records are written behind
        lab.world.kill(DAEMON)
        await asyncio.sleep(600)  # the time to confirm it is over when the daemon is back
        lab.world.start_daemon()
        await lab.until(DaemonRecovered)
        await lab.world.settled()
        assert lab.emitted(DaemonRecovered)[0].outcome == "rolled-back"
        await check_way_back(lab)

    run_lab(test, text=ALL_WRONG)


def test_none_refuses_the_abort_of_a_run(run_lab: RunLab) -> None:
    playbook = "playbook: dark\nshows: x\nsteps:\n  - apply: {pairs: 'ocs1:none'}\n  - wait: {for_s: 600}\n"

    async def test(lab: Any) -> None:
        set_by_hand(lab, STRAIGHT)
        run = (await lab.service.start_run(text=playbook, file="dark.yaml", parameters={})).run
        await lab.until(ReconfigurationCommanded)
        await asyncio.sleep(5)
        assert carried(lab) == set()
        assert (await lab.service.abort_run(run, by="ada")).safe_state == "before-apply"
        await check_way_back(lab)

    run_lab(test, text=ALL_WRONG)


# --- what is counted


def test_moves_are_counted_by_element_and_survive_the_death_of_the_daemon(run_lab: RunLab) -> None:
    async def figures(lab: Any, what: str) -> list[tuple[str, float | None, str]]:
        plan = await lab.service.plan(lab.request(what))
        return [(one.subject, one.figure, one.state) for one in plan.interlocks if one.name in ("wear", "rate")]

    async def test(lab: Any) -> None:
        for what in ("ocs1:5A-6B", "ocs1:5A-7B", "ocs1:5A-6B"):
            await lab.service.apply(lab.request(what))
        before = await figures(lab, "ocs1:5A-8B")
        assert before == [("ocs1:5A", 4, "holds"), ("ocs1:5A", 4, "holds"), ("ocs1", 4, "holds")]
        await asyncio.sleep(1)  # the records are written behind
        lab.world.kill(DAEMON)
        lab.world.start_daemon()
        await lab.world.settled()
        assert await figures(lab, "ocs1:5A-8B") == before
        await lab.service.apply(lab.request("ocs1:5A-8B"))
        assert {state for _, _, state in await figures(lab, "ocs1:5A-6B")} == {"refused"}
        await asyncio.sleep(1)
        lab.world.kill(DAEMON)
        lab.world.start_daemon()
        await lab.world.settled()
        for host in ("h0", "h1"):
            lab.world.kill(agent_node(host))  # they have no part in it, and would sample all the while
        await asyncio.sleep(3600)
        found = await figures(lab, "ocs1:5A-1B")
        assert found == [("ocs1:5A", 5, "refused"), ("ocs1:1B", 1, "holds"), ("ocs1", 1, "holds")], "of its life"

    wear = "interlocks: {wear: {moves: {ocs1: 4}, moves_per_hour: {ocs1: 4}}, rate: {changes: {ocs1: 4}, per_s: 600}}\n"
    run_lab(test, text=EXAMPLE + wear)


def test_a_way_back_is_counted_as_well(run_lab: RunLab) -> None:
    async def test(lab: Any) -> None:
        await lab.service.apply(lab.request("ocs1:5A-6B", confirm_within_s=60))
        await lab.service.roll_back(None)
        moved = [command.moved for command in lab.emitted(SwitchCommand)]
        assert moved == [["5A", "6B"], ["5A", "6B"]]
        text = bytes(lab.world.daemon.metrics.render()).decode()
        assert 'hwd_switch_moves_total{switch="ocs1"} 4.0' in text

    run_lab(test)
