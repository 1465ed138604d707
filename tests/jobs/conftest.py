"""A small world with a job."""

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest

from hwd.config import planes
from hwd.daemon.installed_drivers import load
from hwd.jobs import job_run
from hwd.model.plane import PlaneKind
from hwd.sim.world import World
from hwd_drivers.twins.virtual_time import VirtualLoop

from ..virtual_time import SELDOM_S
from .job_lab import EXAMPLE, Lab, Work, trains


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
async def lab(
    virtual_loop: VirtualLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Work
) -> AsyncIterator[Lab]:
    """A settled world whose testbed file allows the job `go`, of a rank a host: see `of_job`."""
    text = EXAMPLE.read_text().replace("host_actions: [", f"host_actions: [{work.actions}")
    text = text.replace("timing: polatis-opus", "timing: ideal").replace("timing: opus-cx6dx", "timing: ideal")
    text += f"\njobs:\n  go: {{command: [/bin/train], user: lab, hosts: [h0, h1], {work.entry}}}\n"
    path = tmp_path / "testbed.yaml"
    path.write_text(text)
    if (plane := work.plane) is not None:
        for module in (planes, job_run):
            monkeypatch.setattr(module, "find", lambda name: PlaneKind(make=lambda arguments: plane))

    async def train(host: str, command: Sequence[str], environment: Mapping[str, str]) -> int:
        return await trains(world, host, environment, work)

    records_url = f"sqlite:///{tmp_path / 'records.db'}"
    world = World(
        load(path).require(),
        text,
        seed=7,
        records_url=records_url,
        programs={"/bin/train": train},
        data_dir=str(tmp_path),
        light_every_s=SELDOM_S,
    )
    async with world:
        await world.settled()
        yield Lab(world, records_url, plane)
        for program in world.processes.running:
            world.processes.kill(program)
