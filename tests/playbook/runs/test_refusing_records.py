"""A daemon that starts while its records take nothing: a database that refuses to write, in virtual time."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from hwd.model.documents.daemon import DaemonRecovered
from hwd.model.documents.reconfigurations import ReconfigurationState
from hwd.sim.world import DAEMON

from ...sim.lab import Lab
from .conftest import FIRST

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
    ready = lab.service.ready()
    assert not ready.ready
    assert f"cannot end run {run}: disk is full" in str(ready.why)
    assert not lab.service.status().records.writable

    run_sql(tmp_path / "records.db", "DROP TRIGGER no")
    service = await lab.world.settled()
    (row,) = await lab.in_daemon(service.runs())
    assert (row.id, row.outcome, row.why) == (run, "crashed", "the daemon ended under it")


async def test_queued_run_that_means_nothing_any_more_keeps_no_daemon_from_starting(lab: Lab, tmp_path: Path) -> None:
    run = await lab.start(*STEPS, due_in_s=3600.0)
    lab.world.kill(DAEMON)
    run_sql(tmp_path / "records.db", "UPDATE queue SET playbook_text = 'steps: ['", refuse("INSERT"))
    lab.world.start_daemon()
    await asyncio.sleep(10.0)
    assert (await lab.state(run))["state"] == "failed"
    assert await lab.in_daemon(lab.service.runs()) == []

    run_sql(tmp_path / "records.db", "DROP TRIGGER no")
    lab.world.kill(DAEMON)
    lab.world.start_daemon()
    await asyncio.sleep(10.0)
    assert [row.outcome for row in await lab.in_daemon(lab.service.runs())] == ["failed"]
    assert lab.service.queue() == []
