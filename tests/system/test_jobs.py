"""Jobs and transfers on a rack of processes: how they are started, stopped and refused, and what becomes of them."""

import asyncio
import contextlib
import getpass
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from .conftest import CROSSED, STRAIGHT, Data, Lab
from .job_rack import (
    HELD_AT,
    IDLE,
    RANK,
    assert_holds_nothing,
    at_step,
    ended,
    install_plane,
    lines,
    rack_of,
    running,
    start,
)
from .test_transfers import pairs
from .test_transfers import rank as sending_rank

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(180)]


def rack(folder: Path) -> str:
    """Two hosts, and jobs that fail in different ways."""
    rank = folder / "rank.py"
    rank.write_text(RANK)
    common = f"user: {getpass.getuser()}, hosts: [h0, h1]"
    jobs = "".join(
        f"  {name}: {{command: [{sys.executable}, {rank}, {name}], {common}, {more}}}\n"
        for name, more in {
            "goes": "plane: static topology=ring",
            "held": "plane: static topology=ring",
            "absent": "plane: static topology=ring, arrive_within_s: 1.5",
            "dies": "plane: static topology=ring",
            "lies": "plane: static topology=ring, answer_within_s: 3",
            "disagrees": "plane: static topology=ring",
            "idle": "plane: idle, answer_within_s: 1",
        }.items()
    )
    return rack_of(2, jobs)


@pytest.fixture
async def pair(lab: Lab) -> Lab:
    """A rack of its own, for a test whose daemon ends."""
    install_plane(lab.folder / "planes", "idle", IDLE)
    lab.environment["PYTHONPATH"] = str(lab.folder / "planes")
    await lab.up(text=rack(lab.folder))
    return lab


@pytest.mark.slow
async def test_job_that_cannot_go_on_fails_with_the_reason_and_the_name_and_leaves_nothing(standing: Lab) -> None:
    for name, parts in {
        "absent": ["rank 1 on h1 did not come within 1.5 s"],
        "dies": ["rank 1 on h1 ended with status 3"],
        "disagrees": ["comes with", "broadcast 0 of world", "all-reduce 0 of world"],
        "idle": ["waited 1 s for plane idle to answer all-reduce 0 of world", "all its ranks came to it"],
        "lies": ["rank 1 on h1 ended with status 1"],
    }.items():
        said = await standing.hwd("job", "run", name)
        assert said.status == 1, said
        assert all(part in said.err for part in parts), (name, said.err)
        assert_holds_nothing(await standing.until("it is over", lambda now: not now["jobs"]))
    refused = await standing.documents("job.rank-refused")
    assert [(one["rank"], one["host"], one["why"]) for one in refused if one["entry"] == "lies"] == [
        (0, "h1", "the job has no rank 0 on h1")
    ]
    assert running_of(refused) == []


def running_of(facts: Iterable[Data]) -> list[int]:
    return [pid for fact in facts for pid in running(fact["job"])]


@pytest.mark.slow
async def test_what_is_not_allowed_is_refused_and_nothing_is_started(standing: Lab) -> None:
    before = (await standing.hwd("job", "list", "--json")).json
    strange = await standing.hwd("job", "run", "gose")
    assert strange.status == 2
    assert "did you mean goes" in strange.err
    words = await standing.hwd("job", "run", "goes", "--", "--steps")
    assert words.status == 3
    assert "it takes no arguments" in words.err
    assert (await standing.hwd("job", "list", "--json")).json == before


