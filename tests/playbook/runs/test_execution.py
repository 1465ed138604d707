"""How the end of a run gets into its record, and what that says of the lab as agents found it."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from hwd.daemon.installed_drivers import load
from hwd.model.documents.runs import RunEnded
from hwd.model.kinds import UnreadFact
from hwd.model.recorded_run import Run, RunOutcome
from hwd.model.run import RunState, RunStatus
from hwd.playbook.execution import record_end
from hwd.playbook.run_record import ended_fact, status_of
from hwd.playbook.runner import RunEnd
from hwd.playbook.safe_state import SafeState
from hwd.records.recorder import RecordingSink
from hwd.records.records import Records
from hwd.sim.world import World
from hwd_drivers.core.documents import Document
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.twins.virtual_time import run_virtual

from ...sim.lab import Lab
from .conftest import TESTBED

SUCCEEDED = RunEnd(outcome=RunOutcome.SUCCEEDED, why="", safe_state=SafeState.AS_APPLIED)


def test_whoever_is_told_of_an_end_finds_it_in_the_records(tmp_path: Path) -> None:
    found: list[tuple[str, str, str, list[str]]] = []

    def look(document: Document) -> None:
        """The database as another process sees it."""
        end = document.fact
        if isinstance(end, RunEnded) or (isinstance(end, RunStatus) and end.state is RunState.SUCCEEDED):
            with closing(sqlite3.connect(tmp_path / "records.db")) as records:
                [(outcome,)] = records.execute("select outcome from runs").fetchall()
                last = records.execute("select kind from documents where run is not null order by id desc limit 2")
                said = end.outcome if isinstance(end, RunEnded) else ""
                found.append((document.kind, outcome, said, [kind for (kind,) in last]))

    (tmp_path / "two.yaml").write_text(TESTBED)
    testbed = load(tmp_path / "two.yaml").require()

    async def main() -> None:
        url = f"sqlite:///{tmp_path / 'records.db'}"
        async with World(testbed, TESTBED, seed=7, records_url=url, sinks=[look]) as world:
            await world.run_playbook("playbook: test\nsteps:\n  - note: one\n", file="test.yaml")

    run_virtual(main(), seed=7)
    last = ["run.state", "run.ended"]
    assert found == [("run.ended", "succeeded", "succeeded", last), ("run.state", "succeeded", "", last)]


async def test_end_is_told_as_it_was_written_where_its_last_documents_are_lost() -> None:
    records = Records("sqlite://", InlineOffload())
    await records.open()
    await records.start_run(Run(id="k3v9", playbook="p", testbed="t", version="1", started_wall_ns=1))
    recorder = RecordingSink(records, buffered_max=0)

    def last(end: RunEnd) -> tuple[Document, ...]:
        return (Document(at_ns=1, wall_ns=1, fact=ended_fact("k3v9", end)),)

    [told] = await record_end("k3v9", SUCCEEDED, last, ended_wall_ns=2, recorder=recorder)
    written = await records.run("k3v9")
    assert isinstance(told.fact, RunEnded)
    assert (told.fact.outcome, written.outcome) == ("failed", "failed")
    assert "it has lost" in written.why
    records.close()


async def inventory(lab: Lab, *steps: str) -> dict[str, dict[str, Any]]:
    """Of the hosts, as a run of these steps has it in the records."""
    run = await lab.start(*steps)
    await lab.ended(run)
    found = (await lab.in_daemon(lab.service.run(run))).inventory
    return {host["host"]: host["inventory"] for host in found["hosts"]}


async def test_a_run_is_recorded_with_modules_nics_and_kernels(lab: Lab) -> None:
    hosts = await inventory(lab, "note: hello")
    assert set(hosts) == {"h0", "h1", "h2", "h3"}
    for name, found in hosts.items():
        assert found["kernel"].startswith("Linux ")
        assert found["modules"]["eth0"]["vendor"], name
        assert found["modules"]["eth0"]["part"], name
        assert found["nics"]["eth0"]["autoneg"] is True
        assert found["nics"]["eth0"]["fec"] == {"auto": True, "modes": []}
        assert found["nics"]["eth0"]["driver"] is None  # of a twin without a kernel


async def test_what_was_set_of_a_nic_before_a_run_stands_in_its_record(lab: Lab) -> None:
    first = await lab.start("host: {ports: [h0.eth0], set: {autoneg: off}}", "wait: {for_s: 60}")
    await asyncio.sleep(10)
    hosts = await inventory(lab, "note: hello")
    assert [found["nics"]["eth0"]["autoneg"] for found in hosts.values()] == [False, True, True, True]
    await lab.ended(first)
    await asyncio.sleep(10)
    hosts = await inventory(lab, "note: hello")
    assert hosts["h0"]["nics"]["eth0"]["autoneg"] is True


def test_state_that_another_version_recorded_says_nothing_of_the_progress() -> None:
    run = Run(id="k3v9", playbook="p", testbed="t", version="1", started_wall_ns=1, outcome=RunOutcome.FAILED, why="x")
    state = status_of(run, UnreadFact(kind="run.state", fields={"run": "k3v9", "state": "dancing"}))
    assert (state.state, state.why, state.step, state.steps) == (RunState.FAILED, "x", None, 0)
