"""What a new daemon knows after a kill: the crashed run and its safe state, turnarounds, and outcomes."""

import asyncio
import errno
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from hwd.cli.run_steps import NOT_ENDED, steps_of, switches_left
from hwd.model.bodies import ReconfigurationBody
from hwd.model.daemon import DaemonRecovered
from hwd.model.kinds import read_document
from hwd.model.reconfiguration import ReconfigurationEnded, ReconfigurationState
from hwd.model.timeline import Timeline
from hwd.reconfigure.desired.history import READ_MOST
from hwd.reconfigure.journal import file as journal_file
from hwd.reconfigure.journal import frames as journal_frames
from hwd.records.journal_id import MemoryJournalId
from hwd.records.records import Records
from hwd.sim.world import DAEMON
from hwd_drivers.core.documents import Document
from hwd_drivers.core.offload import InlineOffload

from ...sim.lab import Lab
from .conftest import FIRST, SECOND

ON_FIRST = (f"apply: {{pairs: {FIRST}}}", "wait: {for: ready, within_s: 20}")
ON_SECOND = (f"apply: {{pairs: {SECOND}}}", "wait: {for: ready, within_s: 20}")


async def test_crashed_run_knows_that_its_switches_were_brought_back(lab: Lab) -> None:
    run = await lab.start(*ON_FIRST)
    await asyncio.sleep(0.2)
    await lab.next_life()
    await asyncio.sleep(10)  # virtual: the switch is there, and brought back
    (recovered,) = lab.emitted(DaemonRecovered)
    assert (recovered.outcome, recovered.run) == ("rolled-back", run)

    async def of_run() -> list[Document]:
        return [read_document(one) async for one in await lab.service.runs.recorded(run)]

    documents = await lab.in_daemon(of_run())
    assert switches_left("unknown", documents).startswith("unknown at its end; brought back at ")
    assert [one.state for one in steps_of(documents, ended=True)][-1] == NOT_ENDED
    for _ in range(2):  # and after another start
        state = await lab.state(run)
        assert (state["state"], state["safe_state"], state["rolled_back"]) == ("crashed", "before-apply", True)
        row = await lab.in_daemon(lab.service.runs.run(run))
        assert (row.outcome, row.safe_state) == ("crashed", "before-apply")
        assert switches_left("before-apply", documents).startswith("unknown at its end; brought back at ")
        await lab.next_life()


async def test_run_that_the_records_do_not_know_does_not_keep_those_behind_it_unsettled(lab: Lab) -> None:
    run = await lab.start(*ON_FIRST)
    await asyncio.sleep(0.2)
    lab.world.kill(DAEMON)
    disk = lab.world.journal_disk
    (of_run,) = journal_file.read(disk.read(), None).open
    ghost = replace(of_run, reconfiguration="before", run="ghost")
    frames = [journal_frames.begin(ghost), journal_frames.begin(replace(of_run, number=2))]
    disk.replace(journal_frames.first("j1", kept=[], next=1) + b"".join(frames), reserve=4096)
    disk.close()
    lab.world.journal_id = MemoryJournalId()
    lab.world.start_daemon()
    await lab.world.settled()
    await asyncio.sleep(10)  # virtual
    assert [one.run for one in lab.emitted(DaemonRecovered)] == ["ghost", run]
    assert (await lab.state(run))["safe_state"] == "before-apply"


async def test_crashed_run_that_had_confirmed_all_is_as_applied(lab: Lab) -> None:
    run = await lab.start(*ON_FIRST, "wait: {for_s: 600}")
    await asyncio.sleep(30)
    assert [one.outcome for one in lab.emitted(ReconfigurationEnded)] == ["confirmed"]
    for _ in range(2):
        await lab.next_life()
        await asyncio.sleep(10)  # virtual
        state = await lab.state(run)
        assert (state["state"], state["safe_state"], state["rolled_back"]) == ("crashed", "as-applied", False)
        row = await lab.in_daemon(lab.service.runs.run(run))
        assert (row.outcome, row.safe_state) == ("crashed", "as-applied")
    assert lab.emitted(DaemonRecovered) == []


async def test_run_whose_confirm_the_journal_takes_after_its_end_is_as_applied(lab: Lab) -> None:
    run = await lab.start(*ON_FIRST)
    while not lab.emitted(ReconfigurationState, state="driving"):  # noqa: ASYNC110 - in virtual time
        await asyncio.sleep(0.01)
    lab.world.journal_disk.refusal = (errno.EIO, 0)
    assert (await lab.ended(run))["safe_state"] == "unknown"
    lab.world.journal_disk.refusal = None
    await asyncio.sleep(10)  # virtual
    assert [one.outcome for one in lab.emitted(ReconfigurationEnded)] == ["confirmed"]
    for _ in range(2):  # and after another start
        assert (await lab.state(run))["safe_state"] == "as-applied"
        assert (await lab.in_daemon(lab.service.runs.run(run))).safe_state == "as-applied"
        await lab.next_life()


