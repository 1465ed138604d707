"""Testbed files with the drivers and twin timings that are installed here."""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hwd.config.check import check_files
from hwd.config.testbed.testbed import Loaded, load_read, load_testbed
from hwd.config.yaml.problem import Problem
from hwd.twin.timing import NIC_TIMINGS
from hwd_drivers.devices import registry
from hwd_drivers.twins.timing import SWITCH_TIMINGS


def load(path: str | Path) -> Loaded:
    """The testbed of a file and everything that is wrong in it."""
    return load_testbed(path, **_known())


def check(paths: Sequence[str | Path], environment: Mapping[str, str] = os.environ) -> tuple[Problem, ...]:
    """Everything that is wrong in files of any kind; secrets that are not in the environment are warned of."""
    return check_files(paths, partial(load_read, environment=environment, **_known()))


def _known() -> dict[str, Any]:
    drivers = registry.installed()
    return {
        "specs": drivers.specs,
        "broken": drivers.broken,
        "switch_timings": tuple(SWITCH_TIMINGS),
        "host_timings": tuple(NIC_TIMINGS),
    }
