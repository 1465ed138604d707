"""Planes that misbehave on a rack of processes: their jobs fail with the reason and the name, and the job of a
neighbour goes on; the daemon answers meanwhile, and ends while one of them sleeps.
"""

import asyncio
import getpass
import signal
import sys
from pathlib import Path

import pytest

from ..config.planes import bad_planes
from .conftest import Lab
from .job_rack import RANK, at_step, install_plane, lines, rack_of, start

pytestmark = [pytest.mark.kernel, pytest.mark.slow, pytest.mark.timeout(300)]

SAID = {
    "loop": "never returns: no answer within 1 s at ",
    "memory": "takes too much: it needs more memory than it may have",
    "flood": "takes too much: over 4096 actions in one answer",
    "close": "its process ended",
    "kill-parent": "raises: PermissionError('a plane sends no signal (os.kill)')",
    "segmentation-fault": "its process ended: killed by SIGSEGV",
}
"""What a plane does, and what its job says; `tests/config/planes` has all ways."""
PATIENT = "plane_within_s: 30"
LIMITS = {"loop": "plane_within_s: 1", "memory": f"{PATIENT}, plane_memory_mib: 64"}


def rack(folder: Path) -> str:
    """Four hosts: the job of a neighbour on two, and on two a job for each way to misbehave."""
    path = folder / "rank.py"
    path.write_text(RANK)
    command = f"command: [{sys.executable}, {path}, goes], user: {getpass.getuser()}"
    jobs = f"  neighbour: {{{command}, hosts: [h2, h3], plane: static topology=ring}}\n"
    for act in (*SAID, "sleep"):
        limits = LIMITS.get(act, PATIENT)
        jobs += f"  {act}: {{{command}, hosts: [h0, h1], plane: bad act={act}, {limits}}}\n"
    return rack_of(4, jobs)


@pytest.fixture
async def rack_with_bad_planes(lab: Lab) -> Lab:
    text = Path(bad_planes.__file__).read_text()
    text += """
from hwd.model.plane import PlaneKind
BAD = PlaneKind(make=lambda arguments: Plane(ACTS[arguments["act"]], "on"), arguments=("act",))
"""
    install_plane(lab.folder / "planes", "bad", text)
    lab.environment["PYTHONPATH"] = str(lab.folder / "planes")
    await lab.up(text=rack(lab.folder))
    return lab


async def test_neighbour_of_planes_that_misbehave_goes_on(rack_with_bad_planes: Lab) -> None:
    lab = rack_with_bad_planes
    job = await start(lab, "neighbour")
    await at_step(lab, job, 3)
    for act, said in SAID.items():
        step = len(await lines(lab, job, 0))
        result = await lab.hwd("job", "run", act)
        assert result.status == 1, (act, result)
        assert f"plane bad: {said}" in result.err, (act, result.err)
        await at_step(lab, job, step + 20)
    following = asyncio.create_task(lab.hwd("job", "run", "sleep"))
    stopped = await lab.hwd("job", "stop", job)
    assert stopped.status == 0, stopped
    assert (await lab.hwd("job", "verify", job)).status == 0
    assert await lab.programs[-1].end(signal.SIGTERM) == 0
    await following
