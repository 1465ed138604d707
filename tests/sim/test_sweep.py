"""A sweep goes on when its processes are renewed."""

import pytest

from hwd.sim.sweep import Sweep
from hwd_drivers.core.clock import SystemClock


@pytest.mark.slow
def test_each_seed_is_played_by_processes_that_are_renewed(capsys: pytest.CaptureFixture[str]) -> None:
    sweep = Sweep(first=0, count=3, workers=1, clock=SystemClock(), seeds_a_task=1, tasks_a_process=1)
    assert dict(sweep.failures()) == {}
    assert "3 of 3 worlds" in capsys.readouterr().err
