"""The processes of the ranks of a job, in the network of a twin host."""

import asyncio
import getpass
import os
import re
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self, TypeVar, TypeVarTuple

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
from hwd_drivers.core.documents import Json
from hwd_drivers.core.ids import RandomIds
from hwd_drivers.core.offload import InlineOffload, Offload

from .job_record import job_record

pytestmark = pytest.mark.kernel

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
HOST = Host(name="h0", ports=(), twin=HostTwin(kernel=True, timing="ideal", seed=1))


def record(script: str) -> JobRecord:
    return job_record(
        id=RandomIds().token(length=8),
        command=["/bin/sh", "-c", script],
        user=getpass.getuser(),
        ranks=[JobRank(host="h0"), JobRank(host="h0")],
        within_s=30,
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


class Stage:
    """A job of two ranks that run this script on `HOST`, a twin host with a network of its own."""

    def __init__(self, tmp_path: Path, script: str) -> None:
        self.ends = Ends(2)
        self._tmp_path = tmp_path
        self._job = record(script)
        self._stack = AsyncExitStack()
        self.folder = tmp_path / "jobs" / self._job.id

    async def __aenter__(self) -> Self:
        keeper = await self._stack.enter_async_context(Keeper())
        await keeper.start(["h0"], self._tmp_path / "run")
        await self._stack.enter_async_context(asyncio.timeout(60))
        hosts: dict[str, dict[str, Json]] = {"h0": {"kernel": True, "keeper": str(keeper.path), "agent": None}}
        place = RackPlace(testbed="two", pid=os.getpid(), hosts=hosts)
        self._processes = HostProcesses(lambda: place, SystemClock(), InlineOffload())
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._stack.__aexit__(*error)

    def ranks(self, offload: Offload | None = None) -> JobRanks:
        """Those of one daemon."""
        offload = offload or InlineOffload()
        return JobRanks(self._job, {"h0": HOST}, self._processes, folder=self.folder, offload=offload, on_end=self.ends)

    async def end(self, ranks: JobRanks) -> None:
        await self.ends.all.wait()
        assert await ranks.stop(within_s=5) == ""

    def logs(self) -> list[str]:
        return [(self.folder / f"rank{number}.log").read_text() for number in range(2)]


class EndsAfterWrite:
    """An offload that does not come back once the logs hold `text`: its daemon is killed right after it wrote that."""

    def __init__(self, folder: Path, text: str) -> None:
        self._folder = folder
        self._text = text
        self.ended = asyncio.Event()

    async def __call__(self, fn: Callable[[*Ts], T], *args: *Ts) -> T:
        before = self._count()
        done = await InlineOffload()(fn, *args)
        if (count := self._count()) > before:
            if count == 2:
                self.ended.set()
            await asyncio.Event().wait()
        return done

    def _count(self) -> int:
        return sum(self._text in path.read_text() for path in self._folder.glob("rank*.log"))


async def test_output_of_a_rank_is_kept_up_to_a_limit_and_then_said_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_ranks, "LOG_MOST_BYTES", 10)
    stage = Stage(tmp_path, "echo rank $HWD_RANK; echo; sleep 0.2; echo more; sleep 0.2; echo and more; exit $HWD_RANK")
    async with stage:
        ranks = stage.ranks()
        await ranks.start()
        await stage.end(ranks)
    assert stage.ends.found == {0: ProgramEnd(status=0), 1: ProgramEnd(status=1)}
    for number, text in enumerate(stage.logs()):
        assert text == f"rank {number}\n\nmore\n\n[hwd: what comes after this is not kept]\n"
        assert ranks.last_words(number) == "and more"


@pytest.mark.parametrize(("address", "met"), [("10.5.0.1", "10.5.0.1"), (None, "none")], ids=["address", "no address"])
async def test_ranks_have_the_variables_of_torchrun(tmp_path: Path, address: str | None, met: str) -> None:
    text = "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE ${MASTER_ADDR:-none} $MASTER_PORT"
    async with Stage(tmp_path, text) as stage:
        ranks = stage.ranks()
        await ranks.start(address=address)
        await stage.end(ranks)
    words = [one.split() for one in stage.logs()]
    assert [one[:5] for one in words] == [["0", "2", "0", "2", met], ["1", "2", "1", "2", met]]
    ports = {int(one[5]) for one in words}
    assert len(ports) == 1
    assert 20_000 <= ports.pop() < 29_000


async def test_output_is_in_the_log_once_where_some_was_dropped_and_the_daemon_is_then_killed(tmp_path: Path) -> None:
    script = f"""
        echo first
        while [ ! -e {tmp_path}/left ]; do sleep 0.05; done
        head -c 3000000 /dev/zero | tr '\\0' x
        echo
        touch {tmp_path}/wrote$HWD_RANK
        while [ ! -e {tmp_path}/again ]; do sleep 0.05; done
        echo last; exit 3
    """
    async with Stage(tmp_path, script) as stage:
        left, killed = EndsAfterWrite(stage.folder, "first\n"), EndsAfterWrite(stage.folder, "were dropped")
        first, second, third = stage.ranks(left), stage.ranks(killed), stage.ranks()
        await first.start()
        await left.ended.wait()
        await first.leave()
        (tmp_path / "left").touch()
        while len([*tmp_path.glob("wrote*")]) < 2:  # noqa: ASYNC110 - what other processes do sets no event of ours
            await asyncio.sleep(0.05)
        second.take_over()
        await second.attach()
        await killed.ended.wait()
        third.take_over()
        await third.attach()
        (tmp_path / "again").touch()
        await stage.end(third)
        await second.leave()
    assert stage.ends.found == {0: ProgramEnd(status=3), 1: ProgramEnd(status=3)}
    for text in stage.logs():
        dropped = r"\[hwd: (\d+) bytes of output were dropped while no daemon was attached\]"
        assert re.fullmatch(rf"first\n({dropped}\n)+x*\nlast\n", text), text[:200]
        assert sum(map(int, re.findall(dropped, text))) + text.count("x") == 3_000_000, text[:200]


@pytest.mark.parametrize("is_full", [False, True])
async def test_what_a_killed_daemon_wrote_is_in_the_log_once_and_the_next_one_knows_the_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    script, marks, log, last = "echo no memory; exit 1", "no memory\n", "no memory\n", "no memory"
    if is_full:
        monkeypatch.setattr(job_ranks, "LOG_MOST_BYTES", 10)
        script = f"echo 0123456789; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; echo more"
        marks, last = "not kept", "more"
        log = "0123456789\n\n[hwd: what comes after this is not kept]\n"
    async with Stage(tmp_path, script) as stage:
        killed = EndsAfterWrite(stage.folder, marks)
        first, second = stage.ranks(killed), stage.ranks()
        await first.start()
        await killed.ended.wait()
        second.take_over()
        await second.attach()
        (tmp_path / "go").touch()
        await stage.end(second)
        await first.leave()
    assert stage.logs() == [log] * 2
    assert [second.last_words(number) for number in range(2)] == [last] * 2
