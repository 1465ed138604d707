"""Testbed files against what is installed here: drivers by their entry points, timings of twins."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hwd.config.check import check_file
from hwd.config.problem import Problem
from hwd.config.testbed import Loaded, load_testbed
from hwd.twin.timing import NIC_TIMINGS
from hwd_drivers.kit import registry
from hwd_drivers.kit.timing import SWITCH_TIMINGS


def load(path: str | Path) -> Loaded:
    """The testbed of a file and everything that is wrong in it."""
    return load_testbed(path, **_known())


def check(paths: Sequence[str | Path]) -> tuple[Problem, ...]:
    """Everything that is wrong in files of any kind. Playbooks and topologies are held against the testbed, where exactly one is among the files."""
    known = _known()
    testbeds = [found for path in paths if (found := load_testbed(path, **known).testbed) is not None]
    testbed = testbeds[0] if len(testbeds) == 1 else None
    return tuple(problem for path in paths for problem in check_file(path, testbed=testbed, **known))


def _known() -> dict[str, Any]:
    drivers = registry.installed()
    return {
        "specs": drivers.specs,
        "broken": drivers.broken,
        "switch_timings": tuple(SWITCH_TIMINGS),
        "host_timings": tuple(NIC_TIMINGS),
    }