async def test_jobs_and_transfers_keep_their_ports_over_daemons_that_end_or_are_killed(pair: Lab) -> None:
    following = pair.go("job", "run", "held")
    now = await pair.until("the job runs", lambda now: [one for one in now["jobs"] if one["state"] == "running"])
    job = now["jobs"][0]["id"]
    await at_step(pair, job, 3)
    other = await pair.hwd("job", "run", "goes")
    assert other.status == 1
    assert f"held by job {job}" in other.err or job in other.err
    shown = await pair.hwd("job", "show", job)
    assert "light at static" in shown.out
    applied = await pair.hwd("apply", "h0.eth0<->h1.eth0", "--no-ready")
    assert applied.status == 3  # the lease of the job
    (pair.folder / "go").touch()
    await at_step(pair, job, HELD_AT + 3)
    assert await pair.programs[-1].end(signal.SIGTERM) == 0
    said = await following
    assert said.status == 4
    assert f"The job goes on all the same: `hwd job show {job}`" in said.err
    before = running(job)
    assert before
    light, step = await pair.light(), len(await lines(pair, job, 0))
    old = pair.data / "jobs" / "gone1234"
    old.mkdir()
    (old / "rank0.log").touch()
    daemon = await pair.serve()
    await at_step(pair, job, step + 20)
    assert not old.exists(), "the records know no such job"
    assert running(job) == before
    assert await pair.light() == light
    async with asyncio.timeout(60):
        stopped = await pair.hwd("job", "stop", job, "--json")
    assert (stopped.json["state"], stopped.json["lease"]) == ("stopped", "")
    assert [rank["state"] for rank in stopped.json["ranks"]] == ["ended with status 7"] * 2
    assert running(job) == []
    assert_holds_nothing(await pair.until("it is over", lambda now: not now["jobs"]))
    written = (await pair.hwd("job", "logs", job)).out.splitlines()
    assert "step 3" in written
    assert written[-1] == "asked to end"

    await pair.ok("apply", pairs(STRAIGHT), "--no-ready")
    sending = await sending_rank(pair)
    await daemon.end(signal.SIGKILL)
    await pair.serve()
    await pair.until("the daemon is back", lambda now: all(one["up"] for one in now["switches"]))
    refused = await pair.hwd("apply", pairs(CROSSED), "--no-ready")
    assert (refused.status, "transfer-in-flight" in refused.err) == (3, True)
    await pair.until(
        "the agent has reported", lambda now: [one["process"] for one in now["transfers"] if one["transfer"]]
    )
    await sending.end(signal.SIGKILL)
    await pair.until("nothing is in flight", lambda now: not now["transfers"])
    await pair.ok("apply", pairs(CROSSED), "--no-ready")


@pytest.mark.slow
async def test_step_of_a_playbook_runs_a_job_to_its_end_and_the_end_of_a_run_ends_it(standing: Lab) -> None:
    standing.playbook.write_text("playbook: jobs\nsteps:\n  - job: {name: dies}\n  - note: never\n")
    said = await standing.hwd("run", str(standing.playbook), "--json")
    assert said.status == 1
    assert "rank 1 on h1 ended with status 3" in said.err
    standing.playbook.write_text("playbook: jobs\nsteps:\n  - job: {name: goes}\n")
    running_it = standing.go("run", str(standing.playbook), "--json")
    now = await standing.until("the job runs", lambda now: [one for one in now["jobs"] if one["state"] == "running"])
    job = now["jobs"][0]["id"]
    await at_step(standing, job, 3)
    await standing.ok("abort", now["runs"][0]["run"])
    assert (await running_it).status != 0
    found = await ended(standing, job)
    assert (found["state"], found["by"]) == ("stopped", f"run {now['runs'][0]['run']}")
    assert running(job) == []
    standing.playbook.write_text("playbook: jobs\nsteps:\n  - job: {name: gose}\n")
    said = await standing.hwd("run", str(standing.playbook))
    assert said.status == 2
    assert "gose: no job of the testbed file; did you mean goes" in said.err


@pytest.mark.slow
async def test_job_whose_host_has_left_the_testbed_file_fails_and_the_daemon_and_other_jobs_go_on(pair: Lab) -> None:
    job = await start(pair, "goes")
    await at_step(pair, job, 3)
    assert not any(b"HWD_JOB_KEY" in one for one in command_lines())
    await pair.programs[-1].end(signal.SIGKILL)
    text = pair.testbed.read_text()
    pair.testbed.write_text(
        text.replace("  h1: ", "  h9: ").replace("h1.eth", "h9.eth").replace("[h0, h1]", "[h0, h9]")
    )
    await pair.serve()
    found = await ended(pair, job)
    assert found["state"] == "failed"
    assert "h1: no host of the testbed file any more" in found["why"]
    assert "rank 1: h1: is no host of the testbed file any more" in found["why"]
    assert_holds_nothing(await pair.until("h0 has reported", lambda now: not now["jobs"] and not now["transfers"]))
    for pid in running(job):
        os.kill(pid, signal.SIGKILL)  # the rank on the host that hwd does not know any more


def command_lines() -> list[bytes]:
    found = []
    for one in Path("/proc").iterdir():
        if one.name.isdigit():
            with contextlib.suppress(OSError):
                found.append((one / "cmdline").read_bytes())
    return found
