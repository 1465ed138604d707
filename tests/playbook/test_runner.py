"""Runs of playbooks: each ends in a named state of the switches, whatever stops it and whenever."""

import asyncio

import pytest

from hwd.model.bodies import ActBody, LeaseBody
from hwd.model.daemon import DaemonRecovered
from hwd.model.fault import Fault
from hwd.model.lease import LeaseReleased, LeaseTaken
from hwd.model.reconfiguration import (
    ReconfigurationCommanded,
    ReconfigurationEnded,
    ReconfigurationStarted,
    ReconfigurationState,
)
from hwd.model.run import AbortedRun
from hwd.model.run_facts import RunEnded, RunOverdue, RunStarted, RunStep
from hwd.model.timeline import Timeline
from hwd.report.run_report import of_documents
from hwd_drivers.core.documents import Document, Fact
from hwd_drivers.core.errors import ConfigError, FailedError, RefusedError
from hwd_drivers.twins.server import Denial

from ..sim.lab import CROSSED, STRAIGHT, Lab, OpenLab
from .conftest import LEASE, OTHER, apply, ends, wait

HALF = "ocs1:1A-3B"


def repeat(times: int, *steps: str) -> str:
    return f"{{repeat: {{times: {times}}}, steps: [{', '.join('{' + step + '}' for step in steps)}]}}"


async def crossing(lab: Lab, state: str, *, within_s: float = 20) -> str:
    """A run that crosses links which stand straight, in this state of its reconfiguration."""
    await lab.do(apply(STRAIGHT))
    run = await lab.start(LEASE, apply(CROSSED), wait(within_s))
    await lab.until(ReconfigurationState, state=state)
    return run


async def test_a_run_does_its_steps_and_ends_as_applied(lab: Lab) -> None:
    run = await lab.do(LEASE, apply(STRAIGHT), wait(), apply(CROSSED), wait())
    assert (run.outcome, run.why, run.safe_state) == ("succeeded", "", "as-applied")
    assert lab.light() == ends(CROSSED)
    assert await lab.holds_nothing()
    steps = lab.emitted(RunStep)
    assert [(step.step, step.state) for step in steps] == [
        (number, state) for number in range(1, 6) for state in ("started", "done")
    ]
    assert [one.outcome for one in lab.emitted(ReconfigurationEnded)] == ["confirmed", "confirmed"]


async def test_repeats_are_written_out_in_order(lab: Lab) -> None:
    inner = repeat(2, apply(STRAIGHT), apply(CROSSED))
    run = await lab.do(LEASE, f"{{repeat: {{times: 2}}, steps: [{inner}, {{{apply(HALF)}}}]}}")
    assert run.outcome == "succeeded"
    done = [step.what for step in lab.emitted(RunStep, state="done")]
    once = [f"apply {STRAIGHT}", f"apply {CROSSED}"] * 2 + [f"apply {HALF}"]
    assert done == ["lease all for 600 s", *once, *once]


@pytest.mark.parametrize(
    ("state", "silent"),
    [
        *((state, False) for state in ("journaled", "driving", "read-back", "driven", "waiting")),
        *((state, True) for state in ("driving", "read-back", "waiting")),
    ],
)
async def test_abort_at_any_stage_ends_in_a_named_state(lab: Lab, state: str, silent: bool) -> None:
    run = await crossing(lab, state)
    lab.faults().silent = silent
    end = await lab.abort(run)
    assert (end.outcome, end.why) == ("aborted", "by ada")
    assert await lab.holds_nothing()
    record = await lab.service.runs.run(run)
    assert (record.outcome, record.safe_state) == ("aborted", end.safe_state)
    if not silent:
        assert end.safe_state == "before-apply"
        assert lab.light() == ends(STRAIGHT)
    else:
        assert end.safe_state == "unknown"
        lab.faults().clear()
        await lab.until(DaemonRecovered)
        assert lab.light() == ends(STRAIGHT)
    assert (await lab.do(LEASE, apply(CROSSED))).outcome == "succeeded"


@pytest.mark.parametrize("state", ["driving", pytest.param("driven", marks=pytest.mark.slow), "waiting"])
async def test_abort_brings_the_light_back_and_says_so_though_the_records_do_not_answer(lab: Lab, state: str) -> None:
    run = await crossing(lab, state)
    lab.world.records_disk.hang()
    end = await lab.abort(run)
    assert (end.outcome, end.safe_state) == ("aborted", "before-apply")
    assert end.why == "by ada; the records do not answer, and do not have its end yet"
    assert lab.light() == ends(STRAIGHT)
    lab.world.records_disk.mend()
    await lab.until(RunEnded, run=run)
    record = await lab.service.runs.run(run)
    assert (record.outcome, record.why, record.safe_state) == ("aborted", "by ada", "before-apply")
    assert await lab.holds_nothing()