async def test_crashed_run_that_had_confirmed_one_and_not_the_next_is_not_called_as_applied(lab: Lab) -> None:
    run = await lab.start(*ON_SECOND, *ON_FIRST)
    while len(lab.emitted(ReconfigurationState, state="journaled")) < 2:  # noqa: ASYNC110 - in virtual time
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.2)
    assert [one.outcome for one in lab.emitted(ReconfigurationEnded)] == ["confirmed"]
    await lab.next_life()
    await asyncio.sleep(10)
    assert [one.outcome for one in lab.emitted(DaemonRecovered)] == ["rolled-back"]
    state = await lab.state(run)
    assert (state["state"], state["safe_state"], state["rolled_back"]) == ("crashed", "before-apply", True)


async def test_daemon_that_starts_again_expects_what_was_measured_before(lab: Lab) -> None:
    for steps in (ON_FIRST, ON_SECOND):
        await lab.ended(await lab.start(*steps))
    await lab.ended(await lab.start("apply: {pairs: 'ocs1:none'}"))

    async def expected() -> tuple[object, object]:
        plan = await lab.service.light.plan(ReconfigurationBody(what=FIRST.strip("'")))
        return plan.expected_s, plan.expected_from

    before = await lab.in_daemon(expected())
    assert before[1] == "median of the last 2 turnarounds"
    await lab.next_life()
    assert await lab.in_daemon(expected()) == before


async def test_daemon_that_starts_again_looks_at_a_bounded_number_of_timelines(lab: Lab, tmp_path: Path) -> None:
    await lab.ended(await lab.start(*ON_FIRST))
    await lab.ended(await lab.start("apply: {pairs: 'ocs1:none'}"))
    untimed = Document(
        at_ns=0,
        wall_ns=0,
        fact=Timeline(reconfiguration="long ago", run=None, what="", commands=[], ends=[], links=[], breaches=[]),
    )
    for more, came_from in ((200, "median of the last 1 turnaround"), (READ_MOST, "switching time that")):
        lab.world.kill(DAEMON)
        records = Records(f"sqlite:///{tmp_path / 'records.db'}", InlineOffload())
        await records.open()
        await records.add_documents([untimed] * more)
        records.close()
        lab.world.start_daemon()
        await lab.world.settled()
        plan = await lab.in_daemon(lab.service.light.plan(ReconfigurationBody(what=FIRST.strip("'"))))
        assert plan.expected_from.startswith(came_from)


STEPS = (f"apply: {{pairs: {FIRST}}}", "wait: {for: ready, within_s: 20}", "wait: {for_s: 60}")


def run_sql(path: Path, *statements: str) -> None:
    """As somebody beside the daemon."""
    with closing(sqlite3.connect(path)) as database, database:
        for statement in statements:
            database.execute(statement)


def refuse(what: str) -> str:
    return f"CREATE TRIGGER no BEFORE {what} ON runs BEGIN SELECT RAISE(ABORT, 'disk is full'); END"


async def test_killed_daemon_brings_the_switches_back_and_owes_the_end_of_its_run(lab: Lab, tmp_path: Path) -> None:
    run = await lab.start(*STEPS)
    await asyncio.sleep(0.05)
    assert lab.emitted(ReconfigurationState, state="driving")
    lab.world.kill(DAEMON)
    run_sql(tmp_path / "records.db", refuse("UPDATE"))
    lab.world.start_daemon()
    await asyncio.sleep(10.0)
    (recovered,) = lab.emitted(DaemonRecovered)
    assert (recovered.outcome, recovered.run) == ("rolled-back", run)
    end = await lab.state(run)
    assert (end["state"], end["safe_state"]) == ("crashed", "unknown")
    ready = lab.service.rack.ready()
    assert not ready.ready
    assert f"cannot end run {run}: disk is full" in str(ready.why)
    assert not (await lab.service.rack.status()).records.writable

    run_sql(tmp_path / "records.db", "DROP TRIGGER no")
    service = await lab.world.settled()
    (row,) = await lab.in_daemon(service.runs.runs())
    assert (row.id, row.outcome, row.why) == (run, "crashed", "the daemon ended under it")


async def test_queued_run_that_means_nothing_any_more_keeps_no_daemon_from_starting(lab: Lab, tmp_path: Path) -> None:
    run = await lab.start(*STEPS, due_in_s=3600.0)
    lab.world.kill(DAEMON)
    run_sql(tmp_path / "records.db", "UPDATE queue SET playbook_text = 'steps: ['", refuse("INSERT"))
    lab.world.start_daemon()
    await asyncio.sleep(10.0)
    assert (await lab.state(run))["state"] == "failed"
    assert await lab.in_daemon(lab.service.runs.runs()) == []

    run_sql(tmp_path / "records.db", "DROP TRIGGER no")
    lab.world.kill(DAEMON)
    lab.world.start_daemon()
    await asyncio.sleep(10.0)
    assert [row.outcome for row in await lab.in_daemon(lab.service.runs.runs())] == ["failed"]
    assert lab.service.runs.queue() == []
