"""The processes of the ranks of a job, in the network of a twin host."""

import asyncio
import getpass
import os
from pathlib import Path

import pytest

from hwd.config.run_files.places import RackPlace
from hwd.jobs import job_ranks
from hwd.jobs.job_ranks import JobRanks
from hwd.model.job import JobRank, JobRecord
from hwd.model.program import ProgramEnd
from hwd.model.testbed import Host, HostTwin
from hwd.rollout.processes.host_processes import HostProcesses
from hwd.twin.kernel import Keeper
from hwd_drivers.core.clock import SystemClock
from hwd_drivers.core.ids import RandomIds
from hwd_drivers.core.offload import InlineOffload

pytestmark = pytest.mark.kernel


def record(script: str) -> JobRecord:
    return JobRecord(
        id=RandomIds().token(length=8),
        entry="e",
        command=["/bin/sh", "-c", script],
        user=getpass.getuser(),
        ranks=[JobRank(host="h0"), JobRank(host="h0")],
        groups={"world": [0, 1]},
        dimensions={},
        plane="static",
        plane_arguments={},
        shim="ask",
        fallback=False,
        within_s=30,
        arrive_within_s=30,
        answer_within_s=30,
        ready_within_s=30,
        key="k",
        by="ada",
        started_wall_ns=1,
    )


class Ends:
    """How ranks ended."""

    def __init__(self, ranks: int) -> None:
        self.found: dict[int, ProgramEnd] = {}
        self._left = ranks
        self.all = asyncio.Event()

    async def __call__(self, number: int, end: ProgramEnd) -> None:
        self.found[number] = end
        if len(self.found) == self._left:
            self.all.set()


async def test_output_of_a_rank_is_kept_up_to_a_limit_and_then_said_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_ranks, "LOG_MOST_BYTES", 10)
    job, ends = (
        record("echo rank $HWD_RANK; echo; sleep 0.2; echo more; sleep 0.2; echo and more; exit $HWD_RANK"),
        Ends(2),
    )
    async with Keeper() as keeper:
        await keeper.start(["h0"], tmp_path / "run")
        place = RackPlace(
            testbed="two", pid=os.getpid(), hosts={"h0": {"kernel": True, "keeper": str(keeper.path), "agent": None}}
        )
        host = Host(name="h0", ports=(), twin=HostTwin(kernel=True, timing="ideal", seed=1))
        processes = HostProcesses(lambda: place, SystemClock())
        folder = tmp_path / "jobs" / job.id
        ranks = JobRanks(job, {"h0": host}, processes, folder=folder, offload=InlineOffload(), on_end=ends)
        await ranks.start()
        async with asyncio.timeout(30):
            await ends.all.wait()
        assert await ranks.stop(within_s=5) == ""
    assert ends.found == {0: ProgramEnd(status=0), 1: ProgramEnd(status=1)}
    for number in range(2):
        text = (folder / f"rank{number}.log").read_text()
        assert text == f"rank {number}\n\nmore\n\n[hwd: what comes after this is not kept]\n"
        assert ranks.last_words(number) == "and more"