async def test_abort_with_the_broker_gone_and_the_switch_silent_keeps_its_time(lab: Lab) -> None:
    run = await crossing(lab, "driving")
    lab.world.broker.stop()
    lab.faults().silent = True
    assert (await lab.abort(run)).safe_state == "unknown"


async def test_abort_leaves_a_step_behind_that_hangs_in_the_records(lab: Lab) -> None:
    await lab.do(apply(STRAIGHT))
    run = await lab.start(
        apply(CROSSED), "wait: {for_s: 1}", "lease: {ports: [ocs1.7], for_s: 60}", "wait: {for_s: 60}"
    )
    await lab.until(RunStep, step=2, state="started")
    await asyncio.sleep(0.9)  # the records have all that was told, so the next to write is the step
    lab.world.records_disk.hang()
    await asyncio.sleep(1)
    end = await lab.abort(run)
    assert (end.outcome, end.safe_state) == ("aborted", "before-apply")
    assert "by ada; its step 3 still hangs, and does nothing more" in end.why
    assert lab.light() == ends(STRAIGHT)
    lab.world.records_disk.mend()
    await lab.until(RunEnded, run=run)
    assert await lab.holds_nothing()


async def test_abort_that_cannot_end_a_run_in_time_is_an_error_and_is_told(lab: Lab) -> None:
    await lab.start(LEASE, "wait: {for_s: 60}")
    queued = await lab.start(LEASE, apply(CROSSED))
    lab.world.records_disk.hang()
    with pytest.raises(
        FailedError, match=r"not ended within 5 s of its abort: it waits for the records\. `hwd status`"
    ):
        await lab.abort(queued)
    (overdue,) = lab.emitted(RunOverdue)
    assert (overdue.run, overdue.by, overdue.waits_for) == (queued, "ada", "the records")
    lab.world.records_disk.mend()
    await lab.until(RunEnded, run=queued)
    assert (await lab.service.runs.run(queued)).outcome == "aborted"


async def test_abort_at_once_moves_nothing_and_between_two_links_that_are_kept_ends_as_applied(lab: Lab) -> None:
    end = await lab.abort(await lab.start(LEASE, apply(CROSSED), wait()))
    assert (end.outcome, end.safe_state) == ("aborted", "untouched")
    assert lab.light() == []
    assert await lab.holds_nothing()
    await lab.do(LEASE, apply(STRAIGHT), wait())
    run = await lab.start(LEASE, repeat(1000, apply(STRAIGHT), wait()))
    await asyncio.sleep(0.02)
    assert (await lab.abort(run)).outcome == "aborted"
    assert lab.light() == ends(STRAIGHT)
    assert await lab.holds_nothing()


async def test_abort_asked_for_twice_waits_for_the_one_way_back_and_the_end_of_the_daemon_aborts_into_the_state_before(
    lab: Lab,
) -> None:
    run = await crossing(lab, "driving")
    first = asyncio.create_task(lab.abort(run))
    await lab.until(ReconfigurationState, state="rolling-back")
    second = await lab.service.runs.abort(run, ActBody(by="bob"))
    assert await first == second
    assert (second.why, second.safe_state) == ("by ada", "before-apply")
    assert lab.light() == ends(STRAIGHT)
    run = await crossing(lab, "waiting")
    await lab.world.stop("daemon")
    lab.world.start_daemon()
    await lab.world.settled()
    record = await lab.service.runs.run(run)
    assert (record.outcome, record.safe_state) == ("aborted", "before-apply")
    assert "end of the daemon" in str(record.why)
    assert lab.light() == ends(STRAIGHT)


async def test_not_ready_in_time_or_denied_goes_back_and_says_which_link_or_the_words_of_the_switch(lab: Lab) -> None:
    await lab.do(apply(STRAIGHT))
    run = await lab.do(LEASE, apply(CROSSED), wait(within_s=0.5))
    assert (run.outcome, run.safe_state) == ("failed", "before-apply")
    assert run.why.startswith("not ready in time: ")
    assert "h0.eth0<->h1.eth1" in run.why
    assert lab.emitted(RunEnded)[-1].exit_status == 5
    assert lab.light() == ends(STRAIGHT)
    assert await lab.holds_nothing()
    await lab.do(apply(STRAIGHT))
    lab.faults().deny_next = Denial(code="SROF", text="Mirror controller fault")
    run = await lab.do(LEASE, apply(CROSSED), wait())
    assert (run.outcome, run.safe_state) == ("failed", "before-apply")
    assert run.why.startswith("device error: ")
    assert "Mirror controller fault" in run.why
    assert [step.state for step in lab.emitted(RunStep)][-2:] == ["started", "failed"]
    assert await lab.holds_nothing()


