"""A small world with a job."""

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest

from hwd.config.planes import installed as planes
from hwd.jobs import jobs
from hwd.model.plane import PlaneKind
from hwd_drivers.twins.virtual_time import VirtualLoop

from ..sim.lab import opened
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
    if (plane := work.plane) is not None:
        monkeypatch.setattr(planes, "find", lambda name: PlaneKind(make=lambda arguments: plane))
        monkeypatch.setattr(planes, "is_own", lambda name: True)
        monkeypatch.setattr(jobs, "check_installed", lambda name: None)

    async def train(host: str, command: Sequence[str], environment: Mapping[str, str]) -> int:
        return await trains(bare.world, host, environment, work)

    async with opened(tmp_path, text, programs={"/bin/train": train}) as bare:
        lab = Lab(bare.world, f"sqlite:///{tmp_path / 'records.db'}", plane)
        bare.watchers.append(lab.hear)
        yield lab
        for program in bare.world.processes.running:
            bare.world.processes.kill(program)
