"""Light that a job has left is nobody's: the next job takes it, and nothing brings it back."""

from pathlib import Path

from hwd.model.bodies import JobBody
from hwd.model.reconfiguration import ReconfigurationStarted
from hwd.sim.world import World

from ..sim.lab import Lab, opened
from .job_lab import Work, ended, trains

EXAMPLE = Path(__file__).parents[2] / "examples" / "opus-testbed.yaml"
JOBS = """
jobs:
  all: {command: [/bin/train], user: lab, hosts: [h0, h1, h2, h3], plane: static topology=ring}
  some: {command: [/bin/train], user: lab, hosts: [h0, h1], plane: static topology=ring}
"""
TURNS = 20


async def test_jobs_on_all_and_on_some_hosts_take_turns_over_killed_daemons(tmp_path: Path, virtual_time: None) -> None:
    text = EXAMPLE.read_text().replace("timing: polatis-opus", "timing: ideal")
    text = text.replace("timing: opus-cx6dx", "timing: ideal") + JOBS
    worlds: list[World] = []

    async def train(host: str, command: object, environment: dict[str, str]) -> int:
        return await trains(worlds[0], host, environment, Work(steps=1))

    async with opened(tmp_path, text, programs={"/bin/train": train}) as lab:
        worlds.append(lab.world)
        for turn in range(TURNS):
            for name in ("all", "some"):
                await succeeds(lab, name, f"turn {turn}")
            if turn % 5 == 2:
                await lab.next_life()
        assert await lab.holds_nothing()
        taken = [one.what for one in lab.emitted(ReconfigurationStarted) if "-none" in one.what]
        assert len(taken) == TURNS, "each job on some hosts took light that the one on all had left"


async def succeeds(lab: Lab, name: str, about: str) -> None:
    status = await ended(lab, (await lab.in_daemon(lab.service.jobs.start(JobBody(name=name), None))).id)
    assert (status.state, status.why) == ("succeeded", ""), (about, name)