async def test_a_switch_that_is_away_stops_the_run_before_anything_moves(lab: Lab) -> None:
    lab.faults().refusing = True
    lab.faults().reset()
    await asyncio.sleep(1)
    run = await lab.do(LEASE, apply(CROSSED), wait())
    assert (run.outcome, run.safe_state) == ("failed", "untouched")
    assert run.why.startswith("unreachable: ")
    assert lab.emitted(RunEnded)[-1].exit_status == 4
    assert await lab.holds_nothing()


async def test_end_says_of_which_switch_nobody_sees_whether_what_was_confirmed_stands(lab: Lab) -> None:
    run_id = await lab.start(LEASE, apply(CROSSED), wait(), "wait: {for_s: 1000}")
    await lab.until(RunStep, step=4, state="started")
    lab.faults().refusing = True
    lab.faults().reset()
    await asyncio.sleep(1)
    await lab.service.runs.abort(run_id, ActBody(by="ada"))
    end = lab.emitted(RunEnded)[-1]
    assert (end.outcome, end.safe_state) == ("aborted", "as-applied")
    assert end.why == "by ada; ocs1 cannot be read now: what was confirmed last may be gone"


async def test_ports_of_somebody_else_refuse_the_run(lab: Lab) -> None:
    await lab.service.leases.take(LeaseBody(holder="ada", ports=["ocs1.3"], for_s=60))
    for steps in ((LEASE,), (apply(CROSSED),)):
        run = await lab.do(*steps)
        assert (run.outcome, run.safe_state) == ("failed", "untouched")
        assert run.why.startswith("refused: ocs1.3: leased to ada")
    assert lab.emitted(RunEnded)[-1].exit_status == 3
    assert [lease.holder for lease in lab.service.leases.leases()] == ["ada"]
    assert lab.light() == []


async def test_a_wait_with_nothing_applied_fails_by_name_and_a_playbook_that_means_nothing_here_starts_no_run(
    lab: Lab,
) -> None:
    run = await lab.do(wait())
    assert run.outcome == "failed"
    assert "put an apply step before it" in run.why
    with pytest.raises(ConfigError, match="9A"):
        await lab.start(apply("ocs1:9A-1B"))
    assert [one.id for one in await lab.service.runs.runs()] == [one.run for one in lab.emitted(RunStarted)] == [run.id]


async def test_a_lease_that_ends_during_a_wait_ends_not_the_wait_but_refuses_the_next_apply(lab: Lab) -> None:
    run = await lab.do("lease: {ports: all, for_s: 1}", apply(CROSSED), wait(), apply(STRAIGHT), wait())
    assert (run.outcome, run.safe_state) == ("failed", "as-applied"), "what was confirmed stands"
    assert run.why.startswith("refused: lease ")
    assert "expired" in run.why
    assert lab.emitted(LeaseReleased)[-1].why == "expired"
    assert lab.emitted(RunStep, state="done", step=3), "the wait"
    assert lab.light() == ends(CROSSED)
    assert await lab.holds_nothing()


async def test_progress_counts_steps_and_expects_what_is_left(lab: Lab) -> None:
    await lab.do(LEASE, apply(STRAIGHT), wait())
    await lab.do(LEASE, repeat(2, apply(CROSSED), wait(), apply(STRAIGHT), wait()))
    steps = [step for step in lab.emitted(RunStep) if step.total == 9]
    assert [step.done for step in steps if step.state == "done"] == list(range(1, 10))
    expected_s = [step.expected_s for step in steps if step.expected_s is not None]
    assert len(expected_s) == len(steps)
    assert 4 * 2 < expected_s[0] < 4 * 12  # a link takes some seconds to come up
    assert expected_s[-1] == 0
    waits = [step.expected_s or 0.0 for step in steps if step.what.startswith("wait") and step.state == "done"]
    assert waits == sorted(waits, reverse=True)


