"""A small world with a job."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from hwd.config import planes
from hwd.daemon.installed_drivers import load
from hwd.jobs import job_run
from hwd.model.plane import (
    Plane,
    PlaneKind,
)
from hwd.sim.world import World
from hwd_drivers.twins.virtual_time import run_virtual

from .job_lab import EXAMPLE, STATIC, Lab, RunLab, Test, trains


@pytest.fixture
def run_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunLab:
    """Runs a coroutine function in a settled world whose testbed file allows the job `go`, of a rank a host.

    `entry`: more keys of that job; `plane`: the plane `own`; `steps`: operations of each rank, of
    `seconds` and at most `within_s`; `actions`: more of its host_actions.
    """
    find = planes.find

    async def main(test: Test, entry: str, steps: int, within_s: float, seconds: float, actions: str) -> None:
        text = EXAMPLE.read_text().replace("host_actions: [", f"host_actions: [{actions}")
        text = text.replace("timing: polatis-opus", "timing: ideal").replace("timing: opus-cx6dx", "timing: ideal")
        text += f"\njobs:\n  go: {{command: [/bin/train], user: lab, hosts: [h0, h1], {entry}}}\n"
        path = tmp_path / "testbed.yaml"
        path.write_text(text)
        testbed = load(path).require()

        async def train(host: str, command: Sequence[str], environment: Mapping[str, str]) -> int:
            return await trains(world, host, environment, steps=steps, within_s=within_s, seconds=seconds)

        programs = {"/bin/train": train}
        records_url = f"sqlite:///{tmp_path / 'records.db'}"
        world = World(
            testbed,
            text,
            seed=7,
            records_url=records_url,
            programs=programs,
            data_dir=str(tmp_path),
            light_every_s=0.05,
        )
        async with world:
            await world.settled()
            await test(Lab(world, records_url))

    def run(
        test: Test,
        *,
        entry: str = STATIC,
        plane: Plane | None = None,
        steps: int = 3,
        within_s: float = 60.0,
        seconds: float = 0.2,
        actions: str = "route, ",
    ) -> None:
        own = None if plane is None else PlaneKind(make=lambda arguments: plane)
        for module in (planes, job_run):
            monkeypatch.setattr(module, "find", lambda name: find(name) if own is None else own)
        run_virtual(main(test, entry, steps, within_s, seconds, actions), seed=7)

    return run
