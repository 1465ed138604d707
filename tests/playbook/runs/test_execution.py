"""How a run's end gets into its record, and then to everybody else."""

import sqlite3
from contextlib import closing
from pathlib import Path

from hwd.daemon.installed_drivers import load
from hwd.model.documents.runs import RunEnded
from hwd.model.recorded_run import Run, RunOutcome
from hwd.model.run import RunState, RunStatus
from hwd.playbook.execution import record_end
from hwd.playbook.run_record import ended_fact
from hwd.playbook.runner import RunEnd
from hwd.playbook.safe_state import SafeState
from hwd.records.recorder import RecordingSink
from hwd.records.records import Records
from hwd.sim.world import World
from hwd_drivers.core.documents import Document
from hwd_drivers.core.offload import InlineOffload
from hwd_drivers.twins.virtual_time import run_virtual

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
