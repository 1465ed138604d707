"""The language of playbooks: branches, sweeps, asserts, faults, host settings, pauses, and all their ends."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from hwd.model.bodies import ByBody, KickBody, LeaseBody, RunBody
from hwd.model.fault import Clear, Fault, Slow, Unplug
from hwd.model.host import HostDown
from hwd.model.lease import LeaseReleased
from hwd.model.reconfiguration import ReconfigurationState
from hwd.model.run_facts import RunAssert, RunEnded, RunFault, RunHost, RunNote, RunPaused, RunStep
from hwd.model.timeline import Timeline
from hwd_agents.sources.setting_source import Setting

from ..sim.lab import CROSSED, STRAIGHT, Lab
from .conftest import LEASE, apply, ends, wait

ONE, TWO = "ocs1:1A-3B,3A-1B", "ocs1:2A-4B,4A-2B"
"""Two links of their own on one switch."""


def at_once(**branches: list[str]) -> str:
    listed = ", ".join(f"{name}: [{', '.join('{' + step + '}' for step in steps)}]" for name, steps in branches.items())
    return f"parallel: {{{listed}}}"


def mtu(lab: Lab, port: str = "eth0") -> object:
    """As the twin of h0 has it."""
    return lab.world.rack.hosts["h0"].read_setting(port, Setting("mtu"), None)


# --- branches


async def test_branches_on_one_switch_wait_for_their_links_at_the_same_time(lab: Lab) -> None:
    began_s = lab.now_s()
    assert (await lab.do(LEASE, apply(ONE, 20), apply(TWO, 20))).outcome == "succeeded"
    one_by_one_s = lab.now_s() - began_s
    await lab.do(apply("ocs1:none"))
    await asyncio.sleep(10)
    began_s = lab.now_s()
    run = await lab.do(LEASE, at_once(left=[apply(ONE, 20)], right=[apply(TWO, 20)]))
    assert (run.outcome, run.safe_state) == ("succeeded", "as-applied")
    assert lab.now_s() - began_s < 0.75 * one_by_one_s
    assert lab.light() == ends(f"{ONE},{TWO.partition(':')[2]}")
    steps = lab.emitted(RunStep, run=run.id, state="done")
    assert [step.done for step in steps] == [1, 2, 3, 4, 5]
    assert {step.branch for step in steps} == {"", "left", "right"}
    assert await lab.holds_nothing()


async def test_branches_have_leases_of_their_own_and_give_them_back(lab: Lab) -> None:
    left = ["lease: {ports: [ocs1.1, ocs1.3], for_s: 60}", apply(ONE, 20)]
    right = ["lease: {ports: [ocs1.2, ocs1.4], for_s: 60}", apply(TWO, 20), "wait: {for_s: 30}"]
    run = await lab.start(at_once(left=left, right=right))
    await lab.until(ReconfigurationState, state="waiting")
    assert sorted(map(str, (lease.ports for lease in lab.service.leases.leases()))) == [
        "['ocs1.1', 'ocs1.3']",
        "['ocs1.2', 'ocs1.4']",
    ]
    await lab.until(LeaseReleased)
    assert [lease.ports for lease in lab.service.leases.leases()] == [["ocs1.2", "ocs1.4"]]
    assert (await lab.record(run)).outcome == "succeeded"
    assert await lab.holds_nothing()


async def test_branch_that_fails_stops_the_others_and_all_goes_back(lab: Lab) -> None:
    await lab.do(apply(CROSSED))
    left = [apply(ONE), "wait: {for_s: 60}"]
    run = await lab.do(at_once(left=left, right=["wait: {for_s: 1}", "assert: 1 > 2"]))
    assert (run.outcome, run.safe_state) == ("failed", "before-apply")
    assert run.why == "assert 1 > 2: does not hold; no figure in it"
    assert lab.light() == ends(CROSSED)
    assert await lab.holds_nothing()


@pytest.mark.parametrize(
    "left",
    [[apply(ONE, 20)], [at_once(a=[apply(ONE, 20)], b=["note: b"]), "wait: {for_s: 100}"]],
    ids=["one", "within"],
)
async def test_branches_that_end_differently_leave_a_mixed_state_that_names_them(lab: Lab, left: list[str]) -> None:
    run = await lab.do(at_once(left=left, right=["wait: {for_s: 60}", apply(TWO), wait(within_s=0.01)]))
    assert (run.outcome, run.safe_state, lab.light()) == ("failed", "mixed", ends(ONE))
    assert run.why.endswith("; switches by branch: left as-applied, right before-apply")
    state = await lab.service.runs.state(run.id)
    assert (state.safe_state, state.rolled_back) == ("mixed", False)
    assert await lab.holds_nothing()


async def test_only_branches_that_ran_at_once_make_a_mixed_state(lab: Lab) -> None:
    """What stands from before them, of the run or of branches of the same names, is what they are brought back to."""
    both = at_once(left=[apply(ONE, 20)], right=[apply(TWO, 20)])
    gone = at_once(left=[apply("ocs1:none"), "wait: {for_s: 60}"], right=["wait: {for_s: 1}", "assert: 1 > 2"])
    run = await lab.do(both, "note: between", gone)
    assert (run.outcome, run.safe_state) == ("failed", "before-apply")
    assert lab.light() == ends(f"{ONE},{TWO.partition(':')[2]}")
    run = await lab.do(both, "assert: 1 > 2")
    assert (run.outcome, run.safe_state) == ("failed", "as-applied")


@pytest.mark.parametrize("state", ["journaled", "driving", "read-back", "waiting"])
async def test_abort_of_branches_brings_all_of_them_back(lab: Lab, state: str) -> None:
    await lab.do(apply(CROSSED))
    run = await lab.start(LEASE, apply("ocs1:none"), at_once(left=[apply(ONE, 20)], right=[apply(TWO, 20)]))
    await lab.until(RunStep, branch="left", state="started")
    await lab.until(ReconfigurationState, state=state)
    end = await lab.abort(run)
    assert (end.outcome, end.safe_state) == ("aborted", "before-apply")
    assert lab.light() == []
    assert await lab.holds_nothing()


async def test_branches_within_branches_and_after_each_other(lab: Lab) -> None:
    inner = at_once(a=["note: a"], b=["note: b"])
    steps = at_once(left=[inner, apply(ONE)], right=[f"repeat: {{times: 2}}, steps: [{apply(TWO)}]"])
    run = await lab.do(steps, "note: between", steps)
    assert run.outcome == "succeeded"
    branches = [step.branch for step in lab.emitted(RunStep, state="done")]
    assert Counter(branches) == Counter(["", *["left/a", "left/b", "left", "right", "right"] * 2])


# --- sweeps, notes, asserts


async def test_sweep_tells_its_values_with_every_step(lab: Lab) -> None:
    run = await lab.do(
        '{sweep: {a: [1, 2]}, steps: [{sweep: {b: [x, y]}, steps: [note: "{{ a }}{{ b }}"]}, note: after]}', "note: z"
    )
    assert run.outcome == "succeeded"
    assert [note.text for note in lab.emitted(RunNote)] == ["1x", "1y", "after", "2x", "2y", "after", "z"]
    assert [step.sweep for step in lab.emitted(RunStep, state="done")] == [
        *({"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 1}),
        *({"a": 2, "b": "x"}, {"a": 2, "b": "y"}, {"a": 2}),
        {},
    ]


async def test_asserts_and_notes_know_what_was_measured(lab: Lab) -> None:
    run = await lab.do(
        apply(STRAIGHT, 20),
        "assert: last.links == 2 and last.ready == 2 and last.moves == 4 and last.turnaround.n == 2",
        "assert: last.control.n == 1 and last.what == 'ocs1:1A-3B,3A-1B,2A-4B,4A-2B' and last.outcome == 'confirmed'",
        apply(CROSSED, 20),
        "assert: run.applies == 2 and run.turnaround.n == 4 and run.turnaround.max_s >= last.turnaround.max_s",
        "assert: run.breaches == 0 and 0 < last.firmware.min_s <= last.firmware.median_s <= last.firmware.max_s",
        "note: 'took {{ round(last.turnaround.max_s, 6) }} s, p95 {{ run.turnaround.p95_s }}'",
        apply(CROSSED, 20),
        "assert: last.turnaround.n == 0 and last.moves == 0 and last.ready == 2",
        "assert: run.seconds > 3",
    )
    assert (run.outcome, run.why) == ("succeeded", "")
    longest_s = max(
        stage.seconds
        for link in lab.emitted(Timeline)[1].links
        for stage in link.stages
        if stage.name == "turnaround" and stage.seconds is not None
    )
    text = f"took {round(longest_s, 6):.9g} s, p95 unknown"
    assert lab.emitted(RunNote)[0].text == text
    assert [step.state for step in lab.emitted(RunStep) if step.what == f"note {text}"] == ["started", "done"]
    assert lab.emitted(RunAssert)[-1].held is True


async def test_percentiles_are_known_from_enough_values_on(lab: Lab) -> None:
    pairs = f"{{repeat: {{times: 10}}, steps: [{{{apply(ONE)}}}, {{{apply('ocs1:1A-4B,4A-1B')}}}]}}"
    known = "run.control.median_s <= run.control.p95_s <= run.control.max_s"
    run = await lab.do(pairs, f"assert: run.control.n == 20 and {known}", "assert: run.control.p99_s > 0")
    assert [one.held for one in lab.emitted(RunAssert)] == [True, False]
    assert run.why.endswith("run.control.p99_s = unknown")


NOT_HELD: dict[str, tuple[list[str], str, dict[str, Any]]] = {
    "last.moves == n": ([apply(STRAIGHT)], "does not hold; last.moves = 4, n = 3", {"last.moves": 4, "n": 3}),
    "last.ready == 0": (
        [],
        "cannot be said, since nothing that was measured says last.ready; last.ready = unknown",
        {"last.ready": None},
    ),
    "last.turnaround.p99_s < 3": ([apply(STRAIGHT)], "p99_s = unknown", {"last.turnaround.p99_s": None}),
    "1 / (n - 3) > 0": ([], "cannot be calculated", {"n": 3}),
}


@pytest.mark.parametrize("expression", NOT_HELD)
async def test_assert_that_does_not_hold_fails_the_run_with_its_figures(lab: Lab, expression: str) -> None:
    steps, why, values = NOT_HELD[expression]
    record = await lab.record(
        await lab.start(LEASE, *steps, f"assert: {expression}", "note: never", parameters="{n: 3}")
    )
    assert (record.outcome, record.safe_state) == ("failed", "as-applied" if steps else "untouched")
    assert record.why.startswith("assert ")
    assert why in record.why
    [told] = lab.emitted(RunAssert)
    assert (told.held, told.values) == (False, values)
    assert lab.emitted(RunEnded)[-1].exit_status == 1
    assert lab.emitted(RunNote) == []
    assert await lab.holds_nothing()


async def test_wait_for_a_time_lets_links_come_up_counts_as_expected_and_can_be_aborted(lab: Lab) -> None:
    await lab.do("repeat: {times: 3}, steps: [wait: {for_s: 10}]".join("{}"))
    left_s = [step.expected_s for step in lab.emitted(RunStep, state="done")]
    assert left_s == [20, 10, 0]
    run = await lab.do(apply(STRAIGHT), "wait: {for_s: 15}", wait(within_s=0.2))
    assert run.outcome == "succeeded"
    run_id = await lab.start("wait: {for_s: 3600}")
    await lab.until(RunStep, since=0, state="started", step=1, run=run_id)
    began_s = lab.now_s()
    await lab.abort(run_id)
    assert lab.now_s() - began_s < 0.1


async def test_run_that_takes_longer_than_it_may_goes_back_and_a_slow_switch_is_quick_again_on_the_way_back(
    lab: Lab,
) -> None:
    await lab.do(apply(STRAIGHT))
    text = f"playbook: t\nwithin_s: 1\nsteps:\n  - {apply(CROSSED)}\n  - {wait()}\n"
    run = (await lab.service.runs.start(RunBody(text=text, file="t.yaml", parameters={}))).run
    record = await lab.record(run)
    assert (record.outcome, record.safe_state) == ("failed", "before-apply")
    assert "not done within 1 s; 1 of 2 steps were" in record.why
    assert lab.light() == ends(STRAIGHT)
    await lab.do(apply(STRAIGHT))
    run = await lab.start("fault: {switch: ocs1, fault: slow, seconds: 1.5}", apply(CROSSED))
    await lab.until(ReconfigurationState, state="driving")
    end = await lab.abort(run)
    assert end.safe_state == "before-apply"
    assert lab.light() == ends(STRAIGHT)


# --- faults of twins and settings of hosts


SLOW = "fault: {switch: ocs1, fault: slow, seconds: 0.5}"
SMALL = "host: {ports: h0.eth0, set: {mtu: 1400}}"


@pytest.mark.parametrize("end", ["succeeded", "failed", "aborted"])
async def test_faults_and_settings_are_undone_at_every_end(lab: Lab, end: str) -> None:
    last = {"succeeded": "wait: {for_s: 1}", "failed": "assert: 1 > 2", "aborted": "wait: {for_s: 60}"}[end]
    run = await lab.start(LEASE, SLOW, SMALL, "note: set", last)
    await lab.until(RunNote)
    assert (lab.faults().slow_s, mtu(lab), mtu(lab, "eth1")) == (0.5, 1400, 1500)
    if end == "aborted":
        await lab.abort(run)
    assert (await lab.record(run)).outcome == end
    assert (lab.faults().slow_s, mtu(lab)) == (0.0, 1500)
    assert [type(one.fault) for one in lab.emitted(RunFault)] == [Slow, Clear]
    changes = [(one.host, one.port, one.action) for one in lab.emitted(RunHost)]
    assert changes == [("h0", "h0.eth0", "mtu"), ("h0", "h0.eth0", "put-back")]
    assert lab.emitted(RunHost)[0].before != lab.emitted(RunHost)[0].after
    assert await lab.holds_nothing()


class LateRack:
    """The way to the rack's control socket as threads use it.

    A request goes on without its caller, and clearing is faster than setting.
    """

    def __init__(self, lab: Lab, *, sets_in_s: float, clears_in_s: float) -> None:
        self._set_fault = lab.world.set_fault
        self._sets_in_s = sets_in_s
        self._clears_in_s = clears_in_s
        self._going: list[asyncio.Task[None]] = []

    async def __call__(self, fault: Fault) -> None:
        async def go() -> None:
            await asyncio.sleep(self._clears_in_s if isinstance(fault, Clear) else self._sets_in_s)
            await self._set_fault(fault)

        self._going.append(asyncio.create_task(go()))
        await asyncio.shield(self._going[-1])


async def test_abort_clears_a_fault_that_is_on_its_way_to_the_rack_and_what_branches_set_while_it_clears(
    lab: Lab,
) -> None:
    lab.world.set_fault = LateRack(lab, sets_in_s=0.01, clears_in_s=0.001)
    slow = "fault: {switch: ocs1, fault: slow, seconds: %d}"
    run = await lab.start(slow % 3, "wait: {for_s: 0.001}", slow % 4, "wait: {for_s: 60}")
    await lab.until(RunStep, step=3, state="started")
    await asyncio.sleep(0.005)
    end = await lab.abort(run)
    await asyncio.sleep(1)
    assert (end.outcome, lab.faults().slow_s) == ("aborted", 0.0)
    assert await lab.holds_nothing()


async def test_abort_clears_what_branches_set_while_it_clears(lab: Lab) -> None:
    lab.world.set_fault = LateRack(lab, sets_in_s=0.01, clears_in_s=0.02)
    harm = "{fault: {port: %s, fault: unplug}}, {wait: {for_s: 0.01}}, {fault: {port: %s, fault: weak, loss_db: 9}}"
    branches = ", ".join(
        f"b{number}: [{harm % (port, port)}, {{wait: {{for_s: 60}}}}]"
        for number, port in enumerate(("h0.eth0", "h0.eth1", "h1.eth0", "h1.eth1"))
    )
    run = await lab.start(f"parallel: {{{branches}}}")
    await lab.until(RunFault, fault=Unplug(port="h0.eth1"))
    end = await lab.abort(run)
    told = lab.emitted(RunFault)
    await asyncio.sleep(1)
    assert (end.outcome, end.why) == ("aborted", "by ada")
    assert lab.world.faults.present() == ()
    assert told == lab.emitted(RunFault)
    assert told[-1].fault == Clear()
    assert await lab.holds_nothing()


async def test_settings_of_a_host_that_is_away_are_put_back_when_it_is_there_and_a_new_one_fails_the_run(
    lab: Lab,
) -> None:
    run = await lab.start(LEASE, SMALL, "note: set", "wait: {for_s: 5}")
    await lab.until(RunNote)
    lab.world.kill("agent h0")
    record = await lab.record(run)
    assert (record.outcome, record.safe_state) == ("failed", "untouched")
    assert "settings of NIC ports: not undone" in record.why
    assert mtu(lab) == 1400
    lab.world.start_agent("h0")
    await lab.until(RunHost, action="put-back")
    assert mtu(lab) == 1500
    lab.world.kill("agent h0")
    await lab.until(HostDown)
    record = await lab.do(LEASE, SMALL, "note: never")
    assert (record.outcome, record.safe_state) == ("failed", "untouched")
    assert lab.emitted(RunEnded)[-1].exit_status == 4
    assert ([note.text for note in lab.emitted(RunNote)], mtu(lab)) == (["set"], 1500)
    assert await lab.holds_nothing()


async def test_abort_keeps_its_time_with_faults_and_settings_and_no_broker(lab: Lab) -> None:
    await lab.do(apply(STRAIGHT))
    run = await lab.start(SMALL, "fault: {switch: ocs1, fault: stick, ends: [1A]}", apply(CROSSED), wait())
    await lab.until(ReconfigurationState, state="driving")
    lab.world.broker.stop()
    lab.faults().silent = True
    end = await lab.abort(run)
    assert end.outcome == "aborted"
    assert end.why.startswith("by ada; settings of NIC ports: not undone")
    assert not lab.faults().silent


@pytest.mark.parametrize("step", [SLOW, SMALL, "fault: {port: h0.eth0, fault: unplug}", "fault: {fault: clear}"])
async def test_ports_of_another_lease_are_neither_harmed_nor_set(lab: Lab, step: str) -> None:
    await lab.service.leases.take(LeaseBody(holder="ada", ports=["h0.eth0", "ocs1.7"], for_s=600))
    run = await lab.do(step)
    assert (run.outcome, run.safe_state) == ("failed", "untouched")
    assert "leased to ada" in run.why
    assert lab.emitted(RunEnded)[-1].exit_status == 3
    assert (lab.faults().slow_s, mtu(lab)) == (0.0, 1500)


# --- pause


async def test_lease_that_is_kicked_during_a_pause_is_not_taken_again_and_a_paused_run_can_be_aborted(lab: Lab) -> None:
    run = await lab.start("lease: {ports: all, for_s: 20}", "note: a", "wait: {for_s: 1}", apply(STRAIGHT))
    await lab.until(RunNote)
    lab.service.runs.pause(run, ByBody(by="ada"))
    await lab.until(RunPaused)
    [lease] = lab.service.leases.leases()
    await lab.service.leases.kick(str(lease.lease), KickBody())
    await asyncio.sleep(60)
    lab.service.runs.resume(run, ByBody(by="ada"))
    assert (await lab.record(run)).why.startswith("refused: lease ")
    await lab.do(apply(STRAIGHT))
    run = await lab.start(LEASE, apply(CROSSED), "wait: {for_s: 1}", wait())
    await lab.until(RunStep, state="started", step=3)
    lab.service.runs.pause(run, ByBody(by="ada"))
    await lab.until(RunPaused)
    end = await lab.abort(run)
    assert (end.outcome, end.safe_state) == ("aborted", "before-apply")
    assert lab.light() == ends(STRAIGHT)
    assert await lab.holds_nothing()


async def test_note_that_cannot_be_calculated_fails_as_a_step_that_reads_as_it_was_written(lab: Lab) -> None:
    run = await lab.do("note: '{{ run.seconds / 0 }} s'")
    assert run.outcome == "failed"
    noted = [(step.what, step.state) for step in lab.emitted(RunStep)]
    assert noted == [("note {{ run.seconds / 0 }} s", "started"), ("note {{ run.seconds / 0 }} s", "failed")]