async def test_status_shows_a_run_under_way_alone_and_a_second_lease_step_takes_the_place_of_the_first(
    lab: Lab,
) -> None:
    run = await crossing(lab, "waiting")
    shown = (await lab.service.rack.status()).runs
    assert [(one.run, one.done, one.total) for one in shown] == [(run, 2, 3)]
    await lab.service.runs.wait(run)
    with pytest.raises(RefusedError, match="not under way"):
        await lab.service.runs.abort(run, ActBody(by="ada"))
    steps = "lease: {ports: all, for_s: 4}", apply(CROSSED), wait(), LEASE, apply(STRAIGHT), wait()
    assert (await lab.do(*steps)).outcome == "succeeded"
    assert await lab.holds_nothing()


@pytest.mark.parametrize("fact", [Timeline, ReconfigurationCommanded, LeaseTaken, ReconfigurationStarted])
async def test_every_reconfiguration_that_started_is_told_to_have_ended(lab: Lab, fact: type[Fact]) -> None:
    await lab.do(apply(STRAIGHT))
    aborts: list[asyncio.Task[AbortedRun]] = []
    run = await lab.start(apply(CROSSED), wait())

    def stop(document: Document) -> None:
        if isinstance(document.fact, fact) and not aborts:
            aborts.append(asyncio.get_running_loop().create_task(lab.service.runs.abort(run, ActBody(by="ada"))))

    lab.watchers.append(stop)
    await lab.service.runs.wait(run)
    await asyncio.gather(*aborts, return_exceptions=True)
    started = [one.reconfiguration for one in lab.emitted(ReconfigurationStarted)]
    ended = [one.reconfiguration for one in lab.emitted(ReconfigurationEnded)]
    assert [one for one in ended if one in started] == started
    assert await lab.holds_nothing()


async def test_abort_of_one_run_leaves_another_on_another_switch_alone(open_wide_lab: OpenLab) -> None:
    async with open_wide_lab() as lab:
        await lab.do(apply(STRAIGHT))
        one = await lab.start(apply(CROSSED), wait())
        await lab.until(ReconfigurationState, state="waiting")
        other = await lab.start(apply(OTHER), wait())
        await lab.until(ReconfigurationState, state="waiting")
        end = await lab.abort(one)
        assert end.safe_state == "before-apply"
        assert lab.light() == ends(STRAIGHT)
        await lab.service.runs.wait(other)
        assert (await lab.service.runs.run(other)).outcome == "succeeded"
        assert lab.light("ocs2") == ends(OTHER)
        assert await lab.holds_nothing()


@pytest.mark.parametrize("cause", ["not ready", "denied"])
async def test_abort_during_a_way_back_waits_for_it(lab: Lab, cause: str) -> None:
    if cause == "denied":
        await lab.do(apply(STRAIGHT))
        lab.faults().deny_next = Denial(code="SROF", text="Mirror controller fault")
    run = await crossing(lab, "rolling-back", within_s=0.5)
    end = await lab.abort(run)
    assert end.safe_state == "before-apply"
    assert lab.light() == ends(STRAIGHT)
    assert await lab.holds_nothing()
    assert (await lab.do(LEASE, apply(CROSSED))).outcome == "succeeded"


async def test_report_has_the_timings_that_a_run_gave_its_nics(lab: Lab) -> None:
    steps = [LEASE, "host: {ports: all, set: {autoneg: on}}"]
    steps += [f"fault: {{host: {host}, fault: nic-timing, timing: mfabric-cx6}}" for host in ("h0", "h1")]
    steps += [apply(STRAIGHT), wait(), "fault: {host: h0, fault: clear}", "fault: {host: h1, fault: clear}"]
    steps += ["wait: {for_s: 10}", apply(CROSSED), wait()]
    run = await lab.do(*steps)
    assert (run.outcome, run.why) == ("succeeded", "")
    report = of_documents(run, lab.world.documents)
    drawn = [sorted(report.lab.conditions(one).timings - {"polatis-opus"}) for one in report.timelines]
    assert drawn == [["mfabric-cx6"], ["opus-cx6dx-autoneg"]]
    assert report.lab.named == {"polatis-opus", "opus-cx6dx", "mfabric-cx6"}


async def test_step_that_raises_a_timeout_of_nobody_is_a_bug_and_no_abort(lab: Lab) -> None:
    async def late(fault: Fault) -> None:
        raise TimeoutError("late")

    lab.world.set_fault = late
    run = await lab.do(LEASE, "fault: {switch: ocs1, fault: slow, seconds: 1}")
    assert (run.outcome, "TimeoutError('late')" in run.why) == ("failed", True), run.why
